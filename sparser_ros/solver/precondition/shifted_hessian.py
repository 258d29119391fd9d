"""The Hessian in tangent coordinates plus a shift of the unit rows, factorised: steps at any rank.

The preconditioners of `staircase` know S = Q - Lambda only: bearings and rotations that stay on
their spheres make the Hessian far stiffer than S, along directions that the columns of Y share.
Where it is factorised as a whole, a relaxation takes ten steps in place of hundreds of CG steps.
"""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...linalg.sparse.cholesky import NotPositiveDefiniteError
from ..manifold.manifold import Manifold
from ..model.schur import SchurOperator
from .newton import NewtonPreconditioner


class ShiftedHessian:
    """(T^T (Q - Lambda) T + shift)^-1 at one point after the other, by one analysis a rank.

    The shift stands on the coordinates of rotations and bearings; points get none, since M is
    positive definite.
    """

    def __init__(self, schur: SchurOperator) -> None:
        self._newton = _Shifted(schur)

    def at(self, y: Array, multipliers: Array, scalars: Array) -> None:
        """Assemble the Hessian at y (rows, p); Lambda (n, d, d) of rotations, (k,) of bearings."""
        self._newton.assemble(y, multipliers, scalars)

    def factorize(self, shift: float) -> bool:
        """Whether the Hessian with that shift is positive definite; then `solve` uses it."""
        try:
            self._newton.factorize(shift)
        except NotPositiveDefiniteError:
            return False
        return True

    def solve(self, v: Array) -> Array:
        """(Hessian + shift)^-1 of a tangent vector (rows, p)."""
        return self._newton.apply(v, np.empty_like(v))


class _Shifted(NewtonPreconditioner):
    """The blocks of `NewtonPreconditioner` with another shift."""

    manifold: Manifold

    def assemble(self, y: Array, multipliers: Array, scalars: Array) -> None:
        manifold = self.manifold
        d, n, k = manifold.d, manifold.n, manifold.k
        blocks = self._assembled(y)
        self._size = self.damping * self._floor(blocks, float(blocks.max(initial=0.0)))
        self.kernel.subtract_curvature(multipliers, self.turns, self.diagonal, blocks)
        self._exact = blocks
        self._pivots = self.full.diagonal()[n * d : n * d + k] - scalars
        self._turned = self.turns.shape[3] if n else 0

    def factorize(self, shift: float) -> None:
        added = self._size.copy()
        added[:, : self._turned] += shift
        self._factorize(self._exact.copy(), added, self._pivots + shift)
