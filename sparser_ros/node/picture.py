"""One solution made ready to publish: transforms, trajectories and covariances in `map`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import chdtri

from ..array_types import Array, Index, Mask
from ..backend.session.solution import Covariances, Fix, Location, Solution
from ..graph import Graph
from ..io.tum import quats, xyz
from ..linalg.rotations import hat

ELLIPSE_PROBABILITY = 0.95
"""Share of true positions inside the ellipses drawn, if noise is as claimed."""


def lifted(rotation: Array, translation: Array) -> Array:
    """(4, 4): a rigid motion of the plane or of space, as a matrix of space."""
    d, matrix = len(translation), np.eye(4)
    matrix[:d, :d], matrix[:d, 3] = rotation, translation
    return matrix


def map_to_odom(solution: Solution, graph: Graph) -> dict[str, Array]:
    """T_map_odom (4, 4) of every robot whose pose is stated, from its newest keyframe in the
    solution.

    T_map_odom = T_map_base(k) inv(T_odom_base(k)): the odometry pose stored with the keyframe
    makes a look-up in the hot path unnecessary.
    """
    transforms, here, odometry = {}, solution.estimate, graph.poses
    for robot, row in newest_rows(solution, graph, Fix.FLOAT).items():
        turn = here.rotation[row] @ odometry.rotation[row].T
        transforms[robot] = lifted(
            turn, here.translation[row] - turn @ odometry.translation[row])
    return transforms


def corrections(
    before: Mapping[str, Array], after: Mapping[str, Array],
    odometry: Callable[[str], tuple[int, Array, Array] | None],
) -> dict[str, float]:
    """How far new transforms move the robots, in metres, where their odometry has them now."""
    moved = {}
    for robot in before.keys() & after.keys():
        newest = odometry(robot)
        if newest is not None:
            here = lifted(newest[1], newest[2])
            moved[robot] = float(np.linalg.norm(
                ((after[robot] - before[robot]) @ here)[:3, 3]))
    return moved


def rows_of(graph: Graph, robot: str, among_first: int) -> Index:
    """Rows of one robot among the first so many keyframes, in time order."""
    if robot not in graph.robots:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(graph.poses.robot[:among_first] == graph.robots.index(robot))


def newest_rows(
    solution: Solution, graph: Graph, least: Fix = Fix.FIXED
) -> dict[str, int]:
    """Row of the newest keyframe in the solution, of every robot that has at least this fix."""
    solved = graph.poses.take(np.arange(len(solution.estimate.translation)))
    rows = dict(zip(graph.robots, solved.newest(len(graph.robots)).tolist(), strict=True))
    return {robot: rows[robot] for robot, fix in solution.fixes.items()
            if fix >= least and rows.get(robot, -1) >= 0}


def trajectory(
    solution: Solution, graph: Graph, robot: str, max_poses: int
) -> tuple[Index, Array, Array]:
    """Path of one robot, thinned evenly to `max_poses`, first and newest kept.

    Stamps in ns (n,), positions (n, 3), quaternions x y z w (n, 4).
    """
    rows = rows_of(graph, robot, len(solution.estimate.translation))
    if len(rows) > max_poses:
        rows = rows[np.linspace(0, len(rows) - 1, max_poses).round().astype(np.int64)]
    return (graph.poses.stamp_ns[rows], xyz(solution.estimate.translation[rows]),
            quats(solution.estimate.rotation[rows]))


def drawable(solution: Solution, graph: Graph) -> Mask:
    """(n + m,): true for points that may be shown in `map`, poses first.

    Poses of robots that have a fix, of position-only ones the newest keyframe; located landmarks.
    """
    solved, fixes = len(solution.estimate.translation), solution.fixes
    shown = np.zeros(solved, dtype=bool)
    for item in solution.robots:
        rows = rows_of(graph, item.robot, solved)
        if item.location is Location.POSITION_ONLY:
            shown[rows[-1:]] = True
        elif fixes[item.robot] is not Fix.NONE:
            shown[rows] = True
    return np.concatenate([shown, solution.landmark_located])


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


def ellipsoid(covariance: Array) -> tuple[Array, Array] | None:
    """Where a position with a covariance (d, d) lies with `ELLIPSE_PROBABILITY`.

    Diameters (3,) in metres, 0 across the plane, and the quaternion x y z w of their axes; None
    where the covariance is not known or zero.
    """
    if not np.all(np.isfinite(covariance)):
        return None
    d = len(covariance)
    values, axes = np.linalg.eigh(covariance)
    if values[-1] <= 0:
        return None
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    diameters = np.zeros(3)
    diameters[:d] = 2 * np.sqrt(np.maximum(values, 0) * chdtri(d, 1 - ELLIPSE_PROBABILITY))
    return diameters, quats(axes[None])[0]
