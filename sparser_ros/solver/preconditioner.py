"""Preconditioners of truncated CG: regularised copies of Q, factorised once per problem."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..linalg.cholesky import CholeskyFactor, SymbolicCholesky
from .schur import SchurOperator

Array = NDArray[np.float64]


class RegularisedQ:
    """(Q + shift on X_c)^-1 restricted to X_c: the inverse of the regularised Schur complement.

    `scale` > 0 adds scale * diag(Q), else a multiple of the identity that bounds the condition
    number (paper, section VI-A).
    """

    def __init__(
        self, schur: SchurOperator, *, condition: float = 1e6, scale: float = 1e-6,
        beta: float = 0.01,
    ) -> None:
        full = schur.full()
        n_c = schur.shape[0]
        manifold = schur.problem.manifold
        self.free = manifold.d * manifold.n + manifold.k
        rows = np.r_[0 : self.free, n_c : full.shape[0]]
        matrix = full[rows][:, rows].tocsc() if len(rows) != full.shape[0] else full.tocsc()
        diagonal = matrix.diagonal()
        shift = np.zeros(len(rows))
        if scale > 0:
            shift[: self.free] = scale * diagonal[: self.free]
        else:
            shift[: self.free] = diagonal.max() / condition
        nb = slice(manifold.d * manifold.n, self.free)
        shift[nb] += beta * diagonal[nb]
        self.matrix = matrix
        self.symbolic = SymbolicCholesky(matrix)
        self.factor: CholeskyFactor = self.symbolic.factorize(matrix + sp.diags(shift).tocsc())
        self._work: dict[int, Array] = {}

    def apply(self, v: Array, out: Array) -> Array:
        p = v.shape[1]
        if p not in self._work:
            self._work[p] = np.empty((self.factor.n, p))
        work = self._work[p]
        work[: self.free] = v[: self.free]
        work[self.free :] = 0
        self.factor.solve(work, out=work)
        out[: self.free] = work[: self.free]
        out[self.free :] = 0
        return out

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """The matrix does not depend on the point."""
