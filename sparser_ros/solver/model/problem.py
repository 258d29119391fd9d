"""One quadratic problem: cost tr(X^T Q X), Q = A^T Omega A, A = [A_c | A_f] (paper, problem 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index
from ...graph import Estimate, Graph
from ...linalg.dense.rotations import nearest_rotation
from ..manifold.manifold import Manifold
from ..manifold.scaled_rotations import manifold_of
from ..thresholds import current
from .column_basis import column_basis
from .residual_rows import ResidualRows, VariableColumns, ground_fixed, residual_rows


class QuadraticProblem:
    """The residual rows of a graph, A_f reduced to a basis of its columns.

    `build` makes the rows of all measurements; another function may add further linear residuals.
    Attributes: `A` (rows, n_c) CSR; `C` (rows, n_f) CSR, the column-space basis of A_f; `omega`
    (rows,) weights; `kept` (n_f,) point of each column of C; `manifold` of X_c; `bearing_rows` (k,)
    row of each bearing and `distance` (k,) along it, metres.
    """

    def __init__(
        self, graph: Graph,
        build: Callable[[Graph, VariableColumns], list[ResidualRows]] = residual_rows,
    ) -> None:
        self.graph = graph
        self._ranged = [part for part in graph.point_residuals() if part.distance is not None]
        d, n, k = graph.dimension, graph.n_poses, graph.n_bearings
        self.manifold: Manifold = manifold_of(d, n, k, graph.anchored, graph.free_scale)
        at = VariableColumns(d, n, k)
        positions = np.concatenate([np.zeros((n, d)), graph.landmarks.position])
        fixed = np.concatenate([np.zeros(n, dtype=bool), graph.landmarks.fixed])
        blocks = build(graph, at)
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
        with_bearing = [
            (starts[b] + np.arange(len(block)), block.distance)
            for b, block in enumerate(blocks) if block.distance is not None]
        self.bearing_rows: Index = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(rows for rows, _ in with_bearing)])
        self.distance: Array = np.concatenate([np.zeros(0), *(far for _, far in with_bearing)])
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
        return self.compose(estimate.rows, estimate.points)

    def compose(self, rows: Array, points: Array) -> Array:
        """The point of rank p of rotation rows (n, d, p) and positions (n + m, p).

        Bearings point along the antennas; known landmarks stand where they are known to.
        """
        manifold, graph = self.manifold, self.graph
        d, n, p = manifold.d, manifold.n, points.shape[1]
        fixed = graph.landmarks.fixed
        points = points.copy()
        points[n:][fixed] = graph.landmarks.position[fixed] @ np.eye(d, p)
        vectors = np.concatenate([np.zeros((0, p)), *(
            part.vectors(points, rows) for part in self._ranged)])
        norm = np.linalg.norm(vectors, axis=1, keepdims=True)
        y = np.empty((manifold.rows, p))
        y[: n * d] = rows.reshape(n * d, p)
        apart = norm > current().bearing_least_length_m
        y[n * d : n * d + manifold.k] = np.where(
            apart, vectors / np.where(apart, norm, 1.0), np.eye(1, p))
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
