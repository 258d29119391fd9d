"""The search space of X_c: rotations (Stiefel blocks), bearings (unit rows), fixed rows.

One point Y is a C-ordered (rows, p) array: n rotation blocks Y_i = R_i^T of d rows with
Y_i Y_i^T = I_d, k bearing rows u of unit length, and, where the problem has absolute data, d rows
held at [I_d 0] (docs/method.md, section 1; paper, appendix A); p is the rank, p = d for a
trajectory. With G = Q Y, the gradient in the ambient space without its factor 2:

    multipliers   Lambda_i = sym(G_i Y_i^T)             lambda_k = <g_k, u_k>
    projection    P_Y(V) = V - sym(V Y^T) Y             P_u(v) = v - <v, u> u
    Hessian       P_Y(Q V - Lambda V)                   P_u(Q v - lambda v)
    retraction    polar factor of Y + V                 (u + v) / |u + v|

They are the standard conversions from the Euclidean gradient and Hessian (Boumal 2023; Absil,
Mahony and Sepulchre 2008, chapters 3 to 5), on the CPU or a GPU by the loops of
`linalg/trust_region_kernels.py`.

A camera whose depths are right up to a factor sees t~ as s R t~ (paper, table 1, row 3). The block
of X_c is then S = s R^T, s > 0: its rows are orthogonal and of one length. Such blocks have the
constraint S S^T = tr(S S^T)/d I, so their multipliers are trace-free (`ScaledManifold`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index
from ..linalg.arrays import arrays_of
from ..linalg.rotations import nearest_rotation


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
    upright: bool = False
    """True when measurements use the last of these rows only: the vertical. A turn about it is
    free then."""

    @property
    def rows(self) -> int:
        return self.d * self.n + self.k + (self.d if self.homogenised else 0)

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


@dataclass(frozen=True)
class ScaledManifold(Manifold):
    """As `Manifold`, the rotations listed in `scaled` being positive multiples of rotations."""

    scaled: tuple[int, ...] = ()

    @property
    def _rows(self) -> Index:
        """(m, d): rows of the scaled blocks."""
        return np.asarray(self.scaled)[:, None] * self.d + np.arange(self.d)

    def project(self, y: Array, v: Array, out: Array | None = None) -> Array:
        at = self._rows
        block, ambient = y[at], v[at]
        out = super().project(y, v, out)
        out[at] = ambient - scaled_multipliers(block, ambient) @ block
        return out

    def retract(self, y: Array, v: Array, out: Array | None = None) -> Array:
        at = self._rows
        block, ambient = y[at], v[at]
        out = super().retract(y, v, out)
        out[at] = nearest_scaled(block + ambient)
        return out

    def multipliers(self, y: Array, gradient: Array) -> tuple[Array, Array]:
        blocks, scalars = super().multipliers(y, gradient)
        at = self._rows
        blocks[np.asarray(self.scaled)] = scaled_multipliers(y[at], gradient[at])
        return blocks, scalars

    def hessian(
        self, y: Array, qv: Array, v: Array, blocks: Array, scalars: Array, out: Array
    ) -> Array:
        at = self._rows
        # Before `out`, which may be one of these arrays.
        own = qv[at] - blocks[np.asarray(self.scaled)] @ v[at]
        own -= scaled_multipliers(y[at], own) @ y[at]
        out = super().hessian(y, qv, v, blocks, scalars, out)
        out[at] = own
        return out

    def nearest_point(self, y: Array) -> Array:
        out = super().nearest_point(y)
        out[self._rows] = nearest_scaled(y[self._rows])
        return out

    def scales(self, y: Array) -> Array:
        """(n,): s of every block, 1 where it has none."""
        scale = super().scales(y)
        size = np.linalg.norm(y[self._rows], axis=(1, 2))
        scale[np.asarray(self.scaled)] = size / np.sqrt(self.d)
        return scale


def symmetric_part(a: Array) -> Array:
    """(A + A^T) / 2 of (..., d, d)."""
    return np.asarray((a + np.swapaxes(a, -1, -2)) / 2)


def nearest_rotations(a: Array) -> Array:
    """The points of St(p, d) closest to A (n, d, p) in the Frobenius norm: U W^T, A = U S W^T."""
    u, _, wt = np.linalg.svd(a, full_matrices=False)
    return np.asarray(u @ wt)


def scaled_multipliers(y: Array, g: Array) -> Array:
    """The part of sym(G S^T) / s^2 without trace, (m, d, d): a scale has no constraint."""
    d = y.shape[1]
    square = np.sum(y**2, axis=(1, 2)) / d
    full = symmetric_part(g @ np.swapaxes(y, 1, 2) / square[:, None, None])
    return full - (np.trace(full, axis1=1, axis2=2) / d)[:, None, None] * np.eye(d)


def nearest_scaled(a: Array) -> Array:
    """The closest multiples of orthonormal rows to blocks A (m, d, p): mean(sigma) U W^T."""
    u, sigma, wt = np.linalg.svd(a, full_matrices=False)
    return np.asarray(np.mean(sigma, axis=1)[:, None, None] * (u @ wt))


# -- rounding to rank d (docs/method.md, section 4)


def round_to_rotations(manifold: Manifold, y: Array) -> Array:
    """A rank-d point whose blocks are rotations (det +1)."""
    n, d = manifold.n, manifold.d
    z = reduce_rank(manifold, y, d)
    blocks = z[: n * d].reshape(n, d, d)
    free = not manifold.homogenised or manifold.upright
    if n and free and np.mean(np.linalg.det(blocks) < 0) > 0.5:
        z[:, 0 if manifold.upright else -1] *= -1
    turned = manifold.scales(z)[:, None, None] * nearest_rotation(z[: n * d].reshape(n, d, d))
    z[: n * d] = turned.reshape(n * d, d)
    return z


def reduce_rank(manifold: Manifold, y: Array, rank: int) -> Array:
    """The closest point of a lower rank: principal frame, then the manifold's projection.

    Where the frame is fixed by homogenising rows the leading columns are that frame; otherwise
    the leading right singular vectors of the rotations are (of the bearings, if there are none).
    Where only its vertical is fixed, that column stays and the others are reduced to theirs.
    """
    n, d = manifold.n, manifold.d
    if y.shape[1] <= rank:
        return manifold.lift(y, rank)
    kept = np.arange(0)
    if manifold.homogenised:
        kept = np.array([d - 1]) if manifold.upright else np.arange(d)
    rest = np.delete(y, kept, axis=1)
    whole = not n or (manifold.homogenised and not manifold.upright)
    _, _, vt = np.linalg.svd(rest if whole else rest[: n * d], full_matrices=False)
    # Fewer rows than columns, as of two points, have fewer directions.
    turned = np.zeros((len(rest), rank - len(kept)))
    turned[:, :len(vt)] = rest @ vt[: rank - len(kept)].T
    return manifold.nearest_point(
        np.insert(turned, kept - np.arange(len(kept)), y[:, kept], axis=1))
