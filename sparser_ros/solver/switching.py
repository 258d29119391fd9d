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

from ..linalg.arrays import HOST, Arrays
from ..linalg.block_cholesky import RowBlockCholesky
from .newton import NewtonPreconditioner, rotation_tangents
from .preconditioner import RegularisedQ
from .schur import SchurOperator

Array = NDArray[np.float64]

_LEAST = 6
"""CG steps that no graph is denied."""
_SHARE = 0.5
"""CG steps to wait for, as a share of those that a factorisation takes as long as."""


class RigidMotions(NewtonPreconditioner):
    """(T^T Q T)^-1 of a graph without ranges, factorised at the first point only.

    In coordinates of the poses' own frames T^T Q T depends on relative poses alone, and those are
    nearly the measured ones from the first steps on. Only T follows the point.
    """

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        if self.symbolic is None:
            blocks = self._assembled(y)
            floor = self._floor(blocks, blocks.max(initial=0.0))
            self._factorize(blocks, self.damping * floor, np.zeros(0))
        else:
            self.turns = rotation_tangents(self.manifold, y)


class Switching:
    """RegularisedQ until a step takes `patience` CG steps, then RigidMotions."""

    portable = False

    def __init__(self, regularised: RegularisedQ, schur: SchurOperator) -> None:
        self.regularised, self.schur = regularised, schur
        self.rigid: RigidMotions | None = None
        self.patience = patience(regularised)

    def placed(self, arrays: Arrays) -> bool:
        return arrays is HOST

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        if self.rigid is None and cg_steps >= self.patience:
            self.rigid = RigidMotions(self.schur)
        if self.rigid is not None:
            self.rigid.refresh(y, gradient, cg_steps)

    def apply(self, v: Array, out: Array) -> Array:
        return (self.rigid or self.regularised).apply(v, out)


def patience(regularised: RegularisedQ) -> int:
    """CG steps after which the factor of T^T Q T is worth its cost."""
    symbolic = regularised.symbolic()
    if not isinstance(symbolic, RowBlockCholesky):
        return np.iinfo(np.int64).max
    counts = symbolic.blocks.counts.astype(float)
    d = regularised.manifold.d
    b = d * (d - 1) // 2 + d
    factorisation = b**3 * np.sum(counts**2)
    step = 4 * (d + 1) ** 2 * d * np.sum(counts)
    return max(_LEAST, round(_SHARE * factorisation / step))
