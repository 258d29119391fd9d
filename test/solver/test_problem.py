"""The quadratic problem is the cost of the graph; its Schur product that of dense algebra."""

import numpy as np
import pytest
import scipy.sparse as sp
from dense import free_jacobian, jacobians, reduced, schur_complement
from graphs import random_graph, world
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.graph import Estimate, Graph, cost, estimate_of
from sparser_ros.graph.parts import components
from sparser_ros.solver.formulations import FORMULATIONS
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import (
    QuadraticProblem,
    ResidualRows,
    VariableColumns,
    independent_columns,
    residual_rows,
)
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule

DIMENSIONS = st.sampled_from((2, 3))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), DIMENSIONS, st.booleans(), st.booleans())
def test_cost_of_a_point_is_the_cost_of_the_graph(seed, d, levers, absolute):
    graph = random_graph(seed, d, levers=levers, absolute=absolute)
    problem, estimate = QuadraticProblem(graph), estimate_of(graph)
    y = problem.pack(estimate)
    points, fixed = estimate.points.copy(), graph.n_poses + np.flatnonzero(graph.landmarks.fixed)
    component = components(graph)
    # A deleted column stands for the origin of its component.
    for origin in np.setdiff1d(np.arange(problem.n_points), [*problem.kept, *fixed]):
        points[component == component[origin]] -= estimate.points[origin]
    residual = problem.A @ y + problem.C @ points[problem.kept]
    total = float(np.sum(problem.omega * np.sum(residual**2, axis=1)))
    assert total == pytest.approx(cost(graph, estimate), rel=1e-9)


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


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 20), st.integers(1, 20),
    st.floats(-6, 6))
def test_chosen_columns_are_independent_and_span(seed, rows, columns, rank, exponent):
    """Of a sparse matrix with columns copied, scaled and added up to the given rank at most."""
    random = np.random.default_rng(seed)
    left = sp.random(rows, rank, 0.4, random_state=random, data_rvs=random.standard_normal)
    right = sp.random(rank, columns, 0.5, random_state=random, data_rvs=random.standard_normal)
    A = 10**exponent * sp.csr_matrix(left @ right)
    chosen = independent_columns(A)
    whole = np.linalg.matrix_rank(A.toarray(), tol=1e-9 * 10**exponent)
    assert len(chosen) == len(np.unique(chosen)) == whole
    assert np.linalg.matrix_rank(A.toarray()[:, chosen], tol=1e-9 * 10**exponent) == whole


def smooth_motion(graph, at: VariableColumns) -> ResidualRows:
    """t_k+1 - 2 t_k + t_k-1 of one robot, weight 3: blind to position and to velocity."""
    k = np.flatnonzero((graph.poses.index[1:-1] > 0) & (graph.poses.index[2:] > 0)) + 1
    rows = np.arange(len(k))
    block = ResidualRows('smooth_motion', np.full(len(k), 3.0), rows)
    for offset, value in ((1, 1.0), (0, -2.0), (-1, 1.0)):
        block.add_free(rows, k + offset, value)
    return block


@pytest.mark.parametrize('absolute', ('', 'pfk'))
def test_any_linear_residual_is_solved_exactly(absolute):
    """Second differences are no incidence rows; product, positions and optimum stay exact."""
    def build(graph, at):
        return [*residual_rows(graph, at), smooth_motion(graph, at)]

    graph = world(3, noise=0.5, ranges=0, absolute=absolute)
    problem = QuadraticProblem(graph, build)
    schur = SchurOperator(problem)
    A_f = np.zeros((len(problem.omega), problem.n_points))
    at = VariableColumns(graph.dimension, graph.n_poses, len(graph.ranges))
    blocks = build(graph, at)
    start = 0
    for block in blocks:
        for rows, points, values in block.free:
            np.add.at(A_f, (start + rows, points), values)
        start += len(block)
    A_f[:, graph.n_poses :][:, graph.landmarks.fixed] = 0
    omega = np.diag(problem.omega)
    expected = schur_complement(problem.A.toarray(), A_f, omega)
    y = problem.manifold.random_point(5, np.random.default_rng(0))
    assert np.allclose(schur(y), expected @ y, atol=1e-8 * np.abs(expected).max())
    residual = problem.A @ y + A_f @ schur.points(y)
    assert np.abs(A_f.T @ omega @ residual).max() < 1e-8 * np.abs(expected).max()
    rule = StoppingRule(cost_tolerance=0, gradient_tolerance=1e-18)
    costs = [
        FORMULATIONS[name](schur).minimise(y, RegularisedQ(schur), rule).cost
        for name in FORMULATIONS]
    assert np.allclose(costs, costs[0], rtol=1e-8, atol=1e-9)
