"""Residual rows of each measurement type: the paper's table I as sparse triplets.

Every residual is linear, r = A_c X_c + A_f X_f, one row of X per row of A. A measurement type is
one function here that lists its entries: columns of A_c are the rotation rows R_i^T, the bearing
rows u_k and the homogenising rows; columns of A_f are points (poses' translations, landmarks).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array, Index
from ...graph import Graph


@dataclass(frozen=True)
class Columns:
    """Where the variables stand: n rotation blocks of d columns, k bearings, d homogenising."""

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


def _turns(
    table: str, kappa: Array, target: Index, columns: Index, rotation: Array, at: Columns
) -> ResidualRows:
    """R_target^T - R~^T S with S the d rows of X_c in `columns`; weight kappa."""
    m, d = len(kappa), at.d
    rows = np.arange(m * d).reshape(m, d)
    block = ResidualRows(table, np.repeat(kappa, d), np.repeat(np.arange(m), d))
    block.add(rows, at.rotation(target), 1.0)
    block.add(rows[:, :, None], columns[:, None, :], -np.swapaxes(rotation, 1, 2))
    return block


def relative_rotations(graph: Graph, at: Columns) -> ResidualRows:
    """R_j^T - R~_ij^T R_i^T, weight kappa (table I, row 1)."""
    rel = graph.relative_poses
    return _turns('relative_poses', rel.kappa, rel.j, at.rotation(rel.i), rel.rotation, at)


def relative_translations(graph: Graph, at: Columns) -> ResidualRows:
    """t_j - t_i - t~_ij^T R_i^T, weight tau (table I, row 2)."""
    rel = graph.relative_poses
    return _displacement('relative_poses', rel.tau, rel.i, rel.j, rel.translation, at)


def sightings(graph: Graph, at: Columns) -> ResidualRows:
    """p - t_i - t~_ip^T R_i^T, weight tau (table I, row 2)."""
    see = graph.sightings
    return _displacement(
        'sightings', see.tau, see.i, graph.points(see.point), see.translation, at)


def _displacement(
    table: str, tau: Array, i: Index, point: Index, translation: Array, at: Columns
) -> ResidualRows:
    rows = np.arange(len(tau))
    block = ResidualRows(table, tau, rows)
    block.add_free(rows, point, 1.0)
    block.add_free(rows, i, -1.0)
    block.add(rows[:, None], at.rotation(i), -translation)
    return block


def ranges(graph: Graph, at: Columns) -> ResidualRows:
    """(t_j + l_j^T R_j^T) - (t_i + l_i^T R_i^T) - d~ u_k, weight 1/sigma^2 (table I, row 3)."""
    table = graph.ranges
    rows = np.arange(len(table))
    block = ResidualRows('ranges', table.precision, rows)
    block.add(rows, at.bearing(rows), -table.distance_m)
    for endpoint, lever, sign in (
        (table.target, table.lever_target, 1.0),
        (table.source, table.lever_source, -1.0),
    ):
        block.add_free(rows, graph.points(endpoint), sign)
        held = (endpoint >= 0) & np.any(lever != 0, axis=1)
        block.add(rows[held][:, None], at.rotation(endpoint[held]), sign * lever[held])
    return block


def prior_rotations(graph: Graph, at: Columns) -> ResidualRows:
    """R_i^T - R~^T I, weight kappa (appendix C, grounded)."""
    prior = graph.pose_priors
    held = at.homogenising(len(prior))
    return _turns('pose_priors', prior.kappa, prior.i, held, prior.rotation, at)


def prior_translations(graph: Graph, at: Columns) -> ResidualRows:
    """t_i - t~^T I, weight tau (appendix C, grounded)."""
    prior = graph.pose_priors
    rows = np.arange(len(prior))
    block = ResidualRows('pose_priors', prior.tau, rows)
    block.add_free(rows, prior.i, 1.0)
    block.add(rows[:, None], at.homogenising(len(prior)), -prior.translation)
    return block


def point_priors(graph: Graph, at: Columns) -> ResidualRows:
    """p + l^T R_i^T - a^T I, weight 1/sigma^2 (appendix C, grounded)."""
    prior = graph.point_priors
    rows = np.arange(len(prior))
    block = ResidualRows('point_priors', prior.precision, rows)
    block.add_free(rows, graph.points(prior.point), 1.0)
    block.add(rows[:, None], at.homogenising(len(prior)), -prior.position)
    held = (prior.point >= 0) & np.any(prior.lever != 0, axis=1)
    block.add(rows[held][:, None], at.rotation(prior.point[held]), prior.lever[held])
    return block


Measurement = Callable[[Graph, Columns], ResidualRows]

MEASUREMENTS: tuple[Measurement, ...] = (
    relative_rotations,
    relative_translations,
    sightings,
    ranges,
    prior_rotations,
    prior_translations,
    point_priors,
)
"""All residuals of the cost; a new measurement type adds its function here."""


def ground_fixed(block: ResidualRows, positions: Array, fixed: Index, at: Columns) -> None:
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
