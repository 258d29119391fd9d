"""Radios calibrated together with the map: turns of a solve and a Gauss-Newton step.

The cost of problem 2 is quadratic for given biases. Its minimum over the map is a function of the
biases; `joint_model` gives gradient and Gauss-Newton Hessian of that function, so each step
accounts for how the map will follow (variable projection; plain alternation would creep).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc

from ..array_types import Array
from ..config import RobustConfig, SolverConfig, SolverError
from ..config.calibration_config import CalibrationConfig
from ..config.solver_config import LiveRobustConfig
from ..graph import Estimate, Graph, range_residuals
from ..graph.range_ends import RangeEnds, range_ends
from ..solver.solve import solve
from .joint_model import JointModel, joint_model
from .posterior import Posterior, posterior
from .radio_parameters import RadioParameters, no_correction, prior_covariance
from .range_noise import RangeNoise, range_noise
from .sharing import variance_inflation

log = logging.getLogger(__name__)
_SMALL_STEP = 0.1
"""Of a standard deviation: smaller steps change nothing that matters."""
_SMALL_RATIO = 1.1
"""Change of a sigma below which the noise has settled."""


@dataclass(frozen=True)
class SelfCalibration:
    """What was found of the radios, whether it counts, and the map with it."""

    ends: RangeEnds
    parameters: RadioParameters
    """Applied values: zero where nothing was significant."""
    found: Posterior
    noise: RangeNoise | None
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


def self_calibrate(
    graph: Graph, initial: Estimate | None, config: CalibrationConfig, solver: SolverConfig
) -> SelfCalibration:
    """Estimate the radios of a graph with its map; `initial` is a solution of it, None = solve.

    Raises SolverError where the map cannot be solved.
    """
    ends = range_ends(graph)
    run, robust = robust_solver(solver), _doubting(solver)
    estimate, weights = run(graph, initial)
    first = estimate, weights
    if not len(graph.ranges):
        return _nothing(graph, ends, first, 'the graph has no ranges')
    parameters, noise, prior = no_correction(ends), None, prior_covariance(ends, config)
    corrected, found, rounds, inflation = graph, None, 0, (1.0, 1.0)
    for rounds in range(1, config.rounds + 1):
        # The model holds at the optimum of this graph, so with these variances: new ones count
        # from the next solve on.
        model = joint_model(graph, corrected, ends, estimate, weights)
        residual = range_residuals(corrected, estimate)
        inflation = variance_inflation(corrected, ends, residual, robust)
        found = _posterior_at(model, parameters, prior, inflation, config)
        step = found.values - parameters.values
        fresh = range_noise(ends, graph.ranges, residual, model.leverage, noise)
        small = np.all(np.abs(step) <= _SMALL_STEP * np.sqrt(np.diagonal(found.covariance)))
        log.debug('round %d: biases %s', rounds, np.round(found.values, 3))
        if small and _settled(noise, fresh, ends, graph):
            break
        parameters, noise = parameters.moved(step), fresh
        corrected = _noisy(parameters.corrected(graph, ends), graph, ends, noise)
        estimate, weights = run(corrected, estimate)
    assert found is not None
    decided = _decided(
        graph, ends, parameters, found, noise, config, first, (estimate, weights), run, rounds)
    return replace(decided, inflation=inflation)


def _posterior_at(
    model: JointModel, parameters: RadioParameters, prior: Array,
    inflation: tuple[float, float], config: CalibrationConfig,
) -> Posterior:
    """What the data say less than their weights claim divides their information."""
    share = inflation[0] * inflation[1]
    return posterior(
        model.information / share, model.gradient / share, parameters.values, prior,
        config.information_gain)


def _noisy(
    graph: Graph, claimed: Graph, ends: RangeEnds, noise: RangeNoise | None
) -> Graph:
    """The graph with the found variances, else those of `claimed`."""
    if noise is None:
        return graph
    variance = noise.variance(ends, claimed.ranges)
    return graph.replaced(ranges=graph.ranges.replaced(precision=1 / variance))


def _settled(
    before: RangeNoise | None, after: RangeNoise, ends: RangeEnds, graph: Graph
) -> bool:
    if before is None:
        return False
    ratio = after.variance(ends, graph.ranges) / before.variance(ends, graph.ranges)
    change = np.sqrt(max(float(np.max(ratio)), float(np.max(1 / ratio))))
    return bool(change <= _SMALL_RATIO)


def _decided(
    graph: Graph, ends: RangeEnds, parameters: RadioParameters, found: Posterior,
    noise: RangeNoise | None, config: CalibrationConfig, first: tuple[Estimate, dict],
    last: tuple[Estimate, dict], run: Solve, rounds: int,
) -> SelfCalibration:
    """Apply what is significant; what is not leaves the graph as it is."""
    chance = float(chdtrc(max(found.directions, 1), found.chi_square))
    largest = float(np.max(np.abs(parameters.pair_bias(ends))))
    stretch = abs(parameters.scale - 1) * float(np.max(graph.ranges.distance_m))
    applied, reason = False, ''
    if not found.directions:
        reason = 'the data determine no combination of biases: nothing is changed'
    elif chance > config.false_alarm:
        reason = (f'radios without bias would give such residuals with probability {chance:.2g}: '
                  'nothing is changed')
    elif max(largest, stretch) < config.bias_floor_m:
        reason = f'no range is off by more than {config.bias_floor_m:g} m: nothing is changed'
    else:
        applied = True
        reason = f'{found.directions} combinations of biases are determined and significant'
    kept = noise if config.sigma == 'estimate' and noise is not None and np.any(
        noise.known) else None
    used = parameters if applied else no_correction(ends)
    outcome = _noisy(used.corrected(graph, ends) if applied else graph, graph, ends, kept)
    if not applied and kept is None:
        estimate, weights = first
    elif kept is not None and applied:
        estimate, weights = last
    else:
        estimate, weights = run(outcome, last[0] if applied else first[0])
    return SelfCalibration(
        ends, used, found, noise, (1.0, 1.0), applied, reason, graph, outcome, estimate,
        weights, rounds)


def _nothing(
    graph: Graph, ends: RangeEnds, first: tuple[Estimate, dict], reason: str
) -> SelfCalibration:
    size = len(ends.names) + 1
    zero = np.zeros((size, size))
    empty = Posterior(np.zeros(size), zero, 0, 0.0, zero, zero)
    return SelfCalibration(
        ends, no_correction(ends), empty, None, (1.0, 1.0), False, f'{reason}: nothing is changed',
        graph, graph, *first, 0)
