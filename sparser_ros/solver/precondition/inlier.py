"""RegularisedQ for changing weights: doubted measurements left out, factorised when it pays.

False closures join poses at random, which fills the Cholesky factor (sphere2500 with 20 % of
them: 2.4 million entries instead of 0.8, seven times the time) although their weights are next
to nothing. Only their diagonal enters here; truncated CG makes up for the rest.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...linalg.arrays import Arrays
from ..robust.reweighting import Reweighting
from .regularised_q import RegularisedQ

Array = NDArray[np.float64]

_STRONG = 0.1
_MISSING = 0.05
"""Share of the doubted measurements that may come to be believed before the pattern follows."""
_SLOWER = 1.5
"""CG steps of an iteration, relative to those after the last factorisation, that call for a new
one."""


class InlierPreconditioner:
    """A RegularisedQ of the measurements that are believed, kept as long as it serves."""

    portable = True

    def __init__(self, reweighting: Reweighting) -> None:
        self.reweighting = reweighting
        problem = reweighting.problem
        self._rows = sp.hstack([problem.A, problem.C], format='csr')
        self._squares = self._rows.multiply(self._rows).tocsr()
        self._strong: NDArray[np.bool_] | None = None
        self._inner: RegularisedQ | None = None
        self._steps = 0
        self._best = 0
        self.factorisations = 0
        self.analyses = 0

    def placed(self, arrays: Arrays) -> bool:
        """Whether there is a factor for this backend."""
        return self._inner is not None and self._inner.placed(arrays)

    def prepare(self) -> None:
        """Adopt the weights of the reweighting, with a new factorisation if it is due."""
        weights, doubted = self.reweighting.weights, self.reweighting.doubted
        strong = ~doubted | (weights >= _STRONG)
        if self._strong is not None and self._inner is not None:
            missing = np.count_nonzero(strong & ~self._strong)
            if missing > _MISSING * np.count_nonzero(doubted):
                self._inner = None
            elif self._steps <= _SLOWER * self._best:
                return
            else:
                strong = self._strong
        self._strong = strong
        matrix = self._matrix(strong, weights)
        if self._inner is None:
            self._inner = RegularisedQ(self.reweighting.schur, matrix)
            self.analyses += 1
        else:
            self._inner.refactorise(matrix)
        self.factorisations += 1
        self._best = 0

    def _matrix(self, strong: NDArray[np.bool_], weights: Array) -> sp.csr_matrix:
        measurement = self.reweighting.measurement
        omega = self.reweighting.problem.omega * weights[measurement]
        inside = strong[measurement]
        rows = self._rows[inside]
        outside = self._squares.T @ np.where(inside, 0.0, omega)
        return (rows.T @ rows.multiply(omega[inside][:, None]) + sp.diags(outside)).tocsr()

    def report(self, iterations: int, cg_steps: int) -> None:
        """CG steps of the last inner solve, to tell when the factor has aged."""
        self._steps = cg_steps // max(iterations, 1)
        self._best = self._best or max(self._steps, 4)

    def apply(self, v: Array, out: Array) -> Array:
        assert self._inner is not None, 'prepare comes first'
        return self._inner.apply(v, out)

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """The matrix does not depend on the point."""
