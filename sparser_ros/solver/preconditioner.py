"""Preconditioners of truncated CG: regularised copies of Q, factorised once per problem."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..linalg.cholesky import CholeskyFactor, SymbolicCholesky
from .schur import SchurOperator

Array = NDArray[np.float64]

_CONDITION = 1e6
_DIAGONAL_SHARE = 1e-6
_BEARING_SHARE = 0.01


class RegularisedQ:
    """(Q + shift on X_c)^-1 restricted to X_c: the inverse of the regularised Schur complement.

    What the shift stands in for is what Q does not see of the Hessian: the multipliers Lambda,
    and, for a range, the unit norm of its bearing (Q alone lets the bearing follow the antennas
    at no cost). Measured from random starts at rank 5:

    - pose graphs: a small share of diag(Q) (parking-garage 200 CG steps; 330 with a multiple of
      the identity). Weights differ by orders of magnitude and Lambda is small.
    - graphs with ranges: a multiple of the identity that bounds the condition number (outfinite
      1 400 CG steps; 11 000 with a share of the diagonal), since weakly weighted poses are held
      by Lambda, not by Q; and a share of each bearing's own weight (plaza2 1 200 CG steps, tiers
      2 100; 8 100 and 6 200 without).
    """

    def __init__(self, schur: SchurOperator) -> None:
        full = schur.full()
        n_c = schur.shape[0]
        manifold = schur.problem.manifold
        self.free = manifold.d * manifold.n + manifold.k
        rows = np.r_[0 : self.free, n_c : full.shape[0]]
        self.matrix = (full[rows][:, rows] if len(rows) != full.shape[0] else full).tocsc()
        diagonal = self.matrix.diagonal()
        shift = np.zeros(len(rows))
        if manifold.k:
            shift[: self.free] = diagonal.max() / _CONDITION
            bearings = slice(manifold.d * manifold.n, self.free)
            shift[bearings] += _BEARING_SHARE * diagonal[bearings]
        else:
            shift[: self.free] = _DIAGONAL_SHARE * diagonal[: self.free]
        self.symbolic = SymbolicCholesky(self.matrix)
        self.factor: CholeskyFactor = self.symbolic.factorize(
            self.matrix + sp.diags(shift).tocsc())
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
