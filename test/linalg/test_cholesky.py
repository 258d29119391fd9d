"""Sparse factors against dense algebra: blocks of any size, patterns, orders of elimination."""

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from graphs import graph_matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.linalg import cholesky, fronts, ordering
from sparser_ros.linalg.ordering import OrderingUnavailableError, flattest

DENSITIES = (0.1, 20.0)


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


# (b, p): the sizes of blocks that the solver has (1: rows; 2: points; 3 and 4: poses as columns; 3,
# 6 and 14: poses as tangents, in the plane, in space and at rank 5). Kernels of others would be
# compiled for the tests alone: each b takes ten seconds, each pair one or two.
SIZES = [(1, 1), (1, 5), (2, 2), (3, 1), (3, 2), (3, 5), (4, 3), (4, 5), (6, 1), (14, 1)]


@settings(deadline=None)
@given(st.sampled_from(SIZES), st.integers(1, 9), st.integers(0, 10_000))
def test_solutions_are_those_of_dense_algebra(sizes, blocks, seed):
    b, p = sizes
    rng = np.random.default_rng(seed)
    # One pair of equal ends couples a block with itself only.
    links = [(i, j) for i, j in rng.integers(0, blocks, (2 * blocks, 2)) if i != j]
    missing = rng.permutation(blocks * b - 1)[: rng.integers(0, 1 + blocks * b // 3)]
    matrix, place = matrix_of(blocks, b, links, missing, seed)
    factor = cholesky.SymbolicCholesky(matrix, place=place, b=b).factorize(matrix)
    rhs = rng.standard_normal((len(place), p))
    agrees(factor, matrix, rhs)
    agrees(factor, matrix, rhs[:, 0])
    inside = rhs.copy()
    assert factor.solve(inside, out=inside) is inside
    np.testing.assert_array_equal(inside, factor.solve(rhs))


@pytest.mark.parametrize('b, p', [(1, 5), (2, 2), (3, 2), (4, 3), (6, 1), (14, 1)])
@pytest.mark.parametrize('large', [0, 20, 10**9])
def test_dense_fronts_and_single_columns_make_the_same_factor(b, p, large):
    rng = np.random.default_rng(b)
    # Two cliques and chains between them: fronts wide and narrow, and several roots.
    links = [(i, j) for i in range(14) for j in range(i)]
    links += [(i, j) for i in range(20, 44) for j in range(20, i) if (i + j) % 3]
    links += [(i, i + 1) for i in range(13, 20)] + [(50, 51), (52, 50)]
    matrix, place = matrix_of(60, b, links, [4 * b, 17 * b], 1)
    with patch.object(fronts, 'DENSE_ROWS', large):
        symbolic = cholesky.SymbolicCholesky(matrix, rng.permutation(60), place=place, b=b)
    for values in (matrix, sp.csc_matrix(2 * matrix)):
        agrees(symbolic.factorize(values), values, rng.standard_normal((len(place), p)))
    with pytest.raises(cholesky.NotPositiveDefiniteError):
        symbolic.factorize(sp.csc_matrix(matrix - 50 * sp.identity(len(place))))


@pytest.mark.parametrize('installed', [True, False])
def test_without_cholmod_the_blocks_are_ordered_and_solved_all_the_same(installed, monkeypatch):
    if not installed:
        monkeypatch.setattr(ordering, 'cholmod', None)
    matrix, place = matrix_of(20, 3, [(i, i + 1) for i in range(19)], [1], 0)
    factor = cholesky.SymbolicCholesky(matrix, place=place, b=3).factorize(matrix)
    # A chain fills nothing in any order that eliminates it from its ends.
    assert factor.data.shape == (19, 3, 3)
    agrees(factor, matrix, np.random.default_rng(0).standard_normal((len(place), 2)))


@pytest.mark.parametrize('b, p', [(3, 17), (4, 5)])
def test_columns_beyond_the_registers_are_solved_too(b, p):
    matrix, place = matrix_of(6, b, [(0, 3), (1, 3), (2, 5)], [1], b)
    rhs = np.random.default_rng(p).standard_normal((len(place), p))
    agrees(cholesky.SymbolicCholesky(matrix, place=place, b=b).factorize(matrix), matrix, rhs)
    agrees(cholesky.factorize(matrix), matrix, rhs)
    for columns in (0, 5, 12):
        many = np.tile(rhs, 3)[:, :columns]
        np.testing.assert_allclose(cholesky.factorize(matrix).solve_any(many), np.linalg.solve(
            matrix.toarray(), many), rtol=1e-9, atol=1e-9)


def analyses(matrix: sp.csc_matrix):
    n, analysed = matrix.shape[0], cholesky.SymbolicCholesky
    return [analysed(matrix), analysed(matrix, np.arange(n)[::-1].copy()),
            analysed(matrix, place=np.arange(n), b=3)]


@pytest.mark.parametrize('density', DENSITIES)
def test_a_matrix_outside_the_analysed_pattern_is_analysed_anew(density):
    matrix = graph_matrix(3, 300, density)
    # Where a whole block is empty: the others may be filled.
    i, j = 3 * np.argwhere(abs(matrix).toarray().reshape(100, 3, 100, 3).sum((1, 3)) == 0)[-1]
    extra = sp.coo_matrix(([1e-3, 1e-3], ([i, j], [j, i])), shape=matrix.shape)
    for symbolic in analyses(matrix):
        for values in (sp.csc_matrix(matrix + extra), matrix):
            agrees(symbolic.factorize(values), values, np.ones((300, 2)))


@pytest.mark.parametrize('density', DENSITIES)
def test_fewer_entries_do_no_harm(density):
    matrix = graph_matrix(5, 198, density)
    thin = sp.csc_matrix(sp.diags(matrix.diagonal() + 1.0))
    rhs, shift = np.random.default_rng(0).normal(size=(198, 3)), np.linspace(0, 1, 198)
    for symbolic in analyses(matrix):
        agrees(symbolic.factorize(thin), thin, rhs)
        agrees(symbolic.factorize(matrix, shift), matrix + sp.diags(shift), rhs)
    empty = sp.csc_matrix((198, 198))
    for symbolic in analyses(empty):
        agrees(symbolic.factorize(empty, 1 + shift), sp.diags(1 + shift), rhs)


def test_patterns_need_not_be_stored_on_both_sides():
    matrix = graph_matrix(2, 63, 1.0)
    for lopsided in (sp.tril(matrix) + sp.triu(matrix, 3), sp.triu(matrix) + sp.tril(matrix, -3)):
        assert lopsided.nnz < matrix.nnz
        agrees(cholesky.SymbolicCholesky(lopsided).factorize(matrix), matrix, np.ones((63, 2)))


@pytest.mark.parametrize('least', [0, 10**9])
def test_either_order_solves(least):
    matrix = graph_matrix(2, 300, 1.0)
    with patch.object(cholesky, 'METIS_FROM', least):
        symbolic = cholesky.sparsest(matrix, 3)
    assert np.sort(symbolic.blocks.order).tolist() == list(range(300))
    agrees(symbolic.factorize(matrix), matrix, np.ones((300, 2)))


def test_a_cholmod_without_metis_makes_do(monkeypatch, caplog):
    asked = []

    def poor(pattern, method='amd'):
        asked.append(method)
        if method != 'amd':
            raise OrderingUnavailableError('no such ordering')
        return np.arange(pattern.shape[0])

    monkeypatch.setattr(ordering, 'fill_reducing_order', poor)
    assert len(flattest(graph_matrix(1, 50, 0.5))) == 50
    assert asked == ['metis', 'nesdis', 'amd'] and 'metis' in caplog.text
