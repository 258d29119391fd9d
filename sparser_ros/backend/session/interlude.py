"""Warm solves in between the steps of a long one, so that data need not wait for its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from .solution import Solution

_OFTEN = 0.5
"""Period over that of ordinary solves: the step under way, which has to end, takes time as well."""
SHARE = 0.5
"""Most of the time that warm solves may take from the long one."""


class Meanwhile(Protocol):
    """Whoever asked for a solve: takes in new data and publishes what is ready early."""

    def take(self) -> bool:
        """Hand waiting increments to the session; True if there were any."""
        ...

    def publish(self, solution: Solution) -> None:
        """A solution that comes before the one that was asked for."""
        ...


class Interlude:
    """Called at every step of a long solve; now and then makes a warm one of all data so far."""

    def __init__(
        self, meanwhile: Meanwhile, solve: Callable[[], Solution], period_s: float
    ) -> None:
        self.taken = False
        """True once data came that the long solve does not know."""
        self._meanwhile, self._solve, self._period_s = meanwhile, solve, _OFTEN * period_s
        self._due = time.monotonic() + self._period_s

    def __call__(self, stage: str, iteration: int, cost: float) -> None:
        begin = time.monotonic()
        if begin < self._due:
            return
        if self._meanwhile.take():
            self.taken = True
            self._meanwhile.publish(self._solve())
        end = time.monotonic()
        self._due = end + max(self._period_s, (end - begin) / SHARE - (end - begin))
