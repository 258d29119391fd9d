"""`sparser study`: many bags x parameter sets x seeds, and one table of what came of them."""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..config import ConfigError
from .exit_codes import NOT_CONVERGED, SOLVED
from .path_options import Kind, Reads, Writes

LABEL = 'parameters'


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser study`."""
    parser = subparsers.add_parser(
        'study', help='replay many bags with many parameter sets, locally or on a Dask cluster',
        description='Replays every bag with every parameter set and seed of a grid and writes '
        'study.csv and study.html. Finished runs are kept: the same command goes on after a kill. '
        'Exit code 3: runs failed or were not solved (the table says which).')
    parser.add_argument('bags', action=Reads, kind=Kind.BAG, nargs='+', metavar='BAG',
                        help='folders, .mcap or .db3 files')
    parser.add_argument('--grid', action=Reads, kind=Kind.PARAMETERS, required=True,
                        metavar='P.yaml', help=(
        'with some of `config: FILE` ({bag} is the name of a bag), `sets: {NAME: {PARAMETER: '
        'VALUE}}`, `parameters: {PARAMETER: [VALUES]}`, `seeds: [0, 1]`'))
    parser.add_argument('-o', '--output', action=Writes, kind=Kind.FOLDER, metavar='DIR',
                        default=Path('study'), help='folder of the results (default study)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1, metavar='N',
                        help='processes on this machine (default: its cores)')
    parser.add_argument('--scheduler', default='', metavar='ADDRESS', help=(
        'of a Dask cluster, as tcp://host:8786; its workers see the bags under the same paths'))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do the runs that are left; 0 all solved, 3 some are not."""
    from ..backend.replay.study import SOLVED_STATUSES, runs_of, study

    if args.jobs < 1:
        raise ConfigError(f'--jobs: expected 1 or more processes, got {args.jobs}')
    runs = runs_of(args.bags, args.grid)
    with _progress() as progress:
        rows = study(runs, args.output, jobs=args.jobs, scheduler=args.scheduler,
                     progress=progress)
    for row, one in zip(rows, runs, strict=True):
        row[LABEL] = ' '.join([one.set, *(f'{k}={v}' for k, v in one.parameters.items())]).strip() \
            or 'defaults'
    columns = list(dict.fromkeys(key for row in rows for key in row if key != LABEL))
    written = _write(args.output, columns, rows)
    good = sum(row['status'] in SOLVED_STATUSES for row in rows)
    print(f'{len(rows)} runs, {good} solved\nwritten: {", ".join(map(str, written))}')
    for row in rows:
        if row['status'] == 'failed':
            print(f'failed: {row["bag"]}, {row[LABEL]}: {row["message"]}')
    return SOLVED if good == len(rows) else NOT_CONVERGED


def _write(folder: Path, columns: list[str], rows: list[dict[str, Any]]) -> list[Path]:
    """The table as CSV, and as a page where plotly is installed."""
    from ..config import SparserError
    from ..io import atomic
    from ..plot.page.study_page import study_page

    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction='ignore', lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    written = [folder / 'study.csv']
    atomic.write_text(written[0], text.getvalue())
    try:
        page = study_page(columns, rows, LABEL)
    except SparserError as error:
        print(f'no study.html: {error}', file=sys.stderr)
        return written
    atomic.write_text(folder / 'study.html', page)
    return [*written, folder / 'study.html']


@contextmanager
def _progress() -> Iterator[Callable[[int, int, dict[str, Any] | None], None] | None]:
    """A bar on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn(),
                  console=Console(stderr=True)) as bar:
        task = bar.add_task('replaying')

        def show(done: int, total: int, row: dict[str, Any] | None) -> None:
            text = 'replaying' if row is None else f'{row["bag"]}: {row["status"]}'
            bar.update(task, completed=done, total=total, description=text)

        yield show
