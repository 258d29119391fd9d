"""When an audit is due, and when it solves from scratch: from counts of data.

An audit is due where the data have grown since the last one. A start from scratch takes many times
as long as the rest of an audit, so it is made where its result can matter: to confirm a place
before a robot is located there, in doubt, when the graph has grown, and where the measurements
would determine a robot that their robust weights leave out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...array_types import Mask
from ...config.backend_config import AuditConfig
from ...graph import Graph
from ...graph.thinning import Renumbering
from ..integrity.radio_errors import RadioErrors
from .contest import SearchEnd
from .graph_store import GraphStore, renumbered
from .judgement import Judgement, ties_of
from .rulings import Rulings
from .solution import Location, SegmentVerdict


class GrowthClock:
    """Remembers when how many measurements were there."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, measurements: int, now_s: float) -> None:
        """There are so many measurements at `now_s` (seconds, any monotonic clock)."""
        self._seen.append((now_s, measurements))
        while len(self._seen) > 1 and self._seen[1][1] * self._factor <= measurements:
            self._seen.popleft()

    def thinned(self, share: float) -> None:
        """A graph of a share of the measurements goes on."""
        self._seen = deque((when_s, int(share * count)) for when_s, count in self._seen)

    def seconds(self, now_s: float) -> float:
        """Time since the measurements were fewer by the factor; infinite if they never were."""
        if not self._seen or self._seen[0][1] * self._factor > self._seen[-1][1]:
            return math.inf
        return now_s - self._seen[0][0]


MOST_GROWTH = 2.0
"""Growth of the measurements from which even a map that starts from scratch have confirmed time and
again is tried by another one."""
DOUBT_GROWTH = 1.02
"""Growth of the measurements since the last try from which a doubt brings the next one."""
_BEATEN = 'a start from scratch has found a far better map, to be confirmed by another one'
_CUT = 'the graph grows faster than a start from scratch takes'
_FAILS = 'starts from scratch fail'
_UNCONFIRMED = 'a solve from scratch has yet to confirm its place'
_ODOMETRY_ONLY = 'nothing but odometry is known of it; ranges, loop closures or fixes are missing'
RULED = 'the operator has said what to leave out'
CALIBRATED = 'the radios were calibrated'
UNLEVELLED = 'verticals were found to be wrong'
"""Reasons of an audit."""
_SHARE_OF_STALE = 0.5
"""Of `audit.stale_s`: measurements that have waited for so long make an audit due, before robots
are withdrawn for it."""


class Schedule:
    """Remembers what the last audit of one auditor had, and its last start from scratch."""

    def __init__(self) -> None:
        self.sequence = -1
        """Newest increment of the last audit, also of one that could not tell; -1 = none."""
        self.rows = 0, 0
        """Ranges and relative poses that the last audit had."""
        self._rulings, self._errors = Rulings(), RadioErrors()
        self._unlevelled: tuple[str, ...] = ()
        self._told = False
        """Whether an audit has told anything; what it had then:"""
        self._measurements, self._stamp_ns = 0, 0
        self._ties = np.zeros(0, dtype=np.int64)
        """(b + m,): measurements of segments and landmarks."""
        self._sure = np.zeros(0, dtype=bool)
        """(b + m,): located ones."""
        self.forget_searches()

    def forget_searches(self) -> None:
        """As before the first start from scratch."""
        self._searched = 0
        """Measurements at the last one."""
        self._searched_ties = np.zeros(0, dtype=np.int64)
        self._confirmed: frozenset[int] = frozenset()
        """First poses of segments whose place a start from scratch has confirmed."""
        self._headed: frozenset[int] = frozenset()
        """Those of which it had determined the heading as well: two headings are two maps."""
        self._beaten = False
        """The last one has found a map that nothing has confirmed yet."""
        self._agreed = 0
        """How many in a row have ended at the present map: the next one likely does, too."""

    def retold(self, store: GraphStore) -> str:
        """What else than data is new since the last audit, or ''."""
        if store.treatment.rulings != self._rulings:
            return RULED
        if store.unlevelled != self._unlevelled:
            return UNLEVELLED
        return CALIBRATED if store.treatment.radio_errors != self._errors else ''

    def due(self, store: GraphStore, audit: AuditConfig, doubt: str) -> str:
        """Why an audit is due, or ''; `doubt` is the tracker's."""
        if store.sequence >= 0 and (retold := self.retold(store)):
            return retold
        if store.sequence <= self.sequence:
            return ''
        if not self._told:
            return 'first audit'
        now, before = store.n_measurements, self._measurements
        if now >= audit.growth * before and now > before:
            return 'the graph has grown'
        if doubt and now >= DOUBT_GROWTH * before:
            return doubt
        waited_s = (store.newest_stamp_ns - self._stamp_ns) * 1e-9
        if now > before and waited_s > _SHARE_OF_STALE * audit.stale_s:
            return 'measurements have waited'
        ties, _ = ties_of(store.graph)
        if len(ties) != len(self._ties):
            return 'something new is to be placed'
        grown = ~self._sure & (ties > self._ties) & (ties >= audit.growth_unlocated * self._ties)
        return 'something unlocated has new measurements' if np.any(grown) else ''

    def begin(self, store: GraphStore) -> int:
        """An audit of the graph begins; returns `sequence` of the one before."""
        before, self.sequence = self.sequence, store.sequence
        self._rulings, self._unlevelled = store.treatment.rulings, store.unlevelled
        self._errors = store.treatment.radio_errors
        return before

    def end(self, store: GraphStore, graph: Graph, judgement: Judgement) -> None:
        """The audit of `graph`, the frame's part of what is stored, found this."""
        self._told, self._stamp_ns = True, store.newest_stamp_ns
        self._measurements, (self._ties, _) = store.n_measurements, ties_of(store.graph)
        self.rows = len(graph.ranges), len(graph.relative_poses)
        self._sure = np.concatenate([
            np.array([segment.location is Location.LOCATED and not segment.heading_open
                      for segment in judgement.segments], dtype=bool),
            judgement.landmark_located])

    def taken_off(self, store: GraphStore) -> None:
        """What an audit has taken off ranges itself is no news."""
        self._errors = store.treatment.radio_errors

    def thinned(
        self, share: float, now: GraphStore, whole: int, to: Renumbering
    ) -> None:
        """Go on with a thinned graph, `now`: counts are those that it had then.

        It has a share of the measurements, and stands for all increments up to the number `whole`.
        """
        # What was not audited yet is still to be: an audit is due although nothing has come since.
        self.sequence = whole if self.sequence == whole else min(self.sequence, whole - 1)
        ties, count = ties_of(now.graph)
        self._searched = int(share * self._searched)
        self._searched_ties = ties[:count][:len(self._searched_ties)]
        self._confirmed = frozenset(renumbered(self._confirmed, to))
        self._headed = frozenset(renumbered(self._headed, to))
        if self._told:
            self._measurements = int(share * self._measurements)
            self.rows = len(now.graph.ranges), len(now.graph.relative_poses)
            self._ties = ties if len(ties) == len(self._ties) else self._ties

    def has_news(self, measurements: int) -> bool:
        """Whether there are more measurements than at the last start from scratch."""
        return measurements > self._searched

    def search(
        self, judgement: Judgement, store: GraphStore, doubt: str, determined: Callable[[], Mask],
        config: AuditConfig, *, eager: bool,
    ) -> str:
        """Why to solve from scratch after `judgement`, or ''; `doubt` is the tracker's.

        `determined` gives the segments (b,) that all measurements together would determine.
        `eager`: a robot that is not located is worth a solve at any new data about it, where the
        time that these solves take is bounded otherwise; else when its data have grown.
        """
        if self._beaten:
            return _BEATEN
        if any(self._unconfirmed(segment) for segment in judgement.segments):
            return 'a place is to be confirmed'
        grown = store.n_measurements / max(self._searched, 1)
        doubt = doubt or '; '.join(why for _, why in judgement.unclear)
        if doubt and grown >= DOUBT_GROWTH:
            return doubt
        placed = any(segment.location is not Location.UNLOCATED for segment in judgement.segments)
        if placed and grown >= max(
                config.growth, min(config.growth ** (1 + self._agreed), MOST_GROWTH)):
            return 'the graph has grown'
        ties, count = ties_of(store.graph)
        ties, before = ties[:count], np.zeros(count, dtype=np.int64)
        before[:len(self._searched_ties)] = self._searched_ties[:count]
        lost = np.array([
            segment.location is Location.UNLOCATED for segment in judgement.segments], dtype=bool)
        lost &= (ties > before) & (ties >= (1.0 if eager else config.growth_unlocated) * before)
        if np.any(lost) and np.any(lost & determined()):
            return 'a robot could be located'
        return ''

    def searched(self, judgement: Judgement, store: GraphStore, end: SearchEnd) -> str:
        """Starts from scratch were made, and `judgement` is what the best map determines.

        Returns why more are to follow, or ''.
        """
        if end is SearchEnd.FAR_BETTER:
            self._beaten, self._confirmed, self._headed, self._agreed = (
                True, frozenset(), frozenset(), 0)
            return _BEATEN
        if end in (SearchEnd.LIMIT, SearchEnd.FAILED):
            self.kept(judgement)
            return _CUT if end is SearchEnd.LIMIT else _FAILS
        ties, count = ties_of(store.graph)
        self._agreed = self._agreed + 1 if end is SearchEnd.AGREED else 0
        self._beaten, self._confirmed = False, _placed(judgement.segments)
        self._headed = _placed(judgement.segments, Location.LOCATED)
        self._searched, self._searched_ties = store.n_measurements, ties[:count]
        return ''

    def kept(self, judgement: Judgement) -> None:
        """No start from scratch was made: what is no longer placed must be confirmed anew."""
        self._confirmed &= _placed(judgement.segments)
        self._headed &= self._confirmed

    def restrained(self, judgement: Judgement, *, measured: bool) -> Judgement:
        """`judgement`, with places that no start from scratch has confirmed held back.

        Unless it is `measured`, there is nothing but odometry to confirm them.
        """
        missing = _UNCONFIRMED if measured else _ODOMETRY_ONLY
        return replace(judgement, segments=tuple(
            replace(segment, location=Location.UNLOCATED, missing=missing)
            if self._unconfirmed(segment) else segment
            for segment in judgement.segments))

    def _unconfirmed(self, segment: SegmentVerdict) -> bool:
        known = self._headed if segment.location is Location.LOCATED else self._confirmed
        return segment.location.placed and segment.first not in known


def _placed(segments: tuple[SegmentVerdict, ...], *states: Location) -> frozenset[int]:
    """First poses of segments that have a place, or are in one of these states."""
    return frozenset(
        segment.first for segment in segments
        if (segment.location in states if states else segment.location.placed))
