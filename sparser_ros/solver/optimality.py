"""How good a trajectory is: its own certificate, else the certified relaxation below it."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass

from ..array_types import Array
from ..graph import Estimate
from . import thresholds
from .certificate import Certificate, Certifier
from .context import SolveContext
from .manifold import reduce_rank
from .newton_descent import NewtonDescent
from .plan import Plan
from .result import SolveStatus
from .stages import round_and_refine
from .staircase import Climb, Goal, climb, needed_rank, next_rank
from .thinning import CoarseGraph, coarsen
from .trajectory import LiftedPoint, Trajectory, prolonged
from .trust_region import TrustRegionRun


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
    climbed: the bound is what the failed test still proves. Costs are never below zero.
    """
    begin = time.perf_counter()
    certifier = Certifier(context.schur)
    refined, relaxed, thinned = trajectory.refined, trajectory.relaxed, trajectory.thinned
    climbs = trajectory.init != 'initial'
    by_thinned = plan.coarsening > 1 and relaxed is None
    tolerance = certifier.tolerance(refined.cost)
    loose = by_thinned and thinned is not None and thinned.gain > tolerance
    below = relaxed is not None and refined.cost - relaxed.cost > tolerance
    certificate: Certificate | None = None
    if not climbs or not (loose or below):
        certificate = certifier.test(refined.y, directions=not (climbs and by_thinned))
    lower = -math.inf if certificate is None else certificate.lower_bound
    if climbs and (certificate is None or not certificate.certified):
        top = _climb(
            context, plan, trajectory, certifier, certificate if relaxed is None else None)
        relaxed, lower = top.run, max(lower, top.lower_bound)
        other = round_and_refine(context, plan, top.run)
        if other.cost < refined.cost:
            refined = other
    gap = max(refined.cost - max(lower, 0.0), 0.0)
    context.tally.clock('certify', begin)
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
    if plan.coarsening > 1 and trajectory.relaxed is None:
        higher = relaxed_above(context, plan, run.y, trajectory.thinned)
        if higher is not None:
            y, rough, tested = higher, True, None
    top = climb(
        context.schur, y, Goal(trajectory.refined.cost, deadline=context.deadlines.end),
        max_rank=max(thresholds.current().staircase_highest_rank, y.shape[1]), tested=tested,
        certifier=certifier, observer=context.observer('certify'), rough=rough)
    context.tally.add(top.iterations, 0, Counter())
    return top


def relaxed_above(
    context: SolveContext, plan: Plan, y: Array, known: LiftedPoint | None = None
) -> Array | None:
    """A point of the relaxation below the trajectory y (rows, d), reached on a thinned graph.

    It begins at the point `known` there, else at the trajectory: where that is no minimum of the
    relaxation, the way down is long, but steps cost a tenth there. None where the thinned
    trajectory is as good as its relaxation.
    """
    begin = time.perf_counter()
    coarse = coarsen(context.graph, plan.coarsening, offset_noise=True)
    inner = context.thinned(coarse.graph)
    run = (_from_trajectory(context, inner, coarse, y) if known is None
           else _opened(inner, inner.problem.compose(known.rows, known.points)))
    if run is None:
        return None
    manifold = inner.problem.manifold
    highest = thresholds.current().staircase_highest_rank
    rank = next_rank(needed_rank(manifold, run.y) - 1, highest)
    higher = prolonged(context, inner, coarse, reduce_rank(manifold, run.y, rank))
    context.absorb(inner, begin)
    return higher


def _opened(inner: SolveContext, y: Array) -> TrustRegionRun:
    """Down from a point of the thinned relaxation, at the next rank to the end.

    What that needs is learnt here: on the whole graph a step costs ten times as much, and those
    along soft motions are many. Directions that lead nowhere leave their columns empty.
    """
    numbers, end = thresholds.current(), inner.deadlines.end
    newton = NewtonDescent(inner.schur, inner.observer('certify'))
    run = newton.run(
        y, gain=numbers.staircase_tolerance, most=numbers.staircase_steps, deadline=end,
        rough=True)
    rank = next_rank(y.shape[1], numbers.staircase_highest_rank)
    begin = newton.opened(run.y, rank) if rank > y.shape[1] else run.y
    run = newton.run(begin, gain=2e-5, most=numbers.staircase_steps, deadline=end)
    inner.tally.add(newton.iterations, 0, Counter())
    return run


def _from_trajectory(
    context: SolveContext, inner: SolveContext, coarse: CoarseGraph, y: Array
) -> TrustRegionRun | None:
    """Up the staircase of the thinned graph from the trajectory y (rows, d) of the whole one."""
    certifier = Certifier(inner.schur)
    whole = context.problem.unpack(y, context.schur.points(y))
    low = inner.problem.pack(Estimate(
        whole.rotation[coarse.kept], whole.translation[coarse.kept], whole.landmarks))
    certificate = certifier.test(low)
    if certificate.directions is None:
        return None
    # Thinning itself moves the optimum by more than a hundredth of the cost.
    top = climb(
        inner.schur, low, Goal(gap=1e-2, deadline=inner.deadlines.end),
        max_rank=thresholds.current().staircase_highest_rank, certifier=certifier,
        tested=(TrustRegionRun(low, certificate.cost, SolveStatus.CONVERGED), certificate),
        observer=inner.observer('certify'))
    inner.tally.add(top.iterations, 0, Counter())
    return top.run
