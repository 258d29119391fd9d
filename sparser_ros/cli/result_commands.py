"""`sparser report`, `sparser study` and `sparser bench`: a page of a run, and tables of many."""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any

from ..config import ConfigError, SparserError
from .console import NOT_CONVERGED, SOLVED, progress_bar, show_written
from .options import Kind, Reads, Writes

TABLES = ('practitioner', 'certificate', 'formulations', 'scale', 'incremental', 'days', 'robust',
          'integrity', 'available', 'calibration', 'nees', 'noise', 'gpu')


def add_report(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'report', help='one self-contained HTML page of a run',
        description='Map, residuals, convergence and calibration of a run, in one file that needs '
        'no network. Exit code 2: the folder holds no map, or matplotlib is missing.')
    parser.add_argument('run_folder', action=Reads, kind=Kind.RUN, metavar='RUN', help=(
        'folder of `solve --run`, `replay --run` or of the service ~/save'))
    parser.add_argument('-o', '--output', action=Writes, kind=Kind.PAGE, metavar='PAGE.html',
                        help='default: report.html in the folder')
    parser.set_defaults(run=run_report)


def run_report(args: argparse.Namespace) -> int:
    from ..io import atomic, report
    from ..plot.page import run_page

    page = run_page(report.read_run(args.run_folder))
    path = args.output or args.run_folder / 'report.html'
    atomic.write_text(path, page)
    show_written([path])
    return SOLVED


def add_study(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'study', help='replay many bags with many parameter sets, locally or on a Dask cluster',
        description='Replays every bag with every parameter set and seed of a grid and writes '
        'study.csv. Finished runs are kept: the same command goes on after a kill. '
        'Without `config:` each bag has a configuration drafted from its topics. Exit code 3: '
        'runs failed, were not solved, or have robots without a place (they are listed).')
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
    parser.set_defaults(run=run_study)


def run_study(args: argparse.Namespace) -> int:
    """Do the runs that are left; 0 all solved, 3 some are not."""
    from ..backend.replay.study import is_solved, runs_of, study
    from ..io import atomic

    if args.jobs < 1:
        raise ConfigError(f'--jobs: expected 1 or more processes, got {args.jobs}')
    runs = runs_of(args.bags, args.grid)
    with progress_bar(counted=True) as draw:
        def show(done: int, total: int, row: dict[str, Any] | None) -> None:
            if draw is not None:
                draw(done, total, 'replaying' if row is None else f'{row["bag"]}: {row["status"]}')

        rows = study(runs, args.output, jobs=args.jobs, scheduler=args.scheduler, progress=show)
    path = args.output / 'study.csv'
    atomic.write_text(path, _csv(rows))
    good = sum(map(is_solved, rows))
    print(f'{len(rows)} runs, {good} solved')
    show_written([path])
    for row, run in zip(rows, runs, strict=True):
        if not is_solved(row):
            seed = [] if run.seed is None else [f'seed {run.seed}']
            values = [
                run.set, *(f'{name}={value}' for name, value in run.parameters.items()), *seed]
            print(f'{"failed" if row["status"] == "failed" else "not solved"}: {run.bag}, '
                  f'{" ".join(values).strip() or "defaults"}: {row["message"] or row["status"]}')
    return SOLVED if good == len(rows) else NOT_CONVERGED


def _csv(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def add_bench(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'bench', help='measure a table of docs/benchmarks.md',
        description='Measure one table; `sparser bench NAME --help` lists its options. Needs a '
        'checkout of the repository: benchmark/ is not installed.')
    parser.add_argument('name', metavar='NAME', choices=TABLES, help=', '.join(TABLES))
    parser.add_argument('arguments', nargs=argparse.REMAINDER, metavar='…',
                        help='options of that table')
    parser.set_defaults(run=run_bench)


def run_bench(args: argparse.Namespace) -> int:
    """Measure the table; SparserError outside a checkout, where benchmark/ is missing."""
    root = Path(__file__).resolve().parents[2]
    for place in (root, Path.cwd()):
        if (place / 'benchmark' / f'{args.name}.py').is_file():
            if str(place) not in sys.path:
                sys.path.insert(0, str(place))
            return int(importlib.import_module(f'benchmark.{args.name}').main(args.arguments))
    raise SparserError(
        f'no benchmark/{args.name}.py: run `sparser bench` in a checkout of the repository')
