"""Newest poses of robots as seen from the datum of the map (observability/datum.py).

States, covariances and protection levels of a robot are relative to the located beacons and the
other located robots. Where these leave a rotation open, they are relative to the path of one robot,
the reference; where positions are known, to these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ..integrity.undetected import HiddenFaults
from ..observability.datum import Outside, motions, relative_to, spans
from .solution import Location, RobotLocation

AS_CLAIMED = (1.0, 1.0)
"""Variances of place and rotation, over those by the noise that the map is weighted by."""


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


@dataclass(frozen=True)
class Scene:
    """Newest poses of robots, all landmarks, and keyframes, where a tick has them."""

    robots: Sequence[RobotLocation]
    names: tuple[str, ...]
    """(b,): robots of the graph, then landmarks; bodies beyond these are keyframes."""
    position: Array
    """(b + k, d), metres."""
    landmarks: tuple[str, ...]
    """Those that are located."""
    place: Index
    """(b + k,): among the bodies of the joint covariance, -1 = not known."""
    joint: Array
    """Covariance of all bodies, positions in square metres, in that order."""
    variance: Mapping[str, tuple[float, float]]
    """By body: variances of its place and of its rotation by the noise as it is, over those of
    `joint`."""
    anchored: bool
    """Whether positions are known: the datum is these."""
    owners: tuple[str, ...] = ()
    """(k,): robots of the keyframes."""
    outside: Outside = Outside.NOTHING
    """What verticals and heights tell of the frame."""
    reference: str = ''
    """Robot whose path stands for the datum where too little is located; '' = the gauge robot."""

    @property
    def size(self) -> int:
        """Rows of a body in `joint`: position, then rotation."""
        d = self.position.shape[1]
        return d + (1 if d == 2 else 3)

    def datum(self, robot: str) -> Index:
        """Bodies that the place of a robot is relative to; none where positions are known."""
        if self.anchored:
            return np.zeros(0, dtype=np.int64)
        names = datum_of(robot, self.robots, self.landmarks)
        rows = np.array([self.names.index(name) for name in names], dtype=np.int64)
        rows = rows[self.place[rows] >= 0]
        if spans(self.position[rows], self.outside):
            return rows
        return self.keyframes(self.gauge)

    @property
    def gauge(self) -> str:
        """Robot whose path the others are placed in: that of the first keyframe, or another."""
        return self.reference or (self.owners[0] if self.owners else '')

    def keyframes(self, robot: str) -> Index:
        """Keyframes of a robot's path; all where these are too few. None beside known positions."""
        if self.anchored:
            return np.zeros(0, dtype=np.int64)
        bodies = np.arange(len(self.names), len(self.place))
        known = self.place[bodies] >= 0
        own = np.array([owner == robot for owner in self.owners], dtype=bool)
        chosen = bodies[known & own]
        return chosen if spans(self.position[chosen], self.outside) else bodies[known]

    def rows_of(self, bodies: Index, size: int) -> Index:
        """The first `size` rows of bodies in `joint`."""
        return np.asarray((self.place[bodies][:, None] * self.size + np.arange(size)).ravel())


def datum_of(
    robot: str, robots: Sequence[RobotLocation], landmarks: Sequence[str]
) -> tuple[str, ...]:
    """Names of what the place of a robot is relative to: located beacons, other robots."""
    return (*(state.robot for state in robots
              if state.robot != robot and state.location is Location.LOCATED), *landmarks)


def scene_of(
    graph: Graph, estimate: Estimate, robots: Sequence[RobotLocation], located: Mask,
    joint: JointCovariance, keyframes: Index, anchored: bool,
    variance: Mapping[str, tuple[float, float]],
) -> Scene:
    """The scene of a tick; `located` tells the landmarks that are, `keyframes` rows of poses."""
    newest = graph.poses.newest(len(graph.robots))
    names = graph.landmarks.names
    return Scene(
        robots, (*graph.robots, *names),
        np.concatenate([estimate.translation[newest], estimate.landmarks,
                        estimate.translation[keyframes]]),
        tuple(names[k] for k in np.flatnonzero(located)),
        np.concatenate([joint.poses, joint.landmarks, joint.keyframes]),
        joint.joint, variance, anchored,
        tuple(graph.robots[k] for k in graph.poses.robot[keyframes]), Outside.of(graph))


@dataclass(frozen=True)
class View:
    """The newest pose of a robot as seen from its datum."""

    pose: Array
    """(d + turns, d + turns): its covariance, position first; square metres and radians."""
    relative: Array
    """(d, d n): displacements of n bodies into that of the robot; the robot itself comes first."""
    rows: Index
    """(n,): the bodies among those of the audit's hidden faults."""

    @property
    def noise(self) -> Array:
        """(d, d): covariance of the position, square metres."""
        d = len(self.relative)
        return self.pose[:d, :d]

    @property
    def heading_sigma(self) -> float:
        """Standard deviation of the heading about its worst axis, rad."""
        d = len(self.relative)
        return float(np.sqrt(max(np.linalg.eigvalsh(self.pose[d:, d:])[-1], 0.0)))

    def of(self, part: Array) -> Array:
        """(d, k) of displacements (b, d, k) of all bodies."""
        d = len(self.relative)
        return np.asarray(self.relative @ part[self.rows].reshape(len(self.rows) * d, -1))

    def with_faults(self, sound: Array, added: Array, owner: Index, faults: int) -> Array:
        """(1 + h, d, d): `sound`, then with what each of h faults adds: roots (b, d, k), owners."""
        root, d = self.of(added), len(self.relative)
        covariance = np.zeros((1 + faults, d, d))
        np.add.at(covariance, 1 + owner, np.einsum('ik,jk->kij', root, root))
        return covariance + sound


def view_of(
    robot: str, scene: Scene, hidden: HiddenFaults | None, datum: Index | None = None
) -> View | None:
    """The view of a robot, from its datum or another one.

    None where its pose is not known, or there is nothing to refer to.

    The noise has in it what the sizes of faults add which the map is solved with.
    """
    d = scene.position.shape[1]
    own = scene.names.index(robot) if robot in scene.names else -1
    if own < 0 or scene.place[own] < 0:
        return None
    datum = scene.datum(robot) if datum is None else datum
    if not scene.anchored and not len(datum):
        return None
    motion = np.zeros((scene.size, 0)) if scene.anchored else relative_to(
        scene.position[own], scene.position[datum], scene.outside)
    if motion is None:
        return None
    rows = np.concatenate([
        scene.rows_of(np.array([own]), scene.size), scene.rows_of(datum, d)])
    relative = np.hstack([np.eye(scene.size), -motion])
    factor = np.sqrt(np.repeat(scene.variance.get(robot, AS_CLAIMED), [d, scene.size - d]))
    pose = np.outer(factor, factor) * (relative @ scene.joint[np.ix_(rows, rows)] @ relative.T)
    if not np.all(np.isfinite(pose)):
        return None
    at = np.array([_place(scene, body, hidden) for body in (own, *datum.tolist())])
    view = View(pose, np.hstack([np.eye(d), -motion[:d]]), at)
    if hidden is None or np.any(at < 0):
        return view
    solved = view.of(hidden.solved)
    pose = pose.copy()
    pose[:d, :d] += solved @ solved.T
    return replace(view, pose=pose)


def _place(scene: Scene, body: int, hidden: HiddenFaults | None) -> int:
    """A body among those of the hidden faults, -1 = not there."""
    if hidden is None:
        return -1
    if body < len(scene.names):
        return hidden.place(scene.names[body])
    number = body - len(scene.names)
    return hidden.bodies + number if number < len(hidden.keyframes) else -1


def landmarks_beside_each_other(scene: Scene, count: int) -> Array:
    """(m, d, d): of `count` landmarks relative to the located ones; infinite where not known.

    A located landmark is compared with all of them together, itself among them: what is left of it
    once all are laid on their true places by one rotation and one shift.
    """
    d = scene.position.shape[1]
    out = np.zeros((count, d, d))
    out[:, np.arange(d), np.arange(d)] = np.inf
    first = len(scene.names) - count
    bodies = np.arange(first, first + count)
    known = bodies[scene.place[bodies] >= 0]
    located = np.array([scene.names.index(name) for name in scene.landmarks], dtype=np.int64)
    located = located[scene.place[located] >= 0]
    datum = located
    if scene.anchored:
        datum = located[:0]
    elif not spans(scene.position[located], scene.outside):
        keyframes = np.arange(len(scene.names), len(scene.place))
        datum = keyframes[scene.place[keyframes] >= 0]
        if not spans(scene.position[datum], scene.outside):
            return out
    k, own, at = len(known), scene.rows_of(known, d), scene.rows_of(datum, d)
    covariance = scene.joint[own.reshape(k, d, 1), own.reshape(k, 1, d)]
    if len(datum) and k:
        # A landmark less its place by the motion that lays the datum on its true places.
        centre = scene.position[datum].mean(axis=0)
        inverse = np.linalg.pinv(motions(scene.position[datum] - centre, scene.outside))
        arm = motions(scene.position[known] - centre, scene.outside).reshape(k, d, -1)
        cross = (scene.joint[np.ix_(own, at)] @ inverse.T).reshape(arm.shape)
        motion = inverse @ scene.joint[np.ix_(at, at)] @ inverse.T
        both = cross @ np.swapaxes(arm, 1, 2)
        covariance = covariance - both - np.swapaxes(both, 1, 2) + (
            arm @ motion @ np.swapaxes(arm, 1, 2))
    factor = np.array([scene.variance.get(scene.names[body], AS_CLAIMED)[0] for body in known])
    out[known - first] = factor[:, None, None] * covariance
    return out
