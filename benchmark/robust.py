"""False loop closures and blocked ranges: rejected measurements, time and accuracy.

Every case adds seeded false measurements to a public set and solves it with Geman-McClure in GNC,
from the odometry (pose graphs) or from scratch (ranges). GTSAM's GNC solves the same pose graphs in
an interpreter that has it (--gtsam-python).
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph import Graph, estimate_of
from sparser_ros.io import graph_file
from sparser_ros.io.report import REJECTED_BELOW, ate
from sparser_ros.solver import SolveResult, solve

from .datasets import chosen, directory
from .generators import with_false_closures, with_long_ranges
from .isolated import run as run_isolated
from .isolated import run_command
from .practitioner import SCRIPT, export
from .table import Table, add_gtsam, parser, run_main, timed

SETS = ('sphere2500', 'parking-garage', 'intel', 'manhattan', 'plaza2', 'tiers')
SHARES = (0.1, 0.2, 0.3, 0.5)
PROBABILITY = 0.99966
"""Of a chi-square variable of six degrees of freedom to be below 25, the square of our default
kernel width: GTSAM gets the same threshold."""
PLAIN = SolverConfig(time_limit_s=20.0)
"""Without a kernel, for comparison: false closures make such solves slow."""
LOADING_S = 0.05
"""Time limit of the solve that only loads compiled kernels."""


def main(argv: list[str] | None = None) -> int:
    made = parser('robust', __doc__.partition('\n')[0], seeds=1, timeout_s=600)
    made.add_argument('--shares', nargs='+', type=float, default=SHARES, metavar='X',
                      help='false closures as a share of the true ones')
    made.add_argument('--kernel', default='gm', choices=('gm', 'huber', 'cauchy'))
    add_gtsam(made, 300)
    args = made.parse_args(argv)
    data = directory(args.data)
    table = Table('robust', 'False measurements', {
        'set': 'set', 'share': 'false', 'seed': 'seed', 'found': 'false rejected',
        'lost': 'true rejected', 'excess_percent': 'robust cost over best, %',
        'wall_s': 'wall s', 'cpu_s': 'CPU s', 'ate_m': 'ATE m', 'ate_clean_m': 'clean ATE m',
        'ate_plain_m': 'ATE without kernel m', 'gtsam': 'GTSAM GNC',
    }, args.out)
    for dataset in chosen(args.sets or list(SETS)):
        what = 'ranges' if dataset.range_aided else 'closures'
        for share in (0.2,) if dataset.range_aided else args.shares:
            for seed in range(args.seeds):
                job = {
                    'kind': 'robust', 'graph': str(data / dataset.file), 'what': what,
                    'share': share, 'seed': seed, 'kernel': args.kernel}
                table.add(row(dataset.name, job, args))
    table.note(
        'False rejected: false measurements of weight below 0.1, of all false ones; in brackets '
        'those kept also when the solve starts from the optimum of the clean graph. True rejected: '
        'in brackets those rejected also from there. Best: the robust cost reached from there. '
        'ATE of pose graphs is the mean distance from the clean solution.')
    return 0


def row(name: str, job: dict[str, Any], args: Any) -> dict[str, Any]:
    """One case, ours and GTSAM's."""
    figures = run_isolated(job, args.timeout)
    line = {'set': name, 'share': f'{100 * job["share"]:g} %', 'seed': job['seed'], **figures}
    if 'error' in figures:
        line['found'] = figures['error']
        return line
    line['found'] = (
        f'{figures["false_rejected"]}/{figures["false"]} ({figures["false_plausible"]})')
    line['lost'] = f'{figures["true_rejected"]}/{figures["true"]} ({figures["true_far"]})'
    line['excess_percent'] = 100 * figures.get('excess', math.nan)
    if job['what'] == 'closures' and not args.no_gtsam:
        line['gtsam'] = gtsam(job, args)
    return line


def gtsam(job: dict[str, Any], args: Any) -> str:
    """GTSAM's counts and seconds, or why there are none."""
    clean = graph_file.read(Path(job['graph']))
    graph, rows, _ = corrupted(clean, job['what'], job['share'], job['seed'])
    with tempfile.TemporaryDirectory(prefix='sparser_gtsam_') as scratch:
        arrays = Path(scratch) / 'graph.npz'
        export(graph, arrays, odometry=graph.relative_poses.odometry, false=np.asarray(rows))
        found = run_command(
            [args.gtsam_python, str(SCRIPT)],
            {'arrays': str(arrays), 'method': 'GNC', 'probability': PROBABILITY},
            args.gtsam_timeout)
    if 'error' in found:
        return str(found['error'])
    return (f'{found["false_rejected"]} false, {found["true_rejected"]} true rejected, '
            f'{found["wall_s"]:.3g} s')


def corrupted(graph: Graph, kind: str, share: float, seed: int) -> tuple[Graph, Any, str]:
    """The graph with false `closures` or long `ranges`, their rows, and the table they are in."""
    if kind == 'closures':
        return *with_false_closures(graph, share, seed), 'relative_poses'
    return *with_long_ranges(graph, share, seed), 'ranges'


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The job `robust`: graph, what, share, seed, kernel; solved with the kernel and without.

    `from_clean` is the robust cost reached from the optimum of the clean graph, the best that a
    robust solver can be expected to reach. ATE is against the vertices of a .pyfg, else the clean
    solution.
    """
    clean = graph_file.read(Path(job['graph'])).validate()
    robust = SolverConfig(robust=RobustConfig(kernel=job['kernel'], gnc=True))
    graph, rows, table = corrupted(clean, job['what'], job['share'], job['seed'])
    reference = solve(clean, PLAIN)
    # This one only loads compiled kernels.
    solve(graph, replace(robust, time_limit_s=LOADING_S))
    result, wall, cpu = timed(solve, graph, robust)
    best = solve(graph, robust, initial=reference.estimate)
    figures = {
        'wall_s': wall, 'cpu_s': cpu, 'status': result.status.value,
        'cost_robust': result.stats.cost_robust, 'from_clean': best.stats.cost_robust,
        'reweightings': result.stats.reweightings,
        **verdict(graph, best, result, rows, table),
    }
    figures['excess'] = figures['cost_robust'] / figures['from_clean'] - 1
    truth = reference.estimate
    if job['graph'].endswith('.pyfg'):
        truth = estimate_of(clean)
    figures['ate_m'] = ate(result.estimate, truth)
    figures['ate_clean_m'] = ate(reference.estimate, truth)
    figures['ate_plain_m'] = ate(solve(graph, PLAIN).estimate, truth)
    return figures


def verdict(
    graph: Graph, best: SolveResult, result: SolveResult, rows: Any, table: str
) -> dict[str, Any]:
    """Counts of rejected measurements, false ones and true ones.

    `best` is the robust optimum next to the clean solution. False measurements kept there and true
    ones rejected there are counted separately: the residuals do not tell them apart.
    """
    weights = result.stats.weights[table]
    doubted = np.ones(len(weights), dtype=bool)
    if table == 'relative_poses':
        doubted = ~graph.relative_poses.odometry
    rejected = doubted & (weights < REJECTED_BELOW)
    false = np.zeros(len(weights), dtype=bool)
    false[rows] = True
    far = best.stats.weights[table] < REJECTED_BELOW
    return {
        'false': int(false.sum()), 'false_rejected': int(np.sum(rejected & false)),
        'false_plausible': int(np.sum(false & ~far)),
        'true': int(np.sum(doubted & ~false)), 'true_rejected': int(np.sum(rejected & ~false)),
        'true_far': int(np.sum(doubted & ~false & far)),
    }


if __name__ == '__main__':
    run_main(main)
