"""The residuals that all measurements are made of (paper, table 1, with lever arms).

They are linear in X: rows of A, squared residuals, terms of the incremental solver, widths of
robust kernels and Jacobians follow from them. First sides may be the map frame: absolute data.
Verticals and heights refer to the last axis of map, which points up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index
from .table import point_index


@dataclass(frozen=True)
class PointResidual:
    """Antenna of the second end minus antenna of the first, which coincide or are a distance apart.

    (t_j + l_j^T R_j^T) - (t_i + l_i^T R_i^T) - d~ u_k (paper, table 1, rows 2 and 4).
    """

    first: Index | None
    """(k,): endpoints; None = the map frame, where `arm_first` is a position."""
    second: Index
    arm_first: Array | None
    """(k, d): point in the body frame of the first end, metres, not read at landmarks; None = 0."""
    arm_second: Array | None
    weight: Array
    """(k,): 1 / sigma^2 or tau, m^-2."""
    distance: Array | None = None
    """(k,): measured distance in metres along the bearing u_k; None = the antennas coincide."""

    def __len__(self) -> int:
        return len(self.weight)

    def vectors(self, points: Array, rows: Array) -> Array:
        """(k, p): from the first antenna to the second, metres.

        points: (n + m, p) positions of poses and landmarks; rows: (n, d, p) with R_i^T, or s R_i^T.
        At rank p > d the map frame is spanned by the first d columns.
        """
        end = points[point_index(self.second, len(rows))]
        if self.first is None:
            start = _of(self.arm_first) @ np.eye(rows.shape[1], points.shape[1])
            return end - start + turned_arms(self.second, self.arm_second, rows)
        # Positions first: where they are large and close their difference is exact.
        vectors = end - points[point_index(self.first, len(rows))]
        vectors += turned_arms(self.second, self.arm_second, rows)
        vectors -= turned_arms(self.first, self.arm_first, rows)
        return vectors

    def squares(self, points: Array, rows: Array) -> Array:
        """(k,): weighted squared residuals; the best bearing points along the antennas."""
        vectors = self.vectors(points, rows)
        if self.distance is None:
            return np.asarray(self.weight * np.sum(vectors**2, axis=1))
        return np.asarray(
            self.weight * (np.linalg.norm(vectors, axis=1) - self.distance) ** 2)


@dataclass(frozen=True)
class RotationResidual:
    """R_j^T - R~^T R_i^T of two poses (paper, table 1, row 1); first = None: R_j^T - R~^T."""

    first: Index | None
    """(k,): poses; None = the map frame."""
    second: Index
    rotation: Array
    """(k, d, d): R~ = R_i^T R_j as measured."""
    weight: Array
    """(k,): kappa."""

    def __len__(self) -> int:
        return len(self.weight)

    def squares(self, points: Array, rows: Array) -> Array:
        """(k,): weighted squared residuals; rows: (n, d, d) with R_i^T."""
        rotation = np.swapaxes(rows, 1, 2)
        predicted = self.rotation if self.first is None else rotation[self.first] @ self.rotation
        return np.asarray(
            self.weight * np.sum((rotation[self.second] - predicted) ** 2, axis=(1, 2)))


@dataclass(frozen=True)
class VerticalResidual:
    """up^T R_j^T - e_z^T: the vertical as seen from a pose, turned to map, against that of map."""

    second: Index
    """(k,): poses."""
    up: Array
    """(k, d): e_z in the body frame, unit vectors."""
    weight: Array
    """(k,): 1 / sigma^2 of the angle about each horizontal axis, rad^-2."""

    def __len__(self) -> int:
        return len(self.weight)

    def vectors(self, _points: Array, rows: Array) -> Array:
        """(k, p): difference of unit vectors, in length the angle between them where it is small.

        rows: (n, d, p) with R_i^T; at rank p the vertical of map is its column d.
        """
        d = rows.shape[1]
        return np.asarray(
            turned_arms(self.second, self.up, rows) - np.eye(d, rows.shape[2])[d - 1])

    def squares(self, points: Array, rows: Array) -> Array:
        """(k,): weighted squared residuals."""
        return np.asarray(self.weight * np.sum(self.vectors(points, rows)**2, axis=1))


@dataclass(frozen=True)
class HeightResidual:
    """e_z^T (t_j + R_j l_j) - h: the last coordinate of a point against a measured height."""

    second: Index
    """(k,): endpoints."""
    arm_second: Array
    """(k, d): point in the body frame of the end, metres, not read at landmarks."""
    height: Array
    """(k,): metres in map."""
    weight: Array
    """(k,): 1 / sigma^2, m^-2."""

    def __len__(self) -> int:
        return len(self.weight)

    def errors(self, points: Array, rows: Array) -> Array:
        """(k,): metres; points (n + m, p) and rows (n, d, p) as in `PointResidual.vectors`."""
        axis = rows.shape[1] - 1
        end = points[point_index(self.second, len(rows)), axis]
        turned = turned_arms(self.second, self.arm_second, rows[:, :, axis:axis + 1])[:, 0]
        return np.asarray(end + turned - self.height)

    def squares(self, points: Array, rows: Array) -> Array:
        """(k,): weighted squared residuals."""
        return np.asarray(self.weight * self.errors(points, rows) ** 2)


Residual = PointResidual | RotationResidual | VerticalResidual | HeightResidual


def _of(arm: Array | None) -> Array:
    assert arm is not None, 'an absolute residual needs a position in map'
    return arm


def turned_arms(endpoint: Index, arm: Array | None, rows: Array) -> Array:
    """(k, p): l^T R^T of the antennas at poses, 0 at landmarks; rows: (n, d, p) with R_i^T."""
    if arm is None:
        return np.zeros((len(endpoint), rows.shape[2]))
    pose = endpoint >= 0
    if np.all(pose):
        return np.asarray(np.einsum('ki,kip->kp', arm, rows[endpoint]))
    turned = np.zeros((len(arm), rows.shape[2]))
    turned[pose] = np.einsum('ki,kip->kp', arm[pose], rows[endpoint[pose]])
    return turned
