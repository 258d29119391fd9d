"""RegularisedQ for robust weights: rejected measurements left out, factorised when it pays.

False closures join poses at random, which fills the Cholesky factor (sphere2500 with 20 % of
them: 2.4 million entries instead of 0.8, seven times the time) although their weights are nearly
zero. Only their diagonal enters the matrix; truncated CG corrects for the rest.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Mask
from ...linalg.arrays import Arrays
from .. import thresholds
from ..robust.reweighting import Reweighting
from .regularised_q import RegularisedQ


class InlierPreconditioner:
    """A RegularisedQ of the inliers, refactorised when they change or CG slows down."""

    portable = True

    def __init__(self, reweighting: Reweighting) -> None:
        self.reweighting = reweighting
        problem = reweighting.problem
        self._rows = sp.hstack([problem.A, problem.C], format='csr')
        self._squares = self._rows.multiply(self._rows).tocsr()
        self._inliers: Mask | None = None
        self._regularised: RegularisedQ | None = None
        self._steps = 0
        self._steps_when_new = 0
        self.factorisations = 0
        self.analyses = 0

    def placed(self, arrays: Arrays) -> bool:
        """Whether there is a factor for this backend."""
        return self._regularised is not None and self._regularised.placed(arrays)

    def prepare(self) -> None:
        """Adopt the weights of the reweighting; factorise if inliers or CG steps ask for it."""
        numbers = thresholds.current()
        weights, doubted = self.reweighting.weights, self.reweighting.doubted
        inliers = ~doubted | (weights >= numbers.inlier_weight)
        if self._inliers is not None and self._regularised is not None:
            joined = np.count_nonzero(inliers & ~self._inliers)
            if joined:
                self._regularised = None
            elif self._steps <= numbers.inlier_slowdown * self._steps_when_new:
                return
            else:
                inliers = self._inliers
        self._inliers = inliers
        matrix = self._matrix(inliers, weights)
        if self._regularised is None:
            self._regularised = RegularisedQ(self.reweighting.schur, matrix)
            self.analyses += 1
        else:
            self._regularised.refactorise(matrix)
        self.factorisations += 1
        self._steps_when_new = 0

    def _matrix(self, inliers: Mask, weights: Array) -> sp.csr_matrix:
        measurement = self.reweighting.measurement
        omega = self.reweighting.problem.omega * weights[measurement]
        inside = inliers[measurement]
        rows = self._rows[inside]
        outside = self._squares.T @ np.where(inside, 0.0, omega)
        return (rows.T @ rows.multiply(omega[inside][:, None]) + sp.diags(outside)).tocsr()

    def report(self, iterations: int, cg_steps: int) -> None:
        """Take the CG steps of the last inner solve, which tell how well the factor still fits."""
        self._steps = cg_steps // max(iterations, 1)
        least = thresholds.current().inlier_least_cg_steps
        self._steps_when_new = self._steps_when_new or max(self._steps, least)

    def apply(self, v: Array, out: Array) -> Array:
        assert self._regularised is not None, 'prepare comes first'
        return self._regularised.apply(v, out)

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """The matrix does not depend on the point."""
