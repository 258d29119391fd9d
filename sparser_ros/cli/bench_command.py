"""`sparser bench NAME`: measures one table of the docs, in a checkout."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from ..config import SparserError

NAMES = ('paper', 'practitioner', 'formulations', 'sweep', 'preconditioners', 'scale',
         'profiling', 'online', 'incremental', 'robust', 'integrity', 'nees', 'certificate',
         'bounds', 'calibration', 'days', 'disturbed', 'geometry', 'gpu', 'second_drive',
         'sensitivity', 'thinning')


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser bench`."""
    parser = subparsers.add_parser(
        'bench', help='measure a table of docs/benchmarks.md',
        description='Measure one table; `sparser bench NAME --help` lists its options. Needs a '
        'checkout of the repository: benchmark/ is not installed.')
    parser.add_argument('name', metavar='NAME', choices=NAMES, help=', '.join(NAMES))
    parser.add_argument('arguments', nargs=argparse.REMAINDER, metavar='…',
                        help='options of that table')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure the table; SparserError outside a checkout, where benchmark/ is missing."""
    root = Path(__file__).resolve().parents[2]
    for place in (root, Path.cwd()):
        if (place / 'benchmark' / f'{args.name}.py').is_file():
            if str(place) not in sys.path:
                sys.path.insert(0, str(place))
            return int(importlib.import_module(f'benchmark.{args.name}').main(args.arguments))
    raise SparserError(
        f'no benchmark/{args.name}.py: run `sparser bench` in a checkout of the repository')
