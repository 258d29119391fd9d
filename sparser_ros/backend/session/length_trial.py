"""Whether ranges that seem faulty together are right, and a radio that they end at is not.

Ranges between two radios do not say which of the two is at fault. A radio whose ranges are all too
long by one length bends the map until ranges of its partners do not fit: these look like a burst
of the partner, and the map without them fits well at a wrong place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from ...array_types import Index
from ...graph import Estimate, range_residuals
from ...graph.finding import Finding
from ...graph.range_ends import range_ends
from ..integrity.doubts import FAR_SIGMA
from .common_length import common_length
from .contest import Contest
from .graph_store import GraphStore
from .odometry_faults import Again
from .range_doubts import LEAST_EXPLAINED, RangeDoubt, of_sources, possible

_ROUNDS = 4
"""Linear estimates of a length with the map free: 1.5 m at 10 m of distance takes so many."""


@dataclass(frozen=True)
class LengthTrial:
    """Solves with one length taken off all ranges of a radio; each changes the store."""

    store: GraphStore
    doubt: Callable[[list[RangeDoubt]], bool]
    """Leave these groups of ranges out of the store; whether that changes it."""
    believed: list[RangeDoubt]
    """What is left out and corrected besides."""
    again: Again

    def partner(self, group: RangeDoubt, estimate: Estimate) -> str:
        """The radio at the other ends of a group's ranges that has most of their misfit, or ''."""
        graph = self.store.unbiased
        ends = range_ends(graph)
        own = ends.names.index(group.finding.subject)
        other = np.where(
            ends.first[group.rows] == own, ends.second[group.rows], ends.first[group.rows])
        ranges = graph.ranges.take(group.rows)
        whitened = range_residuals(graph.replaced(ranges=ranges), estimate) * np.sqrt(
            ranges.precision)
        misfit = np.bincount(
            other, np.minimum(whitened**2, FAR_SIGMA**2), minlength=len(ends.names))
        most = int(np.argmax(misfit))
        return ends.names[most] if np.count_nonzero(other == most) >= LEAST_EXPLAINED else ''

    def value(self, name: str, contest: Contest) -> float:
        """Robust cost of the best map with the best length off all ranges of a radio.

        Infinite where there is no such length.
        """
        found = self.measured(name, contest)
        if found is None:
            return np.inf
        other = self._solved(replace(found[0], factor=1.0), found[1])
        return np.inf if other is None else other.best.value

    def measured(
        self, name: str, contest: Contest, since: int = 0
    ) -> tuple[RangeDoubt, Contest] | None:
        """The ranges of a radio with the length that they are too long by, and the map beside it.

        Those from row `since` on, in the sum of all increments. None where there is no such length.
        """
        taken: Index = reduce(
            np.union1d, (one.rows for one in self.believed), np.zeros(0, dtype=np.int64))
        rows = np.setdiff1d(of_sources(self.store.whole, (name,), since), taken)
        one = RangeDoubt(Finding('range_bias', name, ''), rows, 0.0, open=False, corrected=rows,
                         factor=float(len(rows)))
        for _ in range(_ROUNDS):
            other = self._solved(one, contest)
            if other is None:
                return None
            contest = other
            solved = self.store.original('ranges', contest.frame.subgraph.rows['ranges'])
            # Beside ranges that all of them together count as one, the map is free to follow.
            found = common_length(contest, np.flatnonzero(np.isin(solved, rows)), one.factor)
            if found is None:
                return None
            one = replace(one, length_m=one.length_m + found[0])
        return (one, contest) if possible(one, self.store.unbiased) else None

    def _solved(self, one: RangeDoubt, contest: Contest) -> Contest | None:
        self.doubt([*self.believed, one])
        return self.again(contest, contest.best.whole)
