"""Solvers that are programs: started by a command, their figures read from what they print."""

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

from .machine import one_thread


@dataclass(frozen=True)
class ExternalSolver:
    """A command with {graph} and, if it wants one, {seed}."""

    name: str
    command: str
    seconds: str | None = None
    """Regular expression; its first group is a number of seconds."""
    cost: str | None = None

    @staticmethod
    def parse(text: str) -> ExternalSolver:
        """NAME=COMMAND of a command line."""
        name, _, command = text.partition('=')
        if not name or '{graph}' not in command:
            raise argparse.ArgumentTypeError(
                f'expected NAME=COMMAND with {{graph}} in the command, got {text!r}')
        return ExternalSolver(name, command)

    def reading(self, seconds: str | None, cost: str | None) -> ExternalSolver:
        """The solver with these expressions."""
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


def _last(expression: str | None, text: str) -> float:
    """Number in the first group of the last match; nan without."""
    matches = re.findall(expression, text) if expression else []
    if not matches:
        return math.nan
    match = matches[-1]
    return float(match if isinstance(match, str) else match[0])
