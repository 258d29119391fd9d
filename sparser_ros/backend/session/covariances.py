"""Covariances of the newest poses and of all landmarks, as a solution carries them.

Coordinates are those of geometry_msgs/PoseWithCovariance: position, then rotation about the axes
of map. They are marginals under the robust weights of the tick, relative to the datum of the map
(protection_frame.py): what noise of the size that residuals show does to the estimate, and what the
sizes of faults add which the map is solved with. A wrong minimum or a fault that no residual shows
is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...array_types import Array, Index
from ...graph import Graph
from ...io import report

KNOWN_POSITIONS, NETWORK = 'known positions', 'the located beacons and the other robots'


@dataclass(frozen=True)
class Covariances:
    """Metres and radians; infinite variances, without correlations, where nothing is known."""

    robots: tuple[str, ...]
    poses: Array
    """(r, 3, 3) in the order x y theta, or (r, 6, 6) in x y z rx ry rz: newest poses."""
    landmarks: Array
    """(m, d, d)."""
    gauge: str
    """The datum that they are relative to: `KNOWN_POSITIONS` or `NETWORK`."""
    variance_factor: float
    """Found over claimed variance of the residuals, which is in them already."""

    @property
    def beacons(self) -> Array:
        """(m, d, d) of landmarks."""
        return self.landmarks

    def of(self, robot: str) -> Array | None:
        """Covariance of the newest pose of a robot; None where it is not known."""
        if robot not in self.robots:
            return None
        covariance = self.poses[self.robots.index(robot)]
        return covariance if np.all(np.isfinite(covariance)) else None


def covariance_fields(graph: Graph, known: Covariances) -> dict[str, Any]:
    """The fields of a report or of a saved map."""
    return report.covariance_fields(
        known.gauge, known.variance_factor, {robot: known.of(robot) for robot in known.robots},
        dict(zip(graph.landmarks.names, known.landmarks, strict=True)))


@dataclass(frozen=True)
class JointCovariance:
    """Newest poses, landmarks and keyframes that are solved, all of them together in `map`."""

    joint: Array
    """(k b, k b): newest poses, landmarks, keyframes; of landmarks the first d rows count."""
    poses: Index
    """(r,): place of each robot's newest pose among the k, -1 = not known."""
    landmarks: Index
    """(m,): the same of landmarks."""
    keyframes: Index
    """The same of the keyframes asked for."""
    variance_factor: float

    def size(self, dimension: int) -> int:
        """Rows of a body: position, then rotation."""
        return dimension + (1 if dimension == 2 else 3)

    def parted(self, count: int) -> tuple[JointCovariance, Index]:
        """With the first `count` keyframes only, and the places of the others."""
        return replace(self, keyframes=self.keyframes[:count]), self.keyframes[count:]
