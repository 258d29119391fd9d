"""The frame `map`: fixed by absolute data where they determine it, else by the gauge robot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...array_types import Array, Mask
from ...config import ConfigError
from ...config.backend_config import BackendConfig
from ...graph import Estimate, Graph
from ...graph.odometry_segments import OdometrySegments
from ...linalg.rotations import angle_to_matrix, nearest_about_vertical


def initial_pose(config: BackendConfig, dimension: int) -> tuple[Array, Array]:
    """Rotation and translation of the gauge robot's first pose in map."""
    values = list(config.gauge_initial_pose) or [0.0] * (3 if dimension == 2 else 6)
    if len(values) != (3 if dimension == 2 else 6):
        raise ConfigError(
            f'backend.gauge_initial_pose has {len(values)} values; in {dimension}D give '
            + ('x y yaw' if dimension == 2 else 'x y z roll pitch yaw'))
    if dimension == 2:
        return angle_to_matrix(np.array(values[2])), np.array(values[:2])
    roll, pitch, yaw = (angle_to_matrix(np.array(angle)) for angle in values[3:])
    about_x, about_y, about_z = np.eye(3), np.eye(3), np.eye(3)
    about_x[1:, 1:], about_z[:2, :2] = roll, yaw
    about_y[np.ix_([2, 0], [2, 0])] = pitch
    return about_z @ about_y @ about_x, np.array(values[:3])


def gauge_robot(graph: Graph, robots: Sequence[str], config: BackendConfig) -> str | None:
    """The robot whose first pose is the origin; None while it has no poses yet.

    Without a configured one it is the first of the list or, when that has not shown up
    `gauge_wait_s` after the first pose of any, the one seen first.
    """
    seen = {graph.robots[k] for k in np.unique(graph.poses.robot).tolist()}
    wanted = config.gauge_robot or (robots[0] if robots else '')
    if wanted in seen:
        return wanted
    if config.gauge_robot or not seen:
        return None
    stamps = graph.poses.stamp_ns
    waited = (int(np.max(stamps)) - int(np.min(stamps))) * 1e-9
    if wanted in robots and np.any(stamps) and waited < config.gauge_wait_s:
        return None
    return graph.robots[graph.poses.robot[np.argmin(stamps)]]


def first_segment(graph: Graph, segments: OdometrySegments, robot: str) -> int:
    """The segment that holds a robot's first pose."""
    return int(np.flatnonzero(segments.robot == graph.robots.index(robot))[0])


def anchors_determine(graph: Graph) -> bool:
    """Whether absolute data could fix the frame: a heading prior, or d distinct known points."""
    if np.any(graph.pose_priors.kappa > 0):
        return True
    known = np.concatenate([
        graph.landmarks.position[graph.landmarks.fixed & _measured(graph)],
        graph.absolute_positions(graph.dimension)])
    return spans(known)


def spans(points: Array) -> bool:
    """Whether known points (k, d) fix a frame, up to a mirror image."""
    distinct = np.unique(np.round(points, 2), axis=0)
    d = points.shape[1]
    if len(distinct) < d:
        return False
    spread = np.linalg.svd(distinct - np.mean(distinct, axis=0), compute_uv=False)
    return bool(np.sum(spread > 0.1) >= d - 1)


def without_anchors(graph: Graph) -> Graph:
    """The graph with all absolute data left out and fixed landmarks unknown."""
    return graph.replaced(
        landmarks=type(graph.landmarks)(
            graph.landmarks.names, graph.landmarks.position,
            np.zeros(graph.n_landmarks, dtype=bool)),
        **{kind.name: table.take([]) for kind, table in graph.typed() if kind.absolute},
    )


def level_at(graph: Graph, segments: OdometrySegments, gauge: int) -> bool:
    """Whether the robot that gives the frame says where up is."""
    own = segments.of_pose[graph.verticals.i] == gauge
    return bool(np.any(own))


def without_levels(graph: Graph) -> Graph:
    """The graph without verticals and heights: its frame is that of a robot that knows none."""
    return graph.replaced(
        verticals=graph.verticals.take([]), heights=graph.heights.take([]))


def at_origin(
    estimate: Estimate, row: int, pose: tuple[Array, Array], graph: Graph
) -> Estimate:
    """The estimate moved rigidly so that pose `row` is at `pose` (rotation, translation).

    Where the graph has verticals only the heading is turned, where it has heights these stay.
    """
    rotation = pose[0] @ estimate.rotation[row].T
    if len(graph.verticals):
        rotation = nearest_about_vertical(rotation)
    shift = pose[1] - rotation @ estimate.translation[row]
    if len(graph.heights):
        shift[-1] = 0.0
    return estimate.moved(rotation, shift)


def at_heights(estimate: Estimate, graph: Graph, poses: Mask) -> Estimate:
    """The estimate moved up or down so that half of the heights of these poses are above theirs."""
    point = graph.heights.point
    own = graph.heights.take((point >= 0) & poses[np.maximum(point, 0)])
    if not len(own):
        return estimate
    errors = np.concatenate([
        part.errors(estimate.points, estimate.rows)
        for part in graph.replaced(heights=own).height_residuals()])
    shift = np.zeros(estimate.dimension)
    shift[-1] = -float(np.median(errors))
    return estimate.moved(np.eye(estimate.dimension), shift)


def _measured(graph: Graph) -> Mask:
    seen = np.zeros(graph.n_landmarks, dtype=bool)
    for endpoint in (graph.ranges.source, graph.ranges.target, graph.sightings.point):
        seen[~endpoint[endpoint < 0]] = True
    return seen
