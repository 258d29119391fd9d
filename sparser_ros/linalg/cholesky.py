"""Sparse Cholesky factorisation with the symbolic analysis kept, and orders of elimination.

This is the only module that imports scikit-sparse. Its versions 0.4 (SuiteSparse 5 to 7) and
>= 0.5 (SuiteSparse >= 7.4) differ in every name; without either, SuperLU factorises instead, 30
times slower, and a warning says so.

CHOLMOD reads the lower triangle of a matrix. It does not compare that with the pattern that it
analysed: supernodal factorisations leave entries out that the analysis does not cover, so that
L L^T is another matrix, and simplicial ones insert them column by column, up to a hundred times
slower. `factorize` refuses such matrices.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..array_types import Array, Index
from ..config import SolverError
from .sparse_kernels import sparse_kernels
from .symbolic import elimination_tree, first_uncovered, permuted_pattern

SUPERNODAL_FROM = 200
"""Multiplications per entry of the factor from which CHOLMOD works on supernodes. Its own choice
changes over at 40, where padded supernodes take two to three times as long as single columns."""

try:
    from sksparse import cholmod
except ImportError:
    cholmod = None

log = logging.getLogger(__name__)
_COLUMNS_AT_ONCE = 5
"""Of right-hand sides: the usual rank of relaxations, for which kernels are there already."""


class NotPositiveDefiniteError(SolverError):
    """The matrix has a non-positive pivot."""


class OrderingUnavailableError(SolverError):
    """CHOLMOD cannot compute this ordering, usually because it was built without METIS."""


class UncoveredPatternError(ValueError):
    """A matrix has entries where the analysed pattern has none; its factor would be wrong."""


def cholmod_available() -> bool:
    """True when scikit-sparse is installed."""
    return cholmod is not None


def supports_external_ordering() -> bool:
    """True when CHOLMOD computes and accepts orders of elimination (scikit-sparse 0.4)."""
    return hasattr(cholmod, 'analyze')


def fill_reducing_order(pattern: sp.spmatrix, method: str = 'amd') -> Index:
    """(n,): the rows of a symmetric pattern in an order of elimination that fills little.

    `method` is `amd` (minimum degree), `metis` or `nesdis` (nested dissection);
    OrderingUnavailableError where CHOLMOD lacks it. Where CHOLMOD does not tell its orders or is
    missing, the order is SuperLU's minimum degree, whatever the method.
    """
    n = pattern.shape[0]
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    if not supports_external_ordering():
        # SuperLU orders only what it factorises: the pattern, made diagonally dominant.
        pattern = sp.csc_matrix(pattern)
        ones = sp.csc_matrix(
            (np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=pattern.shape)
        return np.asarray(np.argsort(_superlu_factor(ones + n * sp.eye(n)).perm_c))
    pattern = sp.csc_matrix(pattern, dtype=float)
    return np.asarray(_analysed(pattern, 'simplicial', method).P(), dtype=np.int64)


def _analysed(matrix: sp.csc_matrix, mode: str, method: str) -> Any:
    """CHOLMOD's symbolic factor."""
    try:
        return cholmod.analyze(matrix, mode=mode, ordering_method=method)
    except cholmod.CholmodError as error:
        raise OrderingUnavailableError(f'CHOLMOD has no ordering {method}: {error}') from error


class SymbolicCholesky:
    """Ordering and elimination tree of one sparsity pattern; factorises matrices of it."""

    count = 0
    """Symbolic analyses made in this process (tests assert that IRLS makes one)."""

    def __init__(
        self, matrix: sp.spmatrix, ordering: str = 'amd', order: Index | None = None
    ) -> None:
        """`order` (n,) is that of elimination where it is known; else `ordering` names a method.

        Values do not matter, only which entries are stored. `order` afterwards is what was
        chosen, `counts` (n,) the entries of the factor's columns, padding not counted; both None
        where CHOLMOD tells only afterwards, or is missing.
        """
        SymbolicCholesky.count += 1
        self.n = matrix.shape[0]
        self.order: Index | None = None
        self.counts: Index | None = None
        self._factor: Any = None
        self._prescribed = order if supports_external_ordering() else None
        matrix = _lower_complete(self._reordered(sp.csc_matrix(matrix)))
        # Copies: the caller may change its matrix in place.
        self._indptr = np.array(matrix.indptr, dtype=np.int32)
        self._indices = np.array(matrix.indices, dtype=np.int32)
        if cholmod is None:
            log.warning(
                'scikit-sparse is not installed: SuperLU factorises instead, about 30 times '
                'slower; install libsuitesparse-dev and scikit-sparse'
            )
        elif supports_external_ordering() and self.n:
            self._analyse(matrix, ordering if order is None else 'natural')

    def _analyse(self, matrix: sp.csc_matrix, ordering: str) -> None:
        self._factor = _analysed(matrix, 'simplicial', ordering)
        order = self._factor.P().astype(np.int64)
        rank = np.empty_like(order)
        rank[order] = np.arange(self.n)
        _, self.counts = elimination_tree(
            *permuted_pattern(matrix.indptr, matrix.indices, order, rank))
        limit = SUPERNODAL_FROM
        if np.sum(self.counts**2.0) > limit * float(np.sum(self.counts)):
            self._factor = _analysed(matrix, 'supernodal', ordering)
            order = self._factor.P().astype(np.int64)
        self.order = order if self._prescribed is None else self._prescribed[order]

    def _reordered(self, matrix: sp.csc_matrix) -> sp.csc_matrix:
        """The matrix with its rows and columns in the prescribed order, if there is one."""
        if self._prescribed is None:
            return matrix
        return sp.csc_matrix(matrix[:, self._prescribed][self._prescribed])

    def factorize(self, matrix: sp.spmatrix) -> CholeskyFactor:
        """Factor of a matrix whose entries all lie in the analysed pattern.

        Raises NotPositiveDefiniteError if the matrix is not positive definite and
        UncoveredPatternError if it has entries elsewhere; fewer entries do no harm.
        """
        matrix = self._reordered(sp.csc_matrix(matrix))
        self._require_covered(matrix)
        if self.n == 0:
            empty = np.zeros(0, dtype=np.int32)
            return CholeskyFactor(np.zeros(1, dtype=np.int32), empty, np.zeros(0), empty)
        if cholmod is None:
            return _superlu(matrix)
        if self._factor is None or self.order is None:
            return _cholmod_05(matrix)
        factor = self._factor
        try:
            factor.cholesky_inplace(matrix)
            lower = factor.L()
        except cholmod.CholmodNotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(str(error)) from error
        return CholeskyFactor(lower.indptr, lower.indices, lower.data, self.order)

    def _require_covered(self, matrix: sp.csc_matrix) -> None:
        if matrix.shape != (self.n, self.n):
            raise UncoveredPatternError(
                f'a matrix of shape {matrix.shape} after the analysis of {self.n} rows')
        count, row, column = first_uncovered(
            *_pattern_of(matrix), self._indptr, self._indices)
        if count:
            raise UncoveredPatternError(uncovered_text(count, row, column))


def _pattern_of(matrix: sp.csc_matrix) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return (np.asarray(matrix.indptr, dtype=np.int32), np.asarray(matrix.indices, dtype=np.int32))


def _lower_complete(matrix: sp.csc_matrix) -> sp.csc_matrix:
    """The matrix, or its symmetric pattern where entries are stored above the diagonal only.

    A sparse product leaves out what cancels to zero, which rounding decides on either side.
    """
    transposed = sp.csc_matrix(matrix.T)
    count, _, _ = first_uncovered(*_pattern_of(transposed), *_pattern_of(matrix))
    if not count:
        return matrix
    ones = (
        sp.csc_matrix((np.ones(one.nnz), one.indices, one.indptr), shape=one.shape)
        for one in (matrix, transposed))
    return sp.csc_matrix(sum(ones))


def uncovered_text(count: int, row: int, column: int) -> str:
    """The message of UncoveredPatternError."""
    return (
        f'{count} entries of the matrix, the first in row {row} and column {column}, lie outside '
        'the analysed pattern: analyse the pattern that is factorised')


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


def _superlu_factor(matrix: sp.csc_matrix) -> sp.linalg.SuperLU:
    return sp.linalg.splu(
        sp.csc_matrix(matrix), permc_spec='MMD_AT_PLUS_A', diag_pivot_thresh=0.0,
        options={'SymmetricMode': True})


def _superlu(matrix: sp.csc_matrix) -> CholeskyFactor:
    """Symmetric SuperLU: P A P^T = L U with U = D L^T when no pivoting happens."""
    lu = _superlu_factor(matrix)
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

    def solve_any(self, rhs: Array, at_once: int = _COLUMNS_AT_ONCE) -> Array:
        """A^-1 rhs for rhs of shape (n, q), q as the data have it: a few columns at a time.

        `solve` is compiled for each number of columns, which takes seconds. It is the better one
        where few numbers occur, such as ranks.
        """
        out = np.empty_like(rhs)
        some = np.zeros((self.n, at_once))
        for first in range(0, rhs.shape[1], at_once):
            count = min(at_once, rhs.shape[1] - first)
            some[:, :count] = rhs[:, first:first + count]
            out[:, first:first + count] = self.solve(some)[:, :count]
        return out

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
