"""The `sparser` command: one module per subcommand, loaded only when it runs.

Exit codes: 0 done, 2 bad input (the message says what to do), 3 not converged (the best result is
written), 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from .. import __version__
from ..config import SparserError
from ..linalg.memory import keep_freed_memory

SUBCOMMANDS = ('solve', 'bag', 'simulate', 'replay', 'play', 'bench')
BAD_INPUT = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    keep_freed_memory()
    try:
        return int(args.run(args))
    except SparserError as error:
        print(f'sparser: {error}', file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader of our output is gone; keep the interpreter from flushing into it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    top = argparse.ArgumentParser(
        prog='sparser',
        description='Range-aided multi-robot SLAM: solve graphs and bags, make and play bags.')
    top.add_argument('--version', action='version', version=f'sparser {__version__}')
    subparsers = top.add_subparsers(metavar='COMMAND', required=True)
    for name in SUBCOMMANDS:
        importlib.import_module(f'{__package__}.{name}').add_parser(subparsers)
    return top
