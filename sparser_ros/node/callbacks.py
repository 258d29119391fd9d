"""Every callback of the node: how long it takes, what it raises, and what waits without blocking.

A single-threaded executor is only as prompt as its slowest callback, and ends with the first
exception that leaves one.
"""

from __future__ import annotations

import functools
import inspect
import math
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

F = TypeVar('F', bound=Callable[..., Any])

WINDOW = 1000
"""Newest durations whose median counts."""
MOST_ERROR_TEXT = 160
"""Characters of an exception that a status text quotes."""


@dataclass
class Callback:
    """What is known of one kind of callback."""

    count: int = 0
    greatest_s: float = 0.0
    greatest_cpu_s: float = 0.0
    newest_s: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    """Newest durations."""
    errors: int = 0
    text: str = ''
    """Type and words of the newest exception."""
    raised_s: float = -math.inf
    """When it was raised, on the monotonic clock."""

    def took(self, seconds: float, cpu_seconds: float) -> None:
        self.count += 1
        self.newest_s.append(seconds)
        self.greatest_s = max(self.greatest_s, seconds)
        self.greatest_cpu_s = max(self.greatest_cpu_s, cpu_seconds)


class CallbackTimes:
    """The one place that every callback of the node runs through.

    It records wall-time durations by name and the processor time of the longest, and catches what
    a callback raises: nothing that arrives may end the node. `report(name, traceback)` is called
    with each exception. Once `alive()` is false an exception only says that the context has ended
    in the middle of a callback; it becomes ExternalShutdownException.
    """

    def __init__(self, report: Callable[[str, str], None] = lambda name, text: None,
                 alive: Callable[[], bool] = lambda: True) -> None:
        self.kinds: defaultdict[str, Callback] = defaultdict(Callback)
        self._report = report
        self._alive = alive

    def timed(self, name: str, callback: F, otherwise: Callable[..., Any] | None = None) -> F:
        """The callback, its durations recorded under `name` and its exceptions caught.

        `otherwise(error, *arguments)` gives the result where it raised; a service must answer.
        Shutting down (KeyboardInterrupt, ExternalShutdownException) is no error.
        """
        kind = self.kinds[name]

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
                kind.took(time.perf_counter() - start, time.thread_time() - cpu)

        @functools.wraps(callback)
        async def awaited(*arguments: Any, **keywords: Any) -> Any:
            try:
                return await callback(*arguments, **keywords)
            except Exception as error:
                return failed(error, arguments)

        return awaited if inspect.iscoroutinefunction(callback) else wrapped  # type: ignore

    def caught(self, name: str, error: Exception) -> None:
        """Note an exception, which is being handled."""
        kind = self.kinds[name]
        kind.text = ' '.join(f'{type(error).__name__}: {error}'.split())[:MOST_ERROR_TEXT]
        kind.errors, kind.raised_s = kind.errors + 1, time.monotonic()
        self._report(name, traceback.format_exc())

    @property
    def errors(self) -> dict[str, int]:
        """How many exceptions callbacks have raised, by name."""
        return {name: kind.errors for name, kind in self.kinds.items() if kind.errors}

    def greatest(self) -> tuple[float, str]:
        """(seconds, name) of the longest callback."""
        return max(
            ((kind.greatest_s, name) for name, kind in self.kinds.items()), default=(0.0, ''))

    def summary(self) -> dict[str, dict[str, float]]:
        """`{name: {count, median_ms, max_ms, max_cpu_ms}}` of every callback that has run."""
        return {
            name: {'count': float(kind.count),
                   'median_ms': 1e3 * float(np.median(kind.newest_s)),
                   'max_ms': 1e3 * kind.greatest_s, 'max_cpu_ms': 1e3 * kind.greatest_cpu_s}
            for name, kind in sorted(self.kinds.items()) if kind.count
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
