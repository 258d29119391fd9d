"""A basis of the columns of any A_f, and what it is for: residuals of any linear form."""

import numpy as np
import pytest
import scipy.sparse as sp
from dense import schur_complement
from helpers import world
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.solver.formulations import FORMULATIONS, formulate
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import (
    QuadraticProblem,
    ResidualRows,
    VariableColumns,
    column_basis,
    independent_columns,
    residual_rows,
)
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule


def deficient(seed: int, rows: int, columns: int, rank: int) -> sp.csr_matrix:
    """A sparse matrix with columns copied, scaled and added up to the given rank at most."""
    random = np.random.default_rng(seed)
    left = sp.random(rows, rank, 0.4, random_state=random, data_rvs=random.standard_normal)
    right = sp.random(rank, columns, 0.5, random_state=random, data_rvs=random.standard_normal)
    return sp.csr_matrix(left @ right)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 20), st.integers(1, 20),
    st.floats(-6, 6))
def test_chosen_columns_are_independent_and_span(seed, rows, columns, rank, exponent):
    A = 10**exponent * deficient(seed, rows, columns, rank)
    chosen = independent_columns(A)
    whole = np.linalg.matrix_rank(A.toarray(), tol=1e-9 * 10**exponent)
    assert len(chosen) == len(np.unique(chosen)) == whole
    assert np.linalg.matrix_rank(A.toarray()[:, chosen], tol=1e-9 * 10**exponent) == whole


def test_fixed_points_have_no_column():
    A_f = sp.csr_matrix([[1.0, -2, 1, 0], [0, 1, -2, 1]])
    fixed = np.array([False, True, False, False])
    kept = column_basis(A_f, fixed)
    assert 1 not in kept
    assert len(kept) == 2


def smooth_motion(graph, at: VariableColumns) -> ResidualRows:
    """t_k+1 - 2 t_k + t_k-1 of one robot, weight 3: blind to position and to velocity."""
    k = np.flatnonzero((graph.poses.index[1:-1] > 0) & (graph.poses.index[2:] > 0)) + 1
    rows = np.arange(len(k))
    block = ResidualRows('smooth_motion', np.full(len(k), 3.0), rows)
    for offset, value in ((1, 1.0), (0, -2.0), (-1, 1.0)):
        block.add_free(rows, k + offset, value)
    return block


def heading_steps(graph, at: VariableColumns) -> ResidualRows:
    """t_k+1 - 2 t_k + t_k-1 - 0.1 (1 0 ...) R_k^T, weight 2, the only translation residual."""
    block = smooth_motion(graph, at)
    block.weight[:] = 2.0
    k = block.free[1][1]
    block.add(np.arange(len(k))[:, None], at.rotation(k)[:, :1], -0.1)
    return block


@pytest.mark.parametrize('absolute', ('', 'pfk'))
@pytest.mark.parametrize('build', [
    lambda graph, at: [*residual_rows(graph, at), smooth_motion(graph, at)],
    lambda graph, at: [residual_rows(graph, at)[0], heading_steps(graph, at)]])
def test_any_linear_residual_is_solved_exactly(build, absolute):
    """Second differences are no incidence rows; product, positions and optimum stay exact."""
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
        formulate(name, schur).minimise(y, RegularisedQ(schur), rule).cost
        for name in FORMULATIONS]
    assert np.allclose(costs, costs[0], rtol=1e-8, atol=1e-9)
