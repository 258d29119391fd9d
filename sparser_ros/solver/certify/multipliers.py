"""Lagrange multipliers as blocks: symmetric ones of rotations, of bearings and of fixed rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...array_types import Array
from ..manifold.formulas import symmetric_part
from ..manifold.manifold import Manifold


@dataclass(frozen=True)
class Multipliers:
    """A block-diagonal Lambda, which any number of rows of X_c may be multiplied by."""

    manifold: Manifold
    blocks: Array
    """(n, d, d), symmetric."""
    scalars: Array
    """(k,)"""
    fixed: Array
    """(d, d) of the homogenising rows; zero where there are none."""

    @classmethod
    def zero(cls, manifold: Manifold) -> Multipliers:
        """Those of a point where nothing is strained."""
        d, n, k = manifold.d, manifold.n, manifold.k
        return cls(manifold, np.zeros((n, d, d)), np.zeros(k), np.zeros((d, d)))

    @classmethod
    def of(cls, manifold: Manifold, y: Array, gradient: Array) -> Multipliers:
        """sym(G_b Y_b^T) for every block b."""
        d = manifold.d
        fixed = np.zeros((d, d))
        if manifold.homogenised:
            fixed = symmetric_part(gradient[-d:] @ y[-d:].T)
        return cls(manifold, *manifold.multipliers(y, gradient), fixed)

    def plus(self, other: Multipliers) -> Multipliers:
        return Multipliers(
            self.manifold, self.blocks + other.blocks, self.scalars + other.scalars,
            self.fixed + other.fixed)

    def scaled(self, factor: float) -> Multipliers:
        """Times a number."""
        return Multipliers(self.manifold, factor * self.blocks, factor * self.scalars,
                           factor * self.fixed)

    def lowered(self, shift: float) -> Multipliers:
        """Less `shift` times the unit matrix."""
        unit = shift * np.eye(self.manifold.d)
        return Multipliers(self.manifold, self.blocks - unit, self.scalars - shift,
                           self.fixed - unit * self.manifold.homogenised)

    def times(self, v: Array) -> Array:
        """Lambda v for v (rows, p)."""
        manifold = self.manifold
        d, n, k, p = manifold.d, manifold.n, manifold.k, v.shape[1]
        out = np.empty_like(v)
        out[: n * d] = (self.blocks @ v[: n * d].reshape(n, d, p)).reshape(n * d, p)
        out[n * d : n * d + k] = self.scalars[:, None] * v[n * d : n * d + k]
        if manifold.homogenised:
            out[n * d + k :] = self.fixed @ v[n * d + k :]
        return out

    @property
    def trace(self) -> float:
        return float(np.einsum('nii->', self.blocks) + np.sum(self.scalars)
                     + np.trace(self.fixed))

    def matrix(self) -> sp.csr_matrix:
        """(rows, rows)"""
        return block_diagonal(self.manifold, self.blocks, self.scalars, self.fixed)


def block_diagonal(
    manifold: Manifold, blocks: Array, scalars: Array, homogenising: Array
) -> sp.csr_matrix:
    """(rows, rows) from blocks (n, d, d) of rotations, (k,) of bearings and the (d, d) fixed one,
    which is left out where the manifold has none."""
    n, d = manifold.n, manifold.d
    parts: list[sp.spmatrix] = [
        sp.bsr_matrix((blocks, np.arange(n), np.arange(n + 1)), shape=(n * d, n * d)),
        sp.diags(scalars),
    ]
    if manifold.homogenised:
        parts.append(sp.csr_matrix(homogenising))
    return sp.block_diag(parts, format='csr')
