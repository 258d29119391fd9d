"""Time and memory by stage on graphs of 10^4, 10^5, … poses, and fill-in of the factors.

`python -m benchmark.scale [--poses 10000 100000] [--graphs pose range] [--dimension 2]`
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from . import isolated, pictures
from .stages import ORDERINGS
from .table import Table, run_main, shown

FIRST, SOLVE = 'first solve', 'whole solve'
SHOWN = ('load', 'odometry', 'chordal', 'assembly', 'products, factor of M', 'preconditioner')
"""Stages in the table, CPU seconds; all are in the JSON."""


def main(argv: list[str] | None = None) -> int:
    """Measure, print, save."""
    made = argparse.ArgumentParser(prog='python -m benchmark.scale', description=__doc__)
    made.add_argument('--poses', nargs='+', type=int, default=[10_000, 30_000, 100_000])
    made.add_argument('--graphs', nargs='+', choices=('pose', 'range'), default=['pose', 'range'])
    made.add_argument('--dimension', type=int, choices=(2, 3), default=2)
    made.add_argument('--orderings', nargs='*', choices=ORDERINGS, default=list(ORDERINGS))
    made.add_argument('--seed', type=int, default=0)
    made.add_argument(
        '--runs', type=int, default=5, metavar='N',
        help='solves after the first, of which the median counts (default 5; 0: the first counts)')
    made.add_argument('--no-files', action='store_true', help='neither write nor read the graph')
    made.add_argument('--timeout', type=float, default=1800, metavar='S')
    made.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    args = made.parse_args(argv)
    table = Table('scale', f'Scale: synthetic {args.dimension}D graphs', {
        'graph': 'graph', 'poses': 'poses', 'edges': 'edges', 'ranges': 'ranges',
        **{stage: f'{stage} s' for stage in SHOWN}, 'first solve': 'first solve s',
        'wall_s': 'solve wall s', 'cpu_s': 'solve CPU s', 'first_gib': 'peak GiB after the first',
        'result': 'result',
    }, args.out)
    fills = Table('scale_fill', 'Fill-in of the factors by ordering', {
        'graph': 'graph', 'poses': 'poses', 'matrix': 'matrix', 'rows': 'rows',
        'ordering': 'ordering', 'nnz': 'entries of L', 'fill': 'over those of the matrix',
        'analyse_s': 'analysis s', 'factorise_s': 'factorisation s',
    }, args.out)
    fills.command = table.command
    curves: dict[str, pictures.Curve] = {}
    for kind in args.graphs:
        for n in args.poses:
            figures = isolated.run({
                'kind': 'stages', 'graph': kind, 'poses': n, 'dimension': args.dimension,
                'seed': args.seed, 'runs': args.runs, 'files': not args.no_files,
                'orderings': args.orderings,
            }, args.timeout)
            report(kind, n, figures, table, fills)
            if 'error' not in figures:
                curves.setdefault(kind, []).append((n, table.rows[-1]['cpu_s']))
        if len(curves.get(kind, ())) > 1:
            table.note(f'{kind} graphs: CPU seconds of the whole solve grow like '
                       f'n^{exponent(curves[kind]):.2f}.')
    if args.runs:
        table.note(f'Solve: median of {args.runs} after the first. Stages: one run each.')
    if curves:
        pictures.scaling(args.out / 'scale.png', curves, 'CPU seconds of the whole solve')
    return 0


def report(
    kind: str, n: int, figures: dict[str, Any], table: Table, fills: Table
) -> None:
    """Rows of one graph."""
    same = {'graph': kind, 'poses': n, 'edges': figures.get('edges'),
            'ranges': figures.get('ranges')}
    if 'error' in figures:
        table.add({**same, 'result': figures['error']})
        return
    stages = {row['stage']: row for row in figures['stages']}
    first, whole = stages[FIRST], stages[SOLVE]
    table.add({
        **same, **{name: row['cpu_s'] for name, row in stages.items()},
        'wall_s': whole['wall_s'], 'cpu_s': whole['cpu_s'], 'first_gib': first['peak_gib'],
        'result': figures['status'], 'figures': figures})
    parts = ', '.join(f'{k} {shown(v)} s' for k, v in figures['solve_seconds'].items())
    table.note(
        f'{kind}, {n} poses: {figures["status"]}, cost {shown(figures["cost"])} (at the truth '
        f'{shown(figures["cost_truth"])}), {figures["iterations"]} iterations, '
        f'{figures["cg_steps"]} CG steps; {parts}.  ')
    for row in figures['fill']:
        fills.add({'graph': kind, 'poses': n, **row})


def exponent(points: pictures.Curve) -> float:
    """Slope of the least-squares line through log n, log s."""
    n, seconds = np.log(np.asarray(points)).T
    return float(np.polyfit(n, seconds, 1)[0]) if len(points) > 1 else math.nan


if __name__ == '__main__':
    run_main(main)
