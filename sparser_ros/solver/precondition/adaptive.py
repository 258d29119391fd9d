"""Preconditioning of pose graphs: cheap at first, the Hessian's larger part where CG gets long.

(Q + shift)^-1 lets rotations stretch and shear, which makes everything softer than it is: a
rotation that its own rows may give way to costs less than a rigid one. On most pose graphs that is
worth a few CG steps; where closures overdetermine poses with strong translations it costs dozens
of them (parking-garage). T^T Q T on the tangents T has no such freedom, and what it lacks of the
Hessian is small: residuals of pose graphs are. But its blocks are larger (in space 6 x 6 instead
of 4 x 4), so its factor has to pay for itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...linalg.arrays import HOST, Arrays
from ..model.schur import SchurOperator
from .frozen_gauss_newton import FrozenGaussNewtonPreconditioner, patience
from .regularised_q import RegularisedQ

Array = NDArray[np.float64]


class AdaptivePreconditioner:
    """RegularisedQ until a step takes `patience` CG steps, then FrozenGaussNewtonPreconditioner."""

    portable = False

    def __init__(self, regularised: RegularisedQ, schur: SchurOperator) -> None:
        self.regularised, self.schur = regularised, schur
        self.rigid: FrozenGaussNewtonPreconditioner | None = None
        self.patience = patience(schur)

    def placed(self, arrays: Arrays) -> bool:
        return arrays is HOST

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        if self.rigid is None and cg_steps >= self.patience:
            self.rigid = FrozenGaussNewtonPreconditioner(self.schur)
        if self.rigid is not None:
            self.rigid.refresh(y, gradient, cg_steps)

    def apply(self, v: Array, out: Array) -> Array:
        return (self.rigid or self.regularised).apply(v, out)
