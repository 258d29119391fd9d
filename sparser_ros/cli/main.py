"""The `sparser` command: its parser, and what becomes of errors.

The modules of the subcommands declare their options only; they import the solver, plots and ROS
when they run, so that `--help` and bad arguments answer at once.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from .console import BAD_INPUT, INTERRUPTED, SOLVED

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
    """Run the command line; returns the exit code.

    Modules of the package are imported here and below: Ctrl-C may come while one loads.
    """
    try:
        from ..config.errors import SparserError

        # Every solve uses one thread of BLAS. OpenBLAS would start others while numpy is imported,
        # and they spin for 0.1 s, a sixth of the CPU time of a short command.
        os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
        try:
            return _run(argv)
        except SparserError as error:
            print(f'sparser: {error}', file=sys.stderr)
            return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as stop:
        return int(stop.code or 0)
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
    from .options import checked

    args = parser().parse_args(argv)
    if args.command in SOLVING:
        from ..linalg.process import keep_freed_memory

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
    """The parser with all subcommands, in the order of the help."""
    from .. import __version__
    from . import (
        bag_commands,
        calibrate_command,
        doctor_command,
        info_command,
        replay_command,
        result_commands,
        solve_command,
    )

    top = SuggestingParser(
        prog='sparser',
        description='Range-aided multi-robot SLAM: solve graphs and bags, make and play bags.')
    top.add_argument('--version', action='version', version=f'sparser {__version__}')
    subparsers = top.add_subparsers(dest='command', metavar='COMMAND', required=True)
    for add in (
            solve_command.add_solve, bag_commands.add_bag, bag_commands.add_simulate,
            replay_command.add_replay, calibrate_command.add_calibrate, bag_commands.add_play,
            result_commands.add_bench, info_command.add_info, result_commands.add_report,
            result_commands.add_study, doctor_command.add_doctor):
        add(subparsers)
    for command_parser in subparsers.choices.values():
        command_parser.set_defaults(parser=command_parser)
    return top


class SuggestingParser(argparse.ArgumentParser):
    """An argument parser whose errors name the option, command or choice probably meant."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and the message on stderr; twenty lines of usage would hide it."""
        self.exit(2, f'{self.prog}: {message}{self._hint(message)} '
                  f'(`{self.prog} --help` lists what there is)\n')

    def _hint(self, message: str) -> str:
        unknown = re.match(r'unrecognized arguments: (.*)', message)
        if unknown:
            wrong = [word.partition('=')[0] for word in unknown[1].split() if word[0] == '-']
            return _suggestion(wrong, self.options())
        if 'are required: ' in message:
            # What is missing may be there, mistyped.
            known = self.options()
            wrong = [name for word in self._given if (name := word.partition('=')[0])[:2] == '--'
                     and not any(option.startswith(name) for option in known)]
            return f', and {wrong[0]} is unknown{_suggestion(wrong, known)}' if wrong else ''
        choice = re.search(r"invalid choice: '?([^' ]+)'? \(choose from (.*)\)", message)
        if choice:
            return _suggestion([choice[1]], re.findall(r"[^\s',]+", choice[2]))
        return ''

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the parent, which calls it for subcommands as well; keeps the words for a hint."""
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def options(self) -> set[str]:
        """All options of this parser and of its subcommands."""
        options = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for subparser in action.choices.values():
                    options |= set(subparser._option_string_actions)
        return options

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Parse; what is left over is reported by the subcommand that it was meant for."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            getattr(parsed, 'parser', self).error(f'unrecognized arguments: {" ".join(rest)}')
        return parsed


def _suggestion(wrong: Iterable[str], known: Iterable[str]) -> str:
    options = sorted(known)
    near = [hit for word in wrong for hit in difflib.get_close_matches(word, options, n=1)]
    return f'; did you mean {", ".join(near)}?' if near else ''
