"""What is made of the map of an audit besides: a bound on better maps, and calibrated radios.

Of radios only that counts which the data determine, which chance would hardly give
(`calibration.false_alarm`, shared by all that is tested) and which moves ranges by more than
`calibration.bias_floor_m`. Each calibration begins with the ranges as they were measured and the
configured lever arms, so what it finds replaces what the last one has found. Antennas and clocks
are looked at once biases are known; how late stamps are is only told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from ...array_types import Array
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...linalg.process import single_threaded_blas
from ...solver.certificate import Certifier
from ...solver.preconditioner import NewtonPreconditioner
from ...solver.problem import QuadraticProblem
from ...solver.robust import floored
from ...solver.schur import SchurOperator
from ...solver.staircase import HIGHEST_RANK, Goal, climb
from ...solver.trust_region import Observer, StoppingRule, minimise
from ..calibrate.results import radio_rows
from ..integrity.radio_errors import (
    ANTENNA_AXES,
    BIAS,
    RadioErrors,
    antenna_moved,
    doubt,
    either_words,
    lateness,
)
from .graph_store import FAILURES

if TYPE_CHECKING:
    from ...config.calibration_config import CalibrationConfig
    from ...config.sparser import SparserConfig
    from ...graph import Graph
    from ..calibrate.antennas_and_clocks import AntennasAndClocks
    from ..calibrate.self_calibration import SelfCalibration


@dataclass(frozen=True)
class SolvedMap:
    """The map of an audit: the part of the graph that it placed."""

    sequence: int
    newest_stamp_ns: int
    graph: Graph
    estimate: Estimate
    weights: dict[str, Array]
    """Robust weights by table."""
    radio_errors: RadioErrors = field(default_factory=RadioErrors)
    """What was taken off the ranges of radios."""

    def weighted(self, floor: float) -> tuple[SchurOperator, Array]:
        """The operator at the robust weights, at least `floor`, and the map as its point."""
        problem = QuadraticProblem(self.graph)
        weights = problem.weights(
            {name: floored(values, floor) for name, values in self.weights.items()})
        return SchurOperator(problem, weights), problem.pack(self.estimate)


NOTHING = 'no bound on better maps is known yet'
_POLISH_STEPS = 2
"""Most Newton steps that take the map to the optimum of its robust weights before it is tested:
reweighting stops that near."""


@dataclass(frozen=True)
class Bound:
    """Costs have no factor 1/2; all are those of the quadratic problem at the robust weights
    that the map had at its audit, so a map with other weights is not in it."""

    sequence: int
    """Newest increment of the map."""
    newest_stamp_ns: int
    """Of the data of the map."""
    cost: float
    lower: float
    certified: bool
    """Whether the map is proved to be the best one."""

    @property
    def suboptimality(self) -> float:
        """What the best possible map may gain, at most."""
        return max(self.cost - self.lower, 0.0)

    @property
    def words(self) -> str:
        """For an operator."""
        if self.certified:
            return (f'the map audited last is the best possible one at its robust weights (cost '
                    f'{self.cost:.6g})')
        share = f' ({100 * self.suboptimality / self.cost:.2g} %)' if self.cost > 0 else ''
        return (f'no map costs less than {self.lower:.5g} at the robust weights of the one audited '
                f'last, which costs {self.cost:.5g}: the best possible is at most '
                f'{self.suboptimality:.3g}{share} better')


def bound_of(
    solved: SolvedMap, weight_floor: float, limit_s: float = 0.0, observer: Observer | None = None
) -> Bound | None:
    """The certificate of a map at its robust weights, else of the relaxation below it; None where
    nothing is proved.

    The climb of the staircase ends after `limit_s` of wall time (0 = no limit) with what is proved
    by then; `observer` is called at each of its steps.
    """
    graph = solved.graph
    if graph.n_poses == 0 or graph.n_measurements == 0 or graph.free_scale or len(graph.heights):
        return None
    deadline = time.perf_counter() + limit_s if limit_s > 0 else math.inf
    with single_threaded_blas():
        schur, y = solved.weighted(weight_floor)
        cost = float(np.sum(y * schur(y)))
        certifier = Certifier(schur)
        polished = minimise(
            schur, schur.problem.manifold, y, NewtonPreconditioner(schur),
            StoppingRule(max_iterations=_POLISH_STEPS, cost_tolerance=0.0, deadline=deadline))
        top = climb(
            certifier, polished.y, Goal(polished.cost, deadline=deadline),
            max_rank=HIGHEST_RANK,
            tested=(polished, certifier.test(polished.y)), observer=observer)
    certified = cost - top.lower_bound <= certifier.tolerance(cost)
    if not certified and top.lower_bound <= 0:
        # Costs are never below zero.
        return None
    return Bound(
        solved.sequence, solved.newest_stamp_ns, cost, max(top.lower_bound, 0.0), certified)


CLOCK = 'range_stamps_late'
"""Of findings whose value is to be taken off the stamps of a robot's or beacon's ranges, s."""
EITHER = 'antenna_or_clock'
"""Of findings of a robot whose antenna, or stamps, are off."""
_BIAS_SIGMAS = 3.0


def biases_of(calibration: SelfCalibration) -> dict[str, float]:
    """What a calibration takes off the ranges of radios, m; empty where it changes nothing."""
    if not calibration.applied:
        return {}
    return {name: bias for name, bias in zip(
        calibration.ends.names, calibration.parameters.bias_m.tolist(), strict=True) if bias}


def bias_findings(calibration: SelfCalibration, applied: bool) -> tuple[Finding, ...]:
    """Radios whose bias is determined, significant and large enough, largest first."""
    if not calibration.applied:
        return ()
    bias = dict(zip(calibration.ends.names, calibration.parameters.bias_m.tolist(), strict=True))
    rows = [row for row in radio_rows(calibration)
            if row.determined and abs(bias[row.name]) > _BIAS_SIGMAS * row.bias_sigma_m]
    return tuple(
        Finding(BIAS, row.name,
                f'ranges of {row.name} are {abs(bias[row.name]):.2f} m too '
                f'{"long" if bias[row.name] > 0 else "short"} (sigma {row.bias_sigma_m:.2f} m): '
                + ('that is taken off' if applied else 'the bias_m of its radio is off by that'),
                bias[row.name], 'm')
        for row in sorted(rows, key=lambda row: -abs(bias[row.name])))


def antennas_of(
    findings: tuple[Finding, ...], dimension: int
) -> dict[str, tuple[float, ...]]:
    """By how much antennas of robots stand elsewhere than configured, (d,) metres."""
    antennas: dict[str, list[float]] = {}
    for finding in findings:
        if finding.kind in ANTENNA_AXES:
            axis = ANTENNA_AXES.index(finding.kind)
            antennas.setdefault(finding.subject, [0.0] * dimension)[axis] = finding.value
    return {robot: tuple(error) for robot, error in antennas.items()}


def significance(options: CalibrationConfig, graph: Graph) -> float:
    """Standard deviations of antennas and clocks that count.

    Of so many tests, one exceeds that by chance with the probability `false_alarm`.
    """
    tests = graph.dimension * len(graph.robots) + len(graph.robots) + graph.n_landmarks
    return float(-ndtri(options.false_alarm / (2 * tests)))


def place_findings(
    told: AntennasAndClocks, sigmas: float, floor_m: float, applied: bool
) -> tuple[Finding, ...]:
    """Antennas that stand elsewhere than configured, an axis each, and stamps that are late.

    What is off by `sigmas` standard deviations and moves ranges by more than `floor_m`. `applied`:
    whether the running node moves these antennas itself, which it does not where another cause is
    likelier.
    """
    antennas = [
        Finding(EITHER, row.robot,
                f'ranges of {row.robot} are as if {antenna_moved(row.robot, axis, error)} (sigma '
                f'{sigma:.2f} m): {doubted}') if (doubted := doubt(row.error_m)) else
        Finding(ANTENNA_AXES[axis], row.robot,
                f'{antenna_moved(row.robot, axis, error)} (sigma {sigma:.2f} m)'
                + (': that is allowed for' if applied else ''), error, 'm')
        for row in told.antennas if row.determined
        for axis, (error, sigma) in enumerate(zip(row.error_m, row.sigma_m, strict=True))
        if abs(error) > max(sigmas * sigma, floor_m)]
    clocks = [
        Finding(CLOCK, row.source,
                f'stamps of ranges of {row.source} are {lateness(row.late_s)} '
                f'(sigma {row.sigma_s:.2f} s): {"lower" if row.late_s > 0 else "raise"} its '
                'ranges.time_offsets by that', row.late_s, 's')
        for row in told.clocks
        if row.significant(sigmas) and abs(row.late_s) * row.rate_m_s > floor_m]
    either = [
        Finding(EITHER, row.robot,
                either_words(row.robot, row.late_s, row.axis, row.error_m))
        for row in told.either(sigmas) if abs(row.error_m) > floor_m]
    return (*antennas, *clocks, *either)


_GROWTH = 1.5
"""Ranges of a calibration over those of the one before: the work then adds up to a constant share
of what solves of the whole graph cost."""


class LiveCalibration:
    """Calibrates the map of the last audit again and again."""

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()
        """Of the last calibration that has ended."""
        self.errors = RadioErrors()
        """What it would take off the ranges of radios."""
        self._steps: Iterator[None] | None = None
        self._ranges = 0

    def step(self, solved: SolvedMap | None, config: SparserConfig) -> bool:
        """One solve; False where there was nothing to do."""
        if not config.calibration.live:
            self.findings, self.errors, self._steps, self._ranges = (), RadioErrors(), None, 0
            return False
        if self._steps is None:
            ranges = 0 if solved is None else len(solved.graph.ranges)
            # A graph that was thinned has fewer.
            self._ranges = min(self._ranges, ranges)
            if solved is None or ranges < max(1.0, _GROWTH * self._ranges):
                return False
            self._ranges = ranges
            self._steps = self._calibration(solved, config)
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except FAILURES as error:
            self._steps = None
            self.findings = (Finding(
                'monitor_failed', 'radios', 'the radios could not be calibrated: '
                f'{type(error).__name__}: {error}'),)
        return True

    def _calibration(self, solved: SolvedMap, config: SparserConfig) -> Iterator[None]:
        """One calibration, solve by solve, with the options that hold when it begins."""
        from ..calibrate.antennas_and_clocks import calibration_with_places

        # A bias is one number per radio that people can set; a scale would change all of them.
        options = replace(config.calibration, scale_sigma=0.0)
        measured = solved.radio_errors.put_back(solved.graph)
        sigmas = significance(options, measured)
        end: tuple[SelfCalibration, AntennasAndClocks] | None = None
        for end in calibration_with_places(
                measured, solved.estimate, options, config.solver, sigmas):
            if end is None:
                yield
        assert end is not None
        calibration, told = end
        applied = options.mode == 'apply'
        places = () if calibration.doubted else place_findings(
            told, sigmas, options.bias_floor_m, applied)
        self.findings = (*bias_findings(calibration, applied), *places)
        self.errors = RadioErrors(biases_of(calibration), antennas_of(places, measured.dimension))
