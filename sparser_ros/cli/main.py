"""The `sparser` command: one module `NAME_command` per subcommand.

Exit codes: 0 done, 2 bad input (the message says what to do), 3 not converged or parts of the map
undetermined (the best result is written), 130 interrupted. The modules declare their options only;
they import the solver, plots and ROS when they run, so that `--help` and bad arguments answer at
once.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from .exit_codes import BAD_INPUT, INTERRUPTED, SOLVED

SUBCOMMANDS = ('solve', 'bag', 'simulate', 'replay', 'calibrate', 'play', 'bench', 'info',
               'report', 'study', 'doctor')
SOLVING = ('solve', 'replay', 'calibrate')
"""Commands whose large arrays come and go."""
OBJECTS_PER_COLLECTION = 200_000
"""New objects after which Python searches for garbage in cycles; its own choice is 700."""


def command() -> int:
    """`main` as all that a process does; returns the exit code.

    What is imported stays to the end. Searching it for garbage, while it is loaded and at the end,
    takes a fifth of the CPU time of a short command.
    """
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or pipe that knows ASCII only gets escapes for names in other letters.
            stream.reconfigure(errors='backslashreplace')
    code = main()
    gc.freeze()
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return INTERRUPTED


def _main(argv: Sequence[str] | None) -> int:
    """The same without Ctrl-C, which may come while a module of the package is imported."""
    from ..config.errors import SparserError

    # Every solve uses one thread of BLAS. OpenBLAS would start others while numpy is imported,
    # and they spin for 0.1 s, a sixth of the CPU time of a short command.
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
    try:
        return _run(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    except SparserError as error:
        print(f'sparser: {error}', file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The program that read our output has ended (`sparser solve … | head`).
        _print_no_more()
        return SOLVED
    except OSError as error:
        # A file that no reader or writer has put into words, or a full disk behind stdout.
        if error.filename is None:
            _print_no_more()
        where = f'{error.filename}: ' if error.filename is not None else ''
        print(f'sparser: {where}{error.strerror or error}', file=sys.stderr)
        return BAD_INPUT


def _run(argv: Sequence[str] | None) -> int:
    from .path_options import checked

    args = parser().parse_args(argv)
    if args.command in SOLVING:
        from ..linalg.memory import keep_freed_memory

        keep_freed_memory()
    with checked(args):
        code = int(args.run(args))
    sys.stdout.flush()
    return code


def _print_no_more() -> None:
    """The interpreter would write what is left to stdout at exit, and fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """The parser with all subcommands."""
    from .. import __version__
    from .suggesting_parser import SuggestingParser

    top = SuggestingParser(
        prog='sparser',
        description='Range-aided multi-robot SLAM: solve graphs and bags, make and play bags.')
    top.add_argument('--version', action='version', version=f'sparser {__version__}')
    subparsers = top.add_subparsers(dest='command', metavar='COMMAND', required=True)
    for name in SUBCOMMANDS:
        importlib.import_module(f'{__package__}.{name}_command').add_parser(subparsers)
        subparsers.choices[name].set_defaults(parser=subparsers.choices[name])
    return top
