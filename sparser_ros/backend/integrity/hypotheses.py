"""What may be wrong with one source, as derivatives of the residuals by the size of the fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph import (
    Graph,
    RelativePoses,
    range_directions,
    range_lever_derivatives,
    range_vectors,
)
from ...graph.ends import RangeEnds, owners, stamps_of
from ...graph.finding import Finding
from .doubts import Stretch
from .linear_model import LinearModel, Scores
from .odometry_errors import ALL_ROBOTS, SCALE, TURN
from .radio_errors import ALL_RADIOS, doubt

ALL_BEACONS = 'all beacons'
"""Subject of a height that all beacons share."""
HEIGHT = 'height_missing'
"""Kind of beacons of a plane that hang at another height than the robots' antennas."""
_LEAST_HEIGHT_M, _MOST_HEIGHT_M = 0.7, 6.0
"""Heights below which nobody need be asked for it (5 cm at 5 m), and above which it is no ceiling.
"""
ALTIMETER = 'altimeter_drift'
"""Kind of a barometer that wanders more than it claims."""
ONGOING = 2**63 - 1
"""End of what goes on, ns."""
Span = tuple[int, int]
"""First and last stamp of an interval, ns."""
_DRIFT_PARTS, DRIFT_FLOOR_M, _LONGEST_DRIFT_S = 8, 0.2, 300.0
"""It begins to do so in one of these parts of the newest stretch, and ends in one, for good. The
errors of a sound one stay within that floor."""
_STRETCH_M = 2.0
"""Way over which the mean of estimated motions has little noise."""
JUMP = 'odometry_jump'
"""Kind of odometry that was wrong once."""
ANTENNA = 'antenna_misplaced'
"""Kind of an antenna that stands elsewhere than configured."""


@dataclass(frozen=True)
class Hypothesis:
    """One fault of one source with as many parameters as `columns` has columns."""

    kind: str
    subject: str
    columns: sp.csc_matrix
    """(rows, c): derivatives of the whitened residuals by the parameters."""
    floor: float
    """Faults below this size are none: the null hypothesis is |theta| <= floor."""
    finding: Callable[[Array], Finding]
    """Puts the estimated parameters into words."""
    tests: int = 1
    """Among so many rows or times this one was picked for its residual."""
    least: float = -np.inf
    """Of one parameter: smaller ones make no sense, nor do those beyond `most`."""
    most: float = np.inf
    span: Span | None = None
    """Of what has not been so all the time; ONGOING = it grows at a constant rate, and the
    parameter is that rate."""

    @property
    def key(self) -> tuple[str, str, Span | None]:
        """What tells it from others."""
        return self.kind, self.subject, self.span


def scores_of(model: LinearModel, hypotheses: Sequence[Hypothesis]) -> Scores:
    """The scores of all hypotheses, one after the other."""
    none = sp.csc_matrix((len(model.residual), 0))
    return model.scores(sp.hstack([none, *(fault.columns for fault in hypotheses)], format='csc'))


def common_hypotheses(tested: Sequence[Hypothesis]) -> list[Hypothesis]:
    """What may be wrong with all sources of a kind in the same way, and is found one by one.

    Robots with the same wheels on the same floor have odometry that is too long by the same share:
    a larger map bears that, and each robot by itself shows little of it.
    """
    single = [fault for fault in tested if fault.kind == SCALE]
    if len(single) < 2:
        return []
    return [Hypothesis(SCALE, ALL_ROBOTS, sum(fault.columns for fault in single), single[0].floor,
                       partial(_scaled, ALL_ROBOTS))]


def shared_error(
    model: LinearModel, sources: RangeEnds, error: Stretch, config: IntegrityConfig
) -> Hypothesis:
    """Ranges of one source that may be off for one reason."""
    kind, columns = 'range_burst', length_columns(model, [error.rows])
    if error.landmark is not None:
        kind, columns = 'beacon_moved', _place_columns(model, sources, error.landmark, error.rows)
    return Hypothesis(
        kind, error.subject, columns, config.bias_floor_m, error.finding, error.tests)


# -- radios ----------------------------------------------------------------------------------------


def length_columns(model: LinearModel, groups: Sequence[Index]) -> sp.csc_matrix:
    """(rows, g): derivatives by one length that each group of ranges is too long by.

    The residual, predicted minus measured, is r + theta once theta is taken off.
    """
    rows = np.concatenate(groups)
    owner = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    return model.columns(
        'ranges', np.stack([rows, owner]), model.root_of_ranges[rows], len(groups))


def radio_biases(model: LinearModel, sources: RangeEnds) -> sp.csc_matrix:
    """(rows, r): derivatives by the length that the ranges of each radio are too long by."""
    return length_columns(
        model, [np.flatnonzero(sources.at(number)) for number in range(len(sources.names))])


def radio_lengths(
    model: LinearModel, sources: RangeEnds, config: IntegrityConfig
) -> list[Hypothesis]:
    """Ranges of one radio, or of all, are long by the same length.

    Radios that take part in the same ranges, as one robot's and all, are one hypothesis: of two
    neither would ever stand out.
    """
    parts = {sources.at(number).tobytes(): (name, f'radio {name}', np.flatnonzero(
        sources.at(number))) for number, name in reversed(list(enumerate(sources.names)))}
    every = np.ones(len(sources.first), dtype=bool)
    parts = {every.tobytes(): (ALL_RADIOS, ALL_RADIOS, np.flatnonzero(every))} | parts
    return [Hypothesis(
        'range_bias', subject, length_columns(model, [rows]), config.bias_floor_m,
        partial(_long, subject, words))
        for subject, words, rows in reversed(list(parts.values())) if len(rows)]


def _long(subject: str, words: str, theta: Array) -> Finding:
    which = 'long' if theta[0] > 0 else 'short'
    return Finding(
        'range_bias', subject, f'ranges of {words} are {abs(theta[0]):.2f} m too {which}',
        float(theta[0]), 'm')


def antenna_places(model: LinearModel, sources: RangeEnds) -> dict[str, sp.csc_matrix]:
    """(rows, d) of each robot that has ranges: derivatives by where its antenna is on it."""
    by_source, by_target = range_lever_derivatives(model.graph, model.estimate)
    places = {}
    for number, name in enumerate(sources.names[:sources.robots]):
        rows = np.flatnonzero(sources.at(number))
        own = (by_source * (sources.first == number)[:, None]
               + by_target * (sources.second == number)[:, None])[rows]
        if len(rows):
            places[name] = model.columns('ranges', rows, model.root_of_ranges[rows, None] * own)
    return places


def antennas(model: LinearModel, sources: RangeEnds, config: IntegrityConfig) -> list[Hypothesis]:
    """The antenna of a robot stands elsewhere than its lever arm says."""
    return [Hypothesis(ANTENNA, name, columns, config.bias_floor_m, partial(_antenna, name))
            for name, columns in antenna_places(model, sources).items()]


def _antenna(name: str, theta: Array) -> Finding:
    size = float(np.linalg.norm(theta))
    offset = ', '.join(f'{value:+.2f}' for value in theta)
    return Finding(
        ANTENNA, name,
        f'the antenna of {name} stands {size:.2f} m from where its lever_arm says ({offset})'
        + (f': {doubted}' if (doubted := doubt(theta.tolist())) else ''), size, 'm')


# -- beacons and heights ---------------------------------------------------------------------------


def beacon_places(
    model: LinearModel, sources: RangeEnds, config: IntegrityConfig
) -> list[Hypothesis]:
    """A known beacon stands elsewhere: its place, or that of its prior, is free."""
    graph, hypotheses = model.graph, []
    for number, name in enumerate(graph.landmarks.names):
        prior = np.flatnonzero(graph.point_priors.point == ~number)
        if graph.landmarks.fixed[number]:
            columns = _place_columns(
                model, sources, number, np.flatnonzero(sources.at(sources.robots + number)))
        elif len(prior):
            root = model.root('point_priors', graph.point_priors.precision)[prior]
            columns = model.columns(
                'point_priors', prior, -root[:, None, None] * np.eye(graph.dimension))
        else:
            continue
        if columns.nnz:
            hypotheses.append(Hypothesis(
                'beacon_misplaced', name, columns, config.bias_floor_m, partial(misplaced, name)))
    return hypotheses


def _place_columns(
    model: LinearModel, sources: RangeEnds, landmark: int, rows: Index
) -> sp.csc_matrix:
    """By the place of a landmark at the ranges `rows`."""
    ranges = model.graph.ranges.take(rows)
    unit = range_directions(model.graph.replaced(ranges=ranges), model.estimate)
    sign = np.where(sources.second[rows] == sources.robots + landmark, 1.0, -1.0)
    return model.columns('ranges', rows, (sign * model.root_of_ranges[rows])[:, None] * unit)


def misplaced(name: str, theta: Array) -> Finding:
    """Words for a known beacon that stands `theta` metres from its configured place."""
    size = float(np.linalg.norm(theta))
    offset = ', '.join(f'{value:+.1f}' for value in theta)
    return Finding(
        'beacon_misplaced', name,
        f'beacon {name} does not fit its configured place by {size:.1f} m ({offset})', size, 'm')


def beacon_heights(
    model: LinearModel, sources: RangeEnds, _: IntegrityConfig
) -> list[Hypothesis]:
    """In the plane: a beacon, or all of them, hang h above the robots, and ranges are slant.

    By theta = h^2: a range of the plane of length r is measured as r + theta / (2 r).
    """
    graph = model.graph
    beacons = np.arange(sources.robots, len(sources.names))
    if graph.dimension != 2 or not len(graph.ranges):
        return []
    length = np.maximum(np.linalg.norm(range_vectors(graph, model.estimate), axis=1), 1e-3)
    slope = (model.root_of_ranges / (2 * length))[:, None]
    rows = [(sources.names[number], np.flatnonzero(sources.at(int(number)))) for number in beacons]
    if len(beacons) > 1:
        rows.append((ALL_BEACONS, np.flatnonzero(
            (sources.first >= sources.robots) | (sources.second >= sources.robots))))
    return [Hypothesis(
        HEIGHT, subject, model.columns('ranges', own, slope[own]), _LEAST_HEIGHT_M**2,
        partial(_hangs, subject), least=0.0, most=_MOST_HEIGHT_M**2)
        for subject, own in rows if len(own)]


def _hangs(subject: str, theta: Array) -> Finding:
    height = float(np.sqrt(max(theta[0], 0.0)))
    who, radios = ('all beacons', 'their radios') if subject == ALL_BEACONS else (
        f'beacon {subject}', 'its radio')
    return Finding(
        HEIGHT, subject, f'ranges of {who} fit better {height:.1f} m above or below the '
        f'antennas of the robots: set height_m of {radios}', height, 'm')


def drift_seconds(span: Span, newest_ns: int) -> float:
    """How long a drift with a rate has gone on; 1 for one that has ended, whose size is metres."""
    return (newest_ns - span[0]) * 1e-9 if span[1] == ONGOING else 1.0


def drifted(span: Span, stamp_ns: Index) -> Array:
    """(k,): how much heights have drifted at stamps, in units of the size of the drift.

    One without a duration is a step.
    """
    begin, end = span
    if end == ONGOING:
        return np.asarray(np.maximum(stamp_ns - begin, 0) * 1e-9)
    if end <= begin:
        return np.asarray(stamp_ns > begin, dtype=float)
    return np.asarray(np.clip((stamp_ns - begin) / (end - begin), 0.0, 1.0))


def altimeter_drifts(
    model: LinearModel, _: RangeEnds, __: IntegrityConfig
) -> list[Hypothesis]:
    """The heights of one robot drift at a constant rate within an interval, by theta for good.

    Robots in space follow their altimeters: odometry bends by as much, a little in each step. The
    longer a barometer runs, the likelier it has drifted: it begins to in each part of the time with
    the probability of a fault, and every later end of a part is as likely to be the end.
    """
    graph = model.graph
    worst, hypotheses = _worst_edges(model) if len(graph.heights) else {}, []
    for name in graph.robots:
        heights = _heights_of(model, name)
        stamp_ns = heights[1]
        if len(stamp_ns) < 2:
            continue
        newest_ns = int(stamp_ns.max())
        longest_ns = min(int(np.ptp(stamp_ns)), round(_LONGEST_DRIFT_S * 1e9))
        part_ns = max(longest_ns, 1) // _DRIFT_PARTS + 1
        spans = [
            ((newest_ns - begin * part_ns, newest_ns - end * part_ns if end else ONGOING), begin)
            for end, begin in combinations(range(_DRIFT_PARTS + 1), 2)]
        if name in worst:
            # Where its odometry is bent most it may have stepped: onto a table, off a roof.
            edge, count = worst[name]
            step_ns = int(graph.poses.stamp_ns[graph.relative_poses.i[edge]])
            spans.append(((step_ns, step_ns), count))
        hypotheses += [_drift(model, name, span, heights, tests) for span, tests in spans]
    return hypotheses


def altimeter_drift(model: LinearModel, name: str, span: Span) -> Hypothesis | None:
    """The heights of a robot drift within a span; None where there is none since it began."""
    if name not in model.graph.robots:
        return None
    heights = _heights_of(model, name)
    if np.max(heights[1], initial=span[0]) <= span[0]:
        return None
    return _drift(model, name, span, heights, 1)


def _heights_of(model: LinearModel, name: str) -> tuple[Index, Index, Array]:
    """(k,) rows of the heights of a robot, their stamps and the roots of their precisions."""
    graph, table = model.graph, model.graph.heights
    own = np.flatnonzero(owners(graph, table.point) == graph.robots.index(name))
    return own, stamps_of(graph, table)[own], model.root('heights', table.precision)[own]


def _drift(
    model: LinearModel, name: str, span: Span, heights: tuple[Index, Index, Array], tests: int
) -> Hypothesis:
    """Within a span that was picked from so many."""
    own, stamp_ns, root = heights
    newest_ns = int(np.max(stamp_ns, initial=span[0]))
    columns = model.columns('heights', own, (root * drifted(span, stamp_ns))[:, None])
    return Hypothesis(
        ALTIMETER, name, columns, DRIFT_FLOOR_M / drift_seconds(span, newest_ns),
        partial(_drifts, name, span, newest_ns), tests, span=span)


def _drifts(name: str, span: Span, newest_ns: int, theta: Array) -> Finding:
    metres = float(theta[0]) * drift_seconds(span, newest_ns)
    seconds, ago = (min(span[1], newest_ns) - span[0]) * 1e-9, max(newest_ns - span[1], 0) * 1e-9
    which = 'high' if metres > 0 else 'low'
    speed = f'within {seconds:.0f} s' if seconds else 'at once'
    until = f', {"until " if seconds else ""}{ago:.0f} s ago' if ago else ''
    return Finding(
        ALTIMETER, name, f'the heights of {name} have come to be {abs(metres):.1f} m too '
        f'{which} {speed}{until}: its altimeter drifts, or stands over something else', metres, 'm')


# -- odometry --------------------------------------------------------------------------------------


def _odometry(model: LinearModel) -> dict[str, Index]:
    """Relative poses of each robot that has odometry."""
    rel = model.graph.relative_poses
    robot = np.where(rel.odometry, model.graph.poses.robot[rel.i], -1) if len(rel) else rel.i
    return {name: own for number, name in enumerate(model.graph.robots)
            if len(own := np.flatnonzero(robot == number))}


def _worst_edges(model: LinearModel) -> dict[str, tuple[int, int]]:
    """Of each robot that has odometry the relative pose that fits worst, and among how many."""
    rel = model.graph.relative_poses
    square = sum(
        np.sum(model.residual[model.rows(part)].reshape(len(rel), -1) ** 2, 1)
        for part in ('moves', 'turns')) if len(rel) else np.zeros(0)
    return {name: (int(own[np.argmax(square[own])]), len(own))
            for name, own in _odometry(model).items()}


def _turn_root(model: LinearModel) -> Array:
    rel = model.graph.relative_poses
    return model.root('relative_poses', rel.kappa * (1.0 if model.graph.dimension == 2 else 2.0))


def odometry_scales(model: LinearModel) -> sp.csc_matrix:
    """(rows, r): derivatives by the share that the odometry of each robot is too long by.

    Odometry measures the true motion times 1 / (1 - share), and its noise. By the measured motion,
    noise and all, a map without a scale of its own would fit best when shrunk to a point; by the
    estimated motion of each step a robot that hardly moves between two of them, while its ranges
    are worse than they claim, would have odometry that is far too short. So it is the mean motion
    that the estimate has over a stretch, as seen from the robot.
    """
    rel, pose = model.graph.relative_poses, model.estimate
    move = np.zeros((len(rel), model.graph.dimension))
    for own in _odometry(model).values():
        own = own[np.argsort(model.graph.poses.index[rel.j[own]], kind='stable')]
        turn, begin = pose.rotation[rel.i[own]], _stretches(pose.translation[rel.j[own]])
        seen = np.einsum('kji,kj->ki', turn, pose.translation[rel.j[own]] - (
            pose.translation[rel.i[own]]))
        count = np.diff(np.append(begin, len(own)))
        mean = np.add.reduceat(seen, begin) / count[:, None]
        move[own] = np.einsum('kij,kj->ki', turn, np.repeat(mean, count, axis=0))
    root = model.root('relative_poses', rel.tau) * rel.odometry
    rows = np.stack([np.arange(len(rel)), model.graph.poses.robot[rel.i]])
    return model.columns('moves', rows, root[:, None] * move, len(model.graph.robots))


def _stretches(place: Array) -> Index:
    """Where stretches of a path (k, d) begin: each ends `_STRETCH_M` from there, the last at its
    end."""
    points, begin = place.tolist(), [0]
    for row, point in enumerate(points):
        if math.dist(point, points[begin[-1]]) >= _STRETCH_M:
            begin.append(row)
    return np.array(begin[:max(len(begin) - 1, 1)], dtype=np.int64)


def odometry_turns(model: LinearModel) -> sp.csc_matrix:
    """(rows, r): derivatives by the rate at which the odometry of each robot turns by itself."""
    graph, rel = model.graph, model.graph.relative_poses
    seconds = (graph.poses.stamp_ns[rel.j] - graph.poses.stamp_ns[rel.i]) * 1e-9
    # A turn that is taken off a step is one about the vertical of the pose that it leads to.
    axis = np.ones((len(rel), 1)) if graph.dimension == 2 else model.estimate.rotation[
        rel.j][:, :, 2]
    rows = np.stack([np.arange(len(rel)), graph.poses.robot[rel.i]])
    return model.columns('turns', rows, (
        _turn_root(model) * seconds * rel.odometry)[:, None] * axis, len(graph.robots))


def odometry_lengths(
    model: LinearModel, _: RangeEnds, config: IntegrityConfig
) -> list[Hypothesis]:
    """Odometry of one robot is too long by a share."""
    scales = odometry_scales(model)
    return [Hypothesis(
        SCALE, name, scales[:, [model.graph.robots.index(name)]], config.scale_floor,
        partial(_scaled, name)) for name in _odometry(model)]


def odometry_rates(
    model: LinearModel, _: RangeEnds, config: IntegrityConfig
) -> list[Hypothesis]:
    """Odometry of one robot turns at a rate of its own."""
    turns = odometry_turns(model)
    return [Hypothesis(
        TURN, name, turns[:, [model.graph.robots.index(name)]], config.turn_floor_rad_s,
        partial(_turning, name)) for name in _odometry(model)]


def odometry_jumps(
    model: LinearModel, _: RangeEnds, config: IntegrityConfig
) -> list[Hypothesis]:
    """Odometry of one robot jumped once, where it fits worst."""
    return [_jump(model, name, edge, count, config)
            for name, (edge, count) in _worst_edges(model).items()]


def odometry_jump(
    model: LinearModel, name: str, span: Span, config: IntegrityConfig
) -> Hypothesis | None:
    """Odometry of one robot jumped within a span; None where no step is left that has it."""
    edges = np.flatnonzero(steps_over(model.graph, model.graph.relative_poses, name, span))
    return _jump(model, name, int(edges[0]), 1, config, span) if len(edges) else None


def steps_over(graph: Graph, table: RelativePoses, name: str, span: Span) -> Mask:
    """(k,): steps of the odometry of a robot that have a span in them."""
    stamps, robot = graph.poses.stamp_ns, graph.poses.robot[table.i]
    own = robot == (graph.robots.index(name) if name in graph.robots else -1)
    return np.asarray(table.odometry & own & (stamps[table.i] <= span[0]) & (
        stamps[table.j] >= span[1]))


def _jump(
    model: LinearModel, name: str, edge: int, tests: int, config: IntegrityConfig,
    span: Span | None = None,
) -> Hypothesis:
    """An extra step in the frame of the pose before, at an edge that was picked from so many."""
    graph, rel, d = model.graph, model.graph.relative_poses, model.graph.dimension
    turns, row = 1 if d == 2 else 3, np.array([edge])
    rotation = model.estimate.rotation[rel.i[row]]
    step = np.zeros((1, d + turns, d + turns))
    step[:, :d, :d] = model.root('relative_poses', rel.tau)[row] * rotation
    step[:, d:, d:] = _turn_root(model)[row] * (1.0 if d == 2 else rotation)
    begin, end = (int(graph.poses.stamp_ns[ends[edge]]) for ends in (rel.i, rel.j))
    seconds = float(end - graph.poses.stamp_ns.min()) * 1e-9
    return Hypothesis(
        JUMP, name, model.columns('moves', row, step[:, :d]) + model.columns(
            'turns', row, step[:, d:]), config.bias_floor_m,
        partial(_jumped, name, d, seconds), tests, span=span or (begin, end))


def _jumped(name: str, d: int, seconds: float, theta: Array) -> Finding:
    metres, angle = float(np.linalg.norm(theta[:d])), float(np.linalg.norm(theta[d:]))
    return Finding(
        JUMP, name,
        f'the odometry of {name} jumped by {metres:.1f} m and {np.degrees(angle):.0f} degrees '
        f'about {seconds:.0f} s into the data', metres, 'm')


def _scaled(name: str, theta: Array) -> Finding:
    # Odometry (1 + s) times the truth is corrected by the factor 1 - theta = 1 / (1 + s).
    percent = 100 * (1 / max(1 - float(theta[0]), 0.01) - 1)
    which = 'long' if percent > 0 else 'short'
    return Finding(
        SCALE, name, f'the odometry of {name} is {abs(percent):.1f} % too {which}', percent, '%')


def _turning(name: str, theta: Array) -> Finding:
    rate = float(np.degrees(theta[0]) * 60)
    return Finding(
        TURN, name,
        f'the heading of the odometry of {name} drifts by {rate:+.1f} degrees a minute',
        rate, 'degrees/min')
