"""Blocked ranges by their neighbours in time (paper, appendix D), streaming."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..array_types import Array
from .clocks import nanoseconds

ORDER = 2
FEWEST = ORDER + 3
"""Ranges in a window; with fewer the fit goes through them whatever they are."""
MEMORY = 200
"""Residuals of a pair whose median counts: the standard deviation of a median of so many is 9 %."""
ROUNDS = 6
"""Reweightings of the fit."""
MADS = 5.0
"""Median absolute deviations off which a range is dropped."""
LEAST_MAD_M = 0.005
"""One tick of a UWB radio: ranges that repeat exactly have a median of zero."""


class Measured(Protocol):
    """A range of a pair of radios at an instant."""

    stamp_ns: int
    distance_m: float

    @property
    def pair(self) -> tuple[str, str]: ...


R = TypeVar('R', bound=Measured)


@dataclass
class _Stream(Generic[R]):
    """The ranges of one pair within a window, oldest first."""

    ranges: deque[R] = field(default_factory=deque)
    undecided: int = 0
    """So many of the newest are still to be judged."""
    residuals: deque[float] = field(default_factory=lambda: deque(maxlen=MEMORY))


class TemporalFilter(Generic[R]):
    """Ranges off a polynomial through their neighbours are dropped.

    A polynomial of second order is fitted to the ranges of a pair within a window of 2 s about each
    of them (Savitzky and Golay 1964; by a fit, since radios are not sampled evenly). A range that
    lies off by more than 5 times the median absolute deviation is dropped. Two things differ from
    the paper. The fit has the least sum of absolute values: one of least squares goes towards a
    blocked range of several metres and lets its neighbours look wrong. The median is that of the
    newest residuals of the pair; the paper takes all of a recording. Ranges wait for half a window.
    """

    def __init__(self, window_s: float) -> None:
        self._half_ns = nanoseconds(window_s / 2)
        self._streams: dict[tuple[str, str], _Stream[R]] = {}

    def sort(
        self, ready: list[R], newest_ns: int, flush: bool
    ) -> tuple[list[R], list[R]]:
        """(ranges that pass, ranges that are dropped) whose window has closed, oldest first.

        `newest_ns`: no range older than this comes any more. `flush`: none at all.
        """
        for pending in ready:
            stream = self._streams.setdefault(pending.pair, _Stream())
            stream.ranges.append(pending)
            stream.undecided += 1
        passed: list[R] = []
        dropped: list[R] = []
        for stream in self._streams.values():
            while stream.undecided:
                pending = stream.ranges[-stream.undecided]
                if not flush and pending.stamp_ns + self._half_ns > newest_ns:
                    break
                (passed if self._fits(stream, pending) else dropped).append(pending)
                stream.undecided -= 1
                self._forget(stream)
        return (sorted(passed, key=lambda r: r.stamp_ns),
                sorted(dropped, key=lambda r: r.stamp_ns))

    def _forget(self, stream: _Stream[R]) -> None:
        """Drop what no window of an undecided range reaches."""
        judged = len(stream.ranges) - stream.undecided
        if not stream.ranges:
            return
        reach = stream.ranges[min(judged, len(stream.ranges) - 1)].stamp_ns - 2 * self._half_ns
        while stream.ranges and stream.ranges[0].stamp_ns < reach \
                and len(stream.ranges) > stream.undecided:
            stream.ranges.popleft()

    def _fits(self, stream: _Stream[R], pending: R) -> bool:
        at_ns = pending.stamp_ns
        near = [r for r in stream.ranges if abs(r.stamp_ns - at_ns) <= self._half_ns]
        if len(near) < FEWEST:
            return True
        seconds = np.array([(r.stamp_ns - at_ns) * 1e-9 for r in near])
        distance = np.array([r.distance_m for r in near])
        powers = np.vander(seconds / (self._half_ns * 1e-9), ORDER + 1)
        # The last column is the constant: the fit at the range itself.
        residual = abs(pending.distance_m - _least_absolute(powers, distance))
        stream.residuals.append(residual)
        mad = max(float(np.median(stream.residuals)), LEAST_MAD_M)
        return residual <= MADS * mad


def _least_absolute(powers: Array, values: Array) -> float:
    """Last coefficient of the fit with the least sum of absolute residuals, by reweighting."""
    weight = np.ones(len(values))
    ridge = 1e-9 * np.eye(powers.shape[1])
    coefficients = np.zeros(powers.shape[1])
    for _ in range(ROUNDS):
        weighted = (powers * weight[:, None]).T
        coefficients = np.linalg.solve(weighted @ powers + ridge, weighted @ values)
        weight = 1 / np.maximum(np.abs(powers @ coefficients - values), LEAST_MAD_M)
        weight /= np.max(weight)
    return float(coefficients[-1])
