"""Gives every sample its place in data time; what has no stamp waits until that place is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..config import SparserConfig
from ..graph.finding import Finding
from .clocks import Source
from .events import EventLog
from .samples import FixSample, OdometrySample, RangeSample, SightingSample
from .stamps import DataClock, offset_ns

MAX_UNSTAMPED = 10000
Unplaced = OdometrySample | RangeSample | SightingSample | FixSample
KIND = {OdometrySample: 'odometry', SightingSample: 'sightings', FixSample: 'fixes'}
"""Of the samples that a robot sends."""


class Stamping:
    """Stamps on the clock of the data, offsets of the configuration included."""

    def __init__(self, config: SparserConfig, clock: DataClock, events: EventLog,
                 robot_of: Callable[[str], str]) -> None:
        self._config = config
        self._by_arrival = frozenset(config.stamps.by_arrival)
        self._clock = clock
        self._events = events
        self._robot_of = robot_of
        self._waiting: deque[Unplaced] = deque()

    def source(self, sample: Unplaced) -> Source:
        """Who sent a sample."""
        if isinstance(sample, RangeSample):
            return Source('ranges', sample.source, self._robot_of(sample.source))
        return Source(KIND[type(sample)], sample.robot, sample.robot)

    def stamp(self, sample: Unplaced) -> int | str | None:
        """The stamp in data time, why there is none, or None = the sample waits here."""
        source = self.source(sample)
        if not self._by_arrival.isdisjoint((source.name, '*')):
            sample = replace(sample, stamp_ns=0)
        stamp_ns = self._clock.place(sample.stamp_ns, sample.received_ns, source)
        if stamp_ns is None or (self._waiting and sample.stamp_ns == 0
                                and not isinstance(stamp_ns, str)):
            if len(self._waiting) >= MAX_UNSTAMPED:
                return 'no_stamp'
            self._waiting.append(sample)
            return None
        if stamp_ns == 'in_the_future':
            seconds = self._clock.ahead_ns * 1e-9
            self._events.add(self._clock.newest_ns, Finding(
                'stamp_ahead', source.name, f'a message of {source.words} had a stamp {seconds:.1f}'
                ' s ahead of all other data: dropped', seconds, 's'))
        if isinstance(stamp_ns, str):
            return stamp_ns
        return stamp_ns + self._offset(sample)

    def _offset(self, sample: Unplaced) -> int:
        config = self._config
        if isinstance(sample, RangeSample):
            return offset_ns(config.ranges.time_offsets, sample.source)
        offsets: Mapping[str, float] = getattr(config, KIND[type(sample)]).time_offsets
        return offset_ns(offsets, sample.robot)

    def settled(self, flush: bool) -> list[tuple[Unplaced, int]]:
        """Samples without stamp that can be placed by now, with their stamps, oldest first."""
        placed: list[tuple[Unplaced, int]] = []
        while self._waiting and self._clock.settle(self._waiting[0].received_ns, flush):
            sample = self._waiting.popleft()
            stamp_ns = self._clock.place(0, sample.received_ns, self.source(sample))
            assert isinstance(stamp_ns, int)
            placed.append((sample, stamp_ns + self._offset(sample)))
        return placed
