"""Rows of A_c and A_f: the paper's table I as sparse triplets.

Every residual is linear, r = A_c X_c + A_f X_f, one row of X per row of A. Columns of A_c are the
rotation rows R_i^T, the bearing rows u_k and the homogenising rows; columns of A_f are points
(poses' translations, landmarks). A measurement type says which residuals it has
(graph/measurements/); the entries of the two residuals that there are stand here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Graph, PointResidual, RotationResidual


@dataclass(frozen=True)
class VariableColumns:
    """Columns of the variables in A_c: n rotation blocks of d, k bearings, d homogenising."""

    d: int
    n: int
    k: int

    def rotation(self, i: Index) -> Index:
        """(m, d): columns of the rows of R_i^T."""
        return i[:, None] * self.d + np.arange(self.d)

    def bearing(self, k: Index) -> Index:
        return self.n * self.d + k

    def homogenising(self, m: int) -> Index:
        """(m, d): columns of the rows held at I_d."""
        return np.tile(self.n * self.d + self.k + np.arange(self.d), (m, 1))


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


def residual_rows(graph: Graph, at: VariableColumns) -> list[ResidualRows]:
    """The rows of all measurements, type by type, residual by residual; none is empty."""
    blocks = []
    bearings = 0
    for kind, table in graph.typed():
        for part in kind.residuals(table):
            if isinstance(part, RotationResidual):
                block = rotation_rows(kind.name, part, at)
            else:
                block = point_rows(kind.name, part, at, graph.points, bearings)
                bearings += 0 if part.distance is None else len(part)
            blocks.append(block)
    return [block for block in blocks if len(block)]


def rotation_rows(table: str, residual: RotationResidual, at: VariableColumns) -> ResidualRows:
    """R_j^T - R~^T R_i^T, weight kappa (table I, row 1); the map frame's R_i is I (appendix C)."""
    m, d = len(residual), at.d
    rows = np.arange(m * d).reshape(m, d)
    block = ResidualRows(table, np.repeat(residual.weight, d), np.repeat(np.arange(m), d))
    block.add(rows, at.rotation(residual.second), 1.0)
    first = at.homogenising(m) if residual.first is None else at.rotation(residual.first)
    block.add(rows[:, :, None], first[:, None, :], -np.swapaxes(residual.rotation, 1, 2))
    return block


def point_rows(
    table: str, residual: PointResidual, at: VariableColumns, points: Callable[[Index], Index],
    bearings: int,
) -> ResidualRows:
    """(t_j + l_j^T R_j^T) - (t_i + l_i^T R_i^T) - d~ u_k, weight tau or 1/sigma^2 (table I).

    points: endpoints -> columns of A_f; bearings: number of the first row's bearing u_k. A
    residual to the map frame has its position in the homogenising columns (appendix C).
    """
    rows = np.arange(len(residual))
    block = ResidualRows(table, residual.weight, rows, distance=residual.distance)
    if residual.distance is not None:
        block.add(rows, at.bearing(bearings + rows), -residual.distance)
    for endpoint, arm, sign in (
        (residual.second, residual.arm_second, 1.0), (residual.first, residual.arm_first, -1.0),
    ):
        if endpoint is None and arm is not None:
            block.add(rows[:, None], at.homogenising(len(rows)), sign * arm)
        if endpoint is not None:
            block.add_free(rows, points(endpoint), sign)
        if endpoint is not None and arm is not None:
            held = (endpoint >= 0) & np.any(arm != 0, axis=1)
            block.add(rows[held][:, None], at.rotation(endpoint[held]), sign * arm[held])
    return block


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
                at.homogenising(int(known.sum())),
                values[known][:, None] * positions[points[known]],
            )
    block.free = kept
