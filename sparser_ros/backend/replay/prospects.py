"""How soon, and how much of the time, the measurements of a recording place its robots at best.

By the information of the data (Cramér-Rao bound: covariances of no estimator are smaller) at a
solved map, with the noise that its residuals show. A robot counts as placed where the node would
locate it if there were no faults and no other places: the risk of an error above the alert limit is
accepted, beside the datum and as seen from the path of the reference robot. The same with
measurements that the recording lacks says what would help most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph, Heights, Landmarks, Verticals
from ...graph.parts import extract, measured
from ...linalg.process import single_threaded_blas
from ...solver.covariance import Linearised, columns_of_inverse, normal_solver
from ..integrity.linear_model import keyframes_of
from ..observability.datum import frame_fixed
from ..session.belief import without_the_doubtful
from ..session.frame import without_anchors
from ..session.scene import JointCovariance, landmarks_beside_each_other, scene_of
from ..session.solution import Location, RobotLocation

if TYPE_CHECKING:
    from ...config.backend_config import BackendConfig

MOMENTS = 24
"""Times of a recording that are looked at."""
_TILT_RAD, _HEIGHT_M = np.radians(0.5), 0.1
"""Standard deviations of what an inertial odometry and an altimeter tell."""
Change = Callable[[Graph, Estimate], tuple[Graph, Estimate]]


@dataclass(frozen=True)
class Prospects:
    """When the robots of a recording are placed at best."""

    seconds: Array
    """(k,): since the first pose."""
    placed: Mask
    """(k, r): whether each robot is; robots without a pose yet are not."""
    begun: Mask
    """(k, r): whether it has a pose."""

    def share(self, robots: Index | slice = slice(None)) -> float:
        """Of the time of robots: how much they are placed."""
        step = np.diff(self.seconds, prepend=0.0)
        return float(np.sum(step @ self.placed[:, robots])
                     / max(np.sum(step @ self.begun[:, robots]), 1e-9))

    def lasting_s(self, robot: int) -> float:
        """From when on a robot is placed, to the end; infinite = not at the end."""
        lost = np.flatnonzero(~self.placed[:, robot])
        if not len(lost):
            return float(self.seconds[0])
        return float(self.seconds[lost[-1] + 1]) if lost[-1] + 1 < len(self.seconds) else np.inf


def prospects(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], stamps_ns: Index,
    config: BackendConfig,
) -> Prospects:
    """The prospects of a graph at an estimate under robust weights (a missing table: all 1).

    `stamps_ns` (n,) are those of the poses. Moments follow each other by a growing step: what
    robots wait for comes in the first seconds.
    """
    begin, end = int(stamps_ns.min()), int(stamps_ns.max())
    at = begin + (end - begin) * (np.arange(1, MOMENTS + 1) / MOMENTS) ** 2
    placed, begun = np.zeros((2, MOMENTS, len(graph.robots)), dtype=bool)
    with single_threaded_blas():
        for k, stamp in enumerate(at):
            begun[k] = np.isin(
                np.arange(len(graph.robots)), graph.poses.robot[stamps_ns <= stamp])
            names = _placed(graph, estimate, weights, stamps_ns <= stamp, config)
            placed[k] = [name in names for name in graph.robots]
    return Prospects((at - begin) * 1e-9, placed, begun)


def _placed(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], poses: Mask,
    config: BackendConfig,
) -> set[str]:
    """Robots that are placed by the measurements among these poses and all landmarks."""
    part = extract(graph, poses, np.ones(graph.n_landmarks, dtype=bool))
    own, here = part.graph, part.of(estimate)
    if not own.n_poses or not measured(own):
        return set()
    if own.anchored and not frame_fixed(own):
        own = without_anchors(own)
    heard = np.zeros(own.n_landmarks, dtype=bool)
    for table in own.tables().values():
        for column in table.endpoints():
            far = getattr(table, column)
            heard[~far[far < 0]] = True
    keyframes = keyframes_of(own)
    joint = _joint(own, here, {
        name: column[part.rows[name]] for name, column in weights.items()}, heard, keyframes)
    robots = [RobotLocation(name, Location.LOCATED) for number, name in enumerate(own.robots)
              if joint.poses[number] >= 0]
    located = heard.copy()
    while True:
        scene = scene_of(own, here, robots, located, joint, keyframes, own.anchored, {})
        square = landmarks_beside_each_other(scene, own.n_landmarks)
        sigma = np.sqrt(np.linalg.eigvalsh(np.where(np.isfinite(square), square, 1e12))[:, -1])
        worst = int(np.argmax(np.where(located, sigma, -1.0))) if np.any(located) else -1
        # The least certain one goes first: it blurs the others.
        if worst < 0 or sigma[worst] < config.observability.position_sigma_m:
            break
        located[worst] = False
    scene, _ = without_the_doubtful(scene, None, config)
    return {state.robot for state in scene.robots if state.location is Location.LOCATED}


def _joint(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], heard: Mask, keyframes: Index
) -> JointCovariance:
    """Of newest poses, landmarks that are heard, and keyframes; 1 km where nothing is measured.

    Without known positions the first pose is held.
    """
    system = Linearised(graph, estimate, weights)
    free = system.free()
    free[system.pose_columns(np.arange(0 if graph.anchored else 1, graph.n_poses))] = True
    newest = graph.poses.newest(len(graph.robots))
    known, marks = np.flatnonzero(newest >= 0), np.flatnonzero(heard)
    d, size = system.d, system.step
    columns = np.full((len(known) + len(marks) + len(keyframes), size), -1, dtype=np.int64)
    position = np.full(system.size, -1, dtype=np.int64)
    position[np.flatnonzero(free)] = np.arange(int(np.sum(free)))
    columns[:len(known)] = position[system.pose_columns(newest[known])]
    columns[len(known):len(known) + len(marks), :d] = position[
        system.point_columns(graph.n_poses + marks)]
    columns[len(known) + len(marks):] = position[system.pose_columns(keyframes)]
    joint = columns_of_inverse(
        normal_solver(system.jacobian[:, free]), int(np.sum(free)), columns.ravel())

    def places(count: int, chosen: Index, first: int) -> Index:
        place = np.full(count, -1, dtype=np.int64)
        place[chosen] = first + np.arange(len(chosen))
        return place

    return JointCovariance(
        joint, places(len(graph.robots), known, 0),
        places(graph.n_landmarks, marks, len(known)),
        places(len(keyframes), np.arange(len(keyframes)), len(known) + len(marks)), 1.0)


def tied_part(graph: Graph) -> Graph:
    """The robots that are measured from another robot or a landmark, and these landmarks."""
    robots, heard = np.zeros(len(graph.robots), dtype=bool), np.zeros(graph.n_landmarks, dtype=bool)
    ends = np.stack(graph.pairs(odometry=False))
    pose = ends >= 0
    robot = np.where(pose, graph.poses.robot[np.where(pose, ends, 0)], -1)
    apart = robot[0] != robot[1]
    robots[robot[:, apart][pose[:, apart]]] = True
    heard[~ends[:, apart][~pose[:, apart]]] = True
    return extract(graph, robots[graph.poses.robot], heard).graph


def with_changes(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], stamps_ns: Index,
    config: BackendConfig,
) -> dict[str, float]:
    """By what a recording may lack, in words: the share of time that robots are placed with it."""
    shares = {}
    for words, change in _changes(graph).items():
        other, place = change(graph, estimate)
        longer = {name: np.append(column, np.ones(len(other.tables()[name]) - len(column)))
                  for name, column in weights.items()}
        shares[words] = prospects(other, place, longer, stamps_ns, config).share()
    return shares


def _changes(graph: Graph) -> dict[str, Change]:
    changes: dict[str, Change] = {}
    if len(graph.ranges):
        changes['ranges twice as often'] = _more_ranges
        changes['one more beacon'] = _another_beacon
    changes['odometry twice as precise'] = _better_odometry
    if graph.dimension == 3 and not len(graph.verticals):
        changes['odometry that knows which way is up (0.5 degrees)'] = _upright
    if graph.dimension == 3 and not len(graph.heights):
        changes['the vertical and an altimeter (0.1 m)'] = _with_heights
    return changes


def _more_ranges(graph: Graph, estimate: Estimate) -> tuple[Graph, Estimate]:
    return graph.replaced(
        ranges=graph.ranges.replaced(precision=2 * graph.ranges.precision)), estimate


def _better_odometry(graph: Graph, estimate: Estimate) -> tuple[Graph, Estimate]:
    rel = graph.relative_poses
    factor = np.where(rel.odometry, 4.0, 1.0)
    return graph.replaced(relative_poses=rel.replaced(
        tau=factor * rel.tau, kappa=factor * rel.kappa)), estimate


def _another_beacon(graph: Graph, estimate: Estimate) -> tuple[Graph, Estimate]:
    """At the corner of the paths' box that is farthest from all beacons.

    Robots range it as often as one of the others.
    """
    low, high = estimate.translation.min(axis=0), estimate.translation.max(axis=0)
    corners = np.stack(np.meshgrid(*np.stack([low, high], axis=1), indexing='ij'), axis=-1)
    corners = corners.reshape(-1, graph.dimension)
    beacons = estimate.landmarks if graph.n_landmarks else np.mean([low, high], axis=0)[None]
    apart = np.linalg.norm(corners[:, None] - beacons, axis=2).min(axis=1)
    corner = corners[int(np.argmax(apart))]
    marks = graph.landmarks
    ranges = graph.ranges
    first = np.flatnonzero(ranges.source >= 0)[::max(graph.n_landmarks, 1)]
    copied = ranges.take(first)
    copied = copied.replaced(
        target=np.full(len(first), ~graph.n_landmarks),
        lever_target=np.zeros_like(copied.lever_target))
    return graph.replaced(
        landmarks=Landmarks(
            (*marks.names, ''), np.vstack([marks.position, corner[None]]),
            np.append(marks.fixed, False)),
        ranges=ranges.append(copied),
    ), replace(estimate, landmarks=np.vstack([estimate.landmarks, corner[None]]))


def _upright(graph: Graph, estimate: Estimate) -> tuple[Graph, Estimate]:
    n = graph.n_poses
    return graph.replaced(verticals=Verticals(
        np.arange(n), estimate.rotation[:, -1], np.full(n, _TILT_RAD**-2.0),
        graph.poses.stamp_ns)), estimate


def _with_heights(graph: Graph, estimate: Estimate) -> tuple[Graph, Estimate]:
    n, up = graph.n_poses, _upright(graph, estimate)[0]
    return up.replaced(heights=Heights(
        np.arange(n), np.zeros((n, 3)), estimate.translation[:, 2], np.full(n, _HEIGHT_M**-2.0),
        graph.poses.stamp_ns)), estimate
