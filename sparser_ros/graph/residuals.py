"""The residual that all measurements are made of (paper, table 1, with lever arms), linear in X.

Rows of A, squared residuals, terms of the incremental solver, widths of robust kernels and
Jacobians follow from it. First sides may be the map frame: absolute data. Verticals and heights
refer to the last axis of map, which points up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index
from .table import point_index


@dataclass(frozen=True)
class Residual:
    """(c t_j^T + a_j^T R_j^T) - (c t_i^T + a_i^T R_i^T) - d~ u_k of k measurements, in r rows each.

    Points fixed to two bodies (c = 1) coincide, or are a distance apart along a bearing u_k; a
    height is the last coordinate of such a difference. Directions fixed to two bodies (c = 0) are
    the same in map: one for a vertical, all axes for a rotation, R_j^T - R~^T R_i^T.
    """

    first: Index | None
    """(k,): endpoints i; None = the map frame, where arms are positions and directions in map."""
    second: Index
    """(k,): endpoints j."""
    arm_first: Array
    """(k, r, d): a_i in the body frame; metres where it is a point, not read at landmarks."""
    arm_second: Array | None
    """None = the origin of the body, or its axes where directions are compared."""
    weight: Array
    """(k,): kappa, tau or 1 / sigma^2."""
    distance: Array | None = None
    """(k,): d~ in metres; None = no bearing."""
    point: bool = True
    """c: whether these are points rather than directions."""
    height: bool = False
    """Whether the last coordinate alone counts."""

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def turn(self) -> bool:
        """Whether all axes of a rotation are compared."""
        return not self.point and self.arm_first.shape[1] > 1

    @property
    def degrees_of_freedom(self) -> int:
        """Of one measurement."""
        d = self.arm_first.shape[2]
        if self.height or self.distance is not None:
            return 1
        if self.turn:
            return d * (d - 1) // 2
        return d if self.point else d - 1

    @property
    def arms(self) -> tuple[Array, Array]:
        """`arm_first` and `arm_second`, the latter written out."""
        if self.arm_second is not None:
            return self.arm_first, self.arm_second
        d = self.arm_first.shape[2]
        own = np.zeros((1, d)) if self.point else np.eye(d)
        return self.arm_first, np.broadcast_to(own, self.arm_first.shape)

    def vectors(self, points: Array, rows: Array) -> Array:
        """(k, r, p): the second end less the first.

        points: (n + m, p) positions of poses and landmarks; rows: (n, d, p) with R_i^T, or s R_i^T.
        At rank p > d the map frame is spanned by the first d columns.
        """
        start = self.arm_first @ np.eye(*rows.shape[1:]) if self.first is None else turned_arms(
            self.first, self.arm_first, rows)
        if not self.point:
            own = rows[self.second] if self.arm_second is None else turned_arms(
                self.second, self.arm_second, rows)
            return own - start
        # Positions first: where they are large and close their difference is exact.
        vectors = points[point_index(self.second, len(rows))][:, None] - (
            start if self.first is None else points[point_index(self.first, len(rows))][:, None])
        if self.arm_second is not None:
            vectors += turned_arms(self.second, self.arm_second, rows)
        return vectors if self.first is None else vectors - start

    def squares(self, points: Array, rows: Array) -> Array:
        """(k,): weighted squared residuals; the best bearing points along the antennas."""
        vectors = self.vectors(points, rows)
        if self.distance is not None:
            return np.asarray(
                self.weight * (np.linalg.norm(vectors[:, 0], axis=1) - self.distance) ** 2)
        if self.height:
            vectors = vectors[:, :, rows.shape[1] - 1:rows.shape[1]]
        return np.asarray(self.weight * np.einsum('krp,krp->k', vectors, vectors))


def points_of(
    first: Index | None, second: Index, arm_first: Array, arm_second: Array | None, weight: Array,
    distance: Array | None = None, *, height: bool = False,
) -> Residual:
    """Points (k, d) of two bodies that coincide, are a distance apart, or are equally high."""
    return Residual(
        first, second, arm_first[:, None], None if arm_second is None else arm_second[:, None],
        weight, distance, height=height)


def axes_of(first: Index | None, second: Index, rotation: Array, weight: Array) -> Residual:
    """R_j^T - R~^T R_i^T for the rotations R~ = R_i^T R_j (k, d, d) as measured."""
    return Residual(first, second, np.swapaxes(rotation, 1, 2), None, weight, point=False)


def turned_arms(endpoint: Index, arm: Array, rows: Array) -> Array:
    """(k, r, p): a^T R^T of arms (k, r, d) at poses, 0 at landmarks; rows: (n, d, p) with R_i^T."""
    pose = endpoint >= 0
    if np.all(pose):
        return _product(arm, rows[endpoint])
    turned = np.zeros((*arm.shape[:2], rows.shape[2]))
    turned[pose] = _product(arm[pose], rows[endpoint[pose]])
    return turned


def _product(arm: Array, rows: Array) -> Array:
    """(k, r, p): products of (k, r, d) and (k, d, p)."""
    # A matrix product of single rows takes twice as long.
    return np.einsum('ki,kip->kp', arm[:, 0], rows)[:, None] if arm.shape[1] == 1 else arm @ rows
