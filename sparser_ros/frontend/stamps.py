"""Data time: stamps that are missing, shifted or absurd, and how far the data have come."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping

from ..config.frontend import StampsConfig

WINDOW = 101
ENOUGH = 5
"""Stamped messages after which the lag of the sources counts as known."""


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
    """

    def __init__(self, options: StampsConfig) -> None:
        self.newest_ns = 0
        self._max_future_ns = nanoseconds(options.max_future_s)
        self._lags: deque[int] = deque()
        self._sorted: list[int] = []
        self._newest_received_ns = 0

    @property
    def lag_ns(self) -> int | None:
        """Median of reception time minus stamp; None = not known yet."""
        return self._sorted[len(self._sorted) // 2] if len(self._sorted) >= ENOUGH else None

    def observe(self, stamp_ns: int, received_ns: int) -> None:
        """Learn from one stamped message."""
        if not stamp_ns or not received_ns:
            return
        lag = received_ns - stamp_ns
        self._lags.append(lag)
        bisect.insort(self._sorted, lag)
        if len(self._lags) > WINDOW:
            del self._sorted[bisect.bisect_left(self._sorted, self._lags.popleft())]

    def received(self, received_ns: int) -> None:
        """Note a reception time, stamped or not."""
        self._newest_received_ns = max(self._newest_received_ns, received_ns)

    @property
    def newest_received_ns(self) -> int:
        return self._newest_received_ns

    def absurd(self, stamp_ns: int, received_ns: int) -> bool:
        """True for a stamp far ahead of what all the other sources say."""
        lag = self.lag_ns
        return bool(self._max_future_ns and lag is not None
                    and stamp_ns > received_ns - lag + self._max_future_ns)

    def beyond(self, stamp_ns: int) -> bool:
        """True for a stamp that data time will not reach for long."""
        return bool(self._max_future_ns and self.newest_ns
                    and stamp_ns > self.newest_ns + self._max_future_ns)

    def advance(self, stamp_ns: int) -> None:
        """The data have come at least this far."""
        if stamp_ns > self.newest_ns:
            self.newest_ns = stamp_ns
