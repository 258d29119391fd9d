"""The Riemannian staircase: where the certificate fails, more columns and down the escape."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Array
from .. import thresholds
from ..manifold.manifold import Manifold
from ..model.schur import SchurOperator
from ..optimize.compute_backend import ComputeBackend
from ..optimize.interfaces import Observer, Preconditioner, StoppingRule
from ..optimize.truncated_cg import CGStop
from ..optimize.trust_region import TrustRegionRun
from ..result import SolveStatus
from .certificate import Certificate, Certifier


@dataclass(frozen=True)
class PolishingRound:
    """One run of the trust region between two certificates."""

    cost_tolerance: float
    saddle_gap: float
    """Share of the cost above which a gap after this round means a saddle to leave; a smaller one
    may be lack of polish."""
    single_step: bool = False


def polishing_rounds() -> list[PolishingRound]:
    """The runs at each rank: rough ones, then single steps."""
    numbers = thresholds.current()
    rough = zip(numbers.staircase_tolerances, numbers.staircase_saddle_gaps, strict=True)
    step = PolishingRound(0.0, math.inf, single_step=True)
    return [*(PolishingRound(*one) for one in rough), *numbers.staircase_single_steps * [step]]


@dataclass(frozen=True)
class Climb:
    """The last point of a staircase and what its certificate says."""

    run: TrustRegionRun
    certificate: Certificate
    iterations: int
    cg_steps: int
    cg_stops: Counter[CGStop]


def climb(
    schur: SchurOperator,
    y: Array,
    preconditioner: Preconditioner,
    rule: StoppingRule,
    *,
    max_rank: int,
    certifier: Certifier | None = None,
    observer: Observer | None = None,
    backend: ComputeBackend | None = None,
) -> Climb:
    """Polish y (rows, p) and raise its rank until it is certified, or max_rank is reached.

    A deadline in `rule` ends the climb with the best point so far and its certificate.
    """
    most = min(rule.max_cg_steps, thresholds.current().staircase_cg_steps)
    stairs = _Staircase(
        schur, preconditioner, replace(rule, max_cg_steps=most),
        certifier or Certifier(schur), observer, backend or ComputeBackend())
    while True:
        run, certificate = stairs.polish(y)
        rank = run.y.shape[1]
        if (
            certificate.certified or stairs.late(run) or certificate.directions is None
            or rank >= max_rank
        ):
            return stairs.top(run, certificate)
        steps = certificate.directions[:, : max_rank - rank]
        higher = escape(schur, schur.problem.manifold, run.y, steps)
        if higher is None:
            return stairs.top(run, certificate)
        y = higher


class _Staircase:
    """What the ranks of one climb share, and figures that add up."""

    def __init__(
        self, schur: SchurOperator, preconditioner: Preconditioner, rule: StoppingRule,
        certifier: Certifier, observer: Observer | None, backend: ComputeBackend,
    ) -> None:
        self.schur, self.preconditioner, self.rule = schur, preconditioner, rule
        self.certifier, self.observer, self.backend = certifier, observer, backend
        self.iterations = self.cg_steps = 0
        self.cg_stops: Counter[CGStop] = Counter()

    def late(self, run: TrustRegionRun) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() > self.rule.deadline or run.status is SolveStatus.TIME_LIMIT

    def polish(self, y: Array) -> tuple[TrustRegionRun, Certificate]:
        """Runs at the rank of y until the point is certified, a saddle, or as good as it gets."""
        radius = math.inf
        for one in polishing_rounds():
            run = self._minimise(y, one, radius)
            y, radius = run.y, run.radius
            certificate = self.certifier.test(y)
            saddle = certificate.gap > one.saddle_gap * abs(run.cost)
            settled = one.single_step and run.status is not SolveStatus.MAX_ITERATIONS
            if certificate.certified or saddle or self.late(run) or settled:
                break
        return run, certificate

    def _minimise(self, y: Array, one: PolishingRound, radius: float) -> TrustRegionRun:
        rule = replace(self.rule, cost_tolerance=one.cost_tolerance)
        if one.single_step:
            rule = replace(rule, max_accepted=1)
        run = self.backend.minimise(
            self.schur, self.schur.problem.manifold, y, self.preconditioner, rule, self.observer,
            radius, long=True)
        self.iterations += run.iterations
        self.cg_steps += run.cg_steps
        self.cg_stops += run.cg_stops
        return run

    def top(self, run: TrustRegionRun, certificate: Certificate) -> Climb:
        """The end of the climb."""
        return Climb(run, certificate, self.iterations, self.cg_steps, self.cg_stops)


def escape(
    schur: SchurOperator, manifold: Manifold, y: Array, directions: Array
) -> Array | None:
    """A point of lower cost and q ranks more: steps along `directions` (rows, q) in new columns.

    With S v = lambda v, lambda < 0, the cost changes by lambda t^2 to second order. One column per
    negative direction, not just one, saves the critical points of the ranks between (tiers: 28 s
    instead of 70 s). None where no step lowers the cost beyond rounding.
    """
    p, q = y.shape[1], directions.shape[1]
    lifted = manifold.lift(y, p + q)
    step = np.zeros_like(lifted)
    step[:, p:] = directions / np.abs(directions).max(axis=0, initial=1e-300)
    start = schur(lifted)
    cost = float(np.sum(lifted * start))
    numbers = thresholds.current()
    length, best, lowest = 1.0, None, -numbers.escape_noise * abs(cost)
    for _ in range(numbers.escape_halvings):
        candidate = manifold.retract(lifted, length * step)
        change = float(np.sum((candidate - lifted) * (start + schur(candidate))))
        if change < lowest:
            best, lowest = candidate, change
        elif best is not None:
            break
        length *= 0.5
    return best
