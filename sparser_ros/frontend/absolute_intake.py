"""Closure and fix messages: checked, and waiting for the odometry of their instants."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from ..config import SparserConfig
from .absolute import ClosureGate, FixGate, PendingClosure, PendingFix
from .counters import KindCounters
from .odometry import Attachment, OdometryTrack
from .samples import ClosureSample, FixSample
from .stamps import MAX_STAMP_NS, DataClock, nanoseconds, offset_ns
from .waiting import Waiting, WaitingList

MAX_WAITING = 10000
"""Closures, or fixes, that wait for odometry; further ones are refused."""
MAX_KNOWN = 100000
"""Closures that are remembered, to know a second copy."""


class ClosureIntake:
    """Loop closures on their way to keyframes."""

    def __init__(self, config: SparserConfig, gate: ClosureGate, tracks: list[OdometryTrack],
                 clock: DataClock, counters: KindCounters) -> None:
        self._config = config
        self._robots = {name: number for number, name in enumerate(config.robots)}
        self._gate = gate
        self._clock = clock
        self._counters = counters
        self._known: OrderedDict[tuple[int, int, int, int], None] = OrderedDict()
        self._waiting: WaitingList[PendingClosure] = WaitingList(
            tracks, nanoseconds(config.stamps.timeout_s), counters)

    def add(self, sample: ClosureSample) -> bool:
        """Take in a closure; both of its stamps are required."""
        counters = self._counters
        start, end = (self._robots.get(r) for r in (sample.from_robot, sample.to_robot))
        if start is None or end is None:
            return counters.drop('unknown_robot')
        stamps = self._stamps(sample)
        if isinstance(stamps, str):
            return counters.drop(stamps)
        from_ns, to_ns = stamps
        pending = self._gate.check(sample)
        if isinstance(pending, str):
            return counters.drop(pending)
        key = (start, from_ns, end, to_ns)
        if key in self._known or (end, to_ns, start, from_ns) in self._known:
            return counters.drop('duplicate')
        if counters.waiting >= MAX_WAITING:
            return counters.drop('too_many_waiting')
        self._known[key] = None
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        counters.waiting += 1
        self._waiting.add(Waiting(pending, ((start, from_ns), (end, to_ns))))
        return True

    def _stamps(self, sample: ClosureSample) -> tuple[int, int] | str:
        """The two instants in the time of the robots' odometry, or why there are none."""
        if sample.from_stamp_ns <= 0 or sample.to_stamp_ns <= 0:
            return 'no_stamp'
        if max(sample.from_stamp_ns, sample.to_stamp_ns) > MAX_STAMP_NS:
            return 'stamp_out_of_bounds'
        shift = offset_ns(self._config.closures.time_offsets, sample.detector)
        clocks = self._config.odometry.time_offsets
        from_ns = sample.from_stamp_ns + shift + offset_ns(clocks, sample.from_robot)
        to_ns = sample.to_stamp_ns + shift + offset_ns(clocks, sample.to_robot)
        return 'in_the_future' if self._clock.beyond(max(from_ns, to_ns)) else (from_ns, to_ns)

    def detach(self) -> None:
        """Look for all keyframes anew: their numbers have changed."""
        self._waiting.detach()

    def resolve(self, flush: bool,
                accept: Callable[[PendingClosure, list[Attachment | None]], str]) -> None:
        """Hand over the closures whose odometry is there."""
        self._waiting.resolve(self._clock.newest_ns, flush, accept)


class FixIntake:
    """Absolute positions and poses on their way to keyframes."""

    def __init__(self, config: SparserConfig, gate: FixGate, tracks: list[OdometryTrack],
                 clock: DataClock, counters: KindCounters) -> None:
        self._robots = {name: number for number, name in enumerate(config.robots)}
        self._gate = gate
        self._clock = clock
        self._counters = counters
        self._interval_ns = nanoseconds(config.fixes.min_interval_s)
        self._last_ns: dict[int, int] = {}
        self._waiting: WaitingList[PendingFix] = WaitingList(
            tracks, nanoseconds(config.stamps.timeout_s), counters)

    def add(self, sample: FixSample, stamp_ns: int) -> bool:
        """Take in a fix of a known robot with its stamp in data time."""
        counters, number = self._counters, self._robots[sample.robot]
        pending = self._gate.check(sample, stamp_ns)
        if isinstance(pending, str):
            return counters.drop(pending)
        last = self._last_ns.get(number)
        if stamp_ns == last:
            return counters.drop('duplicate')
        if last is not None and abs(stamp_ns - last) < self._interval_ns:
            return counters.drop('decimated')
        if counters.waiting >= MAX_WAITING:
            return counters.drop('too_many_waiting')
        self._last_ns[number] = stamp_ns
        self._clock.follow(stamp_ns)
        counters.waiting += 1
        self._waiting.add(Waiting(pending, ((number, stamp_ns),)))
        return True

    def detach(self) -> None:
        """Look for all keyframes anew: their numbers have changed."""
        self._waiting.detach()

    def resolve(self, flush: bool,
                accept: Callable[[PendingFix, list[Attachment | None]], str]) -> None:
        """Hand over the fixes whose odometry is there."""
        self._waiting.resolve(self._clock.newest_ns, flush, accept)
