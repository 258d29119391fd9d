"""What is done to a graph before it is solved: one immutable value, by names and times.

The faults that are known, what a calibration takes off radios, what the operator has said, and
increments that no solve survives. To try another treatment changes nothing: a graph is treated,
solved and compared, and the value is adopted or dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...array_types import Index, Mask
from ...graph import Graph, Heights, Landmarks, PointPriors, Poses, Table
from ...graph.finding import Finding
from ..integrity.exchange import Pair, exchange_finding, exchanged
from ..integrity.faults import BURST, KINDS, LENGTH, Fault
from ..integrity.hypotheses import ANTENNA, ONGOING
from ..integrity.noise import ODOMETRY, RANGES, Noise
from ..integrity.odometry_errors import SCALE, TURN, OdometryErrors
from ..integrity.places import known_names
from ..integrity.radio_errors import RadioErrors
from .rulings import Rulings

RANGE_NOISE, NOISY = 'range_noise', 2.0
"""Kind of the finding that ranges claim too little noise, and how many times as noisy they are."""
_WEIGHTS = ('kappa', 'tau', 'precision')
"""Columns of measurements that are inverse to their variance."""


@dataclass(frozen=True)
class Treatment:
    """What is left out, taken off or trusted less."""

    faults: tuple[Fault, ...] = ()
    calibrated: RadioErrors = field(default_factory=RadioErrors)
    """What a calibration takes off the ranges of radios."""
    rulings: Rulings = Rulings()
    quarantined: tuple[tuple[int, int], ...] = ()
    """(sequence, level) of increments that no solve survives (graph_store.py), ascending."""
    exchanged: tuple[Pair, ...] = ()
    """Robots, or known beacons, that bear each other's radio; a name is in one pair at most."""
    noise: Noise = field(default_factory=Noise)
    """What measurements are weighted by in place of the noise that they claim."""

    def __bool__(self) -> bool:
        return bool(
            self.faults or self.calibrated or self.exchanged or self.rulings.entries
            or self.quarantined or self.noise)

    def read(self, whole: Graph) -> Graph:
        """The sum of all increments as it is meant: whose radio it is, and how noisy all is."""
        if self.exchanged:
            whole = exchanged(whole, self.exchanged)
        return self.noise.applied_to(whole) if self.noise else whole

    @property
    def reading(self) -> tuple[object, ...]:
        """What `read` depends on."""
        return self.exchanged, tuple(sorted(self.noise.log_factor.items()))

    def of(self, *kinds: str) -> tuple[Fault, ...]:
        """Its faults of some kinds."""
        return tuple(fault for fault in self.faults if fault.kind in kinds)

    def but(self, *kinds: str) -> Treatment:
        """Without the faults of some kinds."""
        return replace(
            self, faults=tuple(fault for fault in self.faults if fault.kind not in kinds))

    def excluding(self, levels: Mapping[int, int]) -> Treatment:
        """With these increments in quarantine, levels by sequence, and no others."""
        return replace(self, quarantined=tuple(sorted(levels.items())))

    def without(self, dropped: Iterable[Fault]) -> Treatment:
        """Without some faults."""
        gone = tuple(dropped)
        return replace(self, faults=tuple(fault for fault in self.faults if fault not in gone))

    def beside(self, *new: Fault) -> Treatment:
        """With more faults."""
        return replace(self, faults=(*self.faults, *new))

    def with_exchange(self, pair: Pair) -> Treatment:
        """With two robots or beacons bearing each other's radio, or no longer, and no others';
        without faults, which were found by ranges of other sources."""
        others = {other for other in self.exchanged if not set(other) & set(pair)}
        return replace(self, faults=(), exchanged=tuple(sorted(
            others if pair in self.exchanged else others | {pair})))

    def changed(self, old: Fault, new: Fault) -> Treatment:
        """With a fault in place of another one."""
        return replace(self, faults=tuple(new if fault == old else fault for fault in self.faults))

    def mapped(self, change: Callable[[Fault], Fault | None]) -> Treatment:
        """With every fault changed, or dropped where that is None."""
        changed = (change(fault) for fault in self.faults)
        return replace(self, faults=tuple(fault for fault in changed if fault is not None))

    @property
    def radio_errors(self) -> RadioErrors:
        """What is taken off the ranges of radios now, and goes on."""
        biases, places = dict(self.calibrated.bias_m), dict(self.calibrated.antenna_m)
        for fault in self.of(LENGTH):
            if fault.spans[-1][1] == ONGOING:
                biases[fault.subject] = biases.get(fault.subject, 0.0) + fault.size[0]
        for fault in self.of(ANTENNA):
            before = np.array(places.get(fault.subject, 0.0))
            places[fault.subject] = tuple((np.array(fault.size) + before).tolist())
        return RadioErrors(biases, places)

    @property
    def solved(self) -> tuple[Fault, ...]:
        """Faults whose sizes are a part of the map."""
        return tuple(fault for fault in self.faults if KINDS[fault.kind].in_map)

    @property
    def odometry_errors(self) -> OdometryErrors:
        """What is taken off odometry."""
        return OdometryErrors({
            (fault.kind, fault.subject): fault.size[0] for fault in self.of(SCALE, TURN)})

    @property
    def released(self) -> tuple[str, ...]:
        """Beacons that do not stand at their configured place, ascending."""
        return tuple(sorted({
            fault.subject for fault in self.faults if KINDS[fault.kind].frees_place}))

    def counts(self, graph: Graph, name: str, table: Table) -> Mask:
        """(k,): rows of a table, or of a part of it, that are not left out.

        `graph` holds the poses and landmarks that the table's endpoints number.
        """
        keep = ~self.rulings.ignored(graph, name, table)
        for fault in self.faults:
            left_out = KINDS[fault.kind].left_out.get(name)
            if left_out is not None:
                keep &= ~left_out(fault, graph, table)
        if name == 'ranges' and len(self.of(BURST)) > 1:
            # What two bursts have is long by one of two lengths, or both.
            keep &= np.sum([fault.corrected(graph, table) for fault in self.of(BURST)], axis=0) < 2
        if isinstance(table, (PointPriors, Heights)) and self.released:
            freed = np.isin(graph.landmarks.names, self.released)
            if isinstance(table, Heights):
                # That of a known beacon is part of its place, that of another one a guess.
                freed &= graph.landmarks.fixed
            keep &= ~np.isin(table.point, ~np.flatnonzero(freed))
        return keep

    def corrected(self, graph: Graph, name: str, table: Table) -> Table:
        """A table, or a part of it, with all that is taken off, and its weights."""
        table = self._measured(graph, name, table, *KINDS)
        factor = self.rulings.factors(graph, name, table)
        if np.all(factor == 1.0):
            return table
        return table.replaced(**{
            column: getattr(table, column) / factor
            for column in _WEIGHTS if column in table.columns()})

    def _measured(self, graph: Graph, name: str, table: Table, *kinds: str) -> Table:
        if name == 'ranges':
            table = self.calibrated.off(graph, table)  # type: ignore[arg-type]
        for kind in kinds:
            correction, own = KINDS[kind].corrected.get(name), self.of(kind)
            if correction is not None and own:
                table = correction(own, graph, table)
        return table

    def unbiased(self, graph: Graph) -> Graph:
        """A graph with what radios err by taken off its ranges, and all of them in it."""
        lasting = [kind for kind, row in KINDS.items() if row.columns is not None]
        if not self.calibrated and not self.of(*lasting):
            return graph
        return graph.replaced(ranges=self._measured(graph, 'ranges', graph.ranges, *lasting))

    def apply(self, whole: Graph, quarantined: Mapping[str, Mask] | None = None) -> Treated:
        """The graph of what counts.

        `quarantined` has by table the rows that quarantined increments brought.
        """
        if not self:
            return Treated(self, whole, whole, {})
        tables: dict[str, Any] = {}
        rows: dict[str, Index] = {}
        for name, table in whole.tables().items():
            keep = self.counts(whole, name, table)
            if quarantined is not None and name in quarantined:
                keep &= ~quarantined[name]
            rows[name] = np.flatnonzero(keep)
            tables[name] = self.corrected(whole, name, table.take(rows[name]))
        marks = whole.landmarks
        known = marks.fixed & ~np.isin(marks.names, self.released)
        return Treated(self, whole, whole.replaced(
            poses=self.poses(whole), landmarks=Landmarks(marks.names, marks.position, known),
            **tables), rows)

    def poses(self, whole: Graph) -> Poses:
        """All poses, in frames of odometry from which its errors are taken off."""
        errors = self.odometry_errors
        if not errors:
            return whole.poses
        rotation, translation = errors.driven(whole)
        return whole.poses.replaced(rotation=rotation, translation=translation)

    def findings(self, graph: Graph, since_ns: int) -> list[Finding]:
        """What an operator should know of faults that did not end before a time.

        `graph` is the sum of all increments. Of a known beacon that was moved it is always said.
        """
        told = [exchange_finding(pair, robots=pair[0] in graph.robots) for pair in self.exchanged]
        times = math.sqrt(self.noise.factor(RANGES))
        if times > NOISY and len(graph.ranges):
            sigma = float(np.median(graph.ranges.precision))**-0.5
            told.append(Finding(
                RANGE_NOISE, 'ranges', f'ranges are {times:.1f} times noisier than they claim: '
                f'that is allowed for; set ranges.min_sigma_m to {sigma:.2g}', times))
        for robot in graph.robots:
            times = math.sqrt(self.noise.factor(ODOMETRY, robot))
            if times > NOISY:
                told.append(Finding(
                    'odometry_noise', robot, f'the odometry of {robot} is {times:.1f} times '
                    'noisier than it claims: that is allowed for', times))
        off = self.radio_errors
        known = known_names(graph)
        for kind, row in KINDS.items():
            for fault in self.of(kind):
                ended_ns = fault.end_ns or fault.spans[-1][1]
                if ended_ns >= since_ns or (row.frees_place and fault.subject in known):
                    told += row.findings(fault, graph, off)
        return told


@dataclass(frozen=True)
class Treated:
    """A graph under a treatment."""

    treatment: Treatment
    whole: Graph
    """The sum of all increments."""
    graph: Graph
    """What of it counts, and as what."""
    rows: dict[str, Index]
    """By table the rows that those of `graph` have in `whole`; a table that is not named has all.
    """

    @cached_property
    def unbiased(self) -> Graph:
        """`whole` with what radios err by taken off its ranges."""
        return self.treatment.unbiased(self.whole)

    def original(self, name: str, rows: Index) -> Index:
        """Rows of `whole` that rows of a table of `graph` have."""
        return self.rows[name][rows] if name in self.rows else rows

    def left_out(self, name: str) -> Index:
        """Rows of a table of `whole` that do not count."""
        every = np.arange(len(getattr(self.whole, name)))
        return np.setdiff1d(every, self.rows[name]) if name in self.rows else every[:0]

    def same(self, other: Treated) -> bool:
        """Whether the other graph of the same whole is the same."""
        return (self.whole is other.whole and self.treatment.rulings == other.treatment.rulings
                and self.continues(other))

    def continues(self, before: Treated) -> bool:
        """Whether the graph begins with another one, of the first increments of the same whole."""
        if not self.rows and not before.rows:
            return True
        fixed = before.graph.landmarks.fixed
        return np.array_equal(self.graph.landmarks.fixed[:len(fixed)], fixed) and all(
            self._continues_table(before, name) for name in before.graph.tables())

    def _continues_table(self, before: Treated, name: str) -> bool:
        own, table = getattr(self.graph, name), getattr(before.graph, name)
        rows = self.original(name, np.arange(len(own)))
        count = int(np.searchsorted(rows, len(getattr(before.whole, name))))
        return own is table or (
            count == len(table)
            and np.array_equal(rows[:count], before.original(name, np.arange(count)))
            and all(np.array_equal(getattr(own, column)[:count], getattr(table, column))
                    for column in own.columns()))
