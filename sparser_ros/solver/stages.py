"""The stages of a solve on one assembled problem: start, relax, refine, round and refine."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from ..array_types import Array
from . import thresholds
from .context import SolveContext
from .manifold import reduce_rank, round_to_rotations
from .plan import Plan
from .preconditioner import GaussNewtonPreconditioner, NewtonPreconditioner, RegularisedQ
from .start import ConnectionLaplacian, spectral_start, start_point
from .trust_region import TrustRegionRun


def start(context: SolveContext, plan: Plan, seed: int) -> Array:
    """The start that the plan names, at its rank (rows, p)."""
    if plan.init == 'spectral':
        y = spectral(context, frozen=plan.preconditioner == 'frozen')
        if y is not None:
            return context.problem.manifold.lift(y, plan.rank)
        return start_point(context.problem, 'chordal', plan.rank, seed)
    return start_point(context.problem, plan.init, plan.rank, seed)


def spectral(context: SolveContext, *, frozen: bool) -> Array | None:
    """Rotations (n d, d) of a pose graph by the lowest eigenvectors of Q_s, None where they fade.

    With `frozen`, those of the connection Laplacian, which shares its symbolic analysis with the
    preconditioner of the refinements.
    """
    begin = time.perf_counter()
    inverse: ConnectionLaplacian | RegularisedQ
    if frozen:
        context.frozen = GaussNewtonPreconditioner(context.schur)
        inverse = ConnectionLaplacian(context.graph, context.frozen.prepare())
    else:
        inverse = context.regularised()
    y = spectral_start(context.problem.manifold, inverse.apply)
    context.tally.clock('setup', begin)
    return y


def relax(
    context: SolveContext, y: Array, tolerance: float, radius: float = math.inf
) -> TrustRegionRun:
    """Low-rank relaxation by the matrix-free trust region (paper, section 7.1).

    `tolerance` multiplies the configured cost tolerance. A relaxation that is continued starts
    with the trust radius of its last run.
    """
    tally = context.tally
    begin = time.perf_counter()
    preconditioner = context.regularised()
    tally.clock('setup', begin)
    begin = time.perf_counter()
    run = context.formulation.minimise(
        y, preconditioner, context.rule(tolerance, context.config.target_cost, relaxing=True),
        context.observer('relax'), context.backend, radius=radius, long=True)
    tally.clock('solve', begin)
    run = replace(run, trace=[(seconds + tally.relaxed_s, cost) for seconds, cost in run.trace])
    tally.relaxing(begin)
    return context.count(run)


def refine(
    context: SolveContext, plan: Plan, y: Array, *, newton: bool = True
) -> TrustRegionRun:
    """Trust region at the rank of y, with the preconditioner of the plan.

    Ranges are stiff along one direction that the columns of Y share, so only the coupled Hessian
    sees them: its factor pays (tiers: 3 steps instead of thousands of CG steps). Without ranges Q
    itself is near the Hessian, and its factor is far sparser. `newton` = False uses the factor of
    Q all the same.
    """
    numbers = thresholds.current()
    begin = time.perf_counter()
    rule = context.rule(numbers.tolerance_refinement)
    preconditioner = _refining(context, plan, y.shape[1], newton)
    exact = type(preconditioner) is NewtonPreconditioner
    share = 1.0
    if isinstance(preconditioner, GaussNewtonPreconditioner):
        if preconditioner.before is None:
            share = numbers.frozen_gain_share
        else:
            # A longer step would rather be made with the better preconditioner.
            rule = replace(rule, max_cg_steps=min(rule.max_cg_steps, preconditioner.patience))
    if not exact and not context.config.certify:
        # Near the end the predicted gain of an iteration tells whether to make it. A certificate
        # needs every digit.
        rule = replace(rule, gradient_tolerance=max(
            rule.gradient_tolerance, share * context.config.cost_tolerance))
    run = context.formulation.minimise(
        y, preconditioner, rule, context.observer('refine'), context.backend)
    context.tally.clock('refine', begin)
    return context.count(run)


def _refining(
    context: SolveContext, plan: Plan, rank: int, newton: bool
) -> NewtonPreconditioner | RegularisedQ:
    """The planned preconditioner, or Q's factor at another rank or where a device holds it."""
    if plan.preconditioner == 'newton' and newton:
        return NewtonPreconditioner(context.schur)
    pose_graph = not context.graph.n_bearings and not context.graph.free_scale
    if pose_graph and rank == context.graph.dimension:
        return context.gauss_newton() or context.regularised()
    return context.regularised()


def refine_from_start(context: SolveContext, plan: Plan, y: Array) -> TrustRegionRun:
    """Refinement without a relaxation.

    With a frozen preconditioner it ends in neighbouring minima more often than with rotations
    that may stretch (MIT with 0.1 rad more noise: one of eight). Where the start was that poor,
    another refinement is made and the better one kept.
    """
    frozen = context.frozen is not None and context.frozen.before is None
    refined = refine(context, plan, y)
    poor = refined.trace[0][1] > thresholds.current().poor_start_ratio * refined.cost
    if not frozen or not poor:
        return refined
    context.frozen = None
    other_start = spectral(context, frozen=False)
    other = refine(context, plan, y if other_start is None else other_start)
    return min(refined, other, key=lambda run: run.cost)


def round_and_refine(
    context: SolveContext, plan: Plan, relaxed: TrustRegionRun
) -> TrustRegionRun:
    """Rounding to rank d and refinement; one rank at a time where the jump costs too much."""
    manifold, d = context.problem.manifold, context.graph.dimension
    best = refine(context, plan, round_to_rotations(manifold, relaxed.y))
    if rounding_failed(context, best, relaxed) and relaxed.y.shape[1] > d + 1:
        y = relaxed.y
        for rank in range(y.shape[1] - 1, d, -1):
            y = refine(
                context, plan, reduce_rank(manifold, y, rank), newton=rank == d + 1).y
        other = refine(context, plan, round_to_rotations(manifold, y))
        best = min(best, other, key=lambda run: run.cost)
    return best


def rounding_failed(
    context: SolveContext, refined: TrustRegionRun, relaxed: TrustRegionRun
) -> bool:
    """Whether a trajectory costs so much more than its relaxation that rounding went wrong.

    Where both costs are zero but for rounding errors their ratio tells nothing.
    """
    numbers = thresholds.current()
    if refined.cost <= numbers.rounding_gap * relaxed.cost + numbers.negligible_cost:
        return False
    return refined.cost > context.cost_noise(refined.y)
