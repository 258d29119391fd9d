"""`sparser report`: one self-contained HTML page of a run."""

from __future__ import annotations

import argparse

from .exit_codes import SOLVED
from .path_options import Kind, Reads, Writes


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser report`."""
    parser = subparsers.add_parser(
        'report', help='one self-contained HTML page of a run',
        description='Map, residuals, convergence and calibration of a run with interactive plots, '
        'in one file that needs no network. Exit code 2: the folder holds no map, or plotly is '
        'missing.')
    parser.add_argument('run_folder', action=Reads, kind=Kind.RUN, metavar='RUN', help=(
        'folder of `solve --run`, `replay --run` or of the service ~/save'))
    parser.add_argument('-o', '--output', action=Writes, kind=Kind.PAGE, metavar='PAGE.html',
                        help='default: report.html in the folder')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the page; 0."""
    from ..io import run_folder
    from ..plot.page.run_page import run_page

    found = run_folder.read(args.run_folder)
    page = run_page(found.name, found.graph, found.estimate, found.report, found.covariances)
    path = args.output or args.run_folder / 'report.html'
    run_folder.write_page(path, page)
    print(f'written: {path}')
    return SOLVED
