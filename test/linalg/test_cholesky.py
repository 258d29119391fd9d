"""Sparse factors: patterns that an analysis covers, orders of elimination, METIS where it pays."""

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import graph_matrix

from sparser_ros.linalg import ordering
from sparser_ros.linalg.block_cholesky import RowBlockCholesky
from sparser_ros.linalg.cholesky import (
    OrderingUnavailableError,
    SymbolicCholesky,
    UncoveredPatternError,
    factorize,
    supports_external_ordering,
)
from sparser_ros.linalg.ordering import flattest, sparsest

# Sparse ones are factorised column by column, dense ones on supernodes.
DENSITIES = (0.1, 20.0)


def dense(n: int) -> sp.csc_matrix:
    random = np.random.default_rng(n)
    a = random.normal(size=(n, n))
    return sp.csc_matrix(a @ a.T + n * np.eye(n))


def analyses(matrix: sp.csc_matrix):
    n = matrix.shape[0]
    return [
        SymbolicCholesky(matrix), SymbolicCholesky(matrix, order=np.arange(n)[::-1].copy()),
        RowBlockCholesky(matrix, np.arange(n), 3)]


def with_entry(matrix: sp.csc_matrix, i: int, j: int) -> sp.csc_matrix:
    extra = sp.coo_matrix(([1e-3, 1e-3], ([i, j], [j, i])), shape=matrix.shape)
    return sp.csc_matrix(matrix + extra)


@pytest.mark.parametrize('density', DENSITIES)
def test_a_matrix_outside_the_analysed_pattern_is_refused(density):
    matrix = graph_matrix(3, 300, density)
    matrix = sp.csc_matrix(matrix)
    # Where a whole block is empty: the others may be filled.
    i, j = 3 * np.argwhere(abs(matrix).toarray().reshape(100, 3, 100, 3).sum((1, 3)) == 0)[-1]
    for symbolic in analyses(matrix):
        with pytest.raises(UncoveredPatternError, match='outside the analysed pattern'):
            symbolic.factorize(with_entry(matrix, i, j))
        # The analysis is none the worse for it.
        rhs = np.ones((300, 2))
        assert np.allclose(matrix @ symbolic.factorize(matrix).solve(rhs), rhs, atol=1e-8)


@pytest.mark.parametrize('density', DENSITIES)
def test_fewer_entries_do_no_harm(density):
    matrix = graph_matrix(5, 200, density)
    thin = sp.csc_matrix(sp.diags(matrix.diagonal() + 1.0))
    rhs = np.random.default_rng(0).normal(size=(200, 3))
    for symbolic in analyses(matrix):
        assert np.allclose(thin @ symbolic.factorize(thin).solve(rhs), rhs, atol=1e-12)


@pytest.mark.parametrize('columns', [0, 1, 5, 7, 12])
def test_any_number_of_columns_is_solved(columns):
    matrix = graph_matrix(4, 60, 0.5)
    rhs = np.random.default_rng(columns).normal(size=(60, columns))
    solution = factorize(matrix).solve_any(rhs)
    assert solution.shape == rhs.shape
    assert np.allclose(matrix @ solution, rhs, atol=1e-9)


needs_orderings = pytest.mark.skipif(
    not supports_external_ordering(), reason='this CHOLMOD cannot be told an ordering')


def lattice(*shape, chains=0):
    """A positive definite matrix of a lattice, each of its edges a chain of `chains` more nodes."""
    n = int(np.prod(shape))
    number = np.arange(n).reshape(shape)
    edges = np.concatenate([
        np.stack([np.take(number, range(size - 1), axis).ravel(),
                  np.take(number, range(1, size), axis).ravel()], axis=1)
        for axis, size in enumerate(shape)])
    inner = n + np.arange(len(edges) * chains).reshape(len(edges), chains)
    path = np.concatenate([edges[:, :1], inner, edges[:, 1:]], axis=1)
    i, j = path[:, :-1].ravel(), path[:, 1:].ravel()
    m = n + inner.size
    # Numbered at random, so that no order is given away.
    name = np.random.default_rng(0).permutation(m)
    weights = sp.coo_matrix((np.ones(len(i)), (name[i], name[j])), shape=(m, m))
    weights = weights + weights.T
    return sp.csc_matrix(sp.diags(np.asarray(weights.sum(axis=0)).ravel() + 0.1) - weights)


def solves(symbolic, matrix):
    factor = symbolic.factorize(matrix)
    return np.abs(matrix @ factor.solve(np.ones((factor.n, 2))) - 1).max() < 1e-9


@needs_orderings
def test_patterns_need_not_be_stored_on_both_sides():
    matrix = lattice(9, 7)
    lopsided = sp.csc_matrix(sp.tril(matrix) + sp.triu(matrix, 3))
    assert lopsided.nnz < matrix.nnz
    assert solves(SymbolicCholesky(lopsided), matrix)


@needs_orderings
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.floats(0.0, 2.5), st.integers(0, 2**32 - 1))
def test_every_graph_falls_into_chains_and_the_rest(n, edges_per_node, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(n, size=(int(n * edges_per_node), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    weights = sp.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(n, n))
    weights = weights + weights.T
    matrix = sp.csc_matrix(sp.diags(np.asarray(weights.sum(axis=0)).ravel() + 1) - weights)
    with patch.multiple(ordering, REDUCED_FROM_NODES=0):
        symbolic = sparsest(matrix)
    assert np.sort(symbolic.order).tolist() == list(range(n))
    assert solves(symbolic, matrix)


@needs_orderings
def test_a_cholmod_without_metis_makes_do(monkeypatch, caplog):
    asked = []

    class Poor(SymbolicCholesky):
        def __init__(self, matrix, method='amd'):
            asked.append(method)
            if method != 'amd':
                raise OrderingUnavailableError('no such ordering')
            super().__init__(matrix, method)

    monkeypatch.setattr(ordering, 'SymbolicCholesky', Poor)
    matrix = graph_matrix(1, 50, 0.5)
    factor = flattest(matrix).factorize(matrix)
    assert asked == ['metis', 'nesdis', 'amd'] and 'metis' in caplog.text
    assert np.abs(matrix @ factor.solve(np.ones((50, 1))) - 1).max() < 1e-9
