"""Options of the subcommands that write a bag."""

from __future__ import annotations

import argparse

from .path_options import Kind, Writes, add_force


def add_bag_options(parser: argparse.ArgumentParser) -> None:
    """Declare --output, --storage and --force."""
    parser.add_argument('-o', '--output', action=Writes, kind=Kind.BAG, required=True,
                        metavar='BAG', help='folder to make, or a file ending in .mcap')
    parser.add_argument('--storage', choices=('sqlite3', 'mcap'),
                        help='storage plugin (default sqlite3; mcap for a name ending in .mcap)')
    add_force(parser)
