"""Measurements between instants of robots, waiting until odometry covers those instants."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .counters import KindCounters
from .odometry import Attachment, OdometryTrack

T = TypeVar('T')
_log = logging.getLogger(__name__)


@dataclass
class Waiting(Generic[T]):
    """One measurement, the instants it joins, and where those were attached so far."""

    item: T
    instants: tuple[tuple[int, int] | None, ...]
    """(robot, stamp_ns) of each end; None for ends that are no robot."""
    found: list[Attachment | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.found = [None] * len(self.instants)

    @property
    def stamp_ns(self) -> int:
        return max((instant[1] for instant in self.instants if instant), default=0)


class WaitingList(Generic[T]):
    """Attaches measurements as soon as odometry allows, or drops them after the timeout."""

    def __init__(
        self, tracks: list[OdometryTrack], timeout_ns: int, counters: KindCounters
    ) -> None:
        self._tracks = tracks
        self._timeout_ns = timeout_ns
        self._counters = counters
        self._waiting: list[Waiting[T]] = []

    def add(self, waiting: Waiting[T]) -> None:
        """Let a measurement wait; the caller has counted it as waiting."""
        self._waiting.append(waiting)

    def detach(self) -> None:
        """Look for all keyframes anew: their numbers have changed."""
        for waiting in self._waiting:
            waiting.found = [None] * len(waiting.instants)

    def resolve(self, newest_ns: int, final: bool,
                accept: Callable[[T, list[Attachment | None]], str]) -> None:
        """Hand every complete measurement to `accept`, which returns a reason to drop it or ''."""
        remaining: list[Waiting[T]] = []
        for waiting in self._waiting:
            last = final or newest_ns - waiting.stamp_ns > self._timeout_ns
            reason = self._attach(waiting, last)
            if reason is None:
                remaining.append(waiting)
                continue
            reason = reason or self._accepted(waiting, accept)
            self._counters.waiting -= 1
            if reason:
                self._counters.drop(reason)
            else:
                self._counters.accepted += 1
        self._waiting = remaining

    def _accepted(self, waiting: Waiting[T],
                  accept: Callable[[T, list[Attachment | None]], str]) -> str:
        """As `accept`; an exception drops this one measurement, with its traceback in the log."""
        try:
            return accept(waiting.item, waiting.found)
        except Exception:
            _log.exception('a measurement could not be attached: %r', waiting.item)
            return 'internal_error'

    def _attach(self, waiting: Waiting[T], last: bool) -> str | None:
        """'' = all ends attached, None = wait, else why it cannot be."""
        complete = True
        for end, instant in enumerate(waiting.instants):
            if instant is None or waiting.found[end] is not None:
                continue
            place = self._tracks[instant[0]].locate(instant[1], last)
            if isinstance(place, str):
                return place
            if place is None:
                complete = False
            waiting.found[end] = place
        return '' if complete else None
