"""Sightings of landmarks: checked, moved from the sensor to the base of the robot, thinned where
they flood, and waiting for odometry."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from ..graph import Sightings as SightingTable
from ..graph.finding import Finding
from .assembly import MAX_WAITING, Assembly, Shared, remember
from .beacons import BeaconIntake, PendingBeacon
from .frames import mounted
from .motion import Pose, Space, Vector, believed_m2, fault, place_fault, rotation_rows
from .samples import SightingSample

_SPACE = Space()
UNKNOWN_FRAME = 'unknown_frame'
"""Why a sighting is refused until something says where its frame sits."""


@dataclass
class PendingSighting(PendingBeacon):
    frame: str
    position: Vector
    """(d,) in the base frame of the robot at that instant."""
    variance: float


class Sightings(BeaconIntake[PendingSighting]):
    """All sightings of landmarks on their way to keyframes."""

    kind = 'sightings'
    noun, nouns = 'landmark', 'landmarks'
    limits = 'sightings.max_total_rate_hz'

    def __init__(self, shared: Shared) -> None:
        options = self._options = shared.config.sightings
        super().__init__(
            shared, 0, (options.max_total_rate_hz, options.max_total_rate_hz),
            options.min_interval_s, options.new_landmark_sightings)
        self._frames, self._revision = shared.frames, shared.frames.revision
        self._unplaced: deque[tuple[SightingSample, int]] = deque()
        """Sightings in frames that nothing is known of yet, with their stamps."""
        self._sensors = mounted(options.sensor_poses)
        self._known: OrderedDict[tuple[object, ...], None] = OrderedDict()

    def add(self, sample: SightingSample, stamp_ns: int) -> bool:
        """Take in a sighting by a known robot; one in an unknown frame waits for /tf_static, which
        may come behind the first pictures."""
        pending = self.check(sample, stamp_ns)
        if pending == UNKNOWN_FRAME and self.counters.waiting < MAX_WAITING:
            self._unplaced.append((sample, stamp_ns))
            self.counters.waiting += 1
            return True
        return self._taken(pending)

    def check(self, sample: SightingSample, stamp_ns: int) -> PendingSighting | str:
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
            return UNKNOWN_FRAME
        robot = self._robots[sample.robot]
        pending = PendingSighting(
            stamp_ns, ((robot, stamp_ns),), (landmark,), sample.frame_id,
            self._space.vector(_SPACE.act(sensor, tuple(position))),
            believed_m2(o, self._variance(sample, sensor, distance)))
        key = (robot, landmark.beacon, stamp_ns, pending.position)
        if key in self._known:
            return 'duplicate'
        remember(self._known, key)
        return pending

    def _hold(self, pending: PendingSighting) -> None:
        self._order.push(pending, (pending.instants[0], pending.ends[0].beacon))
        self._clock.follow(pending.stamp_ns)

    def _sensor(self, robot: str, frame: str) -> Pose | None:
        """T_base_frame of the frame that a position is in; None = not known."""
        known = self._sensors.get(frame) or self._sensors.get(robot)
        if known is None and frame in ('', self._config.topic(self._config.frames.base, robot)):
            return _SPACE.identity
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

    def _sorted(self, flush: bool) -> list[PendingSighting]:
        """As of any intake, after another look at sightings in unknown frames; those that waited
        too long are dropped."""
        newest_ns = self._clock.newest_ns
        if self._revision != self._frames.revision:
            self._revision = self._frames.revision
            waiting, self._unplaced = self._unplaced, deque()
            for sample, stamp_ns in waiting:
                self.counters.waiting -= 1
                self.add(sample, stamp_ns)
        while self._unplaced and (
                flush or newest_ns - self._unplaced[0][1] > self._timeout_ns):
            sample, _ = self._unplaced.popleft()
            self._drop(UNKNOWN_FRAME)
            self._events.add(newest_ns, Finding(
                'sighting_frame', sample.robot,
                f'sightings of {sample.robot} are in the frame {sample.frame_id!r}; neither '
                'sightings.sensor_poses nor /tf_static says where that is: dropped'))
        return list(super()._sorted(flush))

    def _source(self, pending: PendingSighting) -> tuple[Hashable, tuple[str, str]]:
        robot, landmark = pending.instants[0], pending.ends[0].beacon
        assert robot is not None
        return (robot[0], pending.frame, landmark), (self._config.robots[robot[0]], landmark)

    def row(self, pending: PendingSighting, assembly: Assembly) -> str:
        """T_kf_instant p: exact in geometry, without the noise of the odometry in between."""
        place = pending.place
        assembly.add(
            SightingTable, assembly.row(place), assembly.landmark(pending.ends[0].beacon),
            self._space.act(place.offset, pending.position), 1 / pending.variance,
            pending.stamp_ns)
        return ''
