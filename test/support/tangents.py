"""Dense and sparse tangent bases that kernels are compared with."""

import numpy as np
import scipy.sparse as sp

from sparser_ros.solver.preconditioner import orthogonal_complement, rotation_tangents


def tangent_basis(manifold, y, n_points):
    """Orthonormal basis, ((rows + points) p, dim) CSR, of the tangent space at y (rows, p)."""
    d, n, k, p = manifold.d, manifold.n, manifold.k, y.shape[1]
    blocks = rotation_tangents(manifold, y)
    bearings = np.swapaxes(orthogonal_complement(y[n * d : n * d + k][:, None, :]), 1, 2)
    parts = [_block_diagonal(blocks.reshape(n, d * p, blocks.shape[3])), _block_diagonal(bearings)]
    if manifold.homogenised:
        parts.append(sp.csr_matrix((d * p, 0)))
    parts.append(sp.identity(n_points * p, format='csr'))
    return sp.block_diag(parts, format='csr')


def _block_diagonal(blocks):
    m, rows, columns = blocks.shape
    indices = np.arange(m)[:, None, None] * columns + np.arange(columns)[None, None, :]
    indices = np.broadcast_to(indices, blocks.shape).ravel()
    indptr = np.arange(m * rows + 1) * columns
    return sp.csr_matrix((blocks.ravel(), indices, indptr), shape=(m * rows, m * columns))
