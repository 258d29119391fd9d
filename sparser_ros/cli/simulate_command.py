"""`sparser simulate`: odometry, ranges and closures of simulated robots, with ground truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..config import ConfigError, build, walk
from ..config.simulation_config import SimulationConfig
from .bag_options import add_bag_options
from .exit_codes import SOLVED


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser simulate`; its options are those of `SimulationConfig`."""
    parser = subparsers.add_parser(
        'simulate', help='make a ROS 2 bag of simulated robots',
        description='Simulate robots with odometry and UWB radios: a bag with odometry, ranges, '
        'loop closures and ground truth. The same seed gives the same bag.')
    add_bag_options(parser)
    parser.add_argument('--graph', type=Path, metavar='G.pyfg',
                        help='also write the graph of all messages; its vertices are the truth')
    parser.add_argument('--config', type=Path, metavar='C.yaml',
                        help='also write the parameters of the node for this bag')
    for option in walk(SimulationConfig):
        info = option.info
        unit = f' [{info.unit}]' if info.unit else ''
        kind: Any = int if isinstance(option.default, int) else float
        parser.add_argument(
            _flag(option.name), dest=option.name, type=kind, choices=info.choices,
            metavar=None if info.choices else 'N' if kind is int else 'X',
            help=f'{info.doc}{unit} (default {option.default})')
    parser.set_defaults(run=run)


def _flag(name: str) -> str:
    return '--' + name.replace('_', '-')


def run(args: argparse.Namespace) -> int:
    """Simulate, write the bag and print the counts of messages."""
    values = {o.name: getattr(args, o.name) for o in walk(SimulationConfig)}
    try:
        config = build(SimulationConfig, {k: v for k, v in values.items() if v is not None})
    except ConfigError as error:
        name, colon, text = str(error).partition(':')
        raise ConfigError(f'{_flag(name)}{colon}{text}') from None
    from ..io import pyfg, simulation_output
    from ..io.ros_yaml import write as write_parameters
    from ..io.simulation import Simulation

    simulation = Simulation(config)
    counts = simulation_output.write_bag(
        args.output, simulation, storage=args.storage, overwrite=args.force)
    if args.graph:
        pyfg.write(args.graph, simulation_output.graph_of(simulation))
    if args.config:
        write_parameters(args.config, simulation_output.node_config(simulation))
    outliers = int(simulation.exchanges.outlier.sum())
    print(f'{args.output}: {len(simulation.robots)} robots, {config.minutes:g} min; '
          + ', '.join(f'{count} {kind}' for kind, count in counts.items())
          + f' ({outliers} without line of sight)')
    return SOLVED
