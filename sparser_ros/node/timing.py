"""How long callbacks take: a single-threaded executor is only as prompt as its slowest one."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar('F', bound=Callable[..., Any])

WINDOW = 4096


class _Clocked:
    """Durations of one kind of callback: count, greatest, and the last `WINDOW` of them."""

    def __init__(self) -> None:
        self.count = 0
        self.greatest_s = 0.0
        self.greatest_cpu_s = 0.0
        self.window = np.zeros(WINDOW)

    def add(self, seconds: float, cpu_seconds: float) -> None:
        self.window[self.count % WINDOW] = seconds
        self.count += 1
        if seconds > self.greatest_s:
            self.greatest_s = seconds
        if cpu_seconds > self.greatest_cpu_s:
            self.greatest_cpu_s = cpu_seconds

    def median_s(self) -> float:
        return float(np.median(self.window[:self.count])) if self.count else 0.0


class CallbackTimes:
    """Wall-time durations of all callbacks by name, and the processor time of the longest."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Clocked] = {}

    def timed(self, name: str, callback: F) -> F:
        """The callback, its durations recorded under `name`."""
        kind = self._kinds.setdefault(name, _Clocked())

        @functools.wraps(callback)
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            start, cpu = time.perf_counter(), time.thread_time()
            try:
                return callback(*arguments, **keywords)
            finally:
                kind.add(time.perf_counter() - start, time.thread_time() - cpu)

        return wrapped  # type: ignore[return-value]

    def clear(self) -> None:
        """Forget everything measured so far (start-up is not operation)."""
        for kind in self._kinds.values():
            kind.__init__()  # type: ignore[misc]

    def greatest(self) -> tuple[float, str]:
        """(seconds, name) of the longest callback."""
        return max(
            ((kind.greatest_s, name) for name, kind in self._kinds.items()), default=(0.0, ''))

    def summary(self) -> dict[str, dict[str, float]]:
        """`{name: {count, median_ms, max_ms, max_cpu_ms}}` of every callback that has run."""
        return {
            name: {
                'count': float(kind.count),
                'median_ms': 1e3 * kind.median_s(),
                'max_ms': 1e3 * kind.greatest_s,
                'max_cpu_ms': 1e3 * kind.greatest_cpu_s,
            }
            for name, kind in sorted(self._kinds.items()) if kind.count
        }
