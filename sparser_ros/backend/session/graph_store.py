"""The growing graph: increments kept as they came, concatenated only when somebody looks."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...array_types import Index, Mask
from ...config import GraphError
from ...graph import (
    Graph,
    Increment,
    Landmarks,
    PointPriors,
    Poses,
    Ranges,
    RelativePoses,
    Table,
    Verticals,
    concatenated,
    empty_graph,
)
from ...graph.thinning import Renumbering
from ..integrity.odometry_errors import OdometryErrors
from .quarantine import ODOMETRY
from .radio_errors import RadioErrors
from .range_corrections import RangeCorrections
from .rulings import Rulings

_WEIGHTS = ('kappa', 'tau', 'precision')
"""Columns of measurements that are inverse to their variance."""


def merged(increments: list[Increment]) -> Increment:
    """One increment that stands for consecutive ones; its sequence is the last one's."""
    last = increments[-1]
    parts: dict[str, Any] = {
        name: concatenated([getattr(one, name) for one in increments]) for name in last.tables()
    }
    return Increment(
        sequence=last.sequence,
        robots=last.robots,
        poses=concatenated([one.poses for one in increments]),
        landmarks=_joined([one.landmarks for one in increments]),
        newest_stamp_ns=max(one.newest_stamp_ns for one in increments),
        unlevelled=last.unlevelled,
        **parts,
    )


_SEPARATE = 200
"""So many of the newest increments stay apart, so that one that no solve survives can be told from
the others; older ones are merged, which is quicker to send and to add."""


def runs(increments: Sequence[Increment], alone: Collection[int]) -> list[list[Increment]]:
    """Consecutive increments in runs to be merged; the newest and those in `alone` by themselves.

    `alone` lists sequences, of quarantined increments.
    """
    parts: list[list[Increment]] = []
    single = True
    for number, one in enumerate(increments):
        before, single = single, one.sequence in alone or number >= len(increments) - _SEPARATE
        if single or before:
            parts.append([])
        parts[-1].append(one)
    return parts


class GraphStore:
    """Sum of increments; adding is O(1), reading concatenates what is new since last time.

    Measurements of quarantined increments (quarantine.py), ranges in doubt (range_doubts.py),
    odometry that failed (failed_odometry.py) and what the operator ignores (rulings.py) are left
    out of `graph`; `original` gives the rows that the others have in the sum of all increments.
    Ranges that are long by a known length are corrected there (range_corrections.py), those of
    radios with known errors as well (radio_errors.py). Variances are there as residuals show them
    (integrity/noise.py); what the operator doubts has a smaller weight. Beacons that were moved
    away from their known place have none there, robots whose verticals are wrong none of these.
    """

    def __init__(self, dimension: int) -> None:
        self._whole = empty_graph(dimension)
        self._graph: Graph | None = None
        self._waiting: list[Increment] = []
        self._ends: dict[str, list[tuple[int, int]]] = {
            name: [] for name in self._whole.tables()}
        """(sequence, number of rows up to its end) of every increment."""
        self._rows: dict[str, Index] = {}
        self._excluded: dict[int, int] = {}
        self._doubted: Index = np.zeros(0, dtype=np.int64)
        self._cut: Index = np.zeros(0, dtype=np.int64)
        self._corrections = RangeCorrections()
        self._odometry_errors = OdometryErrors()
        self._driven: tuple[Graph, Poses] | None = None
        """`whole` as it was, and with the errors of odometry taken off its poses."""
        self._radio_errors = RadioErrors()
        self._unbiased: tuple[Graph, Graph] | None = None
        """`whole` as it was, and without errors of radios."""
        self._rulings = Rulings()
        self._released: tuple[str, ...] = ()
        self.unlevelled: tuple[str, ...] = ()
        """Robots whose verticals are left out, as the newest increment says."""
        self._robots: dict[int, tuple[int, ...]] = {}
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
        for name in self._ends:
            before = self._ends[name][-1][1] if self._ends[name] else 0
            rows = len(getattr(increment, name))
            self._ends[name].append((increment.sequence, before + rows))
        self.n_measurements += increment.n_measurements - int(
            np.sum(increment.relative_poses.odometry))
        self._robots[increment.sequence] = tuple(np.unique(increment.poses.robot).tolist())
        return True

    def thinned(
        self, increment: Increment, to: Renumbering, marks: Collection[int] = ()
    ) -> GraphStore:
        """A store of the thinned sum of all increments, which leaves out what this one does.

        Rows up to the increments in `marks` can still be counted, as can the newest ones'. What was
        quarantined is gone.
        """
        other = GraphStore(self._whole.dimension)
        other.add(increment, first=0)
        other.newest_stamp_ns = max(self.newest_stamp_ns, increment.newest_stamp_ns)
        for name, ends in self._ends.items():
            left = np.concatenate([[0], np.cumsum(to.rows[name] >= 0)])
            other._ends[name] = [
                (number, int(left[end])) for number, end in _remembered(ends, marks)]
        other._radio_errors = self._radio_errors
        other._odometry_errors = self._odometry_errors
        other._doubted = np.sort(to.measurements('ranges', self._doubted))
        other._cut = to.odometry(self._cut)
        other._corrections = self._corrections.thinned(to)
        other._rulings, other._released = self._rulings, self._released
        return other

    @property
    def graph(self) -> Graph:
        """The graph after all increments so far."""
        return self._counting()[0]

    @property
    def excluded(self) -> dict[int, int]:
        """Level by sequence of the quarantined increments."""
        return dict(self._excluded)

    @property
    def doubted(self) -> Index:
        """Rows, in the sum of all increments, of ranges left out."""
        return self._doubted

    @property
    def left_out_odometry(self) -> Index:
        """Rows, in the sum of all increments, of relative poses left out."""
        return self._cut

    @property
    def corrections(self) -> RangeCorrections:
        """What is taken off ranges, by rows of the sum of all increments."""
        return self._corrections

    @property
    def radio_errors(self) -> RadioErrors:
        """What is taken off the ranges of radios."""
        return self._radio_errors

    @property
    def odometry_errors(self) -> OdometryErrors:
        """What is taken off odometry."""
        return self._odometry_errors

    @property
    def rulings(self) -> Rulings:
        """What the operator has said."""
        return self._rulings

    @property
    def released(self) -> tuple[str, ...]:
        """Beacons that stand at their known place no longer."""
        return self._released

    @property
    def _partial(self) -> bool:
        return bool(
            self._excluded or len(self._doubted) or len(self._cut) or len(self._corrections)
            or self._odometry_errors or self._radio_errors
            or self._rulings.entries or self._released or self.unlevelled)

    @property
    def whole(self) -> Graph:
        """The sum of all increments, with what `graph` leaves out."""
        if self._waiting:
            self._whole = _extended(self._whole, self._waiting)
            self._waiting, self._graph = [], None
        return self._whole

    @property
    def unbiased(self) -> Graph:
        """The sum of all increments with the errors of radios taken off its ranges."""
        whole = self.whole
        if self._unbiased is None or self._unbiased[0] is not whole:
            self._unbiased = whole, self._radio_errors.off_all(whole)
        return self._unbiased[1]

    def exclude(self, levels: Mapping[int, int]) -> None:
        """Leave out these increments, and no others, from now on."""
        if dict(levels) != self._excluded:
            self._excluded, self._graph, self._rows = dict(levels), None, {}

    def doubt(self, ranges: Index) -> None:
        """Leave out these ranges, rows of the sum of all increments, and no others from now on."""
        if not np.array_equal(ranges, self._doubted):
            self._doubted, self._graph, self._rows = np.asarray(ranges), None, {}

    def cut(self, odometry: Index) -> None:
        """Leave out these relative poses, rows of the sum of all increments, and no others."""
        if not np.array_equal(odometry, self._cut):
            self._cut, self._graph, self._rows = np.asarray(odometry), None, {}

    def correct(self, corrections: RangeCorrections) -> None:
        """Correct these ranges, and no others, from now on."""
        if not corrections.same(self._corrections):
            self._corrections, self._graph, self._rows = corrections, None, {}

    def steer(self, errors: OdometryErrors) -> None:
        """Take these errors off odometry, and no others, from now on."""
        if errors != self._odometry_errors:
            self._odometry_errors, self._graph, self._rows = errors, None, {}
            self._driven = None

    def calibrate(self, errors: RadioErrors) -> None:
        """Take these errors off the ranges of radios, and no others, from now on."""
        if errors != self._radio_errors:
            self._radio_errors, self._graph, self._rows = errors, None, {}
            self._unbiased = None

    def rule(self, rulings: Rulings) -> None:
        """Leave out, or trust less, what the operator says, and nothing else from now on."""
        if rulings != self._rulings:
            self._rulings, self._graph, self._rows = rulings, None, {}

    def release(self, beacons: Collection[str]) -> None:
        """Take the known places of these beacons for unknown, and of no others, from now on."""
        if tuple(sorted(beacons)) != self._released:
            self._released, self._graph, self._rows = tuple(sorted(beacons)), None, {}

    def newest(self, news: Increment) -> Increment:
        """The newest increments, merged, as they are in `graph`; none of them is quarantined."""
        if not self._partial:
            return news
        tables = {}
        for name, table in news.tables().items():
            first = len(getattr(self.whole, name)) - len(table)
            rows = np.flatnonzero(self._counted(name, table, first))
            tables[name] = self._weighed(name, table.take(rows), first + rows)
        count = len(news.poses)
        first = len(self.whole.poses) - count
        return news.replaced(poses=self._poses().take(first + np.arange(count)), **tables)

    def _poses(self) -> Poses:
        """All poses, in frames of odometry from which its errors are taken off."""
        whole = self.whole
        if not self._odometry_errors:
            return whole.poses
        if self._driven is None or self._driven[0] is not whole:
            rotation, translation = self._odometry_errors.driven(whole)
            self._driven = whole, whole.poses.replaced(
                rotation=rotation, translation=translation)
        return self._driven[1]

    def original(self, name: str, rows: Index) -> Index:
        """Rows of the sum of all increments that rows of a table of `graph` have."""
        kept = self._counting()[1]
        return kept[name][rows] if name in kept else rows

    def sequences(self, after: int) -> list[int]:
        """Sequences of the increments after one, merged ones as one."""
        return [number for number, _ in self._ends['ranges'] if number > after]

    def count_until(self, name: str, sequence: int) -> int:
        """Rows of the sum of all increments that the increments up to one have."""
        return max((end for number, end in self._ends[name] if number <= sequence), default=0)

    def rows_until(self, sequence: int) -> dict[str, int]:
        """Number of rows of `graph` that the increments up to one have, by table."""
        kept = self._counting()[1]
        counts = {}
        for name in self._ends:
            whole = self.count_until(name, sequence)
            counts[name] = int(np.searchsorted(kept[name], whole)) if name in kept else whole
        return counts

    def subjects(self) -> dict[int, str]:
        """Names of the robots whose data a quarantined increment holds."""
        return {
            number: ', '.join(self._whole.robots[k] for k in self._robots.get(number, ()))
            or 'map' for number in self._excluded}

    def _counting(self) -> tuple[Graph, dict[str, Index]]:
        """The graph of what counts, and by table the rows that its rows have in the whole sum.

        A table of which all rows count is not named.
        """
        whole = self.whole
        if self._graph is None:
            self._graph = self._without() if self._partial else whole
        return self._graph, self._rows

    def _without(self) -> Graph:
        tables: dict[str, Any] = {}
        for name in self._ends:
            table, begin = getattr(self._whole, name), 0
            keep = np.ones(len(table), dtype=bool)
            for number, end in self._ends[name]:
                level = self._excluded.get(number, 0)
                if level >= ODOMETRY:
                    keep[begin:end] = False
                elif level and name == 'relative_poses':
                    keep[begin:end] = table.odometry[begin:end]
                elif level:
                    keep[begin:end] = False
                begin = end
            self._rows[name] = np.flatnonzero(keep & self._counted(name, table, 0))
            tables[name] = self._weighed(
                name, table.take(self._rows[name]), self._rows[name])
        marks = self._whole.landmarks
        known = marks.fixed & ~np.isin(marks.names, self._released)
        return self._whole.replaced(
            poses=self._poses(), landmarks=Landmarks(marks.names, marks.position, known), **tables)

    def _counted(self, name: str, table: Table, first: int) -> Mask:
        """(k,): rows of a part of a table, from row `first` of it on, that are not left out."""
        keep = ~self._rulings.ignored(self._whole, name, table)
        if name == 'ranges':
            keep &= ~np.isin(first + np.arange(len(table)), self._doubted)
        if name == 'relative_poses' and len(self._cut):
            keep &= ~np.isin(first + np.arange(len(table)), self._cut)
        if isinstance(table, Verticals) and self.unlevelled:
            keep &= ~np.isin(
                self._whole.poses.robot[table.i],
                [self._whole.robots.index(name) for name in self.unlevelled])
        if isinstance(table, PointPriors) and self._released:
            moved = np.flatnonzero(np.isin(self._whole.landmarks.names, self._released))
            keep &= ~np.isin(table.point, ~moved)
        return keep

    def _weighed(self, name: str, table: Table, rows: Index) -> Table:
        """Measurements as `graph` has them; `rows` are theirs in the sum of all increments."""
        if isinstance(table, RelativePoses):
            table = self._odometry_errors.off(self._whole, table)
        if isinstance(table, Ranges):
            table = self._radio_errors.off(self._whole, table)
            table = self._corrections.applied(table, rows)
        factor = self._rulings.factors(self._whole, name, table)
        if np.all(factor == 1.0):
            return table
        return table.replaced(**{
            column: getattr(table, column) / factor
            for column in _WEIGHTS if column in table.columns()})


def _remembered(ends: list[tuple[int, int]], marks: Collection[int]) -> list[tuple[int, int]]:
    """The newest entries, and those of some sequences: older ones are told apart no more.

    Of a sequence without an entry of its own, the one before it.
    """
    old = ends[:-_SEPARATE]
    numbers = [number for number, _ in old]
    places = {bisect.bisect_right(numbers, mark) - 1 for mark in marks}
    return [old[place] for place in sorted(places) if place >= 0] + ends[-_SEPARATE:]


def _joined(parts: Iterable[Landmarks]) -> Landmarks:
    parts = list(parts)
    return Landmarks(
        tuple(name for part in parts for name in part.names),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.fixed for part in parts]),
    )


def _extended(graph: Graph, increments: list[Increment]) -> Graph:
    tables: dict[str, Any] = {
        name: concatenated([getattr(graph, name), *(getattr(one, name) for one in increments)])
        for name in graph.tables()
    }
    poses: Poses = concatenated([graph.poses, *(one.poses for one in increments)])
    return graph.replaced(
        robots=increments[-1].robots,
        poses=poses,
        landmarks=_joined([graph.landmarks, *(one.landmarks for one in increments)]),
        **tables,
    )
