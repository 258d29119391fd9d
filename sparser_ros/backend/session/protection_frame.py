"""What protection levels are relative to where nothing absolute fixes map: map as a whole.

The start of a robot, which such a map is relative to, has a heading that odometry and ranges show
poorly, and its error grows with the distance to the start. Nobody drives by it: goals are places
of beacons and of other robots. So the error of a robot is what is left of it once the located
beacons and the other located robots are laid on their true places by one rotation and one shift
(S-transformation: Baarda 1973; free network adjustment).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...linalg.dense.rotations import rotation_jacobian
from ..integrity.undetected import HiddenFaults
from .covariances import KNOWN_POSITIONS, Covariances, JointCovariance
from .solution import Location, RobotLocation


@dataclass(frozen=True)
class Scene:
    """Newest poses of robots and all landmarks, where a tick has them."""

    robots: Sequence[RobotLocation]
    names: tuple[str, ...]
    """(b,): robots of the graph, then landmarks."""
    position: Array
    """(b, d), metres."""
    landmarks: tuple[str, ...]
    """Those that are located."""
    place: Index
    """(b,): among the bodies of the joint covariance, -1 = not known."""
    joint: Array
    """Covariance of all bodies, square metres, the found variance factor applied."""
    factor: float

    def covariance(self, rows: Index) -> Array:
        """(n d, n d) of the positions of these bodies; NaN where one is not known."""
        d = self.position.shape[1]
        size = d + (1 if d == 2 else 3)
        at = (self.place[rows][:, None] * size + np.arange(d)).ravel()
        if np.any(at < 0):
            return np.full((len(at), len(at)), np.nan)
        return self.joint[np.ix_(at, at)]


def scene_of(
    graph: Graph, estimate: Estimate, robots: Sequence[RobotLocation], located: Mask,
    joint: JointCovariance,
) -> Scene:
    """The scene of a tick; `located` tells the landmarks that are."""
    newest = np.zeros(len(graph.robots), dtype=np.int64)
    newest[graph.poses.robot] = np.arange(graph.n_poses)
    names = graph.landmarks.names
    return Scene(
        robots, (*graph.robots, *names),
        np.concatenate([estimate.translation[newest], estimate.landmarks]),
        tuple(names[k] for k in np.flatnonzero(located)),
        np.concatenate([joint.poses, joint.landmarks]), joint.variance_factor * joint.joint,
        joint.variance_factor)


def datum_of(
    robot: str, robots: Sequence[RobotLocation], landmarks: Sequence[str]
) -> tuple[str, ...]:
    """Names of what the level of a robot is relative to: located beacons, other robots."""
    return (*(one.robot for one in robots
              if one.robot != robot and one.location is Location.LOCATED), *landmarks)


def relative_to(place: Array, points: Array) -> Array | None:
    """(d, d (1 + n)): how a place is displaced beside n points, by how all of them are.

    Zero for every common rotation and shift. `place` (d,) comes first, then `points` (n, d). None
    where the points leave a rotation open.
    """
    d = len(place)
    if len(points) < d:
        return None
    centre = points.mean(axis=0)
    motion = _motions(points - centre)
    if np.linalg.matrix_rank(motion) < motion.shape[1]:
        return None
    return np.hstack([np.eye(d), -_motions((place - centre)[None]) @ np.linalg.pinv(motion)])


@dataclass(frozen=True)
class View:
    """What the position of a robot is relative to: how it is seen from there."""

    relative: Array
    """(d, d n): displacements of n bodies into that of the robot; the robot itself comes first."""
    rows: Index
    """(n,): the bodies among those of the audit."""
    noise: Array
    """(d, d): covariance of the position, square metres."""

    def of(self, part: Array) -> Array:
        """(d, k) of displacements (b, d, k) of all bodies."""
        d = len(self.noise)
        return np.asarray(self.relative @ part[self.rows].reshape(len(self.rows) * d, -1))

    def with_faults(self, sound: Array, added: Array, owner: Index, factor: float) -> Array:
        """(1 + h, d, d): `sound`, then with what each fault adds: roots (b, d, k) and owners."""
        root, d = self.of(added), len(self.noise)
        covariance = np.zeros((int(np.max(owner, initial=-1)) + 2, d, d))
        np.add.at(covariance, 1 + owner, factor * np.einsum('ik,jk->kij', root, root))
        return covariance + sound


def view_of(
    robot: str, scene: Scene, covariances: Covariances | None, hidden: HiddenFaults
) -> View | None:
    """The view of a robot that a solution states; None where something is not known."""
    own = None if covariances is None else covariances.of(robot)
    if covariances is None or own is None or hidden.place(robot) < 0:
        return None
    d = scene.position.shape[1]
    noise = own[:d, :d] * (1.0 if covariances.found else covariances.variance_factor)
    alone = View(np.eye(d), np.array([hidden.place(robot)]), noise)
    if covariances.gauge == KNOWN_POSITIONS:
        return alone
    names = (robot, *datum_of(robot, scene.robots, scene.landmarks))
    rows = np.array([scene.names.index(name) for name in names], dtype=np.int64)
    now = relative_to(scene.position[rows[0]], scene.position[rows[1:]])
    if now is None:
        return alone
    at = np.array([hidden.place(name) for name in names], dtype=np.int64)
    noise = now @ scene.covariance(rows) @ now.T
    if np.any(at < 0) or not np.all(np.isfinite(noise)):
        return None
    then = relative_to(hidden.position[at[0]], hidden.position[at[1:]])
    return None if then is None else View(then, at, noise)


def free_network(joint: JointCovariance, positions: Array, located: Mask) -> Array:
    """(m, d, d) of located landmarks at `positions` (m, d), relative to all of these together.

    Of use where they define the frame of the next map. Infinite variances for the others, and
    where they leave a rotation open.
    """
    m, d = positions.shape
    out = np.zeros((m, d, d))
    out[:, np.arange(d), np.arange(d)] = np.inf
    rows = np.flatnonzero(located & (joint.landmarks >= 0))
    points = positions[rows]
    if len(rows) < d:
        return out
    motion = _motions(points - points.mean(axis=0))
    if np.linalg.matrix_rank(motion) < motion.shape[1]:
        return out
    size = d + (1 if d == 2 else 3)
    at = (joint.landmarks[rows][:, None] * size + np.arange(d)).ravel()
    left = joint.joint[np.ix_(at, at)]
    # The part of the motions is taken off both sides, without the matrix that does it.
    inverse = np.linalg.pinv(motion)
    left = left - motion @ (inverse @ left)
    left = left - (left @ inverse.T) @ motion.T
    blocks = left.reshape(len(rows), d, len(rows), d)
    out[rows] = blocks[np.arange(len(rows)), :, np.arange(len(rows))]
    return out


def _motions(arm: Array) -> Array:
    """(n d, d + turns): displacements of points (n, d) by a shift and a rotation about 0."""
    n, d = arm.shape
    shift = np.broadcast_to(np.eye(d), (n, d, d))
    return np.concatenate([shift, rotation_jacobian(arm)], axis=2).reshape(n * d, -1)
