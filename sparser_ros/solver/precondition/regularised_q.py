"""Preconditioners of truncated CG: regularised copies of Q, factorised once per problem."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index
from ...linalg.arrays import HOST, Arrays, Factor, Symbolic, arrays_of
from ...linalg.block.block_cholesky import RowBlockCholesky
from ...linalg.sparse.cholesky import (
    SymbolicCholesky,
    UncoveredPatternError,
    supports_external_ordering,
)
from ...linalg.sparse.sparse_kernels import add_diagonal
from .. import thresholds
from ..model.schur import SchurOperator


def elimination_order(schur: SchurOperator) -> Index:
    """(points,): order of poses and landmarks that keeps factors of Q by blocks sparse.

    It is that of M, which couples the same poses and landmarks; those without a column come last.
    """
    kept = np.asarray(schur.problem.kept, dtype=np.int64)
    without = np.ones(schur.problem.n_points, dtype=bool)
    without[kept] = False
    return np.concatenate([kept[schur.factor.order], np.flatnonzero(without)])


def blocks_of_poses(schur: SchurOperator) -> bool:
    """Whether factors by blocks of one pose each suit: no bearings and few landmarks."""
    manifold = schur.problem.manifold
    few = schur.problem.n_points <= (1 + thresholds.current().landmarks_per_pose) * manifold.n
    return few and not manifold.k and supports_external_ordering()


class RegularisedQ:
    """(Q + shift on X_c)^-1 restricted to X_c: the inverse of the regularised Schur complement.

    The shift stands in for the part of the Hessian that Q lacks: the multipliers Lambda, and the
    unit norm of each bearing (in Q alone a bearing follows its antennas at no cost). Measured
    from random starts at rank 5:

    - pose graphs: a small share of diag(Q) (parking-garage: 200 CG steps; 330 with a multiple of
      the identity). Their weights differ by orders of magnitude and Lambda is small.
    - graphs with ranges: a multiple of the identity that bounds the condition number (outfinite:
      1 200 CG steps; 11 000 with a share of the diagonal), since Lambda, not Q, determines poses
      of low weight; and a share of each bearing's own weight (plaza2: 1 200 CG steps, tiers:
      2 100; 8 100 and 6 200 without).

    A shift ten times larger or smaller takes up to three times the CG steps.
    """

    portable = True

    def __init__(self, schur: SchurOperator, full: sp.csr_matrix | None = None) -> None:
        """`full` stands in for Q on [X_c; X_f kept] where given."""
        full = schur.full() if full is None else full
        self.manifold = schur.problem.manifold
        self.free = self.manifold.d * self.manifold.n + self.manifold.k
        self.n_c = schur.shape[0]
        self.rows = np.r_[0 : self.free, schur.shape[0] : full.shape[0]]
        self._schur = schur
        self.matrix = self._shifted(self._chosen(full))
        self._symbolic: dict[str, Symbolic] = {}
        self._factors: dict[str, Factor] = {}
        self._work: dict[tuple[str, int], Array] = {}

    def refactorise(self, full: sp.csr_matrix) -> None:
        """New values of the same pattern."""
        self.matrix = self._shifted(self._chosen(full))
        self._factors.clear()

    def placed(self, arrays: Arrays) -> bool:
        """Whether there is a factor for this backend."""
        return arrays.name in self._factors

    def factor(self, arrays: Arrays = HOST) -> Factor:
        """The factor for a backend, made when it is first needed."""
        if arrays.name not in self._factors:
            try:
                factor = self.symbolic(arrays).factorize(self.matrix)
            except UncoveredPatternError:
                # Entries that cancelled at the first weights were left out of the first matrix.
                del self._symbolic[arrays.name]
                factor = self.symbolic(arrays).factorize(self.matrix)
            self._factors[arrays.name] = factor
        return self._factors[arrays.name]

    def symbolic(self, arrays: Arrays = HOST) -> Symbolic:
        """The analysis behind the factor."""
        if arrays.name not in self._symbolic:
            self._symbolic[arrays.name] = (
                self._analysed(self.matrix, self._schur) if arrays is HOST
                else arrays.symbolic(self.matrix))
        return self._symbolic[arrays.name]

    def _analysed(
        self, matrix: sp.csc_matrix, schur: SchurOperator
    ) -> SymbolicCholesky | RowBlockCholesky:
        """By blocks of one pose each where there is little else."""
        d, n = self.manifold.d, self.manifold.n
        if not blocks_of_poses(schur):
            return SymbolicCholesky(matrix)
        at = np.arange(d * n)
        place = np.concatenate(
            [at + at // d, (d + 1) * np.asarray(schur.problem.kept, dtype=np.int64) + d])
        order = elimination_order(schur)
        return RowBlockCholesky(matrix, place, d + 1, order[order <= place.max() // (d + 1)])

    def _chosen(self, full: sp.csr_matrix) -> sp.csc_matrix:
        """Q without the rows held fixed; by symmetry its rows serve as columns."""
        if len(self.rows) < full.shape[0]:
            full = full[self.rows][:, self.rows]
        return sp.csc_matrix((full.data, full.indices, full.indptr), shape=full.shape)

    def _shifted(self, matrix: sp.csc_matrix) -> sp.csc_matrix:
        numbers, manifold = thresholds.current(), self.manifold
        diagonal = matrix.diagonal()
        shift = np.zeros(len(diagonal))
        if manifold.k:
            shift[: self.free] = diagonal.max() / numbers.regularised_condition
            bearings = slice(manifold.d * manifold.n, self.free)
            share = (numbers.regularised_bearing_plane if manifold.d == 2
                     else numbers.regularised_bearing_space)
            shift[bearings] += share * diagonal[bearings]
        else:
            # A pose without any measurement has rows of zeros, which any shift makes regular.
            own = diagonal[: self.free]
            shift[: self.free] = numbers.regularised_diagonal_share * np.where(
                own > 0, own, max(float(own.max(initial=0.0)), 1.0))
        shifted = matrix.copy()
        if not add_diagonal(matrix.indptr, matrix.indices, shift, shifted.data):
            # A row without measurements has no diagonal entry.
            return matrix + sp.diags(shift).tocsc()
        return shifted

    def apply(self, v: Array, out: Array) -> Array:
        arrays, p = arrays_of(v), v.shape[1]
        work = self._work.get((arrays.name, p))
        if work is None:
            work = self._work[arrays.name, p] = arrays.empty((len(self.rows), p))
        # Rows beyond X_c are X_f, where a formulation keeps it as a variable.
        whole = v.shape[0] > self.n_c
        work[: self.free] = v[: self.free]
        work[self.free :] = v[self.n_c :] if whole else 0.0
        self.factor(arrays).solve(work, work)
        out[: self.free] = work[: self.free]
        out[self.free : self.n_c] = 0.0
        if whole:
            out[self.n_c :] = work[self.free :]
        return out

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """The matrix does not depend on the point."""
