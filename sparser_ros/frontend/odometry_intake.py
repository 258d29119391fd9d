"""Odometry messages: checked, sorted, believed within reason, and appended to the tracks."""

from __future__ import annotations

import functools
import math
from collections import deque

from ..config import SparserConfig
from ..graph.finding import Finding
from .bounds import Bounds
from .counters import KindCounters
from .events import EventLog
from .motion import Geometry, bad_quaternion
from .mountings import Held, Mountings
from .noise import noise_model
from .odometry import OdometryTrack
from .odometry_gate import Believed, OdometryGate
from .samples import OdometrySample
from .stamps import MAX_STAMP_NS, DataClock, nanoseconds
from .static_frames import StaticFrames
from .steps import Reading

SILENT_NS = 5_000_000_000
"""A robot whose odometry stays behind the data of the others by this much is named."""
RATIO_SPAN_M = 20.0
"""Way over which the speed of messages is compared with their poses: 1 % of jitter is 0.2 m."""
RATIO_LIMIT = 0.05
"""Relative difference of the two that is named: wheel radii are known to a few per cent."""
JUDGED, FEW = 21, 2
"""Newest messages of a robot; where most of them, and more than a few, are no poses, none is
believed."""


class TwistCheck:
    """The speed that messages state against the way that their poses go."""

    def __init__(self) -> None:
        self._steps: deque[tuple[float, float]] = deque()
        self._way = self._stated = 0.0

    def add(self, seconds: float, distance_m: float, speed: float) -> None:
        """Take note of a step; an unknown or zero speed says nothing, nor does an absurd one, in
        whose sum all others would be lost."""
        stated_m = speed * seconds
        if not 0.0 < stated_m < RATIO_SPAN_M or seconds <= 0:
            return
        self._steps.append((distance_m, stated_m))
        self._way += distance_m
        self._stated += stated_m
        while self._stated - self._steps[0][1] >= RATIO_SPAN_M:
            way, stated = self._steps.popleft()
            self._way -= way
            self._stated -= stated

    @property
    def ratio(self) -> float:
        """Way of the poses over way of the speeds; 1 until there is enough of it."""
        return self._way / self._stated if self._stated >= RATIO_SPAN_M else 1.0


class OdometryIntake:
    """The odometry of all robots on its way to their tracks."""

    def __init__(self, config: SparserConfig, space: Geometry, bounds: Bounds, clock: DataClock,
                 counters: KindCounters, events: EventLog, frames: StaticFrames) -> None:
        self._config = config
        self._space = space
        self._bounds = bounds
        self._clock = clock
        self._counters = counters
        self._events = events
        self._back_ns = nanoseconds(config.stamps.backward_jump_s)
        self._mountings = Mountings(config, frames)
        self._told_late: set[tuple[str, str]] = set()
        self._ahead_ns = nanoseconds(config.stamps.max_future_s) or MAX_STAMP_NS
        noise = noise_model(config.dimension)
        self.tracks = [OdometryTrack(number, config, space, noise)
                       for number in range(len(config.robots))]
        self._gates = [
            OdometryGate(robot, config.odometry, space, functools.partial(self._accept, number),
                         self._drop, events.add)
            for number, robot in enumerate(config.robots)]
        self._twists = [TwistCheck() for _ in config.robots]
        self._backward: dict[int, tuple[int, int]] = {}
        """(messages that follow one another, last stamp) since odometry last went on forwards."""
        self._absurd: dict[str, deque[bool]] = {
            robot: deque(maxlen=JUDGED) for robot in config.robots}
        """Which of the newest messages are no poses."""
        self._present = 0
        """What the clock had counted of messages of the present at the last of these."""
        self.time_jump = False
        """True since all that comes has gone back in time, and stayed there."""
        self._frames_seen: set[tuple[str, str, str]] = set()

    def fault(self, sample: OdometrySample) -> str:
        """Why a message is no pose, or ''."""
        quat = sample.quat_xyzw.tolist()
        reason = self._bounds.place_fault(sample.position_xyz.tolist()) or bad_quaternion(quat)
        if not reason and abs(math.hypot(*quat) - 1) > 0.01:
            self._counters.warnings['quaternion_norm'] += 1
        absurd = self._absurd[sample.robot]
        absurd.append(bool(reason))
        # An angle in all four components has norm 1 by chance now and then.
        return reason or (
            'among_absurd' if sum(absurd) > max(len(absurd) / 2, FEW) else '')

    def add(self, number: int, sample: OdometrySample, stamp_ns: int) -> bool:
        """Take in a checked message with its stamp in data time."""
        ready = self._mountings.hold(number, sample, stamp_ns)
        if not ready:
            self._counters.waiting += 1
            return True
        self._add_held(ready[:-1])
        return self._offer(number, sample, stamp_ns)

    def _add_held(self, held: list[Held]) -> None:
        for number, sample, stamp_ns in held:
            self._counters.waiting -= 1
            self._offer(number, sample, stamp_ns)

    def look_at_frames(self) -> None:
        """There are new constant transforms."""
        self._add_held(self._mountings.found())
        for robot, frame in self._mountings.late():
            if (robot, frame) not in self._told_late:
                self._told_late.add((robot, frame))
                self._events.add(self._clock.newest_ns, Finding(
                    'frame_late', robot, f'where {frame} sits on {robot} came after its odometry '
                    'had begun, which counts as that of the base until a reset'))

    def _offer(self, number: int, sample: OdometrySample, stamp_ns: int) -> bool:
        gate, counters = self._gates[number], self._counters
        if gate.knows(stamp_ns):
            return counters.drop('duplicate')
        pose = self._space.pose(*self._mountings.base(
            sample.robot, sample.child_frame_id, sample.position_xyz.tolist(),
            sample.quat_xyzw.tolist()))
        reading = Reading(stamp_ns, pose, sample.pose_covariance, sample.twist_covariance,
                          sample.twist_speed)
        if stamp_ns < gate.frontier_ns:
            return self._older(number, gate, reading)
        self._backward.clear()
        self._check_frames(sample)
        counters.waiting += 1
        refused = counters.dropped.total()
        gate.offer(reading)
        return counters.dropped.total() == refused or gate.last is reading

    def _older(self, number: int, gate: OdometryGate, reading: Reading) -> bool:
        """A message older than others of its robot."""
        counters = self._counters
        far = gate.frontier_ns - reading.stamp_ns > self._back_ns
        counters.waiting += 1
        # A first message of all that is far ahead has a wrong stamp.
        if (far or gate.last is not None) and gate.offer_older(reading):
            return True
        counters.waiting -= 1
        if not far:
            gate.late(reading.stamp_ns)
            if not self.tracks[number].insert(reading):
                return counters.drop('out_of_order')
            counters.accepted += 1
            counters.warnings['late'] += 1
            return True
        return self._backwards(number, reading.stamp_ns, gate.frontier_ns - reading.stamp_ns)

    def _backwards(self, number: int, stamp_ns: int, back_ns: int) -> bool:
        """A message far older than others of its robot: a bad stamp, a clock set back, a bag
        that starts again. The last two are believed when such messages follow one another in time
        while nothing comes that is stamped with the present."""
        name = self._config.robots[number]
        if self._clock.present != self._present:
            self._backward.clear()
            self._present = self._clock.present
        count, last_ns = self._backward.get(number, (0, stamp_ns - 1))
        count = count + 1 if 0 < stamp_ns - last_ns < self._ahead_ns else 1
        self._backward[number] = count, stamp_ns
        if not self.time_jump and count >= self._config.stamps.jump_messages:
            self.time_jump = True
        self._events.add(self._clock.newest_ns, Finding(
            'odometry_backwards', name, f'the stamps of the odometry of {name} went back by '
            f'{back_ns * 1e-9:.1f} s: such messages are dropped', back_ns * 1e-9, 's'))
        return self._counters.drop('time_backwards')

    def _accept(self, number: int, believed: Believed) -> None:
        track, reading = self.tracks[number], believed.reading
        if track.stamps and not believed.new_segment:
            step = self._space.between(track.poses[-1], reading.pose)
            self._twists[number].add((reading.stamp_ns - track.stamps[-1]) * 1e-9,
                                     self._space.distance(step), reading.twist_speed)
        warning = track.add(believed)
        if warning:
            self._counters.warnings[warning] += 1
        self._clock.advance(reading.stamp_ns)
        self._counters.waiting -= 1
        self._counters.accepted += 1

    def _drop(self, reason: str) -> None:
        self._counters.waiting -= 1
        self._counters.drop(reason)

    def flush(self) -> None:
        """No more data for now: what waits is decided."""
        self._add_held(self._mountings.flush())
        for gate in self._gates:
            gate.flush()

    def _check_frames(self, sample: OdometrySample) -> None:
        seen = (sample.robot, sample.frame_id, sample.child_frame_id)
        if seen in self._frames_seen or len(self._frames_seen) >= 1000:
            return
        self._frames_seen.add(seen)
        for frame, expected in zip(seen[1:], self._frames(*seen), strict=True):
            if frame.lstrip('/') != expected:
                self._counters.warnings['frame_id'] += 1

    def _frames(self, robot: str, _frame: str, child: str) -> tuple[str, str]:
        """The frames expected; that of a sensor is not known by name."""
        frames = self._config.frames
        base = child.lstrip('/') if self._mountings.known(robot, child) else self._config.topic(
            frames.base, robot)
        return self._config.topic(frames.odom, robot), base

    def frame_warning(self) -> str:
        """Frame names of messages that differ from the configured ones, in words."""
        for robot, frame, child in sorted(self._frames_seen):
            expected = self._frames(robot, frame, child)
            if (frame.lstrip('/'), child.lstrip('/')) != expected:
                return (f'odometry of {robot} has frames {frame!r} and {child!r}, but frames.odom '
                        f'and frames.base say {expected[0]!r} and {expected[1]!r}')
        return ''

    def findings(self) -> tuple[Finding, ...]:
        """Robots whose odometry is silent, or contradicts itself, right now."""
        found, newest = [], self._clock.newest_ns
        for name, track, twist in zip(
                self._config.robots, self.tracks, self._twists, strict=True):
            if track.stamps and newest - track.stamps[-1] > SILENT_NS:
                seconds = (newest - track.stamps[-1]) * 1e-9
                found.append(Finding(
                    'odometry_silent', name,
                    f'the odometry of {name} has been silent for {seconds:.1f} s', seconds, 's'))
            if abs(twist.ratio - 1) > RATIO_LIMIT:
                found.append(Finding(
                    'odometry_twist', name, f'the poses in the odometry of {name} go '
                    f'{twist.ratio:.2f} times as far as its own speeds say', twist.ratio, ''))
        return tuple(found)
