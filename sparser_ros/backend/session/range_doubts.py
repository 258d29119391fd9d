"""Ranges that are faulty together, such as those of one radio behind a wall for half a minute.

A robust kernel doubts every measurement by itself: many ranges that agree in one error move the
map until odometry gives way. Here the ranges of one source and one stretch of time are tested as
a group: with and without them, the map differs in cost by their chi-square given all other data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from ...graph import Estimate, Graph, range_residuals
from ...graph.finding import Finding
from ..integrity.doubts import FAR_SIGMA

Index = NDArray[np.int64]


@dataclass(frozen=True)
class RangeDoubt:
    """One group of ranges that is left out."""

    finding: Finding
    rows: Index
    """In the sum of all increments, ascending."""
    end_s: float
    """Time of the last of them since the first pose."""


def faulty_together(gain: float, count: int, flip_cost: float) -> bool:
    """Whether a map without `count` ranges costs less by more than honest ranges explain.

    Honest ranges, whitened, cost chi-square with `count` degrees of freedom given the rest. The
    false-alarm probability is that of a wrong alternative placement, exp(-flip_cost / 2).
    """
    return bool(count and gain > chdtri(count, np.exp(-flip_cost / 2)))


def joined(doubts: list[RangeDoubt], new: list[RangeDoubt]) -> list[RangeDoubt]:
    """All groups; a new one takes in an older one of its source that it overlaps or follows.

    A burst that goes on is found again and again, each time with its newest ranges only.
    """
    result = list(doubts)
    for one in new:
        same = [old for old in result if old.finding.subject == one.finding.subject
                and len(one.rows) and len(old.rows)]
        rows = one.rows
        for old in same:
            result.remove(old)
            rows = np.union1d(rows, old.rows)
        result.append(RangeDoubt(one.finding, rows, one.end_s))
    return result


def revived(doubts: list[RangeDoubt], graph: Graph, estimate: Estimate) -> list[RangeDoubt]:
    """The groups without those of which most ranges fit the map by now.

    `graph` is the sum of all increments, `estimate` of all its poses and landmarks.
    """
    kept = []
    for one in doubts:
        ranges = graph.ranges.take(one.rows)
        whitened = range_residuals(graph.replaced(ranges=ranges), estimate) * np.sqrt(
            ranges.precision)
        if np.mean(np.abs(whitened) < FAR_SIGMA) <= 0.5:
            kept.append(one)
    return kept


def rows_of(doubts: list[RangeDoubt]) -> Index:
    """All rows of the groups, ascending."""
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(d.rows for d in doubts)]))
