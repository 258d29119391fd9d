"""The stages of a solve on one assembled problem: start, relax, refine, descend."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from ..array_types import Array
from . import thresholds
from .initialize.connection_laplacian import ConnectionLaplacian
from .initialize.initialization import spectral_start, start_point
from .manifold.rounding import reduce_rank, round_to_rotations
from .optimize.trust_region import Preconditioner, TrustRegionRun
from .plan import Plan
from .precondition.adaptive import AdaptivePreconditioner
from .precondition.frozen_gauss_newton import FrozenGaussNewtonPreconditioner
from .precondition.newton import NewtonPreconditioner
from .precondition.regularised_q import RegularisedQ
from .solve_context import SolveContext


@dataclass(frozen=True)
class Start:
    """Where a run begins."""

    y: Array
    """(rows, rank)"""
    frozen: FrozenGaussNewtonPreconditioner | None = None
    """The preconditioner of refinements from there, where the start made one already."""


def start(context: SolveContext, plan: Plan, seed: int) -> Start:
    """The start that the plan names, at its rank."""
    if plan.init == 'spectral':
        found = spectral(context, frozen=plan.preconditioner == 'frozen')
        if found.y is not None:
            return Start(context.problem.manifold.lift(found.y, plan.rank), found.frozen)
        return Start(start_point(context.problem, 'chordal', plan.rank, seed), found.frozen)
    return Start(start_point(context.problem, plan.init, plan.rank, seed))


@dataclass(frozen=True)
class SpectralStart:
    """Rotations (n d, d) from eigenvectors, None where they fade, and a preconditioner."""

    y: Array | None
    frozen: FrozenGaussNewtonPreconditioner | None


def spectral(context: SolveContext, *, frozen: bool) -> SpectralStart:
    """Rank-d start of a pose graph by the lowest eigenvectors of Q_s.

    With `frozen`, those of the connection Laplacian, which shares its symbolic analysis with the
    preconditioner of the refinement.
    """
    begin = time.perf_counter()
    preconditioner = None
    inverse: ConnectionLaplacian | RegularisedQ
    if frozen:
        preconditioner = FrozenGaussNewtonPreconditioner(context.schur)
        inverse = ConnectionLaplacian(context.graph, preconditioner.prepare())
    else:
        inverse = context.preconditioners.regularised()
    y = spectral_start(context.problem.manifold, inverse.apply)
    context.tally.clock('setup', begin)
    return SpectralStart(y, preconditioner)


def relax(
    context: SolveContext, y: Array, tolerance: float, radius: float = math.inf
) -> TrustRegionRun:
    """Low-rank relaxation by the matrix-free trust region (paper, section 7.1).

    `tolerance` multiplies the configured cost tolerance. A relaxation that is continued starts
    with the trust radius of its last run.
    """
    tally = context.tally
    begin = time.perf_counter()
    preconditioner = context.preconditioners.regularised()
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
    context: SolveContext, plan: Plan, begin_at: Start, *, newton: bool = True,
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
    preconditioner = _refining(context, plan, begin_at, newton)
    if isinstance(preconditioner, AdaptivePreconditioner):
        # A longer step would rather be made with the better preconditioner.
        rule = replace(rule, max_cg_steps=min(rule.max_cg_steps, preconditioner.patience))
    exact = type(preconditioner) is NewtonPreconditioner
    if not exact and not context.config.certify:
        # Near the end the predicted gain of an iteration tells whether to make it. A certificate
        # needs every digit.
        share = numbers.frozen_gain_share if preconditioner is begin_at.frozen else 1.0
        rule = replace(rule, gradient_tolerance=max(
            rule.gradient_tolerance, share * context.config.cost_tolerance))
    run = context.formulation.minimise(
        begin_at.y, preconditioner, rule, context.observer('refine'), context.backend)
    context.tally.clock('refine', begin)
    return context.count(run)


def _refining(
    context: SolveContext, plan: Plan, begin_at: Start, newton: bool
) -> Preconditioner:
    """The planned preconditioner, or Q's factor at another rank or where a device holds it."""
    at_rank_d = begin_at.y.shape[1] == context.graph.dimension
    if plan.preconditioner == 'newton' and newton:
        return NewtonPreconditioner(context.schur)
    if begin_at.frozen is not None and at_rank_d:
        return begin_at.frozen
    pose_graph = not context.graph.n_bearings and not context.graph.free_scale
    if pose_graph and at_rank_d and context.preconditioners.on_host():
        return context.preconditioners.adaptive()
    return context.preconditioners.regularised()


def descend(
    context: SolveContext, plan: Plan, relaxed: TrustRegionRun,
    frozen: FrozenGaussNewtonPreconditioner | None = None,
) -> TrustRegionRun:
    """Rounding to rank d and refinement; one rank at a time where the jump costs too much."""
    manifold, d = context.problem.manifold, context.graph.dimension
    best = refine(context, plan, Start(round_to_rotations(manifold, relaxed.y), frozen))
    if rounding_failed(context, best, relaxed) and relaxed.y.shape[1] > d + 1:
        y = relaxed.y
        for rank in range(y.shape[1] - 1, d, -1):
            begin_at = Start(reduce_rank(manifold, y, rank), frozen)
            y = refine(context, plan, begin_at, newton=rank == d + 1).y
        other = refine(context, plan, Start(round_to_rotations(manifold, y), frozen))
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


def refine_from_start(context: SolveContext, plan: Plan, begin_at: Start) -> tuple[
        TrustRegionRun, FrozenGaussNewtonPreconditioner | None]:
    """Refinement without a relaxation, and the preconditioner that later ones share.

    With a frozen preconditioner it ends in neighbouring minima more often than with rotations
    that may stretch (MIT with 0.1 rad more noise: one of eight). Where the start was that poor,
    another refinement is made and the better one kept.
    """
    refined = refine(context, plan, begin_at)
    poor = refined.trace[0][1] > thresholds.current().poor_start_ratio * refined.cost
    if begin_at.frozen is None or not poor:
        return refined, begin_at.frozen
    y = spectral(context, frozen=False).y
    other = refine(context, plan, Start(begin_at.y if y is None else y))
    return min(refined, other, key=lambda run: run.cost), None
