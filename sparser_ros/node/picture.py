"""One solution made ready to publish: transforms, trajectories and covariances in `map`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tf_transformations
from scipy.special import chdtri

from ..array_types import Array, Index, Mask
from ..backend.session.solution import Covariances, Fix, Location, Solution
from ..graph import Table
from ..linalg.rotations import hat, matrix_to_quat
from .pipeline import Keyframes

ELLIPSE_PROBABILITY = 0.95
"""Share of true positions inside the ellipses drawn, if noise is as claimed."""


@dataclass(frozen=True)
class Transform:
    """A rigid motion in 3D: x -> rotation x + translation."""

    rotation: Array
    """(3, 3)."""
    translation: Array
    """(3,): metres."""

    def __matmul__(self, other: Transform) -> Transform:
        return Transform(self.rotation @ other.rotation,
                         self.rotation @ other.translation + self.translation)

    def inverse(self) -> Transform:
        """The motion back."""
        return Transform(self.rotation.T, -self.rotation.T @ self.translation)

    @property
    def quat_xyzw(self) -> Array:
        """(4,): the rotation as a unit quaternion."""
        matrix = np.eye(4)
        matrix[:3, :3] = self.rotation
        return np.asarray(tf_transformations.quaternion_from_matrix(matrix))


def lifted(rotation: Array, translation: Array) -> Transform:
    """A motion of the plane or of space, as one of space."""
    d = len(translation)
    full, offset = np.eye(3), np.zeros(3)
    full[:d, :d], offset[:d] = rotation, translation
    return Transform(full, offset)


def planar_quats(rotation: Array) -> Array:
    """Quaternions x y z w (n, 4) of rotations (n, d, d), d = 2 or 3.

    A path has thousands of poses, and `tf_transformations` takes one at a time.
    """
    if rotation.shape[-1] == 3:
        return np.asarray(matrix_to_quat(rotation))
    half = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]) / 2
    quats = np.zeros((len(rotation), 4))
    quats[:, 2], quats[:, 3] = np.sin(half), np.cos(half)
    return quats


def spatial(points: Array) -> Array:
    """Points (n, d) as (n, 3), z = 0 in the plane."""
    points = np.asarray(points, dtype=float)
    if points.shape[1] == 3:
        return points
    return np.column_stack([points, np.zeros(len(points))])


@dataclass(frozen=True)
class DrawnTrajectory:
    """Keyframes of one located robot in `map`."""

    stamps_ns: Index
    positions_xyz: Array
    quats_xyzw: Array


def map_to_odom(solution: Solution, keyframes: Keyframes) -> dict[str, Transform]:
    """T_map_odom of every robot whose pose is stated, from its newest keyframe in the solution.

    T_map_odom = T_map_base(k) inv(T_odom_base(k)): the odometry pose stored with the keyframe
    makes a look-up in the hot path unnecessary.
    """
    transforms = {}
    for robot, row in newest_rows(solution, keyframes, Fix.FLOAT).items():
        here = lifted(solution.estimate.rotation[row], solution.estimate.translation[row])
        transforms[robot] = here @ lifted(*keyframes.odometry(row)).inverse()
    return transforms


def corrections(
    before: Mapping[str, Transform], after: Mapping[str, Transform],
    odometry: Callable[[str], tuple[int, Array, Array] | None],
) -> dict[str, float]:
    """How far new transforms move the robots, in metres, where their odometry has them now."""
    moved = {}
    for robot in before.keys() & after.keys():
        newest = odometry(robot)
        if newest is not None:
            here = lifted(newest[1], newest[2])
            moved[robot] = float(np.linalg.norm(
                (after[robot] @ here).translation - (before[robot] @ here).translation))
    return moved


def newest_rows(
    solution: Solution, keyframes: Keyframes, least: Fix = Fix.FIXED
) -> dict[str, int]:
    """Row of the newest keyframe in the solution, of every robot that has at least this fix."""
    solved, newest = len(solution.estimate.translation), {}
    for robot, fix in solution.fixes.items():
        rows = keyframes.rows(robot, solved)
        if fix >= least and len(rows):
            newest[robot] = int(rows[-1])
    return newest


def trajectory(
    solution: Solution, keyframes: Keyframes, robot: str, max_poses: int
) -> DrawnTrajectory:
    """Path of one robot, thinned evenly to `max_poses`, first and newest kept."""
    rows = keyframes.rows(robot, len(solution.estimate.translation))
    if len(rows) > max_poses:
        rows = rows[np.linspace(0, len(rows) - 1, max_poses).round().astype(np.int64)]
    return DrawnTrajectory(
        keyframes.stamps_ns(rows),
        spatial(solution.estimate.translation[rows]),
        planar_quats(solution.estimate.rotation[rows]),
    )


def drawable(solution: Solution, keyframes: Keyframes) -> Mask:
    """(n + m,): true for points that may be shown in `map`, poses first.

    Poses of robots that have a fix, of position-only ones the newest keyframe; located landmarks.
    """
    solved, fixes = len(solution.estimate.translation), solution.fixes
    shown = np.zeros(solved, dtype=bool)
    for item in solution.robots:
        rows = keyframes.rows(item.robot, solved)
        if item.location is Location.POSITION_ONLY:
            shown[rows[-1:]] = True
        elif fixes[item.robot] is not Fix.NONE:
            shown[rows] = True
    return np.concatenate([shown, solution.landmark_located])


def newest(tables: Sequence[Table], count: int) -> list:
    """The last tables of a stream that together hold at least `count` rows."""
    chosen: list = []
    total = 0
    for table in reversed(tables):
        if total >= count:
            break
        chosen.append(table)
        total += len(table)
    return chosen[::-1]


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
