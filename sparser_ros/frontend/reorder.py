"""Messages of one source that arrive out of order, sorted again."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

T = TypeVar('T')

MEMORY_NS = 30_000_000_000
"""After this much data time without late messages nothing waits any more."""
LATENESS_FACTOR = 1.2
"""Wait longer than the latest message was late: the next one may be a bit later still."""


class ReorderBuffer(Generic[T]):
    """Holds messages back, but only while recent ones were late, and as long as those were late.

    Data in order pass at once.
    """

    def __init__(self, max_hold_ns: int) -> None:
        self._max_hold_ns = max_hold_ns
        self._hold_ns = 0
        self._late_at_ns = 0
        self._serial = 0
        self._heap: list[tuple[int, int, T]] = []
        self.newest_ns = 0

    def __len__(self) -> int:
        return len(self._heap)

    def holds(self, stamp_ns: int) -> bool:
        """True if a message of that stamp waits already."""
        return any(entry[0] == stamp_ns for entry in self._heap)

    def late(self, stamp_ns: int) -> None:
        """Note that a message came behind newer ones; also for one that was not pushed."""
        lateness = self.newest_ns - stamp_ns
        if lateness > 2 * self._max_hold_ns:
            return  # no waiting helps against a source that is as late as that
        wanted_ns = max(self._hold_ns, round(LATENESS_FACTOR * lateness))
        self._hold_ns = min(wanted_ns, self._max_hold_ns)
        self._late_at_ns = self.newest_ns

    def push(self, stamp_ns: int, item: T) -> list[T]:
        """Take a message in; returns those whose turn has come, in the order of their stamps."""
        if stamp_ns < self.newest_ns:
            self.late(stamp_ns)
        self.newest_ns = max(self.newest_ns, stamp_ns)
        if self.newest_ns - self._late_at_ns > MEMORY_NS:
            self._hold_ns = 0
        self._serial += 1
        heapq.heappush(self._heap, (stamp_ns, self._serial, item))
        return self._release(self.newest_ns - self._hold_ns)

    def flush(self) -> list[T]:
        """All that wait."""
        return self._release(self.newest_ns)

    def _release(self, until_ns: int) -> list[T]:
        ready = []
        while self._heap and self._heap[0][0] <= until_ns:
            ready.append(heapq.heappop(self._heap)[-1])
        return ready
