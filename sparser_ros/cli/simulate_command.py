"""`sparser simulate`: odometry, ranges and closures of simulated robots, with ground truth."""

from __future__ import annotations

import argparse

from ..config import ConfigError, walk
from ..config.simulation_config import SimulationConfig
from .bag_options import add_bag_options
from .config_options import add_config_options, config_from
from .exit_codes import SOLVED
from .path_options import Kind, Writes

OPTIONS = tuple(
    ('--' + option.name.replace('_', '-'), option.name,
     None if option.info.choices else 'N' if isinstance(option.default, int) else 'X')
    for option in walk(SimulationConfig))


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser simulate`; its options are those of `SimulationConfig`."""
    parser = subparsers.add_parser(
        'simulate', help='make a ROS 2 bag of simulated robots',
        description='Simulate robots with odometry and UWB radios: a bag with odometry, ranges, '
        'loop closures and ground truth. The same seed gives the same bag.')
    add_bag_options(parser)
    parser.add_argument('--graph', action=Writes, kind=Kind.GRAPH, metavar='G.pyfg',
                        help='also write the graph of all messages; its vertices are the truth')
    parser.add_argument('--config', action=Writes, kind=Kind.PARAMETERS, metavar='C.yaml',
                        help='also write the parameters of the node for this bag')
    add_config_options(parser, SimulationConfig, OPTIONS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Simulate, write the bag and print the counts of messages."""
    config = config_from(args, SimulationConfig, OPTIONS)
    if config.known_beacons > config.beacons:
        raise ConfigError(f'--known-beacons: {config.known_beacons} of {config.beacons} beacons '
                          'cannot be known')
    from ..io import graph_file
    from ..io.atomic import write_parameters
    from ..io.simulation import Simulation, graph_of, node_config, write_bag

    simulation = Simulation(config)
    counts = write_bag(
        args.output, simulation, storage=args.storage, overwrite=args.force)
    if args.graph:
        graph_file.write(args.graph, graph_of(simulation))
    if args.config:
        write_parameters(args.config, node_config(simulation))
    outliers = int(simulation.exchanges.outlier.sum())
    print(f'{args.output}: {len(simulation.robots)} robots, {config.minutes:g} min; '
          + ', '.join(f'{count} {kind}' for kind, count in counts.items())
          + f' ({outliers} without line of sight)')
    return SOLVED
