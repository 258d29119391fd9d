"""A bound in rounds: valid after each, sharp at the end, and quick from the point of before."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.config import SolverConfig
from sparser_ros.graph import is_landmark
from sparser_ros.solver import solve
from sparser_ros.solver.certify.running_bound import RunningBound
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator


def bounded(graph, relaxed=None, least=0.0, weights=None):
    problem = QuadraticProblem(graph)
    schur = SchurOperator(problem, problem.weights(weights))
    estimate = solve(graph, SolverConfig()).estimate
    y = problem.pack(estimate)
    start = None if relaxed is None else relaxed(y)
    return RunningBound(schur, y, start, least), y


@pytest.mark.parametrize('seed', range(3))
def test_every_round_is_below_the_best_map_and_the_last_is_near_the_relaxation(seed):
    graph = world(seed, robots=2, length=12, ranges=30, noise=1.0)
    certificate = solve(graph, SolverConfig(certify=True)).stats
    best = certificate.cost_final
    work, _ = bounded(graph)
    bounds = [work.lower for _ in work.steps(12)]
    assert np.all(np.diff(bounds) >= 0) and bounds[-1] <= best * (1 + 1e-9)
    assert work.enough and work.relaxed_cost - work.lower <= max(
        0.1 * (work.cost - work.relaxed_cost), work.tolerance) * (1 + 1e-9)
    assert work.cost - work.lower <= certificate.suboptimality + 3e-3 * best


@pytest.mark.parametrize('seed', [1, 3])
def test_zeros_of_the_homogenising_rows_do_not_hide_the_way_down_from_a_saddle(seed):
    """Their eigenvalues are rounded below zero; along what is left of them the cost rises."""
    graph = world(seed, robots=2, length=12, ranges=30, noise=1.0, absolute='p')
    rows = np.flatnonzero(np.arange(len(graph.ranges)) % 3)
    graph = graph.replaced(ranges=graph.ranges.take(rows))
    work, _ = bounded(graph)
    for _ in work.steps(12):
        pass
    assert work.enough and work.lower > 0.99 * work.cost


def test_a_pose_graph_is_certified_without_more_columns():
    graph = world(5, robots=1, length=30, ranges=0, noise=0.3)
    work, _ = bounded(graph)
    for _ in work.steps(3):
        pass
    assert work.certified and work.kept(np.arange(30), np.arange(0)) is None


def test_a_point_that_is_carried_along_is_itself_where_it_is_known():
    graph = world(1, robots=2, length=12, ranges=30, noise=1.0)
    work, y = bounded(graph)
    for _ in work.steps(12):
        pass
    names, ranges = 3 * np.arange(graph.n_poses), 7 + np.arange(len(graph.ranges))
    kept = work.kept(names, ranges)
    source = np.where(is_landmark(graph.ranges.source), -1, graph.ranges.source)
    every = np.arange(graph.n_poses)
    np.testing.assert_allclose(
        kept.carried(names, every, ranges, source, y), work.y, atol=1e-12)
    again, _ = bounded(
        graph, lambda y: kept.carried(names, every, ranges, source, y), kept.least)
    for _ in again.steps(1):
        pass
    assert again.lower >= work.lower * (1 - 1e-3)


def test_new_poses_and_ranges_are_carried_to_where_the_map_has_them():
    graph = world(1, robots=2, length=12, ranges=30, noise=1.0)
    work, y = bounded(graph)
    for _ in work.steps(2):
        pass
    d, n, p = 2, graph.n_poses, work.y.shape[1]
    first = np.arange(n) < n // 2
    kept = work.kept(np.arange(n), np.arange(len(graph.ranges)))
    part = type(kept)(
        kept.poses[first], kept.blocks[first], kept.ranges[:0], kept.bearings[:0], kept.least)
    before = np.minimum(np.arange(n), n // 2 - 1)
    source = np.where(is_landmark(graph.ranges.source), -1, graph.ranges.source)
    point = part.carried(np.arange(n), before, np.arange(len(graph.ranges)), source, y)
    blocks = point[: n * d].reshape(n, d, p)
    np.testing.assert_allclose(
        blocks @ np.swapaxes(blocks, 1, 2), np.tile(np.eye(d), (n, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(point[n * d : n * d + len(graph.ranges)], axis=1), 1, atol=1e-12)
    # As in the map, seen from the last known pose.
    low = y[: n * d].reshape(n, d, d)
    for row in range(n // 2, n):
        np.testing.assert_allclose(
            blocks[row] @ blocks[before[row]].T, low[row] @ low[before[row]].T, atol=1e-12)
