"""How good a trajectory is: its own certificate, else the certified relaxation below it.

The Riemannian staircase: where the certificate fails, more columns and down the escape.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from ..array_types import Array
from .certificate import (
    ESCAPE_DIRECTIONS,
    FAR,
    ROUND_GAIN_SHARE,
    SADDLE_GAP,
    Certificate,
    Certifier,
    Multipliers,
    ascended_gap,
)
from .manifold import Manifold, reduce_rank
from .newton_descent import SHIFT_GROWTH, NewtonDescent
from .plan import Plan
from .result import SolveStatus
from .schur import SchurOperator
from .stages import SolveContext, round_and_refine
from .trajectory import LiftedPoint, Trajectory, prolonged
from .trust_region import Observer, TrustRegionRun

HIGHEST_RANK = 12
"""Where the Riemannian staircase ends."""
FIRST_GAIN = 1e-4
"""Gain over the cost that ends the first run at a rank, if two Newton steps in a row gain less."""
RANKS = 5, 6, 7, 9, 12
"""Ranks that a climb stops at: kernels are compiled for each."""
MOST_STEPS = 60
"""Newton steps of the first run at a rank."""
BOUND_GAP = 1e-4
"""Share of the cost within which the bound of a relaxation ends the climb, where the trajectory
above is further away."""
BOUND_SHARE = 0.1
"""Gap of that bound, over the distance to the trajectory: a sharper one would tell no more."""


@dataclass(frozen=True)
class Assessment:
    """A trajectory with a bound on what a better one could gain; costs are the weighted ones."""

    run: TrustRegionRun
    relaxed: TrustRegionRun | None
    suboptimality: float
    certified: bool
    lambda_min: float | None


def assess(context: SolveContext, plan: Plan, trajectory: Trajectory) -> Assessment:
    """Test a trajectory; where it fails, climb the staircase and round what lies below it.

    A run that costs more than a relaxation known already, its own or that of the thinned graph it
    came from, is not tested: it cannot be certified. From an estimate that was given nothing is
    climbed: the bound is what the failed test still proves. Costs are never below zero. Nothing is
    begun after the deadline.
    """
    def late() -> bool:
        return time.perf_counter() > context.deadlines.end

    certifier = Certifier(context.schur)
    refined, relaxed, thinned = trajectory.refined, trajectory.relaxed, trajectory.thinned
    climbs = trajectory.init != 'initial'
    by_thinned = plan.coarsening > 1 and relaxed is None
    tolerance = certifier.tolerance(refined.cost)
    loose = by_thinned and thinned is not None and thinned.gain > tolerance
    below = relaxed is not None and refined.cost - relaxed.cost > tolerance
    certificate: Certificate | None = None
    if not late() and (not climbs or not (loose or below)):
        certificate = certifier.test(refined.y, directions=not (climbs and by_thinned))
    lower = -math.inf if certificate is None else certificate.lower_bound
    if climbs and not late() and (certificate is None or not certificate.certified):
        top = _climb(
            context, plan, trajectory, certifier, certificate if relaxed is None else None)
        relaxed, lower = top.run, max(lower, top.lower_bound)
        if not late():
            other = round_and_refine(context, plan, top.run)
            if other.cost < refined.cost:
                refined = other
    gap = max(refined.cost - max(lower, 0.0), 0.0)
    return Assessment(
        refined, relaxed, gap, gap <= certifier.tolerance(refined.cost),
        None if certificate is None else certificate.lambda_min)


def _climb(
    context: SolveContext, plan: Plan, trajectory: Trajectory, certifier: Certifier,
    certificate: Certificate | None,
) -> Climb:
    """The staircase from the relaxation, from that of the thinned graph, or from the trajectory.

    `certificate` is that of the trajectory, where it begins there.
    """
    run = trajectory.relaxed or trajectory.refined
    tested = None
    if certificate is not None and certificate.directions is not None:
        tested = (run, certificate)
    y, rough = run.y, False
    if trajectory.thinned is not None:
        y, rough, tested = relaxed_above(context, plan, trajectory.thinned), True, None
    top = climb(
        certifier, y, Goal(trajectory.refined.cost, deadline=context.deadlines.end),
        max_rank=max(HIGHEST_RANK, y.shape[1]), tested=tested,
        observer=context.observer('certify'), rough=rough)
    context.tally.add(top.iterations, 0, Counter())
    return top


@dataclass(frozen=True)
class Climb:
    """The last point of a staircase and what the certificates on the way say."""

    run: TrustRegionRun
    certificate: Certificate
    """Of that point."""
    lower_bound: float
    """Greatest bound of all points passed: no point of any rank costs less."""
    iterations: int


@dataclass(frozen=True)
class Goal:
    """When a climb may end before its point is certified."""

    above: float = -math.inf
    """Cost of a trajectory that is to be bounded: where that is far above, a bound within
    `BOUND_GAP` will do."""
    deadline: float = math.inf
    """time.perf_counter() value; the best point so far is the end."""

    def wanted(self, cost: float) -> float:
        """A gap of a point of that cost that will do."""
        return max(min(BOUND_GAP * abs(cost), BOUND_SHARE * (self.above - cost)), 0.0)


def climb(
    certifier: Certifier,
    y: Array,
    goal: Goal,
    *,
    max_rank: int,
    tested: tuple[TrustRegionRun, Certificate] | None = None,
    observer: Observer | None = None,
    rough: bool = False,
) -> Climb:
    """Polish y (rows, p) and raise its rank until it is certified, or max_rank is reached.

    `tested` is the run that ended at y, where a certificate says already that y is to be left.
    `rough` says of y that it was prolonged from another graph.
    """
    stairs = _Staircase(certifier, goal, observer)
    run, certificate = tested or stairs.polish(y, None, rough=rough)
    for _ in range(8):
        stairs.lower = max(stairs.lower, certificate.lower_bound)
        if stairs.enough(certificate) or stairs.late(run) or certificate.directions is None:
            break
        higher = raised(certifier.schur, run.y, certificate.directions, max_rank)
        if higher is None:
            break
        run, certificate = stairs.polish(higher, certificate)
    return Climb(run, certificate, stairs.lower, stairs.newton.iterations)


class _Staircase:
    """What the ranks of one climb share."""

    def __init__(self, certifier: Certifier, goal: Goal, observer: Observer | None) -> None:
        self.goal, self.certifier = goal, certifier
        self.newton = NewtonDescent(certifier.schur, observer)
        self.lower = -math.inf

    def late(self, run: TrustRegionRun) -> bool:
        """Whether the deadline has passed."""
        return (time.perf_counter() > self.goal.deadline
                or run.status is SolveStatus.TIME_LIMIT)

    def enough(self, certificate: Certificate) -> bool:
        """Whether the bound found so far is as good as it needs to be."""
        gap = certificate.cost - self.lower
        return certificate.certified or gap <= self.goal.wanted(certificate.cost)

    def polish(
        self, y: Array, before: Certificate | None, *, rough: bool = False
    ) -> tuple[TrustRegionRun, Certificate]:
        """Runs at the rank of y until the point is certified, a saddle, or as good as it gets.

        `before` is the certificate of the point that was left for y.
        """
        deadline = self.goal.deadline
        if before is not None and before.lambda_min is not None:
            # The Hessian there is as negative as S.
            # Just above that a step along the new columns would be too long.
            margin = 1 if self.newton.multipliers is None else SHIFT_GROWTH
            self.newton.restart(-margin * before.lambda_min)
        gain = FIRST_GAIN
        if before is not None:
            gain *= ROUND_GAIN_SHARE
        run = self.newton.run(
            y, gain=gain, most=MOST_STEPS, deadline=deadline, rough=rough)
        certificate = self._tested(run.y)
        for _ in range(6):
            if (self._saddle(certificate) or self.enough(certificate) or self.late(run)
                    or self._far(certificate)):
                break
            # A certificate takes as long as two steps.
            further = self.newton.run(run.y, gain=0.0, most=4, deadline=deadline)
            gained = run.cost - further.cost
            if not gained > 0:
                break
            run, certificate = further, self._tested(further.y)
            if gained < ROUND_GAIN_SHARE * self._wanted(run.cost, certificate):
                break
        return run, certificate

    def _saddle(self, certificate: Certificate) -> bool:
        return certificate.gap > SADDLE_GAP * abs(certificate.cost)

    def _far(self, certificate: Certificate) -> bool:
        """Whether the point has directions of escape that better multipliers do not make up for."""
        lambda_min = certificate.lambda_min
        return (lambda_min is not None and lambda_min < 0 and certificate.gap
                > FAR * self._wanted(certificate.cost, certificate))

    def _wanted(self, cost: float, certificate: Certificate) -> float:
        """A gap that will do, less what rounding of the difference of two costs may add."""
        return max(0.99 * self.goal.wanted(cost), certificate.tolerance)

    def _tested(self, y: Array) -> Certificate:
        """The certificate of y with the best of its own multipliers and those of Newton's model."""
        certifier, multipliers = self.certifier, self.newton.multipliers
        if multipliers is None or y.shape[1] == certifier.manifold.d:
            certificate = certifier.test(y, directions=multipliers is None)
        else:
            cost = float(np.sum(y * certifier.schur(y)))
            certificate = Certificate(cost, math.inf, certifier.tolerance(cost))
        wanted = self._wanted(certificate.cost, certificate)
        if multipliers is not None and not certificate.certified and certificate.gap > wanted:
            certificate = self._by_model(y, certificate, multipliers, wanted)
        self.lower = max(self.lower, certificate.lower_bound)
        return certificate

    def _by_model(
        self, y: Array, certificate: Certificate, multipliers: Multipliers, wanted: float
    ) -> Certificate:
        """What the multipliers of the last Newton equation prove, and better ones near them."""
        certifier = self.certifier
        S, spent = certifier.less(multipliers), certificate.cost - multipliers.trace
        sharp = certifier.sharpest_gap(S, spent, wanted, certificate.tolerance)
        if sharp <= wanted:
            return replace(certificate, gap=sharp)
        # A shift of `wanted` has failed already.
        values, vectors = spectrum = certifier.least(S, 10 * wanted / certifier.rows)
        gap = min(certificate.gap, certifier.proven_gap(S, spent, float(values[0])))
        down = certifier.escapes(y, values, vectors, certificate.tolerance)
        tested = replace(
            certificate, gap=gap, directions=down[:, : ESCAPE_DIRECTIONS], spectrum=spectrum)
        if wanted < gap and not self._saddle(tested):
            gap = ascended_gap(certifier, tested, multipliers, wanted)
        return replace(tested, gap=max(gap, 1.000001 * certificate.tolerance))


def raised(
    schur: SchurOperator, y: Array, directions: Array, max_rank: int
) -> Array | None:
    """A point of lower cost at the next of `staircase_ranks`, down `directions` (rows, q).

    Columns of y that carry nothing are filled first. None at `max_rank`, or where no step lowers
    the cost beyond rounding.
    """
    manifold, p = schur.problem.manifold, y.shape[1]
    filled = needed_rank(manifold, y)
    rank = p if filled < p else next_rank(p, max_rank)
    if rank <= filled:
        return None
    low = reduce_rank(manifold, y, filled)
    higher = escape(schur, manifold, low, directions[:, : rank - filled])
    return None if higher is None else manifold.lift(higher, rank)


def next_rank(p: int, max_rank: int) -> int:
    """The next of the ranks that kernels are compiled for; p itself from max_rank on."""
    above = [rank for rank in RANKS if rank > p]
    return max(min([*above, max_rank]), p)


def needed_rank(manifold: Manifold, y: Array) -> int:
    """Columns of y (rows, p) in its principal frame that carry something, at least d."""
    d = manifold.d
    own = y[:, d:] if manifold.homogenised else y
    size = np.sqrt(np.maximum(np.linalg.eigvalsh(own.T @ own), 0.0))
    # A column that is taken too early comes back as a direction of escape.
    least = 0.03 * np.sqrt(len(y))
    carrying = int(np.sum(size > least)) + (d if manifold.homogenised else 0)
    return max(carrying, d)


def escape(
    schur: SchurOperator, manifold: Manifold, y: Array, directions: Array
) -> Array | None:
    """A point of lower cost and q ranks more: steps along `directions` (rows, q) in new columns.

    With S v = lambda v, lambda < 0, the cost changes by lambda t^2 to second order. One column per
    negative direction, not just one, saves the critical points of the ranks between. None where no
    step lowers the cost beyond rounding.
    """
    p, q = y.shape[1], directions.shape[1]
    lifted = manifold.lift(y, p + q)
    step = np.zeros_like(lifted)
    step[:, p:] = directions / np.abs(directions).max(axis=0, initial=1e-300)
    start = schur(lifted)
    cost = float(np.sum(lifted * start))
    length, best, lowest = 1.0, None, -1e-13 * abs(cost)
    # From a unit row down to its rounding error.
    for _ in range(40):
        candidate = manifold.retract(lifted, length * step)
        change = float(np.sum((candidate - lifted) * (start + schur(candidate))))
        if change < lowest:
            best, lowest = candidate, change
        elif best is not None:
            break
        length *= 0.5
    return best


# -- on a thinned graph


def relaxed_above(context: SolveContext, plan: Plan, known: LiftedPoint) -> Array:
    """A point of the relaxation below the trajectory, reached on the thinned graph from `known`.

    What the relaxation needs is learnt there, at the next rank to the end: on the whole graph a
    step costs ten times as much, and those along soft motions are many. Directions that lead
    nowhere leave their columns empty.
    """
    with context.thinned(plan.coarsening, offset_noise=True) as (coarse, inner):
        manifold, end = inner.problem.manifold, inner.deadlines.end
        newton = NewtonDescent(inner.schur, inner.observer('certify'))
        run = newton.run(
            inner.problem.compose(known.rows, known.points), gain=FIRST_GAIN, most=MOST_STEPS,
            deadline=end, rough=True)
        rank = next_rank(run.y.shape[1], HIGHEST_RANK)
        y = newton.opened(run.y, rank) if rank > run.y.shape[1] else run.y
        y = newton.run(y, gain=2e-5, most=MOST_STEPS, deadline=end).y
        inner.tally.add(newton.iterations, 0, Counter())
        rank = next_rank(needed_rank(manifold, y) - 1, HIGHEST_RANK)
        return prolonged(context, inner, coarse, reduce_rank(manifold, y, rank))
