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
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import chdtrc, ndtri

from ...array_types import Array, Mask
from ...config import ConfigError, RobustConfig, SolverConfig, SolverError
from ...config.calibration_config import CalibrationConfig
from ...config.solver_config import LIVE_ROBUST
from ...graph import Estimate, Graph, PointPriors, range_residuals, with_chi_square_turns
from ...graph.ends import RangeEnds, range_ends
from ...solver.solve import solve, solve_checked
from ..integrity.noise import (
    MOVES,
    PROBES,
    RANGES,
    TURNS,
    Noise,
    VarianceComponents,
    variance_components,
)
from .radio_model import (
    Posterior,
    RadioParameters,
    no_correction,
    posterior,
    prior_covariance,
    radio_model,
    range_leverages,
)
from .range_errors import RangeNoise, clear_paths, range_noise, variance_inflation

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
_SURE = float(-ndtri(0.001 / 2))
"""Standard deviations from which odometry is said to claim a wrong noise."""
_PRIOR_VARIANCE = float((2 * np.log(5.0)) ** 2 / 3)
"""Of the logarithm of the factor on a variance: claimed sigmas are wrong by up to 5 either way,
uniform in the logarithm. It counts where the data say little."""
_LARGEST_STEP = 2.0
"""Of that logarithm in a round; the model is that of the weights before."""

Solve = Callable[[Graph, Estimate | None], tuple[Estimate, dict[str, Array]]]


@dataclass(frozen=True)
class OdometryNoise:
    """Of translations and rotations of each robot (`MOVES`, `TURNS`) whose claim is contradicted.

    The score of restricted maximum likelihood by the logarithm of a variance is half of the excess
    of the squared residuals, its Fisher information half of tr R_gh R_hg (Patterson and Thompson
    1971).
    """

    noise: Noise = field(default_factory=Noise)
    log_sigma: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Standard deviations of the logarithms."""
    step: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Their last changes."""

    def after(self, parts: VarianceComponents, shared: float) -> OdometryNoise:
        """A step of Fisher scoring at the optimum with this noise.

        Ranges that share errors (`shared` of them tell as much as one, `sharing`) push the map, and
        the odometry's residuals with it, by up to (shared - 1) tr R_gr R_rg: an excess below that
        is no fault of the odometry. Neither is one that other measurements explain, whose noise
        nobody confirms, by having none or twice their variance. A source that was used stays so;
        others begin where their score is significant.
        """
        before = self.noise.log_factor
        own = [k for k, (kind, _) in enumerate(parts.names) if kind in (MOVES, TURNS)]
        names = [parts.names[k] for k in own]
        at = parts.names.index((RANGES, ''))
        with_ranges, fisher = parts.share[own, at], parts.share[np.ix_(own, own)]
        others = parts.expected[own] - np.sum(fisher, axis=1) - with_ranges
        fisher = (fisher + fisher.T) / 2
        if parts.share[at, at] > 0:
            fisher -= np.outer(with_ranges, with_ranges) / parts.share[at, at]
        excess = (parts.square - parts.expected)[own]
        score = excess - np.clip(excess, -others, (shared - 1) * with_ranges + others)
        begins = score**2 > _SURE**2 * 2 * np.maximum(np.diagonal(fisher), 1e-12) * (1 + 1 / PROBES)
        used = [k for k, name in enumerate(names) if name in before or begins[k]]
        if not used:
            return OdometryNoise()
        prior, names = 2 / _PRIOR_VARIANCE, [names[k] for k in used]
        log = np.array([before.get(name, 0.0) for name in names])
        bend = fisher[np.ix_(used, used)] + prior * np.eye(len(used))
        step = np.linalg.solve(bend, score[used] - prior * log)
        # The excess is linear in the variance and not in its logarithm.
        step = np.where(step > 0, np.log1p(np.maximum(step, 0.0)), step)
        step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        # The information is that of claims that hold: steps may go to and fro about the optimum.
        last = np.array([self.step.get(name, 0.0) for name in names])
        step = np.where(step * last < 0, step / 2, step)
        sigma = np.sqrt(2 * (1 + 1 / PROBES) * np.diagonal(np.linalg.inv(bend)))
        noise, spread, steps = (dict(zip(names, values.tolist(), strict=True)) for values in (
            log + step, sigma, step))
        return OdometryNoise(Noise(noise), spread, steps)

    def significant(self) -> OdometryNoise:
        """Only what contradicts the claims also at the end."""
        return replace(self, noise=Noise({
            name: log for name, log in self.noise.log_factor.items()
            if abs(log) > _SURE * self.log_sigma[name]}))


@dataclass(frozen=True)
class SelfCalibration:
    """What was found of the radios, whether it counts, and the map with it."""

    ends: RangeEnds
    parameters: RadioParameters
    """Applied values: zero where nothing was significant."""
    posterior: Posterior
    noise: RangeNoise | None
    odometry_noise: OdometryNoise
    inflation: tuple[float, float]
    """Factors on variances, of robustness and of shared errors, that `found` has in it."""
    applied: bool
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
    for calibration in calibration_steps(graph, initial, config, solver):
        if calibration is not None:
            return calibration
    raise AssertionError('calibration_steps ends with a calibration')


def calibration_steps(
    graph: Graph, initial: Estimate | None, config: CalibrationConfig, solver: SolverConfig
) -> Iterator[SelfCalibration | None]:
    """`self_calibrate` solve by solve: None after each, the calibration at the end."""
    work = Iterations(graph, config, solver)
    state = first = work.start(initial)
    if not len(graph.ranges):
        zero = np.zeros(len(work.prior))
        yield SelfCalibration(
            work.ends, first.parameters, posterior(
                np.outer(zero, zero), zero, zero, work.prior, work.radio_size),
            None, first.odometry, (1.0, 1.0), False,
            'the graph has no ranges: nothing is changed', graph, graph, first.estimate,
            first.weights, 0)
        return
    update, rounds = work.update(state), 1
    while rounds < config.rounds and work.noise_known(update) and not work.settled(state, update):
        yield None
        log.debug('round %d: biases %s', rounds, np.round(update.posterior.values, 3))
        state = work.moved(state, update)
        update, rounds = work.update(state), rounds + 1
    yield None
    doubt = ''
    if not work.noise_known(update):
        doubt = ('the noise of most ranges is not determined (the map follows them, or they are '
                 'too few), so no bias can be called significant')
    elif not work.settled(state, update):
        doubt = f'the radios have not settled in {rounds} rounds'
    yield _decided(work, first, state, update, rounds, doubt)


def _verdict(
    work: Iterations, parameters: RadioParameters, posterior: Posterior
) -> tuple[bool, str]:
    """Whether the parameters are applied, and why."""
    config = work.config
    if not posterior.directions:
        return False, 'the data determine no combination of biases: nothing is changed'
    chance = float(chdtrc(posterior.directions, posterior.chi_square))
    if chance > config.false_alarm:
        return False, ('radios without bias would give such residuals with probability '
                       f'{chance:.2g}: nothing is changed')
    largest = float(np.max(np.abs(parameters.pair_bias)))
    stretch = abs(parameters.scale - 1) * float(np.max(work.graph.ranges.distance_m))
    if max(largest, stretch) < config.bias_floor_m:
        return False, f'no range is off by more than {config.bias_floor_m:g} m: nothing is changed'
    return True, f'{posterior.directions} combinations of biases are determined and significant'


def _decided(
    work: Iterations, first: CalibrationState, last: CalibrationState, update: Update,
    rounds: int, doubt: str,
) -> SelfCalibration:
    """Apply what is significant, unless a `doubt` forbids it; else the graph stays as it is."""
    graph, ends, noise = work.graph, work.ends, last.noise or update.noise
    odometry = OdometryNoise() if doubt else replace(
        last.odometry, log_sigma=update.odometry.log_sigma).significant()
    used = RadioParameters(ends, update.posterior.determined)
    applied, reason = (False, f'{doubt}: nothing is changed') if doubt else _verdict(
        work, used, update.posterior)
    used = used if applied else no_correction(ends)
    with_noise = work.config.sigma == 'estimate' and not doubt
    outcome = used.corrected(work.with_noise(noise, odometry) if with_noise else graph)
    if with_noise and applied:
        end = work.under_paths(used, noise, odometry, outcome, last, work.by_paths)
        estimate, weights = end.estimate, end.weights
    elif with_noise or applied:
        estimate, weights = work.by_kernel(outcome, (last if applied else first).estimate)
    else:
        outcome, estimate, weights = graph, first.estimate, first.weights
    return SelfCalibration(
        ends, used, update.posterior, noise, odometry, update.inflation, applied, reason, graph,
        outcome, estimate, weights, rounds, bool(doubt))


def _doubting(config: SolverConfig) -> RobustConfig:
    return LIVE_ROBUST if config.robust.kernel == 'none' else config.robust


def robust_solver(config: SolverConfig) -> Solve:
    """Solves, warm but for the first, that doubt what does not fit: blocked ranges must not bend
    biases."""
    config = replace(config, robust=_doubting(config), certify=False, target_cost=None)

    def run(graph: Graph, initial: Estimate | None) -> tuple[Estimate, dict[str, Array]]:
        result = (solve_checked(graph, config) if initial is None
                  else solve(graph, config, initial=initial))
        if result.estimate is None:
            raise SolverError(f'the map for the calibration could not be solved: {result.message}')
        return result.estimate, dict(result.stats.weights or {})

    return run


def _with_honest_headings(run: Solve) -> Solve:
    """Solves where headings of the plane count once, as their noise says.

    The cost counts them twice (`graph.precision`). Its optimum is then not the most likely map, and
    errors of biases exceed the covariance, which is that of the most likely one.
    """
    def solved(graph: Graph, initial: Estimate | None) -> tuple[Estimate, dict[str, Array]]:
        return run(with_chi_square_turns(graph), initial)

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
    under_paths: bool = False
    """Whether ranges are weighted by what their paths are believed; else a kernel doubts them."""


@dataclass(frozen=True)
class Update:
    """What a state says of the radios."""

    posterior: Posterior
    step: Array
    """(r + 1 + robots,)"""
    noise: RangeNoise
    odometry: OdometryNoise
    inflation: tuple[float, float]


class Iterations:
    """The iterations of one graph."""

    def __init__(self, graph: Graph, config: CalibrationConfig, solver: SolverConfig) -> None:
        self.graph, self.ends, self.config = graph, range_ends(graph), config
        self.by_kernel = robust_solver(solver)
        """As any map is solved."""
        self.by_paths = robust_solver(
            replace(solver, robust=replace(_doubting(solver), ranges=False)))
        """The same with ranges as their precision says."""
        self.prior = prior_covariance(self.ends, config)
        self.radio_size = len(self.ends.names) + 1
        """Parameters but the scales of the odometry."""

    def start(self, initial: Estimate | None) -> CalibrationState:
        """The map of the radios as they came in, solved as any map."""
        estimate, weights = self.by_kernel(self.graph, initial)
        return CalibrationState(
            no_correction(self.ends), None, OdometryNoise(), self.graph, estimate, weights)

    def with_noise(self, noise: RangeNoise, odometry: OdometryNoise) -> Graph:
        """The graph with the variances that were found, where they were."""
        variance = noise.variance(self.ends, self.graph.ranges)
        return odometry.noise.applied_to(self.graph.replaced(
            ranges=self.graph.ranges.replaced(precision=1 / variance)))

    def update(self, state: CalibrationState) -> Update:
        """Posterior of the parameters and the noise at a state.

        The model holds at the optimum of this graph, so with these variances: new ones count
        from the next solve on.
        """
        graph, ends, at = self.graph, self.ends, state.parameters.values
        model, columns = radio_model(
            state.parameters, state.corrected, state.estimate, state.weights)
        residual = range_residuals(state.corrected, state.estimate)
        weight = state.weights.get('ranges', np.ones(len(residual)))
        inflation = variance_inflation(state.corrected, ends, residual, weight)
        # What the data say less than their weights claim divides their information.
        scores, share = model.scores(columns), inflation[0] * inflation[1]
        fit = posterior(
            scores.information / share, scores.score / share, at, self.prior, self.radio_size)
        noise = range_noise(
            ends, graph.ranges, residual, range_leverages(model), state.noise,
            weight >= _CLEAR if state.under_paths else None)
        # Before the paths are told, biases and wrong sigmas of ranges push the odometry.
        odometry = state.odometry
        if state.under_paths:
            odometry = odometry.after(variance_components(model), inflation[1])
        return Update(fit, fit.values - at, noise, odometry, inflation)

    def moved(self, state: CalibrationState, update: Update) -> CalibrationState:
        """The state after the step of an update."""
        noise, odometry = update.noise, update.odometry
        parameters = RadioParameters(self.ends, state.parameters.values + update.step)
        corrected = parameters.corrected(self.with_noise(noise, odometry))
        if self.near(state, update):
            return self.under_paths(
                parameters, noise, odometry, corrected, state, _with_honest_headings(self.by_paths))
        return CalibrationState(
            parameters, noise, odometry, corrected,
            *_with_honest_headings(self.by_kernel)(corrected, state.estimate))

    def under_paths(
        self, parameters: RadioParameters, noise: RangeNoise, odometry: OdometryNoise,
        corrected: Graph, before: CalibrationState, solve_clear: Solve,
    ) -> CalibrationState:
        """The map of a corrected graph with ranges weighted by what their paths are believed.

        Residuals are those of the map before with the radios before: of other radios they would
        be biased until the map has followed.
        """
        ranges = corrected.ranges
        clear = clear_paths(
            self.ends, -range_residuals(before.corrected, before.estimate),
            1 / np.sqrt(ranges.precision))
        weighted = corrected.replaced(ranges=ranges.replaced(
            precision=ranges.precision * np.maximum(clear, _LEAST_WEIGHT)))
        estimate, weights = solve_clear(weighted, before.estimate)
        return CalibrationState(
            parameters, noise, odometry, corrected, estimate, {**weights, 'ranges': clear}, True)

    def noise_known(self, update: Update) -> bool:
        """Whether the noise of most ranges is determined."""
        return float(np.mean(update.noise.of_known(self.ends))) >= _KNOWN_NOISE

    def near(self, state: CalibrationState, update: Update) -> bool:
        """Whether the radios are known so well that blocked paths can be told from biases.

        A step that moves a residual by less than its noise hardly moves the odds of its path. The
        standard deviations of the biases are no measure of that: they are ten times as small.
        """
        if state.under_paths or state.noise is None:
            return state.under_paths
        ranges, step = self.graph.ranges, RadioParameters(self.ends, update.step)
        moved = step.pair_bias - (step.scale - 1) * ranges.distance_m
        return bool(np.all(moved**2 <= _NEAR_STEP**2 * update.noise.variance(self.ends, ranges)))

    def settled(self, state: CalibrationState, update: Update) -> bool:
        """Whether another iteration would change nothing that matters."""
        before, size = state.noise, self.radio_size
        sigma = np.sqrt(np.diagonal(update.posterior.covariance))
        if not state.under_paths or before is None or np.any(
                np.abs(update.step[:size]) > _SMALL_STEP * sigma[:size]):
            return False
        variances = np.log([
            noise.variance(self.ends, self.graph.ranges) for noise in (before, update.noise)])
        earlier, now = (fit.odometry.noise.log_factor for fit in (state, update))
        change = [*np.abs(variances[1] - variances[0]), *(
            abs(log - earlier.get(name, 0.0)) for name, log in now.items())]
        return bool(max(change) <= 2 * np.log(_SMALL_RATIO))


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
