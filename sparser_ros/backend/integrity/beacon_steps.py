"""Beacons that may have been moved: since when their ranges fit another place best.

Seen from different sides, the ranges of a beacon that was moved are too long and too short: no
length is common to them (shifts.py), and robots and map bend to both. For each beacon the time is
picked from which on a place of its own explains most (a scan statistic, robots held); whether that
explains more than other faults do, with the map free, is for the score test to say.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from ...graph.finding import Finding
from ...graph.range_ends import RangeEnds
from .doubts import in_stretch
from .stretch import Stretch

_SUSPECTED = 0.01
"""Probability that chance, robots held, suspects a beacon; with the map free fewer are named."""
_BINS = 6
"""Bins of a window: a move is looked for at the beginning of each."""
LEAST_TELLING = 12
"""Ranges of a beacon that tell where it is: four to each coordinate in space."""


class BeaconStep(Stretch):
    """The time from which on, to the newest range, one beacon may stand elsewhere."""

    def finding(self, name: str, theta: Array) -> Finding:
        """Words for a beacon that stands `theta` (d,) metres away from its place before."""
        return Finding(
            'range_burst', name, f'ranges of radio {name} did not fit'
            + in_stretch(self.begin_s, self.end_s), float(np.linalg.norm(theta)), 'm')


def beacon_steps(
    sources: RangeEnds, unit: Array, whitened: Array, root: Array, config: IntegrityConfig
) -> list[BeaconStep]:
    """Steps of beacons whose ranges a step explains better, robots held, than chance does.

    `unit` (k, d) point from the sources of ranges to their targets, `whitened` (k,) are residuals
    (measured minus predicted) and `root` (k,) the roots of precisions times robust weights.
    """
    found = []
    for source in range(sources.robots, len(sources)):
        own = np.flatnonzero(sources.at(source))
        own = own[np.argsort(sources.seconds[own], kind='stable')]
        sign = np.where(sources.second[own] == source, 1.0, -1.0)
        one = _step(source, own, sources.seconds[own], (sign * root[own])[:, None] * unit[own],
                    whitened[own], config)
        if one is not None and one[1] > chdtri(unit.shape[1], _SUSPECTED / one[0].tests):
            found.append(one[0])
    return found


def _step(
    source: int, own: Index, seconds: Array, slope: Array, whitened: Array, config: IntegrityConfig
) -> tuple[BeaconStep, float] | None:
    """The most significant step and its score; `slope` (n, d) of the whitened lengths by place."""
    known = np.flatnonzero(np.any(slope != 0.0, axis=1))
    if len(known) < 2 * LEAST_TELLING:
        return None
    first, last = int(known[LEAST_TELLING]), int(known[-LEAST_TELLING])
    width = config.window_s / _BINS
    begins = np.unique(np.searchsorted(seconds, np.arange(seconds[0], seconds[-1], width)))
    begins = begins[(begins >= first) & (begins <= last)]
    if not len(begins):
        return None
    value = _scores(slope, whitened)
    coarse = int(begins[np.argmax(value[begins])])
    near = np.arange(
        max(first, int(np.searchsorted(seconds, seconds[coarse] - width))),
        min(last, int(np.searchsorted(seconds, seconds[coarse] + width))) + 1)
    begin = int(near[np.argmax(value[near])])
    step = BeaconStep(
        source, np.sort(own[begin:]), float(seconds[begin]), float(seconds[-1]), len(begins))
    return step, float(value[begin])


def _scores(slope: Array, whitened: Array) -> Array:
    """(n,): chi-square that a step before each range explains, the place before it being free."""
    square = np.einsum('ki,kj->kij', slope, slope)
    pull = slope * whitened[:, None]
    total, sum_pull = np.sum(square, axis=0), np.sum(pull, axis=0)
    after = total - np.cumsum(square, axis=0) + square
    late = sum_pull - np.cumsum(pull, axis=0) + pull
    d = slope.shape[1]
    # What no range tells of a direction is left at its place: a billionth of the rest.
    rest = 1e-9 * max(float(np.trace(total)), 1e-300) * np.eye(d)
    share = np.linalg.solve(total + rest, after)
    information = after - np.swapaxes(share, 1, 2) @ after
    score = late - np.einsum('kji,j->ki', share, sum_pull)
    return np.asarray(np.einsum(
        'ki,ki->k', score, np.linalg.solve(information + rest, score[:, :, None])[:, :, 0]))
