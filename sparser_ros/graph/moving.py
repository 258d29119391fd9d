"""Measurements that move along one odometry edge, from a pose that goes to one that stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import GraphError
from .graph import Graph
from .measurements import MeasurementType, Table
from .precision import rotation_variance

_WEIGHTS = ('precision', 'tau')
"""Columns that are inverse to a variance in m^2, or in rad^2 for directions."""


@dataclass(frozen=True)
class Moved:
    """A table after its measurements have moved, with the variance that this adds."""

    table: Table
    touched: Mask
    """(k,): measurements that have moved."""
    ends: Sequence[tuple[Index, Array]]
    """Of each end: the pose before (k,), -1 = none, and the variance (k,) in m^2 that is added."""
    column: str = ''
    """Of the weights; '' = there are none to change."""

    def take(self, rows: Index) -> Moved:
        """The chosen rows."""
        return Moved(self.table.take(rows), self.touched[rows],
                     [(pose[rows], added[rows]) for pose, added in self.ends], self.column)

    def weights(self) -> Array:
        """(k,): with each measurement's own share of added variance."""
        if not self.column:
            return np.ones(len(self.table))
        return self._weights([added for _, added in self.ends])

    def weighed(self, shared: Array) -> Table:
        """The table with the final weights.

        `shared` (n,) counts the measurements that have moved from each pose. They share one error:
        with the variance v of the odometry, k of them of variance s each know no more than
        s / k + v together, which k independent ones of s + k v give.
        """
        if not self.column:
            return self.table
        parts = [np.where(pose >= 0, shared[np.maximum(pose, 0)], 1.0) * added
                 for pose, added in self.ends]
        return self.table.replaced(**{self.column: self._weights(parts)})

    def _weights(self, added: Sequence[Array]) -> Array:
        own = getattr(self.table, self.column)
        return np.where(self.touched, 1 / (1 / own + np.sum(added, axis=0)), own) \
            if len(own) else own


@dataclass(frozen=True)
class Moves:
    """The odometry from every pose that goes to the neighbour that takes over; all (n, ...)."""

    dimension: int
    rows: Index
    """(r,): poses that go."""
    into: Index
    """(r,): rows of relative poses of the edges into them, and out of them."""
    out: Index
    gone: Mask
    neighbour: Index
    """Pose that takes over; of a pose that stays, itself."""
    turn: Array
    """(n, d, d), (n, d): the pose in the frame of that neighbour."""
    move: Array
    pivot: Array
    """(n, d): point of the pose's frame about which an error of the edge's rotation turns it."""
    variance: Array
    """Translation variance of the edge per axis, m^2; 0 for poses that stay."""
    angle: Array
    """Rotation variance of the edge per axis, rad^2."""

    def point_variance(self, pose: Index, point: Array) -> Array:
        """(k,): per axis, m^2, of points (k, d) in the frames of poses, seen from the neighbour."""
        d = self.dimension
        lever = np.sum((point - self.pivot[pose])**2, axis=1)
        return self.variance[pose] + (d - 1) / d * lever * self.angle[pose]

    def inverse_variance(self, pose: Index) -> Array:
        """(k,): per axis, m^2, of the neighbour as seen from poses."""
        d = self.dimension
        lever = np.sum((self.move[pose])**2, axis=1) - np.sum(self.pivot[pose]**2, axis=1)
        return self.variance[pose] + (d - 1) / d * np.maximum(lever, 0.0) * self.angle[pose]

    def with_angle(self, kappa: Array, added: Array) -> Array:
        """Rotation weights after `added` (k,) in rad^2 per axis; unknown rotations stay so."""
        factor = 1.0 if self.dimension == 2 else 2.0
        known = np.where(kappa > 0, kappa, 1.0)
        return np.where((kappa > 0) & (added > 0), 1 / (1 / known + factor * added), kappa)

    def moved(self, kind: MeasurementType, table: Table) -> Moved:
        """A table of points with lever arms, or of directions, at the poses that stay."""
        columns: dict[str, Array | Index] = {}
        touched = np.zeros(len(table), dtype=bool)
        ends = []
        for column, arm in kind.arms.items():
            end, lever = getattr(table, column), getattr(table, arm)
            pose = np.maximum(end, 0)
            here = (end >= 0) & (self.gone[pose] if len(self.gone) else False)
            ends.append((np.where(here, end, -1),
                         np.where(here, self.point_variance(pose, lever), 0.0)))
            shifted = self.move[pose] + np.einsum('kij,kj->ki', self.turn[pose], lever)
            columns[arm] = np.where(here[:, None], shifted, lever)
            columns[column] = np.where(here, self.neighbour[pose], end)
            touched |= here
        for column, direction in kind.directions.items():
            end, seen = getattr(table, column), getattr(table, direction)
            pose = np.maximum(end, 0)
            here = (end >= 0) & (self.gone[pose] if len(self.gone) else False)
            ends.append((np.where(here, end, -1), np.where(here, self.angle[pose], 0.0)))
            columns[direction] = np.where(
                here[:, None], np.einsum('kij,kj->ki', self.turn[pose], seen), seen)
            columns[column] = np.where(here, self.neighbour[pose], end)
            touched |= here
        weight = next((one for one in _WEIGHTS if one in table.columns()), '')
        return Moved(table.replaced(**columns), touched, ends, weight if ends else '')

    def shared(self, parts: Sequence[tuple[Moved, Mask]]) -> Array:
        """(n,): how many of the measurements that stay have moved from each pose; at least 1."""
        count = np.zeros(len(self.gone))
        for part, keep in parts:
            for pose, _ in part.ends:
                chosen = pose[keep & part.touched]
                count += np.bincount(chosen[chosen >= 0], minlength=len(count))
        return np.maximum(count, 1.0)


def moves_of(graph: Graph, rows: Index) -> Moves:
    """Moves of the measurements at pose rows (r,) to neighbours; GraphError where a pose must stay.

    Each needs one odometry edge into it and one out of it, of poses that stay. The edge that is
    the surer of the two in translation is taken.
    """
    if graph.free_scale:
        raise GraphError('a graph with sightings of free scale cannot be thinned')
    rel, d, n = graph.relative_poses, graph.dimension, graph.n_poses
    gone = np.zeros(n, dtype=bool)
    gone[rows] = True
    odometry = np.flatnonzero(rel.odometry)
    into, out = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    into[rel.j[odometry]], out[rel.i[odometry]] = odometry, odometry
    a, b = into[rows], out[rows]
    if np.any(a < 0) or np.any(b < 0):
        raise GraphError('a pose at an end of odometry cannot go')
    if np.any(gone[rel.i[a]]) or np.any(gone[rel.j[b]]):
        raise GraphError('two poses in a row cannot go at once')
    if np.any(np.bincount(rel.j[odometry], minlength=n)[rows] > 1) or np.any(
            np.bincount(rel.i[odometry], minlength=n)[rows] > 1):
        raise GraphError('a pose where odometry branches cannot go')
    back = 1 / rel.tau[a] <= 1 / rel.tau[b]
    neighbour = np.arange(n)
    turn, move, pivot = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d)), np.zeros((n, d))
    variance, angle = np.zeros(n), np.zeros(n)
    inverse = np.swapaxes(rel.rotation[b], 1, 2)
    neighbour[rows] = np.where(back, rel.i[a], rel.j[b])
    turn[rows] = np.where(back[:, None, None], rel.rotation[a], inverse)
    move[rows] = np.where(
        back[:, None], rel.translation[a], -np.einsum('kij,kj->ki', inverse, rel.translation[b]))
    pivot[rows] = np.where(back[:, None], 0.0, rel.translation[b])
    edge = np.where(back, a, b)
    variance[rows] = 1 / rel.tau[edge]
    angle[rows] = rotation_variance(rel.kappa[edge], d)
    return Moves(d, rows, a, b, gone, neighbour, turn, move, pivot, variance, angle)
