"""The map between audits: what an audit has placed, at its optimum at every tick.

What an audit has placed (odometry segments and landmarks) is solved; everything that comes later
and belongs to nothing placed (a robot, a landmark, odometry that broke off) is carried along as it
came: its poses stand in their own odometry frame, its measurements wait for the next audit. A tick
is work for what an increment changes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index, Mask
from ...config import SolverError
from ...graph import MEASUREMENT_TYPES, Estimate, Graph, Increment, Kind
from ...solver.covariance import in_map
from ...solver.incremental import IncrementalSolver, Update, held_upright, terms_of
from ...solver.result import SolveStats, SolveStatus
from .continuation import with_tail
from .frame import Frame
from .scene import JointCovariance

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


_KINDS = {
    'relative_poses': (Kind.ODOMETRY, Kind.CLOSURE), 'sightings': (Kind.SIGHTING,),
    'ranges': (Kind.RANGE,), 'pose_priors': (Kind.POSE_FIX,),
    'point_priors': (Kind.PRIOR, Kind.POSITION_FIX), 'verticals': (Kind.VERTICAL,),
    'heights': (Kind.HEIGHT,)}
_SHARE, _FLOOR = 1e-5, 1e-9
"""What an update may leave to gain: a share of the cost, and above rounding errors."""
_LOST_M = 1e3
"""Standard deviation from which a place is not determined."""
_HELD = 1e8
"""Precision, m^-2 and rad^-2, that holds the gauge of an upright map: a tenth of a millimetre."""


class PlacedMap:
    """Placed segments and landmarks in the incremental solver, from an estimate of them on.

    `placed` are endpoints of segments and landmarks. The estimate may cover the first poses and
    landmarks of the frame's graph only.
    """

    def __init__(
        self, frame: Frame, placed: Sequence[int], estimate: Estimate, config: SparserConfig
    ) -> None:
        graph, segments = frame.graph, frame.segments
        known = frame.among(placed)
        known[len(segments):] |= graph.landmarks.fixed
        estimate = with_tail(graph, segments, known, estimate, config, frame.anchored)
        d, count = graph.dimension, len(segments)
        self._config, self._anchored = config, frame.anchored
        self._solver = IncrementalSolver(d, config.solver.robust)
        self._segment: Index = segments.of_pose.copy()
        """(n,): segment of every pose."""
        self._segment_placed: list[bool] = known[:count].tolist()
        self._landmark_placed: Mask = known[count:].copy()
        self._last: list[int] = segments.last.tolist()
        self._odometry = [
            (graph.poses.rotation[row].copy(), graph.poses.translation[row].copy())
            for row in self._last]
        """Values of the segments' last poses in their own odometry frames."""
        variable = known[:count][segments.of_pose]
        self._levelled = graph.levelled
        """Whether verticals and heights count: also those of later increments."""
        if frame.gauge is not None and not self._levelled:
            variable[segments.first[frame.gauge]] = False
        self._pose = self._solver.add_bodies(
            estimate.rotation, estimate.translation, False, variable)
        self._landmark = self._solver.add_bodies(
            np.tile(np.eye(d), (graph.n_landmarks, 1, 1)), estimate.landmarks, True,
            known[count:] & ~graph.landmarks.fixed)
        self._robots = graph.robots
        self._counts = dict.fromkeys(graph.tables(), 0)
        self._rows: dict[str, Index] = dict.fromkeys(_KINDS, np.zeros(0, dtype=np.int64))
        self._take_measurements(graph)
        if frame.gauge is not None and self._levelled:
            row = int(segments.first[frame.gauge])
            self._solver.add_terms(held_upright(
                int(self._pose[row]), estimate.rotation[row], estimate.translation[row], _HELD,
                height=not len(graph.heights)))

    @property
    def cost(self) -> float:
        """Of what is placed, at unit robust weights."""
        return self._solver.quadratic_cost

    @property
    def cost_robust(self) -> float | None:
        """Of what is placed; None without a kernel."""
        return None if self._config.solver.robust.kernel == 'none' else self._solver.cost

    def estimate(self) -> Estimate:
        """Of all poses and landmarks of the graph."""
        rotation, position = self._solver.rotation, self._solver.position
        return Estimate(rotation[self._pose], position[self._pose], position[self._landmark])

    def add(self, increment: Increment) -> None:
        """Take an increment in."""
        self._extend(increment, self._continued(increment))
        marks = increment.landmarks
        fixed = marks.fixed & self._anchored
        position = np.where(np.isfinite(marks.position), marks.position, 0.0)
        self._landmark = np.concatenate([self._landmark, self._solver.add_bodies(
            np.tile(np.eye(self._solver.dimension), (len(marks), 1, 1)), position, True,
            np.zeros(len(marks), dtype=bool))])
        self._landmark_placed = np.concatenate([self._landmark_placed, fixed])
        self._take_measurements(increment)

    def update(self) -> SolveStats:
        """Move what is placed to its optimum; SolverError where that fails."""
        backend, solver = self._config.backend, self._solver
        tolerance = min(
            max(_SHARE * solver.cost, _FLOOR), backend.incremental_tolerance)
        last = np.array([
            row for row, placed in zip(self._last, self._segment_placed, strict=True) if placed],
            dtype=np.int64)
        with np.errstate(all='ignore'):
            update = solver.update(self._pose[last], tolerance)
        if not (np.isfinite(solver.cost) and np.all(np.isfinite(
                solver.position[self._pose[last]]))):
            raise SolverError('the trajectory is no longer finite')
        return self._stats(update)

    def covariance(self, graph: Graph, keyframes: Index) -> JointCovariance | None:
        """Of what is placed of the newest poses, all landmarks and keyframes (rows of poses).

        What is not determined is not known. None before the first update.
        """
        placed = np.array(self._segment_placed, dtype=bool)
        newest = graph.poses.newest(len(graph.robots))
        known = (newest >= 0) & placed[self._segment[newest]]
        poses, marks = newest[known], np.flatnonzero(self._landmark_placed)
        along = np.flatnonzero(placed[self._segment[keyframes]])
        bodies = np.concatenate([
            self._pose[poses], self._landmark[marks], self._pose[keyframes[along]]])
        solver = self._solver
        own = solver.covariance(bodies)
        if own is None:
            return None
        number = np.arange(len(bodies))
        point = (number >= len(poses)) & (number < len(poses) + len(marks))
        joint = in_map(own, solver.rotation[bodies], point)
        d = solver.dimension
        variance = np.diag(joint).reshape(len(bodies), d * (d + 1) // 2)[:, :d]
        number[np.any(variance > _LOST_M**2, axis=1)] = -1
        place = np.full(len(newest), -1, dtype=np.int64)
        place_of_landmark = np.full(len(self._landmark), -1, dtype=np.int64)
        place_of_keyframe = np.full(len(keyframes), -1, dtype=np.int64)
        place[known], place_of_landmark[marks], place_of_keyframe[along] = np.split(
            number, np.cumsum([len(poses), len(marks)]))
        return JointCovariance(
            joint, place, place_of_landmark, place_of_keyframe, solver.variance_factor())

    def weights(self) -> dict[str, Array]:
        """Robust weights by table, in the order of `rows`; {} without a kernel."""
        if self._config.solver.robust.kernel == 'none':
            return {}
        solver = self._solver
        return {
            name: solver.weights(solver.measurements(kinds, 0, solver.n_terms))
            for name, kinds in _KINDS.items()}

    def rows(self) -> dict[str, Index]:
        """Rows of the graph's tables that are solved."""
        return self._rows

    def _stats(self, update: Update) -> SolveStats:
        solver = self._config.solver
        self.status = SolveStatus.CONVERGED if update.converged else SolveStatus.STALLED
        return SolveStats(
            rank=self._solver.dimension, init='incremental', formulation=solver.formulation,
            backend='cpu', kernel=solver.robust.kernel, iterations=update.steps,
            cost_final=self.cost, cost_robust=self.cost_robust, weights=self.weights())

    def _take_measurements(self, source: Graph | Increment) -> None:
        """Terms of the measurements among what is placed; the others wait for an audit."""
        chosen = {}
        for name, table in source.tables().items():
            keep = np.ones(len(table), dtype=bool)
            for column in table.endpoints():
                keep &= self._placed(getattr(table, column))
            if MEASUREMENT_TYPES[name].absolute and not self._anchored:
                # Absolute data of a map whose frame the gauge robot gives.
                keep[:] = False
            if name in ('verticals', 'heights') and not self._levelled:
                keep[:] = False
            if name in _KINDS:
                self._rows[name] = np.append(
                    self._rows[name], self._counts[name] + np.flatnonzero(keep))
            self._counts[name] += len(table)
            chosen[name] = table.take(keep)
        self._solver.add_terms(terms_of(
            source.replaced(**chosen), self._solver.dimension, self._body,
            self._config.solver.robust))

    def _placed(self, endpoint: Index) -> Mask:
        far = endpoint < 0
        segment = np.array(self._segment_placed, dtype=bool)
        result = np.zeros(len(endpoint), dtype=bool)
        result[~far] = segment[self._segment[endpoint[~far]]]
        result[far] = self._landmark_placed[~endpoint[far]]
        return result

    def _body(self, endpoint: Index) -> Index:
        """The solver's numbers of endpoints."""
        endpoint = np.asarray(endpoint, dtype=np.int64)
        numbers = np.empty(len(endpoint), dtype=np.int64)
        pose = endpoint >= 0
        numbers[pose] = self._pose[endpoint[pose]]
        numbers[~pose] = self._landmark[~endpoint[~pose]]
        return numbers

    def _continued(self, increment: Increment) -> Index:
        """(new poses,): the segment that odometry makes each part of; new ones begin at gaps."""
        old = len(self._segment)
        table = increment.relative_poses.take(increment.relative_poses.odometry)
        before: dict[int, int] = {}
        for i, j in zip(table.i.tolist(), table.j.tolist(), strict=True):
            if j >= old:
                before.setdefault(j - old, i)
        segment = np.full(len(increment.poses), -1, dtype=np.int64)
        for row in range(len(segment)):
            i = before.get(row, -1)
            if 0 <= i < old:
                segment[row] = self._segment[i]
            elif old <= i < old + row:
                segment[row] = segment[i - old]
            else:
                segment[row] = len(self._segment_placed)
                self._segment_placed.append(False)
                self._last.append(-1)
                self._odometry.append((increment.poses.rotation[row],
                                       increment.poses.translation[row]))
        return segment

    def _extend(self, increment: Increment, segment: Index) -> None:
        """New poses where odometry takes the last ones of their segments."""
        solver, poses = self._solver, increment.poses
        rotation, translation = poses.rotation.copy(), poses.translation.copy()
        old = len(self._segment)
        for number in np.unique(segment).tolist():
            rows = np.flatnonzero(segment == number)
            if self._last[number] >= 0:
                last = self._pose[self._last[number]]
                turn = solver.rotation[last] @ self._odometry[number][0].T
                offset = translation[rows] - self._odometry[number][1]
                rotation[rows] = turn @ rotation[rows]
                translation[rows] = solver.position[last] + offset @ turn.T
            self._odometry[number] = (
                poses.rotation[rows[-1]].copy(), poses.translation[rows[-1]].copy())
            self._last[number] = old + int(rows[-1])
        variable = np.array(self._segment_placed, dtype=bool)[segment]
        numbers = solver.add_bodies(rotation, translation, False, variable)
        self._pose = np.concatenate([self._pose, numbers])
        self._segment = np.concatenate([self._segment, segment])
