"""Noise as it is: factors on the variances that measurements claim, from their residuals.

Every source of measurements has a factor on the variance that it claims: each robot's odometry,
ranges, closures, sightings. Errors of neighbours are alike, and each measurement by itself would
seem too precise. So residuals are summed over cells first: odometry over stretches of the way,
ranges and sightings between the same two places (T, with T T^T = I, keeps the variance of white
noise).

With whitened residuals r = R e, R = I - J (J^T J)^-1 J^T, and u = T r, the sum q_g of squares of a
source has the expectation

    E q_g = sum_h S_gh f_h,     S_gh = || T_g R D_h ||^2,

D_h the rows of source h (minimum norm quadratic unbiased estimation, Rao 1971, by the weights that
the map is solved with; Helmert 1907). It is solved for f >= 0 by the updates of Richardson and
Lucy. The prior of a factor has its claim as median and long tails (`CLAIM_LOG_SCALE`): most claims
are about right and keep a source of which little is known near them, some are far off, and where
enough is known the same noise is found whatever is claimed. Odometry has what single steps show in
place of its claim. S comes from random signs (Hutchinson). A fault is no noise: cells count as
`_CLIP` of the standard deviations that they have then, at most (Huber's proposal 2, 1964), so that
a few faulty ones say little.

Calibration takes q and S of single rows, and steps by restricted maximum likelihood
(`calibrate.self_calibration.OdometryNoise`). A live map is weighted by these factors
(session/fault_trials.py). What its weights do not have of them is in what is said of it: by its
covariance, (J^T J)^-1 (sum_h f_h J_h^T J_h) (J^T J)^-1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.special import chdtri

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from ...graph import Estimate, Graph, Ranges, RelativePoses, Sightings, Table, range_residuals
from ...graph.ends import owners, stamps_of
from ...graph.estimate import antennas
from ...solver.covariance import normal_solver
from ..observability.datum import Outside, relative_to
from .doubts import kept_weights
from .hypotheses import odometry_scales, odometry_turns
from .linear_model import LinearModel, keyframes_of, linear_model, newest_poses

Solve = Callable[[Array], Array]
CELL_M = 2.0
"""Measurements between two places of this size share their errors: directions to antennas, and
what stands around, change slowly. White noise has the same factor with cells of any size."""
CLAIM_LOG_SCALE = 1.5
"""Of the prior of a factor, whose logarithm has a Cauchy distribution about 0: half of all claimed
standard deviations are right within a factor of 2, and one of ten is off by more than 100."""
_CLIP, _CLIPPED = 1.5, 0.7785
"""Standard deviations as which a cell counts at most, and the variance of a standard normal
variable that is clipped there."""
PROBES = 12
"""Random signs for each source; traces are uncertain by 1 / sqrt(12) of what sums of squares are.
"""
_MOST_STEPS, _SETTLED = 500, 1e-5
"""Updates of factors, and their largest relative change at the end."""
_NEIGHBOURS_S, _LEAST_NEIGHBOURS = 10.0, 30
"""Time within which errors of the map hardly change, and so many ranges with two neighbours."""
_ALIKE = 4.0
"""Ratio of factors: with a fifth of false ranges it is 3, with a third of them 100."""
_MIXTURE_STEPS, _SHARES = 500, (1e-6, 1 - 1e-6)
"""Of the EM algorithm for a mixture, and shares that it may have."""
ODOMETRY, RANGES, CLOSURES, SIGHTINGS = 'odometry', 'ranges', 'closures', 'sightings'
MOVES, TURNS = 'translations', 'rotations'
"""Of odometry, where these are told apart."""


@dataclass(frozen=True)
class Noise:
    """Factors on claimed variances, by source; what is not named is as claimed."""

    log_factor: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """{(kind, name of the robot, or ''): natural logarithm}."""

    def __bool__(self) -> bool:
        return bool(self.log_factor)

    def with_factor(self, kind: str, factor: float) -> Noise:
        """With another factor of a kind that is not told apart by robots."""
        return Noise({**self.log_factor, (kind, ''): float(np.log(factor))})

    def times(self, other: Noise) -> Noise:
        """With the factors of another one as well."""
        return Noise({name: self.log_factor.get(name, 0.0) + other.log_factor.get(name, 0.0)
                      for name in (*self.log_factor, *other.log_factor)})

    def beside(self, other: Noise) -> Noise:
        """What is left of it where another one is counted already."""
        return self.times(Noise({name: -log for name, log in other.log_factor.items()}))

    def far_from(self, other: Noise, log_factor: float) -> bool:
        """Whether a factor differs by more than that logarithm."""
        return any(abs(log) > log_factor for log in self.beside(other).log_factor.values())

    def applied_to(self, graph: Graph) -> Graph:
        """A graph with these variances."""
        return graph.replaced(**{
            name: self.applied(graph, table) for name, table in graph.tables().items()})

    def factor(self, kind: str, name: str = '') -> float:
        """Found over claimed variance."""
        return float(np.exp(self.log_factor.get((kind, name), 0.0)))

    @property
    def sigmas(self) -> dict[str, float]:
        """By source in words: found over claimed standard deviation."""
        return {f'{kind} of {name}' if name else kind: float(np.exp(log / 2))
                for (kind, name), log in self.log_factor.items()}

    def applied(self, graph: Graph, table: Table) -> Table:
        """A table of a graph, or a part of it, with these variances."""
        if not self.log_factor:
            return table
        if isinstance(table, RelativePoses):
            moves, turns = (np.where(table.odometry, np.array([
                self.factor(ODOMETRY, name) * self.factor(part, name)
                for name in graph.robots])[graph.poses.robot[table.i]], self.factor(CLOSURES))
                for part in (MOVES, TURNS))
            return table.replaced(tau=table.tau / moves, kappa=table.kappa / turns)
        if isinstance(table, Ranges) and len(table):
            return table.replaced(precision=table.precision / self.factor(RANGES))
        if isinstance(table, Sightings):
            return table.replaced(tau=table.tau / self.factor(SIGHTINGS))
        return table


def noise_of(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], floor_m: float,
    config: IntegrityConfig | None = None, taken: Noise | None = None,
) -> Noise:
    """The noise at an estimate of a graph, beside lasting faults of odometry.

    No range or sighting is taken for more precise than `floor_m`, nor than it claims where that is
    less. `config` has the sizes of faults. `taken` are factors that the graph has in its weights:
    those found are multiplied with them.
    """
    config, taken = config or IntegrityConfig(), taken or Noise()
    parts, single = _cells_and_rows(
        linear_model(graph, estimate, kept_weights(weights)), config)
    claim = np.array([1 / taken.factor(*name) for name in parts.names])
    # In a small space odometry has few stretches and many steps, and what lasts beside their noise
    # is a fault with a size of its own. What ranges share, single residuals do not show.
    factor = _clipped(parts, np.where(
        [kind == ODOMETRY for kind, _ in parts.names], _clipped(single, claim), claim))
    factor *= _mean_over_mode(parts.share.sum(axis=0), np.log(factor / claim))
    for k, (kind, _) in enumerate(parts.names):
        precision = {RANGES: graph.ranges.precision, SIGHTINGS: graph.sightings.tau}.get(kind)
        if precision is not None and floor_m > 0:
            factor[k] = max(factor[k], min(claim[k], float(np.median(precision)) * floor_m**2))
    return taken.times(Noise(dict(zip(parts.names, np.log(factor).tolist(), strict=True))))


def _clipped(parts: VarianceComponents, claim: Array) -> Array:
    """(g,): factors f >= 0 with S f = q, squares counting as `_CLIP` standard deviations at most.

    Claimed factors are the medians of their prior.
    """
    share, factor = parts.share, np.ones(len(claim))
    if not len(claim):
        return factor
    total = share.sum(axis=0)
    for _ in range(_MOST_STEPS):
        most = _CLIP**2 * (parts.of_cell @ np.append(factor, 1.0))
        square = parts.member.T @ (np.minimum(parts.cell_square, most) / _CLIPPED)
        expected = np.maximum(share @ factor, 1e-12)
        # Of -2 log prior, as S f - q is of -2 log likelihood.
        log = np.log(factor / claim)
        slope = 2 * log * _information_of_claim(log) / factor
        step = (share.T @ (square / expected) + np.maximum(-slope, 0.0)) / np.maximum(
            total + np.maximum(slope, 0.0), 1e-12)
        # Far from a claim its slope would overshoot.
        factor = factor * np.clip(step, 0.5, 2.0)
        if np.max(np.abs(step - 1)) < _SETTLED:
            break
    return factor


def _information_of_claim(log: Array) -> Array:
    """(g,): inverse variances of normal priors that have the slope of the Cauchy prior at (g,)
    logarithms of factors beside their claims: the farther off, the less a claim tells."""
    return 2 / (CLAIM_LOG_SCALE**2 + log**2)


def _mean_over_mode(known: Array, log: Array) -> Array:
    """(g,): of factors of which (g,) residuals tell, by their share of what is known of the factor.

    The logarithm, (g,) beside its claim, has the variance v by n / 2 of n residuals and what the
    claim tells, and the mean of a factor is exp(v / 2) times the likeliest value: few residuals
    that happen to be small do not make a precise source. The prior alone changes nothing.
    """
    variance = 1 / (known / 2 + _information_of_claim(log))
    return np.asarray(np.exp(known / 2 * variance * variance / 2))


@dataclass(frozen=True)
class VarianceComponents:
    """What the residuals of a map say of its g sources, by c cells."""

    names: tuple[tuple[str, str], ...]
    member: Array
    """(c, g): which cells are theirs."""
    cell_square: Array
    """(c,): squares of the sums over cells."""
    of_cell: Array
    """(c, g + 1): what each source adds to the expectation of these, and rows that none has."""

    @property
    def square(self) -> Array:
        """(g,): q."""
        return np.asarray(self.member.T @ self.cell_square)

    @property
    def share(self) -> Array:
        """(g, g): S."""
        return np.asarray(self.member.T @ self.of_cell[:, :-1])

    @property
    def expected(self) -> Array:
        """(g,): of q, where all claims are right."""
        return np.asarray(np.sum(self.member.T @ self.of_cell, axis=1))


def variance_components(model: LinearModel) -> VarianceComponents:
    """Of single residuals at an optimum; moves and turns of odometry are two sources."""
    sums, names, member, source = _cells(model, True)
    return _components(model.jacobian, model.residual, names, source, [(sums, member)])[0]


def _cells_and_rows(
    model: LinearModel, config: IntegrityConfig
) -> tuple[VarianceComponents, VarianceComponents]:
    """Of residuals summed over cells, and of single ones, beside lasting faults of odometry."""
    sums, names, member, source = _cells(model, False)
    J, faults = _with_faults(model, config)
    cells = sp.hstack([sums, sp.csr_matrix((sums.shape[0], faults))], format='csr')
    rows = np.flatnonzero(sums.getnnz(axis=0))
    single = sp.eye(J.shape[0], format='csr')[rows]
    of_cells, of_rows = _components(
        J, np.append(model.residual, np.zeros(faults)), names,
        np.concatenate([source, np.zeros((faults, len(names)))]),
        [(cells, member), (single, source[rows])])
    return of_cells, of_rows


def _components(
    J: sp.csr_matrix, whitened: Array, names: list[tuple[str, str]], source: Array,
    cells: list[tuple[sp.csr_matrix, Array]],
) -> list[VarianceComponents]:
    """Of sums over cells (c, rows); `source` (rows, g) says whose rows are, cells come with (c, g).
    """
    solve = normal_solver(J)
    residual = whitened - J @ solve((J.T @ whitened)[:, None])[:, 0]
    random = np.random.default_rng(0)
    sources = source > 0
    # What is rejected has no residual, and is no evidence of small noise.
    counts = np.asarray(abs(J).sum(axis=1)).ravel() > 0
    of_cell: list[list[Array]] = [[] for _ in cells]
    for own in counts & np.vstack([sources.T, ~np.any(sources, axis=1)]):
        signs = np.where(own[:, None], random.choice([-1.0, 1.0], (len(own), PROBES)), 0.0)
        left = signs - J @ solve(J.T @ signs)
        for (T, _), columns in zip(cells, of_cell, strict=True):
            columns.append(np.mean((T @ left)**2, axis=1))
    return [
        VarianceComponents(tuple(names), member, (T @ residual)**2, np.column_stack(columns))
        for (T, member), columns in zip(cells, of_cell, strict=True)]


def white_range_noise(graph: Graph, estimate: Estimate) -> float:
    """Variance of what changes from range to range over the claimed one; 0 = too little is known.

    Biases, and errors of the map and of odometry, change slowly: what a residual has beside the
    line through those before and after it, of the same two ends, is noise. The smallest tenth must
    say about the same as the median, or it is false ranges that make the noise.
    """
    ranges, stamps = graph.ranges, stamps_of(graph, graph.ranges)
    ends = np.sort(np.stack([owners(graph, ranges.source), owners(graph, ranges.target)]), axis=0)
    order = np.lexsort((stamps, ends[1], ends[0]))
    ends, seconds = ends[:, order], stamps[order] * 1e-9
    residual, variance = range_residuals(graph, estimate)[order], 1 / ranges.precision[order]
    gap = seconds[2:] - seconds[:-2]
    known = np.all(ends[:, 2:] == ends[:, :-2], axis=0) & (gap > 0) & (gap < _NEIGHBOURS_S)
    if np.count_nonzero(known) < _LEAST_NEIGHBOURS:
        return 0.0
    share = (seconds[1:-1] - seconds[:-2])[known] / gap[known]
    first, own, last = (np.stack([residual, variance])[:, k:len(residual) - 2 + k][:, known]
                        for k in range(3))
    off = own[0] - (1 - share) * first[0] - share * last[0]
    squares = off**2 / (own[1] + (1 - share)**2 * first[1] + share**2 * last[1])
    lower, middle = np.quantile(squares, [0.1, 0.5]) / chdtri(1, np.array([0.9, 0.5]))
    return float(middle) if middle < _ALIKE * lower else 0.0


def mixture_cost(whitened: Array) -> float:
    """-2 log likelihood of residuals, of which a share is wrong, and k times as large as claimed.

    At the likeliest share and k (EM algorithm; Dempster, Laird and Rubin 1977), but for a constant.
    """
    square = whitened**2
    share, wide, total = 0.5, max(float(np.mean(square)), 1.0) if len(square) else 1.0, square
    for _ in range(_MIXTURE_STEPS):
        wrong = np.log(share) - 0.5 * (square / wide + np.log(wide))
        total = np.logaddexp(np.log1p(-share) - 0.5 * square, wrong)
        member = np.exp(wrong - total)
        share = float(np.clip(np.mean(member), *_SHARES)) if len(square) else share
        wide = max(float(member @ square) / max(float(np.sum(member)), 1e-9), 1.0)
    return -2.0 * float(np.sum(total))


def _with_faults(model: LinearModel, config: IntegrityConfig) -> tuple[sp.csr_matrix, int]:
    """The Jacobian with the sizes of lasting faults of odometry as unknowns, and their number.

    A fault is no noise: what it does to residuals must not hide it from the tests. A row for each
    size holds its prior.
    """
    scales, turning = odometry_scales(model), odometry_turns(model)
    floors = np.repeat([config.scale_floor, config.turn_floor_rad_s], len(model.graph.robots))
    prior = sp.diags(np.sqrt(3.0) / (config.fault_size * floors))
    none = sp.csr_matrix((len(floors), model.jacobian.shape[1]))
    return sp.csr_matrix(sp.vstack([
        sp.hstack([model.jacobian, scales, turning]), sp.hstack([none, prior])])), len(floors)


def variance_by(
    noise: Noise, graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> dict[str, tuple[float, float]]:
    """By robot and landmark: variances of its place and of its rotation where measurements have
    that noise beside the one that they are weighted by, over those where they have not; all
    relative to keyframes of all paths. A landmark has no rotation: 1.

    Ranges tell places, and odometry tells rotations: they need not have the same ratio.
    """
    model = linear_model(graph, estimate, kept_weights(weights))
    _, names, _, source = _cells(model, False)
    of_row = np.exp(source @ np.array([noise.log_factor.get(name, 0.0) for name in names]))
    J, solve = model.jacobian, normal_solver(model.jacobian)
    d, turns = graph.dimension, 1 if graph.dimension == 2 else 3
    size = d + turns
    newest = newest_poses(graph)
    spread = keyframes_of(graph)
    free = np.flatnonzero(~graph.landmarks.fixed)
    points = [row * size for row in spread.tolist()] + [
        graph.n_poses * size + k * d for k in range(len(free))]
    unknowns = [row * size + np.arange(size) for row in newest.values()] + [
        at + np.arange(d) for at in points]
    places = np.concatenate([
        estimate.translation[list(newest.values())], estimate.translation[spread],
        estimate.landmarks[free]])
    columns = np.concatenate(unknowns)
    unit = np.zeros((J.shape[1], len(columns)))
    unit[columns, np.arange(len(columns))] = 1.0
    moved, ends = J @ solve(unit), np.cumsum([0, *(len(own) for own in unknowns)])
    first, last = len(newest), len(newest) + len(spread)
    datum = moved[:, ends[first]:ends[last]]
    anchored = len(graph.pose_priors) + len(graph.point_priors) > 0 or len(free) < graph.n_landmarks
    bodies = [*newest, *('' for _ in spread), *(graph.landmarks.names[k] for k in free)]
    ratios = {}
    for k, name in enumerate(bodies):
        if not name:
            continue
        own = moved[:, ends[k]:ends[k + 1]]
        if not anchored:
            motion = relative_to(places[k], places[first:last], Outside.of(graph))
            if motion is None:
                continue
            own = own - datum @ motion[:own.shape[1]].T
        squares = own**2
        claimed, found = (np.array([np.sum(part[:d]), np.sum(part[d:])])
                          for part in (np.sum(squares, axis=0), of_row @ squares))
        known = claimed > 0
        ratio = np.where(known, found / np.where(known, claimed, 1.0), 1.0)
        ratios[name] = float(ratio[0]), float(ratio[1])
    return ratios


def _cells(
    model: LinearModel, apart: bool
) -> tuple[sp.csr_matrix, list[tuple[str, str]], Array, Array]:
    """Sums (c, rows) of rows of the model between the same two places, one coordinate each; the
    sources that have measurements; and which cells, (c, g), and rows, (rows, g), are theirs.

    Odometry is summed by stretches of `CELL_M`, ranges and sightings by places, closures stay
    alone. Sums of n rows are divided by sqrt(n), so that white noise keeps its variance. Where
    `apart`, each row is a cell, and turns and moves of odometry are two sources.

    Verticals and heights of a robot may be what its odometry says: that it agrees with them is no
    evidence. So the tilt of its turns, and the height of its moves, are in no cell.
    """
    graph, estimate = model.graph, model.estimate
    d, rel, ranges, see = graph.dimension, graph.relative_poses, graph.ranges, graph.sightings
    turns, robots = 1 if d == 2 else 3, len(graph.robots)
    way = np.zeros(graph.n_poses)
    order = graph.poses.order
    step = np.zeros(graph.n_poses)
    np.maximum.at(step, rel.j[rel.odometry], np.linalg.norm(
        rel.translation[rel.odometry], axis=1))
    way[order] = np.cumsum(step[order])
    robot = graph.poses.robot[rel.i]
    stretch = np.stack([
        np.where(rel.odometry, robot, -1 - np.arange(len(rel))),
        np.floor(way[rel.j] / CELL_M).astype(np.int64)], axis=1)
    of_range = np.column_stack([
        owners(graph, ranges.source), owners(graph, ranges.target),
        _place(antennas(estimate, ranges.source, ranges.lever_source)),
        _place(antennas(estimate, ranges.target, ranges.lever_target))])
    of_sighting = np.column_stack([
        graph.poses.robot[see.i], graph.points(see.point), _place(estimate.translation[see.i])])
    names = [*((kind, name) for kind in ((MOVES, TURNS) if apart else (ODOMETRY,))
               for name in graph.robots), (CLOSURES, ''), (SIGHTINGS, ''), (RANGES, '')]
    closures, sightings, range_source = range(len(names) - 3, len(names))
    parts = {
        'turns': (stretch, turns, np.where(rel.odometry, robot + robots * apart, closures)),
        'moves': (stretch, d, np.where(rel.odometry, robot, closures)),
        'sightings': (of_sighting, d, np.full(len(see), sightings)),
        'ranges': (of_range, 1, np.full(len(ranges), range_source))}
    high = graph.heights.point[graph.heights.point >= 0]
    levelled = {
        part: (rel.odometry & np.isin(robot, graph.poses.robot[poses]), coordinates)
        for part, poses, coordinates in (
            ('turns', graph.verticals.i, slice(turns - 1)), ('moves', high, slice(d - 1, d)))}
    row_source = np.full(len(model.residual), -1)
    rows, columns, values, owner, count = [], [], [], [], 0
    for part, (label, width, source) in parts.items():
        label = np.arange(len(label))[:, None] if apart else label
        _, chosen, cell, number = np.unique(
            label, axis=0, return_index=True, return_inverse=True, return_counts=True)
        cell, at = cell.reshape(-1), np.arange(width)
        row_source[model.rows(part)] = np.repeat(source, width)
        rows.append((count + cell[:, None] * width + at).ravel())
        columns.append((model.starts[part] + np.arange(len(label))[:, None] * width + at).ravel())
        values.append(np.repeat(1 / np.sqrt(number[cell]), width))
        whose = np.repeat(source[chosen][:, None], width, axis=1)
        if part in levelled:
            own, coordinates = levelled[part]
            whose[own[chosen], coordinates] = -1
        owner.append(whose.ravel())
        count += len(chosen) * width
    sums = sp.csr_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(count, len(model.residual)))
    member = np.concatenate(owner)[:, None] == np.arange(len(names))
    used, some = np.any(member, axis=1), np.any(member, axis=0)
    return (sums[used], [name for name, has in zip(names, some, strict=True) if has],
            member[used][:, some].astype(float),
            (row_source[:, None] == np.flatnonzero(some)).astype(float))


def _place(points: Array) -> Index:
    return np.floor(points / CELL_M).astype(np.int64)
