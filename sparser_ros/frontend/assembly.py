"""From attached measurements to increments: numbers of poses and landmarks, rows of tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array_types import Array, Mask
from ..config import SparserConfig
from ..graph import (
    Heights,
    Increment,
    Landmarks,
    PointPriors,
    Poses,
    RelativePoses,
    Table,
)
from .motion import Geometry, Pose, Vector
from .radios import Beacon, Radio, Radios
from .track import Attachment, Track

BEACON_HEIGHT_SIGMA_M = 0.1
"""Of the height of a beacon where its `sigma_m` says nothing: tape measures."""


class Assembly:
    """The variables handed out so far, and the rows of the increment being made."""

    def __init__(
        self, config: SparserConfig, space: Geometry, tracks: tuple[Track, ...], radios: Radios,
    ) -> None:
        self._config = config
        self._space = space
        self._tracks = tracks
        self._radios = radios
        self._landmarks: dict[str, int] = {}
        self._sequence = self._newest_ns = 0
        self.n_poses = 0
        """Poses handed out so far and not thinned."""

    def thin(self, keep: Mask) -> None:
        """Forget poses but those of a mask (n,), right after `finish`."""
        place = np.cumsum(keep) - 1
        for track in self._tracks:
            rows = np.array(track.rows, dtype=np.int64)
            mine = keep[rows]
            track.thin(mine, place[rows[mine]])
        self.n_poses = int(np.sum(keep))

    def begin(self, keyframe: Callable[[Assembly, int, int, Pose, int], None]) -> None:
        """Start an increment: number the new keyframes, so that measurements can name them.

        `keyframe(assembly, robot, row, pose, stamp_ns)` adds what the odometry of each one states.
        """
        self._rows: dict[type[Table], list[tuple[Any, ...]]] = {}
        self._new_landmarks: list[str] = []
        fresh = sorted(
            (track.keyframe_stamps[number], robot, number)
            for robot, track in enumerate(self._tracks)
            for number in range(len(track.rows), len(track.keyframe_stamps)))
        poses = [self._tracks[robot].keyframe_poses[number] for _, robot, number in fresh]
        for (stamp_ns, robot, _), pose in zip(fresh, poses, strict=True):
            self._tracks[robot].rows.append(self.n_poses)
            keyframe(self, robot, self.n_poses, pose, stamp_ns)
            self.n_poses += 1
            self._newest_ns = max(self._newest_ns, stamp_ns)
        for track in self._tracks:
            for edge in track.take_edges():
                self.add(RelativePoses, track.rows[edge.number - 1], track.rows[edge.number],
                         edge.motion, self.kappa(edge.rotation_variance),
                         1 / edge.translation_variance, True,
                         track.keyframe_stamps[edge.number])
        table = np.array(fresh, dtype=np.int64).reshape(-1, 3)
        self._poses = Poses(table[:, 1], table[:, 2], table[:, 0], *self._space.arrays(poses))

    def add(self, kind: type[Table], *row: Any) -> None:
        """A row of a table in the order of its columns; a pose stands for both of its parts."""
        self._rows.setdefault(kind, []).append(row)

    def seen(self, stamp_ns: int) -> None:
        """Data of this stamp are in the increment."""
        self._newest_ns = max(self._newest_ns, stamp_ns)

    def row(self, place: Attachment) -> int:
        """Number of the pose of a keyframe."""
        return self._tracks[place.robot].rows[place.number]

    def landmark(self, name: str) -> int:
        """Endpoint of a landmark, which may be new."""
        number = self._landmarks.get(name)
        if number is None:
            number = self._landmarks[name] = len(self._landmarks)
            self._new_landmarks.append(name)
        return ~number

    def end(self, radio: Radio, place: Attachment | None) -> tuple[int, Vector]:
        """Endpoint and lever arm of a radio; `place`: of the robot that carries it."""
        if place is not None:
            return self.row(place), self._space.act(place.offset, radio.lever)
        return self.landmark(radio.beacon), self._space.zero

    def kappa(self, variance: float) -> float:
        """As `graph.precision.kappa_from_covariance`, of a variance per axis."""
        return (1.0 if self._space.dimension == 2 else 0.5) / variance

    def finish(self, unlevelled: tuple[str, ...]) -> Increment | None:
        """The increment; None = it would be empty."""
        landmarks = self._take_landmarks()
        if not len(self._poses) and not len(landmarks) and not self._rows:
            return None
        increment = Increment(
            self._sequence, tuple(self._config.robots), self._poses, landmarks,
            *(self._table(kind, rows) for kind, rows in self._rows.items()),
            newest_stamp_ns=self._newest_ns, unlevelled=unlevelled)
        self._sequence += 1
        self._rows = {}
        return increment

    def _table(self, kind: type[Table], rows: list[tuple[Any, ...]]) -> Table:
        given = iter(zip(*rows, strict=True))
        columns: dict[str, Array] = {}
        for name, column in kind.columns().items():
            if name == 'rotation':
                columns[name], columns['translation'] = self._space.arrays(next(given))
            elif name not in columns:
                columns[name] = np.array(next(given), dtype=column.dtype)
        return kind(**columns)

    def _take_landmarks(self) -> Landmarks:
        """Beacons met since the last increment; a known one with a sigma gets a prior."""
        beacons = [self._radios.beacon(name) for name in self._new_landmarks]
        position = np.full((len(beacons), self._space.dimension), np.nan)
        for row, beacon in enumerate(beacons):
            if beacon.position is None:
                self._hang(beacon)
                continue
            position[row] = beacon.position
            if not beacon.fixed:
                self.add(PointPriors, self.landmark(beacon.name), self._space.zero,
                         beacon.position, 1 / beacon.sigma_m**2, 0)
        return Landmarks(tuple(self._new_landmarks), position,
                         np.array([b.fixed for b in beacons], dtype=bool))

    def _hang(self, beacon: Beacon) -> None:
        """Add the prior on the height of a beacon at an unknown position."""
        if self._space.dimension != 3:
            return
        config = self._config
        height, sigma = beacon.height_m, beacon.sigma_m or BEACON_HEIGHT_SIGMA_M
        if not math.isfinite(height):
            # Only where robots measure heights there is a height 0.
            measured = config.heights.inputs or config.odometry.height == 'trusted'
            height, sigma = 0.0, config.heights.beacon_sigma_m if measured else 0.0
        if sigma:
            self.add(Heights, self.landmark(beacon.name), self._space.zero, height,
                     1 / sigma**2, 0)
