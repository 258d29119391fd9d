"""The job `robust`: one graph with false measurements added, solved with the kernel and without.

`from_clean` is the robust cost reached from the optimum of the clean graph, the best that a robust
solver can be expected to reach. ATE is against the vertices of a .pyfg, else the clean solution.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph import Graph, estimate_of
from sparser_ros.io import graph_file
from sparser_ros.io.generators import with_false_closures, with_long_ranges
from sparser_ros.io.report import REJECTED_BELOW, ate
from sparser_ros.solver import SolveResult, solve

PLAIN = SolverConfig(time_limit_s=20.0)
"""Without a kernel, for comparison: false closures make such solves slow."""
LOADING_S = 0.05
"""Time limit of the solve that only loads compiled kernels."""


def corrupted(graph: Graph, kind: str, share: float, seed: int) -> tuple[Graph, Any, str]:
    """The graph with false `closures` or long `ranges`, their rows, and the table they are in."""
    if kind == 'closures':
        return *with_false_closures(graph, share, seed), 'relative_poses'
    return *with_long_ranges(graph, share, seed), 'ranges'


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Figures of one case: graph, what, share, seed, kernel."""
    clean = graph_file.read(Path(job['graph'])).validate()
    robust = SolverConfig(robust=RobustConfig(kernel=job['kernel'], gnc=True))
    graph, rows, table = corrupted(clean, job['what'], job['share'], job['seed'])
    reference = solve(clean, PLAIN)
    # This one only loads compiled kernels.
    solve(graph, replace(robust, time_limit_s=LOADING_S))
    wall, cpu = time.perf_counter(), time.process_time()
    result = solve(graph, robust)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
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
