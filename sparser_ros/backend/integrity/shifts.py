"""Stretches of time in which the ranges of one source are off by the same length.

A map bends to many ranges that agree in one error, and then few of them are rejected: counts of
rejected ranges (doubts.py) do not show such a burst, but what is left of its residuals has one
sign. The stretch is the one whose weighted mean residual is the most significant (a scan
statistic); whether it explains more than other faults do is for the score test to say.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph.finding import Finding
from ...graph.range_ends import RangeEnds
from .doubts import Rows, in_stretch, too_long
from .stretch import Stretch

_BINS = 6
"""Bins of a window: a stretch begins and ends at one of them before its ends are refined."""
_REFINEMENTS = 2
"""Times that either end is moved to its best place with the other one held."""


class Shift(Stretch):
    """The stretch of one source that stands out most."""

    def finding(self, name: str, theta: Array) -> Finding:
        """Words for ranges that are `theta` (1,) metres too long."""
        offset_m = float(theta[0])
        return Finding(
            'range_burst', name, f'ranges of radio {name} were {too_long(offset_m)}'
            + in_stretch(self.begin_s, self.end_s), offset_m, 'm')


def shifts(
    sources: RangeEnds, rows: Rows, weight: Array, taken: set[int], false_alarm: float,
    config: IntegrityConfig,
) -> list[Shift]:
    """Recent stretches of sources beside those `taken`, under robust weights (k,) of the ranges."""
    free = weight > 0
    for source in taken:
        free &= ~sources.at(source)
    if not np.any(free):
        return []
    found = []
    for source in range(len(sources)):
        own = sources.at(source)
        part = own & free
        if source not in taken and np.any(part):
            one = _stretch(source, sources.seconds, rows.whitened, weight, own, part, config)
            if one is not None and one[1] > chdtri(1, false_alarm / one[0].tests):
                found.append(one[0])
    return found


def _stretch(
    source: int, seconds: Array, whitened: Array, weight: Array, own: Mask, part: Mask,
    config: IntegrityConfig,
) -> tuple[Shift, float] | None:
    """The most significant stretch and its score; None where it fills most of its source's time.

    Such a source is biased all the time, which is another fault.
    """
    order = np.flatnonzero(part)[np.argsort(seconds[part], kind='stable')]
    time = seconds[order]
    score = np.concatenate([[0.0], np.cumsum((weight * whitened)[order])])
    information = np.concatenate([[0.0], np.cumsum(weight[order])])
    width = config.window_s / _BINS
    bins = np.searchsorted(time, np.arange(0.0, float(seconds.max()) + 2 * width, width))
    soonest = int(np.searchsorted(time, float(seconds.max()) - config.memory_s)) + 1
    recent = bins[bins >= soonest]
    if not len(recent):
        return None

    def value(begin: Index, end: Index) -> Array:
        inside = np.maximum(information[end] - information[begin], 0.0)
        return np.where(
            inside > 0, (score[end] - score[begin]) ** 2 / np.where(inside > 0, inside, 1.0), 0.0)

    table = value(bins[:, None], recent[None, :])
    at = int(np.argmax(table))
    begin, end = int(bins[at // len(recent)]), int(recent[at % len(recent)])
    every = np.arange(len(order) + 1)
    for _ in range(_REFINEMENTS):
        begin = int(np.argmax(value(every[:end], np.array(end))))
        least = max(begin + 1, soonest)
        end = least + int(np.argmax(value(np.array(begin), every[least:])))
    best = float(value(np.array(begin), np.array(end)))
    if not best > 0 or 2 * (information[end] - information[begin]) > information[-1]:
        return None
    first, last = float(time[begin]), float(time[end - 1])
    rows = np.flatnonzero(own & (seconds >= first) & (seconds <= last))
    return Shift(source, rows, first, last, table.size), best
