"""Ranges that do not fit, counted per radio and per window of time, against those of the others.

A range does not fit where its weight says so or where its residual is one that honest noise shows
once in a thousand times, whatever kernel the solver uses. Counts are binomial. The null hypothesis
is that a source fails as often as the others do, at the upper end of what their count allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import bdtr, betaincinv, ndtri, xlogy

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph.ends import RangeEnds
from ...graph.finding import Finding

FAR_SIGMA = float(-ndtri(0.0005))
"""Two-sided probability 0.001 of a normal residual."""
REJECTED_WEIGHT = 0.1
"""Below it a measurement counts as rejected (the default of `backend.rejected_weight`)."""
TOLERATED_SHARE = 0.2
"""Share of ranges without line of sight that is ordinary for one radio."""
_DENIED = 0.01
"""Probability that ranges of a sound source are taken for faulty ones by their number alone."""
_STEADY = 0.5
"""A spread below this share of the median makes an offset one that words may state."""


BURST_TIMES = ' from '
"""What follows in the words for a burst are its times."""


def kept_weights(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Robust weights by table, 0 for what is rejected."""
    return {table: np.where(values < REJECTED_WEIGHT, 0.0, values)
            for table, values in weights.items() if len(values)}


@dataclass(frozen=True)
class Rows:
    """The ranges of a graph at an estimate."""

    error_m: Array
    """(k,): measured minus predicted."""
    whitened: Array
    far: Mask
    """(k,): true where a range does not fit."""


@dataclass(frozen=True)
class Doubt:
    """One source whose ranges do not fit."""

    source: int
    count: int
    """Its ranges."""
    share: float
    offset_m: float
    """Median of measured minus predicted over its ranges that do not fit."""
    spread_m: float
    """Their median absolute deviation."""


def exceeds(count: int, total: int, share: float, false_alarm: float) -> bool:
    """True where `count` of `total` is more than the share allows at this probability."""
    if total == 0 or count <= share * total:
        return False
    return bool(1.0 - bdtr(count - 1, total, share) < false_alarm)


def ordinary(far: int, total: int) -> bool:
    """Whether no more ranges of a source do not fit than line of sight explains."""
    return not exceeds(far, total, TOLERATED_SHARE, _DENIED)


def upper_share(count: int, total: int, false_alarm: float) -> float:
    """Upper confidence bound of a share (Clopper and Pearson 1934); 1 without data."""
    if count >= total:
        return 1.0
    return float(betaincinv(count + 1, total - count, 1.0 - false_alarm))


def doubted_sources(sources: RangeEnds, rows: Rows, false_alarm: float) -> list[Doubt]:
    """RangeEnds that fail more often than the others, the one that explains most first.

    The ranges of a source once taken no longer count for the sources at their other ends.
    """
    left = np.ones(len(rows.far), dtype=bool)
    doubted: list[Doubt] = []
    members = [sources.at(k) for k in range(len(sources))]
    while len(doubted) < len(sources):
        best, gain = -1, 0.0
        n, k = int(left.sum()), int(np.sum(rows.far & left))
        for number, own in enumerate(members):
            part = own & left
            total, far = int(part.sum()), int(np.sum(part & rows.far))
            others, failed = n - total, k - far
            bound = max(TOLERATED_SHARE, upper_share(failed, others, false_alarm))
            if bound < 1 and exceeds(far, total, bound, false_alarm):
                value = _likelihood(far, total) + _likelihood(failed, others) - _likelihood(k, n)
                if value > gain:
                    best, gain = number, value
        if best < 0:
            return doubted
        own = members[best]
        doubted.append(_doubt(best, own, rows))
        left &= ~own
    return doubted


def _likelihood(count: int, total: int) -> float:
    share = count / max(total, 1)
    return float(xlogy(count, share) + xlogy(total - count, 1 - share))


def _doubt(source: int, own: Mask, rows: Rows) -> Doubt:
    error = rows.error_m[own & rows.far]
    offset = float(np.median(error))
    total = int(own.sum())
    return Doubt(source, total, len(error) / total, offset,
                 float(np.median(np.abs(error - offset))))


def steady(doubt: Doubt) -> bool:
    """True where the ranges that do not fit are all off by about the same length."""
    return doubt.spread_m < _STEADY * abs(doubt.offset_m)


def doubt_finding(sources: RangeEnds, doubt: Doubt) -> Finding:
    """Words for a source of which many ranges do not fit, whatever the cause."""
    name = sources.names[doubt.source]
    text = f'{100 * doubt.share:.0f} % of the ranges of radio {name} do not fit'
    if steady(doubt):
        text += f': they are {too_long(doubt.offset_m)}'
    return Finding('ranges_rejected', name, text, 100 * doubt.share, '%')


@dataclass(frozen=True)
class Stretch:
    """Ranges of one source, within a stretch of time, that may be off for one reason.

    They are long by the same length, or their landmark stands elsewhere. That they were picked says
    nothing yet: whether this explains more than other faults is to be tested.
    """

    source: int
    subject: str
    rows: Index
    """Of the graph's ranges."""
    begin_s: float
    """Since the first pose, as `end_s`."""
    end_s: float
    finding: Callable[[Array], Finding]
    """Puts the length (1,), or the way of the landmark (d,), into words."""
    tests: int = 1
    """Stretches that this one was picked from."""
    landmark: int | None = None
    """The one that may stand elsewhere; None = the same length."""


def bursts(
    sources: RangeEnds, rows: Rows, taken: set[int], false_alarm: float, config: IntegrityConfig
) -> list[Stretch]:
    """Windows in which ranges of sources beside those `taken` did not fit, most ranges first."""
    if not len(rows.far):
        return []
    newest = float(sources.seconds.max())
    window = np.floor(sources.seconds / (config.window_s / 2)).astype(np.int64)
    free = np.ones(len(rows.far), dtype=bool)
    for source in taken:
        free &= ~sources.at(source)
    far = rows.far & free
    bound = max(TOLERATED_SHARE, upper_share(int(far.sum()), int(free.sum()), false_alarm))
    stretches: list[tuple[int, Stretch]] = []
    for source in range(len(sources)) if bound < 1 else ():
        own = sources.at(source) & free
        if source in taken or not np.any(own):
            continue
        totals, fails = np.bincount(window[own]), np.bincount(
            window[own & far], minlength=int(window[own].max()) + 1)
        bad = [k for k in np.flatnonzero(fails).tolist() if exceeds(
            int(fails[k]), int(totals[k]), bound, false_alarm)]
        part = own & np.isin(window, bad)
        if bad and newest - sources.seconds[part].max() <= config.memory_s:
            failed = np.flatnonzero(part & far)
            told = _burst_finding(sources, source, failed, rows)
            seconds = sources.seconds[failed]
            stretches.append((len(failed), Stretch(
                source, sources.names[source], np.flatnonzero(part), float(seconds.min()),
                float(seconds.max()), partial(_told, told))))
    return [burst for _, burst in sorted(stretches, key=lambda pair: -pair[0])]


def lasting(
    sources: RangeEnds, rows: Rows, doubts: list[Doubt], false_alarm: float, config: IntegrityConfig
) -> list[Doubt]:
    """The doubted sources without those that failed in bursts only."""
    kept = []
    for doubt in doubts:
        others = {other.source for other in doubts} - {doubt.source}
        own = [burst for burst in bursts(sources, rows, others, false_alarm, config)
               if burst.source == doubt.source]
        outside = sources.at(doubt.source)
        if own:
            outside[own[0].rows] = False
        # Bursts that fill most of its time are none, nor are those beside which it fails as well.
        brief = 2 * np.sum(outside) > doubt.count
        if not own or not brief or (
            np.sum(rows.far & outside) >= TOLERATED_SHARE * np.sum(outside)
        ):
            kept.append(doubt)
    return kept


def _told(finding: Finding, _: Array) -> Finding:
    """Words that need no estimate."""
    return finding


def _burst_finding(sources: RangeEnds, source: int, failed: Index, rows: Rows) -> Finding:
    """Words for a burst: the source, the error where it is steady, the times."""
    name, seconds, error = sources.names[source], sources.seconds[failed], rows.error_m[failed]
    offset = float(np.median(error))
    spread = float(np.median(np.abs(error - offset)))
    size = f'were {too_long(offset)}' if spread < _STEADY * abs(offset) else 'did not fit'
    text = f'ranges of radio {name} {size}' + in_stretch(
        float(seconds.min()), float(seconds.max()))
    return Finding('range_burst', name, text, offset, 'm')


def too_long(offset_m: float) -> str:
    """Words for ranges that are long by an offset, short where it is negative."""
    return f'{abs(offset_m):.1f} m too {"long" if offset_m > 0 else "short"}'


def in_stretch(begin_s: float, end_s: float) -> str:
    """The end of the words for a burst; times since the first pose."""
    return f'{BURST_TIMES}{begin_s:.0f} s to {end_s:.0f} s of the data'
