"""How fast a graph grows: the time that its newest growth has taken."""

from __future__ import annotations

import math
from collections import deque


class GrowthClock:
    """Remembers when how many measurements were there."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, measurements: int, now_s: float) -> None:
        """There are so many measurements at `now_s` (seconds, any monotonic clock)."""
        self._seen.append((now_s, measurements))
        while len(self._seen) > 1 and self._seen[1][1] * self._factor <= measurements:
            self._seen.popleft()

    def seconds(self, now_s: float) -> float:
        """Time since the measurements were fewer by the factor; infinite if they never were."""
        if not self._seen or self._seen[0][1] * self._factor > self._seen[-1][1]:
            return math.inf
        return now_s - self._seen[0][0]
