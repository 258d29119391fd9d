"""A start for the next solve: the last estimate, continued by odometry, new variables placed."""

from __future__ import annotations

import numpy as np

from ...array_types import Array, Mask
from ...graph import Estimate, Graph
from ...graph.odometry_segments import OdometrySegments
from ..observability.registration import Candidates, candidates, evidence_of
from ..observability.rigid_model import rigid_problem


def continued(graph: Graph, segments: OdometrySegments, previous: Estimate | None) -> Estimate:
    """Values of all poses: old ones as estimated, new ones composed by odometry.

    Unknown landmarks get their stored guess, or the origin where there is none.
    """
    rotation, translation = graph.poses.rotation.copy(), graph.poses.translation.copy()
    landmarks = np.where(np.isfinite(graph.landmarks.position), graph.landmarks.position, 0.0)
    if previous is None:
        return Estimate(rotation, translation, landmarks)
    old = len(previous.rotation)
    for body in range(len(segments)):
        rows = np.flatnonzero(segments.of_pose == body)
        known, new = rows[rows < old], rows[rows >= old]
        if len(known) == 0:
            known = np.flatnonzero(graph.poses.robot[:old] == segments.robot[body])
        if len(known) == 0 or len(new) == 0:
            continue
        last = known[-1]
        turn = previous.rotation[last] @ graph.poses.rotation[last].T
        rotation[new] = turn @ graph.poses.rotation[new]
        offset = graph.poses.translation[new] - graph.poses.translation[last]
        translation[new] = previous.translation[last] + offset @ turn.T
    rotation[:old], translation[:old] = previous.rotation, previous.translation
    landmarks[:len(previous.landmarks)] = previous.landmarks
    landmarks[graph.landmarks.fixed] = graph.landmarks.position[graph.landmarks.fixed]
    return Estimate(rotation, translation, landmarks)


def placed(
    graph: Graph, segments: OdometrySegments, guess: Estimate, known: Mask,
    range_sigma_floor_m: float,
) -> tuple[Estimate, Mask]:
    """Place unknown segments and landmarks among the known ones, best tied first.

    `known` is (b + m,). Returns the estimate and the mask of what is placed now.
    """
    known = known.copy()
    count, d = len(segments), graph.dimension
    size = d + (1 if d == 2 else 3)
    while not np.all(known):
        problem = rigid_problem(graph, guess, segments, range_sigma_floor_m)
        unplaced = np.flatnonzero(~known)
        evidence = {int(v): evidence_of(problem, int(v), unplaced) for v in unplaced}
        share = {v: e.rows / (size if v < count else d) for v, e in evidence.items()}
        best = max(share, key=lambda v: (share[v], -v))
        if share[best] < 1:
            break
        found = candidates(evidence[best], best < count)
        guess = _moved(guess, segments, best, problem.centers[best], found)
        known[best] = True
    return guess, known


def _moved(
    guess: Estimate, segments: OdometrySegments, variable: int, center: Array, found: Candidates
) -> Estimate:
    rotation, translation = guess.rotation.copy(), guess.translation.copy()
    landmarks = guess.landmarks.copy()
    if variable < len(segments):
        rows = segments.of_pose == variable
        turn = found.rotation[0]
        rotation[rows] = turn @ rotation[rows]
        translation[rows] = (translation[rows] - center) @ turn.T + found.position[0]
    else:
        landmarks[variable - len(segments)] = found.position[0]
    return Estimate(rotation, translation, landmarks)
