"""CPU time of a live update against the size of the graph: incremental, and as a whole solve.

A graph is split into increments. A session gets all but the last TICKS at once, at their optimum;
then each of the last is added and solved by a tick, and by a solve of the whole graph from the
same start: the map before, continued by odometry.
`python -m benchmark.incremental [--sets outfinite tiers] [--kernels none gm] [--graphs range]
[--poses 10000 …]`
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.backend.session.contest import run
from sparser_ros.backend.session.continuation import continued
from sparser_ros.backend.session.graph_store import merged
from sparser_ros.backend.session.session import Session
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Estimate, Graph, Increment, estimate_of
from sparser_ros.graph.parts import find_segments
from sparser_ros.io import graph_file
from sparser_ros.solver import solve
from sparser_ros.solver.result import SolveStats
from sparser_ros.solver.robust import KERNELS

from . import isolated, synthetic
from .datasets import chosen, directory
from .stream import estimate_of_increments, increments_of
from .table import Table, parser, run_main

POSES_PER_TICK, TICKS = 45, 20
"""Poses of one increment, and increments measured."""
SETS = ['outfinite', 'tiers']
SHARES = (0.25, 0.5, 1.0)
"""Shares of a set that are streamed."""
SIZES = {'range': [10_000, 30_000, 100_000], 'pose': [10_000, 30_000]}


def main(argv: list[str] | None = None) -> int:
    made = parser('incremental', __doc__ or '', timeout_s=1800)
    made.add_argument('--no-sets', action='store_true', help='synthetic graphs only')
    made.add_argument('--graphs', nargs='*', choices=list(SIZES), default=list(SIZES),
                      help='synthetic graphs')
    made.add_argument('--poses', nargs='+', type=int, help='their sizes')
    made.add_argument('--kernels', nargs='+', choices=sorted(KERNELS), default=['none', 'gm'],
                      help='robust kernels, on the sets')
    args = made.parse_args(argv)
    table = Table('incremental', f'Live updates of {POSES_PER_TICK} poses: CPU time of one', {
        'graph': 'graph', 'kernel': 'kernel', 'poses': 'poses', 'whole_ms': 'whole ms',
        'followed_ms': 'followed ms',
        'followed_p95_ms': 'p95 ms', 'gain': 'times less', 'followed': 'ticks followed',
        'gap': 'cost above the whole', 'gap_sigma': 'as sigma',
    }, args.out)
    jobs: list[dict[str, Any]] = []
    for dataset in [] if args.no_sets else chosen(args.sets or SETS):
        path = str((directory(args.data) / dataset.file).resolve())
        jobs.extend({'name': dataset.name, 'graph': path, 'kernel': kernel}
                    for kernel in args.kernels)
    for kind in args.graphs:
        for poses in args.poses or SIZES[kind]:
            jobs.append({'name': f'{kind}, synthetic', 'synthetic': kind, 'poses': poses})
    for job in jobs:
        figures = isolated.run({'kind': 'ticks', **job}, args.timeout)
        if 'error' in figures:
            table.add({'graph': job['name'], 'followed': figures['error']})
        for row in figures.get('rows', ()):
            table.add({'graph': job['name'], **row})
    table.note('Median of the ticks; the longest row of a graph is the whole of it. As sigma: the '
               'square root of that difference bounds how far any coordinate is from where the '
               'whole solve has it, in its standard deviations.')
    return 0


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The job `ticks`: one row per share of the graph."""
    solver = SolverConfig(robust=RobustConfig(kernel=job.get('kernel', 'none')))
    if 'synthetic' in job:
        graph = (synthetic.range_graph if job['synthetic'] == 'range'
                 else synthetic.pose_graph)(job['poses'])
        best = solve(graph, solver, initial=estimate_of(graph))
    else:
        graph = graph_file.read(Path(job['graph'])).validate()
        best = solve(graph, solver)
    if best.estimate is None:
        return {'error': best.message}
    increments = increments_of(graph, max(2 * TICKS, graph.n_poses // POSES_PER_TICK))
    sizes = [round(share * len(increments))
             for share in (SHARES[-1:] if 'synthetic' in job else SHARES)]
    return {'rows': [
        row(graph, best.estimate, increments[:size], solver) for size in sizes if size > TICKS]}


def row(
    graph: Graph, best: Estimate, increments: list[Increment], solver: SolverConfig
) -> dict[str, Any]:
    """Figures of the last TICKS increments."""
    whole, costs, seconds, kinds, followed_costs = ticks(graph, best, increments, solver)
    gap = max(a - b for a, b in zip(followed_costs, costs, strict=True))
    return {
        'kernel': solver.robust.kernel, 'poses': sum(len(one.poses) for one in increments),
        'whole_ms': 1e3 * float(np.median(whole)),
        'followed_ms': 1e3 * float(np.median(seconds)),
        'followed_p95_ms': 1e3 * float(np.quantile(seconds, 0.95)),
        'gain': float(np.median(whole) / np.median(seconds)),
        'followed': f'{kinds.count("incremental")}/{len(kinds)}',
        'gap': gap, 'gap_sigma': float(np.sqrt(max(gap, 0.0)))}


def ticks(
    graph: Graph, best: Estimate, increments: list[Increment], solver: SolverConfig
) -> tuple[list[float], list[float], list[float], list[str], list[float]]:
    """Of each of the last ticks: CPU seconds and minimised cost of the whole solve; CPU seconds,
    kind of start and minimised cost of the tick."""
    config = SparserConfig(
        dimension=graph.dimension, robots=list(graph.robots), solver=solver)
    session = Session(config)
    known = increments[:-TICKS]
    session.add(merged(known), first=0)
    before = estimate_of_increments(graph, best, known)
    session.restore(before)
    session.solve(False)
    whole_s: list[float] = []
    whole_costs: list[float] = []
    tick_s: list[float] = []
    kinds: list[str] = []
    costs: list[float] = []
    # The first update builds the clique tree that the others extend: it does not count.
    for k, increment in enumerate(increments[-TICKS:]):
        session.add(increment)
        begin = time.process_time()
        solution = session.solve(False)
        taken = time.process_time() - begin
        begin = time.process_time()
        whole = run(session.graph, config, continued(
            session.graph, find_segments(session.graph), before))
        if k and whole.estimate is not None:
            whole_s.append(time.process_time() - begin)
            whole_costs.append(minimised(whole.stats))
            tick_s.append(taken)
            kinds.append(solution.stats.init)
            costs.append(minimised(solution.stats))
        before = before if whole.estimate is None else whole.estimate
    return whole_s, whole_costs, tick_s, kinds, costs


def minimised(stats: SolveStats) -> float:
    """The cost that a solve minimises."""
    return float((stats.cost_final if stats.cost_robust is None else stats.cost_robust) or 0.0)


if __name__ == '__main__':
    run_main(main)
