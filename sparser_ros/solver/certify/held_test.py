"""Whether S is positive definite once the gauge is held: one factorisation proves optimality.

The shift of the plain test has to outweigh rounding errors along the gauge directions y, where S
is zero and positions are large. But any x of any rank is y c + z with z zero on the rows of one
rotation (or on the homogenising rows) and c of d orthonormal rows. With r = S y, and S - m
positive definite on the other rows of X_c,

    tr(x^T S x) >= - |r|^2 |c|^2 / m - |y^T r| |c|^2 = - d (|r|^2 / m + |y^T r|).

Nothing is shifted there, so the test succeeds wherever the optimum is one of its kind.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...array_types import Array
from ...linalg.block.block_cholesky import RowBlockCholesky
from ...linalg.sparse.cholesky import NotPositiveDefiniteError, SymbolicCholesky
from ..model.schur import SchurOperator
from ..precondition.regularised_q import blocks_of_poses, elimination_order


class HeldTest:
    """Factors of S - margin without the rows that are held, analysed once where by pose."""

    def __init__(self, schur: SchurOperator) -> None:
        manifold = self._manifold = schur.problem.manifold
        d, n, full = manifold.d, manifold.n, schur.full()
        if manifold.homogenised:
            first = manifold.rows - d
        else:
            diagonal = schur.Q_cc.diagonal()[: n * d]
            first = d * int(np.argmax(diagonal.reshape(n, d).sum(axis=1)))
        keep = self._keep = np.delete(np.arange(full.shape[0]), np.arange(first, first + d))
        part = full[keep][:, keep]
        # By symmetry rows serve as columns.
        self._matrix = sp.csc_matrix((part.data, part.indices, part.indptr), shape=part.shape)
        self.largest = float(self._matrix.diagonal().max(initial=0.0))
        self._by_pose: RowBlockCholesky | None = None
        self._rows = full.shape[0]
        if blocks_of_poses(schur):
            at = np.arange(d * n)
            rows = np.full(full.shape[0], -1, dtype=np.int64)
            rows[: d * n] = at + at // d
            rows[manifold.rows:] = (d + 1) * np.asarray(schur.problem.kept) + d
            place = rows[keep]
            order = elimination_order(schur)
            self._by_pose = RowBlockCholesky(
                self._matrix, place, d + 1, order[order <= place.max() // (d + 1)])

    def positive(self, blocks: Array, scalars: Array, margin: float) -> bool:
        """Whether Q - Lambda - margin is, Lambda in blocks (n, d, d) and scalars (k,)."""
        manifold = self._manifold
        d, n = manifold.d, manifold.n
        own = blocks + margin * np.eye(d)
        try:
            if self._by_pose is not None:
                less = np.zeros((self._by_pose.blocks.m, d + 1, d + 1))
                less[:n, :d, :d] = -own
                self._by_pose.factorize(self._matrix, less)
                return True
            rest = self._rows - n * d - len(scalars)
            less = sp.block_diag([
                sp.bsr_matrix((own, np.arange(n), np.arange(n + 1)), shape=(n * d, n * d)),
                sp.diags(scalars + margin), sp.csr_matrix((rest, rest))], format='csr')
            matrix = (self._matrix - less[self._keep][:, self._keep]).tocsc()
            SymbolicCholesky(matrix).factorize(matrix)
        except NotPositiveDefiniteError:
            return False
        return True
