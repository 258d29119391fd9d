"""From attached measurements to increments: numbers of poses and landmarks, rows of tables."""

from __future__ import annotations

import bisect
import math
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ..array_types import Array, Index, Mask
from ..graph import (
    Heights,
    Increment,
    Landmarks,
    PointPriors,
    PosePriors,
    Poses,
    Ranges,
    RelativePoses,
    Sightings,
    Verticals,
    empty,
)
from ..graph.finding import Finding
from .closures import PendingClosure
from .fixes import PendingFix
from .level_checks import LevelCheck, MountCheck
from .levels import PendingAttitude, PendingHeight, SharedError
from .motion import Pose, Vector, rotation_rows
from .radios import Beacon, Radio
from .ranges import PendingRange
from .sightings import PendingSighting
from .track import Attachment
from .waiting import Shared

BEACON_HEIGHT_SIGMA_M = 0.1
"""Of the height of a beacon where its `sigma_m` says nothing: tape measures."""


class Assembly:
    """The variables handed out so far, and the rows of the increment being made.

    `range`, `sighting`, `closure` and `fix` add a measurement whose ends have keyframes, and return
    why it cannot be added, '' = it was.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._space = shared.space
        self._tracks = shared.tracks
        self._landmarks: dict[str, int] = {}
        self._sequence = 0
        self._newest_ns = 0
        self.n_poses = 0
        """Poses handed out so far and not thinned."""
        options = shared.config.odometry
        levels = [shared.config.claims_gravity(robot) for robot in shared.config.robots]
        self._tilts = [
            SharedError(options.tilt_correlation_s) if level else None for level in levels]
        """Of the robots whose odometry says where up is."""
        trusted = options.height == 'trusted' and shared.space.dimension == 3
        self._odometry_heights = [
            SharedError(options.height_correlation_s) if trusted and level else None
            for level in levels]
        self._checks: dict[tuple[int, str], LevelCheck] = {}
        """Odometry against heights, by robot and source of heights."""
        self._mounts: dict[int, MountCheck] = {}
        """Odometry against attitudes, by robot."""
        self._unlevelled: set[str] = set()
        """Robots whose odometry, or IMU, says something else of the vertical than is true."""
        self.begin()

    def thin(self, keep: Mask) -> None:
        """Forget poses but those of a mask (n,), right after `finish`."""
        place = np.cumsum(keep) - 1
        for track in self._tracks:
            rows = np.array(track.rows, dtype=np.int64)
            mine = keep[rows]
            track.thin(mine, place[rows[mine]])
        self.n_poses = int(np.sum(keep))

    # -- rows ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start an increment: number the new keyframes, so that measurements can name them."""
        self._relative: list[tuple[int, int, Pose, float, float, bool, int]] = []
        """i, j, motion, translation variance, rotation variance, odometry, stamp."""
        self._ranges: list[tuple[int, int, Vector, Vector, float, float, int]] = []
        """source, target, lever arms, distance, variance, stamp."""
        self._sightings: list[tuple[int, int, Vector, float, int]] = []
        """i, point, position, variance, stamp."""
        self._pose_priors: list[tuple[int, Pose, float, float, int]] = []
        """i, pose, translation variance, rotation variance, stamp."""
        self._point_priors: list[tuple[int, Vector, Vector, float, int]] = []
        """endpoint, lever arm, position, variance, stamp."""
        self._verticals: list[tuple[int, Vector, float, int]] = []
        """i, up, variance, stamp."""
        self._heights: list[tuple[int, Vector, float, float, int]] = []
        """endpoint, lever arm, height, variance, stamp."""
        self._new_landmarks: list[str] = []
        self._poses = self._take_poses()

    def _take_poses(self) -> Poses:
        """Keyframes since the last increment, in time order, with their odometry edges."""
        fresh = sorted(
            (track.keyframe_stamps[number], robot, number)
            for robot, track in enumerate(self._tracks)
            for number in range(len(track.rows), len(track.keyframe_stamps)))
        for stamp_ns, robot, number in fresh:
            self._tracks[robot].rows.append(self.n_poses)
            self._level(robot, self.n_poses, self._tracks[robot].keyframe_poses[number], stamp_ns)
            self.n_poses += 1
            self._newest_ns = max(self._newest_ns, stamp_ns)
        for track in self._tracks:
            for edge in track.take_edges():
                self._relative.append((
                    track.rows[edge.number - 1], track.rows[edge.number], edge.motion,
                    *self._shared.bounds.variances(
                        'odometry', edge.translation_variance, edge.rotation_variance), True,
                    track.keyframe_stamps[edge.number]))
        rotation, translation = self._space.arrays(
            [self._tracks[robot].keyframe_poses[number] for _, robot, number in fresh])
        table = np.array(fresh, dtype=np.int64).reshape(-1, 3)
        return Poses(table[:, 1], table[:, 2], table[:, 0], rotation, translation)

    def _level(self, robot: int, row: int, pose: Pose, stamp_ns: int) -> None:
        """Add the vertical and the height that the odometry of a keyframe states."""
        options = self._shared.config.odometry
        tilt, height = self._tilts[robot], self._odometry_heights[robot]
        if tilt is not None:
            self._verticals.append((
                row, tuple(rotation_rows(pose[3:])[2]),
                options.tilt_sigma_rad**2 / tilt.share(stamp_ns), stamp_ns))
        if height is not None:
            self._heights.append((
                row, self._space.zero, pose[2],
                options.height_sigma_m**2 / height.share(stamp_ns), stamp_ns))

    def range(self, pending: PendingRange) -> str:
        """|t_j - t_i| with the antenna of each robot as it was at the instant."""
        source, lever_source = self._end(pending.ends[0], pending.places[0])
        target, lever_target = self._end(pending.ends[1], pending.places[1])
        self._ranges.append((source, target, lever_source, lever_target,
                             pending.distance_m, pending.variance, pending.stamp_ns))
        self._newest_ns = max(self._newest_ns, pending.stamp_ns)
        return ''

    def _end(self, radio: Radio, place: Attachment | None) -> tuple[int, Vector]:
        """Endpoint and lever arm of one end of a range."""
        if place is not None:
            return self._row(place), self._space.act(place.offset, radio.lever)
        return self._landmark(radio.beacon), self._space.zero

    def sighting(self, pending: PendingSighting) -> str:
        """T_kf_instant p: exact in geometry, without the noise of the odometry in between."""
        place = pending.places[0]
        assert place is not None
        self._sightings.append((
            self._row(place), self._landmark(pending.landmark),
            self._space.act(place.offset, pending.position), pending.variance, pending.stamp_ns))
        self._newest_ns = max(self._newest_ns, pending.stamp_ns)
        return ''

    def closure(self, pending: PendingClosure) -> str:
        """T_kf_from_kf_to = T_kf_from T_from_to T_to_kf."""
        space, noise = self._space, self._shared.noise
        start, end = pending.places
        assert start is not None and end is not None
        if (start.robot, start.number) == (end.robot, end.number):
            return 'same_keyframe'
        back = space.between(end.offset, space.identity)
        covariance = pending.covariance
        if back != space.identity:
            covariance = noise.append(
                covariance, pending.motion, back, noise.isotropic(0.0, 0.0))
        move, turn = noise.variances(covariance)
        bounded = self._shared.bounds.variances('closures', move, turn)
        if bounded[0] > move or bounded[1] > turn:
            self._shared.counters.closures.warnings['too_certain'] += 1
        self._relative.append((
            self._row(start), self._row(end),
            space.compose(start.offset, space.compose(pending.motion, back)), *bounded, False,
            pending.stamp_ns))
        return ''

    def fix(self, pending: PendingFix) -> str:
        """A position with its lever arm from the keyframe, or the pose of the keyframe in map."""
        space, place = self._space, pending.places[0]
        assert place is not None
        if pending.pose is None:
            self._point_priors.append((
                self._row(place), space.act(place.offset, pending.lever), pending.position,
                pending.translation_variance, pending.stamp_ns))
        else:
            back = space.between(place.offset, space.identity)
            self._pose_priors.append((
                self._row(place), space.compose(pending.pose, back),
                pending.translation_variance, pending.rotation_variance, pending.stamp_ns))
        return ''

    def height(self, pending: PendingHeight) -> str:
        """The height of a point of the robot, with its lever arm from the keyframe."""
        place = pending.places[0]
        assert place is not None
        if self._frozen(place, pending):
            return 'frozen'
        self._heights.append((
            self._row(place), self._space.act(place.offset, pending.lever), pending.height_m,
            pending.variance, pending.stamp_ns))
        self._newest_ns = max(self._newest_ns, pending.stamp_ns)
        return ''

    def _frozen(self, place: Attachment, pending: PendingHeight) -> bool:
        """Compare a height with the odometry of its robot; True where the sensor is frozen.

        Odometry that claims gravity and is not aligned with it is told, and says nothing of the
        vertical from then on.
        """
        config, robot, events = self._shared.config, place.robot, self._shared.events
        name, track = config.robots[robot], self._tracks[robot]
        if not config.claims_gravity(name):
            return False
        check = self._checks.get((robot, pending.source))
        if check is None:
            check = self._checks[robot, pending.source] = LevelCheck(
                config.odometry.sigma_m_per_sqrt_m)
        pose = self._space.compose(track.keyframe_poses[place.number], place.offset)
        check.add(
            bisect.bisect_right(track.segments, place.number),
            self._space.act(pose, pending.lever), pending.height_m, pending.variance,
            pending.reading, pose[2])
        tilt = check.tilt_rad()
        if tilt:
            self._tilts[robot] = self._odometry_heights[robot] = None
            self._unlevelled.add(name)
            events.add(pending.stamp_ns, Finding(
                'odometry_tilted', name, f'the odometry of {name} says that its z axis points up, '
                f'but its {pending.source} has it tilted by {math.degrees(tilt):.0f} degrees: its '
                f'roll and pitch are not used from now on; set odometry.sensor_poses, or '
                f'odometry.vertical_of.{name}: free', tilt, 'rad'))
        # Of odometry that is tilted z is not up.
        step = 0.0 if self._tilts[robot] is None else check.step_m()
        if step:
            events.add(pending.stamp_ns, Finding(
                'altimeter_step', name, f'the {pending.source} of {name} stepped by {step:+.1f} m '
                f'while {name} did not: what is below is not the floor', step, 'm'))
        frozen = check.frozen and self._tilts[robot] is not None
        if frozen:
            events.add(pending.stamp_ns, Finding(
                'altimeter_frozen', name, f'the {pending.source} of {name} says the same height '
                f'while {name} climbs or sinks: its readings are not used'))
        return frozen

    def attitude(self, pending: PendingAttitude) -> str:
        """The vertical as the keyframe sees it."""
        space, place = self._space, pending.places[0]
        assert place is not None
        if self._turned_imu(place, pending):
            return 'turned'
        turn = (*space.zero, *place.offset[space.dimension:])
        self._verticals.append((
            self._row(place), space.act(turn, pending.up), pending.variance, pending.stamp_ns))
        self._newest_ns = max(self._newest_ns, pending.stamp_ns)
        return ''

    def _turned_imu(self, place: Attachment, pending: PendingAttitude) -> bool:
        """Compare an attitude with the odometry of its robot; True once the IMU is turned."""
        config, robot = self._shared.config, place.robot
        check = self._mounts.get(robot)
        if check is None:
            check = self._mounts[robot] = MountCheck(config.odometry.sigma_rad_per_sqrt_m)
        track = self._tracks[robot]
        pose = self._space.compose(track.keyframe_poses[place.number], place.offset)
        check.add(
            bisect.bisect_right(track.segments, place.number), np.array(rotation_rows(pose[3:])),
            pose[:3], pending.up, pending.variance)
        turn, name = check.turn(), config.robots[robot]
        if turn is not None:
            self._unlevelled.add(name)
            mount = Rotation.from_matrix(turn) * Rotation.from_euler(
                'xyz', config.attitudes.mounts.get(name, [0.0, 0.0, 0.0]))
            degrees = float(np.degrees(Rotation.from_matrix(turn).magnitude()))
            angles = ', '.join(f'{angle:.1f}' for angle in mount.as_euler('xyz'))
            self._shared.events.add(pending.stamp_ns, Finding(
                'imu_turned', name, f'the IMU of {name} is turned against its base by '
                f'{degrees:.0f} degrees: its roll and pitch are not used from now on; '
                f'attitudes.mounts.{name}: [{angles}] would fit', math.radians(degrees), 'rad'))
        return name in self._unlevelled

    def _row(self, place: Attachment) -> int:
        return self._tracks[place.robot].rows[place.number]

    def _landmark(self, name: str) -> int:
        """Endpoint of a landmark, which may be new."""
        number = self._landmarks.get(name)
        if number is None:
            number = self._landmarks[name] = len(self._landmarks)
            self._new_landmarks.append(name)
        return ~number

    # -- tables ----------------------------------------------------------------------------------

    def finish(self) -> Increment | None:
        """The increment; None = it would be empty."""
        landmarks = self._take_landmarks()
        tables: dict[str, Any] = {
            'relative_poses': self._relative_table(), 'sightings': self._sightings_table(),
            'ranges': self._ranges_table(), 'pose_priors': self._pose_priors_table(),
            'point_priors': self._point_priors_table(), 'verticals': self._verticals_table(),
            'heights': self._heights_table(),
        }
        if not len(self._poses) and not len(landmarks) and not any(map(len, tables.values())):
            return None
        increment = Increment(
            self._sequence, tuple(self._shared.config.robots), self._poses, landmarks,
            newest_stamp_ns=self._newest_ns, unlevelled=tuple(sorted(self._unlevelled)),
            **tables)
        self._sequence += 1
        return increment

    def _take_landmarks(self) -> Landmarks:
        """Beacons met since the last increment; a known one with a sigma gets a prior."""
        beacons = [self._shared.radios.beacon(name) for name in self._new_landmarks]
        position = np.full((len(beacons), self._space.dimension), np.nan)
        for row, beacon in enumerate(beacons):
            if beacon.position is None:
                self._hang(beacon)
                continue
            position[row] = beacon.position
            if not beacon.fixed:
                self._point_priors.append((
                    ~self._landmarks[beacon.name], self._space.zero, beacon.position,
                    beacon.sigma_m**2, 0))
        return Landmarks(tuple(self._new_landmarks), position,
                         np.array([b.fixed for b in beacons], dtype=bool))

    def _hang(self, beacon: Beacon) -> None:
        """Add the prior on the height of a beacon at an unknown position."""
        config = self._shared.config
        if self._space.dimension != 3:
            return
        height, sigma = beacon.height_m, beacon.sigma_m or BEACON_HEIGHT_SIGMA_M
        if not math.isfinite(height):
            # Only where robots measure heights there is a height 0.
            measured = config.heights.inputs or config.odometry.height == 'trusted'
            height, sigma = 0.0, config.heights.beacon_sigma_m if measured else 0.0
        if sigma:
            self._heights.append((
                ~self._landmarks[beacon.name], self._space.zero, height, sigma**2, 0))

    def _kappa(self, rotation_variance: tuple[float, ...]) -> Array:
        """As `graph.precision.kappa_from_covariance` for variances per axis."""
        variance = np.array(rotation_variance)
        return 1 / variance if self._space.dimension == 2 else 0.5 / variance

    def _relative_table(self) -> RelativePoses:
        if not self._relative:
            return empty(RelativePoses, self._space.dimension)
        i, j, motion, move, turn, odometry, stamp = zip(*self._relative, strict=True)
        rotation, translation = self._space.arrays(motion)
        return RelativePoses(
            _index(i), _index(j), rotation, translation, self._kappa(turn), 1 / np.array(move),
            np.array(odometry, dtype=bool), _index(stamp))

    def _ranges_table(self) -> Ranges:
        if not self._ranges:
            return empty(Ranges, self._space.dimension)
        source, target, first, second, distance, variance, stamp = zip(*self._ranges, strict=True)
        return Ranges(_index(source), _index(target), _floats(first), _floats(second),
                      _floats(distance), 1 / _floats(variance), _index(stamp))

    def _sightings_table(self) -> Sightings:
        if not self._sightings:
            return empty(Sightings, self._space.dimension)
        i, point, position, variance, stamp = zip(*self._sightings, strict=True)
        return Sightings(_index(i), _index(point), _floats(position), 1 / _floats(variance),
                         _index(stamp))

    def _pose_priors_table(self) -> PosePriors:
        if not self._pose_priors:
            return empty(PosePriors, self._space.dimension)
        i, pose, move, turn, stamp = zip(*self._pose_priors, strict=True)
        rotation, translation = self._space.arrays(pose)
        return PosePriors(_index(i), rotation, translation, self._kappa(turn),
                          1 / np.array(move), _index(stamp))

    def _point_priors_table(self) -> PointPriors:
        if not self._point_priors:
            return empty(PointPriors, self._space.dimension)
        point, lever, position, variance, stamp = zip(*self._point_priors, strict=True)
        return PointPriors(_index(point), _floats(lever), _floats(position),
                           1 / _floats(variance), _index(stamp))

    def _verticals_table(self) -> Verticals:
        if not self._verticals:
            return empty(Verticals, self._space.dimension)
        i, up, variance, stamp = zip(*self._verticals, strict=True)
        return Verticals(_index(i), _floats(up), 1 / _floats(variance), _index(stamp))

    def _heights_table(self) -> Heights:
        if not self._heights:
            return empty(Heights, self._space.dimension)
        point, lever, height, variance, stamp = zip(*self._heights, strict=True)
        return Heights(_index(point), _floats(lever), _floats(height), 1 / _floats(variance),
                       _index(stamp))


def _index(values: Any) -> Index:
    return np.array(values, dtype=np.int64)


def _floats(values: Any) -> Array:
    return np.array(values, dtype=float)
