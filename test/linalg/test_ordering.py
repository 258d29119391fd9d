"""Orders of elimination: counted entries are those of the factor, and METIS where it pays."""

import numpy as np
import pytest
from test_partitioned_inverse import graph_matrix

from sparser_ros.linalg import ordering
from sparser_ros.linalg.cholesky import SymbolicCholesky, cholmod
from sparser_ros.linalg.ordering import entries, flattest, sparsest


@pytest.mark.parametrize('method', ['amd', 'metis', 'natural'])
def test_entries_are_counted_without_a_factorisation(method):
    if not hasattr(cholmod, 'analyze'):
        pytest.skip('this CHOLMOD cannot be told an ordering')
    matrix = graph_matrix(1, 300, 0.05)
    symbolic = SymbolicCholesky(matrix, method)
    factor = symbolic.factorize(matrix)
    counted = entries(matrix, symbolic.order)
    # Supernodes are padded with zeros.
    assert counted <= factor.nnz <= 1.5 * counted
    assert counted >= np.count_nonzero(factor.data)


def test_small_and_sparse_matrices_keep_amd(monkeypatch):
    chosen = []
    monkeypatch.setattr(ordering, 'flattest', lambda matrix: chosen.append(1) or flattest(matrix))
    closing, chain = graph_matrix(1, 900, 1.0), graph_matrix(1, 900, 0.01)
    sparsest(closing)
    assert not chosen
    monkeypatch.setattr(ordering, '_MANY', 500)
    sparsest(chain)
    assert not chosen
    rhs = np.ones((900, 2))
    solved = sparsest(closing).factorize(closing).solve(rhs)
    if hasattr(cholmod, 'analyze'):
        assert chosen
    assert np.abs(closing @ solved - rhs).max() < 1e-9


def test_a_cholmod_without_metis_makes_do(monkeypatch, caplog):
    if not hasattr(cholmod, 'analyze'):
        pytest.skip('this CHOLMOD cannot be told an ordering')
    asked = []

    class Poor(SymbolicCholesky):
        def __init__(self, matrix, method='amd'):
            asked.append(method)
            if method != 'amd':
                raise cholmod.CholmodNotInstalledError('no such ordering')
            super().__init__(matrix, method)

    monkeypatch.setattr(ordering, 'SymbolicCholesky', Poor)
    matrix = graph_matrix(1, 50, 0.5)
    factor = flattest(matrix).factorize(matrix)
    assert asked == ['metis', 'nesdis', 'amd'] and 'metis' in caplog.text
    assert np.abs(matrix @ factor.solve(np.ones((50, 1))) - 1).max() < 1e-9
