"""The Riemannian staircase: where the certificate fails, more columns and down the escape."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Array
from ...linalg.arrays import HOST, Arrays
from ...linalg.sparse.cholesky import CholeskyFactor
from .. import thresholds
from ..manifold.manifold import Manifold
from ..model.schur import SchurOperator
from ..optimize.compute_backend import ComputeBackend
from ..optimize.interfaces import Observer, Preconditioner, StoppingRule
from ..optimize.truncated_cg import CGStop
from ..optimize.trust_region import TrustRegionRun
from ..result import SolveStatus
from .certificate import Certificate, Certifier
from .dual_ascent import sharpened


@dataclass(frozen=True)
class Climb:
    """The last point of a staircase and what the certificates on the way say."""

    run: TrustRegionRun
    certificate: Certificate
    """Of that point."""
    lower_bound: float
    """Greatest bound of all points passed: no point of any rank costs less."""
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
    above: float = -math.inf,
    tested: tuple[TrustRegionRun, Certificate] | None = None,
    certifier: Certifier | None = None,
    observer: Observer | None = None,
    backend: ComputeBackend | None = None,
) -> Climb:
    """Polish y (rows, p) and raise its rank until it is certified, or max_rank is reached.

    `above` is the cost of a trajectory that is to be bounded: where that is far above, a bound
    within `bound_gap` (certify_numbers.py) will do. `tested` is the run that ended at y, where a
    certificate says already that y is to be left. A deadline in `rule` ends the climb with the
    best point so far.
    """
    stairs = _Staircase(
        schur, preconditioner, rule, above, certifier or Certifier(schur), observer,
        backend or ComputeBackend())
    certificate: Certificate | None = None
    while True:
        run, certificate = tested or stairs.polish(y, certificate, last=y.shape[1] >= max_rank)
        tested, stairs.lower = None, max(stairs.lower, certificate.lower_bound)
        rank = run.y.shape[1]
        if (
            stairs.enough(certificate) or stairs.late(run) or certificate.directions is None
            or rank >= max_rank
        ):
            return stairs.top(run, certificate)
        steps = certificate.directions[:, : max_rank - rank]
        higher = escape(schur, schur.problem.manifold, run.y, steps)
        if higher is None:
            return stairs.top(run, certificate)
        y = higher


class ShiftedS:
    """(S + shift)^-1 restricted to X_c: second-order information that no rank enters.

    The Hessian is S on tangent vectors, column by column. Near an optimum S is positive
    semidefinite but for little, and with a shift just above that CG resolves everything stiffer
    than the shift at once. Rounds of steps and certificates lower the shift, as in inverse
    iteration.
    """

    portable = False
    """Factorised anew for every round."""

    def __init__(self, certifier: Certifier, factor: CholeskyFactor) -> None:
        self._factor, self._rows = factor, certifier.rows
        manifold = certifier.manifold
        self._free = self._rows - (manifold.d if manifold.homogenised else 0)

    def placed(self, arrays: Arrays) -> bool:
        return arrays is HOST

    def apply(self, v: Array, out: Array) -> Array:
        padded = np.zeros((self._factor.n, v.shape[1]))
        padded[: self._free] = v[: self._free]
        out[: self._free] = self._factor.solve(padded)[: self._free]
        out[self._free :] = 0.0
        return out

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """It is made for one point and serves for those nearby."""


class _Staircase:
    """What the ranks of one climb share, and figures that add up."""

    def __init__(
        self, schur: SchurOperator, preconditioner: Preconditioner, rule: StoppingRule,
        above: float, certifier: Certifier, observer: Observer | None, backend: ComputeBackend,
    ) -> None:
        self.schur, self.preconditioner, self.rule = schur, preconditioner, rule
        self.above, self.certifier = above, certifier
        self.observer, self.backend = observer, backend
        self.lower = -math.inf
        self.iterations = self.cg_steps = 0
        self.cg_stops: Counter[CGStop] = Counter()

    def late(self, run: TrustRegionRun) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() > self.rule.deadline or run.status is SolveStatus.TIME_LIMIT

    def enough(self, certificate: Certificate) -> bool:
        """Whether the bound found so far is as good as it needs to be."""
        gap = certificate.cost - self.lower
        return certificate.certified or gap <= self._wanted(certificate.cost)

    def _wanted(self, cost: float) -> float:
        """A gap of a point of that cost that will do."""
        numbers = thresholds.current()
        return min(
            numbers.bound_gap * abs(cost), numbers.bound_share * (self.above - cost))

    def polish(
        self, y: Array, before: Certificate | None, last: bool
    ) -> tuple[TrustRegionRun, Certificate]:
        """Runs at the rank of y until the point is certified, a saddle, or as good as it gets.

        `before` is the certificate at which the last rank was left, `last` the highest rank.
        """
        numbers = thresholds.current()
        run = None if before is None or self._saddle(before) else self._polished(y, before)
        if run is None:
            run = self._minimise(y, self.preconditioner, replace(
                self.rule, cost_tolerance=numbers.staircase_tolerance,
                max_cg_steps=min(self.rule.max_cg_steps, numbers.staircase_cg_steps)))
        certificate = self._tested(run.y)
        for _ in range(numbers.staircase_last_rounds if last else numbers.staircase_rounds):
            if self._saddle(certificate) or self.enough(certificate) or self.late(run):
                break
            further = self._polished(run.y, certificate)
            if further is None:
                break
            run, certificate = further, self._tested(further.y)
            if run.status is not SolveStatus.MAX_ITERATIONS:
                break
        return run, certificate

    def _saddle(self, certificate: Certificate) -> bool:
        return certificate.gap > thresholds.current().staircase_saddle_gap * abs(certificate.cost)

    def _polished(self, y: Array, known: Certificate) -> TrustRegionRun | None:
        """One round from y; None where no factor of S can be made."""
        if known.lambda_min is None:
            return None
        numbers = thresholds.current()
        S = self.certifier.matrix(y, self.schur(y))
        factor = self.certifier.factor(S, numbers.round_shift * abs(known.lambda_min))
        if factor is None:
            return None
        return self._minimise(y, ShiftedS(self.certifier, factor), replace(
            self.rule, cost_tolerance=0.0, max_accepted=numbers.round_steps,
            max_cg_steps=min(self.rule.max_cg_steps, numbers.round_cg_steps)))

    def _tested(self, y: Array) -> Certificate:
        certificate = self.certifier.test(y)
        # Less by what rounding of the difference of two costs may add.
        wanted = max(0.99 * self._wanted(certificate.cost), certificate.tolerance)
        if not certificate.certified and not self._saddle(certificate):
            certificate = sharpened(self.certifier, y, certificate, wanted)
        self.lower = max(self.lower, certificate.lower_bound)
        return certificate

    def _minimise(
        self, y: Array, preconditioner: Preconditioner, rule: StoppingRule
    ) -> TrustRegionRun:
        run = self.backend.minimise(
            self.schur, self.schur.problem.manifold, y, preconditioner, rule, self.observer,
            math.inf, long=True)
        self.iterations += run.iterations
        self.cg_steps += run.cg_steps
        self.cg_stops += run.cg_stops
        return run

    def top(self, run: TrustRegionRun, certificate: Certificate) -> Climb:
        """The end of the climb."""
        return Climb(
            run, certificate, self.lower, self.iterations, self.cg_steps, self.cg_stops)


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
