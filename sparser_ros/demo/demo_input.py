"""Input of the demo: a bag, and the parameters of the node for it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import FormatError
from ..config.simulation_config import SimulationConfig
from ..config.sparser import SparserConfig, load_yaml
from ..config.yaml_file import merged
from ..graph import Graph
from ..io import atomic, graph_bag, graph_file, simulation
from ..io.bag import BagReader, is_bag
from ..io.graph_bag import node_config
from ..io.simulation import Simulation

GRAPH_SUFFIXES = ('.pyfg', '.g2o')
SIMULATION: dict[str, Any] = {'minutes': 3.0, 'outliers': 0.05}
"""Options of the bundled simulation: length, and share of ranges without line of sight."""


@dataclass(frozen=True)
class DemoInput:
    """A bag, the parameters that fit it, and the graph it was made of."""

    name: str
    bag: Path
    parameters: dict[str, Any]
    graph: Graph | None = None
    """None for a recording."""
    odom_frame: str = '{robot}/odom'
    truth: Graph | None = None
    """A graph with every true pose and its stamp; None where the truth is unknown."""


def prepare(source: Path | None, config: Path | None, scratch: Path, seed: int = 0) -> DemoInput:
    """The bag, made for a graph or for None; FormatError or ConfigError for bad input."""
    given = load_yaml(config) if config is not None else {}
    graph = truth = None
    if source is None:
        name, bag, parameters, truth = _simulated(scratch, seed)
    elif source.suffix in GRAPH_SUFFIXES:
        graph = graph_file.read(source)
        name, bag, parameters = source.stem, scratch / 'bag', node_config(graph)
        graph_bag.write(bag, graph)
    elif is_bag(source):
        name, bag = source.stem, source
        parameters = {} if 'robots' in given else {'robots': robots_in(source)}
    else:
        raise FormatError(source, None, 'expected a graph (.pyfg, .g2o) or a ROS 2 bag')
    parameters = merged(parameters, given)
    checked = SparserConfig.from_mapping(parameters)
    return DemoInput(name, bag, parameters, graph, checked.frames.odom, truth)


def _simulated(scratch: Path, seed: int) -> tuple[str, Path, dict[str, Any], Graph]:
    """(name, bag, parameters, truth): 3 robots, 6 beacons of unknown position, 5 % false ranges."""
    run = Simulation(SimulationConfig(seed=seed, **SIMULATION))
    bag = scratch / 'bag'
    simulation.write_bag(bag, run)
    parameters = simulation.node_config(run)
    return 'simulation', bag, parameters, simulation.graph_of(run)


def robots_in(bag: Path) -> list[str]:
    """Robots that have a topic `/<robot>/odom`; FormatError when there is none."""
    topics = BagReader(bag).topics
    robots = sorted(
        match[1] for topic, kind in topics.items()
        if kind == 'nav_msgs/msg/Odometry' and (match := re.fullmatch(r'/([^/]+)/odom', topic)))
    if not robots:
        raise FormatError(
            bag, None, 'no topic /<robot>/odom of nav_msgs/Odometry; pass --config with `robots` '
            f'and the topics. It has: {", ".join(sorted(topics))}')
    return robots


def write_parameters(path: Path, parameters: Mapping[str, Any]) -> None:
    """Write a ROS parameter file without empty lists, which have no type in ROS."""
    atomic.write_parameters(path, _sendable(parameters))


def _sendable(values: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            inner = _sendable(value)
            if inner:
                result[str(key)] = inner
        elif isinstance(value, (list, tuple)):
            if any(isinstance(item, float) for item in value):
                value = [float(item) for item in value]
            if value:
                result[str(key)] = list(value)
        elif value is not None:
            result[str(key)] = value
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `./dev/demo`."""
    parser.add_argument('input', nargs='?', type=Path, metavar='GRAPH.pyfg | BAG',
                        help='graph or bag to play (default: a bundled simulation)')
    parser.add_argument('--rate', type=float, metavar='R',
                        help='multiple of real time (default: 1, or what plays the bag in 90 s)')
    parser.add_argument('--config', type=Path, metavar='C.yaml',
                        help='parameters of the node; they replace those chosen for the input')
    parser.add_argument('--out', type=Path, metavar='DIR',
                        help='folder of results, emptied first (default out)')
    parser.add_argument('--animation', action='store_true',
                        help='also draw the map as it grew, as an animated picture (map.gif)')
    parser.add_argument('--settle', type=float, default=60.0, metavar='S',
                        help='longest wait for the last solution, in s (default 60)')
    parser.add_argument('--seed', type=int, default=0, help='seed of the simulation')
    parser.add_argument('--clock', type=float, default=100.0, metavar='HZ',
                        help='rate of /clock in wall time (default 100)')
