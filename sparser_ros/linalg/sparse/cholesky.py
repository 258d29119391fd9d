"""Sparse Cholesky factorisation with the symbolic analysis kept: one face for both APIs.

scikit-sparse 0.4 (SuiteSparse 5 to 7) and >= 0.5 (SuiteSparse >= 7.4) differ in every name;
without either, SuperLU stands in, 30 times slower, and says so.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...config import SolverError
from .sparse_kernels import sparse_kernels
from .symbolic import elimination_tree, permuted_pattern

try:
    from sksparse import cholmod
except ImportError:
    cholmod = None

Array = NDArray[np.float64]
Index = NDArray[np.int64]
log = logging.getLogger(__name__)

_DENSE = 200
"""Multiplications per entry of the factor from where BLAS on supernodes beats single entries.

CHOLMOD's own choice changes over at 40, where padded supernodes take three times as long to
factorise, and twice as long to solve with."""


class NotPositiveDefiniteError(SolverError):
    """The matrix has a non-positive pivot."""


def cholmod_available() -> bool:
    """True when scikit-sparse is installed."""
    return cholmod is not None


class SymbolicCholesky:
    """Ordering and elimination tree of one sparsity pattern; factorises matrices of it."""

    count = 0
    """Symbolic analyses made in this process (tests assert that IRLS makes one)."""

    def __init__(
        self, matrix: sp.spmatrix, ordering: str = 'amd', order: Index | None = None
    ) -> None:
        """`order` (n,) is that of elimination where it is known; else `ordering` names a method.

        `order` afterwards is what was chosen, `counts` (n,) the entries of the factor's columns,
        padding not counted; both None where CHOLMOD tells only afterwards, or is missing.
        """
        SymbolicCholesky.count += 1
        self.n = matrix.shape[0]
        self.order: Index | None = None
        self.counts: Index | None = None
        self._factor: Any = None
        self._given: Index | None = None
        if cholmod is None:
            log.warning(
                'scikit-sparse is not installed: SuperLU factorises instead, about 30 times '
                'slower; install libsuitesparse-dev and scikit-sparse'
            )
        elif hasattr(cholmod, 'analyze') and self.n:
            self._given = order
            self._analyse(sp.csc_matrix(matrix), ordering if order is None else 'natural')

    def _analyse(self, matrix: sp.csc_matrix, ordering: str) -> None:
        matrix = self._ordered(matrix)
        self._factor = cholmod.analyze(matrix, mode='simplicial', ordering_method=ordering)
        order = self._factor.P().astype(np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(self.n)
        _, self.counts = elimination_tree(
            *permuted_pattern(matrix.indptr, matrix.indices, order, rank))
        if np.sum(self.counts**2.0) > _DENSE * np.sum(self.counts):
            self._factor = cholmod.analyze(matrix, mode='supernodal', ordering_method=ordering)
            order = self._factor.P().astype(np.int64)
        self.order = order if self._given is None else self._given[order]

    def _ordered(self, matrix: sp.csc_matrix) -> sp.csc_matrix:
        """The matrix as CHOLMOD is to see it."""
        return matrix if self._given is None else matrix[:, self._given][self._given]

    def factorize(self, matrix: sp.spmatrix) -> CholeskyFactor:
        """Factor of a matrix with this pattern; NotPositiveDefiniteError if it is not PD."""
        matrix = sp.csc_matrix(matrix)
        if self.n == 0:
            empty = np.zeros(0, dtype=np.int32)
            return CholeskyFactor(np.zeros(1, dtype=np.int32), empty, np.zeros(0), empty)
        if cholmod is None:
            return _superlu(matrix)
        if self._factor is None or self.order is None:
            return _cholmod_05(matrix)
        factor = self._factor
        try:
            factor.cholesky_inplace(self._ordered(matrix))
            lower = factor.L()
        except cholmod.CholmodNotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(str(error)) from error
        return CholeskyFactor(lower.indptr, lower.indices, lower.data, self.order)


def factorize(matrix: sp.spmatrix) -> CholeskyFactor:
    """Analyse and factorise in one go."""
    return SymbolicCholesky(matrix).factorize(matrix)


def _cholmod_05(matrix: sp.csc_matrix) -> CholeskyFactor:
    """scikit-sparse >= 0.5."""
    try:
        factor = cholmod.cho_factor(matrix, lower=True)
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError(str(error)) from error
    lower = sp.csc_matrix(factor.L)
    lower.sort_indices()
    return CholeskyFactor(lower.indptr, lower.indices, lower.data, np.asarray(factor.perm))


def _superlu(matrix: sp.csc_matrix) -> CholeskyFactor:
    """Symmetric SuperLU: P A P^T = L U with U = D L^T when no pivoting happens."""
    lu = sp.linalg.splu(
        matrix, permc_spec='MMD_AT_PLUS_A', diag_pivot_thresh=0.0,
        options={'SymmetricMode': True},
    )
    pivots = lu.U.diagonal()
    if np.any(pivots <= 0) or not np.array_equal(lu.perm_r, lu.perm_c):
        raise NotPositiveDefiniteError('a pivot is not positive')
    lower = sp.csc_matrix(lu.L @ sp.diags(np.sqrt(pivots)))
    lower.sort_indices()
    return CholeskyFactor(lower.indptr, lower.indices, lower.data, np.argsort(lu.perm_c))


class CholeskyFactor:
    """P A P^T = L L^T with L in CSC; solves for several right-hand sides without the GIL."""

    def __init__(
        self, indptr: NDArray[Any], indices: NDArray[Any], data: Array, order: NDArray[Any]
    ) -> None:
        self.indptr = np.ascontiguousarray(indptr)
        self.indices = np.ascontiguousarray(indices)
        self.data = np.ascontiguousarray(data)
        self.order = np.ascontiguousarray(order)
        self.n = len(order)
        diagonal = self.data[self.indptr[:-1]]
        if np.any(diagonal <= 0) or not np.all(np.isfinite(diagonal)):
            raise NotPositiveDefiniteError('a pivot is not positive')
        self.inverse_diagonal = 1 / diagonal
        self._work: dict[int, Array] = {}

    @property
    def nnz(self) -> int:
        return len(self.data)

    def log_determinant(self) -> float:
        """log det A."""
        return float(-2 * np.sum(np.log(self.inverse_diagonal)))

    def solve(self, rhs: Array, out: Array | None = None) -> Array:
        """A^-1 rhs for rhs of shape (n,) or (n, p); `out` may be rhs itself."""
        if rhs.ndim == 1:
            return self.solve(rhs[:, None]).ravel()
        p = rhs.shape[1]
        kernel = sparse_kernels(p)
        if p not in self._work:
            self._work[p] = np.empty((self.n, p))
        work = self._work[p]
        out = np.empty_like(rhs) if out is None else out
        kernel.gather(rhs, self.order, work)
        kernel.llt_solve(self.indptr, self.indices, self.data, self.inverse_diagonal, work)
        kernel.scatter(work, self.order, out)
        return out
