"""Ranges that are faulty together, such as those of one radio behind a wall for half a minute.

A robust kernel doubts every measurement by itself: many ranges that agree in one error move the
map until odometry gives way. Here the ranges of one source and one stretch of time are tested as
a group: with and without them, the map differs in cost by their chi-square given all other data.

Such a fault may go on: what its source measures next is held back too, until its ranges are
nearer to the map than to the fault. The map must place the source without them meanwhile.

Where one length explains most ranges of a group, it is taken off and they count again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import chdtri

from ...array_types import Array, Index
from ...graph import Estimate, Graph, range_residuals
from ...graph.finding import Finding
from ...graph.range_ends import range_ends
from ..integrity.beacon_steps import LEAST_TELLING
from ..integrity.doubts import (
    BURST_TIMES,
    FAR_SIGMA,
    TOLERATED_SHARE,
    in_stretch,
    ordinary,
    too_long,
)
from .range_corrections import RangeCorrections


@dataclass(frozen=True)
class RangeDoubt:
    """One group of ranges that is left out, or corrected."""

    finding: Finding
    rows: Index
    """In the sum of all increments, ascending."""
    end_s: float
    """Time of the last of them since the first pose."""
    open: bool = True
    """Whether the ranges of the source that come next are held back."""
    unresolved: bool = False
    """Whether that ended because the map lost the source, not because the fault was over."""
    corrected: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Those of `rows` that count with a length taken off."""
    length_m: float = 0.0
    """That length."""
    factor: float = 1.0
    """By which their variance is multiplied."""
    refused: int = 0
    """Number of its rows when no one length explained most of them; 0 = not tried."""
    unmoved: int = 0
    """The same when no other position of a beacon did."""
    moved: bool = False
    """Whether these are the ranges of a beacon from before it was moved."""

    @property
    def left_out(self) -> Index:
        """Rows that do not count."""
        return np.setdiff1d(self.rows, self.corrected, assume_unique=True)

    @property
    def error_m(self) -> float:
        """By how much its ranges are too long."""
        return self.length_m if len(self.corrected) else self.finding.value

    def begin_s(self, graph: Graph) -> float:
        """Time of its first range since the first pose."""
        return float(range_ends(graph).seconds[self.rows[0]])


MOVED = 'beacon_moved'
"""Kind of the finding of a beacon that was moved."""
LEAST_EXPLAINED = 5
"""Ranges of a group from which one length may explain them: half of fewer fit any length."""
_LEAST_GOOD = 5
"""Ranges in a row, without a faulty one, after which a fault is over: with half of them decided
by chance it would seem to be over in 3 % of all cases, and the next audit would find it again."""


def faulty_together(gain: float, count: int, flip_cost: float) -> bool:
    """Whether a map without `count` ranges costs less by more than honest ranges explain.

    Honest ranges, whitened, cost chi-square with `count` degrees of freedom given the rest. The
    false-alarm probability is that of a wrong alternative placement, exp(-flip_cost / 2).
    """
    return bool(count and gain > chdtri(count, np.exp(-flip_cost / 2)))


def joined(doubts: list[RangeDoubt], new: list[RangeDoubt]) -> list[RangeDoubt]:
    """All groups; a new one takes in an older one of its source that it overlaps or follows.

    A burst that goes on is found again and again, each time with its newest ranges only. What is
    corrected and over stays by itself.
    """
    result = list(doubts)
    for one in new:
        same = [old for old in result if old.finding.subject == one.finding.subject
                and not old.moved and len(one.rows) and len(old.rows) and (
                    old.open or not len(old.corrected)
                    or len(np.intersect1d(old.rows, one.rows)))]
        rows = one.rows
        for old in same:
            result.remove(old)
            rows = np.union1d(rows, old.rows)
        result.append(RangeDoubt(one.finding, rows, one.end_s))
    return result


def finding_of(one: RangeDoubt, graph: Graph) -> Finding:
    """The finding with the times of the whole group, and with its length if that is taken off.

    An audit may have named a part of the group last.
    """
    if not len(one.rows) or one.finding.kind == MOVED:
        return one.finding
    begin = one.begin_s(graph)
    words, found = one.finding.text.partition(BURST_TIMES)[0], one.finding
    if len(one.corrected):
        words = f'ranges of radio {found.subject} were {too_long(one.length_m)}'
        found = replace(found, value=one.length_m)
    text = words + in_stretch(begin, one.end_s)
    return replace(found, text=text + ('; that is taken off' if len(one.corrected) else ''))


def revived(doubts: list[RangeDoubt], graph: Graph, estimate: Estimate) -> list[RangeDoubt]:
    """The groups without those of which most ranges fit the map by now, or that are no stretch.

    With most ranges of its source in it, a group no longer stands against the others: an error
    that lasts is no burst, and the map may have bent to what is left. Not so where a beacon fitted
    before the group began: moves last.

    `graph` is the sum of all increments, `estimate` of all its poses and landmarks.
    """
    kept = []
    for one in doubts:
        own = of_sources(graph, (one.finding.subject,), 0)
        if one.finding.kind != MOVED and 2 * len(one.rows) > len(own) and not (
                one.finding.subject in graph.landmarks.names
                and _fitted(own[own < one.rows[0]], graph, estimate)):
            continue
        if one.open or (len(one.rows) and not _fits_again(one, graph, estimate)):
            kept.append(one)
    return kept


def _fits_again(one: RangeDoubt, graph: Graph, estimate: Estimate) -> bool:
    """Whether most ranges of a group fit; those of a beacon that was moved, as often as others.

    By a move of a few standard deviations, from some sides, most ranges fit both places.
    """
    if one.moved:
        return as_others_fit(one.rows, graph, estimate)
    return 2 * _far(graph, one.rows, estimate) < len(one.rows)


def _fitted(rows: Index, graph: Graph, estimate: Estimate) -> bool:
    """Whether these ranges are enough to tell, and fit as often as others do."""
    return (len(rows) >= LEAST_TELLING
            and _far(graph, rows, estimate) <= TOLERATED_SHARE * len(rows))


def as_others_fit(rows: Index, graph: Graph, estimate: Estimate) -> bool:
    """Whether these ranges fit an estimate as often as ranges of sound sources do."""
    return ordinary(_far(graph, rows, estimate), len(rows))


def grown(one: RangeDoubt, graph: Graph) -> RangeDoubt:
    """An open group with everything that its source has measured since."""
    if not one.open or not len(one.rows):
        return one
    new = of_sources(graph, (one.finding.subject,), int(one.rows[-1]) + 1)
    return replace(one, rows=np.concatenate([one.rows, new]))


def closed(one: RangeDoubt, graph: Graph, estimate: Estimate, located: bool) -> RangeDoubt:
    """An open group without the ranges after the end of the fault, if that is over.

    A range is nearer to the map than to the fault where its error is below half of the fault's.
    `located`: whether the map places the source without its ranges; if not, it cannot judge them.
    """
    if not one.open:
        return one
    error = np.abs(_errors(graph, one.rows, estimate))
    bad = np.flatnonzero(error >= abs(one.error_m) / 2)
    last = int(bad[-1]) + 1 if len(bad) else 0
    end = float(range_ends(graph).seconds[one.rows[last - 1]]) if last else one.end_s
    if len(error) - last >= _LEAST_GOOD:
        return replace(
            one, rows=one.rows[:last], end_s=end, open=False,
            corrected=np.intersect1d(one.corrected, one.rows[:last]))
    return replace(one, end_s=max(end, one.end_s), open=located, unresolved=not located)


def of_sources(graph: Graph, names: Collection[str], first: int) -> Index:
    """Rows from `first` on of the ranges that these robots or landmarks take part in."""
    ends = range_ends(graph)
    wanted = [number for number, name in enumerate(ends.names) if name in names]
    rows = np.flatnonzero(np.isin(ends.first, wanted) | np.isin(ends.second, wanted))
    return rows[rows >= first]


def _errors(graph: Graph, rows: Index, estimate: Estimate) -> Array:
    """(k,): residuals in metres of ranges at an estimate."""
    return np.asarray(range_residuals(
        graph.replaced(ranges=graph.ranges.take(rows)), estimate))


def _far(graph: Graph, rows: Index, estimate: Estimate, length_m: float = 0.0) -> int:
    """How many of these ranges, with a length taken off, do not fit an estimate."""
    # Predicted minus measured: a long range makes it smaller.
    whitened = (_errors(graph, rows, estimate) + length_m) * np.sqrt(graph.ranges.precision[rows])
    return int(np.count_nonzero(np.abs(whitened) >= FAR_SIGMA))


def median_error(one: RangeDoubt, graph: Graph, estimate: Estimate) -> float:
    """By how much the ranges of a group are too long at an estimate, in metres."""
    return -float(np.median(_errors(graph, one.rows, estimate)))


def possible(one: RangeDoubt, graph: Graph) -> bool:
    """Whether all ranges of a group are longer than what they are said to be too long by.

    One that is not denies the length of the whole group.
    """
    return bool(np.all(graph.ranges.distance_m[one.rows] > one.length_m))


def explained(one: RangeDoubt, graph: Graph, estimate: Estimate) -> bool:
    """Whether most ranges of a group fit the map once its length is taken off."""
    return 2 * _far(graph, one.rows, estimate, one.length_m) < len(one.rows)


def rows_of(doubts: list[RangeDoubt]) -> Index:
    """All rows that the groups leave out, ascending; what two of them have is left out."""
    none = [np.zeros(0, dtype=np.int64)]
    left_out = np.concatenate([*none, *(one.left_out for one in doubts)])
    corrected, counts = np.unique(
        np.concatenate([*none, *(one.corrected for one in doubts)]), return_counts=True)
    return np.union1d(left_out, corrected[counts > 1])


def held_since(
    sources: Collection[str], lengths: Mapping[str, tuple[float, float]], graph: Graph, first: int,
    estimate: Estimate,
) -> list[RangeDoubt]:
    """Groups of what held sources measure from row `first` on, corrected where a length is known.

    Between audits. What is nearer to the map than to the length, at an `estimate` of all poses,
    may come after the end of the fault: it is left out until an audit decides. Its variance may be
    so large that a kernel would not doubt what the length makes of it.
    """
    groups = []
    for name in sources:
        rows = of_sources(graph, (name,), first)
        length, factor = lengths.get(name, (0.0, 1.0))
        corrected = rows[:0]
        if name in lengths:
            error = _errors(graph, rows, estimate)
            corrected = rows[np.abs(error + length) <= np.abs(error)]
        groups.append(RangeDoubt(
            Finding('range_burst', name, ''), rows, 0.0, corrected=corrected, length_m=length,
            factor=factor))
    return groups


def corrections_of(doubts: list[RangeDoubt]) -> RangeCorrections:
    """What the groups take off ranges that they do not leave out."""
    out = rows_of(doubts)
    rows, length, factor = [], [], []
    for one in doubts:
        own = np.setdiff1d(one.corrected, out, assume_unique=True)
        rows.append(own)
        length.append(np.full(len(own), one.length_m))
        factor.append(np.full(len(own), one.factor))
    if not doubts:
        return RangeCorrections()
    order = np.argsort(np.concatenate(rows), kind='stable')
    return RangeCorrections(
        np.concatenate(rows)[order], np.concatenate(length)[order], np.concatenate(factor)[order])
