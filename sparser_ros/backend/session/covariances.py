"""Covariances of the newest poses and of all landmarks in `map`, as a solution carries them.

Coordinates are those of geometry_msgs/PoseWithCovariance: position, then rotation about the axes
of map. They are marginals under the robust weights of the tick: what noise of the claimed size
does to the estimate. A wrong minimum or a fault that no residual shows is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...array_types import Array, Index
from ...graph import Graph
from ...io import report

KNOWN_POSITIONS = 'known positions'


@dataclass(frozen=True)
class Covariances:
    """Metres and radians; infinite variances, without correlations, where nothing is known."""

    robots: tuple[str, ...]
    poses: Array
    """(r, 3, 3) in the order x y theta, or (r, 6, 6) in x y z rx ry rz: newest poses."""
    landmarks: Array
    """(m, d, d)."""
    gauge: str
    """What they are relative to: `KNOWN_POSITIONS`, or 'the start of' a robot."""
    variance_factor: float
    """Found over claimed variance of the residuals, at least 1."""
    found: bool = False
    """Whether the covariances have that factor in them already."""
    network: Array | None = None
    """(m, d, d) of located landmarks, relative to all of these: what is left of `landmarks` once
    they are laid on their true places by one rotation and one shift. None where the frame is fixed.
    """

    def scaled(self) -> Covariances:
        """All of them times the variance factor."""
        factor = self.variance_factor
        return replace(
            self, poses=factor * self.poses, landmarks=factor * self.landmarks, found=True,
            network=None if self.network is None else factor * self.network)

    @property
    def beacons(self) -> Array:
        """(m, d, d) of landmarks for a map that is defined by them: `network` where it is known."""
        if self.network is None:
            return self.landmarks
        known = np.all(np.isfinite(self.network), axis=(1, 2))
        return np.where(known[:, None, None], self.network, self.landmarks)

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
    """Newest poses and landmarks that are solved, all of them together in `map`."""

    joint: Array
    """(k b, k b): poses first; of landmarks the first d rows count."""
    poses: Index
    """(r,): place of each robot's newest pose among the k, -1 = not known."""
    landmarks: Index
    """(m,): the same of landmarks."""
    variance_factor: float


def covariances(
    found: JointCovariance, graph: Graph, gauge: str | None, pins: Index
) -> Covariances:
    """The marginals of a joint covariance; `gauge` is a robot, None where the frame is fixed.

    Where the map is moved so that landmarks `pins` (known beacons) are at their configured
    positions, positions are relative to the mean of these.
    """
    d = graph.dimension
    b = d + (1 if d == 2 else 3)
    joint, places = found.joint, found.landmarks[pins]
    if len(pins):
        k = len(joint) // b
        relative = np.eye(k * b)
        for axis in range(d):
            relative[np.arange(k)[:, None] * b + axis, places * b + axis] -= 1 / len(pins)
        joint = relative @ joint @ relative.T
    text = KNOWN_POSITIONS if gauge is None else f'the start of {gauge}'
    if len(pins):
        text = f'the position of {", ".join(graph.landmarks.names[p] for p in pins)} and {text}'
    return Covariances(
        graph.robots, _blocks(joint, found.poses, b, b), _blocks(joint, found.landmarks, b, d),
        text, found.variance_factor)


def _blocks(joint: Array, places: Index, b: int, size: int) -> Array:
    out = np.full((len(places), size, size), 0.0)
    out[:, np.arange(size), np.arange(size)] = np.inf
    for number, place in enumerate(places.tolist()):
        if place >= 0:
            at = slice(place * b, place * b + size)
            out[number] = joint[at, at]
    return out
