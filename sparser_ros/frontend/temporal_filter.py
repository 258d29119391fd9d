"""Blocked ranges by their neighbours in time (paper, appendix D), streaming.

A polynomial of second order is fitted to the ranges of a pair within a window of 2 s about each of
them (Savitzky and Golay 1964; by a fit, since radios are not sampled evenly). A range that lies off
by more than 5 times the median absolute deviation is dropped. Two things differ from the paper.
The fit has the least sum of absolute values: one of least squares goes towards a blocked range of
several metres and lets its neighbours look wrong. The median is that of the newest residuals of
the pair; the paper takes all of a recording.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from ..array_types import Array
from .range_filter import PendingRange, pair_of
from .stamps import nanoseconds

ORDER = 2
FEWEST = ORDER + 3
"""Ranges in a window; with fewer the fit goes through them whatever they are."""
MEMORY = 200
"""Residuals of a pair whose median counts: the standard deviation of a median of so many is 9 %."""
ROUNDS = 6
"""Reweightings of the fit."""
LEAST_MAD_M = 0.005
"""One tick of a UWB radio: ranges that repeat exactly have a median of zero."""


@dataclass
class _Stream:
    """The ranges of one pair within a window, oldest first."""

    ranges: deque[PendingRange] = field(default_factory=deque)
    undecided: int = 0
    """So many of the newest are still to be judged."""
    residuals: deque[float] = field(default_factory=lambda: deque(maxlen=MEMORY))


class TemporalFilter:
    """Holds ranges back by half a window and says which of them do not fit."""

    def __init__(self, window_s: float, mads: float) -> None:
        self._half_ns = nanoseconds(window_s / 2)
        self._mads = mads
        self._streams: dict[tuple[str, str], _Stream] = {}

    def sort(
        self, ready: list[PendingRange], newest_ns: int, flush: bool
    ) -> tuple[list[PendingRange], list[PendingRange]]:
        """(ranges that pass, ranges that are dropped) whose window has closed, oldest first.

        `newest_ns`: no range older than this comes any more. `flush`: none at all.
        """
        for one in ready:
            stream = self._streams.setdefault(pair_of(one), _Stream())
            stream.ranges.append(one)
            stream.undecided += 1
        passed: list[PendingRange] = []
        dropped: list[PendingRange] = []
        for stream in self._streams.values():
            while stream.undecided:
                one = stream.ranges[-stream.undecided]
                if not flush and one.stamp_ns + self._half_ns > newest_ns:
                    break
                (passed if self._fits(stream, one) else dropped).append(one)
                stream.undecided -= 1
                self._forget(stream)
        return (sorted(passed, key=lambda r: r.stamp_ns),
                sorted(dropped, key=lambda r: r.stamp_ns))

    def _forget(self, stream: _Stream) -> None:
        """Drop what no window of an undecided range reaches."""
        judged = len(stream.ranges) - stream.undecided
        if not stream.ranges:
            return
        reach = stream.ranges[min(judged, len(stream.ranges) - 1)].stamp_ns - 2 * self._half_ns
        while stream.ranges and stream.ranges[0].stamp_ns < reach \
                and len(stream.ranges) > stream.undecided:
            stream.ranges.popleft()

    def _fits(self, stream: _Stream, one: PendingRange) -> bool:
        near = [r for r in stream.ranges if abs(r.stamp_ns - one.stamp_ns) <= self._half_ns]
        if len(near) < FEWEST:
            return True
        seconds = np.array([(r.stamp_ns - one.stamp_ns) * 1e-9 for r in near])
        distance = np.array([r.distance_m for r in near])
        powers = np.vander(seconds / (self._half_ns * 1e-9), ORDER + 1)
        # The last column is the constant: the fit at the range itself.
        residual = abs(one.distance_m - _least_absolute(powers, distance))
        stream.residuals.append(residual)
        mad = max(float(np.median(stream.residuals)), LEAST_MAD_M)
        return residual <= self._mads * mad


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
