"""Sightings of landmarks: checked, moved from the sensor to the base of the robot, thinned where
they flood, and waiting for odometry."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from ..graph import Sightings as SightingTable
from ..graph.finding import Finding
from .assembly import Assembly, Shared
from .beacons import BeaconIntake, PendingBeacon
from .frames import mounting
from .motion import SPACE, Pose, Vector, believed_m2, fault, place_fault, rotation_rows
from .samples import SightingSample


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
