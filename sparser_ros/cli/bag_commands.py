"""`sparser bag`, `sparser simulate`, `sparser play`: bags of graphs and simulated robots, played.

`sparser play` publishes at the recorded rate where there is no `ros2 bag play`.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict

from ..config import ConfigError, SparserConfig, SparserError, walk
from ..config.simulation_config import SimulationConfig
from .console import SOLVED, show_warnings
from .options import (
    Kind,
    Reads,
    Writes,
    add_bag_output,
    add_config_options,
    config_from,
    write_report,
)

SIMULATION_OPTIONS = tuple(
    ('--' + option.name.replace('_', '-'), option.name,
     None if option.info.choices else 'N' if isinstance(option.default, int) else 'X')
    for option in walk(SimulationConfig))


def add_bag(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'bag', help='make a ROS 2 bag of a graph file',
        description='Write the messages from which the node builds this graph again: odometry, '
        'UWB ranges, landmark sightings, loop closures and position fixes. `ros2 bag play` plays '
        'the bag.')
    parser.add_argument('graph', action=Reads, kind=Kind.GRAPH, metavar='GRAPH',
                        help='.pyfg or .g2o file')
    add_bag_output(parser)
    parser.add_argument('--config', action=Writes, kind=Kind.PARAMETERS, metavar='C.yaml',
                        help='also write parameters with which the node rebuilds the graph')
    parser.set_defaults(run=run_bag)


def run_bag(args: argparse.Namespace) -> int:
    """Write the bag; print the counts of messages, and of measurements that it cannot hold."""
    from ..io import graph_bag, graph_file
    from ..io.atomic import write_parameters

    graph = graph_file.read(args.graph).validate()
    show_warnings(graph.remarks)
    if args.config:
        parameters = graph_bag.node_config(graph)
        try:
            SparserConfig.from_mapping(parameters)
        except ConfigError as error:
            raise ConfigError(f'{args.graph}: --config: its names make no parameters ({error}): '
                              'rename them in the graph, or leave out --config') from None
    report = graph_bag.write(
        args.output, graph, storage=args.storage, overwrite=args.force)
    if args.config:
        write_parameters(args.config, parameters)
    print(f'{args.output}: {report.odometry} odometry, {report.ranges} ranges, '
          f'{report.sightings} sightings, {report.closures} loop closures, {report.fixes} fixes')
    if report.left_out:
        print('left out, as these messages cannot say it: '
              + ', '.join(f'{count} {what}' for what, count in report.left_out.items()),
              file=sys.stderr)
    if report.ranges_ambiguous:
        print(f'{len(report.ranges_ambiguous)} ranges connect poses too far apart in time for one '
              'stamp; the node attaches them to neighbouring poses (first: row '
              f'{report.ranges_ambiguous[0]})', file=sys.stderr)
    return SOLVED


def add_simulate(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'simulate', help='make a ROS 2 bag of simulated robots',
        description='Simulate robots with odometry and UWB radios: a bag with odometry, ranges, '
        'loop closures and ground truth. The same seed gives the same bag.')
    add_bag_output(parser)
    parser.add_argument('--graph', action=Writes, kind=Kind.GRAPH, metavar='G.pyfg',
                        help=(
        'also write the graph of odometry, ranges and closures; its vertices are the truth'))
    parser.add_argument('--config', action=Writes, kind=Kind.PARAMETERS, metavar='C.yaml',
                        help='also write the parameters of the node for this bag')
    add_config_options(parser, SimulationConfig, SIMULATION_OPTIONS)
    parser.set_defaults(run=run_simulate)


def run_simulate(args: argparse.Namespace) -> int:
    """Simulate, write the bag and print the counts of messages."""
    config = config_from(args, SimulationConfig, SIMULATION_OPTIONS)
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


def add_play(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'play', help='publish a bag with /clock where there is no `ros2 bag play`',
        description='Publish the messages of a ROS 2 bag at their recorded times, with /clock.')
    parser.add_argument('bag', action=Reads, kind=Kind.BAG, metavar='BAG',
                        help='bag folder, .mcap or .db3 file')
    parser.add_argument('--rate', type=float, default=1.0, metavar='R',
                        help='multiple of real time (default 1)')
    parser.add_argument('--clock', type=float, default=100.0, metavar='HZ',
                        help='rate of /clock in wall time (default 100)')
    parser.add_argument('--exclude', nargs='*', default=[], metavar='TOPIC',
                        help='topics to leave out')
    parser.add_argument('--wait', type=float, default=5.0, metavar='S',
                        help='longest wait for the node to subscribe, whoever else listens, in s '
                        '(default 5)')
    parser.add_argument('--node', default='', metavar='NAME',
                        help='full name of the node, as /fleet/sparser (default: any of ours)')
    parser.add_argument('--report', action=Writes, kind=Kind.REPORT, metavar='R.json',
                        help='write the number of messages sent, per topic')
    parser.set_defaults(run=run_play)


def run_play(args: argparse.Namespace) -> int:
    """Play the bag; 0 = all sent, or stopped with Ctrl-C, 2 = bad input."""
    if not 0 <= args.wait < math.inf:
        raise ConfigError(f'--wait: expected a time of 0 s or more, got {args.wait}')
    try:
        from ..demo.player import playing
    except ImportError as error:
        raise SparserError(
            f'sparser play needs ROS 2 ({error}): source its setup file, or use dev/run') from None
    try:
        with playing(args.bag, rate=args.rate, clock_hz=args.clock,
                     exclude=tuple(args.exclude)) as player:
            player.wait_for_listeners(args.wait, args.node)
            if args.wait and not player.found_node:
                print(f'{args.node or "no sparser node"} did not come within {args.wait:g} s: '
                      'playing to whoever listens', file=sys.stderr)
            if player.misfit():
                raise ConfigError(f'{args.bag}: {player.misfit()}')
            report = player.play()
    except KeyboardInterrupt:
        # As `ros2 bag play`: who stops a bag has not met an error.
        return SOLVED
    write_report(args, asdict(report))
    for topic, reason in report.skipped.items():
        print(f'left out {topic}: {reason}', file=sys.stderr)
    for topic in report.unheard:
        print(f'no subscriber to {topic}', file=sys.stderr)
    print(f'{sum(report.sent.values())} messages of {report.bag_seconds:.1f} s '
          f'in {report.seconds:.1f} s')
    return SOLVED
