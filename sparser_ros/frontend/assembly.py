"""From attached measurements to increments: numbers of poses and landmarks, rows of tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..array_types import Mask
from ..graph import Increment, Landmarks, Poses
from .absolute import ClosureGate, FixGate, PendingClosure, PendingFix
from .bounds import Bounds
from .columns import MeasurementRows
from .motion import Geometry, Vector
from .odometry import Attachment, OdometryTrack
from .radios import Radio, Radios
from .range_filter import PendingRange
from .sighting_gate import PendingSighting


class Assembly:
    """The variables handed out so far, and the rows of the increment being made."""

    def __init__(self, robots: Sequence[str], space: Geometry, tracks: list[OdometryTrack],
                 radios: Radios, closure_gate: ClosureGate, fix_gate: FixGate, bounds: Bounds
                 ) -> None:
        self._robots = tuple(robots)
        self._space = space
        self._tracks = tracks
        self._radios = radios
        self._closure_gate = closure_gate
        self._fix_gate = fix_gate
        self._bounds = bounds
        self._landmarks: dict[str, int] = {}
        self._n_poses = 0
        self._sequence = 0
        self._newest_ns = 0
        self.begin()

    @property
    def n_poses(self) -> int:
        """Poses handed out so far and not thinned."""
        return self._n_poses

    def thin(self, keep: Mask) -> None:
        """Forget poses but those of a mask (n,), right after `finish`."""
        place = np.cumsum(keep) - 1
        for track in self._tracks:
            rows = np.array(track.rows, dtype=np.int64)
            mine = keep[rows]
            track.thin(mine, place[rows[mine]])
        self._n_poses = int(np.sum(keep))

    def begin(self) -> None:
        """Start an increment: number the new keyframes, so that measurements can name them."""
        self._columns = MeasurementRows(self._space)
        self._new_landmarks: list[str] = []
        self._poses = self._take_poses()

    def _take_poses(self) -> Poses:
        """Keyframes since the last increment, in time order, with their odometry edges."""
        fresh = sorted(
            (track.keyframe_stamps[number], robot, number)
            for robot, track in enumerate(self._tracks)
            for number in range(len(track.rows), len(track.keyframe_stamps)))
        for stamp_ns, robot, _ in fresh:
            self._tracks[robot].rows.append(self._n_poses)
            self._n_poses += 1
            self._newest_ns = max(self._newest_ns, stamp_ns)
        for track in self._tracks:
            for edge in track.take_edges():
                self._columns.relative.append((
                    track.rows[edge.number - 1], track.rows[edge.number], edge.motion,
                    *self._bounds.variances(
                        'odometry', edge.translation_variance, edge.rotation_variance), True,
                    track.keyframe_stamps[edge.number]))
        rotation, translation = self._space.arrays(
            [self._tracks[robot].keyframe_poses[number] for _, robot, number in fresh])
        table = np.array(fresh, dtype=np.int64).reshape(-1, 3)
        return Poses(table[:, 1], table[:, 2], table[:, 0], rotation, translation)

    def _row(self, place: Attachment) -> int:
        return self._tracks[place.robot].rows[place.number]

    def _end(self, radio: Radio, place: Attachment | None) -> tuple[int, Vector]:
        """Endpoint and lever arm of one end of a range."""
        if place is not None:
            return self._row(place), self._space.act(place.offset, radio.lever)
        return self._landmark(radio.beacon), self._space.zero

    def _landmark(self, name: str) -> int:
        """Endpoint of a landmark, which may be new."""
        number = self._landmarks.get(name)
        if number is None:
            number = self._landmarks[name] = len(self._landmarks)
            self._new_landmarks.append(name)
        return ~number

    def range(self, pending: PendingRange, places: list[Attachment | None]) -> str:
        """Add a range; returns why not, '' = added."""
        source, lever_source = self._end(pending.ends[0], places[0])
        target, lever_target = self._end(pending.ends[1], places[1])
        self._columns.ranges.append((source, target, lever_source, lever_target,
                                     pending.distance_m, pending.variance, pending.stamp_ns))
        self._newest_ns = max(self._newest_ns, pending.stamp_ns)
        return ''

    def sighting(self, pending: PendingSighting, places: list[Attachment | None]) -> str:
        """Add a sighting of a landmark; returns why not, '' = added.

        T_kf_instant p: exact in geometry, without the noise of the odometry in between.
        """
        place = places[0]
        assert place is not None
        self._columns.sightings.append((
            self._row(place), self._landmark(pending.landmark),
            self._space.act(place.offset, pending.position), pending.variance, pending.stamp_ns))
        self._newest_ns = max(self._newest_ns, pending.stamp_ns)
        return ''

    def closure(self, pending: PendingClosure, places: list[Attachment | None]) -> str:
        """Add a loop closure; returns why not, '' = added."""
        start, end = places
        assert start is not None and end is not None
        if (start.robot, start.number) == (end.robot, end.number):
            return 'same_keyframe'
        self._columns.relative.append((
            self._row(start), self._row(end),
            *self._closure_gate.attached(pending, start, end), False, pending.stamp_ns))
        return ''

    def fix(self, pending: PendingFix, places: list[Attachment | None]) -> str:
        """Add a position or pose in map; returns why not, '' = added."""
        place = places[0]
        assert place is not None
        pose, lever = self._fix_gate.at_keyframe(pending, place)
        row, move = self._row(place), pending.translation_variance
        if pose is None:
            self._columns.point_priors.append(
                (row, lever, pending.position, move, pending.stamp_ns))
        else:
            self._columns.pose_priors.append(
                (row, pose, move, pending.rotation_variance, pending.stamp_ns))
        return ''

    def finish(self) -> Increment | None:
        """The increment; None = it would be empty."""
        landmarks = self._take_landmarks()
        tables = self._columns.tables()
        if not len(self._poses) and not len(landmarks) and not any(map(len, tables.values())):
            return None
        increment = Increment(
            self._sequence, self._robots, self._poses, landmarks,
            newest_stamp_ns=self._newest_ns, **tables)
        self._sequence += 1
        return increment

    def _take_landmarks(self) -> Landmarks:
        """Beacons met since the last increment; a known one with a sigma gets a prior."""
        beacons = [self._radios.beacon(name) for name in self._new_landmarks]
        position = np.full((len(beacons), self._space.dimension), np.nan)
        for row, beacon in enumerate(beacons):
            if beacon.position is None:
                continue
            position[row] = beacon.position
            if not beacon.fixed:
                self._columns.point_priors.append((
                    ~self._landmarks[beacon.name], self._space.zero, beacon.position,
                    beacon.sigma_m**2, 0))
        return Landmarks(tuple(self._new_landmarks), position,
                         np.array([b.fixed for b in beacons], dtype=bool))
