"""Odometry messages: checked, moved to the base of the robot, and handed to the gates."""

from __future__ import annotations

import math
from collections import deque

from ..graph.finding import Finding
from .clocks import MAX_STAMP_NS, nanoseconds
from .frames import Mountings, Unmounted
from .odometry_gate import OdometryGate
from .samples import OdometrySample
from .track import Reading
from .waiting import Shared

SILENT_NS = 5_000_000_000
"""A robot whose odometry stays behind the data of the others by this much is named."""
RATIO_LIMIT = 0.05
"""Relative difference of the way of the poses and of the speeds that is named: wheel radii are
known to a few per cent."""
JUDGED, FEW = 21, 2
"""Newest messages of a robot; where most of them, and more than a few, are no poses, none is
believed."""
MAX_FRAME_NAMES = 1000
"""Names of frames that are remembered."""


class Odometry:
    """The odometry of all robots on its way to their tracks."""

    def __init__(self, shared: Shared) -> None:
        config = self._config = shared.config
        self._space = shared.space
        self._bounds = shared.bounds
        self._clock = shared.clock
        self._counters = shared.counters.odometry
        self._events = shared.events
        self._back_ns = nanoseconds(config.stamps.backward_jump_s)
        self._ahead_ns = nanoseconds(config.stamps.max_future_s) or MAX_STAMP_NS
        self._mountings = Mountings(config, shared.frames)
        self._told_late: set[tuple[str, str]] = set()
        self._gates = [OdometryGate(robot, track, shared)
                       for robot, track in zip(config.robots, shared.tracks, strict=True)]
        self._backward: dict[int, tuple[int, int]] = {}
        """(messages that follow one another, last stamp) since odometry last went on forwards."""
        self._absurd: dict[str, deque[bool]] = {
            robot: deque(maxlen=JUDGED) for robot in config.robots}
        """True for each of the newest messages that is no pose, by robot."""
        self._present = 0
        """Count of messages of the present, by the clock, at the last of these."""
        self.time_jump = False
        """True since all that comes has gone back in time, and stayed there."""
        self._frames_seen: set[tuple[str, str, str]] = set()

    def fault(self, sample: OdometrySample) -> str:
        """Why a message is no pose, or ''."""
        quat = sample.quat_xyzw.tolist()
        reason = self._bounds.pose_fault(sample.position_xyz.tolist(), quat)
        if not reason and abs(math.hypot(*quat) - 1) > 0.01:
            self._counters.warnings['quaternion_norm'] += 1
        absurd = self._absurd[sample.robot]
        absurd.append(bool(reason))
        # An angle in all four components has norm 1 by chance now and then.
        return reason or (
            'among_absurd' if sum(absurd) > max(len(absurd) / 2, FEW) else '')

    def add(self, number: int, sample: OdometrySample, stamp_ns: int) -> bool:
        """Take in a checked message with its stamp in data time."""
        ready = self._mountings.offer(number, sample, stamp_ns)
        if not ready:
            self._counters.waiting += 1
            return True
        self._add_released(ready[:-1])
        return self._offer(number, sample, stamp_ns)

    def _add_released(self, messages: list[Unmounted]) -> None:
        for number, sample, stamp_ns in messages:
            self._counters.waiting -= 1
            self._offer(number, sample, stamp_ns)

    def look_at_frames(self) -> None:
        """There are new constant transforms."""
        self._add_released(self._mountings.released(flush=False))
        for robot, frame in self._mountings.late():
            if (robot, frame) not in self._told_late:
                self._told_late.add((robot, frame))
                self._events.add(self._clock.newest_ns, Finding(
                    'frame_late', robot, f'where {frame} sits on {robot} came after its odometry '
                    'had begun, which counts as that of the base until a reset'))

    def flush(self) -> None:
        """No more data for now: what waits is decided."""
        self._add_released(self._mountings.released(flush=True))
        for gate in self._gates:
            gate.flush()

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
            if not gate.track.insert(reading):
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

    def _check_frames(self, sample: OdometrySample) -> None:
        seen = (sample.robot, sample.frame_id, sample.child_frame_id)
        if seen in self._frames_seen or len(self._frames_seen) >= MAX_FRAME_NAMES:
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
        findings, newest = [], self._clock.newest_ns
        for name, gate in zip(self._config.robots, self._gates, strict=True):
            stamps, ratio = gate.track.stamps, gate.twist.ratio
            if stamps and newest - stamps[-1] > SILENT_NS:
                seconds = (newest - stamps[-1]) * 1e-9
                findings.append(Finding(
                    'odometry_silent', name,
                    f'the odometry of {name} has been silent for {seconds:.1f} s', seconds, 's'))
            if abs(ratio - 1) > RATIO_LIMIT:
                findings.append(Finding(
                    'odometry_twist', name, f'the poses in the odometry of {name} go '
                    f'{ratio:.2f} times as far as its own speeds say', ratio, ''))
        return tuple(findings)
