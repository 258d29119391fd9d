"""Command-line arguments common to several benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path

from .external import ExternalSolver


def parser(name: str, description: str, *, seeds: int, timeout_s: float) -> argparse.ArgumentParser:
    """A parser with --data, --sets, --seeds, --out, --timeout."""
    made = argparse.ArgumentParser(prog=f'python -m benchmark.{name}', description=description)
    made.add_argument('--data', type=Path, metavar='DIR',
                      help='folder with g2o/ and pyfg/ (default: SPARSER_DATA)')
    made.add_argument('--sets', nargs='+', metavar='NAME', help='only these sets')
    made.add_argument('--seeds', type=int, default=seeds, metavar='N',
                      help=f'runs per set (default {seeds})')
    made.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    made.add_argument('--timeout', type=float, default=timeout_s, metavar='S',
                      help=f'longest time for all runs of one set (default {timeout_s:g} s)')
    return made


def add_external(made: argparse.ArgumentParser) -> None:
    """--external, for a solver that is a program of its own."""
    made.add_argument(
        '--external', action='append', default=[], type=ExternalSolver.parse,
        metavar='NAME=COMMAND',
        help='another solver to measure, e.g. "SE-Sync=/opt/bin/SE-Sync {graph}"; {graph} is the '
        'path of the set, {seed} the number of the run')
    made.add_argument(
        '--external-seconds', metavar='REGEX',
        help='its seconds in its output (first group); default: wall time')
    made.add_argument(
        '--external-cost', metavar='REGEX', help='its cost in its output (first group)')


def externals(args: argparse.Namespace) -> list[ExternalSolver]:
    """The external solvers of a command line."""
    return [s.reading(args.external_seconds, args.external_cost) for s in args.external]
