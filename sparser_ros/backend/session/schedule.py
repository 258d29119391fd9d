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
from dataclasses import dataclass, field, replace

import numpy as np

from ...array_types import Index, Mask
from ...config.backend_config import AuditConfig
from ...graph import Graph
from ..integrity.radio_errors import RadioErrors
from .contest import SearchEnd
from .frame import segment_name
from .graph_store import GraphStore
from .judgement import Judgement, ties_of
from .solution import Location, SegmentVerdict
from .treatment import Rulings


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

    def seconds(self, now_s: float) -> float:
        """Time since the measurements were fewer by the factor; infinite if they never were."""
        if not self._seen or self._seen[0][1] * self._factor > self._seen[-1][1]:
            return math.inf
        return now_s - self._seen[0][0]


DOUBT_GROWTH = 1.02
"""Growth of the measurements since the last try from which a doubt brings the next one."""
_PLACED = (Location.LOCATED, Location.POSITION_ONLY)
_BEATEN = 'a start from scratch has found a far better map, to be confirmed by another one'
_CUT = 'the graph grows faster than a start from scratch takes'
_FAILS = 'starts from scratch fail'
_UNCONFIRMED = 'a solve from scratch has yet to confirm its place'


@dataclass(frozen=True)
class Situation:
    """What an audit knows before it solves from scratch."""

    measurements: int
    ties: Index
    """(b,): measurements that tie each segment to others."""
    doubt: str
    """Why the tracker doubts its map, or ''."""
    determined: Callable[[], Mask]
    """(b,): segments that all measurements together would determine; asked only if needed."""


@dataclass
class ScratchRule:
    """Remembers the last start from scratch of one auditor."""

    _measurements: int = 0
    """At the last start from scratch; 0 = there was none."""
    _ties: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _confirmed: frozenset[str] = frozenset()
    _beaten: bool = False
    """The last start from scratch has found a map that nothing has confirmed yet."""

    def reason(
        self, found: Judgement, now: Situation, config: AuditConfig, *, eager: bool
    ) -> str:
        """Why to solve from scratch after `found`, or ''.

        `eager`: a robot that is not located is worth a solve at any new data about it, where the
        time that these solves take is bounded otherwise; else when its data have grown.
        """
        if self._beaten:
            return _BEATEN
        if self._unconfirmed(found.segments):
            return 'a place is to be confirmed'
        grown = now.measurements / max(self._measurements, 1)
        doubt = now.doubt or '; '.join(found.gate_reasons + tuple(
            text for _, text in found.gate_robots))
        if doubt and grown >= DOUBT_GROWTH:
            return doubt
        placed = any(segment.location is not Location.UNLOCATED for segment in found.segments)
        if placed and grown >= config.growth:
            return 'the graph has grown'
        before = np.zeros(len(now.ties), dtype=np.int64)
        before[:len(self._ties)] = self._ties[:len(before)]
        open_ones = np.array([
            segment.location is Location.UNLOCATED for segment in found.segments], dtype=bool)
        growth = 1.0 if eager else config.growth_unlocated
        open_ones &= (now.ties > before) & (now.ties >= growth * before)
        if np.any(open_ones) and np.any(open_ones & now.determined()):
            return 'a robot could be located'
        return ''

    def thinned(
        self, share: float, ties: Index, renamed: Callable[[str], str]
    ) -> None:
        """The graph has that share of its measurements now, and these ties (b,)."""
        self._measurements = int(share * self._measurements)
        self._ties = ties[:len(self._ties)]
        self._confirmed = frozenset(map(renamed, self._confirmed))

    def has_news(self, measurements: int) -> bool:
        """Whether there are more measurements than at the last start from scratch."""
        return measurements > self._measurements

    def searched(self, found: Judgement, now: Situation, end: SearchEnd) -> str:
        """Starts from scratch were made, and `found` is what the best map determines.

        Returns why more are to follow, or ''.
        """
        if end is SearchEnd.FAR_BETTER:
            self._beaten, self._confirmed = True, frozenset()
            return _BEATEN
        if end in (SearchEnd.LIMIT, SearchEnd.FAILED):
            self.kept(found)
            return _CUT if end is SearchEnd.LIMIT else _FAILS
        self._beaten, self._confirmed = False, _names(found.segments)
        self._measurements, self._ties = now.measurements, now.ties
        return ''

    def kept(self, found: Judgement) -> None:
        """No start from scratch was made: what is no longer placed must be confirmed anew."""
        self._confirmed &= _names(found.segments)

    def restrained(self, found: Judgement) -> Judgement:
        """`found`, with places that no start from scratch has confirmed held back."""
        unconfirmed = self._unconfirmed(found.segments)
        return replace(found, segments=tuple(
            replace(segment, location=Location.UNLOCATED, missing=_UNCONFIRMED)
            if segment_name(segment.first) in unconfirmed else segment
            for segment in found.segments))

    def _unconfirmed(self, segments: tuple[SegmentVerdict, ...]) -> frozenset[str]:
        return _names(segments) - self._confirmed


def _names(segments: tuple[SegmentVerdict, ...]) -> frozenset[str]:
    return frozenset(
        segment_name(segment.first) for segment in segments if segment.location in _PLACED)


RULED = 'the operator has said what to leave out'
CALIBRATED = 'the radios were calibrated'
UNLEVELLED = 'verticals were found to be wrong'
"""Reasons of an audit."""


_SHARE_OF_STALE = 0.5
"""Of `audit.stale_s`: measurements that have waited for so long make an audit due, before robots
are withdrawn for it."""


@dataclass(frozen=True)
class _Counts:
    """Counts at an audit."""

    measurements: int
    rows: tuple[int, int]
    """Ranges and relative poses."""
    ties: Index
    """(b + m,): measurements of segments and landmarks."""
    sure: Mask
    """(b + m,): located ones."""
    stamp_ns: int
    """Newest stamp."""


class DueRule:
    """Remembers what the last audit of one auditor had."""

    def __init__(self) -> None:
        self._last: _Counts | None = None
        self._rulings = Rulings()
        self._errors = RadioErrors()
        self._unlevelled: tuple[str, ...] = ()
        self.sequence = -1
        """Newest increment of the last audit, also of one that could not tell; -1 = none."""

    @property
    def rows(self) -> tuple[int, int]:
        """Ranges and relative poses that the last audit had."""
        return (0, 0) if self._last is None else self._last.rows

    def retold(self, store: GraphStore) -> str:
        """What else than data is new since the last audit, or ''."""
        if store.treatment.rulings != self._rulings:
            return RULED
        if store.unlevelled != self._unlevelled:
            return UNLEVELLED
        return CALIBRATED if store.treatment.radio_errors != self._errors else ''

    def begin(self, store: GraphStore) -> int:
        """An audit of the graph begins; returns `sequence` of the one before."""
        before, self.sequence = self.sequence, store.sequence
        self._rulings = store.treatment.rulings
        self._errors = store.treatment.radio_errors
        self._unlevelled = store.unlevelled
        return before

    def audited(self, store: GraphStore) -> None:
        """The audit ends: what it has taken off ranges itself is no news."""
        self._errors = store.treatment.radio_errors

    def failed(self, before: int) -> None:
        """The audit ended with an error: another try may succeed."""
        self.sequence = before

    def end(self, store: GraphStore, graph: Graph, found: Judgement) -> None:
        """The audit of `graph`, the frame's part of what is stored, found this."""
        ties, _ = ties_of(store.graph)
        sure = np.concatenate([
            np.array([
                segment.location is Location.LOCATED for segment in found.segments], dtype=bool),
            found.landmark_located])
        self._last = _Counts(
            store.n_measurements, (len(graph.ranges), len(graph.relative_poses)), ties, sure,
            store.newest_stamp_ns)

    def thinned(self, before: GraphStore, now: GraphStore) -> None:
        """Go on with a thinned graph: counts are those that it had at the last audit."""
        # What was not audited yet is still to be: an audit is due although nothing has come since.
        whole = before.sequence
        self.sequence = whole if self.sequence == whole else min(self.sequence, whole - 1)
        if self._last is None:
            return
        share = now.n_measurements / max(before.n_measurements, 1)
        (ties, _), graph = ties_of(now.graph), now.graph
        self._last = replace(
            self._last, measurements=int(share * self._last.measurements),
            rows=(len(graph.ranges), len(graph.relative_poses)),
            ties=ties if len(ties) == len(self._last.ties) else self._last.ties)

    def reason(self, store: GraphStore, audit: AuditConfig, doubt: str) -> str:
        """Why an audit is due, or ''; `doubt` is the tracker's."""
        last = self._last
        if store.sequence >= 0 and (retold := self.retold(store)):
            return retold
        if store.sequence <= self.sequence:
            return ''
        if last is None:
            return 'first audit'
        now = store.n_measurements
        if now >= audit.growth * last.measurements and now > last.measurements:
            return 'the graph has grown'
        if doubt and now >= DOUBT_GROWTH * last.measurements:
            return doubt
        waited_s = (store.newest_stamp_ns - last.stamp_ns) * 1e-9
        if now > last.measurements and waited_s > _SHARE_OF_STALE * audit.stale_s:
            return 'measurements have waited'
        ties, _ = ties_of(store.graph)
        if len(ties) != len(last.ties):
            return 'something new is to be placed'
        grown = ~last.sure & (ties > last.ties) & (ties >= audit.growth_unlocated * last.ties)
        return 'something unlocated has new measurements' if np.any(grown) else ''
