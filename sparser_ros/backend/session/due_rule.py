"""When an audit is due: counts of data at the last one against those of now."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Index, Mask
from ...config.backend_config import AuditConfig
from ...graph import Graph
from ..integrity.radio_errors import RadioErrors
from .graph_store import GraphStore
from .judgement import Judgement, ties_of
from .rulings import Rulings
from .scratch_rule import DOUBT_GROWTH
from .solution import Location

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
            np.array([one.location is Location.LOCATED for one in found.segments], dtype=bool),
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
