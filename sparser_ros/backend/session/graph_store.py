"""The growing graph: increments kept as they came, concatenated only when somebody looks.

Increments that no solve survives are found one by one, left out and named; the rest goes on. In one
thinning a smaller graph takes the place of all increments so far; treatments name no rows, and what
does is renumbered here.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ...array_types import Index, Mask
from ...config import GraphError, SparserError
from ...graph import Estimate, Graph, Increment, empty_graph, extended
from ...graph.finding import Finding
from ...graph.graph import joined
from ...graph.thinning import RELATIVE, Renumbering, Thinned, thin
from ..integrity.faults import UNLEVELLED, Fault
from .solution import TrackedMap, Verdict
from .treatment import Treated, Treatment

Excluded = Mapping[int, int]
"""Level by sequence of what is left out of the graph."""
MEASUREMENTS, ODOMETRY = 1, 2
"""Levels: closures, ranges, sightings and absolute data; the odometry edges as well."""
FAILURES = (SparserError, np.linalg.LinAlgError, ArithmeticError, ValueError, LookupError,
            MemoryError)
"""What a solve of poisoned data raises: overflow, indefinite matrices, failed validation."""
_POSES = 'poses'
_MOST = 8
"""So many increments are quarantined at once; more is no poison but a defect of another kind."""


def culprits(
    suspects: Sequence[int], known: Excluded, works: Callable[[Excluded], bool]
) -> dict[int, int] | None:
    """Which suspected increments must be left out, at which level, so that a solve works.

    `suspects` are sequences since the last success, `known` is left out already. None where
    leaving out all of them does not help. A bisection finds the first increment whose arrival
    makes the solve fail; it is left out at the lowest level that helps, and the search goes on.
    """
    excluded = dict(known)
    waiting = [sequence for sequence in suspects if excluded.get(sequence, 0) < ODOMETRY]

    def without(rest: Sequence[int]) -> dict[int, int]:
        return {**excluded, **dict.fromkeys(rest, ODOMETRY)}

    if not works(without(waiting)):
        return None
    for _ in range(_MOST):
        low, high = 0, len(waiting)
        if works(excluded):
            return excluded
        # Invariant: the first `low` suspects are harmless, the first `high` are not.
        while high - low > 1:
            middle = (low + high) // 2
            if works(without(waiting[middle:])):
                low = middle
            else:
                high = middle
        culprit, waiting = waiting[high - 1], waiting[high:]
        excluded[culprit] = MEASUREMENTS
        if not works(without(waiting)):
            excluded[culprit] = ODOMETRY
    return without(waiting)


def quarantine_findings(excluded: Excluded, subjects: Mapping[int, str]) -> tuple[Finding, ...]:
    """One finding per quarantined increment; `subjects` names the robots of its data."""
    what = {MEASUREMENTS: 'ranges, closures and fixes', ODOMETRY: 'measurements and odometry'}
    return tuple(
        Finding(
            'quarantined', subjects.get(sequence, 'map'),
            f'the {what[level]} of increment {sequence} ({subjects.get(sequence, "map")}) are left '
            f'out of the map: no solve succeeds with them', float(sequence))
        for sequence, level in sorted(excluded.items()))


def merged(increments: list[Increment]) -> Increment:
    """One increment that stands for consecutive ones; its sequence is the last one's."""
    last = increments[-1]
    newest_stamp_ns = max(increment.newest_stamp_ns for increment in increments)
    return last.replaced(newest_stamp_ns=newest_stamp_ns, **joined(increments))


_SEPARATE = 200
"""So many of the newest increments stay apart, so that one that no solve survives can be told from
the others; older ones are merged, which is quicker to send and to add, and takes less memory."""


def until(increments: Sequence[Increment], sequence: int) -> int:
    """How many increments there are up to a sequence; a merged one stands for several."""
    return bisect.bisect_right(increments, sequence, key=lambda increment: increment.sequence)


def runs(
    increments: Sequence[Increment], alone: Collection[int], newest: int = _SEPARATE
) -> list[list[Increment]]:
    """Consecutive increments in runs to be merged; the newest and those in `alone` by themselves.

    `alone` lists sequences, of quarantined increments.
    """
    parts: list[list[Increment]] = []
    single = True
    for number, increment in enumerate(increments):
        before, single = single, (
            increment.sequence in alone or number >= len(increments) - newest)
        if single or before:
            parts.append([])
        parts[-1].append(increment)
    return parts


def condense(
    increments: list[Increment], begin: int, sequence: int, alone: Collection[int]
) -> int:
    """Merge older increments from place `begin` up to a sequence; the place up to which they are.

    A robot that stands still for a day would fill the memory otherwise.
    """
    while min(until(increments, sequence), len(increments) - _SEPARATE) - begin >= _SEPARATE:
        rows = slice(begin, begin + _SEPARATE)
        parts = [merged(part) for part in runs(increments[rows], alone, 0)]
        increments[rows] = parts
        begin += len(parts)
    return begin


class _Rows:
    """How many rows of one table all increments up to each one have; empty ones take no place."""

    def __init__(self) -> None:
        self._sequences, self._ends = array('q'), array('q')

    @property
    def count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def reach(self, sequence: int, rows: int) -> None:
        """With an increment there are so many rows."""
        if rows > self.count:
            self._sequences.append(sequence)
            self._ends.append(rows)

    def until(self, sequence: int) -> int:
        """Rows of the increments up to one."""
        place = bisect.bisect_right(self._sequences, sequence)
        return self._ends[place - 1] if place else 0


class GraphStore:
    """Sum of increments; adding is O(1), reading concatenates what is new since last time.

    `graph` is that sum under the treatment in force; `treated` gives it under another one.
    """

    def __init__(self, dimension: int) -> None:
        self._whole = empty_graph(dimension)
        self._waiting: list[Increment] = []
        self._sequences = array('q')
        """Of all increments, merged ones as one."""
        self._rows = {name: _Rows() for name in (_POSES, *self._whole.tables())}
        self._read: dict[tuple[object, ...], Graph] = {}
        """The sum of all increments as treatments read it, by what these read otherwise."""
        self._treatment = Treatment()
        self._treated: Treated | None = None
        self.unlevelled: tuple[str, ...] = ()
        """Robots whose verticals are left out, as the newest increment says."""
        self.sequence = -1
        self.newest_stamp_ns = 0
        self.n_measurements = 0
        """Closures, ranges, sightings and absolute data."""

    def add(self, increment: Increment, *, first: int | None = None) -> bool:
        """Append one increment, or a merged one that starts at sequence `first`.

        Returns False for one that is already included (a repeated send); raises GraphError when
        one is missing in between.
        """
        if increment.sequence <= self.sequence:
            return False
        begin = increment.sequence if first is None else first
        if begin != self.sequence + 1:
            raise GraphError(
                f'increment {begin} follows {self.sequence}: one in between is missing; '
                'send them in order')
        self._waiting.append(increment)
        self.unlevelled = increment.unlevelled
        self.sequence = increment.sequence
        self.newest_stamp_ns = max(self.newest_stamp_ns, increment.newest_stamp_ns)
        self._sequences.append(increment.sequence)
        for name, rows in self._rows.items():
            rows.reach(increment.sequence, rows.count + len(getattr(increment, name)))
        self.n_measurements += increment.n_measurements - int(
            np.sum(increment.relative_poses.odometry))
        return True

    def thinned(
        self, increment: Increment, to: Renumbering, marks: Collection[int] = ()
    ) -> GraphStore:
        """A store of the thinned sum of all increments, under the same treatment.

        Rows up to the increments in `marks` can still be counted, as can the newest ones'. What was
        quarantined is gone.
        """
        other = GraphStore(self._whole.dimension)
        other.add(increment, first=0)
        other.newest_stamp_ns = max(self.newest_stamp_ns, increment.newest_stamp_ns)
        # Older increments are told apart no more.
        told, count = self._sequences, len(self._sequences)
        places = {bisect.bisect_right(told, mark) - 1 for mark in marks} - {-1}
        places.update(range(max(count - _SEPARATE, 0), count))
        other._sequences = array('q', (told[place] for place in sorted(places)))
        for name, kept in to.rows.items():
            left = np.concatenate([[0], np.cumsum(kept >= 0)])
            other._rows[name] = _Rows()
            for number in other._sequences:
                other._rows[name].reach(number, int(left[self._rows[name].until(number)]))
        other.treat(replace(self._treatment, quarantined=()))
        return other

    @property
    def treatment(self) -> Treatment:
        """In force."""
        return self._treatment

    def treat(self, treatment: Treatment) -> None:
        """Go on under another treatment."""
        self._treatment, self._treated = treatment, self._known(treatment)

    def treated(self, treatment: Treatment) -> Treated:
        """The sum of all increments under a treatment, which is not put into force."""
        known = self._known(treatment)
        return known if known is not None else replace(
            self._levelled(treatment).apply(
                self._as_read(treatment),
                self._brought_by(dict(treatment.quarantined))), treatment=treatment)

    def _levelled(self, treatment: Treatment) -> Treatment:
        """A treatment that also leaves out verticals that are said to be wrong."""
        return treatment.beside(*(Fault(UNLEVELLED, name) for name in self.unlevelled))

    def _known(self, treatment: Treatment) -> Treated | None:
        """The graph in force, where the treatment is the same."""
        known = self._treated
        same = known is not None and known.whole is self.whole and known.treatment == treatment
        return known if same else None

    @property
    def now(self) -> Treated:
        """The sum of all increments under the treatment in force."""
        known = self._treated
        if known is None or known.whole is not self.whole:
            known = self._treated = self.treated(self._treatment)
        return known

    @property
    def graph(self) -> Graph:
        """What counts of all increments so far."""
        return self.now.graph

    @property
    def whole(self) -> Graph:
        """The sum of all increments, with what `graph` leaves out; ranges are of the robots that
        bear the radios, and all is as noisy as it is."""
        return self._as_read(self._treatment)

    def _as_read(self, treatment: Treatment) -> Graph:
        """The sum of all increments as a treatment reads it; the same object while it is."""
        if self._waiting:
            self._whole = extended(self._whole, *self._waiting)
            self._waiting, self._read = [], {}
        key = treatment.reading
        if key not in self._read:
            self._read[key] = treatment.read(self._whole)
        return self._read[key]

    def newest(self, news: Increment) -> Increment:
        """The newest increments, merged, as they are in `graph`; none of them is quarantined."""
        treatment = self._levelled(self._treatment)
        if not treatment:
            return news
        tables = {}
        for name, table in news.tables().items():
            every = getattr(self.whole, name)
            table = every.take(np.arange(len(every) - len(table), len(every)))
            rows = np.flatnonzero(treatment.counts(self.whole, name, table))
            tables[name] = treatment.corrected(self.whole, name, table.take(rows))
        count = len(news.poses)
        first = len(self.whole.poses) - count
        return news.replaced(poses=self.graph.poses.take(first + np.arange(count)), **tables)

    def original(self, name: str, rows: Index) -> Index:
        """Rows of the sum of all increments that rows of a table of `graph` have."""
        return self.now.original(name, rows)

    def sequences(self, after: int) -> list[int]:
        """Sequences of the increments after one, merged ones as one."""
        return self._sequences[bisect.bisect_right(self._sequences, after):].tolist()

    def rows_until(self, sequence: int, data: Treated | None = None) -> dict[str, int]:
        """Number of rows of `graph`, or of another treated one, that the increments up to one have.

        By table.
        """
        kept = (self.now if data is None else data).rows
        counts = {}
        for name in self._whole.tables():
            whole = self._rows[name].until(sequence)
            counts[name] = int(np.searchsorted(kept[name], whole)) if name in kept else whole
        return counts

    def subjects(self) -> dict[int, str]:
        """Names of the robots whose data a quarantined increment holds."""
        poses = self._whole.poses
        return {
            number: ', '.join(self._whole.robots[k] for k in np.unique(
                poses.robot[self._brought(_POSES, number)]).tolist()) or 'map'
            for number, _ in self._treatment.quarantined}

    def _brought(self, name: str, sequence: int) -> slice:
        """Rows of an increment, or of the merged one that holds it."""
        place = bisect.bisect_left(self._sequences, sequence)
        before = self._sequences[place - 1] if place else -1
        return slice(self._rows[name].until(before), self._rows[name].until(
            self._sequences[place] if place < len(self._sequences) else sequence))

    def _brought_by(self, levels: Mapping[int, int]) -> dict[str, Mask]:
        """By table the rows of quarantined increments that are left out."""
        masks: dict[str, Mask] = {}
        for name, table in self._whole.tables().items() if levels else ():
            masks[name] = out = np.zeros(len(table), dtype=bool)
            for sequence, level in levels.items():
                rows = self._brought(name, sequence)
                out[rows] |= (~self._whole.relative_poses.odometry[rows]
                              if name == RELATIVE and level < ODOMETRY else level > 0)
        return masks


@dataclass(frozen=True)
class ThinningStep:
    """What takes the place of the increments until `increment.sequence`, and the way to it."""

    increment: Increment
    """The thinned sum; it stands for all sequences from 0 on."""
    renumbering: Renumbering
    """From the rows of the sum to those of `increment`."""
    text: str
    """What happened, in words."""


def possible(quarantined: Iterable[tuple[int, int]]) -> bool:
    """Whether a graph can be thinned now: not while odometry in the middle of it is left out."""
    return all(level < ODOMETRY for _, level in quarantined)


def thinned(
    increments: Sequence[Increment], drop: Mask, per_pair: int,
    quarantined: Iterable[tuple[int, int]] = (),
) -> ThinningStep:
    """The sum of all increments without the poses of a mask; see `graph.thinning.thin`.

    What quarantined increments have measured is gone then, since within a merged one it could not
    be told apart any more; their odometry stays (`possible`).
    """
    store = GraphStore(increments[0].poses.translation.shape[1])
    begin = 0
    for increment in increments:
        store.add(increment, first=begin)
        begin = increment.sequence + 1
    store.treat(Treatment(quarantined=tuple(sorted(quarantined))))
    part = store.graph
    thinned = thin(part, drop, per_pair)
    rows = {}
    for name, table in store.whole.tables().items():
        rows[name] = np.full(len(table), -1, dtype=np.int64)
        rows[name][store.original(name, np.arange(len(getattr(part, name))))] = \
            thinned.renumbering.rows[name]
    graph = thinned.graph
    increment = Increment(
        store.sequence, graph.robots, graph.poses, graph.landmarks,
        newest_stamp_ns=store.newest_stamp_ns, unlevelled=store.unlevelled,
        measurements=graph.tables())
    edges = np.full(len(store.whole.relative_poses), -1, dtype=np.int64)
    edges[store.original(RELATIVE, np.arange(len(part.relative_poses)))] = (
        thinned.renumbering.next_edge)
    to = replace(thinned.renumbering, rows=rows, next_edge=edges)
    return ThinningStep(increment, to, _words(part, thinned))


def _words(before: Graph, thinned: Thinned) -> str:
    after = thinned.graph
    sigma = thinned.offset_sigma_m
    return (f'keyframes thinned from {before.n_poses} to {after.n_poses}, {thinned.dropped} of '
            f'{len(before.ranges)} ranges and other measurements dropped; the others moved by '
            f'odometry of {np.median(sigma):.3f} m standard deviation (at most {sigma.max():.3f})')


_Map = TypeVar('_Map', TrackedMap, Verdict)


def estimate_of(estimate: Estimate, to: Renumbering) -> Estimate:
    """The values of the poses that stay; the estimate may cover the first poses of the graph."""
    rows = to.until(len(estimate.translation))
    return Estimate(estimate.rotation[rows], estimate.translation[rows], estimate.landmarks.copy())


def renumbered(endpoints: Iterable[int], to: Renumbering) -> tuple[int, ...]:
    """The same segments and landmarks by their endpoints in the thinned graph, in order."""
    return tuple(sorted(
        int(to.next_pose[end]) if end >= 0 else end for end in endpoints))


def tracked_of(tracked: TrackedMap, to: Renumbering) -> TrackedMap:
    """The same map of fewer poses."""
    return replace(_map_of(tracked, to), quarantined=())


def verdict_of(verdict: Verdict, to: Renumbering) -> Verdict:
    """The same verdict on fewer poses, of the increments until the thinning."""
    return replace(
        _map_of(verdict, to), treatment=replace(verdict.treatment, quarantined=()),
        segments=tuple(
            replace(segment, first=int(to.next_pose[segment.first]))
            for segment in verdict.segments),
        undetected=None if verdict.undetected is None else replace(
            verdict.undetected, keyframes=to.next_pose[verdict.undetected.keyframes]))


def kept_of(verdict: Verdict, to: Renumbering, sequence: int) -> Verdict:
    """The verdict for who begins with the thinned graph as one increment, of `sequence`.

    What is older than the verdict cannot be told apart there: all of that increment counts as known
    to it, and not as contradicting it. It stands for no audit of that.
    """
    kept = verdict_of(verdict, to)
    return replace(kept, sequence=max(kept.sequence, sequence), final=False)


def _map_of(known: _Map, to: Renumbering) -> _Map:
    return replace(
        known, estimate=estimate_of(known.estimate, to), placed=renumbered(known.placed, to))
