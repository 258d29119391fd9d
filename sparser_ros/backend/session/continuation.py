"""A start for the next solve: the last estimate, continued by odometry, new variables placed.

An audit takes seconds, a start from scratch of a large graph half a minute. What came meanwhile
could be tied to its map by composed odometry. Minutes of drift start the next solve in another
basin, and the map is worse than the one that it replaces. Here the tail is solved in short pieces,
each with everything before it, while the poses that are known stay where they are; landmarks move,
since the newest of them are hardly determined. Drift never grows, and a piece takes a fraction of
the time of a tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import MEASUREMENT_TYPES, Estimate, Graph
from ...graph.parts import OdometrySegments
from ...solver.incremental import IncrementalSolver, terms_of
from ..observability.alternatives import best_tied
from ..observability.registration import Candidates, candidates, evidence_of
from ..observability.rigid_model import rigid_problem
from .frame import Frame
from .graph_store import FAILURES

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


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
        rotation[new], translation[new] = _carried(
            graph, previous.rotation[known[-1]], previous.translation[known[-1]], known[-1], new)
    rotation[:old], translation[:old] = previous.rotation, previous.translation
    landmarks[:len(previous.landmarks)] = previous.landmarks
    landmarks[graph.landmarks.fixed] = graph.landmarks.position[graph.landmarks.fixed]
    return Estimate(rotation, translation, landmarks)


def _carried(
    graph: Graph, rotation: Array, translation: Array, last: int, rows: Index
) -> tuple[Array, Array]:
    """Poses `rows` where odometry takes the pose `last`, which has this value."""
    turn = rotation @ graph.poses.rotation[last].T
    offset = graph.poses.translation[rows] - graph.poses.translation[last]
    return turn @ graph.poses.rotation[rows], translation + offset @ turn.T


def joined_up(frame: Frame, estimate: Estimate) -> Estimate:
    """An estimate in which segments that nothing places are where odometry takes those before."""
    rotation, translation = estimate.rotation.copy(), estimate.translation.copy()
    graph, segments = frame.graph, frame.segments
    for number in np.flatnonzero(~frame.mask[:len(segments)]).tolist():
        rows = np.flatnonzero(segments.of_pose == number)
        before = np.flatnonzero(graph.poses.robot[:rows[0]] == segments.robot[number])
        if len(before):
            last = int(before[-1])
            rotation[rows], translation[rows] = _carried(
                graph, rotation[last], translation[last], last, rows)
    return replace(estimate, rotation=rotation, translation=translation)


def placed(
    graph: Graph, segments: OdometrySegments, guess: Estimate, known: Mask,
    range_sigma_floor_m: float,
) -> tuple[Estimate, Mask]:
    """Place unknown segments and landmarks among the known ones, best tied first.

    `known` is (b + m,). Returns the estimate and the mask of what is placed now.
    """
    known = known.copy()
    while not np.all(known):
        problem = rigid_problem(graph, guess, segments, range_sigma_floor_m)
        unplaced = np.flatnonzero(~known)
        best = best_tied(problem, unplaced.tolist())
        if best < 0:
            break
        placements = candidates(evidence_of(problem, best, unplaced), best < len(segments))
        guess = _moved(guess, segments, best, problem.centers[best], placements)
        known[best] = True
    return guess, known


def _moved(
    guess: Estimate, segments: OdometrySegments, variable: int, center: Array,
    placements: Candidates,
) -> Estimate:
    rotation, translation = guess.rotation.copy(), guess.translation.copy()
    landmarks = guess.landmarks.copy()
    if variable < len(segments):
        rows = segments.of_pose == variable
        turn = placements.rotation[0]
        rotation[rows] = turn @ rotation[rows]
        translation[rows] = (translation[rows] - center) @ turn.T + placements.position[0]
    else:
        landmarks[variable - len(segments)] = placements.position[0]
    return Estimate(rotation, translation, landmarks)


_PIECE = 16
"""Keyframes of each robot, about, in a piece: a tick's worth of a fast replay, and so short that
composed odometry is good for metres at most."""
_MOST_PIECES = 64
"""Of a tail that is longer, and longer than the rest, the estimate says too little."""


def with_tail(
    graph: Graph, segments: OdometrySegments, placed: Mask, estimate: Estimate,
    config: SparserConfig, anchored: bool,
) -> Estimate:
    """Values of all poses: those of the estimate, and the tail as its measurements have it.

    `placed` (b + m,) says what is in map; the rest of the tail is composed from odometry. So is
    all of it where a solve fails: the tick after finds out which increment it was.
    """
    guess = continued(graph, segments, estimate)
    old = len(estimate.rotation)
    if not np.any(placed[segments.of_pose[old:]]):
        return guess
    if graph.n_poses - old > max(old, _MOST_PIECES * _piece(graph)):
        return guess
    try:
        with np.errstate(all='ignore'):
            solved = _Tail(graph, segments, placed, guess, old, config, anchored).solved()
    except FAILURES:
        return guess
    finite = np.all(np.isfinite(solved.rotation)) and np.all(np.isfinite(solved.translation))
    return solved if finite else guess


def _piece(graph: Graph) -> int:
    return _PIECE * max(len(graph.robots), 1)


class _Tail:
    """Bodies of the solver: all landmarks, then all poses."""

    def __init__(
        self, graph: Graph, segments: OdometrySegments, placed: Mask, guess: Estimate, old: int,
        config: SparserConfig, anchored: bool,
    ) -> None:
        self._graph, self._segments, self._guess, self._old = graph, segments, guess, old
        self._config, self._anchored, count = config, anchored, len(segments)
        self._pose_placed = placed[:count][segments.of_pose]
        self._landmark_placed = placed[count:]
        self._solver = IncrementalSolver(graph.dimension, config.solver.robust)
        self._solver.add_bodies(
            np.tile(np.eye(graph.dimension), (graph.n_landmarks, 1, 1)), guess.landmarks, True,
            self._landmark_placed & ~graph.landmarks.fixed)
        self._solver.add_bodies(
            guess.rotation[:old], guess.translation[:old], False, np.zeros(old, dtype=bool))
        self._newest = {
            name: self._newest_pose(name) for name in graph.tables()}
        self._add_measurements(-1, 0)

    def solved(self) -> Estimate:
        """The estimate with the whole tail."""
        tolerance = self._config.backend.incremental_tolerance
        for begin, end in self._pieces():
            self._add_poses(begin, end)
            self._add_measurements(begin, end)
            rows = self._segments.of_pose[begin:end]
            last = begin + np.array([
                np.flatnonzero(rows == robot)[-1] for robot in np.unique(rows)])
            self._solver.update(
                self._body(last[self._pose_placed[last]]), tolerance)
        first, solver = self._graph.n_landmarks, self._solver
        end = first + self._graph.n_poses
        return Estimate(
            solver.rotation[first:end].copy(), solver.position[first:end].copy(),
            solver.position[:first].copy())

    def _pieces(self) -> Iterator[tuple[int, int]]:
        size, end = _piece(self._graph), self._graph.n_poses
        for begin in range(self._old, end, size):
            yield begin, min(begin + size, end)

    def _add_poses(self, begin: int, end: int) -> None:
        """Poses where odometry takes the ones before them."""
        first = self._graph.n_landmarks
        known = Estimate(
            self._solver.rotation[first:first + begin], self._solver.position[first:first + begin],
            self._guess.landmarks)
        composed = continued(self._graph, self._segments, known)
        self._solver.add_bodies(
            composed.rotation[begin:end], composed.translation[begin:end], False,
            self._pose_placed[begin:end])

    def _add_measurements(self, begin: int, end: int) -> None:
        """What has its newest pose among these."""
        tables = {
            name: table.take((self._newest[name] >= begin) & (self._newest[name] < end))
            for name, table in self._graph.tables().items()}
        self._solver.add_terms(terms_of(
            self._graph.replaced(**tables), self._graph.dimension, self._body,
            self._config.solver.robust))

    def _newest_pose(self, name: str) -> Index:
        """(k,): newest pose of each measurement, -1 = of none that is known, of a landmark; -2 for
        those that do not count."""
        table = self._graph.tables()[name]
        newest = np.full(len(table), -1, dtype=np.int64)
        keep = np.full(len(table), not MEASUREMENT_TYPES[name].absolute or self._anchored)
        moves = np.zeros(len(table), dtype=bool)
        for column in table.endpoints():
            end = getattr(table, column)
            far = end < 0
            newest[~far] = np.maximum(newest[~far], end[~far])
            keep[far] &= self._landmark_placed[~end[far]]
            keep[~far] &= self._pose_placed[end[~far]]
            moves |= far | (end >= self._old)
        return np.where(keep & moves, np.where(newest < self._old, -1, newest), -2)

    def _body(self, endpoint: Index) -> Index:
        endpoint = np.asarray(endpoint, dtype=np.int64)
        return np.where(endpoint >= 0, self._graph.n_landmarks + endpoint, ~endpoint)
