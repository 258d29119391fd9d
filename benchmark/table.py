"""What all commands share: arguments, tables as JSON and Markdown, other solvers as programs."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

Row = dict[str, Any]
T = TypeVar('T')
THREADS = (
    'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'NUMBA_NUM_THREADS',
    'TBB_NUM_THREADS',
)


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


def timed(work: Callable[..., T], *arguments: Any) -> tuple[T, float, float]:
    """What a function returns, and its seconds by the wall clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work(*arguments)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def rmse(error: Any) -> float:
    return math.sqrt(statistics.fmean(error**2))


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of the finite values, nan of nothing."""
    finite = [v for v in values if math.isfinite(v) and v > 0]
    return math.exp(statistics.fmean(map(math.log, finite))) if finite else math.nan


def shown(value: object) -> str:
    """Text of a cell: three significant digits, a dash for an unknown value."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return '–'
    if isinstance(value, float):
        return f'{value:.3g}' if abs(value) < 1000 else f'{value:.0f}'
    return str(value)


def one_thread() -> dict[str, str]:
    return {**os.environ, **dict.fromkeys(THREADS, '1')}


def load() -> float:
    """Mean number of runnable processes over the last minute."""
    return round(os.getloadavg()[0], 2)


def describe() -> dict[str, object]:
    """Machine, date and load, for the head of a table."""
    cpu = Path('/proc/cpuinfo')
    name = re.search('model name.*: (.*)', cpu.read_text()) if cpu.exists() else None
    return {
        'processor': name[1] if name else platform.machine(), 'cores': os.cpu_count(),
        'python': platform.python_version(),
        'date': time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime()), 'load_start': load()}


class Table:
    """Rows of a running benchmark; every new row is printed and saved at once."""

    def __init__(
        self, name: str, title: str, columns: dict[str, str], out: Path, program: str = '',
    ) -> None:
        """`columns`: key of a row to its heading; `program`: of the table, if not its name."""
        self.name, self.title, self.columns, self.out = name, title, columns, out
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.head = describe()
        self.command = ' '.join(['python -m', f'benchmark.{program or name}', *sys.argv[1:]])
        out.mkdir(parents=True, exist_ok=True)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print('  '.join(f'{h}: {shown(row.get(k))}' for k, h in self.columns.items()), flush=True)
        self.save()

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.save()

    def markdown(self) -> str:
        """Title, origin, table, notes."""
        head = self.head
        lines = [
            f'### {self.title}', '',
            f'`{self.command}` · {head["processor"]}, {head["cores"]} cores, one thread · '
            f'{head["date"]} · load {head["load_start"]} at the start, {load()} at the end',
            '', '| ' + ' | '.join(self.columns.values()) + ' |',
            '|' + '---|' * len(self.columns),
        ]
        lines += ['| ' + ' | '.join(shown(row.get(k)) for k in self.columns) + ' |'
                  for row in self.rows]
        return '\n'.join([*lines, '', *self.notes, ''])

    def save(self) -> None:
        """`out`/NAME.json and NAME.md."""
        data = {**self.head, 'load_end': load(), 'command': self.command,
                'title': self.title, 'rows': self.rows, 'notes': self.notes}
        (self.out / f'{self.name}.json').write_text(json.dumps(data, indent=1, default=str))
        (self.out / f'{self.name}.md').write_text(self.markdown())


def parser(
    name: str, description: str, *, data: bool = True, sets: bool = True, seeds: int | None = None,
    timeout_s: float | None = None,
) -> argparse.ArgumentParser:
    """A parser with --out, and where they are asked for --data, --sets, --seeds, --timeout."""
    made = argparse.ArgumentParser(prog=f'python -m benchmark.{name}', description=description)
    made.add_argument('--out', type=Path, default=Path('out_bench'), metavar='DIR')
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


def add_gtsam(made: argparse.ArgumentParser, timeout_s: float) -> None:
    """--gtsam-python, --gtsam-timeout and --no-gtsam."""
    made.add_argument('--gtsam-python', default=sys.executable, metavar='PYTHON',
                      help='interpreter that has gtsam')
    made.add_argument('--gtsam-timeout', type=float, default=timeout_s, metavar='S',
                      help=f'longest time for one run of GTSAM (default {timeout_s:g} s)')
    made.add_argument('--no-gtsam', action='store_true')


def run_main(main: Callable[[list[str] | None], int]) -> None:
    """Run a benchmark as a program; SparserError is printed without a traceback."""
    from sparser_ros.config import SparserError

    try:
        sys.exit(main(None))
    except SparserError as error:
        print(f'benchmark: {error}', file=sys.stderr)
        sys.exit(2)
