"""Command-line arguments common to several benchmarks, and other solvers run as programs."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import time
from pathlib import Path

from .table import median, one_thread


def parser(
    name: str, description: str, *, data: bool = True, sets: bool = True, seeds: int | None = None,
    timeout_s: float | None = None,
) -> argparse.ArgumentParser:
    """A parser with --out, and where they are asked for --data, --sets, --seeds, --timeout."""
    made = argparse.ArgumentParser(prog=f'python -m benchmark.{name}', description=description)
    made.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    if data:
        made.add_argument('--data', type=Path, metavar='DIR',
                          help='folder with g2o/ and pyfg/ (default: SPARSER_DATA)')
    if data and sets:
        made.add_argument('--sets', nargs='*', metavar='NAME', help='only these sets')
    if seeds is not None:
        made.add_argument('--seeds', type=int, default=seeds, metavar='N',
                          help=f'runs of each case (default {seeds})')
    if timeout_s is not None:
        made.add_argument('--timeout', type=float, default=timeout_s, metavar='S',
                          help=f'longest time for all runs of a case (default {timeout_s:g} s)')
    return made


def add_external(made: argparse.ArgumentParser) -> None:
    """--external, for solvers that are programs of their own: (name, command) of each."""
    made.add_argument(
        '--external', action='append', default=[], type=_external, metavar='NAME=COMMAND',
        help='another solver to measure, e.g. "SE-Sync=/opt/bin/SE-Sync {graph}"; {graph} is the '
        'path of the set, {seed} the number of the run')


def _external(text: str) -> tuple[str, str]:
    name, _, command = text.partition('=')
    if not name or '{graph}' not in command:
        raise argparse.ArgumentTypeError(
            f'expected NAME=COMMAND with {{graph}} in the command, got {text!r}')
    return name, command


def external_seconds(command: str, graph: Path, seeds: int, timeout_s: float) -> float | str:
    """Median wall seconds of a program, one run per seed; the first error where a run failed."""
    seconds = []
    for seed in range(seeds):
        arguments = [part.replace('{graph}', str(graph)).replace('{seed}', str(seed))
                     for part in shlex.split(command)]
        start = time.perf_counter()
        try:
            done = subprocess.run(
                arguments, env=one_thread(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, errors='replace')
        except FileNotFoundError:
            return f'{arguments[0]}: no such program'
        except subprocess.TimeoutExpired:
            return f'no result within {timeout_s:g} s'
        if done.returncode:
            last = done.stdout.strip().splitlines()[-1:] or ['']
            return f'exit code {done.returncode}: {last[0]}'
        seconds.append(time.perf_counter() - start)
    return median(seconds)
