"""The job `robust`: one graph with false measurements added, solved with the kernel and without.

`from_clean` is the robust cost reached when started from the optimum of the clean graph: what a
robust solver can hope for.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.graph import Estimate, Graph, squared_residuals
from sparser_ros.io import graph_file
from sparser_ros.io.outliers import with_false_closures, with_long_ranges
from sparser_ros.io.report import REJECTED_BELOW, ate
from sparser_ros.solver import SolveResult, solve
from sparser_ros.solver.robust import KERNELS

PLAIN = SolverConfig()


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
    # Twice: the first loads compiled kernels.
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        result = solve(graph, robust)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    best = solve(graph, robust, initial=reference.estimate)
    figures = {
        'wall_s': wall, 'cpu_s': cpu, 'status': result.status.value,
        'cost_robust': result.stats.cost_robust, 'from_clean': best.stats.cost_robust,
        'reweightings': result.stats.reweightings,
        **verdict(clean, graph, reference, result, rows, table),
    }
    figures['excess'] = figures['cost_robust'] / figures['from_clean'] - 1
    truth = clean_truth(clean, job)
    figures['ate_m'] = ate(result.estimate, truth)
    figures['ate_clean_m'] = ate(reference.estimate, truth)
    figures['ate_plain_m'] = ate(solve(graph, PLAIN).estimate, truth)
    return figures


def clean_truth(graph: Graph, job: dict[str, Any]) -> Estimate | None:
    """Vertices of a .pyfg are truth; pose graphs are compared with their clean solution."""
    if job['graph'].endswith('.pyfg'):
        return Estimate(
            graph.poses.rotation.copy(), graph.poses.translation.copy(),
            graph.landmarks.position.copy())
    return solve(graph, PLAIN).estimate


def verdict(
    clean: Graph, graph: Graph, reference: SolveResult, result: SolveResult, rows: Any, table: str
) -> dict[str, Any]:
    """Counts of rejected measurements, false ones and true ones.

    A false measurement that the kernel itself would keep at the clean optimum, and a true one
    that it would reject there, are counted apart: no solver can tell them.
    """
    assert reference.estimate is not None
    weights = result.stats.weights[table]
    doubted = np.ones(len(weights), dtype=bool)
    if table == 'relative_poses':
        doubted = ~graph.relative_poses.odometry
    rejected = doubted & (weights < REJECTED_BELOW)
    false = np.zeros(len(weights), dtype=bool)
    false[rows] = True
    at_optimum = KERNELS['gm'].weight(
        squared_residuals(graph, reference.estimate)[table], np.full(len(weights), 25.0))
    far = at_optimum < REJECTED_BELOW
    return {
        'false': int(false.sum()), 'false_rejected': int(np.sum(rejected & false)),
        'false_plausible': int(np.sum(false & ~far)),
        'true': int(np.sum(doubted & ~false)), 'true_rejected': int(np.sum(rejected & ~false)),
        'true_far': int(np.sum(doubted & ~false & far)),
    }
