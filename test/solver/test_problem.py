"""The quadratic problem is the cost of the graph."""

import numpy as np
import pytest
from graphs import random_graph
from helpers import world
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.graph import Estimate, cost, estimate_of
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator

DIMENSIONS = st.sampled_from((2, 3))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.booleans(), st.booleans())
def test_cost_of_a_point_is_the_cost_of_the_graph(seed, d, levers, absolute):
    """For any estimate, with the bearings along the antennas (every measurement kind)."""
    graph = random_graph(seed, d, levers=levers, absolute=absolute)
    problem, estimate = QuadraticProblem(graph), estimate_of(graph)
    y = problem.pack(estimate)
    free = estimate.points[problem.kept]
    if problem.C.shape[1] < problem.n_points - int(graph.landmarks.fixed.sum()):
        # Deleted columns stand for the origin of their component: compare with one component.
        return
    residual = problem.A @ y + problem.C @ free
    total = float(np.sum(problem.omega * np.sum(residual**2, axis=1)))
    assert total == pytest.approx(cost(graph, estimate), rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.sampled_from(('', 'p', 'f', 'k', 'pfk')))
def test_reduced_cost_is_the_cost_at_the_best_positions(seed, d, absolute):
    graph = world(seed, d, absolute=absolute, noise=1.0)
    problem = QuadraticProblem(graph)
    schur = SchurOperator(problem)
    y = problem.pack(estimate_of(graph))
    # Bearings follow the positions and the positions the bearings: a few rounds settle both.
    for _ in range(200):
        estimate = problem.unpack(y, schur.points(y))
        y = problem.pack(estimate)
    estimate = problem.unpack(y, schur.points(y))
    assert float(np.sum(y * schur(y))) == pytest.approx(cost(graph, estimate), rel=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.sampled_from(('', 'pfk')))
def test_truth_costs_nothing_and_unpacks_to_itself(seed, d, absolute):
    graph = world(seed, d, absolute=absolute)
    problem, truth = QuadraticProblem(graph), estimate_of(graph)
    assert cost(graph, truth) < 1e-18
    schur = SchurOperator(problem)
    y = problem.pack(truth)
    assert abs(np.sum(y * schur(y))) < 1e-9 * np.sum(schur.Q_cc.diagonal())
    back = problem.unpack(y, schur.points(y))
    assert np.allclose(back.rotation, truth.rotation, atol=1e-12)
    if absolute:
        assert np.allclose(back.points, truth.points, atol=1e-9)


def test_robust_weights_scale_the_rows_of_their_measurement():
    graph = world(2, absolute='pf', noise=1.0)
    problem = QuadraticProblem(graph)
    estimate = estimate_of(graph)
    random = np.random.default_rng(0)
    tables = graph.tables()
    robust = {
        name: random.uniform(0, 1, len(tables[name])) for name in ('relative_poses', 'ranges')}
    rel, ran = graph.relative_poses, graph.ranges
    weighted = graph.replaced(
        relative_poses=rel.replaced(
            kappa=rel.kappa * robust['relative_poses'], tau=rel.tau * robust['relative_poses']),
        ranges=ran.replaced(precision=ran.precision * robust['ranges']))
    assert np.allclose(problem.weights(robust), QuadraticProblem(weighted).omega)
    residual = problem.A @ problem.pack(estimate) + problem.C @ estimate.points[problem.kept]
    total = np.sum(problem.weights(robust) * np.sum(residual**2, axis=1))
    assert total == pytest.approx(cost(weighted, estimate), rel=1e-9)


def test_pack_keeps_bearings_unit_where_antennas_coincide():
    graph = world(1)
    here = estimate_of(graph)
    stacked = Estimate(
        here.rotation.copy(), np.zeros_like(here.translation), np.zeros_like(here.landmarks))
    graph = graph.replaced(ranges=graph.ranges.replaced(
        lever_source=np.zeros_like(graph.ranges.lever_source),
        lever_target=np.zeros_like(graph.ranges.lever_target)))
    problem = QuadraticProblem(graph)
    y = problem.pack(stacked)
    assert np.allclose(np.sum(y[-len(graph.ranges) :] ** 2, axis=1), 1)
