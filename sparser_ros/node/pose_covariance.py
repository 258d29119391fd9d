"""Covariances of a solution in the form that messages and RViz want."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from ..array_types import Array
from ..backend.session.covariances import Covariances
from ..linalg.rotations import hat
from .transforms import planar_quats

ELLIPSE_PROBABILITY = 0.95
"""Share of true positions inside the ellipses drawn, if noise is as claimed."""


def message_covariance(covariances: Covariances | None, robot: str, offset: Array) -> Array:
    """(6, 6) for geometry_msgs/PoseWithCovariance: x y z, then rotations about the axes of map.

    Of the pose `offset` (3,), in map, away from the robot's newest keyframe; the noise of the
    odometry since that keyframe is not in it. In the plane z, roll and pitch are zero by
    definition. Infinite variances, without correlations, where nothing is known.
    """
    own = None if covariances is None else covariances.of(robot)
    planar = covariances is not None and covariances.poses.shape[1] == 3
    axes = [0, 1, 5] if planar else [0, 1, 2, 3, 4, 5]
    out = np.zeros((6, 6))
    if own is None:
        out[axes, axes] = np.inf
        return out
    out[np.ix_(axes, axes)] = own
    carry = np.eye(6)
    carry[:3, 3:] = -hat(offset[None])[0]
    return np.asarray(carry @ out @ carry.T)


def sigmas(covariances: Covariances | None, robot: str) -> tuple[float, float]:
    """Standard deviations of position (m, worst direction) and rotation (rad); inf = not known."""
    own = None if covariances is None else covariances.of(robot)
    if own is None:
        return math.inf, math.inf
    d = 2 if len(own) == 3 else 3
    return _largest(own[:d, :d]), _largest(own[d:, d:])


def _largest(covariance: Array) -> float:
    return math.sqrt(max(float(np.linalg.eigvalsh(covariance)[-1]), 0.0))


@dataclass(frozen=True)
class Ellipsoid:
    """A region in which a position lies with `ELLIPSE_PROBABILITY`."""

    diameters: tuple[float, float, float]
    """Metres, along the axes of `quat_xyzw`; 0 across the plane."""
    quat_xyzw: tuple[float, float, float, float]


def ellipsoid(covariance: Array) -> Ellipsoid | None:
    """Of a (d, d) covariance; None where it is not known or zero."""
    if not np.all(np.isfinite(covariance)):
        return None
    d = len(covariance)
    values, axes = np.linalg.eigh(covariance)
    if values[-1] <= 0:
        return None
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    radii = np.sqrt(np.maximum(values, 0) * chdtri(d, 1 - ELLIPSE_PROBABILITY))
    x, y, z, w = planar_quats(axes[None])[0].tolist()
    size = [*(2 * radii).tolist(), 0.0][:3]
    return Ellipsoid((size[0], size[1], size[2]), (x, y, z, w))
