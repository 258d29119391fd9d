"""`sparser play`: publish a bag at its recorded rate where there is no `ros2 bag play`."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict

from ..config import ConfigError, SparserError
from .exit_codes import SOLVED
from .path_options import Kind, Reads, Writes, write_report


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser play`."""
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
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
