"""Analyses refuse matrices that they do not cover, for CHOLMOD would factorise other ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from matrices import graph_matrix

from sparser_ros.linalg.block_cholesky import RowBlockCholesky
from sparser_ros.linalg.cholesky import (
    OrderingUnavailableError,
    SymbolicCholesky,
    UncoveredPatternError,
    factorize,
    fill_reducing_order,
    supports_external_ordering,
)

# Sparse ones are factorised column by column, dense ones on supernodes.
DENSITIES = (0.1, 20.0)


def dense(n: int) -> sp.csc_matrix:
    random = np.random.default_rng(n)
    a = random.normal(size=(n, n))
    return sp.csc_matrix(a @ a.T + n * np.eye(n))


def analyses(matrix: sp.csc_matrix):  # type: ignore[no-untyped-def]
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


def test_a_missing_ordering_has_an_error_of_its_own(monkeypatch):
    if not supports_external_ordering():
        pytest.skip('this CHOLMOD is not told orders')
    from sparser_ros.linalg import cholesky

    def missing(*_arguments, **_options):  # type: ignore[no-untyped-def]
        raise cholesky.cholmod.CholmodNotInstalledError('no METIS here')

    monkeypatch.setattr(cholesky.cholmod, 'analyze', missing)
    with pytest.raises(OrderingUnavailableError, match='no METIS here'):
        fill_reducing_order(graph_matrix(1, 60, 0.5), 'metis')
