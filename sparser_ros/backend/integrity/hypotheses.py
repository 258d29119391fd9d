"""What may be wrong with one source, as derivatives of the residuals by the size of the fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from ...graph import (
    Estimate,
    Graph,
    range_directions,
    range_lever_derivatives,
    range_vectors,
)
from ...graph.finding import Finding
from ...graph.owners import owners, stamps_of
from ...graph.range_ends import RangeEnds
from .linear_model import LinearModel
from .odometry_errors import ALL_ROBOTS
from .radio_errors import ALL_RADIOS, doubt

ALL_BEACONS = 'all beacons'
"""Subject of a height that all beacons share."""
HEIGHT = 'height_missing'
"""Kind of beacons of a plane that hang at another height than the robots' antennas."""
_LEAST_HEIGHT_M, _MOST_HEIGHT_M = 0.7, 6.0
"""Heights below which nobody need be asked for it (5 cm at 5 m), and above which it is no ceiling.
"""
ALTIMETER = 'altimeter_drift'
"""Kind of a barometer that wanders more than it claims, since one of these shares of the time."""
_DRIFTING_SINCE, _DRIFT_FLOOR_M, _LONGEST_DRIFT_S = (0.0, 0.4, 0.7), 0.2, 300.0
"""The errors of a sound one stay within that floor; of a faulty one the newest stretch is seen."""
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
    """Among so many rows this one was picked for its residual."""
    least: float = -np.inf
    """Of one parameter: smaller ones make no sense, nor do those beyond `most`."""
    most: float = np.inf
    seconds: float = 0.0
    """So long it has grown at a constant rate; 0 = it does not grow with time by itself."""
    blur: float = 0.0
    """Variance of the score because `columns` are of estimated motions and have noise in them, at
    most: the sum of the squared residuals. It is more than the information of a robot at rest."""


@dataclass(frozen=True)
class SharedError:
    """Ranges of one source, within one stretch of time, that may be off for one reason.

    They are long by the same length, or their landmark stands elsewhere.
    """

    subject: str
    rows: Index
    """Of the graph's ranges."""
    finding: Callable[[Array], Finding]
    """Puts the length (1,), or the way of the landmark (d,), into words."""
    tests: int = 1
    """Stretches that this one was picked from."""
    landmark: int | None = None
    """The one that may stand elsewhere; None = the same length."""


@dataclass(frozen=True)
class Columns:
    """Builds sparse columns over the rows of a linear model."""

    model: LinearModel
    graph: Graph
    estimate: Estimate
    weights: Mapping[str, Array]

    def root(self, table: str, precision: Array) -> Array:
        return np.sqrt(precision * self.weights[table] if table in self.weights else precision)

    def matrix(self, rows: Index, values: Array) -> sp.csc_matrix:
        """Values (k, c) at rows (k,)."""
        c = values.shape[1]
        shape = len(self.model.residual), c
        return sp.csc_matrix((
            values.ravel(), (np.repeat(rows, c), np.tile(np.arange(c), len(rows)))), shape=shape)


def common_hypotheses(tested: Sequence[Hypothesis]) -> list[Hypothesis]:
    """What may be wrong with all sources of a kind in the same way, and is found one by one.

    Robots with the same wheels on the same floor have odometry that is too long by the same share:
    a larger map bears that, and each robot by itself shows little of it.
    """
    single = [one for one in tested if one.kind == 'odometry_scale']
    if len(single) < 2:
        return []
    return [Hypothesis('odometry_scale', ALL_ROBOTS, sum(one.columns for one in single),
                       single[0].floor, _scaled(ALL_ROBOTS), blur=sum(one.blur for one in single))]


def shared_error(
    build: Columns, sources: RangeEnds, error: SharedError, config: IntegrityConfig
) -> Hypothesis:
    """Ranges of one source that may be off for one reason."""
    if error.landmark is None:
        root = build.root('ranges', build.graph.ranges.precision)
        kind, columns = 'range_burst', build.matrix(
            build.model.starts['ranges'] + error.rows, root[error.rows, None])
    else:
        kind, columns = 'beacon_moved', _place_columns(build, sources, error.landmark, error.rows)
    return Hypothesis(
        kind, error.subject, columns, config.bias_floor_m, error.finding, error.tests)


def radio_biases(build: Columns, sources: RangeEnds) -> sp.csc_matrix:
    """(rows, r): derivatives by the length that the ranges of each radio are too long by.

    The residual, predicted minus measured, is r + theta once theta is taken off.
    """
    root, count = build.root('ranges', build.graph.ranges.precision), len(sources.first)
    rows = build.model.starts['ranges'] + np.arange(count)
    return sp.csc_matrix(
        (np.tile(root, 2), (np.tile(rows, 2), np.concatenate([sources.first, sources.second]))),
        shape=(len(build.model.residual), len(sources.names)))


def radio_lengths(build: Columns, sources: RangeEnds, config: IntegrityConfig) -> list[Hypothesis]:
    """Ranges of one radio, or of all, are long by the same length."""
    biases = radio_biases(build, sources)

    def hypothesis(subject: str, words: str, columns: sp.csc_matrix) -> Hypothesis:
        def finding(theta: Array) -> Finding:
            which = 'long' if theta[0] > 0 else 'short'
            return Finding('range_bias', subject,
                           f'ranges of {words} are {abs(theta[0]):.2f} m too {which}',
                           float(theta[0]), 'm')
        return Hypothesis('range_bias', subject, columns, config.bias_floor_m, finding)

    each = [(name, f'radio {name}', biases[:, [number]], sources.at(number))
            for number, name in enumerate(sources.names)]
    # A range has two radios: half of the sum is one length for all.
    each.append((ALL_RADIOS, ALL_RADIOS, sp.csc_matrix(biases.sum(axis=1) / 2),
                 np.ones(len(sources.first), dtype=bool)))
    # Radios that take part in the same ranges, as one robot's and all, are one hypothesis: of two
    # neither would ever stand out.
    distinct = {part[-1].tobytes(): part[:-1] for part in reversed(each)}
    parts = [hypothesis(*part) for part in reversed(distinct.values())]
    return [part for part in parts if part.columns.nnz]


def beacon_heights(
    build: Columns, sources: RangeEnds, _: IntegrityConfig
) -> list[Hypothesis]:
    """In the plane: a beacon, or all of them, hang h above the robots, and ranges are slant.

    By theta = h^2: a range of the plane of length r is measured as r + theta / (2 r).
    """
    graph = build.graph
    beacons = np.arange(sources.robots, len(sources.names))
    if graph.dimension != 2 or not len(graph.ranges):
        return []
    root = build.root('ranges', graph.ranges.precision)
    length = np.maximum(np.linalg.norm(range_vectors(graph, build.estimate), axis=1), 1e-3)
    rows = [(sources.names[number], np.flatnonzero(sources.at(int(number)))) for number in beacons]
    if len(beacons) > 1:
        rows.append((ALL_BEACONS, np.flatnonzero(
            (sources.first >= sources.robots) | (sources.second >= sources.robots))))
    return [Hypothesis(
        HEIGHT, subject, build.matrix(
            build.model.starts['ranges'] + own, (root / (2 * length))[own, None]),
        _LEAST_HEIGHT_M**2, _hangs(subject), least=0.0, most=_MOST_HEIGHT_M**2)
        for subject, own in rows if len(own)]


def altimeter_drifts(
    build: Columns, _: RangeEnds, __: IntegrityConfig
) -> list[Hypothesis]:
    """The heights of one robot drift at a constant rate since a time, by theta until now.

    Robots in space follow their altimeters: odometry bends by as much, a little in each step.
    """
    graph, table = build.graph, build.graph.heights
    if not len(table):
        return []
    root = build.root('heights', table.precision)
    owner, stamp_ns = owners(graph, table.point), stamps_of(graph, table)
    found = []
    for number, name in enumerate(graph.robots):
        own = np.flatnonzero(owner == number)
        if len(own) < 2:
            continue
        seconds = (stamp_ns[own] - stamp_ns[own].max()) * 1e-9
        span = min(float(-seconds.min()), _LONGEST_DRIFT_S)
        for share in _DRIFTING_SINCE:
            length = max((1 - share) * span, 1e-3)
            ramp = np.clip(1 + seconds / length, 0.0, 1.0)
            found.append(Hypothesis(
                ALTIMETER, name, build.matrix(
                    build.model.starts['heights'] + own, (root[own] * ramp)[:, None]),
                _DRIFT_FLOOR_M, _drifts(name, length), len(_DRIFTING_SINCE), seconds=length))
    return found


def _drifts(name: str, seconds: float) -> Callable[[Array], Finding]:
    def finding(theta: Array) -> Finding:
        which = 'high' if theta[0] > 0 else 'low'
        return Finding(
            ALTIMETER, name, f'the heights of {name} have come to be {abs(theta[0]):.1f} m too '
            f'{which} within {seconds:.0f} s: its altimeter drifts, or stands over something else',
            float(theta[0]), 'm')
    return finding


def _hangs(subject: str) -> Callable[[Array], Finding]:
    def finding(theta: Array) -> Finding:
        height = float(np.sqrt(max(theta[0], 0.0)))
        who, radios = ('all beacons', 'their radios') if subject == ALL_BEACONS else (
            f'beacon {subject}', 'its radio')
        return Finding(
            HEIGHT, subject, f'ranges of {who} fit better {height:.1f} m above or below the '
            f'antennas of the robots: set height_m of {radios}', height, 'm')
    return finding


def beacon_places(build: Columns, sources: RangeEnds, config: IntegrityConfig) -> list[Hypothesis]:
    """A known beacon stands elsewhere: its place, or that of its prior, is free."""
    graph, found = build.graph, []
    for number, name in enumerate(graph.landmarks.names):
        prior = np.flatnonzero(graph.point_priors.point == ~number)
        if graph.landmarks.fixed[number]:
            columns = _place_columns(
                build, sources, number, np.flatnonzero(sources.at(sources.robots + number)))
        elif len(prior):
            columns = _prior_columns(build, prior)
        else:
            continue
        if columns.nnz:
            found.append(Hypothesis(
                'beacon_misplaced', name, columns, config.bias_floor_m, misplaced(name)))
    return found


def _place_columns(
    build: Columns, sources: RangeEnds, landmark: int, rows: Index
) -> sp.csc_matrix:
    """By the place of a landmark at the ranges `rows`."""
    ranges = build.graph.ranges.take(rows)
    unit = range_directions(build.graph.replaced(ranges=ranges), build.estimate)
    sign = np.where(sources.second[rows] == sources.robots + landmark, 1.0, -1.0)
    root = build.root('ranges', build.graph.ranges.precision)[rows]
    return build.matrix(build.model.starts['ranges'] + rows, (sign * root)[:, None] * unit)


def _prior_columns(build: Columns, prior: Index) -> sp.csc_matrix:
    d = build.graph.dimension
    root = build.root('point_priors', build.graph.point_priors.precision)[prior]
    rows = build.model.starts['point_priors'] + prior[:, None] * d + np.arange(d)
    values = np.tile(-np.eye(d), (len(prior), 1)) * np.repeat(root, d)[:, None]
    return build.matrix(rows.ravel(), values)


def misplaced(name: str) -> Callable[[Array], Finding]:
    """Words for a known beacon that stands `theta` metres from its configured place."""
    def finding(theta: Array) -> Finding:
        size = float(np.linalg.norm(theta))
        offset = ', '.join(f'{value:+.1f}' for value in theta)
        return Finding(
            'beacon_misplaced', name,
            f'beacon {name} does not fit its configured place by {size:.1f} m ({offset})',
            size, 'm')
    return finding


def antenna_places(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], model: LinearModel,
    sources: RangeEnds,
) -> dict[str, sp.csc_matrix]:
    """(rows, d) of each robot that has ranges: derivatives by where its antenna is on it."""
    build = Columns(model, graph, estimate, weights)
    root = build.root('ranges', graph.ranges.precision)[:, None]
    by_source, by_target = range_lever_derivatives(graph, estimate)
    found = {}
    for number, name in enumerate(sources.names[:sources.robots]):
        rows = np.flatnonzero(sources.at(number))
        own = (by_source * (sources.first == number)[:, None]
               + by_target * (sources.second == number)[:, None])[rows]
        if len(rows):
            found[name] = build.matrix(model.starts['ranges'] + rows, root[rows] * own)
    return found


def antennas(build: Columns, sources: RangeEnds, config: IntegrityConfig) -> list[Hypothesis]:
    """The antenna of a robot stands elsewhere than its lever arm says."""
    places = antenna_places(build.graph, build.estimate, build.weights, build.model, sources)
    return [Hypothesis(ANTENNA, name, columns, config.bias_floor_m, _antenna(name))
            for name, columns in places.items()]


def _antenna(name: str) -> Callable[[Array], Finding]:
    def finding(theta: Array) -> Finding:
        size = float(np.linalg.norm(theta))
        offset = ', '.join(f'{value:+.2f}' for value in theta)
        return Finding(
            ANTENNA, name,
            f'the antenna of {name} stands {size:.2f} m from where its lever_arm says ({offset})'
            + (f': {doubted}' if (doubted := doubt(theta.tolist())) else ''),
            size, 'm')
    return finding


@dataclass(frozen=True)
class _OdometryRows:
    """Derivatives of the odometry's residuals, edge by edge."""

    turns: Array
    """(k, turns): by a rate of turning."""
    steps: Array
    """(k, d + turns, d + turns): rows of an edge (moves, turns) by an extra step in its frame."""
    seconds: Array
    """(k,): time of the end of each edge since the first pose."""


def _odometry_rows(build: Columns) -> _OdometryRows:
    graph, d = build.graph, build.graph.dimension
    rel = graph.relative_poses
    root_tau = build.root('relative_poses', rel.tau)
    root_kappa = build.root('relative_poses', rel.kappa * (1.0 if d == 2 else 2.0))
    rotation = build.estimate.rotation[rel.i]
    stamps = graph.poses.stamp_ns
    seconds = (stamps[rel.j] - stamps[rel.i]) * 1e-9
    turns = 1 if d == 2 else 3
    axis = np.ones((len(rel), 1)) if d == 2 else rotation[:, :, 2]
    steps = np.zeros((len(rel), d + turns, d + turns))
    steps[:, :d, :d] = -root_tau[:, None, None] * rotation
    steps[:, d:, d:] = -root_kappa[:, None, None] * (np.ones((1, 1)) if d == 2 else rotation)
    return _OdometryRows(
        (root_kappa * seconds)[:, None] * axis, steps,
        np.asarray((stamps[rel.j] - stamps.min(initial=1 << 62)) * 1e-9, dtype=float))


def odometry_scales(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], model: LinearModel
) -> sp.csc_matrix:
    """(rows, r): derivatives by the share that the odometry of each robot is too long by.

    Odometry measures the estimated motion times 1 / (1 - share), and its noise. By the measured
    motion, noise and all, a map without a scale of its own would fit best when shrunk to a point.
    """
    build = Columns(model, graph, estimate, weights)
    rel, d = graph.relative_poses, graph.dimension
    root = build.root('relative_poses', rel.tau) * rel.odometry
    moves = root[:, None] * (estimate.translation[rel.j] - estimate.translation[rel.i])
    at_moves = model.starts['moves'] + np.arange(len(rel))[:, None] * d + np.arange(d)
    robot = np.repeat(graph.poses.robot[rel.i], d)
    return sp.csc_matrix((moves.ravel(), (at_moves.ravel(), robot)),
                         shape=(len(model.residual), len(graph.robots)))


def odometry_turns(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], model: LinearModel
) -> sp.csc_matrix:
    """(rows, r): derivatives by the rate at which the odometry of each robot turns by itself."""
    build = Columns(model, graph, estimate, weights)
    rel, turns = graph.relative_poses, 1 if graph.dimension == 2 else 3
    values = _odometry_rows(build).turns * rel.odometry[:, None]
    at_turns = model.starts['turns'] + np.arange(len(rel))[:, None] * turns + np.arange(turns)
    robot = np.repeat(graph.poses.robot[rel.i], turns)
    return sp.csc_matrix((values.ravel(), (at_turns.ravel(), robot)),
                         shape=(len(model.residual), len(graph.robots)))


@dataclass(frozen=True)
class _Edges:
    """The odometry of a linear model, robot by robot."""

    own: dict[str, Index]
    """Relative poses of each robot that has odometry."""
    at_moves: Index
    """(k, d): rows of the moves of each relative pose."""
    at_turns: Index


def _edges(build: Columns) -> _Edges:
    graph, rel, model = build.graph, build.graph.relative_poses, build.model
    d, turns = graph.dimension, 1 if graph.dimension == 2 else 3
    robot = np.where(rel.odometry, graph.poses.robot[rel.i], -1) if len(rel) else rel.i
    rows = np.arange(len(rel))[:, None]
    return _Edges(
        {name: own for number, name in enumerate(graph.robots)
         if len(own := np.flatnonzero(robot == number))},
        model.starts['moves'] + rows * d + np.arange(d),
        model.starts['turns'] + rows * turns + np.arange(turns))


def odometry_lengths(
    build: Columns, _: RangeEnds, config: IntegrityConfig
) -> list[Hypothesis]:
    """Odometry of one robot is too long by a share."""
    edges, graph = _edges(build), build.graph
    if not edges.own:
        return []
    scales = odometry_scales(graph, build.estimate, build.weights, build.model)
    return [Hypothesis(
        'odometry_scale', name, scales[:, [graph.robots.index(name)]], config.scale_floor,
        _scaled(name), blur=float(np.sum(build.model.residual[edges.at_moves[own]] ** 2)))
        for name, own in edges.own.items()]


def odometry_rates(build: Columns, _: RangeEnds, config: IntegrityConfig) -> list[Hypothesis]:
    """Odometry of one robot turns at a rate of its own."""
    edges = _edges(build)
    if not edges.own:
        return []
    rows = _odometry_rows(build)
    return [Hypothesis(
        'odometry_turn', name, build.matrix(
            edges.at_turns[own].ravel(), rows.turns[own].reshape(-1, 1)),
        config.turn_floor_rad_s, _turning(name)) for name, own in edges.own.items()]


def odometry_jumps(build: Columns, _: RangeEnds, config: IntegrityConfig) -> list[Hypothesis]:
    """Odometry of one robot jumped once, where it fits worst."""
    edges, residual = _edges(build), build.model.residual
    if not edges.own:
        return []
    rows, found = _odometry_rows(build), []
    square = np.sum(residual[edges.at_moves] ** 2, 1) + np.sum(residual[edges.at_turns] ** 2, 1)
    for name, own in edges.own.items():
        worst = int(own[np.argmax(square[own])])
        found.append(Hypothesis('odometry_jump', name, build.matrix(
            np.concatenate([edges.at_moves[worst], edges.at_turns[worst]]), rows.steps[worst]),
            config.bias_floor_m,
            _jumped(name, build.graph.dimension, float(rows.seconds[worst])), len(own)))
    return found


def _jumped(name: str, d: int, seconds: float) -> Callable[[Array], Finding]:
    def finding(theta: Array) -> Finding:
        metres, angle = float(np.linalg.norm(theta[:d])), float(np.linalg.norm(theta[d:]))
        return Finding(
            'odometry_jump', name,
            f'the odometry of {name} jumped by {metres:.1f} m and {np.degrees(angle):.0f} degrees '
            f'about {seconds:.0f} s into the data', metres, 'm')
    return finding


def _scaled(name: str) -> Callable[[Array], Finding]:
    def finding(theta: Array) -> Finding:
        # Odometry (1 + s) times the truth is corrected by the factor 1 - theta = 1 / (1 + s).
        percent = 100 * (1 / max(1 - float(theta[0]), 0.01) - 1)
        which = 'long' if percent > 0 else 'short'
        return Finding('odometry_scale', name,
                       f'the odometry of {name} is {abs(percent):.1f} % too {which}', percent, '%')
    return finding


def _turning(name: str) -> Callable[[Array], Finding]:
    def finding(theta: Array) -> Finding:
        rate = float(np.degrees(theta[0]) * 60)
        return Finding(
            'odometry_turn', name,
            f'the heading of the odometry of {name} drifts by {rate:+.1f} degrees a minute',
            rate, 'degrees/min')
    return finding
