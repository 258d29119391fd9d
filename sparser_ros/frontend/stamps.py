"""Data time: stamps that are missing, shifted or absurd, and how far the data have come."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping

from ..config.frontend_config import StampsConfig
from .clocks import Source, SourceClocks

REMEMBERED_LAGS = 101
"""Lags whose median is the lag of the sources: some seconds at usual rates."""
LEAST_STAMPED = 5
"""Stamped messages after which the lag of the sources counts as known."""
UNSTAMPED_WAIT_NS = 2_000_000_000
"""Reception time without any stamp after which times of reception count as they are."""
MAX_STAMP_NS = 1 << 62
"""Stamps beyond 146 years after the epoch are none; sums of two such still fit 64 bits."""


def nanoseconds(seconds: float) -> int:
    """Seconds as int nanoseconds."""
    return round(seconds * 1e9)


def offset_ns(offsets: Mapping[str, float], name: str) -> int:
    """Configured time offset of a source; "*" stands for every source not named."""
    if not offsets:
        return 0
    return nanoseconds(offsets.get(name, offsets.get('*', 0.0)))


class DataClock:
    """The newest stamp seen, and the usual lag between a stamp and its reception.

    A source without stamps (0) gets its reception time minus the median lag of the sources that
    have them, so that it lives on their clock even in a bag recorded long after the fact.

    A stamp far ahead of all data and of its own reception is refused, for one message would make
    everything else look too old. Only when the odometry goes on ahead, message after message, and
    no source says otherwise meanwhile, has time really jumped.
    """

    def __init__(self, options: StampsConfig) -> None:
        self.newest_ns = 0
        self.first_ns = 0
        self.clocks = SourceClocks(options)
        self.ahead_ns = 0
        """By how much the last stamp that `place` refused was ahead of the data."""
        self.present = 0
        """Stamped messages of any source so far that were not long before the newest data."""
        self._back_ns = nanoseconds(options.backward_jump_s)
        self._max_future_ns = nanoseconds(options.max_future_s)
        self._jump_messages = options.jump_messages
        self._ahead: dict[Source, tuple[int, int]] = {}
        """(count, last stamp) of the messages ahead since the last one that was not."""
        self._lags: deque[int] = deque()
        self._sorted: list[int] = []
        self._newest_received_ns = 0
        self._no_stamps_at_all = False

    @property
    def lag_ns(self) -> int | None:
        """Median of reception time minus stamp; None = not known yet."""
        if len(self._sorted) >= LEAST_STAMPED:
            return self._median_ns
        return 0 if self._no_stamps_at_all else None

    @property
    def _median_ns(self) -> int:
        return self._sorted[len(self._sorted) // 2]

    def place(self, stamp_ns: int, received_ns: int, source: Source) -> int | str | None:
        """A stamp in data time; a text = why there is none; None = ask again after `settle`."""
        if not -MAX_STAMP_NS < stamp_ns < MAX_STAMP_NS \
                or not -MAX_STAMP_NS < received_ns < MAX_STAMP_NS:
            return 'stamp_out_of_bounds'
        self._newest_received_ns = max(self._newest_received_ns, received_ns)
        if stamp_ns > 0:
            if received_ns > 0:
                self.clocks.note(source, stamp_ns, received_ns)
            stamp_ns += self.clocks.shift_ns(source)
            if self._refuses(stamp_ns, received_ns, source):
                return 'in_the_future'
            if received_ns > 0:
                self._observe(received_ns - stamp_ns)
            self.present += stamp_ns >= self.newest_ns - self._back_ns
            return stamp_ns
        if received_ns <= 0 or stamp_ns < 0:
            return 'no_stamp'
        lag = self.lag_ns
        return None if lag is None else received_ns - lag

    def _refuses(self, stamp_ns: int, received_ns: int, source: Source) -> bool:
        """True for a stamp ahead of the data that nothing confirms."""
        expected = received_ns - self._median_ns if received_ns > 0 and self._sorted \
            else self.newest_ns
        if not self.beyond(stamp_ns) or stamp_ns <= expected + self._max_future_ns:
            if source.kind == 'odometry':
                self._ahead.clear()
            return False
        count, last_ns = self._ahead.get(source, (0, stamp_ns))
        count = count + 1 if abs(stamp_ns - last_ns) <= self._max_future_ns else 1
        self._ahead[source] = (count, stamp_ns)
        if source.kind == 'odometry' and count > self._jump_messages:
            return False
        self.ahead_ns = stamp_ns - self.newest_ns
        return True

    def _observe(self, lag_ns: int) -> None:
        self._lags.append(lag_ns)
        bisect.insort(self._sorted, lag_ns)
        if len(self._lags) > REMEMBERED_LAGS:
            del self._sorted[bisect.bisect_left(self._sorted, self._lags.popleft())]

    def settle(self, received_ns: int, flush: bool) -> bool:
        """True if a message without stamp, received then, can be placed now.

        Where no source has shown stamps for two seconds, reception times count as they are.
        """
        if self.lag_ns is None and (
                flush or self._newest_received_ns - received_ns > UNSTAMPED_WAIT_NS):
            self._no_stamps_at_all = True
        return self.lag_ns is not None

    def beyond(self, stamp_ns: int) -> bool:
        """True for a stamp that data time will not reach for long."""
        return bool(self._max_future_ns and self.newest_ns
                    and stamp_ns > self.newest_ns + self._max_future_ns)

    def advance(self, stamp_ns: int) -> None:
        """The data have come at least this far."""
        self.first_ns = self.first_ns or stamp_ns
        if stamp_ns > self.newest_ns:
            self.newest_ns = stamp_ns

    def follow(self, stamp_ns: int) -> None:
        """As `advance`, once odometry has begun: a first range may have any stamp."""
        if self.newest_ns:
            self.advance(stamp_ns)
