"""Verticals and heights: the cost, its operators, gauge and covariance against dense algebra."""

import numpy as np
import pytest
from dense import jacobians
from graphs import flying_graph, values_of
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.stream import solver_of
from sparser_ros.config import GraphError, RobustConfig, SolverConfig, SolverError
from sparser_ros.graph import Estimate, Graph, cost, squared_residuals
from sparser_ros.graph.thinning import thin
from sparser_ros.linalg.rotations import align, rotvec_to_matrix
from sparser_ros.solver import solve
from sparser_ros.solver.covariance import Linearised, marginal_covariance, variance_factor
from sparser_ros.solver.incremental import held_upright
from sparser_ros.solver.manifold import reduce_rank
from sparser_ros.solver.preconditioner import NewtonPreconditioner
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.robust import Reweighting
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.start import coarsen

VERTICAL = 2


@pytest.mark.parametrize('rank', [3, 5])
@pytest.mark.parametrize(('verticals', 'heights', 'known'), [
    (True, True, False), (True, False, False), (True, True, True), (False, True, True)])
def test_product_is_the_dense_one_column_by_column(rank, verticals, heights, known):
    graph, _ = flying_graph(1, verticals=verticals, heights=heights, known=known)
    problem = QuadraticProblem(graph)
    schur = SchurOperator(problem)
    x = np.random.default_rng(0).normal(size=(schur.shape[0], rank))
    product, points = schur(x), schur.points(x)
    for column in range(rank):
        rows = problem.all_rows if column == VERTICAL else problem
        A, C, omega = jacobians(rows)
        Q, B, M = A.T @ omega @ A, A.T @ omega @ C, C.T @ omega @ C
        free = -np.linalg.solve(M, B.T @ x[:, column])
        expected = Q @ x[:, column] + B @ free
        assert np.allclose(product[:, column], expected, rtol=0, atol=1e-9 * np.abs(Q).max())
        assert np.allclose(points[rows.kept, column], free, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(-20, 20), st.floats(-20, 20))
def test_a_turn_about_the_vertical_and_a_shift_in_the_plane_cost_nothing(seed, yaw, x, y):
    graph, truth = flying_graph(seed, steps=3)
    base = cost(graph, truth)
    turn = rotvec_to_matrix(np.array([[0.0, 0.0, yaw]]))[0]
    assert cost(graph, truth.moved(turn, np.array([x, y, 0]))) == pytest.approx(base, rel=1e-7)
    high = squared_residuals(graph, truth.moved(turn, np.array([x, y, 1.0])))
    assert np.sum(high['heights']) > np.sum(squared_residuals(graph, truth)['heights']) + 100
    tilted = rotvec_to_matrix(np.array([[0.1, 0.0, 0.0]]))[0]
    tilt = squared_residuals(graph, truth.moved(tilted, np.zeros(3)))
    assert np.sum(tilt['verticals']) > np.sum(squared_residuals(graph, truth)['verticals']) + 100


def test_a_solve_from_scratch_finds_the_map_up_to_heading_and_place():
    graph, truth = flying_graph(4, steps=25, beacons=4)
    estimate = solve(graph, SolverConfig()).estimate
    assert cost(graph, estimate) <= cost(graph, truth)
    up = np.einsum('kij,kj->ki', estimate.rotation[graph.verticals.i], graph.verticals.up)
    assert np.abs(up - [0, 0, 1]).max() < 0.06
    turn, shift = align(estimate.translation, truth.translation)
    assert np.abs(turn[2] - [0, 0, 1]).max() < 0.02
    moved = estimate.moved(turn, shift)
    assert np.abs(moved.translation - truth.translation).max() < 0.5
    assert np.abs(estimate.translation[:, 2] - truth.translation[:, 2]).max() < 0.3


@pytest.mark.parametrize('known', [False, True])
@pytest.mark.parametrize('heights', [False, True])
@pytest.mark.parametrize('rank', [3, 5])
def test_residuals_are_those_of_the_cost(rank, heights, known):
    """Reweighting settles bearings, which lowers the cost; positions are not settled again."""
    graph, truth = flying_graph(3, heights=heights, known=known)
    problem = QuadraticProblem(graph)
    schur, manifold = SchurOperator(problem), problem.manifold
    y = manifold.lift(problem.pack(truth), rank)
    squares, settled = Reweighting(schur, RobustConfig(kernel='gm')).settle(y)
    before, after = (np.sum(point * schur(point)) for point in (y, settled))
    assert after * (1 - 1e-9) <= np.sum(squares) <= before * (1 + 1e-9)


@pytest.mark.parametrize(('verticals', 'heights'), [(False, False), (True, False), (True, True)])
def test_false_ranges_are_rejected_from_scratch(verticals, heights):
    """Graduated non-convexity, whose preconditioner knows the inliers only."""
    graph, truth = flying_graph(4, beacons=4, steps=16, verticals=verticals, heights=heights)
    ranges = graph.ranges
    false = np.arange(len(ranges)) % 12 == 5
    spoilt = graph.replaced(ranges=ranges.replaced(
        distance_m=ranges.distance_m + 8.0 * false))
    result = solve(spoilt, SolverConfig(robust=RobustConfig(kernel='gm', gnc=True)))
    weights = result.stats.weights['ranges']
    assert np.all(weights[false] < 0.1) and np.mean(weights[~false] > 0.5) > 0.8
    turn, shift = align(result.estimate.translation, truth.translation)
    error = result.estimate.translation @ turn.T + shift - truth.translation
    assert np.sqrt(np.mean(np.sum(error**2, axis=1))) < 0.2


def test_rounding_keeps_the_vertical_and_turns_the_rest():
    graph, truth = flying_graph(5, noise=0.0, heights=False)
    problem = QuadraticProblem(graph)
    manifold = problem.manifold
    assert manifold.upright
    y = manifold.lift(problem.pack(truth), 5)
    rng = np.random.default_rng(0)
    turn = np.eye(5)
    rest = [0, 1, 3, 4]
    turn[np.ix_(rest, rest)] = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    y[: manifold.n * 3 + manifold.k] = y[: manifold.n * 3 + manifold.k] @ turn
    schur = SchurOperator(problem)
    low = reduce_rank(manifold, y, 3)
    assert np.sum(low * schur(low)) == pytest.approx(0.0, abs=1e-6)


def test_newton_preconditioner_is_the_inverse_of_the_hessian():
    graph, truth = flying_graph(6, steps=5, known=True)
    schur = SchurOperator(QuadraticProblem(graph))
    manifold = schur.problem.manifold
    y = schur.problem.pack(truth)
    gradient = schur(y)
    newton = NewtonPreconditioner(schur)
    newton.damping = 0.0
    newton.refresh(y, gradient, 0)
    assert not newton.gauss_newton
    v = manifold.project(y, np.random.default_rng(0).normal(size=y.shape))
    product = manifold.hessian(
        y, schur(v), v, *manifold.multipliers(y, gradient), np.empty_like(v))
    assert np.allclose(newton.apply(product, np.empty_like(v)), v, atol=1e-5 * np.abs(v).max())


@pytest.mark.parametrize(('heights', 'known'), [(True, False), (False, False), (True, True)])
def test_incremental_optimum_and_covariance_are_those_of_the_whole(heights, known):
    graph, truth = flying_graph(7, steps=8, beacons=4, heights=heights, known=known)
    best = solve(graph, SolverConfig(gradient_tolerance=1e-9), initial=truth).estimate
    solver = solver_of(graph, truth, held=False)
    if not graph.anchored:
        solver.add_terms(held_upright(
            0, truth.rotation[0], truth.translation[0], 1e8, height=not len(graph.heights)))
    for _ in range(5):
        solver.update(np.array([graph.n_poses - 1]), 1e-9)
    assert solver.quadratic_cost == pytest.approx(cost(graph, best), rel=1e-5)
    found = values_of(solver, graph)
    factor = solver.variance_factor()
    assert factor == pytest.approx(variance_factor(graph, found, {}), rel=1e-3)
    body = graph.n_poses - 1
    own = solver.covariance(np.array([body]))
    turn = found.rotation[body]
    exact = marginal_covariance(graph, found, [body]).poses[0]
    assert np.allclose(turn @ own[3:, 3:] @ turn.T, exact[:3, :3], rtol=2e-2, atol=1e-6)
    assert np.allclose(turn @ own[:3, :3] @ turn.T, exact[3:, 3:], rtol=2e-2, atol=1e-7)


def test_thinned_graphs_keep_verticals_and_heights_exact_without_noise():
    graph, truth = flying_graph(8, steps=9, noise=0.0)
    drop = np.zeros(graph.n_poses, dtype=bool)
    drop[[3, 5, 12]] = True
    few = thin(graph, drop).graph
    kept = Estimate(truth.rotation[~drop], truth.translation[~drop], truth.landmarks)
    assert len(few.verticals) == len(graph.verticals)
    assert cost(few, kept) == pytest.approx(0.0, abs=1e-9)
    moved = np.flatnonzero(few.verticals.precision < graph.verticals.precision.min() * 0.999)
    assert len(moved) == 3
    coarse = coarsen(graph, 4)
    at = coarse.kept
    assert len(at) < graph.n_poses
    assert cost(coarse.graph, Estimate(
        truth.rotation[at], truth.translation[at], truth.landmarks)) == pytest.approx(0, abs=1e-9)


def test_what_cannot_be_says_so():
    graph, _ = flying_graph(9, steps=3)
    with pytest.raises(SolverError, match='no certificate'):
        solve(graph, SolverConfig(certify=True))
    with pytest.raises(GraphError, match='dimension 3'):
        Graph.builder(2).add_odometry(
            'A', [[1.0, 0]], [0.0], sigma_m=0.1, sigma_rad=0.1).add_height(
                ('A', 0), 1.0, sigma_m=0.1).build()
    upright, _ = flying_graph(9, steps=3, heights=False)
    result = solve(upright, SolverConfig(certify=True))
    assert result.stats.suboptimality is not None


@pytest.mark.parametrize('speaks', [True, False])
def test_of_the_pose_that_covariances_are_relative_to_roll_and_pitch_are_free(speaks):
    graph, truth = flying_graph(2)
    own = graph.poses.robot[graph.verticals.i] == 0
    graph = graph.replaced(verticals=graph.verticals.take(np.flatnonzero(~own | speaks)))
    assert np.flatnonzero(~Linearised(graph, truth, {}).free()).tolist() == [0, 1, 5]
    low = graph.replaced(verticals=graph.verticals.take(slice(0)))
    assert np.flatnonzero(~Linearised(low, truth, {}).free()).tolist() == [0, 1, 3, 4, 5]
