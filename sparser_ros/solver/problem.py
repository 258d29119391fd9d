"""One quadratic problem: cost tr(X^T Q X), Q = A^T Omega A, A = [A_c | A_f] (paper, problem 2).

Every residual is linear, r = A_c X_c + A_f X_f, one row of X per row of A (the paper's table I).
Columns of A_c are the rotation rows R_i^T, the bearing rows u_k and the homogenising rows; columns
of A_f are points (poses' translations, landmarks). A measurement type says which residuals it has
(graph/measurements.py); `rows_of` has their entries.

A_f = C R, with a basis C of its column space by choice of columns (section 5.1). Where every row
holds one free variable or the difference of two, A_f is the incidence matrix of a graph and its
components say which columns to leave out. Any other A_f goes through a QR factorisation that
reveals the rank (the paper's CR route).

A vertical is a row like any other: up^T R_i^T less the last homogenising row. A height is a row of
one column of X only, the last of map, so Q differs there: `QuadraticProblem.upright` is the problem
with the rows of heights, and serves that column (docs/method.md, section 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ..array_types import Array, Index, Mask
from ..graph import Estimate, Graph, Residual
from ..graph.parts import connected
from ..linalg.rotations import nearest_rotation
from .manifold import Manifold, ScaledManifold

LEAST_LENGTH_M = 1e-9
"""Distance between antennas below which a bearing keeps its direction: rounding of positions."""


def column_basis(A_f: sp.csr_matrix, fixed: Mask) -> Index:
    """Sorted columns of A_f (rows, points) that span its range; `fixed` points have no column."""
    A_f = sp.csr_matrix(A_f, copy=True)
    A_f.sum_duplicates()
    A_f.eliminate_zeros()
    if incidence_like(A_f):
        return incidence_basis(A_f, fixed)
    used = np.flatnonzero(~fixed)
    return used[independent_columns(A_f[:, used])]


def incidence_like(A_f: sp.csr_matrix) -> bool:
    """True where every row is empty, a lone entry, or a pair of entries that add up to zero."""
    per_row = np.diff(A_f.indptr)
    pair = A_f.indptr[:-1][per_row == 2]
    first, second = A_f.data[pair], A_f.data[pair + 1]
    return bool(np.all(per_row <= 2) and np.all(np.abs(first + second) <= 1e-12 * np.abs(first)))


def incidence_basis(A_f: sp.csr_matrix, fixed: Mask) -> Index:
    """Columns that span the range of an incidence matrix (paper, section 5.2 and appendix C).

    Points are joined by the rows that hold two of them. A component that some row grounds (a lone
    entry) keeps every column; any other loses its first, the translation gauge.
    """
    points = A_f.shape[1]
    per_row = np.diff(A_f.indptr)
    pair = A_f.indptr[:-1][per_row == 2]
    first, second = A_f.indices[pair], A_f.indices[pair + 1]
    n_components, label = connected(points, first, second)
    grounded = np.zeros(n_components, dtype=bool)
    grounded[label[A_f.indices[A_f.indptr[:-1][per_row == 1]]]] = True
    keep = ~fixed
    label = np.where(fixed, -1, label)
    _, representative = np.unique(label[keep], return_index=True)
    candidates = np.flatnonzero(keep)[representative]
    keep[candidates[~grounded[label[candidates]]]] = False
    return np.flatnonzero(keep)


def independent_columns(A: sp.csr_matrix) -> Index:
    """Sorted columns of A that form a basis of its range, by QR with column pivoting, dense."""
    if not min(A.shape):
        return np.zeros(0, dtype=np.int64)
    length = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    scaled = sp.diags(1 / np.where(length > 0, length, 1.0)) @ A
    r, order = scipy.linalg.qr(scaled.toarray(), mode='r', pivoting=True)
    size = np.abs(np.diagonal(r))
    # Well above rounding, far below any real independence.
    return np.sort(order[: len(size)][size > 1e-10 * max(size[0], 1e-300)]).astype(np.int64)


@dataclass(frozen=True)
class VariableColumns:
    """Columns of the variables in A_c: n rotation blocks of d, k bearings, d homogenising."""

    d: int
    n: int
    k: int

    def rotation(self, i: Index) -> Index:
        """(m,): the first of the columns of R_i^T, which has d rows."""
        return i * self.d

    def bearing(self, k: Index) -> Index:
        return self.n * self.d + k

    @property
    def homogenising(self) -> int:
        """The first of the columns of the d rows held at I_d."""
        return self.n * self.d + self.k


@dataclass
class ResidualRows:
    """Triplets of some rows of A_c and A_f, their weights and the measurement each serves."""

    table: str
    weight: Array
    measurement: Index
    constrained: list[tuple[Index, Index, Array]] = field(default_factory=list)
    free: list[tuple[Index, Index, Array]] = field(default_factory=list)
    distance: Array | None = None
    """(rows,): measured distance in metres where every row has a bearing."""

    def __len__(self) -> int:
        return len(self.weight)

    def add(self, rows: Index, columns: Index, values: Array | float) -> None:
        """Entries of A_c; broadcasts to a common shape."""
        _append(self.constrained, rows, columns, values)

    def add_free(self, rows: Index, points: Index, values: Array | float) -> None:
        """Entries of A_f."""
        _append(self.free, rows, points, values)


def _append(
    entries: list[tuple[Index, Index, Array]], rows: Index, columns: Index, values: Array | float
) -> None:
    shape = np.broadcast_shapes(rows.shape, columns.shape, np.shape(values))
    entries.append(
        (
            np.broadcast_to(rows, shape).ravel(),
            np.broadcast_to(columns, shape).ravel(),
            np.broadcast_to(values, shape).ravel().astype(float),
        )
    )


def residual_rows(
    graph: Graph, at: VariableColumns, *, heights: bool = False
) -> list[ResidualRows]:
    """The rows of all measurements but heights, or of these, residual by residual; none is empty.

    Rows of heights serve the last column of map only.
    """
    blocks, bearings = [], 0
    for kind, table in graph.typed():
        for part in kind.residuals(table):
            if not len(part) or part.height is not heights:
                continue
            blocks.append(rows_of(kind.name, part, at, graph.points, bearings))
            bearings += 0 if part.distance is None else len(part)
    return blocks


def rows_of(
    table: str, residual: Residual, at: VariableColumns, points: Callable[[Index], Index],
    bearings: int = 0,
) -> ResidualRows:
    """(c t_j^T + a_j^T R_j^T) - (c t_i^T + a_i^T R_i^T) - d~ u_k by columns of A (table I).

    points: endpoints -> columns of A_f; bearings: number of the first row's bearing u_k. A
    residual to the map frame has its arm in the homogenising columns (appendix C).
    """
    k, r, d = residual.arm_first.shape
    every = np.arange(k)
    block = ResidualRows(
        table, np.repeat(residual.weight, r), np.repeat(every, r), distance=residual.distance)
    if residual.distance is not None:
        block.add(every, at.bearing(bearings + every), -residual.distance)
    for endpoint, arm, sign in zip(
            (residual.first, residual.second), residual.arms, (-1.0, 1.0), strict=True):
        if residual.point and endpoint is not None:
            block.add_free(every, points(endpoint), sign)
        values = arm.ravel()
        used = np.flatnonzero(values)
        if endpoint is not None and np.any(endpoint < 0):
            used = used[endpoint[used // (r * d)] >= 0]
        row, axis = np.divmod(used, d)
        first = at.homogenising if endpoint is None else at.rotation(endpoint[row // r])
        block.add(row, first + axis, sign * values[used])
    return block


def rotation_system(graph: Graph) -> tuple[sp.csr_matrix, Array]:
    """Rows of relative rotations on rotations and homogenising rows alone; their weights."""
    at = VariableColumns(graph.dimension, graph.n_poses, 0)
    blocks = [rows_of('', part, at, graph.points) for part in graph.residuals() if part.turn]
    starts = np.cumsum([0] + [len(block) for block in blocks])
    shape = int(starts[-1]), (at.n + 1) * at.d
    return _stack([block.constrained for block in blocks], starts, shape), np.concatenate(
        [np.zeros(0)] + [block.weight for block in blocks])


def ground_fixed(block: ResidualRows, positions: Array, fixed: Mask, at: VariableColumns) -> None:
    """Move entries of known points from A_f to the homogenising columns of A_c.

    positions: (points, d); fixed: (points,) mask. A known point a stands in the row as a^T I.
    """
    kept: list[tuple[Index, Index, Array]] = []
    for rows, points, values in block.free:
        known = fixed[points]
        kept.append((rows[~known], points[~known], values[~known]))
        if np.any(known):
            block.add(
                rows[known][:, None],
                at.homogenising + np.arange(at.d)[None],
                values[known][:, None] * positions[points[known]],
            )
    block.free = kept


class QuadraticProblem:
    """The residual rows of a graph, A_f reduced to a basis of its columns.

    `build` makes the rows of all measurements; another function may add further linear residuals.
    Attributes: `A` (rows, n_c) CSR; `C` (rows, n_f) CSR, the column-space basis of A_f; `omega`
    (rows,) weights; `kept` (n_f,) point of each column of C; `manifold` of X_c; `bearing_rows` (k,)
    row of each bearing and `distance` (k,) along it, metres; `upright` the problem of the last
    column of map, whose first rows are these and whose others are heights; None without heights.
    """

    def __init__(
        self, graph: Graph,
        build: Callable[[Graph, VariableColumns], list[ResidualRows]] = residual_rows,
    ) -> None:
        self.graph = graph
        self._ranged = [part for part in graph.residuals() if part.distance is not None]
        d, n, k = graph.dimension, graph.n_poses, graph.n_bearings
        space = (d, n, k, graph.anchored or graph.levelled, graph.levelled and not graph.anchored)
        self.manifold = (
            ScaledManifold(*space, graph.free_scale) if graph.free_scale else Manifold(*space))
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
        self.upright: QuadraticProblem | None = None
        if len(graph.heights) and build is not _with_heights:
            self.upright = QuadraticProblem(graph, _with_heights)

    @property
    def all_rows(self) -> QuadraticProblem:
        """The problem that has the rows of all measurements."""
        return self.upright or self

    @property
    def n_points(self) -> int:
        return self.graph.n_poses + self.graph.n_landmarks

    def weights(self, robust: dict[str, Array] | None) -> Array:
        """Weights of `all_rows` with the robust weight of each row's measurement folded in."""
        if self.upright is not None:
            return self.upright.weights(robust)
        if not robust:
            return self.omega
        omega = self.omega.copy()
        for table, rows, measurement in self.rows_of:
            if table in robust:
                omega[rows] *= robust[table][measurement]
        return omega

    def residuals(self, y: Array, points: Array) -> tuple[Array, Array]:
        """(rows, p) of the shared rows and (k,) of heights, at y (rows, p) and its points."""
        residual = self.A @ y + self.C @ points[self.kept]
        if self.upright is None:
            return residual, np.zeros(0)
        # No point stands at the origin of the last column, where heights fix that.
        other, column, first = self.upright, self.manifold.d - 1, len(residual)
        last = other.A @ y[:, column] + other.C @ points[other.kept, column]
        residual[:, column] = last[:first]
        return residual, last[first:]

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
            part.vectors(points, rows)[:, 0] for part in self._ranged)])
        norm = np.linalg.norm(vectors, axis=1, keepdims=True)
        y = np.empty((manifold.rows, p))
        y[: n * d] = rows.reshape(n * d, p)
        apart = norm > LEAST_LENGTH_M
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


def _with_heights(graph: Graph, at: VariableColumns) -> list[ResidualRows]:
    return [*residual_rows(graph, at), *residual_rows(graph, at, heights=True)]


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
