"""Solves with M on the GPU by the vendor's libraries, to compare with partitioned inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparser_ros.solver.schur import SchurOperator


def spsm(schur: SchurOperator, p: int) -> Callable[[], Any]:
    """M^-1 b for b (n, p) by cuSPARSE SpSM, there and back; cupy analyses in every call."""
    import cupy
    from cupyx import cusparse
    from cupyx.scipy.sparse import csr_matrix

    factor = schur.factor
    n = factor.n
    lower = sp.csc_matrix((factor.data, factor.indices, factor.indptr), shape=(n, n)).tocsr()
    held, rhs = csr_matrix(lower), cupy.asarray(_right_hand_side(n, p), order='F')

    def solve() -> Any:
        there = cusparse.spsm(held, rhs, lower=True, unit_diag=False)
        return cusparse.spsm(held, there, lower=True, unit_diag=False, transa=True)

    return solve


def cudss(schur: SchurOperator, p: int) -> Callable[[], Any]:
    """The same by cuDSS through nvmath-python, planned and factorised beforehand."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix
    from nvmath.sparse import advanced

    matrix = csr_matrix(schur.M.tocsr())
    rhs = cupy.asarray(_right_hand_side(schur.M.shape[0], p), order='F')
    solver = advanced.DirectSolver(matrix, rhs, options={
        'sparse_system_type': advanced.DirectSolverMatrixType.SPD})
    solver.plan()
    solver.factorize()
    return lambda: solver.solve()


def _right_hand_side(n: int, p: int) -> Any:
    return np.asfortranarray(np.random.default_rng(0).normal(size=(n, p)))


PEERS: dict[str, Callable[[SchurOperator, int], Callable[[], Any]]] = {
    'spsm': spsm, 'cudss': cudss,
}
