"""The four formulations on the paper's four problem classes, in the same trust region.

From one random rank-5 start to 1 % above the best relaxed cost (at least 0.001 above it).
`python -m benchmark.formulations [--problems …] [--seeds 3]`; with `--poses 1000 2000 …` on the
paper's spheres of so many poses, with the time of the precomputation.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparser_ros.config import ConfigError, SolverConfig, SolverError
from sparser_ros.graph import Graph, cost, estimate_of
from sparser_ros.io import graph_file
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver import SolveStatus, solve
from sparser_ros.solver.formulations import FORMULATIONS, Dense
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator

from . import generators
from .datasets import directory
from .table import Row, Table, median, parser, run_main, timed

RANK = 5
EXCESS_SHARE, EXCESS_LEAST = 0.01, 1e-3
"""Target of a run above the best relaxed cost: this share of it, at least this much."""
REFERENCE_SECONDS = 3
"""Time limit of the solve that finds the best relaxed cost, in time limits of a run."""
PROBLEMS: dict[str, tuple[str, Callable[[Path | None], Graph]]] = {
    'sphere1k': ('PGO', lambda data: generators.sphere(laps=20)),
    'sphere5k': ('PGO', lambda data: generators.sphere(laps=100)),
    'intel': ('PGO', lambda data: read(data, 'g2o/intel.g2o')),
    'single_drone': ('RA-SLAM', lambda data: read(data, 'pyfg/single_drone.pyfg')),
    'plaza2': ('RA-SLAM', lambda data: read(data, 'pyfg/plaza2.pyfg')),
    'network500': ('SNL', lambda data: generators.sensor_network(500, 10, radius_m=1.5)),
    'network500-free': (
        'SNL', lambda data: generators.sensor_network(500, radius_m=1.5, seed=1)),
    'sphere1k-network': ('SNL', lambda data: generators.network_of(generators.sphere(laps=20))),
    'intel-network': (
        'SNL', lambda data: generators.network_of(read(data, 'g2o/intel.g2o'))),
    'scene50x2k': ('SfM', lambda data: generators.scene(50, 2000)),
    'scene200x10k': ('SfM', lambda data: generators.scene(200, 10_000, views=8)),
}
PLANTED = ('sphere1k-network', 'intel-network')
"""Networks that are nearly flexible: their relaxed cost falls for thousands of steps. They are
solved down to the cost of the true positions."""


def read(data: Path | None, name: str) -> Graph:
    return graph_file.read(directory(data) / name)


def main(argv: list[str] | None = None) -> int:
    made = parser('formulations', __doc__ or '', sets=False, seeds=3, timeout_s=60)
    made.add_argument('--problems', nargs='+', metavar='NAME', default=list(PROBLEMS))
    made.add_argument('--poses', nargs='+', type=int, metavar='N',
                      help='spheres of these sizes instead; a formulation that takes longer than '
                      '--timeout once is left out of larger ones')
    args = made.parse_args(argv)
    unknown = set(args.problems) - set(PROBLEMS)
    if unknown:
        raise ConfigError(f'unknown problems {sorted(unknown)}; known: {", ".join(PROBLEMS)}')
    columns = {'best': 'best cost', **{name: f'{name} s (iterations)' for name in FORMULATIONS}}
    if args.poses:
        return sweep(args, columns)
    table = Table('formulations', 'Formulations: random rank-5 start to 1 % of the best cost', {
        'class': 'class', 'problem': 'problem', 'constrained': 'rows of X_c',
        'free': 'rows of X_f', **columns}, args.out)
    for name in args.problems:
        kind, make = PROBLEMS[name]
        graph = make(args.data).validate()
        planted = cost(graph, estimate_of(graph)) if name in PLANTED else None
        table.add({
            'problem': name, 'class': kind, 'free': graph.n_poses + graph.n_landmarks,
            'constrained': graph.dimension * graph.n_poses + len(graph.ranges),
            **race(graph, list(FORMULATIONS), args, planted)})
    table.note(
        f'Medians of {args.seeds} seeds, CPU seconds of set-up and relaxation in one process after '
        f'one unmeasured solve; – = not within {args.timeout:g} s, or the explicit matrix does '
        'not fit. All formulations use the preconditioner (Q + shift)^-1 and, where X_f is a '
        'variable, start from its best value.')
    return 0


def sweep(args: argparse.Namespace, columns: dict[str, str]) -> int:
    """The paper's spheres, and precomputation."""
    table = Table('sweep', 'Sphere sweep: random rank-5 start to 1 % of the best cost', {
        'poses': 'poses', **columns, 'ours_ms': 'set-up ms', 'dense_ms': 'dense set-up ms',
        'dense_mib': 'dense MiB'}, args.out, 'formulations')
    left = list(FORMULATIONS)
    for poses in args.poses:
        graph = generators.sphere(laps=poses // generators.LAP).validate()
        row = race(graph, left, args)
        left = [name for name in left if name in row['figures']]
        table.add({'poses': graph.n_poses, **row, **precomputed(graph, 'dense' in left)})
    table.note(
        f'Medians of {args.seeds} seeds, CPU seconds of set-up and relaxation in one process. – = '
        f'not within {args.timeout:g} s here or on a smaller sphere, or the explicit matrix does '
        'not fit. Set-up: Q_cc, B, M and the factor of M, median of 5; the dense matrix comes on '
        'top.')
    return 0


def race(
    graph: Graph, names: list[str], args: argparse.Namespace, target: float | None = None
) -> Row:
    """Best relaxed cost, runs, and medians of each formulation that reached it with every seed.

    `target`: the cost to reach; by default the best relaxed one and a little.
    """
    loose = SolverConfig(
        init='random', rank=RANK, cost_tolerance=1e-4, target_cost=0.0, coarsening=1,
        time_limit_s=REFERENCE_SECONDS * args.timeout)
    best = target
    if target is None:
        found = solve(graph, loose).stats.cost_relaxed
        best = float('inf') if found is None else found
        target = best + max(EXCESS_SHARE * best, EXCESS_LEAST)
    row: Row = {'best': best, 'runs': {}, 'figures': {}}
    for name in names:
        runs = row['runs'][name] = []
        for seed in range(args.seeds):
            runs.append(raced(graph, replace(
                loose, target_cost=target, time_limit_s=args.timeout, formulation=name,
                seed=seed)))
            if not runs[-1]['reached']:
                break
        else:
            figures = row['figures'][name] = {
                key: median([run[key] for run in runs])
                for key in ('cpu_s', 'iterations', 'cg_steps')}
            row[name] = f'{figures["cpu_s"]:.3g} ({figures["iterations"]:.0f})'
    return row


def raced(graph: Graph, config: SolverConfig) -> dict[str, Any]:
    try:
        result, _, cpu = timed(solve, graph, config)
    except SolverError as error:
        return {'reached': False, 'error': str(error)}
    return {
        'reached': result.status is SolveStatus.TARGET_REACHED, 'seed': config.seed,
        'cpu_s': cpu, 'iterations': result.stats.iterations,
        'cg_steps': result.stats.cg_steps, 'status': result.status.value,
    }


def precomputed(graph: Graph, dense: bool) -> Row:
    """CPU milliseconds of our precompute and of the explicit Schur complement."""
    problem = QuadraticProblem(graph)
    with single_threaded_blas():
        ours = 1e3 * median([timed(SchurOperator, problem)[2] for _ in range(5)])
        schur = SchurOperator(problem)
        row: Row = {'ours_ms': ours, 'dense_mib': 8 * schur.shape[0] ** 2 / 2**20}
        if dense:
            row['dense_ms'] = ours + 1e3 * timed(Dense, schur)[2]
    return row


if __name__ == '__main__':
    run_main(main)
