"""`sparser simulate`: raw-rate sensor data of robots in a field, with ground truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..config import ConfigError, build, walk
from ..config.simulation import SimulationConfig


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser simulate`; its options are those of `SimulationConfig`."""
    parser = subparsers.add_parser(
        'simulate', help='make a ROS 2 bag of simulated robots',
        description='Simulate robots with odometry and UWB radios: a bag with odometry, ranges, '
        'loop closures and ground truth. The same seed gives the same bag.')
    parser.add_argument('-o', '--output', type=Path, required=True, metavar='BAG',
                        help='folder to make, or a file ending in .mcap')
    parser.add_argument('--storage', choices=('sqlite3', 'mcap'),
                        help='storage plugin (default sqlite3; mcap for a name ending in .mcap)')
    parser.add_argument('--graph', type=Path, metavar='G.pyfg',
                        help='also write the graph of all messages, with the truth in it')
    parser.add_argument('--config', type=Path, metavar='C.yaml',
                        help='also write the parameters of the node for this bag')
    parser.add_argument('--force', action='store_true', help='replace an existing bag')
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
    """Simulate, write, and say what was written."""
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
    return 0
