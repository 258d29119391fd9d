"""Command-line arguments common to several benchmarks, and other solvers run as programs."""

from __future__ import annotations

import argparse
import math
import re
import resource
import shlex
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .table import median, one_thread


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


@dataclass(frozen=True)
class ExternalSolver:
    """A command with placeholders {graph} and, optionally, {seed}."""

    name: str
    command: str
    seconds: str | None = None
    """Regular expression whose first group is a number of seconds; None = wall time."""
    cost: str | None = None
    """Regular expression whose first group is the cost."""

    @staticmethod
    def parse(text: str) -> ExternalSolver:
        """NAME=COMMAND of a command line."""
        name, _, command = text.partition('=')
        if not name or '{graph}' not in command:
            raise argparse.ArgumentTypeError(
                f'expected NAME=COMMAND with {{graph}} in the command, got {text!r}')
        return ExternalSolver(name, command)

    def reading(self, seconds: str | None, cost: str | None) -> ExternalSolver:
        """A copy with these expressions."""
        return replace(self, seconds=seconds, cost=cost)

    def run(self, graph: Path, seed: int, timeout_s: float) -> dict[str, Any]:
        """seconds, cpu_s and cost of one run, or {'error': …}."""
        arguments = [
            part.replace('{graph}', str(graph)).replace('{seed}', str(seed))
            for part in shlex.split(self.command)
        ]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        try:
            done = subprocess.run(
                arguments, env=one_thread(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, errors='replace')
        except FileNotFoundError:
            return {'error': f'{arguments[0]}: no such program'}
        except subprocess.TimeoutExpired:
            return {'error': f'no result within {timeout_s:g} s'}
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            last = done.stdout.strip().splitlines()[-1:] or ['']
            return {'error': f'exit code {done.returncode}: {last[0]}'}
        found = _last(self.seconds, done.stdout)
        return {
            'wall_s': wall if self.seconds is None else found,
            'cpu_s': after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            'cost': _last(self.cost, done.stdout),
        }

    def median_seconds(self, graph: Path, seeds: int, timeout_s: float) -> float | str:
        """Median wall seconds of one run per seed; the first error where a run failed."""
        runs = [self.run(graph, seed, timeout_s) for seed in range(seeds)]
        failed = [run['error'] for run in runs if 'error' in run]
        return str(failed[0]) if failed else median([run['wall_s'] for run in runs])


def _last(expression: str | None, text: str) -> float:
    """Number in the first group of the last match; nan without."""
    matches = re.findall(expression, text) if expression else []
    if not matches:
        return math.nan
    match = matches[-1]
    return float(match if isinstance(match, str) else match[0])
