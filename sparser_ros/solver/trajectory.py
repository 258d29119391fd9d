"""A trajectory from the start that the plan names, of the whole graph or of a thinned one."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph import Estimate
from ..graph import cost as graph_cost
from . import thresholds
from .coarse_to_fine import LiftedPoint, ThinnedSolution, from_thinned, lifted, relaxed_start
from .multistart import SEED_STRIDE, agree, relax_and_round
from .optimize.trust_region import TrustRegionRun
from .plan import WHOLE, GraphFeatures, Plan, make_plan
from .precondition.frozen_gauss_newton import FrozenGaussNewtonPreconditioner
from .result import is_finite
from .solve_context import SolveContext
from .stages import Start, refine_from_start, start


@dataclass(frozen=True)
class Trajectory:
    """A refined run at rank d and how it was found."""

    refined: TrustRegionRun
    init: str
    relaxed: TrustRegionRun | None = None
    """The relaxation that it was rounded from, if any."""
    frozen: FrozenGaussNewtonPreconditioner | None = None
    """The preconditioner that later refinements of it share, if any."""
    settled: bool = False
    """Whether a random start ended so near its minimum that no other need confirm it."""
    thinned: LiftedPoint | None = None
    """The relaxation of the thinned graph that it came from, if any."""


def find_trajectory(
    context: SolveContext, plan: Plan, seed: int, initial: Estimate | None = None,
    thinned: int = WHOLE,
) -> Trajectory:
    """relax -> round -> refine, as far as the plan needs them.

    `initial` is refined where it is given. `thinned` says how often this graph was thinned.
    """
    if initial is not None:
        refined, _ = refine_from_start(context, plan, Start(context.problem.pack(initial)))
        return Trajectory(refined, plan.init)
    if plan.coarsening > 1:
        came = from_thinned(
            context, plan, seed,
            lambda inner, seed: solve_thinned(inner, seed, thinned + 1))
        if came is not None:
            return Trajectory(came[0], 'coarse', thinned=came[1])
    begin_at = first_point(context, plan, seed)
    if plan.rank == context.graph.dimension:
        refined, frozen = refine_from_start(context, plan, begin_at)
        return Trajectory(refined, plan.init, frozen=frozen)
    found = relax_and_round(context, plan, begin_at, seed)
    return Trajectory(
        found.refined, plan.init, found.relaxed, begin_at.frozen, found.settled)


def first_point(context: SolveContext, plan: Plan, seed: int) -> Start:
    """Where the first run begins: by way of a thinned relaxation where the plan says so."""
    lifted = plan.rank > context.graph.dimension
    if plan.init == 'random' and lifted and plan.relaxation_coarsening > 1:
        return relaxed_start(context, plan, seed)
    return start(context, plan, seed)


def solve_thinned(context: SolveContext, seed: int, thinned: int) -> ThinnedSolution | None:
    """The best trajectory of a thinned graph; None where it is not finite.

    Rounding may end in a neighbouring minimum (outfinite thinned tenfold: one start in eight, 0.2
    to 20 % above) unless refinement settles at once. Several starts cost little on a thinned
    graph; two that end at the same least cost decide.
    """
    features = GraphFeatures.of(context.schur)
    plan = make_plan(features, context.config, context.backend, thinned=thinned)
    trajectory = find_trajectory(context, plan, seed, thinned=thinned)
    best = _solution(context, trajectory)
    if best is None or trajectory.settled or not plan.compare_starts:
        return best
    starts = thresholds.current().random_starts
    for attempt in range(1, starts):
        other = _solution(context, find_trajectory(
            context, plan, seed + attempt * starts * SEED_STRIDE, thinned=thinned))
        if other is None:
            break
        least = best.cost
        if other.cost < least:
            best = other
        if agree(other.cost, least, context.cost_slack):
            break
    return best


def _solution(context: SolveContext, trajectory: Trajectory) -> ThinnedSolution | None:
    refined, relaxed = trajectory.refined, trajectory.relaxed
    estimate = context.problem.unpack(refined.y, context.schur.points(refined.y))
    if not is_finite(estimate):
        return None
    above = None if relaxed is None else lifted(context, relaxed, refined.cost)
    return ThinnedSolution(estimate, graph_cost(context.graph, estimate), above)
