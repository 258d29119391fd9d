"""Sightings of landmarks: checked, moved from the sensor to the base of the robot, thinned where
they flood, and waiting for odometry."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..graph.finding import Finding
from .clocks import nanoseconds
from .frames import mounted
from .motion import Pose, Space, Vector, rotation_rows
from .noise import fault
from .radios import Misspelt, Radio, Strangers
from .samples import SightingSample
from .waiting import Intake, Pending, RateLimit, Shared, StampOrder

_SPACE = Space()
UNKNOWN_FRAME = 'unknown_frame'
"""Why a sighting is refused until something says where its frame sits."""
MAX_WAITING = 10000
"""Sightings that wait for odometry; further ones are refused."""
MAX_KNOWN = 10000
"""Sightings that are remembered, to know a second copy."""
MAX_SOURCES = 10000
"""Robots times frames times landmarks whose newest sighting is remembered."""


@dataclass
class PendingSighting(Pending):
    """A sighting that passed the checks."""

    frame: str
    ends: tuple[Radio, ...]
    """The landmark, as the radio that may sit on it."""
    position: Vector
    """(d,) in the base frame of the robot at that instant."""
    variance: float

    @property
    def robot(self) -> int:
        assert self.instants[0] is not None
        return self.instants[0][0]

    @property
    def landmark(self) -> str:
        return self.ends[0].beacon


class SightingGate:
    """Checks a sighting and moves it into the base frame of the robot."""

    def __init__(self, shared: Shared) -> None:
        config = self._config = shared.config
        self._options = config.sightings
        self._frames = shared.frames
        self._bounds = shared.bounds
        self._space = shared.space
        self._radios = shared.radios
        self._counters = shared.counters.sightings
        self._robots = shared.robots
        self._bases = {name: config.topic(config.frames.base, name).lstrip('/')
                       for name in config.robots}
        self._sensors = mounted(config.sightings.sensor_poses)

    def check(self, sample: SightingSample, stamp_ns: int) -> PendingSighting | str:
        """The sighting in the configured dimension, or why it is refused."""
        o, space = self._options, self._space
        landmark = self._radios.landmark(
            sample.landmark, ignore_unknown=o.unknown_landmarks == 'ignore')
        if landmark is None:
            return 'unknown_landmark' if sample.landmark else 'no_landmark'
        if landmark.robot:
            return 'robot_seen'
        position = sample.position_xyz.tolist()
        reason = self._bounds.place_fault(position)
        if reason:
            return reason
        distance = math.hypot(*position)
        if distance < o.min_m:
            return 'too_near'
        if distance > o.max_m:
            return 'too_far'
        sensor = self._sensor(sample)
        if sensor is None:
            return UNKNOWN_FRAME
        return PendingSighting(
            stamp_ns, ((self._robots[sample.robot], stamp_ns),), sample.frame_id, (landmark,),
            space.vector(_SPACE.act(sensor, tuple(position))),
            self._bounds.variance('sightings', self._variance(sample, sensor, distance)))

    def _sensor(self, sample: SightingSample) -> Pose | None:
        """T_base_sensor of the frame that the position is in; None = not known."""
        frame = sample.frame_id.lstrip('/')
        known = self._sensors.get(frame) or self._sensors.get(sample.robot)
        if known is None and frame in ('', self._bases[sample.robot]):
            return _SPACE.identity
        return known or self._frames.on_robot(self._config, sample.robot, frame)

    def _variance(self, sample: SightingSample, sensor: Pose, distance: float) -> float:
        """Mean variance per axis of the dimension, m^2."""
        o, d = self._options, self._space.dimension
        own = o.sigma_m**2 + (o.sigma_per_m * distance) ** 2
        if not o.use_message_covariance:
            return own
        if not np.any(sample.covariance):
            return own
        turn, full = np.array(rotation_rows(sensor[3:])), np.eye(6)
        with np.errstate(invalid='ignore', over='ignore'):  # judged below
            full[:3, :3] = turn @ sample.covariance @ turn.T
        reason = fault(full, d)
        if reason:
            self._counters.warnings[f'covariance_{reason}'] += 1
            return own
        return float(np.mean(np.diagonal(full)[:d]))


class Sightings(Intake[PendingSighting]):
    """All sightings of landmarks on their way to keyframes."""

    kind = 'sightings'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        options, radios = shared.config.sightings, shared.radios
        self._frames, self._revision = shared.frames, shared.frames.revision
        self._unplaced: deque[tuple[SightingSample, int]] = deque()
        """Sightings in frames that nothing is known of yet, with their stamps."""
        self._gate = SightingGate(shared)
        self._interval_ns = nanoseconds(options.min_interval_s)
        self._order: StampOrder[PendingSighting] = StampOrder(
            nanoseconds(shared.config.stamps.reorder_window_s))
        self._limit = RateLimit(options.max_total_rate_hz, options.max_total_rate_hz)
        self._misspelt = Misspelt(radios.configured, 'landmark')
        self._strangers: Strangers[PendingSighting] = Strangers(
            options.new_landmark_sightings, shared.config.ranges.max_new_beacons, radios,
            self.counters, self._misspelt, 'sightings')
        self._known: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._last_ns: OrderedDict[tuple[int, str, str], int] = OrderedDict()

    def add(self, sample: SightingSample, stamp_ns: int) -> bool:
        """Take in a sighting by a known robot with its stamp in data time."""
        counters = self.counters
        pending = self._gate.check(sample, stamp_ns)
        if pending == UNKNOWN_FRAME and counters.waiting < MAX_WAITING:
            # /tf_static may come behind the first pictures.
            self._unplaced.append((sample, stamp_ns))
            counters.waiting += 1
            return True
        if isinstance(pending, str):
            return counters.drop(pending)
        key = (pending.robot, pending.landmark, stamp_ns, pending.position)
        if key in self._known:
            return counters.drop('duplicate')
        if counters.waiting >= MAX_WAITING:
            return counters.drop('too_many_waiting')
        _remember(self._known, key, None, MAX_KNOWN)
        self._order.push(pending, (pending.robot, pending.landmark))
        counters.waiting += 1
        self._clock.follow(stamp_ns)
        return True

    def attached(self, newest_ns: int, flush: bool) -> list[PendingSighting]:
        """The sightings whose time has come and that have keyframes; others wait or are dropped."""
        self._place(newest_ns, flush)
        self._waiting += self._strangers.passed(self._in_rate(newest_ns, flush), flush)
        return super().attached(newest_ns, flush)

    def _place(self, newest_ns: int, flush: bool) -> None:
        """Look again at sightings in unknown frames; those that waited too long are dropped."""
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

    def _in_rate(self, newest_ns: int, flush: bool) -> Iterator[PendingSighting]:
        """The sightings whose time has come, without those that are too many."""
        for pending in self._order.released(newest_ns, flush):
            reason = self._too_often(pending)
            if reason:
                self._drop(reason)
            else:
                yield pending

    def _too_often(self, pending: PendingSighting) -> str:
        """Why a sighting is one too many, or ''."""
        key = (pending.robot, pending.frame, pending.landmark)
        last = self._last_ns.get(key)
        if last is not None and pending.stamp_ns - last < self._interval_ns:
            return 'decimated'
        name = self._config.robots[pending.robot]
        if self._limit.exceeded(pending.stamp_ns, (name, pending.landmark)):
            self._events.add(pending.stamp_ns, Finding(
                'sighting_flood', name, 'sightings come faster than '
                'sightings.max_total_rate_hz: dropped'))
            return 'rate_limit'
        _remember(self._last_ns, key, pending.stamp_ns, MAX_SOURCES)
        return ''

    def findings(self) -> tuple[Finding, ...]:
        """Floods of unknown names."""
        return self._strangers.findings()

    def hints(self) -> tuple[str, ...]:
        """Names of landmarks that look mistyped, in words."""
        return self._misspelt.texts


def _remember(table: OrderedDict, key: object, value: object, most: int) -> None:
    """Put an entry last; the oldest goes where there are too many."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)
