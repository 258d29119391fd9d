"""The quadratic problem is the cost of the graph; its Schur product that of dense algebra."""

import numpy as np
import pytest
from dense import free_jacobian, jacobians, reduced, schur_complement
from graphs import random_graph
from helpers import world
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.graph import Estimate, Graph, cost, estimate_of
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator

DIMENSIONS = st.sampled_from((2, 3))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.booleans(), st.booleans())
def test_cost_of_a_point_is_the_cost_of_the_graph(seed, d, levers, absolute):
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


def tame(graph: Graph) -> Graph:
    """Weights within a factor of 100, so that a dense pseudo-inverse keeps its digits."""
    def squeeze(table):
        return table.replaced(**{
            name: 10 ** (np.log10(values) % 2) for name, values in vars(table).items()
            if name in ('kappa', 'tau', 'precision') and len(values)})

    return graph.replaced(**{name: squeeze(table) for name, table in graph.tables().items()})


graphs = st.builds(
    lambda seed, d, robots, landmarks, absolute, closures, ranges, sightings: tame(random_graph(
        seed, d, tuple('ABCD'[:robots]), 4, landmarks, True, absolute, closures, ranges,
        sightings)),
    st.integers(0, 10**6), st.sampled_from((2, 3)), st.integers(1, 4), st.integers(1, 4),
    st.booleans(), st.integers(0, 3), st.integers(0, 6), st.integers(0, 4))


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_product_is_the_dense_formula_with_pseudo_inverse(graph):
    problem = QuadraticProblem(graph)
    A, _, omega = jacobians(problem)
    expected = schur_complement(A, free_jacobian(graph), omega)
    schur = SchurOperator(problem)
    x = np.random.default_rng(0).normal(size=(schur.shape[0], 4))
    scale = np.abs(A.T @ omega @ A).max()
    assert np.abs(schur(x) - expected @ x).max() < 1e-10 * scale


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_kept_columns_are_a_basis_of_the_range(graph):
    problem = QuadraticProblem(graph)
    A_f, C = free_jacobian(graph), problem.C.toarray()
    rank = np.linalg.matrix_rank(A_f)
    assert C.shape[1] == rank == np.linalg.matrix_rank(C)
    assert np.linalg.matrix_rank(np.hstack([A_f, C])) == rank


@settings(max_examples=30, deadline=None)
@given(graphs)
def test_points_are_optimal(graph):
    problem = QuadraticProblem(graph)
    A, _, omega = jacobians(problem)
    A_f = free_jacobian(graph)
    schur, _, y = reduced(graph, seed=1)
    points = schur.points(y)
    residual = A @ y + A_f @ points
    scale = np.abs(A_f.T @ omega @ A @ y).max() + 1
    assert np.abs(A_f.T @ omega @ residual).max() < 1e-10 * scale
    cost = np.sum(y * schur(y))
    assert cost == pytest.approx(np.sum(residual * (omega @ residual)), rel=1e-9)
