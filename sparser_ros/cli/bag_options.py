"""Options of the subcommands that write a bag."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_bag_options(parser: argparse.ArgumentParser) -> None:
    """Declare --output, --storage and --force."""
    parser.add_argument('-o', '--output', type=Path, required=True, metavar='BAG',
                        help='folder to make, or a file ending in .mcap')
    parser.add_argument('--storage', choices=('sqlite3', 'mcap'),
                        help='storage plugin (default sqlite3; mcap for a name ending in .mcap)')
    parser.add_argument('--force', action='store_true', help='replace an existing bag')
