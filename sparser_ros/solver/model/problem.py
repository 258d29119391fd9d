"""One quadratic problem: cost tr(X^T Q X), Q = A^T Omega A, A = [A_c | A_f] (paper, problem 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index
from ...graph import Estimate, Graph
from ...linalg.dense.rotations import nearest_rotation
from ..manifold.manifold import Manifold
from ..manifold.scaled_rotations import manifold_of
from .column_basis import column_basis
from .residual_rows import MEASUREMENTS, Columns, Measurement, ground_fixed


class QuadraticProblem:
    """The residual rows of a graph, A_f reduced to a basis of its columns.

    `measurements` lists the functions that make rows, one per kind (solver/model/residual_rows.py).
    Attributes: `A` (rows, n_c) CSR; `C` (rows, n_f) CSR, the column-space basis of A_f; `omega`
    (rows,) weights; `kept` (n_f,) point of each column of C; `manifold` of X_c.
    """

    def __init__(
        self, graph: Graph, measurements: Sequence[Measurement] = MEASUREMENTS
    ) -> None:
        self.graph = graph
        d, n, k = graph.dimension, graph.n_poses, len(graph.ranges)
        self.manifold: Manifold = manifold_of(d, n, k, graph.anchored, graph.free_scale)
        at = Columns(d, n, k)
        positions = np.concatenate([np.zeros((n, d)), graph.landmarks.position])
        fixed = np.concatenate([np.zeros(n, dtype=bool), graph.landmarks.fixed])
        blocks = [rows for rows in (build(graph, at) for build in measurements) if len(rows)]
        for block in blocks:
            if np.any(fixed):
                ground_fixed(block, positions, fixed, at)
        starts = np.cumsum([0] + [len(block) for block in blocks])
        m = int(starts[-1])
        self.A = _stack([block.constrained for block in blocks], starts, (m, self.manifold.rows))
        A_f = _stack([block.free for block in blocks], starts, (m, n + graph.n_landmarks))
        self.omega = np.concatenate([np.zeros(0)] + [block.weight for block in blocks])
        self.rows_of = [
            (block.table, slice(starts[b], starts[b + 1]), block.measurement)
            for b, block in enumerate(blocks)
        ]
        self.kept = column_basis(A_f, fixed)
        self.C = A_f[:, self.kept].tocsr()

    @property
    def n_points(self) -> int:
        return self.graph.n_poses + self.graph.n_landmarks

    def weights(self, robust: dict[str, Array] | None) -> Array:
        """Row weights Omega with the robust weight of each row's measurement folded in."""
        if not robust:
            return self.omega
        omega = self.omega.copy()
        for table, rows, measurement in self.rows_of:
            if table in robust:
                omega[rows] *= robust[table][measurement]
        return omega

    def pack(self, estimate: Estimate) -> Array:
        """The rank-d point of an estimate: rotations, and bearings along the antennas."""
        rows = np.swapaxes(estimate.rotation, 1, 2)
        if estimate.scale is not None:
            rows = estimate.scale[:, None, None] * rows
        return self.compose(rows, estimate.points)

    def compose(self, rows: Array, points: Array) -> Array:
        """The point of rank p of rotation rows (n, d, p) and positions (n + m, p).

        Bearings point along the antennas; known landmarks stand where they are known to.
        """
        manifold, graph = self.manifold, self.graph
        d, n, p = manifold.d, manifold.n, points.shape[1]
        fixed = graph.landmarks.fixed
        points = points.copy()
        points[n:][fixed] = graph.landmarks.position[fixed] @ np.eye(d, p)

        def antenna(endpoint: Index, lever: Array) -> Array:
            position = points[graph.points(endpoint)]
            pose = endpoint >= 0
            position[pose] += np.einsum('ki,kip->kp', lever[pose], rows[endpoint[pose]])
            return position

        ranges = graph.ranges
        vectors = antenna(ranges.target, ranges.lever_target) - antenna(
            ranges.source, ranges.lever_source)
        norm = np.linalg.norm(vectors, axis=1, keepdims=True)
        y = np.empty((manifold.rows, p))
        y[: n * d] = rows.reshape(n * d, p)
        y[n * d : n * d + manifold.k] = np.where(
            norm > 1e-9, vectors / np.maximum(norm, 1e-300), np.eye(1, p))
        y[n * d + manifold.k :] = np.eye(d, p)[: manifold.rows - n * d - manifold.k]
        return y

    def unpack(self, y: Array, points: Array) -> Estimate:
        """The estimate of a rank-d point and its points (n + m, d) from back-substitution."""
        n = self.graph.n_poses
        landmarks = points[n:].copy()
        fixed = self.graph.landmarks.fixed
        landmarks[fixed] = self.graph.landmarks.position[fixed]
        blocks = y[: n * self.manifold.d].reshape(n, self.manifold.d, self.manifold.d)
        return Estimate(
            nearest_rotation(np.swapaxes(blocks, 1, 2)), points[:n].copy(), landmarks,
            self.manifold.scales(y) if self.graph.free_scale else None)


def _stack(
    parts: list[list[tuple[Index, Index, Array]]], starts: Index, shape: tuple[int, int]
) -> sp.csr_matrix:
    entries = [
        (rows + starts[b], columns, values)
        for b, block in enumerate(parts)
        for rows, columns, values in block
    ]
    if not entries:
        return sp.csr_matrix(shape)
    rows, columns, values = (np.concatenate(column) for column in zip(*entries, strict=True))
    matrix = sp.csr_matrix((values, (rows, columns)), shape=shape)
    # A measurement between two antennas of one pose cancels in A_f; a stored zero would look
    # like a row that grounds its point.
    matrix.eliminate_zeros()
    return matrix
