"""Range messages: checked, sorted, thinned where they flood, and waiting for odometry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ..config import SparserConfig
from ..graph.finding import Finding
from .admission import Misspelt, RateLimit, Strangers
from .bounds import Bounds
from .counters import KindCounters
from .events import EventLog
from .odometry import Attachment, OdometryTrack
from .radios import Radio, Radios
from .range_filter import PendingRange, RangeFilter, pair_of
from .samples import RangeSample
from .stamps import DataClock, nanoseconds
from .static_frames import StaticFrames
from .temporal_filter import TemporalFilter
from .units import UnitCheck
from .waiting import Waiting, WaitingList

LEAST_SELF_RANGES, SELF_SHARE = 20, 0.5
"""Number and share of ranges within one robot that are no accident but a wrong configuration."""


class RangeIntake:
    """All ranges on their way to keyframes."""

    def __init__(
        self, config: SparserConfig, radios: Radios, tracks: list[OdometryTrack], bounds: Bounds,
        clock: DataClock, counters: KindCounters, events: EventLog, frames: StaticFrames,
    ) -> None:
        self._robots = {name: number for number, name in enumerate(config.robots)}
        self._radios = radios
        self._tracks = tracks
        self._clock = clock
        self._counters = counters
        self._events = events
        self._units = UnitCheck()
        self.filter = RangeFilter(config, radios, counters, bounds, frames)
        options = config.ranges
        self._limit = RateLimit(options.max_rate_hz, options.max_total_rate_hz)
        window_s = options.temporal_window_s
        self._temporal = TemporalFilter(
            window_s, options.temporal_mads) if window_s > 0 else None
        self._misspelt = Misspelt(radios.configured)
        self._strangers: Strangers[PendingRange] = Strangers(
            options.new_beacon_ranges, options.max_new_beacons, radios, counters, self._misspelt,
            'ranges')
        self._waiting: WaitingList[PendingRange] = WaitingList(
            tracks, nanoseconds(config.stamps.timeout_s), counters)

    def look(self, sample: RangeSample) -> None:
        """Judge the unit of a range, whether or not it is taken."""
        if 0 < sample.range_m < math.inf:
            pair = (sample.source, sample.target)
            self._units.add(sample.range_m, pair, sum(map(self._travelled, pair)))

    def _travelled(self, radio: str) -> float:
        number = self._robots.get(self._radios.robot_of(radio))
        return 0.0 if number is None else self._tracks[number].travelled_m

    def add(self, sample: RangeSample, stamp_ns: int) -> bool:
        """Take in a range with its stamp in data time."""
        if not self.filter.add(sample, stamp_ns):
            return False
        self._clock.follow(stamp_ns)
        return True

    def detach(self) -> None:
        """Look for all keyframes anew: their numbers have changed."""
        self._waiting.detach()

    def resolve(self, flush: bool,
                accept: Callable[[PendingRange, list[Attachment | None]], str]) -> None:
        """Hand over the ranges whose time has come and whose odometry is there."""
        newest = self._clock.newest_ns
        for admitted in self._strangers.passed(self._in_rate(newest, flush), flush):
            self._wait(admitted)
        self._waiting.resolve(newest, flush, accept)

    def _in_rate(self, newest_ns: int, flush: bool) -> Iterator[PendingRange]:
        """The ranges whose time has come, without those that are too many."""
        for pending in self._in_line(self.filter.release(newest_ns, flush), newest_ns, flush):
            pair = self._limit.exceeded(pending.stamp_ns, pair_of(pending))
            if not pair:
                yield pending
                continue
            self._counters.waiting -= 1
            self._counters.drop('rate_limit')
            self._events.add(pending.stamp_ns, Finding(
                'range_flood', pair, f'ranges {pair} come faster than the limits of '
                'ranges.max_rate_hz and ranges.max_total_rate_hz: dropped'))

    def _in_line(
        self, ready: list[PendingRange], newest_ns: int, flush: bool
    ) -> list[PendingRange]:
        """The ranges that go with their neighbours in time; the others are counted and dropped."""
        if self._temporal is None:
            return ready
        passed, dropped = self._temporal.sort(ready, newest_ns - self.filter.delay_ns, flush)
        for _ in dropped:
            self._counters.waiting -= 1
            self._counters.drop('off_in_time')
        return passed

    def _wait(self, pending: PendingRange) -> None:
        self._waiting.add(Waiting(pending, tuple(
            self._instant(end, pending.stamp_ns) for end in pending.ends)))

    def _instant(self, end: Radio, stamp_ns: int) -> tuple[int, int] | None:
        return (self._robots[end.robot], stamp_ns) if end.robot else None

    def findings(self) -> tuple[Finding, ...]:
        """Wrong units, and floods of unknown names."""
        return (*self._units.findings(), *self._strangers.findings())

    def hints(self) -> tuple[str, ...]:
        """Names of radios that look mistyped, and radios on the wrong robot, in words."""
        refused, received = self._counters.dropped['self_range'], self._counters.received
        if refused < LEAST_SELF_RANGES or refused < SELF_SHARE * received:
            return self._misspelt.texts
        owners = '; '.join(f'{owner}: {", ".join(names)}'
                           for owner, names in self._radios.shared.items())
        why = (f'`radios` of the configuration puts both on one robot or beacon ({owners}). A '
               'beacon needs `beacon: NAME` there in place of `robot: NAME`; `sparser info BAG '
               '--config NEW.yaml` drafts the entries from a recording' if owners else
               'both ends have the same name: see ranges.inputs')
        return (*self._misspelt.texts, f'{refused} of {received} ranges are refused as ranges of a '
                f'radio to itself: {why}')
