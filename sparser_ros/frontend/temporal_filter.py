"""Blocked ranges by their neighbours in time (paper, appendix D), streaming."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from functools import partial
from typing import Any

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


class TemporalFilter:
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
        self._window: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        """Ranges of each pair, from the first one on that a window may reach."""
        self._undecided: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        """The newest of them."""
        self._residuals: dict[tuple[str, str], deque[float]] = defaultdict(
            partial(deque, maxlen=MEMORY))

    def sort(self, ready: Iterable[Any], newest_ns: int, flush: bool) -> tuple[list, list]:
        """(ranges that pass, ranges that are dropped) whose window has closed, oldest first.

        A range has `stamp_ns`, `distance_m` and `pair`. `newest_ns`: none older than this comes any
        more. `flush`: none at all.
        """
        for pending in ready:
            self._window[pending.pair].append(pending)
            self._undecided[pending.pair].append(pending)
        passed: list[Any] = []
        dropped: list[Any] = []
        for undecided in self._undecided.values():
            while undecided and (flush or undecided[0].stamp_ns + self._half_ns <= newest_ns):
                pending = undecided.popleft()
                (passed if self._fits(pending) else dropped).append(pending)
        return sorted(passed, key=lambda r: r.stamp_ns), dropped

    def _fits(self, pending: Any) -> bool:
        at_ns, window = pending.stamp_ns, self._window[pending.pair]
        # Late ranges stand behind newer ones.
        while window[0] is not pending and window[0].stamp_ns < at_ns - 2 * self._half_ns:
            window.popleft()
        near = [r for r in window if abs(r.stamp_ns - at_ns) <= self._half_ns]
        if len(near) < FEWEST:
            return True
        seconds = np.array([(r.stamp_ns - at_ns) * 1e-9 for r in near])
        distance = np.array([r.distance_m for r in near])
        powers = np.vander(seconds / (self._half_ns * 1e-9), ORDER + 1)
        # The last column is the constant: the fit at the range itself.
        residual = abs(pending.distance_m - _least_absolute(powers, distance))
        residuals = self._residuals[pending.pair]
        residuals.append(residual)
        return residual <= MADS * max(float(np.median(residuals)), LEAST_MAD_M)


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
