"""Rotations with a scale of their own: blocks s R^T, s > 0 (paper, table I, row 3).

A camera whose depths are right up to a factor sees t~ as s R t~. The block of X_c is then s R^T:
its rows are orthogonal and of one length. Such blocks S have the constraint S S^T = tr(S S^T)/d I,
so their multipliers are trace-free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .manifold import Manifold

Array = NDArray[np.float64]
Index = NDArray[np.int64]


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

    def _multiplier(self, block: Array, gradient: Array) -> Array:
        """Trace-free part of sym(G S^T) / s^2, (m, d, d)."""
        square = np.sum(block**2, axis=(1, 2)) / self.d
        product = gradient @ np.swapaxes(block, 1, 2) / square[:, None, None]
        product = (product + np.swapaxes(product, 1, 2)) / 2
        mean = np.trace(product, axis1=1, axis2=2) / self.d
        return product - mean[:, None, None] * np.eye(self.d)

    def _nearest(self, block: Array) -> Array:
        """The closest multiples of orthonormal rows, (m, d, p)."""
        u, s, vt = np.linalg.svd(block, full_matrices=False)
        return np.mean(s, axis=1)[:, None, None] * (u @ vt)

    def project(self, y: Array, v: Array, out: Array | None = None) -> Array:
        at = self._rows
        block, ambient = y[at], v[at]
        out = super().project(y, v, out)
        out[at] = ambient - self._multiplier(block, ambient) @ block
        return out

    def retract(self, y: Array, v: Array, out: Array | None = None) -> Array:
        at = self._rows
        moved = y[at] + v[at]
        out = super().retract(y, v, out)
        out[at] = self._nearest(moved)
        return out

    def multipliers(self, y: Array, gradient: Array) -> tuple[Array, Array]:
        blocks, scalars = super().multipliers(y, gradient)
        at = self._rows
        blocks[np.asarray(self.scaled)] = self._multiplier(y[at], gradient[at])
        return blocks, scalars

    def hessian(
        self, y: Array, qv: Array, v: Array, blocks: Array, scalars: Array, out: Array
    ) -> Array:
        at = self._rows
        block = y[at]
        change = qv[at] - blocks[np.asarray(self.scaled)] @ v[at]
        out = super().hessian(y, qv, v, blocks, scalars, out)
        out[at] = change - self._multiplier(block, change) @ block
        return out

    def nearest_point(self, y: Array) -> Array:
        out = super().nearest_point(y)
        out[self._rows] = self._nearest(y[self._rows])
        return out

    def scales(self, y: Array) -> Array:
        """(n,): s of every block, 1 where it has none."""
        scale = super().scales(y)
        length = np.linalg.norm(y[self._rows], axis=(1, 2))
        scale[np.asarray(self.scaled)] = length / np.sqrt(self.d)
        return scale


def manifold_of(d: int, n: int, k: int, homogenised: bool, scaled: tuple[int, ...]) -> Manifold:
    """The search space of n rotations, k bearings, and scales where some poses have them."""
    if scaled:
        return ScaledManifold(d, n, k, homogenised, scaled)
    return Manifold(d, n, k, homogenised)
