"""Radios calibrated together with the map: turns of a solve and a Gauss-Newton step.

The cost of problem 2 is quadratic for given biases. Its minimum over the map is a function of the
biases; `joint_model` gives gradient and Gauss-Newton Hessian of that function, so each step
accounts for how the map will follow (variable projection; plain alternation would creep). First
a robust kernel doubts what does not fit, as any map is solved; once the radios are known roughly,
probabilities of blocked paths take its place (`blocked_paths`), which leave no bias.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc

from ..array_types import Array
from ..config import SolverConfig
from ..config.calibration_config import CalibrationConfig
from ..graph import Estimate, Graph
from ..graph.range_ends import RangeEnds, range_ends
from .calibration_turns import CalibrationState, CalibrationTurns, Turn, with_noise
from .odometry_noise import OdometryNoise, as_claimed
from .posterior import Posterior
from .radio_parameters import RadioParameters, no_correction
from .range_noise import RangeNoise

log = logging.getLogger(__name__)
_KNOWN_NOISE = 0.5
"""Share of the ranges whose noise must be determined: with less, most of what would be called
significant hangs on sigmas that nothing confirms."""


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
    work = CalibrationTurns(graph, ends, config, solver)
    state = first = work.start(initial)
    if not len(graph.ranges):
        yield _nothing(work, first, 'the graph has no ranges')
        return
    turn, rounds = work.judged(state), 1
    while rounds < config.rounds and _noise_known(work, turn) and not work.settled(state, turn):
        yield None
        log.debug('round %d: biases %s', rounds, np.round(turn.found.values, 3))
        state = work.moved(state, turn)
        turn, rounds = work.judged(state), rounds + 1
    yield None
    doubt = ''
    if not _noise_known(work, turn):
        doubt = ('the noise of most ranges is not determined (the map follows them, or they are '
                 'too few), so no bias can be called significant')
    elif not work.settled(state, turn):
        doubt = f'the radios have not settled in {rounds} rounds'
    yield _decided(work, first, state, turn, rounds, doubt)


def _noise_known(work: CalibrationTurns, turn: Turn) -> bool:
    """Whether the noise of most ranges is determined."""
    return float(np.mean(turn.noise.of_known(work.ends))) >= _KNOWN_NOISE


def _verdict(
    work: CalibrationTurns, parameters: RadioParameters, found: Posterior
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
    work: CalibrationTurns, first: CalibrationState, last: CalibrationState, turn: Turn,
    rounds: int, doubt: str,
) -> SelfCalibration:
    """Apply what is significant, unless a `doubt` forbids it; else the graph stays as it is."""
    graph, ends, noise = work.graph, work.ends, last.noise or turn.noise
    odometry = as_claimed(len(graph.robots)) if doubt else replace(
        last.odometry, log_sigma=turn.odometry.log_sigma).significant()
    determined = RadioParameters(turn.found.determined, turn.found.others_then)
    applied, reason = (False, f'{doubt}: nothing is changed') if doubt else _verdict(
        work, determined, turn.found)
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
        ends, used, turn.found, noise, odometry, turn.inflation, applied, work.odometry_prior,
        reason, graph, outcome, estimate, weights, rounds, bool(doubt))


def _nothing(work: CalibrationTurns, first: CalibrationState, reason: str) -> SelfCalibration:
    size, none = len(work.ends.names) + 1, np.zeros(work.ends.robots)
    zero = np.zeros((size, size))
    empty = Posterior(
        np.zeros(size), zero, none, np.diag(none), np.zeros(size), none, 0, 0.0, zero, zero)
    return SelfCalibration(
        work.ends, no_correction(work.ends), empty, None, as_claimed(len(work.graph.robots)),
        (1.0, 1.0), False, work.odometry_prior, f'{reason}: nothing is changed', work.graph,
        work.graph, first.estimate, first.weights, 0)
