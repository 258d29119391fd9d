"""Loop closures: checked, and waiting for the odometry of both instants."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from .clocks import MAX_STAMP_NS, offset_ns
from .motion import Pose
from .noise import fault
from .samples import ClosureSample
from .waiting import Instant, Intake, Pending, Shared

MAX_WAITING = 10000
"""Closures that wait for odometry; further ones are refused."""
MAX_KNOWN = 100000
"""Closures that are remembered, to know a second copy."""


@dataclass
class PendingClosure(Pending):
    """A closure that passed the checks."""

    motion: Pose
    """T_from_to at the stamps of the message."""
    covariance: Any


class Closures(Intake[PendingClosure]):
    """Loop closures on their way to keyframes."""

    kind = 'closures'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._space = shared.space
        self._noise = shared.noise
        self._bounds = shared.bounds
        self._known: OrderedDict[tuple[Instant, Instant], None] = OrderedDict()

    def add(self, sample: ClosureSample) -> bool:
        """Take in a closure; both of its stamps are required."""
        pending = self._checked(sample)
        if isinstance(pending, str):
            return self.counters.drop(pending)
        start, end = pending.instants
        assert start is not None and end is not None
        if (start, end) in self._known or (end, start) in self._known:
            return self.counters.drop('duplicate')
        if self.counters.waiting >= MAX_WAITING:
            return self.counters.drop('too_many_waiting')
        self._known[start, end] = None
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        self.counters.waiting += 1
        self._waiting.append(pending)
        return True

    def _checked(self, sample: ClosureSample) -> PendingClosure | str:
        """The closure in the configured dimension, or why it is refused."""
        options, space = self._config.closures, self._space
        instants = self._instants(sample)
        if isinstance(instants, str):
            return instants
        position, quat = sample.position_xyz.tolist(), sample.quat_xyzw.tolist()
        reason = self._bounds.pose_fault(position, quat)
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
        covariance = self._noise.isotropic(options.sigma_m**2, options.sigma_rad**2) if reason \
            else self._noise.of(sample.covariance)
        return PendingClosure(
            max(sample.from_stamp_ns, sample.to_stamp_ns), instants, motion, covariance)

    def _instants(self, sample: ClosureSample) -> tuple[Instant, Instant] | str:
        """Its two ends in the time of the robots' odometry, or why there are none."""
        start, end = (self._robots.get(name) for name in (sample.from_robot, sample.to_robot))
        if start is None or end is None:
            return 'unknown_robot'
        if sample.from_stamp_ns <= 0 or sample.to_stamp_ns <= 0:
            return 'no_stamp'
        if max(sample.from_stamp_ns, sample.to_stamp_ns) > MAX_STAMP_NS:
            return 'stamp_out_of_bounds'
        shift = offset_ns(self._config.closures.time_offsets, sample.detector)
        clocks = self._config.odometry.time_offsets
        from_ns = sample.from_stamp_ns + shift + offset_ns(clocks, sample.from_robot)
        to_ns = sample.to_stamp_ns + shift + offset_ns(clocks, sample.to_robot)
        if self._clock.beyond(max(from_ns, to_ns)):
            return 'in_the_future'
        return (start, from_ns), (end, to_ns)
