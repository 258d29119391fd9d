"""The four formulations on the paper's four problem classes, in the same trust region.

From one random rank-5 start to 1 % above the best relaxed cost (at least 0.001 above it).
`python -m benchmark.formulations [--problems …] [--seeds 3]`
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparser_ros.config import ConfigError, SolverConfig, SolverError
from sparser_ros.graph import Graph, cost, estimate_of
from sparser_ros.io import graph_file
from sparser_ros.solver import SolveStatus, solve
from sparser_ros.solver.formulations import FORMULATIONS

from . import generators
from .datasets import directory
from .table import Table, median, run_main

RANK = 5
EXCESS_SHARE, EXCESS_LEAST = 0.01, 1e-3
"""Target of a run above the best relaxed cost: this share of it, at least this much."""
_REFERENCE_SECONDS = 3
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
    made = argparse.ArgumentParser(prog='python -m benchmark.formulations', description=__doc__)
    made.add_argument('--problems', nargs='+', metavar='NAME', default=list(PROBLEMS))
    made.add_argument('--seeds', type=int, default=3)
    made.add_argument('--timeout', type=float, default=60, metavar='S')
    made.add_argument('--data', type=Path, metavar='DIR', help='folder with g2o/ and pyfg/')
    made.add_argument('--out', type=Path, default=Path('out/bench'), metavar='DIR')
    args = made.parse_args(argv)
    unknown = set(args.problems) - set(PROBLEMS)
    if unknown:
        raise ConfigError(f'unknown problems {sorted(unknown)}; known: {", ".join(PROBLEMS)}')
    table = Table('formulations', 'Formulations: random rank-5 start to 1 % of the best cost', {
        'class': 'class', 'problem': 'problem', 'constrained': 'rows of X_c',
        'free': 'rows of X_f', 'best': 'best cost',
        **{name: f'{name} s (iterations)' for name in FORMULATIONS},
    }, args.out)
    for name in args.problems:
        table.add(measured(name, args))
    table.note(
        f'Medians of {args.seeds} seeds, CPU seconds of set-up and relaxation in one process after '
        f'one unmeasured solve; – = not within {args.timeout:g} s, or the explicit matrix does '
        'not fit. All formulations use the preconditioner (Q + shift)^-1 and, where X_f is a '
        'variable, start from its best value.')
    return 0


def measured(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """A row of the table: medians of each formulation that reached the target with every seed."""
    kind, make = PROBLEMS[name]
    graph = make(args.data).validate()
    d = graph.dimension
    target = best = cost(graph, estimate_of(graph)) if name in PLANTED else 0.0
    loose = SolverConfig(
        init='random', rank=RANK, cost_tolerance=1e-4, target_cost=0.0, coarsening=1,
        time_limit_s=_REFERENCE_SECONDS * args.timeout)
    if name not in PLANTED:
        found = solve(graph, loose).stats.cost_relaxed
        best = float('inf') if found is None else found
        target = best + max(EXCESS_SHARE * best, EXCESS_LEAST)
    row: dict[str, Any] = {
        'problem': name, 'class': kind, 'best': best,
        'constrained': d * graph.n_poses + len(graph.ranges),
        'free': graph.n_poses + graph.n_landmarks, 'runs': {},
    }
    for formulation in FORMULATIONS:
        runs = row['runs'][formulation] = raced(
            graph, replace(loose, target_cost=target, time_limit_s=args.timeout), formulation,
            args.seeds)
        if all(run['reached'] for run in runs):
            seconds = median([run['cpu_s'] for run in runs])
            row[formulation] = f'{seconds:.3g} ({median([r["iterations"] for r in runs]):.0f})'
    return row


def raced(graph: Graph, config: SolverConfig, formulation: str, seeds: int) -> list[dict[str, Any]]:
    """Figures of a solve with each seed, up to the first that does not reach its target."""
    runs: list[dict[str, Any]] = []
    for seed in range(seeds):
        runs.append(one(graph, replace(config, formulation=formulation, seed=seed)))
        if not runs[-1]['reached']:
            break
    return runs


def one(graph: Graph, config: SolverConfig) -> dict[str, Any]:
    start = time.process_time()
    try:
        result = solve(graph, config)
    except SolverError as error:
        return {'reached': False, 'error': str(error)}
    return {
        'reached': result.status is SolveStatus.TARGET_REACHED, 'seed': config.seed,
        'cpu_s': time.process_time() - start, 'iterations': result.stats.iterations,
        'cg_steps': result.stats.cg_steps, 'status': result.status.value,
    }


if __name__ == '__main__':
    run_main(main)
