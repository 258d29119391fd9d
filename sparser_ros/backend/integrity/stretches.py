"""Stretches of time in which ranges of one source share a fault that is to be tested.

A map bends to many ranges that agree in one error, and then few of them are rejected: counts of
rejected ranges (doubts.py) do not show such a burst, but what is left of its residuals has one
sign. The stretch is the one whose weighted mean residual is the most significant (a scan
statistic). Seen from different sides, the ranges of a beacon that was moved are too long and too
short: no length is common to them. For each beacon the time is picked from which on a place of its
own explains most, robots held. Whether either explains more than other faults do, with the map
free, is for the score test to say.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import chdtri

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph.ends import RangeEnds
from ...graph.finding import Finding
from .doubts import Rows, Stretch, in_stretch, too_long

_BINS = 6
"""Bins of a window: a stretch begins and ends at one of them before its ends are refined; a move is
looked for at the beginning of each."""
_REFINEMENTS = 2
"""Times that either end is moved to its best place with the other one held."""


def shifts(
    sources: RangeEnds, rows: Rows, weight: Array, taken: set[int], false_alarm: float,
    config: IntegrityConfig,
) -> list[Stretch]:
    """Recent stretches of sources beside those `taken`, under robust weights (k,) of the ranges."""
    free = weight > 0
    for source in taken:
        free &= ~sources.at(source)
    if not np.any(free):
        return []
    stretches = []
    for source in range(len(sources)):
        own = sources.at(source)
        part = own & free
        if source not in taken and np.any(part):
            scored = _stretch(
                source, sources, rows.whitened, weight, own, part, config)
            if scored is not None and scored[1] > chdtri(1, false_alarm / scored[0].tests):
                stretches.append(scored[0])
    return stretches


def _stretch(
    source: int, sources: RangeEnds, whitened: Array, weight: Array, own: Mask, part: Mask,
    config: IntegrityConfig,
) -> tuple[Stretch, float] | None:
    """The most significant stretch and its score; None where it fills most of its source's time.

    Such a source is biased all the time, which is another fault.
    """
    seconds = sources.seconds
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
    rows, name = np.flatnonzero(own & (seconds >= first) & (seconds <= last)), sources.names[source]
    return Stretch(
        source, name, rows, first, last, partial(_shifted, name, in_stretch(first, last)),
        table.size), best


def _shifted(name: str, times: str, theta: Array) -> Finding:
    offset_m = float(theta[0])
    return Finding('range_burst', name, f'ranges of radio {name} were {too_long(offset_m)}{times}',
                   offset_m, 'm')


_SUSPECTED = 0.01
"""Probability that chance, robots held, suspects a beacon; with the map free fewer are named."""
LEAST_TELLING = 12
"""Ranges of a beacon that tell where it is: four to each coordinate in space."""


def beacon_steps(
    sources: RangeEnds, unit: Array, whitened: Array, root: Array, config: IntegrityConfig
) -> list[Stretch]:
    """Steps of beacons whose ranges a step explains better, robots held, than chance does.

    `unit` (k, d) point from the sources of ranges to their targets, `whitened` (k,) are residuals
    (measured minus predicted) and `root` (k,) the roots of precisions times robust weights.
    """
    stretches = []
    for source in range(sources.robots, len(sources)):
        own = np.flatnonzero(sources.at(source))
        own = own[np.argsort(sources.seconds[own], kind='stable')]
        sign = np.where(sources.second[own] == source, 1.0, -1.0)
        scored = _step(
            source, sources, own, (sign * root[own])[:, None] * unit[own], whitened[own], config)
        if scored is not None and scored[1] > chdtri(unit.shape[1], _SUSPECTED / scored[0].tests):
            stretches.append(scored[0])
    return stretches


def _step(
    source: int, sources: RangeEnds, own: Index, slope: Array, whitened: Array,
    config: IntegrityConfig,
) -> tuple[Stretch, float] | None:
    """The most significant step, from which on to the newest range the beacon may stand elsewhere,
    and its score; `slope` (n, d) of the whitened lengths by place."""
    seconds, name = sources.seconds[own], sources.names[source]
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
    first_s, last_s = float(seconds[begin]), float(seconds[-1])
    step = Stretch(
        source, name, np.sort(own[begin:]), first_s, last_s,
        partial(_stepped, name, in_stretch(first_s, last_s)), len(begins),
        source - sources.robots)
    return step, float(value[begin])


def _stepped(name: str, times: str, theta: Array) -> Finding:
    return Finding('range_burst', name, f'ranges of radio {name} did not fit{times}',
                   float(np.linalg.norm(theta)), 'm')


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
