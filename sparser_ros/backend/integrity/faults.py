"""Faults of sources by name and time, and one table of what each kind does to measurements.

A fault names a robot, radio or beacon, intervals of time and a size, and no row of a graph: so it
holds for what is still to come, and for a thinned graph. `KINDS` says of each kind how it shows in
the linear model, which measurements it makes useless, what is taken off others, and what an
operator reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph import Graph, Heights, Ranges, RelativePoses, Table, Verticals
from ...graph.ends import RangeEnds, owners, owners_of, range_ends, stamps_of
from ...graph.finding import Finding
from ...linalg.rotations import angle_to_matrix, rotvec_to_matrix
from .doubts import Stretch, in_stretch, too_long
from .hypotheses import (
    ALTIMETER,
    ANTENNA,
    DRIFT_FLOOR_M,
    HEIGHT,
    JUMP,
    ONGOING,
    Hypothesis,
    Span,
    altimeter_drift,
    altimeter_drifts,
    antenna_places,
    antennas,
    beacon_heights,
    beacon_places,
    drifted,
    length_columns,
    odometry_jump,
    odometry_jumps,
    odometry_lengths,
    odometry_rates,
    radio_lengths,
    shared_error,
    steps_over,
)
from .linear_model import LinearModel
from .odometry_errors import SCALE, TURN, OdometryErrors
from .radio_errors import (
    ALL_RADIOS,
    ANTENNA_AXES,
    BIAS,
    SHORTEST_M,
    RadioErrors,
    antenna_moved,
    doubt,
)

LENGTH = 'range_bias'
"""Ranges of a radio, or of all, are too long by one length."""
BURST = 'range_burst'
"""Ranges of a source are faulty together for a while."""
MOVED, MOVED_AWAY = 'beacon_moved', 'beacon_moved_away'
"""A beacon was moved: what it measured before is useless; or, where the configured place of a known
one is needed, what it measures since."""
MISPLACED = 'beacon_misplaced'
"""A known beacon does not stand where it is configured."""
UNLEVELLED = 'verticals_wrong'
"""A robot's verticals are none."""
FAILED = 'odometry_failed'
"""Odometry does not hold for a while, which ends within the step after its interval."""
ALWAYS = ((0, ONGOING),)
_TOLD_M = 0.01
"""Axes along which an antenna is moved by less are not told."""


@dataclass(frozen=True)
class Fault:
    """One fault of one source; times are stamps, ns."""

    kind: str
    """One of KINDS."""
    subject: str
    """A robot, beacon, ALL_RADIOS or ALL_ROBOTS."""
    size: tuple[float, ...] = ()
    """In the units of its kind; () = not known, or it has none."""
    spans: tuple[Span, ...] = ALWAYS
    """First and last stamp of each interval, ascending."""
    end_ns: int = 0
    """Of the last measurement that showed it."""
    words: str = ''
    """What was read off its measurements when it was found, without their times."""
    apart: tuple[str, ...] = ()
    """Radios whose ranges with the subject are no part of it."""
    known_ns: int = 0
    """Ranges up to then count with `size` taken off; later ones are left out."""
    factor: float = 1.0
    """By which the variance of ranges with `size` taken off is multiplied."""
    held_ns: int = 0
    """What the subject measures later is left out until an audit has seen it; 0 = it is over."""
    proved: bool = True
    """Whether it may be told: false alarms are as rare as stated. One that is merely likely is a
    part of the map, and no more."""

    @property
    def key(self) -> tuple[str, str, Span | None]:
        """That of its hypothesis."""
        return self.kind, self.subject, None if self.spans == ALWAYS else self.spans[0]

    @property
    def open(self) -> bool:
        """Whether the next ranges of the subject are held back."""
        return self.held_ns > 0

    def within(self, stamps: Index) -> Mask:
        """(k,): whether stamps lie in its intervals, or are held back."""
        inside = np.zeros(len(stamps), dtype=bool)
        if self.spans:
            begin, end = np.array(self.spans).T
            last = np.searchsorted(begin, stamps, 'right') - 1
            inside = (last >= 0) & (stamps <= end[last])
        return np.asarray(inside | (stamps > self.held_ns) if self.open else inside)

    def ranges(self, graph: Graph, table: Table) -> Mask:
        """(k,): rows of a table of ranges, or of a part of it, that it is of.

        `graph` holds the poses and landmarks that the endpoints number.
        """
        assert isinstance(table, Ranges)
        own = self.within(stamps_of(graph, table))
        if self.subject == ALL_RADIOS:
            return own
        ends = owners_of(graph, table)
        names = (*graph.robots, *graph.landmarks.names)
        for name in self.apart:
            own &= np.all(ends != _number(names, name), axis=0)
        return np.asarray(own & np.any(ends == _number(names, self.subject), axis=0))

    def corrected(self, graph: Graph, table: Table) -> Mask:
        """(k,): those of them that count with its size taken off."""
        return self.ranges(graph, table) & (stamps_of(graph, table) <= self.known_ns)

    def rows(self, graph: Graph) -> Index:
        """Rows of the ranges of a graph that it is of, ascending."""
        return np.flatnonzero(self.ranges(graph, graph.ranges))

    def until(self, end_ns: int) -> Fault:
        """The same, but over at a time."""
        return replace(self, held_ns=0, known_ns=min(self.known_ns, end_ns), spans=tuple(
            (begin, min(end, end_ns)) for begin, end in self.spans if begin <= end_ns))

    def before(self) -> Fault:
        """What its subject has measured before it."""
        end = self.spans[0][0] - 1 if self.spans else ONGOING
        return replace(self, held_ns=0, spans=((0, end),))


def told_elsewhere(*_: object) -> list[Finding]:
    """Examinations, or the front-end, name it anew at every audit."""
    return []


def _bias_floor(config: IntegrityConfig) -> float:
    return config.bias_floor_m


@dataclass(frozen=True)
class FaultKind:
    """What a kind of fault does to measurements, how it is noticed, and how it is told."""

    findings: Callable[[Fault, Graph, RadioErrors], Sequence[Finding]] = told_elsewhere
    """One in force, for an operator; of the sum of all measurements, with all that is taken off
    radios."""
    suspicion: str = ''
    """That a source may have it, in words. It goes on; '' = it is over, or tested where it
    shows."""
    hypotheses: Callable[
        [LinearModel, RangeEnds, IntegrityConfig], Sequence[Hypothesis]] | None = None
    """Single faults that are tested at an estimate."""
    columns: Callable[[Fault, LinearModel], sp.csc_matrix] | None = None
    """(rows, c): derivatives of the whitened residuals by its size; without `hypotheses` of its own
    it is one of every radio."""
    floor: Callable[[IntegrityConfig], float] = _bias_floor
    """Size below which it is no fault."""
    in_force: Callable[[Fault, LinearModel, IntegrityConfig], Hypothesis | None] | None = None
    """The hypothesis of one whose size is a part of the map, of a kind with times."""
    in_levels: bool = True
    """Whether protection levels allow for it: not where only data that speak for it make it
    likely."""
    left_out: Mapping[str, Callable[[Fault, Graph, Table], Mask]] = field(default_factory=dict)
    """By table: rows of it, or of a part of it, that say nothing."""
    corrected: Mapping[str, Callable[[Sequence[Fault], Graph, Table], Table]] = field(
        default_factory=dict)
    """By table: measurements, or a part of them, with the sizes of faults taken off."""
    frees_place: bool = False
    """Whether the configured place of its subject does not count."""

    @property
    def in_map(self) -> bool:
        """Whether its size becomes a part of the map once the fault is likely: where residuals are
        linear in it, and it can be taken off."""
        return bool(self.corrected) and not (self.hypotheses is None and self.columns is None)


def _number(names: tuple[str, ...], name: str) -> int:
    """Of a robot or landmark; -2 = there is none yet."""
    return names.index(name) if name in names else -2


def seconds_of(graph: Graph, stamp_ns: int) -> float:
    """Time since the first pose, s."""
    return max(stamp_ns - int(graph.poses.stamp_ns.min(initial=stamp_ns)), 0) * 1e-9


def ranges_of(subject: str, graph: Graph) -> Index:
    """Rows of all ranges that a robot or landmark takes part in."""
    return Fault(BURST, subject).rows(graph)


def stretch(kind: str, subject: str, rows: Index, graph: Graph, **values: object) -> Fault:
    """The fault that some ranges of a source have together, whatever comes later.

    Partners of which no range is among them, although there are some within the intervals, are
    apart from it.
    """
    own = ranges_of(subject, graph)
    ends, stamps = range_ends(graph), stamps_of(graph, graph.ranges)
    own = own[np.argsort(stamps[own], kind='stable')]
    number = ends.names.index(subject)
    partner = np.where(ends.first[own] == number, ends.second[own], ends.first[own])
    chosen = np.isin(own, rows)
    strangers = ~np.isin(partner, partner[chosen])
    spans = _runs(stamps[own[~strangers]], chosen[~strangers])
    fault = Fault(kind, subject, spans=spans)
    apart = np.unique(partner[strangers & fault.within(stamps[own])])
    return replace(
        fault, end_ns=spans[-1][1] if spans else 0,
        apart=tuple(ends.names[k] for k in apart.tolist()), **values)  # type: ignore[arg-type]


def _runs(stamps: Index, chosen: Mask) -> tuple[tuple[int, int], ...]:
    """First and last stamp of each run of the chosen ones among ascending stamps."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(np.int8), [0]])))
    return tuple(
        (int(stamps[first]), int(stamps[end - 1]))
        for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _useless(fault: Fault, graph: Graph, table: Table) -> Mask:
    return fault.ranges(graph, table) & (stamps_of(graph, table) > fault.known_ns)


def _shortened(faults: Sequence[Fault], graph: Graph, table: Table) -> Table:
    """Ranges of bursts of one length."""
    assert isinstance(table, Ranges)
    for fault in faults:
        own = fault.corrected(graph, table)
        if np.any(own):
            table = table.replaced(
                distance_m=np.maximum(
                    table.distance_m - np.where(own, fault.size[0], 0.0), SHORTEST_M),
                precision=table.precision / np.where(own, fault.factor, 1.0))
    return table


def _without_lengths(faults: Sequence[Fault], graph: Graph, table: Table) -> Table:
    """Ranges without the lengths of radios."""
    assert isinstance(table, Ranges)
    always = {fault.subject: fault.size[0] for fault in faults if fault.spans == ALWAYS}
    table = RadioErrors(always).off(graph, table)
    for fault in faults:
        if fault.spans != ALWAYS:
            own = fault.ranges(graph, table)
            table = table.replaced(distance_m=np.maximum(
                table.distance_m - np.where(own, fault.size[0], 0.0), SHORTEST_M))
    return table


def _with_antennas(faults: Sequence[Fault], graph: Graph, table: Table) -> Table:
    assert isinstance(table, Ranges)
    return RadioErrors({}, {fault.subject: fault.size for fault in faults}).off(graph, table)


def _odometry_corrected(faults: Sequence[Fault], graph: Graph, table: Table) -> Table:
    assert isinstance(table, RelativePoses)
    return OdometryErrors(
        {(fault.kind, fault.subject): fault.size[0] for fault in faults}).off(graph, table)


def _without_drifts(faults: Sequence[Fault], graph: Graph, table: Table) -> Table:
    assert isinstance(table, Heights)
    owner, stamps, height = owners(graph, table.point), stamps_of(graph, table), table.height_m
    for fault in faults:
        own = owner == _number(graph.robots, fault.subject)
        height = height - np.where(own, fault.size[0] * drifted(fault.spans[0], stamps), 0.0)
    return table.replaced(height_m=height)


def _drift_in_force(fault: Fault, model: LinearModel, _: IntegrityConfig) -> Hypothesis | None:
    return altimeter_drift(model, fault.subject, fault.spans[0])


def _jump_in_force(fault: Fault, model: LinearModel, config: IntegrityConfig) -> Hypothesis | None:
    return odometry_jump(model, fault.subject, fault.spans[0], config)


def _without_jumps(faults: Sequence[Fault], graph: Graph, table: Table) -> Table:
    """Relative poses without extra steps, in the frames of the poses before."""
    assert isinstance(table, RelativePoses)
    d = graph.dimension
    rotation, translation = table.rotation, table.translation
    for fault in faults:
        own = steps_over(graph, table, fault.subject, fault.spans[0])[:, None]
        size = np.array(fault.size)
        back = angle_to_matrix(-size[d]) if d == 2 else rotvec_to_matrix(-size[None, d:])[0]
        rotation = np.where(own[:, :, None], back @ rotation, rotation)
        translation = translation - own * size[:d]
    return table.replaced(rotation=rotation, translation=translation)


def _broken(fault: Fault, graph: Graph, table: Table) -> Mask:
    """Odometry over the interval of a failure."""
    assert isinstance(table, RelativePoses)
    stamps, (first, last) = graph.poses.stamp_ns, fault.spans[0]
    own = table.odometry & (graph.poses.robot[table.i] == _number(graph.robots, fault.subject))
    return np.asarray(own & (stamps[table.i] <= last) & (stamps[table.j] > first))


def _unplaced(fault: Fault, graph: Graph, table: Table) -> Mask:
    """What a robot measures while its odometry fails: nothing tells where between two poses."""
    rel, number = graph.relative_poses, _number(graph.robots, fault.subject)
    edges = np.flatnonzero(_broken(fault, graph, rel))
    last = int(np.max(graph.poses.stamp_ns[rel.j[edges]], initial=fault.spans[0][1]))
    own = np.any(owners_of(graph, table) == number, axis=0)
    return np.asarray(own & replace(fault, spans=((fault.spans[0][0], last),)).within(
        stamps_of(graph, table)))


def _verticals(fault: Fault, graph: Graph, table: Table) -> Mask:
    assert isinstance(table, Verticals)
    return np.asarray(graph.poses.robot[table.i] == _number(graph.robots, fault.subject))


def _of_length(fault: Fault, model: LinearModel) -> sp.csc_matrix:
    return length_columns(model, [fault.rows(model.graph)])


def _of_antenna(fault: Fault, model: LinearModel) -> sp.csc_matrix:
    graph = model.graph
    return antenna_places(model, range_ends(graph)).get(
        fault.subject, sp.csc_matrix((len(model.residual), graph.dimension)))


def _length_words(fault: Fault, graph: Graph, off: RadioErrors) -> list[Finding]:
    name, length, (begin, end) = fault.subject, fault.size[0], fault.spans[0]
    if not fault.proved:
        return []
    if end != ONGOING:
        return [Finding(
            'range_burst', name, f'ranges of radio {name} were {too_long(length)} until '
            f'{seconds_of(graph, end):.0f} s of the data; that is taken off', length, 'm')]
    every = name == ALL_RADIOS
    # A range has two radios.
    own = length / 2 if every else off.bias_m[name]
    since = f' since {seconds_of(graph, begin):.0f} s of the data' if begin else ''
    words = (f'ranges of {name} are {abs(length):.2f} m too {"long" if length > 0 else "short"}'
             f'{since}: that is taken off; ')
    return [Finding(BIAS, name, words + (
        f'add {own:.2f} m to the bias_m of every radio' if every
        else 'set the bias_m of its radio'), own, 'm')]


def _antenna_words(fault: Fault, _: Graph, off: RadioErrors) -> list[Finding]:
    """An axis each."""
    name = fault.subject
    return [
        Finding(ANTENNA_AXES[axis], name,
                f'{antenna_moved(name, axis, error)}: that is allowed for; '
                + (doubt(off.antenna_m[name]) or 'set its lever_arm'), error, 'm')
        for axis, error in enumerate(off.antenna_m[name]) if abs(error) >= _TOLD_M and fault.proved]


def _burst_words(fault: Fault, graph: Graph, _: RadioErrors) -> list[Finding]:
    """With the times of the whole group: an audit may have found a part of it last."""
    words, taken_off = fault.words, ''
    if fault.known_ns:
        words = f'ranges of radio {fault.subject} were {too_long(fault.size[0])}'
        taken_off = '; that is taken off'
    begin_ns = fault.spans[0][0] if fault.spans else fault.end_ns
    times = in_stretch(seconds_of(graph, begin_ns), seconds_of(graph, fault.end_ns))
    return [Finding(BURST, fault.subject, words + times + taken_off, fault.size[0], 'm')]


def _move_words(fault: Fault, _: Graph, __: RadioErrors) -> list[Finding]:
    return [Finding(MOVED, fault.subject, fault.words, fault.size[0], 'm')]


def _failure_words(fault: Fault, graph: Graph, _: RadioErrors) -> list[Finding]:
    times = in_stretch(
        seconds_of(graph, fault.spans[0][0]), seconds_of(graph, fault.spans[-1][1]))
    return [Finding(
        FAILED, fault.subject,
        f'the odometry of {fault.subject} does not hold{times}; it is left out there')]


KINDS: dict[str, FaultKind] = {
    LENGTH: FaultKind(
        _length_words, 'ranges of {} are all too long or too short', radio_lengths, _of_length,
        corrected={'ranges': _without_lengths}),
    MISPLACED: FaultKind(
        suspicion='beacon {} does not stand where it is configured', hypotheses=beacon_places,
        frees_place=True),
    HEIGHT: FaultKind(hypotheses=beacon_heights),
    ALTIMETER: FaultKind(
        suspicion='the altimeter of {} drifts', hypotheses=altimeter_drifts,
        floor=lambda _: DRIFT_FLOOR_M, in_force=_drift_in_force, in_levels=False,
        corrected={'heights': _without_drifts}),
    ANTENNA: FaultKind(
        _antenna_words, 'the antenna of {} does not stand where its lever_arm says', antennas,
        _of_antenna, in_levels=False, corrected={'ranges': _with_antennas}),
    SCALE: FaultKind(
        suspicion='the odometry of {} is too long or too short', hypotheses=odometry_lengths,
        floor=lambda config: config.scale_floor, corrected={'relative_poses': _odometry_corrected}),
    TURN: FaultKind(
        suspicion='the odometry of {} turns by itself', hypotheses=odometry_rates,
        floor=lambda config: config.turn_floor_rad_s,
        corrected={'relative_poses': _odometry_corrected}),
    JUMP: FaultKind(
        suspicion='the odometry of {} has jumped', hypotheses=odometry_jumps,
        in_force=_jump_in_force, in_levels=False, corrected={'relative_poses': _without_jumps}),
    BURST: FaultKind(
        _burst_words, left_out={'ranges': _useless}, corrected={'ranges': _shortened}),
    MOVED: FaultKind(
        _move_words, 'beacon {} was moved', left_out={'ranges': _useless}, frees_place=True),
    MOVED_AWAY: FaultKind(_move_words, left_out={'ranges': _useless}),
    UNLEVELLED: FaultKind(left_out={'verticals': _verticals}),
    FAILED: FaultKind(_failure_words, left_out={'relative_poses': _broken} | dict.fromkeys(
        ('ranges', 'sightings', 'point_priors', 'heights', 'verticals'), _unplaced)),
}
"""All kinds, in the order in which their sizes are taken off.

Protection levels leave out who is as good as never wrong: who measured a lever arm is not off by
half a metre once in a hundred times, and a robot that hardly turns does not show it; nor does a
robot that flies straight on show a drift of its altimeter.
"""


def hypotheses_of(
    model: LinearModel, sources: RangeEnds, shared: Sequence[Stretch], config: IntegrityConfig,
    solved: Sequence[Fault] = (),
) -> list[Hypothesis]:
    """All single faults that are tested at an estimate; `solved` ones are a part of it."""
    in_force = {own.key: own for fault in solved
                if (own := _in_force(fault, model, config)) is not None}
    hypotheses = [shared_error(model, sources, error, config) for error in shared]
    hypotheses += in_force.values()
    for kind, row in KINDS.items():
        if row.hypotheses is not None:
            hypotheses += [fault for fault in row.hypotheses(model, sources, config)
                           if fault.key not in in_force]
        elif row.columns is not None:
            hypotheses += [
                Hypothesis(
                    kind, name, columns, row.floor(config), partial(_named, kind, name, model))
                for name in sources.names
                if (columns := row.columns(Fault(kind, name), model)).nnz]
    return hypotheses


def _in_force(fault: Fault, model: LinearModel, config: IntegrityConfig) -> Hypothesis | None:
    """Of one with times: `hypotheses` have those of always."""
    row = KINDS[fault.kind]
    if row.in_force is not None:
        return row.in_force(fault, model, config)
    if row.columns is None or fault.spans == ALWAYS:
        return None
    return Hypothesis(
        fault.kind, fault.subject, row.columns(fault, model), row.floor(config),
        partial(_named, fault.kind, fault.subject, model), span=fault.spans[0])


def _named(kind: str, name: str, model: LinearModel, theta: Array) -> Finding:
    fault = Fault(kind, name, tuple(theta.tolist()))
    told = KINDS[kind].findings(fault, model.graph, RadioErrors())[0]
    return replace(told, kind=kind, subject=name)
