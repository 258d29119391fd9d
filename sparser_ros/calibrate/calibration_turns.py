"""Turns of a calibration: a solve of the map, and a Gauss-Newton step of all parameters.

First a robust kernel doubts what does not fit, as in any map. Once the radios are known roughly,
probabilities of blocked paths take its place, which leave no bias (`blocked_paths`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..array_types import Array
from ..config import RobustConfig, SolverConfig, SolverError
from ..config.calibration_config import CalibrationConfig
from ..config.solver_config import LiveRobustConfig
from ..graph import Estimate, Graph, range_residuals
from ..graph.precision import chi_square_kappa
from ..graph.range_ends import RangeEnds
from ..solver.solve import solve
from .blocked_paths import BlockedPaths, blocked_paths
from .joint_model import JointModel, joint_model
from .odometry_noise import OdometryNoise, as_claimed, odometry_noise
from .posterior import Posterior, posterior
from .radio_parameters import RadioParameters, no_correction, odometry_prior, prior_covariance
from .range_noise import RangeNoise, range_noise
from .sharing import mixture_inflation, variance_inflation

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
    """Where the turns stand."""

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
class Turn:
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


class CalibrationTurns:
    """The turns of one graph."""

    def __init__(
        self, graph: Graph, ends: RangeEnds, config: CalibrationConfig, solver: SolverConfig
    ) -> None:
        self.graph, self.ends, self.config = graph, ends, config
        self.robust = _doubting(solver)
        self.by_kernel = robust_solver(solver)
        """As any map is solved."""
        self.by_paths = _of_clear_paths(solver, self.robust)
        """The same with ranges as their precision says."""
        self.prior = prior_covariance(ends, config)
        self.odometry_prior = odometry_prior(ends.robots, config)

    def start(self, initial: Estimate | None) -> CalibrationState:
        """The map of the radios as they came in, solved as any map."""
        estimate, weights = self.by_kernel(self.graph, initial)
        return CalibrationState(
            no_correction(self.ends), None, as_claimed(len(self.graph.robots)), self.graph,
            estimate, weights)

    def judged(self, state: CalibrationState) -> Turn:
        """Posterior of the parameters and the noise at a state.

        The model holds at the optimum of this graph, so with these variances: new ones count
        from the next solve on.
        """
        graph, ends = self.graph, self.ends
        model = joint_model(
            state.parameters, state.corrected, ends, state.estimate, state.weights,
            components=state.paths is not None)
        residual = range_residuals(state.corrected, state.estimate)
        clear = None
        if state.paths is None:
            inflation = variance_inflation(state.corrected, ends, residual, self.robust)
        else:
            clear = state.paths.clear >= _CLEAR
            inflation = mixture_inflation(
                state.corrected, ends, residual, state.paths.clear)
        found = self._posterior(model, state.parameters, inflation)
        noise = range_noise(ends, graph.ranges, residual, model.leverage, state.noise, clear)
        # Before the paths are told, biases and wrong sigmas of ranges push the odometry.
        odometry = state.odometry if model.components is None else odometry_noise(
            model.components, state.odometry, inflation[1])
        step = np.concatenate([found.values, found.others]) - state.parameters.joint
        return Turn(found, step, noise, odometry, inflation)

    def _posterior(
        self, model: JointModel, parameters: RadioParameters, inflation: tuple[float, float]
    ) -> Posterior:
        """What the data say less than their weights claim divides their information."""
        share = inflation[0] * inflation[1]
        return posterior(
            model.information / share, model.gradient / share, parameters.joint, self.prior,
            self.config.information_gain, self.odometry_prior)

    def moved(self, state: CalibrationState, turn: Turn) -> CalibrationState:
        """The state after the step of a turn."""
        parameters = state.parameters.moved(turn.step)
        corrected = parameters.corrected(
            turn.odometry.applied(with_noise(self.graph, self.ends, turn.noise)), self.ends)
        if not self.near(state, turn):
            estimate, weights = _with_honest_headings(self.by_kernel)(corrected, state.estimate)
            return CalibrationState(
                parameters, turn.noise, turn.odometry, corrected, estimate, weights)
        return self.under_paths(
            parameters, turn.noise, turn.odometry, corrected, state,
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

    def near(self, state: CalibrationState, turn: Turn) -> bool:
        """Whether the radios are known so well that blocked paths can be told from biases.

        A step that moves a residual by less than its noise hardly moves the odds of its path. The
        standard deviations of the biases are no measure of that: they are ten times as small.
        """
        if state.paths is not None:
            return True
        if state.noise is None:
            return False
        ranges, step = self.graph.ranges, turn.step[:len(turn.found.values)]
        moved = step[self.ends.first] + step[self.ends.second] - step[-1] * ranges.distance_m
        return bool(np.all(moved**2 <= _NEAR_STEP**2 * turn.noise.variance(self.ends, ranges)))

    def settled(self, state: CalibrationState, turn: Turn) -> bool:
        """Whether another turn would change nothing that matters."""
        before = state.noise
        if state.paths is None or before is None or turn.relative_step() > _SMALL_STEP:
            return False
        ratio = turn.noise.variance(self.ends, self.graph.ranges) / before.variance(
            self.ends, self.graph.ranges)
        change = np.sqrt(max(float(np.max(ratio)), float(np.max(1 / ratio))))
        return bool(max(change, turn.odometry.change(state.odometry)) <= _SMALL_RATIO)


def with_noise(graph: Graph, ends: RangeEnds, noise: RangeNoise | None) -> Graph:
    """The graph with the variances that were found, where they were."""
    if noise is None:
        return graph
    variance = noise.variance(ends, graph.ranges)
    return graph.replaced(ranges=graph.ranges.replaced(precision=1 / variance))
