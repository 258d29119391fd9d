"""Compile or load all kernels before the first real solve, on a tiny graph of each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..config import RobustConfig, SolverConfig
from ..graph import Estimate, Graph, empty_graph
from .incremental import IncrementalSolver, terms_of
from .newton_descent import NewtonDescent
from .problem import QuadraticProblem
from .schur import SchurOperator
from .solve import solve
from .start import start_point


def warm_up(dimension: int, config: SolverConfig) -> None:
    """Run every kernel that a solve of this dimension and configuration needs.

    The first time on a machine numba compiles them (some seconds each rank), later it loads them
    from its cache (a second in all).
    """
    graph = _tiny_graph(dimension)
    config = replace(
        config, init='random', target_cost=None, time_limit_s=0.0, max_iterations=5,
        certify=False,
        backend='gpu' if config.backend == 'gpu' else 'cpu')
    result = solve(graph, config)
    if result.estimate is not None:
        solve(graph, config, initial=result.estimate)
        _follow(graph, result.estimate)
    poses = graph.replaced(
        landmarks=empty_graph(dimension, ('A',)).landmarks, ranges=graph.ranges.take(slice(0)))
    result = solve(poses, replace(config, init='auto'))
    if result.estimate is not None:
        solve(poses, config, initial=result.estimate)


def warm_up_climb(dimension: int, ranks: tuple[int, ...]) -> None:
    """A Newton step of the staircase at each rank: the kernels of one take some seconds."""
    schur = SchurOperator(QuadraticProblem(_tiny_graph(dimension)))
    for rank in ranks:
        y = start_point(schur.problem, 'random', rank, 0)
        NewtonDescent(schur).run(y, gain=0.0, most=2)


def _follow(graph: Graph, estimate: Estimate) -> None:
    """One update of the incremental solver, the first pose held."""
    n, d = graph.n_poses, graph.dimension
    solver = IncrementalSolver(d, RobustConfig())
    solver.add_bodies(estimate.rotation, estimate.translation, False, np.arange(n) > 0)
    solver.add_bodies(
        np.tile(np.eye(d), (2, 1, 1)), estimate.landmarks, True, np.ones(2, dtype=bool))
    solver.add_terms(terms_of(graph, d, graph.points, RobustConfig()))
    solver.update(np.array([n - 1]), 1e-3)


def _tiny_graph(dimension: int) -> Graph:
    """A robot on a crooked line, ranging to two beacons."""
    d, n = dimension, 6
    rng = np.random.default_rng(0)
    line = Graph.builder(d).add_odometry(
        'A', rng.normal(size=(n - 1, d)), np.tile(np.eye(d), (n - 1, 1, 1)), sigma_m=1.0,
        sigma_rad=1.0)
    position = line.build().poses.translation
    for name, beacon in zip(('L0', 'L1'), 5 * rng.normal(size=(2, d)), strict=True):
        line.add_range(
            ('A', np.arange(n)), name,
            np.linalg.norm(beacon - position, axis=1) + 0.1 * rng.random(n), sigma_m=1.0)
    return line.build()
