"""Measured poses and places on their way to keyframes: loop closures, which wait for the odometry
of both instants, fixes, and sightings of landmarks, moved from the sensor to the base of the robot.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from ..array_types import Array
from ..graph import PointPriors, PosePriors, RelativePoses
from ..graph import Sightings as SightingTable
from ..graph.finding import Finding
from .assembly import Assembly, Instant, Intake, Pending, Shared
from .beacons import BeaconIntake, PendingBeacon
from .clocks import offset_ns
from .frames import mounting
from .motion import (
    SPACE,
    Covariance,
    Pose,
    Vector,
    bad_quaternion,
    believed,
    believed_m2,
    fault,
    place_fault,
    rotation_rows,
)
from .samples import MAX_STAMP_NS, ClosureSample, FixSample, SightingSample


class Closures(Intake):
    """Loop closures on their way to keyframes."""

    kind = 'closures'

    def check(self, sample: ClosureSample, stamp_ns: int) -> Pending | str:
        options, space = self._config.closures, self._space
        instants = self._instants(sample)
        if isinstance(instants, str):
            return instants
        position, quat = sample.position_xyz.tolist(), sample.quat_xyzw.tolist()
        reason = place_fault(position, quat)
        if reason:
            return reason
        if sample.confidence < options.min_confidence:
            return 'low_confidence'
        motion = space.pose(position, quat)
        if options.max_translation_m and space.distance(motion) > options.max_translation_m:
            return 'too_long'
        reason = fault(sample.covariance, space.dimension)
        if reason and reason != 'zero':
            self.counters.warnings[f'covariance_{reason}'] += 1
        covariance = space.isotropic(options.sigma_m**2, options.sigma_rad**2) if reason \
            else space.covariance(sample.covariance)
        if self._second_copy(frozenset(instants)):
            return 'duplicate'
        return Pending(
            max(sample.from_stamp_ns, sample.to_stamp_ns), instants, (motion, covariance))

    def _instants(self, sample: ClosureSample) -> tuple[Instant, Instant] | str:
        """Its two ends in the time of the robots' odometry, or why there are none."""
        numbers, clocks = self._shared.numbers, self._config.odometry.time_offsets
        if sample.from_robot not in numbers or sample.to_robot not in numbers:
            return 'unknown_robot'
        if sample.from_stamp_ns <= 0 or sample.to_stamp_ns <= 0:
            return 'no_stamp'
        if max(sample.from_stamp_ns, sample.to_stamp_ns) > MAX_STAMP_NS:
            return 'stamp_out_of_bounds'
        shift = offset_ns(self._config.closures.time_offsets, sample.detector)
        from_ns = sample.from_stamp_ns + shift + offset_ns(clocks, sample.from_robot)
        to_ns = sample.to_stamp_ns + shift + offset_ns(clocks, sample.to_robot)
        if self._clock.beyond(max(from_ns, to_ns)):
            return 'in_the_future'
        return (numbers[sample.from_robot], from_ns), (numbers[sample.to_robot], to_ns)

    def row(self, assembly: Assembly, pending: Pending, motion: Pose, covariance: Covariance
            ) -> str:
        """T_kf_from_kf_to = T_kf_from T_from_to T_to_kf."""
        space, start, end = self._space, pending.places[0], pending.places[1]
        if (start.robot, start.number) == (end.robot, end.number):
            return 'same_keyframe'
        back = space.between(end.offset, space.identity)
        if back != space.identity:
            covariance = space.appended(covariance, motion, back, space.isotropic(0.0, 0.0))
        move, turn = space.variances(covariance)
        bounded = believed(self._config.closures, move, turn)
        if bounded[0] > move or bounded[1] > turn:
            self.counters.warnings['too_certain'] += 1
        assembly.add(
            RelativePoses, assembly.row(start), assembly.row(end),
            space.compose(start.offset, space.compose(motion, back)),
            assembly.kappa(bounded[1]), 1 / bounded[0], False, pending.stamp_ns)
        return ''


class Fixes(Intake):
    """Absolute positions and poses on their way to keyframes."""

    kind = 'fixes'

    def check(self, sample: FixSample, stamp_ns: int) -> Pending | str:
        space, options = self._space, self._config.fixes
        position = sample.position_xyz.tolist()
        reason = place_fault(position[: space.dimension])
        if reason:
            return reason
        if sample.satellite and 0 < options.max_distance_m < math.hypot(*position):
            return 'far_from_datum'
        if sample.frame_id and sample.frame_id.lstrip('/') != self._config.frames.map:
            return 'wrong_frame'
        arm, source, interval_s = None, (sample.robot, sample.initial), 0.0
        # What somebody gave by hand has no antenna, no rate and no clock of a sensor.
        if sample.initial:
            stamp_ns -= offset_ns(options.time_offsets, sample.robot)
        else:
            interval_s = options.min_interval_s
            arm = options.lever_arms.get(sample.robot) or (self._shared.frames.on_robot(
                self._config, sample.robot, sample.antenna) if sample.antenna else None)
        lever = space.vector([*map(float, arm or (0.0, 0.0)), 0.0])
        spread, pose = np.diagonal(sample.covariance), None
        # In space the button of RViz says 0 for what it does not know: z, roll and pitch.
        flat = sample.initial and space.dimension == 3 and not np.any(spread[2:5])
        if flat:
            spread = np.array([*spread[:2], options.sigma_m**2, *spread[[5, 5, 5]]])
        move, turn = self._position_variance(spread), self._heading_variance(sample, spread)
        if turn is not None and sample.quat_xyzw is not None:
            _, turn = believed(options, move, turn)
            quat = sample.quat_xyzw.tolist()
            reason = bad_quaternion(quat)
            if reason:
                return reason
            mount = (*(-c for c in lever), *space.identity[space.dimension:])
            pose = space.compose(space.pose(position, quat), mount)
        return self._one_too_many(source, stamp_ns, interval_s) or self._of_robot(
            sample.robot, stamp_ns, pose, space.vector(position), lever, move, turn, flat)

    def _position_variance(self, spread: Array) -> float:
        """Mean variance per axis of the dimension, m^2, of the variances (6,) of a pose."""
        spread = spread[:self._space.dimension]
        with np.errstate(over='ignore', invalid='ignore'):
            # Finite extremes may add up to infinity, which is refused below.
            move = float(np.mean(spread))
        if not math.isfinite(move) or np.any(spread <= 0):
            zero = math.isfinite(move) and not np.any(spread)
            self.counters.warnings['covariance_zero' if zero else 'covariance_unusable'] += 1
            move = self._config.fixes.sigma_m**2
        bounded = believed_m2(self._config.fixes, move)
        if bounded > move:
            self.counters.warnings['too_certain'] += 1
        return bounded

    def _heading_variance(self, sample: FixSample, spread: Array) -> float | None:
        """Variance per axis of the rotation, of the variances (6,) of a pose; None = it is not to
        be used."""
        options = self._config.fixes
        use = 'auto' if sample.initial else options.use
        if use == 'position' or sample.quat_xyzw is None:
            return None
        turn = math.nan
        diagonal = spread[5 if self._space.dimension == 2 else 3:]
        if np.all(diagonal > 0):
            turn = float(np.mean(diagonal))
        usable = math.isfinite(turn)
        if use == 'pose':
            return turn if usable else options.sigma_rad**2
        return turn if usable and turn < options.max_heading_sigma_rad**2 else None

    def row(self, assembly: Assembly, pending: Pending, pose: Pose | None, position: Vector,
            lever: Vector, move: float, turn: float, flat: bool) -> str:
        """A position (of the antenna) with its lever arm from the keyframe, or the pose of the
        keyframe in map; variances per axis. One that says no height (`flat`) is at that of the
        odometry."""
        space, place = self._space, pending.places[0]
        if flat:
            height = self._shared.tracks[place.robot].odometry_at(place)[1][2]
            position = (*position[:2], height)
            pose = (*pose[:2], height, *pose[3:]) if pose else None
        if pose is None:
            assembly.add(PointPriors, assembly.row(place), space.act(place.offset, lever),
                         position, 1 / move, pending.stamp_ns)
        else:
            back = space.between(place.offset, space.identity)
            assembly.add(PosePriors, assembly.row(place), space.compose(pose, back),
                         assembly.kappa(turn), 1 / move, pending.stamp_ns)
        return ''


class Sightings(BeaconIntake):
    """All sightings of landmarks on their way to keyframes."""

    kind = 'sightings'
    noun = 'landmark'
    limits = 'sightings.max_total_rate_hz'

    def __init__(self, shared: Shared) -> None:
        options = self._options = shared.config.sightings
        super().__init__(
            shared, 0, (options.max_total_rate_hz, options.max_total_rate_hz),
            options.min_interval_s, options.new_landmark_sightings)
        self._frames, self._revision = shared.frames, shared.frames.revision
        self._unplaced: deque[tuple[SightingSample, int]] = deque()
        """Sightings in frames that nothing is known of yet, with their stamps."""
        self._sensors = {name.lstrip('/'): mounting(values)
                         for name, values in options.sensor_poses.items() if values}

    def check(
        self, sample: SightingSample, stamp_ns: int
    ) -> PendingBeacon | tuple[SightingSample, int] | str:
        """A sighting in an unknown frame stays as it is and waits for /tf_static, which may come
        behind the first pictures."""
        o, position = self._options, sample.position_xyz.tolist()
        landmark = self._radios.find(sample.landmark, o.unknown_landmarks == 'ignore')
        if landmark is None:
            return 'unknown_landmark' if sample.landmark else 'no_landmark'
        if landmark.robot:
            return 'robot_seen'
        distance = math.hypot(*position)
        reason = place_fault(position) or (
            'too_near' if distance < o.min_m else 'too_far' if distance > o.max_m else '')
        if reason:
            return reason
        sensor = self._sensor(sample.robot, sample.frame_id.lstrip('/'))
        if sensor is None:
            return sample, stamp_ns
        robot, name = self._shared.numbers[sample.robot], landmark.beacon
        place = self._space.vector(SPACE.act(sensor, tuple(position)))
        variance = believed_m2(o, self._variance(sample, sensor, distance))
        if self._second_copy((robot, name, stamp_ns, place)):
            return 'duplicate'
        return PendingBeacon(
            stamp_ns, ((robot, stamp_ns),), (place, variance), (landmark,),
            (robot, sample.frame_id, name), (sample.robot, name))

    def _hold(self, pending: Any) -> None:
        if isinstance(pending, PendingBeacon):
            self._order.push(pending, (pending.instants[0], pending.ends[0].beacon))
            self._clock.follow(pending.stamp_ns)
        else:
            self._unplaced.append(pending)

    def _sensor(self, robot: str, frame: str) -> Pose | None:
        """T_base_frame of the frame that a position is in; None = not known."""
        known = self._sensors.get(frame) or self._sensors.get(robot)
        if known is None and frame in ('', self._config.topic(self._config.frames.base, robot)):
            return SPACE.identity
        return known or self._frames.on_robot(self._config, robot, frame)

    def _variance(self, sample: SightingSample, sensor: Pose, distance: float) -> float:
        """Mean variance per axis of the dimension, m^2."""
        o, d = self._options, self._space.dimension
        own = o.sigma_m**2 + (o.sigma_per_m * distance) ** 2
        if not np.any(sample.covariance):
            return own
        turn, full = np.array(rotation_rows(sensor[3:])), np.eye(6)
        with np.errstate(invalid='ignore', over='ignore'):  # judged below
            full[:3, :3] = turn @ sample.covariance @ turn.T
        reason = fault(full, d)
        if reason:
            self.counters.warnings[f'covariance_{reason}'] += 1
            return own
        return float(np.mean(np.diagonal(full)[:d]))

    def _sorted(self, flush: bool) -> list[PendingBeacon]:
        """As of any intake, after another look at sightings in unknown frames; those that waited
        too long are dropped."""
        newest_ns = self._clock.newest_ns
        if self._revision != self._frames.revision:
            self._revision = self._frames.revision
            waiting, self._unplaced = self._unplaced, deque()
            for sample, stamp_ns in waiting:
                self.add(sample, stamp_ns)
        while self._unplaced and (flush or newest_ns - self._unplaced[0][1] > self._timeout_ns):
            sample, _ = self._unplaced.popleft()
            self.counters.drop('unknown_frame')
            self._events.add(newest_ns, Finding(
                'sighting_frame', sample.robot,
                f'sightings of {sample.robot} are in the frame {sample.frame_id!r}; neither '
                'sightings.sensor_poses nor /tf_static says where that is: dropped'))
        return list(super()._sorted(flush))

    def row(self, assembly: Assembly, pending: PendingBeacon, position: Vector, variance: float
            ) -> str:
        """T_kf_instant p: exact in geometry, without the noise of the odometry in between.

        `position` (d,) in the base frame at that instant; variance per axis.
        """
        place = pending.places[0]
        assembly.add(SightingTable, assembly.row(place), assembly.landmark(pending.ends[0].beacon),
                     self._space.act(place.offset, position), 1 / variance, pending.stamp_ns)
        return ''
