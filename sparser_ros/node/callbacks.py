"""Every callback of the node: how long it takes, what it raises, and what waits without blocking.

A single-threaded executor is only as prompt as its slowest callback, and ends with the first
exception that leaves one.
"""

from __future__ import annotations

import functools
import inspect
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

F = TypeVar('F', bound=Callable[..., Any])

WINDOW = 4096
MOST_ERROR_TEXT = 160
"""Characters of an exception that a status text quotes."""


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


@dataclass
class CallbackError:
    """What one kind of callback raised."""

    count: int
    text: str
    """Type and words of the newest exception."""
    steady_s: float
    """When it was raised, on the monotonic clock."""


class CallbackTimes:
    """The one place that every callback of the node runs through.

    It records wall-time durations by name and the processor time of the longest, and catches what
    a callback raises: nothing that arrives may end the node. `report(name, traceback)` is called
    with each exception. Once `alive()` is false an exception only says that the context has ended
    in the middle of a callback; it becomes ExternalShutdownException.
    """

    def __init__(self, report: Callable[[str, str], None] = lambda name, text: None,
                 alive: Callable[[], bool] = lambda: True) -> None:
        self._kinds: dict[str, _Clocked] = {}
        self._report = report
        self._alive = alive
        self.errors: dict[str, CallbackError] = {}

    def timed(self, name: str, callback: F, otherwise: Callable[..., Any] | None = None) -> F:
        """The callback, its durations recorded under `name` and its exceptions caught.

        `otherwise(error, *arguments)` gives the result where it raised; a service must answer.
        Shutting down (KeyboardInterrupt, ExternalShutdownException) is no error.
        """
        kind = self._kinds.setdefault(name, _Clocked())

        def failed(error: Exception, arguments: tuple[Any, ...]) -> Any:
            if not self._alive():
                raise ExternalShutdownException from error
            self.caught(name, error)
            return None if otherwise is None else otherwise(error, *arguments)

        @functools.wraps(callback)
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            start, cpu = time.perf_counter(), time.thread_time()
            try:
                return callback(*arguments, **keywords)
            except ExternalShutdownException:
                raise
            except Exception as error:
                return failed(error, arguments)
            finally:
                kind.add(time.perf_counter() - start, time.thread_time() - cpu)

        @functools.wraps(callback)
        async def awaited(*arguments: Any, **keywords: Any) -> Any:
            try:
                return await callback(*arguments, **keywords)
            except Exception as error:
                return failed(error, arguments)

        return awaited if inspect.iscoroutinefunction(callback) else wrapped  # type: ignore

    def caught(self, name: str, error: Exception) -> None:
        """Note an exception, which is being handled."""
        text = ' '.join(f'{type(error).__name__}: {error}'.split())[:MOST_ERROR_TEXT]
        count = self.errors[name].count + 1 if name in self.errors else 1
        self.errors[name] = CallbackError(count, text, time.monotonic())
        self._report(name, traceback.format_exc())

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


class OnDemandTimer:
    """Calls `work` every `period_s` of the steady clock from `wake()` until it returns False."""

    def __init__(self, node: Node, period_s: float, work: Callable[[], bool | None]) -> None:
        self._work = work
        self._timer = node.create_timer(
            period_s, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()

    def wake(self) -> None:
        """There is something to do."""
        if self._timer.is_canceled():
            self._timer.reset()

    def _tick(self) -> None:
        if not self._work():
            self._timer.cancel()


POLL_PERIOD_S = 0.002
"""Between two looks whether the work is done; a callback waits for so long at most."""


class Condition:
    """Awaitable in rclpy's executor: true once `holds()` is, false after `timeout_s`.

    rclpy polls a suspended coroutine without pause, so each poll naps here: short enough for
    every other callback, long enough to leave the interpreter to the thread that works.
    """

    def __init__(self, holds: Callable[[], bool], timeout_s: float) -> None:
        self._holds = holds
        self._deadline = time.monotonic() + timeout_s

    def __await__(self) -> Generator[None, None, bool]:
        while not self._holds():
            if time.monotonic() > self._deadline:
                return False
            time.sleep(POLL_PERIOD_S)
            yield
        return True
