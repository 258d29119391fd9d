"""The paper's sphere sweep: four formulations on spheres of 1 000 to 10 000 poses, and precompute.

From one random rank-5 start to 1 % above the best relaxed cost, in the same trust region with the
same preconditioner. `python -m benchmark.sweep [--poses 1000 2000 …] [--seeds 3]`
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.graph import Graph
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.plot.figure import COLOURS, figure
from sparser_ros.solver.formulations import FORMULATIONS, Dense
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator

from . import arguments, generators
from .formulations import race
from .table import Table, median, run_main

OURS = 'schur'
Curve = list[tuple[float, float]]
"""(poses, figure)"""
POSES_PER_LAP = 50
"""Poses of one lap of the sphere (paper, section 7.2)."""


def main(argv: list[str] | None = None) -> int:
    made = arguments.parser('sweep', __doc__ or '', data=False, seeds=3)
    made.add_argument('--poses', nargs='+', type=int, default=list(range(1000, 10_001, 1000)))
    made.add_argument('--timeout', type=float, default=60, metavar='S',
                      help='a formulation that takes longer once is left out of larger spheres')
    args = made.parse_args(argv)
    table = Table('sweep', 'Sphere sweep: random rank-5 start to 1 % of the best cost', {
        'poses': 'poses', 'best': 'best cost',
        **{name: f'{name} s (iterations, CG steps)' for name in FORMULATIONS},
    }, args.out)
    precompute = Table('sweep_precompute', 'Precompute: products and factor of M, or dense Q_s', {
        'poses': 'poses', 'ours_ms': 'ours ms', 'dense_ms': 'dense Schur complement ms',
        'ratio': 'ratio', 'dense_mib': 'dense MiB',
    }, args.out)
    precompute.command = table.command
    seconds: dict[str, Curve] = {name: [] for name in FORMULATIONS}
    left = list(FORMULATIONS)
    for poses in args.poses:
        graph = generators.sphere(laps=poses // POSES_PER_LAP).validate()
        row = race(graph, left, args)
        table.add({'poses': graph.n_poses, **row, **{
            name: f'{found["cpu_s"]:.3g} ({found["iterations"]:.0f}, {found["cg_steps"]:.0f})'
            for name, found in row['figures'].items()}})
        for name, figures in row['figures'].items():
            seconds[name].append((graph.n_poses, figures['cpu_s']))
        left = [name for name in left if name in row['figures']]
        precompute.add({'poses': graph.n_poses, **precomputed(graph, 'dense' in left)})
    table.note(
        f'Medians of {args.seeds} seeds, CPU seconds of set-up and relaxation in one process. – = '
        f'not within {args.timeout:g} s here or on a smaller sphere, or the explicit matrix does '
        'not fit.')
    precompute.note('Medians of 5. Q_cc, B, M and the factor of M; the dense matrix comes on top.')
    curves = {name: curve for name, curve in seconds.items() if curve}
    draw(args.out / 'sweep.png', curves, 'CPU seconds to 1 %')
    base = dict(seconds[OURS])
    draw(args.out / 'sweep_speedup.png', {
        name: [(n, s / base[n]) for n, s in curve if n in base]
        for name, curve in curves.items() if name != OURS}, 'time relative to schur')
    return 0


def precomputed(graph: Graph, dense: bool) -> dict[str, Any]:
    """Milliseconds of our precompute and of the explicit Schur complement."""
    problem = QuadraticProblem(graph)
    with single_threaded_blas():
        ours = [timed_ms(lambda: SchurOperator(problem)) for _ in range(5)]
        row: dict[str, Any] = {'ours_ms': median(ours)}
        schur = SchurOperator(problem)
        row['dense_mib'] = 8 * schur.shape[0] ** 2 / 2**20
        if dense:
            row['dense_ms'] = row['ours_ms'] + timed_ms(lambda: Dense(schur))
            row['ratio'] = row['dense_ms'] / row['ours_ms']
    return row


def timed_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def draw(path: Path, lines: dict[str, Curve], ylabel: str) -> None:
    """One figure per solver against the number of poses, both axes logarithmic."""
    with figure(path, 5.5, 4.0) as drawing:
        axes = drawing.add_subplot()
        for colour, (name, points) in zip(COLOURS, lines.items(), strict=False):
            n, value = np.asarray(points, dtype=float).T
            axes.plot(n, value, 'o-', color=colour, label=name, lw=1.2, ms=4)
        axes.set_xscale('log')
        axes.set_yscale('log')
        axes.set_xlabel('poses')
        axes.set_ylabel(ylabel)
        axes.legend(fontsize=8, frameon=False)


if __name__ == '__main__':
    run_main(main)
