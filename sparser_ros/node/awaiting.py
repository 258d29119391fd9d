"""Long services without blocking the executor: work in a thread, awaited in short naps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from typing import Any

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


class Background:
    """A function running in a thread of its own; `result` and `error` once it is done."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._function()
        except Exception as error:
            self.error = error

    def done(self) -> bool:
        """True when the function has returned or raised."""
        return not self._thread.is_alive()
