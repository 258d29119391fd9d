"""`sparser bag`: a graph file as a ROS 2 bag that rebuilds it in the node."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser bag`."""
    parser = subparsers.add_parser(
        'bag', help='make a ROS 2 bag of a graph file',
        description='Write what sensors would have sent to give this graph: odometry, UWB '
        'ranges, loop closures and position fixes, playable by `ros2 bag play`.')
    parser.add_argument('graph', type=Path, metavar='GRAPH', help='.pyfg or .g2o file')
    parser.add_argument('-o', '--output', type=Path, required=True, metavar='BAG',
                        help='folder to make, or a file ending in .mcap')
    parser.add_argument('--storage', choices=('sqlite3', 'mcap'),
                        help='storage plugin (default sqlite3; mcap for a name ending in .mcap)')
    parser.add_argument('--config', type=Path, metavar='C.yaml',
                        help='also write parameters with which the node rebuilds the graph')
    parser.add_argument('--force', action='store_true', help='replace an existing bag')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the bag and say what it holds, and what it cannot."""
    from ..io import graph_bag, graph_config, graph_file
    from ..io.ros_yaml import write as write_parameters

    graph = graph_file.read(args.graph).validate()
    report = graph_bag.write(
        args.output, graph, storage=args.storage, overwrite=args.force)
    if args.config:
        write_parameters(args.config, graph_config.node_config(graph))
    print(f'{args.output}: {report.odometry} odometry, {report.ranges} ranges, '
          f'{report.closures} loop closures, {report.fixes} fixes')
    if report.sightings_left_out:
        print(f'left out: {report.sightings_left_out} landmark sightings, for which there is no '
              'topic', file=sys.stderr)
    if report.ranges_ambiguous:
        print(f'{len(report.ranges_ambiguous)} ranges join poses too far apart in time for one '
              f'stamp; they will attach to neighbours (first: row {report.ranges_ambiguous[0]})',
              file=sys.stderr)
    if report.ranges_merged:
        print(f'{len(report.ranges_merged)} ranges come within 25 ms of another one of the same '
              'radios and may be merged with it', file=sys.stderr)
    return 0
