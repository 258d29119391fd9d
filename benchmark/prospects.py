"""How soon, and how much of the time, the measurements of a recording place its robots at best.

By the information of the data (Cramér-Rao bound: covariances of no estimator are smaller) at a
solved map, with the noise that its residuals show. A robot counts as placed where the node would
locate it if there were no faults and no other places: the risk of an error above the alert limit is
accepted, beside the datum and as seen from the path of the reference robot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparser_ros.array_types import Array, Index, Mask
from sparser_ros.backend.integrity.linear_model import keyframes_of
from sparser_ros.backend.session.belief import without_the_doubtful
from sparser_ros.backend.session.frame import anchors_determine, without_anchors
from sparser_ros.backend.session.scene import JointCovariance, landmarks_beside_each_other, scene_of
from sparser_ros.backend.session.solution import Location, RobotLocation
from sparser_ros.graph import Estimate, Graph
from sparser_ros.graph.parts import extract
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.solver.covariance import Linearised, normal_solver

if TYPE_CHECKING:
    from sparser_ros.config.backend_config import BackendConfig

MOMENTS = 24
"""Times of a recording that are looked at."""


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
    if not own.n_poses:
        return set()
    if own.anchored and not anchors_determine(own):
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
    free = system.free(None)
    free[system.pose_columns(np.arange(0 if graph.anchored else 1, graph.n_poses))] = True
    newest = np.full(len(graph.robots), -1, dtype=np.int64)
    newest[graph.poses.robot] = np.arange(graph.n_poses)
    known, marks = np.flatnonzero(newest >= 0), np.flatnonzero(heard)
    d, size = system.d, system.step
    columns = np.full((len(known) + len(marks) + len(keyframes), size), -1, dtype=np.int64)
    position = np.full(system.size, -1, dtype=np.int64)
    position[np.flatnonzero(free)] = np.arange(int(np.sum(free)))
    columns[:len(known)] = position[system.pose_columns(newest[known])]
    columns[len(known):len(known) + len(marks), :d] = position[
        system.point_columns(graph.n_poses + marks)]
    columns[len(known) + len(marks):] = position[system.pose_columns(keyframes)]
    rows = columns.ravel()
    used = np.flatnonzero(rows >= 0)
    unit = np.zeros((int(np.sum(free)), len(used)))
    unit[rows[used], np.arange(len(used))] = 1.0
    solved = normal_solver(system.jacobian[:, free])(unit)
    joint = np.zeros((len(rows), len(rows)))
    joint[np.ix_(used, used)] = solved[rows[used]]

    def places(count: int, chosen: Index, first: int) -> Index:
        place = np.full(count, -1, dtype=np.int64)
        place[chosen] = first + np.arange(len(chosen))
        return place

    return JointCovariance(
        (joint + joint.T) / 2, places(len(graph.robots), known, 0),
        places(graph.n_landmarks, marks, len(known)),
        places(len(keyframes), np.arange(len(keyframes)), len(known) + len(marks)), 1.0)
