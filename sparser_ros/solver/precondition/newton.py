"""The Riemannian Hessian in tangent coordinates, factorised: the exact Newton preconditioner.

Basis T of the tangent space at Y: rotations Omega Y + W Y_perp (Omega skew), bearings along
u_perp, points free. T^T ((Q - Lambda) x I_p) T is sparse like Q with small dense blocks; its
Cholesky factor makes truncated CG converge in a few steps once Y is near a minimum.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...array_types import Array
from ...config import SolverError
from ...linalg.arrays import HOST, Arrays
from ...linalg.block.block_cholesky import BlockCholesky, BlockFactor, ScalarFactor, block_pattern
from ...linalg.dense.tangent_kernels import (
    Bearings,
    bearing_nodes,
    block_slots,
    complements,
    pair_slots,
    tangent_kernels,
)
from ...linalg.kernel_records import csr
from ...linalg.sparse.cholesky import NotPositiveDefiniteError
from .. import thresholds
from ..manifold.manifold import Manifold
from ..model.schur import SchurOperator
from .regularised_q import elimination_order


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


class NewtonPreconditioner:
    """(T^T (Q - Lambda + shift) T)^-1 in ambient coordinates; Gauss-Newton where indefinite.

    Bearings are eliminated; what is left has a block for every pose and landmark, whose pattern
    is analysed once.
    """

    portable = False
    """Factorised anew at every point, which takes longer than its few triangular solves."""

    def __init__(self, schur: SchurOperator, *, damping: float | None = None) -> None:
        problem, manifold = schur.problem, schur.problem.manifold
        d, n = manifold.d, manifold.n
        self.manifold = manifold
        self.full = schur.full()
        numbers = thresholds.current()
        self.damping = numbers.newton_damping if damping is None else damping
        """Share of the diagonal added to the Hessian."""
        self._fallback_damping = numbers.newton_fallback_damping * self.damping
        self._diagonal_floor = numbers.newton_diagonal_floor
        self.symbolic: BlockCholesky | None = None
        self.factor: BlockFactor | ScalarFactor | None = None
        self._order = elimination_order(schur)
        self._pattern: sp.csr_matrix | None = None
        self.gauss_newton = False
        self.n_nodes = problem.n_points
        self.node = np.full(self.full.shape[0], -1, dtype=np.int64)
        self.node[: n * d] = np.arange(n * d) // d
        self.node[schur.shape[0] :] = problem.kept

    def _analyse(self, q: int, p: int) -> None:
        """Pattern and slots of the blocks, for q coordinates a rotation and p a point."""
        node, full, manifold = self.node, self.full, self.manifold
        self._pattern = full
        nodes = self.nodes = bearing_nodes(
            full.indptr, full.indices, node, manifold.n * manifold.d, manifold.k)
        if np.any(nodes < -1):
            raise SolverError('a range between more than two poses or landmarks')
        pattern = block_pattern(full.indptr, full.indices, node, self.n_nodes, nodes)
        self.symbolic = BlockCholesky(pattern, q + p, self._order)
        starts, rows, rank = self.symbolic.starts, self.symbolic.rows, self.symbolic.rank
        self.slots = block_slots(
            starts, rows, np.where(node < 0, -1, rank[node]), full.indptr, full.indices)
        ranked = np.where(nodes < 0, -1, rank[nodes])
        self.pairs = pair_slots(starts, rows, ranked)
        self.diagonal = pair_slots(starts, rows, rank[:, None].repeat(2, axis=1))[:, 0, 0]
        used = np.zeros((self.n_nodes, q + p), dtype=bool)
        used[: manifold.n, :q] = True
        used[node[manifold.rows :], q:] = True
        self.used = used

    def adopt(self, full: sp.csr_matrix) -> None:
        """Take another Q on [X_c; X_f kept], for instance with new weights."""
        self.full = full

    def placed(self, arrays: Arrays) -> bool:
        return arrays is HOST

    def _assembled(self, y: Array) -> Array:
        """Blocks of T^T Q T at y, bearings left out; T and the pattern are kept."""
        manifold, full = self.manifold, self.full
        d, n, k, p = manifold.d, manifold.n, manifold.k, y.shape[1]
        self.turns = rotation_tangents(manifold, y)
        q = self.turns.shape[3] if n else 0
        if self.symbolic is None or self.symbolic.b != q + p or not self._same_pattern():
            self._analyse(q, p)
        assert self.symbolic is not None
        self.kernel = tangent_kernels(d, p, q)
        self.normal = np.empty((k, p - 1, p))
        complements(y[n * d : n * d + k], self.normal)
        gauss = np.zeros((len(self.symbolic.rows), q + p, q + p))
        self.kernel.assemble(csr(full), self.turns, self.slots, gauss)
        return gauss

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        manifold, full = self.manifold, self.full
        d, n, k = manifold.d, manifold.n, manifold.k
        gauss = self._assembled(y)
        multipliers, scalars = manifold.multipliers(y, gradient)
        own = full.diagonal()[n * d : n * d + k]
        largest = max(gauss.max(initial=0.0), own.max(initial=0.0))
        floor, damped = self._floor(gauss, largest), np.maximum(own, self._diagonal_floor * largest)
        exact = gauss.copy()
        self.kernel.subtract_curvature(multipliers, self.turns, self.diagonal, exact)
        try:
            self._factorize(exact, self.damping * floor, own - scalars + self.damping * damped)
            self.gauss_newton = False
        except NotPositiveDefiniteError:
            loose = self._fallback_damping
            self._factorize(gauss, loose * floor, own + loose * damped)
            self.gauss_newton = True

    def _floor(self, blocks: Array, largest: float) -> Array:
        """(nodes, b): the diagonal; a rotation that no measurement turns has a zero row."""
        diagonal = np.einsum('mii->mi', blocks[self.diagonal])
        return np.maximum(diagonal, self._diagonal_floor * largest)

    def _same_pattern(self) -> bool:
        known, full = self._pattern, self.full
        return known is full or (known is not None and (
            np.array_equal(known.indptr, full.indptr)
            and np.array_equal(known.indices, full.indices)))

    def _factorize(self, blocks: Array, shift: Array, pivots: Array) -> None:
        """Factor of the blocks, shifted on the diagonal, less what the bearings leave."""
        assert self.symbolic is not None
        if not np.all(pivots > 0):
            raise NotPositiveDefiniteError('a pivot is not positive')
        b = self.symbolic.b
        at = np.arange(b)
        blocks[self.diagonal[:, None], at, at] += np.where(self.used, shift, 1.0)
        coupling = np.empty((self.manifold.k, 2, self.normal.shape[1], b))
        self.bearings = Bearings(self.nodes, self.normal, pivots, coupling)
        self.kernel.eliminate(
            csr(self.full), self.node, self.turns, self.bearings, self.pairs, blocks)
        self.factor = self.symbolic.factorize(blocks, np.arange(self.n_nodes * b))

    def apply(self, v: Array, out: Array) -> Array:
        k, p = self.manifold.k, v.shape[1]
        assert self.factor is not None
        x, z = np.empty(self.factor.n), np.empty((k, p - 1))
        self.kernel.coordinates(v, self.turns, self.bearings, x, z)
        # Rows beyond X_c are X_f, where a formulation keeps it as a variable.
        points = self.node[self.manifold.rows :]
        whole = v.shape[0] > self.manifold.rows
        if whole:
            x.reshape(self.n_nodes, -1)[points, -p:] += v[self.manifold.rows :]
        x = self.factor.solve(x)
        self.kernel.ambient(x, z, self.turns, self.bearings, out)
        if whole:
            out[self.manifold.rows :] = x.reshape(self.n_nodes, -1)[points, -p:]
        return out
