"""Rotations with a scale of their own: blocks s R^T, s > 0 (paper, table 1, row 3).

A camera whose depths are right up to a factor sees t~ as s R t~. The block of X_c is then s R^T:
its rows are orthogonal and of one length. Such blocks S have the constraint S S^T = tr(S S^T)/d I,
so their multipliers are trace-free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index
from . import formulas
from .manifold import Manifold


@dataclass(frozen=True)
class ScaledManifold(Manifold):
    """As `Manifold`, the rotations listed in `scaled` being positive multiples of rotations."""

    scaled: tuple[int, ...] = ()

    def dimension(self, p: int) -> int:
        return super().dimension(p) + len(self.scaled)

    @property
    def _rows(self) -> Index:
        """(m, d): rows of the scaled blocks."""
        return np.asarray(self.scaled)[:, None] * self.d + np.arange(self.d)

    def project(self, y: Array, v: Array, out: Array | None = None) -> Array:
        at = self._rows
        block, ambient = y[at], v[at]
        out = super().project(y, v, out)
        out[at] = formulas.project_scaled(block, ambient)
        return out

    def retract(self, y: Array, v: Array, out: Array | None = None) -> Array:
        at = self._rows
        block, ambient = y[at], v[at]
        out = super().retract(y, v, out)
        out[at] = formulas.retract_scaled(block, ambient)
        return out

    def multipliers(self, y: Array, gradient: Array) -> tuple[Array, Array]:
        blocks, scalars = super().multipliers(y, gradient)
        at = self._rows
        blocks[np.asarray(self.scaled)] = formulas.scaled_multipliers(y[at], gradient[at])
        return blocks, scalars

    def hessian(
        self, y: Array, qv: Array, v: Array, blocks: Array, scalars: Array, out: Array
    ) -> Array:
        at = self._rows
        # Before `out`, which may be one of these arrays.
        own = formulas.scaled_hessian(y[at], qv[at], v[at], blocks[np.asarray(self.scaled)])
        out = super().hessian(y, qv, v, blocks, scalars, out)
        out[at] = own
        return out

    def nearest_point(self, y: Array) -> Array:
        out = super().nearest_point(y)
        out[self._rows] = formulas.nearest_scaled(y[self._rows])
        return out

    def scales(self, y: Array) -> Array:
        """(n,): s of every block, 1 where it has none."""
        scale = super().scales(y)
        scale[np.asarray(self.scaled)] = formulas.scales(y[self._rows])
        return scale


def manifold_of(d: int, n: int, k: int, homogenised: bool, scaled: tuple[int, ...]) -> Manifold:
    """The search space of n rotations, k bearings, and scales where some poses have them."""
    if scaled:
        return ScaledManifold(d, n, k, homogenised, scaled)
    return Manifold(d, n, k, homogenised)
