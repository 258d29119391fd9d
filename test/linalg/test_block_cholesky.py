"""Factors by blocks against dense algebra, whatever rows the blocks lack."""

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.linalg import cholesky, fronts
from sparser_ros.linalg.block_cholesky import RowBlockCholesky
from sparser_ros.linalg.cholesky import NotPositiveDefiniteError, factorize
from sparser_ros.linalg.sparse_kernels import add_diagonal


def matrix_of(blocks, b, links, missing, seed):
    """A positive definite matrix of blocks without some of its rows, and the rows' places."""
    rng = np.random.default_rng(seed)
    dense = np.eye(blocks * b)
    for i, j in links:
        rows = np.r_[i * b : i * b + b, j * b : j * b + b]
        half = rng.standard_normal((b, 2 * b))
        dense[np.ix_(rows, rows)] += half.T @ half
    place = rng.permutation(np.setdiff1d(np.arange(blocks * b), missing))
    return sp.csc_matrix(dense[np.ix_(place, place)]), place


def agrees(factor, matrix, rhs):
    np.testing.assert_allclose(
        factor.solve(rhs), np.linalg.solve(matrix.toarray(), rhs), rtol=1e-9, atol=1e-9)


# (b, p): the sizes of blocks that the solver has (2: points; 3 and 4: poses as columns; 3, 6 and
# 14: poses as tangents, in the plane, in space and at rank 5). Kernels of others would be compiled
# for the tests alone: each b takes ten seconds, each pair one or two.
SIZES = [(2, 2), (3, 1), (3, 2), (3, 5), (4, 3), (4, 5), (6, 1), (14, 1)]


@settings(deadline=None)
@given(st.sampled_from(SIZES), st.integers(1, 9), st.integers(0, 10_000))
def test_solutions_are_those_of_dense_algebra(sizes, blocks, seed):
    b, p = sizes
    rng = np.random.default_rng(seed)
    # One pair of equal ends couples a block with itself only.
    links = [(i, j) for i, j in rng.integers(0, blocks, (2 * blocks, 2)) if i != j]
    missing = rng.permutation(blocks * b - 1)[: rng.integers(0, 1 + blocks * b // 3)]
    matrix, place = matrix_of(blocks, b, links, missing, seed)
    factor = RowBlockCholesky(matrix, place, b).factorize(matrix)
    rhs = rng.standard_normal((len(place), p))
    agrees(factor, matrix, rhs)
    agrees(factor, matrix, rhs[:, 0])
    inside = rhs.copy()
    assert factor.solve(inside, out=inside) is inside
    np.testing.assert_array_equal(inside, factor.solve(rhs))


@pytest.mark.parametrize('b, p', [(2, 2), (3, 2), (4, 3), (6, 1), (14, 1)])
@pytest.mark.parametrize('large', [0, 20, 10**9])
def test_dense_fronts_and_single_columns_make_the_same_factor(b, p, large):
    rng = np.random.default_rng(b)
    # Two cliques and chains between them: fronts wide and narrow, and several roots.
    links = [(i, j) for i in range(14) for j in range(i)]
    links += [(i, j) for i in range(20, 44) for j in range(20, i) if (i + j) % 3]
    links += [(i, i + 1) for i in range(13, 20)] + [(50, 51), (52, 50)]
    matrix, place = matrix_of(60, b, links, [4 * b, 17 * b], 1)
    with patch.object(fronts, 'DENSE_ROWS', large):
        symbolic = RowBlockCholesky(matrix, place, b, rng.permutation(60))
    for values in (matrix, sp.csc_matrix(2 * matrix)):
        agrees(symbolic.factorize(values), values, rng.standard_normal((len(place), p)))
    with pytest.raises(NotPositiveDefiniteError):
        symbolic.factorize(sp.csc_matrix(matrix - 50 * sp.identity(len(place))))


@pytest.mark.parametrize('installed', [True, False])
def test_without_cholmod_the_blocks_are_ordered_and_solved_all_the_same(installed, monkeypatch):
    if not installed:
        monkeypatch.setattr(cholesky, 'cholmod', None)
    matrix, place = chain()
    factor = RowBlockCholesky(matrix, place, 3).factorize(matrix)
    # A chain fills nothing in any order that eliminates it from its ends.
    assert factor.data.shape == (19, 3, 3)
    agrees(factor, matrix, np.random.default_rng(0).standard_normal((len(place), 2)))


@pytest.mark.parametrize('b, p', [(3, 17), (4, 5)])
def test_columns_beyond_the_registers_are_solved_too(b, p):
    matrix, place = matrix_of(6, b, [(0, 3), (1, 3), (2, 5)], [1], b)
    rhs = np.random.default_rng(p).standard_normal((len(place), p))
    agrees(RowBlockCholesky(matrix, place, b).factorize(matrix), matrix, rhs)
    agrees(factorize(matrix), matrix, rhs)


def chain():
    return matrix_of(20, 3, [(i, i + 1) for i in range(19)], [1], 0)


def test_a_shift_finds_the_diagonal_or_says_that_it_is_not_all_there():
    matrix = sp.csc_matrix([[2.0, 1.0, 0.0], [1.0, 0.0, 3.0], [0.0, 3.0, 4.0]])
    data = matrix.data.copy()
    assert not add_diagonal(matrix.indptr, matrix.indices, np.ones(3), data)
    stored = matrix + sp.diags([0.0, 5.0, 0.0]).tocsc()
    shifted = stored.copy()
    assert add_diagonal(stored.indptr, stored.indices, np.array([1.0, 2.0, 3.0]), shifted.data)
    np.testing.assert_array_equal(
        shifted.toarray(), stored.toarray() + np.diag([1.0, 2.0, 3.0]))
