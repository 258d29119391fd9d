"""The frame `map`: fixed by absolute data where they determine it, else by the gauge robot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..config import ConfigError
from ..config.backend import BackendConfig
from ..graph import Estimate, Graph, PointPriors, PosePriors, empty
from ..linalg.rotations import angle_to_matrix
from .bodies import Bodies

Array = NDArray[np.float64]


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


def gauge_body(graph: Graph, bodies: Bodies, robots: tuple[str, ...], wanted: str) -> int | None:
    """First body of the gauge robot: the wanted one, else the first configured one with poses."""
    names = [wanted] if wanted else [*robots, *graph.robots]
    for name in names:
        if name in graph.robots:
            own = np.flatnonzero(bodies.robot == graph.robots.index(name))
            if len(own):
                return int(own[0])
    return None


def anchors_determine(graph: Graph) -> bool:
    """Whether absolute data could fix the frame: a heading prior, or d distinct known points."""
    if np.any(graph.pose_priors.kappa > 0):
        return True
    known = np.concatenate([
        graph.landmarks.position[graph.landmarks.fixed & _measured(graph)],
        graph.point_priors.position, graph.pose_priors.translation])
    distinct = np.unique(np.round(known, 2), axis=0)
    if len(distinct) < graph.dimension:
        return False
    spread = np.linalg.svd(distinct - np.mean(distinct, axis=0), compute_uv=False)
    return bool(np.sum(spread > 0.1) >= graph.dimension - 1)


def without_anchors(graph: Graph) -> Graph:
    """The graph with all absolute data left out and fixed landmarks unknown."""
    return graph.replaced(
        landmarks=type(graph.landmarks)(
            graph.landmarks.names, graph.landmarks.position,
            np.zeros(graph.n_landmarks, dtype=bool)),
        pose_priors=empty(PosePriors, graph.dimension),
        point_priors=empty(PointPriors, graph.dimension),
    )


def at_origin(estimate: Estimate, row: int, pose: tuple[Array, Array]) -> Estimate:
    """The estimate moved rigidly so that pose `row` is at `pose` (rotation, translation)."""
    rotation = pose[0] @ estimate.rotation[row].T
    return estimate.moved(rotation, pose[1] - rotation @ estimate.translation[row])


def _measured(graph: Graph) -> NDArray[np.bool_]:
    seen = np.zeros(graph.n_landmarks, dtype=bool)
    for endpoint in (graph.ranges.source, graph.ranges.target, graph.sightings.point):
        seen[~endpoint[endpoint < 0]] = True
    return seen
