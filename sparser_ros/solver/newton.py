"""The Riemannian Hessian in tangent coordinates, factorised: the exact Newton preconditioner.

Basis T of the tangent space at Y: rotations Omega Y + W Y_perp (Omega skew), bearings along
u_perp, points free. T^T ((Q - Lambda) x I_p) T is sparse like Q with small dense blocks; its
Cholesky factor makes truncated CG converge in a few steps once Y is near a minimum.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..linalg.cholesky import NotPositiveDefiniteError, SymbolicCholesky
from .manifold import Manifold
from .schur import SchurOperator

Array = NDArray[np.float64]

_FLOOR = 1e-6


def tangent_basis(manifold: Manifold, y: Array, n_points: int) -> sp.csr_matrix:
    """Orthonormal basis, ((rows + points) p, dim) CSR, of the tangent space at y (rows, p)."""
    d, n, k, p = manifold.d, manifold.n, manifold.k, y.shape[1]
    blocks = rotation_tangents(manifold, y)
    bearings = np.swapaxes(orthogonal_complement(y[n * d : n * d + k][:, None, :]), 1, 2)
    parts = [_block_diagonal(blocks.reshape(n, d * p, blocks.shape[3])), _block_diagonal(bearings)]
    if manifold.homogenised:
        parts.append(sp.csr_matrix((d * p, 0)))
    parts.append(sp.identity(n_points * p, format='csr'))
    return sp.block_diag(parts, format='csr')


def rotation_tangents(manifold: Manifold, y: Array) -> Array:
    """(n, d, p, d (d - 1) / 2 + d (p - d)): orthonormal directions Omega Y and W Y_perp."""
    d, n, p = manifold.d, manifold.n, y.shape[1]
    rotations = y[: n * d].reshape(n, d, p)
    skew = [(a, b) for a in range(d) for b in range(a)]
    blocks = np.zeros((n, d, p, len(skew) + d * (p - d)))
    for q, (a, b) in enumerate(skew):
        blocks[:, a, :, q] = rotations[:, b] / np.sqrt(2)
        blocks[:, b, :, q] = -rotations[:, a] / np.sqrt(2)
    if p > d:
        complement = orthogonal_complement(rotations)
        for a in range(d):
            at = len(skew) + a * (p - d)
            blocks[:, a, :, at : at + p - d] = np.swapaxes(complement, 1, 2)
    return blocks


def orthogonal_complement(rows: Array) -> Array:
    """(m, p - d, p) orthonormal rows orthogonal to the orthonormal rows (m, d, p)."""
    d = rows.shape[1]
    q, _ = np.linalg.qr(np.swapaxes(rows, 1, 2), mode='complete')
    return np.swapaxes(q[:, :, d:], 1, 2)


def _block_diagonal(blocks: Array) -> sp.csr_matrix:
    m, rows, columns = blocks.shape
    indices = np.arange(m)[:, None, None] * columns + np.arange(columns)[None, None, :]
    indices = np.broadcast_to(indices, blocks.shape).ravel()
    indptr = np.arange(m * rows + 1) * columns
    return sp.csr_matrix((blocks.ravel(), indices, indptr), shape=(m * rows, m * columns))


class NewtonPreconditioner:
    """(T^T (Q - Lambda + shift) T)^-1 in ambient coordinates; Gauss-Newton where indefinite."""

    def __init__(self, schur: SchurOperator, *, damping: float = 1e-10) -> None:
        self.manifold = schur.problem.manifold
        self.n_c = schur.shape[0]
        self.full = schur.full()
        self.damping = damping
        self.symbolic: SymbolicCholesky | None = None
        self.gauss_newton = False

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        p = y.shape[1]
        self.basis = tangent_basis(self.manifold, y, self.full.shape[0] - self.n_c)
        # T^T (Q x I_p) T without the Kronecker product: column by column of Y.
        columns = [self.basis[c::p] for c in range(p)]
        gauss = sum(part.T.tocsr() @ (self.full @ part) for part in columns).tocsc()
        curve = self._curvature(y, gradient, gauss.shape[0])
        # A rotation that no measurement turns has a zero row.
        diagonal = gauss.diagonal()
        diagonal = np.maximum(diagonal, _FLOOR * diagonal.max(initial=0.0))
        damping = sp.diags(self.damping * diagonal).tocsc()
        if self.symbolic is None:
            self.symbolic = SymbolicCholesky(gauss)
        try:
            self.factor = self.symbolic.factorize(gauss - curve + damping)
            self.gauss_newton = False
        except NotPositiveDefiniteError:
            self.factor = self.symbolic.factorize(gauss + 1e4 * damping)
            self.gauss_newton = True

    def _curvature(self, y: Array, gradient: Array, size: int) -> sp.csc_matrix:
        """T^T (Lambda x I_p) T: a block per rotation, a multiple of I per bearing, else zero."""
        manifold, p = self.manifold, y.shape[1]
        tangents = rotation_tangents(manifold, y)
        blocks, scalars = manifold.multipliers(y, gradient)
        turned = np.einsum('nab,nbcq->nacq', blocks, tangents)
        curve = sp.block_diag([
            _block_diagonal(np.einsum('nacr,nacq->nrq', tangents, turned)),
            sp.diags(np.repeat(scalars, p - 1)),
        ], format='csc')
        curve.resize((size, size))
        return curve

    def apply(self, v: Array, out: Array) -> Array:
        p = v.shape[1]
        rhs = np.zeros(self.full.shape[0] * p)
        rhs[: v.size] = v.ravel()
        solution = self.basis @ self.factor.solve(self.basis.T @ rhs)
        out[...] = solution[: v.size].reshape(v.shape)
        return out
