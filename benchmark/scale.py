"""Time and memory by stage on graphs of 10^4, 10^5, … poses.

`python -m benchmark.scale [--poses 10000 100000] [--graphs pose range]`
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparser_ros.config import SolverConfig
from sparser_ros.graph import Graph, estimate_of
from sparser_ros.graph import cost as graph_cost
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver import solve
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.start import chordal_rotations, odometry_estimate

from . import isolated, synthetic
from .table import Table, median, parser, run_main, shown

FIRST, SOLVE = 'first solve', 'whole solve'
SHOWN = ('odometry', 'chordal', 'assembly', 'products, factor of M', 'preconditioner')
"""Stages in the table, CPU seconds; all are in the JSON."""


def main(argv: list[str] | None = None) -> int:
    made = parser('scale', __doc__ or '', data=False, timeout_s=1800)
    made.add_argument('--poses', nargs='+', type=int, default=[10_000, 30_000, 100_000])
    made.add_argument('--graphs', nargs='+', choices=('pose', 'range'), default=['pose', 'range'])
    made.add_argument(
        '--runs', type=int, default=5, metavar='N',
        help='solves after the first, of which the median counts (default 5; 0: the first counts)')
    args = made.parse_args(argv)
    table = Table('scale', 'Scale: synthetic graphs', {
        'graph': 'graph', 'poses': 'poses', 'edges': 'edges', 'ranges': 'ranges',
        **{stage: f'{stage} s' for stage in SHOWN}, 'first solve': 'first solve s',
        'wall_s': 'solve wall s', 'cpu_s': 'solve CPU s', 'first_gib': 'peak GiB after the first',
        'result': 'result',
    }, args.out)
    curves: dict[str, list[tuple[int, float]]] = {}
    for kind in args.graphs:
        for n in args.poses:
            figures = isolated.run({
                'kind': 'stages', 'graph': kind, 'poses': n, 'runs': args.runs}, args.timeout)
            report(kind, n, figures, table)
            if 'error' not in figures:
                curves.setdefault(kind, []).append((n, table.rows[-1]['cpu_s']))
        if len(curves.get(kind, ())) > 1:
            table.note(f'{kind} graphs: CPU seconds of the whole solve grow like '
                       f'n^{exponent(curves[kind]):.2f}.')
    if args.runs:
        table.note(f'Solve: median of {args.runs} after the first. Stages: one run each.')
    return 0


def report(kind: str, n: int, figures: dict[str, Any], table: Table) -> None:
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


def exponent(points: list[tuple[int, float]]) -> float:
    """Slope of the least-squares line through log n, log s."""
    n, seconds = np.log(np.asarray(points)).T
    return float(np.polyfit(n, seconds, 1)[0]) if len(points) > 1 else math.nan


class Stages:
    """Seconds of each stage, and peak memory of the process at its end."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        # Linux counts in KiB.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.rows.append({
            'stage': name, 'wall_s': time.perf_counter() - wall,
            'cpu_s': time.process_time() - cpu, 'peak_gib': peak / 2**20})


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The job `stages`: of one graph, `graph` pose or range, `poses`, and `runs`."""
    make = synthetic.pose_graph if job['graph'] == 'pose' else synthetic.range_graph
    # Loads the compiled kernels.
    solve(make(200), SolverConfig())
    stages = Stages()
    with stages.stage('generate'):
        graph = make(job['poses'])
    with stages.stage(FIRST):
        result = solve(graph, SolverConfig())
    # The first solve waits for memory from the system; graphs with ranges start from other points.
    again = Stages()
    for run in range(job.get('runs', 0)):
        with again.stage(SOLVE):
            solve(graph, SolverConfig(seed=run))
    rows = again.rows or stages.rows[-1:]
    stages.rows.append({'stage': SOLVE, **{
        key: median([row[key] for row in rows]) for key in ('wall_s', 'cpu_s', 'peak_gib')}})
    figures = {
        'stages': stages.rows, 'solve_seconds': result.stats.seconds,
        'status': result.status.value, 'cost': result.stats.cost_final,
        'cost_truth': graph_cost(graph, estimate_of(graph)),
        'iterations': result.stats.iterations, 'cg_steps': result.stats.cg_steps,
        'poses': graph.n_poses, 'edges': len(graph.relative_poses), 'ranges': len(graph.ranges),
    }
    del result
    with single_threaded_blas():
        parts(graph, stages)
    return figures


def parts(graph: Graph, stages: Stages) -> None:
    """Time the parts of a solve one by one."""
    with stages.stage('odometry'):
        odometry_estimate(graph)
    if not len(graph.ranges):
        with stages.stage('chordal'):
            chordal_rotations(graph)
    with stages.stage('assembly'):
        problem = QuadraticProblem(graph)
    with stages.stage('products, factor of M'):
        schur = SchurOperator(problem)
    with stages.stage('preconditioner'):
        regularised = RegularisedQ(schur)
        regularised.factor()
    y = problem.manifold.random_point(5, np.random.default_rng(0))
    schur(y)
    with stages.stage('product with Q_s, p = 5'):
        schur(y)
    regularised.apply(y, y.copy())
    with stages.stage('preconditioner applied, p = 5'):
        regularised.apply(y, y.copy())


if __name__ == '__main__':
    run_main(main)
