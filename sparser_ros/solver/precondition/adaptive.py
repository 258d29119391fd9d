"""The preconditioner of pose graphs: (Q + shift)^-1 until CG takes long, then (T^T Q T)^-1.

Q + shift acts on all d x d matrices, not on rotations alone: stretch and shear make it softer than
the Hessian. That costs a few CG steps on most pose graphs, and dozens where closures with precise
translations overdetermine poses (parking-garage). T^T Q T, with the tangent basis T, excludes
stretch and shear; the rest of the Hessian is of the size of the residuals, which are small in pose
graphs. Its blocks are larger (6 x 6 instead of 4 x 4 in space), so its factorisation has to save
CG steps worth its time.
"""

from __future__ import annotations

from ...array_types import Array
from ...linalg.arrays import HOST, Arrays
from ..model.schur import SchurOperator
from .frozen_gauss_newton import FrozenGaussNewtonPreconditioner, patience
from .regularised_q import RegularisedQ


class AdaptivePreconditioner:
    """RegularisedQ until a step takes `patience` CG steps, then FrozenGaussNewtonPreconditioner."""

    portable = False

    def __init__(
        self, regularised: RegularisedQ, schur: SchurOperator, steps: int = 0
    ) -> None:
        """`steps`: CG steps before the change; 0 = as the graph suggests."""
        self.regularised, self.schur = regularised, schur
        self.frozen: FrozenGaussNewtonPreconditioner | None = None
        self.patience = steps or patience(schur)

    def placed(self, arrays: Arrays) -> bool:
        return arrays is HOST

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        if self.frozen is None and cg_steps >= self.patience:
            self.frozen = FrozenGaussNewtonPreconditioner(self.schur)
        if self.frozen is not None:
            self.frozen.refresh(y, gradient, cg_steps)

    def apply(self, v: Array, out: Array) -> Array:
        return (self.frozen or self.regularised).apply(v, out)
