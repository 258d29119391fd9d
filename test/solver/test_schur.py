"""The matrix-free Schur product against the pseudo-inverse, and the basis it rests on."""

import numpy as np
import pytest
from dense import free_jacobian, jacobians, schur_complement
from graphs import random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.graph import Graph
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator


def tame(graph: Graph) -> Graph:
    """Weights within a factor of 100, so that a dense pseudo-inverse keeps its digits."""
    def squeeze(table):  # type: ignore[no-untyped-def]
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
    """Back-substituted positions zero the gradient in X_f and give the reduced cost."""
    problem = QuadraticProblem(graph)
    A, _, omega = jacobians(problem)
    A_f = free_jacobian(graph)
    schur = SchurOperator(problem)
    y = problem.manifold.random_point(5, np.random.default_rng(1))
    points = schur.points(y)
    residual = A @ y + A_f @ points
    scale = np.abs(A_f.T @ omega @ A @ y).max() + 1
    assert np.abs(A_f.T @ omega @ residual).max() < 1e-10 * scale
    cost = np.sum(y * schur(y))
    assert cost == pytest.approx(np.sum(residual * (omega @ residual)), rel=1e-9)
