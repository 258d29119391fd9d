"""`sparser bag`: a graph file as a ROS 2 bag that rebuilds it in the node."""

from __future__ import annotations

import argparse
import sys

from .bag_options import add_bag_options
from .exit_codes import SOLVED
from .path_options import Kind, Reads, Writes
from .warnings_text import show_warnings


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser bag`."""
    parser = subparsers.add_parser(
        'bag', help='make a ROS 2 bag of a graph file',
        description='Write the messages from which the node builds this graph again: odometry, '
        'UWB ranges, landmark sightings, loop closures and position fixes. `ros2 bag play` plays '
        'the bag.')
    parser.add_argument('graph', action=Reads, kind=Kind.GRAPH, metavar='GRAPH',
                        help='.pyfg or .g2o file')
    add_bag_options(parser)
    parser.add_argument('--config', action=Writes, kind=Kind.PARAMETERS, metavar='C.yaml',
                        help='also write parameters with which the node rebuilds the graph')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the bag; print the counts of messages, and of measurements that it cannot hold."""
    from ..io import graph_bag, graph_file
    from ..io.atomic import write_parameters

    graph = graph_file.read(args.graph).validate()
    show_warnings(graph.remarks)
    report = graph_bag.write(
        args.output, graph, storage=args.storage, overwrite=args.force)
    if args.config:
        write_parameters(args.config, graph_bag.node_config(graph))
    print(f'{args.output}: {report.odometry} odometry, {report.ranges} ranges, '
          f'{report.sightings} sightings, {report.closures} loop closures, {report.fixes} fixes')
    if report.sightings_left_out:
        print(f'left out: {report.sightings_left_out} sightings of robots; messages are about '
              'landmarks', file=sys.stderr)
    if report.ranges_ambiguous:
        print(f'{len(report.ranges_ambiguous)} ranges connect poses too far apart in time for one '
              'stamp; the node attaches them to neighbouring poses (first: row '
              f'{report.ranges_ambiguous[0]})', file=sys.stderr)
    if report.ranges_merged:
        print(f'{len(report.ranges_merged)} ranges come within 25 ms of another range of the '
              'same radios; the node may merge the two', file=sys.stderr)
    return SOLVED
