"""Radios calibrated together with the map: iterations of a solve and a Gauss-Newton step.

The cost of problem 2 is quadratic for given biases. Its minimum over the map is a function of the
biases; `radio_model` gives gradient and Gauss-Newton Hessian of that function, so each step
accounts for how the map will follow (variable projection; plain alternation would creep). First
a robust kernel doubts what does not fit, as any map is solved; once the radios are known roughly,
probabilities of blocked paths take its place (`range_errors`), which leave no bias.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc

from ...array_types import Array, Mask
from ...config import ConfigError, RobustConfig, SolverConfig, SolverError
from ...config.calibration_config import CalibrationConfig
from ...config.solver_config import LiveRobustConfig
from ...graph import Estimate, Graph, PointPriors, range_residuals
from ...graph.precision import chi_square_kappa
from ...graph.range_ends import RangeEnds, range_ends
from ...solver.solve import solve
from .odometry_noise import OdometryNoise, as_claimed, odometry_noise, variance_components
from .radio_model import (
    Posterior,
    RadioParameters,
    no_correction,
    odometry_prior,
    posterior,
    prior_covariance,
    radio_model,
    range_leverages,
)
from .range_errors import (
    BlockedPaths,
    RangeNoise,
    blocked_paths,
    range_noise,
    variance_inflation,
)

log = logging.getLogger(__name__)
_KNOWN_NOISE = 0.5
"""Share of the ranges whose noise must be determined: with less, most of what would be called
significant hangs on sigmas that nothing confirms."""
_SMALL_STEP = 0.1
"""Of a standard deviation: smaller steps change nothing that matters."""
_SMALL_RATIO = 1.1
"""Change of a sigma below which the noise has settled."""
_NEAR_STEP = 1.0
"""Of a range's noise: radios that are known so well let blocked paths be seen."""
_CLEAR = 0.5
"""Probability from which a path counts as clear when the noise is estimated."""
_LEAST_WEIGHT = 1e-6
"""Of a range over a blocked path; the problem stays positive definite (as with kernels)."""

Solve = Callable[[Graph, Estimate | None], tuple[Estimate, dict[str, Array]]]


@dataclass(frozen=True)
class SelfCalibration:
    """What was found of the radios, whether it counts, and the map with it."""

    ends: RangeEnds
    parameters: RadioParameters
    """Applied values: zero where nothing was significant."""
    found: Posterior
    noise: RangeNoise | None
    odometry_noise: OdometryNoise
    """As claimed where that is not contradicted."""
    inflation: tuple[float, float]
    """Factors on variances, of robustness and of shared errors, that `found` has in it."""
    applied: bool
    odometry_prior: Array
    """(robots, robots): of the scales of the odometry."""
    reason: str
    """Why it is applied or not, in words."""
    measured: Graph
    """The graph with its ranges and variances as they came in."""
    graph: Graph
    """The calibrated graph; the measured one where nothing is applied."""
    estimate: Estimate
    """The map; that of the measured graph where nothing is applied."""
    weights: Mapping[str, Array]
    rounds: int
    doubted: bool = False
    """The noise of the ranges is not determined, or the rounds have not settled: what was found
    and its standard deviations hang on claims."""


def self_calibrate(
    graph: Graph, initial: Estimate | None, config: CalibrationConfig, solver: SolverConfig
) -> SelfCalibration:
    """Estimate the radios of a graph with its map; `initial` is a solution of it, None = solve.

    Raises SolverError where the map cannot be solved.
    """
    for found in calibration_steps(graph, initial, config, solver):
        if found is not None:
            return found
    raise AssertionError('calibration_steps ends with a calibration')


def calibration_steps(
    graph: Graph, initial: Estimate | None, config: CalibrationConfig, solver: SolverConfig
) -> Iterator[SelfCalibration | None]:
    """`self_calibrate` solve by solve: None after each, the calibration at the end."""
    ends = range_ends(graph)
    work = Iterations(graph, ends, config, solver)
    state = first = work.start(initial)
    if not len(graph.ranges):
        yield _nothing(work, first, 'the graph has no ranges')
        return
    update, rounds = work.update(state), 1
    while rounds < config.rounds and _noise_known(work, update) and not work.settled(state, update):
        yield None
        log.debug('round %d: biases %s', rounds, np.round(update.found.values, 3))
        state = work.moved(state, update)
        update, rounds = work.update(state), rounds + 1
    yield None
    doubt = ''
    if not _noise_known(work, update):
        doubt = ('the noise of most ranges is not determined (the map follows them, or they are '
                 'too few), so no bias can be called significant')
    elif not work.settled(state, update):
        doubt = f'the radios have not settled in {rounds} rounds'
    yield _decided(work, first, state, update, rounds, doubt)


def _noise_known(work: Iterations, update: Update) -> bool:
    """Whether the noise of most ranges is determined."""
    return float(np.mean(update.noise.of_known(work.ends))) >= _KNOWN_NOISE


def _verdict(
    work: Iterations, parameters: RadioParameters, found: Posterior
) -> tuple[bool, str]:
    """Whether the parameters are applied, and why."""
    config, graph = work.config, work.graph
    if not found.directions:
        return False, 'the data determine no combination of biases: nothing is changed'
    chance = float(chdtrc(found.directions, found.chi_square))
    if chance > config.false_alarm:
        return False, ('radios without bias would give such residuals with probability '
                       f'{chance:.2g}: nothing is changed')
    largest = float(np.max(np.abs(parameters.pair_bias(work.ends))))
    stretch = abs(parameters.scale - 1) * float(np.max(graph.ranges.distance_m))
    if max(largest, stretch) < config.bias_floor_m:
        return False, f'no range is off by more than {config.bias_floor_m:g} m: nothing is changed'
    return True, f'{found.directions} combinations of biases are determined and significant'


def _decided(
    work: Iterations, first: CalibrationState, last: CalibrationState, update: Update,
    rounds: int, doubt: str,
) -> SelfCalibration:
    """Apply what is significant, unless a `doubt` forbids it; else the graph stays as it is."""
    graph, ends, noise = work.graph, work.ends, last.noise or update.noise
    odometry = as_claimed(len(graph.robots)) if doubt else replace(
        last.odometry, log_sigma=update.odometry.log_sigma).significant()
    determined = RadioParameters(update.found.determined, update.found.others_then)
    applied, reason = (False, f'{doubt}: nothing is changed') if doubt else _verdict(
        work, determined, update.found)
    kept = noise if work.config.sigma == 'estimate' and not doubt else None
    used = determined if applied else no_correction(ends)
    outcome = with_noise(graph, ends, kept)
    if kept is not None:
        outcome = odometry.applied(outcome)
    if applied:
        outcome = used.corrected(outcome, ends)
    if not applied and kept is None:
        estimate, weights = first.estimate, first.weights
    elif kept is not None and applied:
        end = work.under_paths(used, noise, odometry, outcome, last, work.by_paths)
        estimate, weights = end.estimate, dict(end.weights)
    else:
        estimate, weights = work.by_kernel(outcome, (last if applied else first).estimate)
    return SelfCalibration(
        ends, used, update.found, noise, odometry, update.inflation, applied, work.odometry_prior,
        reason, graph, outcome, estimate, weights, rounds, bool(doubt))


def _nothing(work: Iterations, first: CalibrationState, reason: str) -> SelfCalibration:
    size, none = len(work.ends.names) + 1, np.zeros(work.ends.robots)
    zero = np.zeros((size, size))
    empty = Posterior(
        np.zeros(size), zero, none, np.diag(none), np.zeros(size), none, 0, 0.0, zero, zero)
    return SelfCalibration(
        work.ends, no_correction(work.ends), empty, None, as_claimed(len(work.graph.robots)),
        (1.0, 1.0), False, work.odometry_prior, f'{reason}: nothing is changed', work.graph,
        work.graph, first.estimate, first.weights, 0)


def _doubting(config: SolverConfig) -> RobustConfig:
    return LiveRobustConfig() if config.robust.kernel == 'none' else config.robust


def robust_solver(config: SolverConfig) -> Solve:
    """Solves warm, doubting what does not fit: blocked ranges must not bend biases."""
    config = replace(config, robust=_doubting(config), certify=False, target_cost=None)

    def run(graph: Graph, initial: Estimate | None) -> tuple[Estimate, dict[str, Array]]:
        result = solve(graph, config, initial=initial)
        if result.estimate is None:
            raise SolverError(f'the map for the calibration could not be solved: {result.message}')
        return result.estimate, dict(result.stats.weights or {})

    return run


def _of_clear_paths(config: SolverConfig, robust: RobustConfig) -> Solve:
    """Solves with ranges as their precision says; closures and fixes are doubted as before."""
    robust = replace(robust, ranges=False)
    return robust_solver(replace(config, robust=robust))


def _with_honest_headings(run: Solve) -> Solve:
    """Solves where headings of the plane count once, as their noise says.

    The cost counts them twice (`graph.precision`). Its optimum is then not the most likely map, and
    errors of biases exceed the covariance, which is that of the most likely one.
    """
    def solved(graph: Graph, initial: Estimate | None) -> tuple[Estimate, dict[str, Array]]:
        return run(graph.replaced(**{
            name: table.replaced(kappa=chi_square_kappa(table.kappa, graph.dimension))
            for name, table in graph.tables().items() if hasattr(table, 'kappa')}), initial)

    return solved


@dataclass(frozen=True)
class CalibrationState:
    """Where the iterations stand."""

    parameters: RadioParameters
    noise: RangeNoise | None
    odometry: OdometryNoise
    corrected: Graph
    """With these parameters and this noise."""
    estimate: Estimate
    """The optimum of `corrected` under `weights`, with headings as their noise says."""
    weights: dict[str, Array]
    paths: BlockedPaths | None = None
    """None while a kernel doubts the ranges."""


@dataclass(frozen=True)
class Update:
    """What a state says of the radios."""

    found: Posterior
    step: Array
    """(r + 1 + robots,)"""
    noise: RangeNoise
    odometry: OdometryNoise
    inflation: tuple[float, float]

    def relative_step(self) -> float:
        """Largest step of a radio's parameter in standard deviations."""
        size = len(self.found.values)
        return float(np.max(
            np.abs(self.step[:size]) / np.sqrt(np.diagonal(self.found.covariance))))


class Iterations:
    """The iterations of one graph."""

    def __init__(
        self, graph: Graph, ends: RangeEnds, config: CalibrationConfig, solver: SolverConfig
    ) -> None:
        self.graph, self.ends, self.config = graph, ends, config
        self.by_kernel = robust_solver(solver)
        """As any map is solved."""
        self.by_paths = _of_clear_paths(solver, _doubting(solver))
        """The same with ranges as their precision says."""
        self.prior = prior_covariance(ends, config)
        self.odometry_prior = odometry_prior(ends.robots, config)

    def start(self, initial: Estimate | None) -> CalibrationState:
        """The map of the radios as they came in, solved as any map."""
        estimate, weights = self.by_kernel(self.graph, initial)
        return CalibrationState(
            no_correction(self.ends), None, as_claimed(len(self.graph.robots)), self.graph,
            estimate, weights)

    def update(self, state: CalibrationState) -> Update:
        """Posterior of the parameters and the noise at a state.

        The model holds at the optimum of this graph, so with these variances: new ones count
        from the next solve on.
        """
        graph, ends = self.graph, self.ends
        model, columns = radio_model(
            state.parameters, state.corrected, ends, state.estimate, state.weights)
        leverage = range_leverages(model)
        residual = range_residuals(state.corrected, state.estimate)
        inflation = variance_inflation(
            state.corrected, ends, residual, state.weights.get('ranges', np.ones(len(residual))))
        clear = None if state.paths is None else state.paths.clear >= _CLEAR
        # What the data say less than their weights claim divides their information.
        scores, share = model.scores(columns), inflation[0] * inflation[1]
        found = posterior(
            scores.information / share, scores.score / share, state.parameters.joint, self.prior,
            self.odometry_prior)
        noise = range_noise(ends, graph.ranges, residual, leverage, state.noise, clear)
        # Before the paths are told, biases and wrong sigmas of ranges push the odometry.
        odometry = state.odometry
        if state.paths is not None:
            free = float(np.sum(state.weights['ranges']) - np.sum(leverage))
            odometry = odometry_noise(
                variance_components(model, state.corrected, free), odometry, inflation[1])
        step = np.concatenate([found.values, found.others]) - state.parameters.joint
        return Update(found, step, noise, odometry, inflation)

    def moved(self, state: CalibrationState, update: Update) -> CalibrationState:
        """The state after the step of an update."""
        parameters = state.parameters.moved(update.step)
        corrected = parameters.corrected(
            update.odometry.applied(with_noise(self.graph, self.ends, update.noise)), self.ends)
        if not self.near(state, update):
            estimate, weights = _with_honest_headings(self.by_kernel)(corrected, state.estimate)
            return CalibrationState(
                parameters, update.noise, update.odometry, corrected, estimate, weights)
        return self.under_paths(
            parameters, update.noise, update.odometry, corrected, state,
            _with_honest_headings(self.by_paths))

    def under_paths(
        self, parameters: RadioParameters, noise: RangeNoise, odometry: OdometryNoise,
        corrected: Graph, before: CalibrationState, solve_clear: Solve,
    ) -> CalibrationState:
        """The map of a corrected graph with ranges weighted by what their paths are believed.

        Residuals are those of the map before with the radios before: of other radios they would
        be biased until the map has followed.
        """
        ranges = corrected.ranges
        paths = blocked_paths(
            self.ends, -range_residuals(before.corrected, before.estimate),
            1 / np.sqrt(ranges.precision))
        weighted = corrected.replaced(ranges=ranges.replaced(
            precision=ranges.precision * np.maximum(paths.clear, _LEAST_WEIGHT)))
        estimate, weights = solve_clear(weighted, before.estimate)
        return CalibrationState(
            parameters, noise, odometry, corrected, estimate, {**weights, 'ranges': paths.clear},
            paths)

    def near(self, state: CalibrationState, update: Update) -> bool:
        """Whether the radios are known so well that blocked paths can be told from biases.

        A step that moves a residual by less than its noise hardly moves the odds of its path. The
        standard deviations of the biases are no measure of that: they are ten times as small.
        """
        if state.paths is not None:
            return True
        if state.noise is None:
            return False
        ranges, step = self.graph.ranges, update.step[:len(update.found.values)]
        moved = step[self.ends.first] + step[self.ends.second] - step[-1] * ranges.distance_m
        return bool(np.all(moved**2 <= _NEAR_STEP**2 * update.noise.variance(self.ends, ranges)))

    def settled(self, state: CalibrationState, update: Update) -> bool:
        """Whether another iteration would change nothing that matters."""
        before = state.noise
        if state.paths is None or before is None or update.relative_step() > _SMALL_STEP:
            return False
        ratio = update.noise.variance(self.ends, self.graph.ranges) / before.variance(
            self.ends, self.graph.ranges)
        change = np.sqrt(max(float(np.max(ratio)), float(np.max(1 / ratio))))
        return bool(max(change, update.odometry.change(state.odometry)) <= _SMALL_RATIO)


def with_noise(graph: Graph, ends: RangeEnds, noise: RangeNoise | None) -> Graph:
    """The graph with the variances that were found, where they were."""
    if noise is None:
        return graph
    variance = noise.variance(ends, graph.ranges)
    return graph.replaced(ranges=graph.ranges.replaced(precision=1 / variance))


def held_to(graph: Graph, positions: Array, known: Mask, sigma_m: float) -> Graph:
    """The graph with its poses held to reference positions (n, d) where they are `known` (n,).

    What is absolute in the graph goes, since the reference has a frame of its own. Known beacons
    become unknown ones for the same reason. ConfigError where fewer than two poses are known.
    """
    rows = np.flatnonzero(known)
    if len(rows) < 2:
        raise ConfigError('--truth: the reference covers no two poses of the graph')
    count, d = len(rows), graph.dimension
    priors = PointPriors(
        rows.astype(np.int64), np.zeros((count, d)), positions[rows],
        np.full(count, 1 / sigma_m**2), graph.poses.stamp_ns[rows])
    marks = graph.landmarks
    return graph.replaced(
        measurements={
            name: table for kind, table in graph.typed() if not kind.absolute
            for name in (kind.name,)} | {'point_priors': priors},
        landmarks=type(marks)(
            marks.names, marks.position, np.zeros(len(marks.names), dtype=bool)))
