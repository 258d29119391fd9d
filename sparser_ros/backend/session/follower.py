"""A frame that is followed incrementally: what an increment adds to it, without a look at the rest.

Followed is growth of what there is: new poses that continue segments by odometry, and measurements
among segments and landmarks that are solved already. Whatever else comes (a robot, a landmark, a
broken odometry chain, a first tie to something unconnected) changes the frame, and is the business
of an ordinary solve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...graph import Estimate, Graph, Increment
from ...solver.incremental.incremental_solver import IncrementalSolver, Update
from ...solver.incremental.terms import Kind, terms_of
from .frame import Frame
from .odometry_segments import measured_pairs
from .policy import RANGES_REFUSED, picture

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_KINDS = {
    'relative_poses': (Kind.ODOMETRY, Kind.CLOSURE), 'sightings': (Kind.SIGHTING,),
    'ranges': (Kind.RANGE,)}
_SHARE, _FLOOR = 1e-5, 1e-9
"""What an update may leave to gain: a share of the cost, and above rounding errors."""


class Follower:
    """Segments and landmarks of a frame in the incremental solver, from an estimate of them on."""

    def __init__(self, frame: Frame, estimate: Estimate, config: SparserConfig) -> None:
        graph, segments = frame.graph, frame.segments
        d, m = graph.dimension, graph.n_landmarks
        self.frame = frame
        """As it was at the start; segments and landmarks stay, and the mask of both."""
        self.rows = picture(graph, segments, frame.mask, frame.anchored).rows
        """Closures, sightings, ranges and absolute data, as in a GraphSummary."""
        self.closures = int(np.sum(~graph.relative_poses.odometry))
        self.ties = np.bincount(
            measured_pairs(graph, segments).ravel(), minlength=len(frame.mask))
        """(b + m,): measurements of segments and landmarks, with others or absolute ones."""
        self._robust, self._rejected = config.solver.robust, config.backend.rejected_weight
        self._solver = IncrementalSolver(d, self._robust)
        self._rigid: Index = segments.of_pose
        self._last = segments.last.copy()
        self._odometry = (
            graph.poses.rotation[self._last].copy(), graph.poses.translation[self._last].copy())
        """Values of the segments' last poses in their own odometry frames."""
        variable = frame.mask[segments.of_pose]
        if frame.gauge is not None:
            variable[segments.first[frame.gauge]] = False
        self._pose = self._solver.add_bodies(
            estimate.rotation, estimate.translation, False, variable)
        self._landmark = self._solver.add_bodies(
            np.tile(np.eye(d), (m, 1, 1)), estimate.landmarks, True,
            frame.mask[len(segments):] & ~graph.landmarks.fixed)
        solved = graph.replaced(**{
            name: table.take(frame.part.rows[name]) for name, table in graph.tables().items()})
        self._add_terms(solved)
        self._before = self._solver.n_terms
        """Terms before the newest increment."""
        self._rows: dict[str, list[Index]] = {
            name: [frame.part.rows[name]] for name in _KINDS}
        self.n_ranges, self.n_relative = len(graph.ranges), len(graph.relative_poses)
        self.n_sightings = len(graph.sightings)

    @property
    def cost(self) -> float:
        """Of the part that is solved, at unit robust weights."""
        return self._solver.quadratic_cost

    @property
    def cost_robust(self) -> float | None:
        """Of the part that is solved; None without a kernel."""
        return None if self._robust.kernel == 'none' else self._solver.cost

    def estimate(self) -> Estimate:
        """Of all poses and landmarks of the graph."""
        rotation, position = self._solver.rotation, self._solver.position
        return Estimate(rotation[self._pose], position[self._pose], position[self._landmark])

    def add(self, increment: Increment) -> bool:
        """Take an increment in; False, and nothing is taken, where it changes the frame."""
        rigid = self._continued(increment)
        if rigid is None or not self._among_solved(increment, rigid):
            return False
        self._extend(increment, rigid)
        self._before = self._solver.n_terms
        relative = increment.relative_poses
        solved = self.frame.mask[self._rigid[relative.i]]
        for name, known, rows in (
            ('relative_poses', self.n_relative, np.flatnonzero(solved)),
            ('sightings', self.n_sightings, np.arange(len(increment.sightings))),
            ('ranges', self.n_ranges, np.arange(len(increment.ranges))),
        ):
            self._rows[name].append(known + rows)
        self.n_ranges += len(increment.ranges)
        self.n_relative += len(relative)
        self.n_sightings += len(increment.sightings)
        self.closures += int(np.sum(~relative.odometry))
        self._add_terms(increment.replaced(relative_poses=relative.take(solved)))
        return True

    def update(self, most: float) -> Update:
        """Move everything to the optimum, until `most`, or less, is left to gain."""
        tolerance = min(max(_SHARE * self._solver.cost, _FLOOR), most)
        return self._solver.update(self._pose[self._last], tolerance)

    def strain(self) -> tuple[float, float, int]:
        """Rms of the newest ranges and closures, that of the older ones, and how many are new.

        Measurements that the robust kernel rejects do not count.
        """
        rms, count = [], []
        for first, last in ((self._before, self._solver.n_terms), (0, self._before)):
            among = self._solver.measurements((Kind.RANGE, Kind.CLOSURE), first, last)
            squares = self._solver.squares(
                among[self._solver.weights(among) >= self._rejected])
            rms.append(float(np.sqrt(np.sum(squares) / max(len(squares), 1))))
            count.append(len(squares))
        return rms[0], rms[1], count[0]

    def refused(self) -> bool:
        """Whether what is new deserves the trial that `policy.refused` asks for."""
        for kind, share in ((Kind.RANGE, RANGES_REFUSED), (Kind.CLOSURE, 0.0)):
            new = self._solver.measurements((kind,), self._before, self._solver.n_terms)
            out = np.count_nonzero(self._solver.weights(new) < self._rejected)
            if out and out >= share * len(new):
                return True
        return False

    def weights(self) -> dict[str, Array]:
        """Robust weights by table, in the order of `rows_by_table`."""
        solver = self._solver
        return {
            name: solver.weights(solver.measurements(kinds, 0, solver.n_terms))
            for name, kinds in _KINDS.items()}

    def rows_by_table(self) -> dict[str, Index]:
        """Rows of the whole graph's tables that are followed."""
        return {name: np.concatenate(parts) for name, parts in self._rows.items()}

    def _add_terms(self, source: Graph | Increment) -> None:
        self._solver.add_terms(
            terms_of(source, self._solver.dimension, self._body, self._robust))

    def _body(self, endpoint: Index) -> Index:
        """The solver's numbers of endpoints."""
        endpoint = np.asarray(endpoint, dtype=np.int64)
        numbers = np.empty(len(endpoint), dtype=np.int64)
        pose = endpoint >= 0
        numbers[pose] = self._pose[endpoint[pose]]
        numbers[~pose] = self._landmark[~endpoint[~pose]]
        return numbers

    def _continued(self, increment: Increment) -> Index | None:
        """(new poses,): the rigid body that odometry makes each part of; None where it does not."""
        old, count = len(self._rigid), len(increment.poses)
        table = increment.relative_poses.take(increment.relative_poses.odometry)
        rigid = np.concatenate([self._rigid, np.full(count, -1)])
        if np.any(table.j < old):
            return None
        for i, j in zip(table.i.tolist(), table.j.tolist(), strict=True):
            if rigid[i] < 0 or (rigid[j] >= 0 and rigid[j] != rigid[i]):
                return None
            rigid[j] = rigid[i]
        return None if np.any(rigid < 0) else rigid[old:]

    def _among_solved(self, increment: Increment, rigid: Index) -> bool:
        """Whether all measurements are of what is solved; their numbers go to `ties`."""
        segments, mask = self.frame.segments, self.frame.mask
        if len(increment.landmarks) or increment.robots != self.frame.graph.robots or (
                increment.n_absolute and not self.frame.anchored):
            return False
        every = np.concatenate([self._rigid, rigid])

        def variable(endpoint: Index) -> Index:
            pose = endpoint >= 0
            return np.where(
                pose, every[np.where(pose, endpoint, 0)], len(segments) + ~np.asarray(endpoint))

        first, second = increment.pairs(odometry=False)
        first = np.concatenate([first, increment.absolute_endpoints()])
        tied = variable(np.concatenate([first, second]))
        if not np.all(mask[tied]):
            return False
        self.ties += np.bincount(tied, minlength=len(mask))
        self.rows += len(first)
        return True

    def _extend(self, increment: Increment, rigid: Index) -> None:
        """New poses where odometry takes the last ones of their segments."""
        solver, poses = self._solver, increment.poses
        rotation, translation = poses.rotation.copy(), poses.translation.copy()
        variable = self.frame.mask[rigid]
        old = len(self._rigid)
        for body in np.unique(rigid).tolist():
            rows = np.flatnonzero(rigid == body)
            last = self._pose[self._last[body]]
            turn = solver.rotation[last] @ self._odometry[0][body].T
            offset = translation[rows] - self._odometry[1][body]
            self._odometry[0][body] = rotation[rows[-1]]
            self._odometry[1][body] = translation[rows[-1]]
            rotation[rows] = turn @ rotation[rows]
            translation[rows] = solver.position[last] + offset @ turn.T
            self._last[body] = old + rows[-1]
        numbers = solver.add_bodies(rotation, translation, False, variable)
        self._pose = np.concatenate([self._pose, numbers])
        self._rigid = np.concatenate([self._rigid, rigid])
