"""The search space of X_c: rotations (Stiefel blocks), bearings (unit rows), fixed rows.

One point Y is a C-ordered (rows, p) array: n rotation blocks R_i^T of d rows, k bearing rows,
and, where the problem has absolute data, d rows held at [I_d 0] (docs/method.md, section 1; paper,
appendix A). The methods run compiled kernels, on the CPU or a GPU; what they compute is written as
formulas in formulas.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array
from ...linalg.arrays import arrays_of
from ...linalg.dense.rotations import nearest_rotation
from .formulas import nearest_rotations


@dataclass(frozen=True)
class Manifold:
    """St(p, d)^n x Ob(p)^k x {[I_d 0]} with the embedded metric."""

    d: int
    n: int
    """Rotations."""
    k: int
    """Bearings."""
    homogenised: bool = False
    """True when d rows at the end are held at [I_d 0]."""

    @property
    def rows(self) -> int:
        return self.d * self.n + self.k + (self.d if self.homogenised else 0)

    def dimension(self, p: int) -> int:
        """Degrees of freedom at rank p."""
        d = self.d
        return self.n * (d * p - d * (d + 1) // 2) + self.k * (p - 1)

    def project(self, y: Array, v: Array, out: Array | None = None) -> Array:
        """Orthogonal projection of an ambient (rows, p) array to the tangent space at y."""
        arrays = arrays_of(y)
        out = arrays.empty(y.shape) if out is None else out
        arrays.manifold(self.d, y.shape[1]).project(y, v, self.n, self.k, out)
        return out

    def retract(self, y: Array, v: Array, out: Array | None = None) -> Array:
        """Polar retraction of rotations, normalisation of bearings."""
        arrays = arrays_of(y)
        out = arrays.empty(y.shape) if out is None else out
        arrays.manifold(self.d, y.shape[1]).retract(y, v, self.n, self.k, out)
        return out

    def multipliers(self, y: Array, gradient: Array) -> tuple[Array, Array]:
        """Lagrange multipliers sym(G Y^T): (n, d, d) of rotations and (k,) of bearings."""
        arrays = arrays_of(y)
        blocks, scalars = arrays.empty((self.n, self.d, self.d)), arrays.empty((self.k,))
        arrays.manifold(self.d, y.shape[1]).multipliers(
            y, gradient, self.n, self.k, blocks, scalars)
        return blocks, scalars

    def hessian(
        self, y: Array, qv: Array, v: Array, blocks: Array, scalars: Array, out: Array
    ) -> Array:
        """out = P_y(Q v - Lambda v) from qv = Q v and the multipliers at y."""
        arrays_of(y).manifold(self.d, y.shape[1]).hessian(
            y, qv, v, self.n, self.k, blocks, scalars, out)
        return out

    def scales(self, y: Array) -> Array:
        """(n,): factor of each rotation block; all ones, `ScaledManifold` has others."""
        return np.ones(self.n)

    def random_point(self, p: int, rng: np.random.Generator) -> Array:
        """A point drawn uniformly."""
        y = rng.standard_normal((self.rows, p))
        return self.nearest_point(y)

    def nearest_point(self, y: Array) -> Array:
        """Closest point of the manifold (Frobenius norm)."""
        d, n, p = self.d, self.n, y.shape[1]
        out = np.empty_like(y)
        out[: n * d] = nearest_rotations(y[: n * d].reshape(n, d, p)).reshape(n * d, p)
        bearings = y[n * d : n * d + self.k]
        norm = np.linalg.norm(bearings, axis=1, keepdims=True)
        unit = np.zeros(p)
        unit[0] = 1
        out[n * d : n * d + self.k] = np.where(
            norm > 1e-12, bearings / np.maximum(norm, 1e-300), unit)
        if self.homogenised:
            out[n * d + self.k :] = np.eye(d, p)
        return out

    def lift(self, y: Array, p: int) -> Array:
        """The same point with zero columns appended up to p."""
        out = np.zeros((self.rows, p))
        out[:, : y.shape[1]] = y
        return out

    def rotations(self, y: Array) -> Array:
        """(n, d, d) rotations R_i of a rank-d point."""
        blocks = y[: self.n * self.d].reshape(self.n, self.d, self.d)
        return nearest_rotation(np.swapaxes(blocks, 1, 2))
