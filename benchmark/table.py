"""Tables: JSON for machines, Markdown for the docs, with the machine that they were made on."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
THREADS = (
    'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'NUMBA_NUM_THREADS',
    'TBB_NUM_THREADS',
)


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


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


def elsewhere(arguments: Sequence[str]) -> list[str]:
    """Arguments for another machine: without folders, programs by their names."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in ('--out', '--data'):
            next(rest, None)
        elif not argument.startswith(('--out=', '--data=')):
            kept.append(Path(argument).name if argument.startswith('/') else argument)
    return kept


def one_thread() -> dict[str, str]:
    return {**os.environ, **dict.fromkeys(THREADS, '1')}


def processor() -> str:
    """Name of the processor, as the system tells it."""
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return names[0] if names else platform.machine()


def load() -> float:
    """Load of the machine: mean number of runnable processes over the last minute."""
    return round(os.getloadavg()[0], 2)


def describe() -> dict[str, object]:
    """Machine, date and load, for the head of a table."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        'processor': processor(),
        'cores': os.cpu_count(),
        'python': platform.python_version(),
        'date': now.strftime('%Y-%m-%d %H:%M UTC'),
        'load_start': load(),
    }


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
        self.command = ' '.join([
            'python -m', f'benchmark.{program or name}', *elsewhere(sys.argv[1:])])
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


def run_main(main: Callable[[list[str] | None], int]) -> None:
    """Run a benchmark as a program; SparserError is printed without a traceback."""
    from sparser_ros.config import SparserError

    try:
        sys.exit(main(None))
    except SparserError as error:
        print(f'benchmark: {error}', file=sys.stderr)
        sys.exit(2)
