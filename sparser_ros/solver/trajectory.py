"""A trajectory of rank d: start, relaxation, rounding and refinement, as the plan has them.

A large graph with ranges is solved coarse to fine: the solution of a thinned graph starts the
whole one's refinement. A small one is relaxed from random starts, until a rounding can be trusted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from ..array_types import Array
from ..graph import Estimate
from ..graph import cost as graph_cost
from .gnc import Graduation
from .manifold import round_to_rotations
from .plan import THINNED_TWICE, Plan, make_plan
from .result import SolveStatus, is_finite
from .stages import (
    EARLY_ROUNDING,
    SolveContext,
    refine,
    refine_from_start,
    relax,
    round_and_refine,
    rounding_failed,
    spectral,
)
from .start import CoarseGraph, start_point
from .trust_region import TrustRegionRun

RANDOM_STARTS = 6
"""Most of one solve."""
SETTLED_ITERATIONS, SETTLED_CG_STEPS = 5, 10
"""Most of a refinement that begins at its minimum: either tells."""

SEED_STRIDE = 1000
"""Between the seeds of one solve, whose caller may count seeds up by ones."""


@dataclass(frozen=True)
class LiftedPoint:
    """A point of the relaxation of a thinned graph, whichever of its ranges were used."""

    rows: Array
    """(n, d, p): R_i^T of the kept poses."""
    points: Array
    """(n_points, p): their translations, then the landmarks."""
    gain: float
    """What it costs less than the trajectory that was rounded from it."""


@dataclass(frozen=True)
class Trajectory:
    """A refined run at rank d and how it was reached."""

    refined: TrustRegionRun
    init: str
    relaxed: TrustRegionRun | None = None
    """The relaxation that it was rounded from, if any."""
    settled: bool = False
    """Whether a random start ended so near its minimum that no other need confirm it."""
    thinned: LiftedPoint | None = None
    """The relaxation of the thinned graph that it came from, if any."""


def find_trajectory(
    context: SolveContext, plan: Plan, seed: int, initial: Estimate | None = None
) -> Trajectory:
    """Start, relaxation, rounding and refinement; an estimate that is given is refined only."""
    if initial is not None:
        refined = refine_from_start(context, plan, context.problem.pack(initial))
        return Trajectory(refined, plan.init)
    if plan.coarsening > 1:
        trajectory = _from_thinned(context, plan, seed)
        if trajectory is not None:
            return trajectory
    y = first_point(context, plan, seed)
    if plan.rank == context.graph.dimension:
        return Trajectory(refine_from_start(context, plan, y), plan.init)
    if plan.early_rounding:
        return _from_random_starts(context, plan, y, seed)
    relaxed = relax(context, y, 1.0)
    return Trajectory(round_and_refine(context, plan, relaxed), plan.init, relaxed)


def first_point(context: SolveContext, plan: Plan, seed: int) -> Array:
    """Where the first run begins (rows, p); from a thinned relaxation where the plan says so."""
    problem, lifted = context.problem, plan.rank > context.graph.dimension
    if plan.init == 'random' and lifted and plan.relaxation_coarsening > 1:
        return _relaxed_start(context, plan, seed)
    if plan.init != 'spectral':
        return start_point(problem, plan.init, plan.rank, seed)
    y = spectral(context, frozen=plan.preconditioner == 'frozen')
    if y is None:
        return start_point(problem, 'chordal', plan.rank, seed)
    return problem.manifold.lift(y, plan.rank)


def _relaxed_start(context: SolveContext, plan: Plan, seed: int) -> Array:
    """A rough relaxation of a thinned graph from a random start, prolonged to all poses."""
    begin = time.perf_counter()
    with context.thinned(plan.relaxation_coarsening) as (coarse, inner):
        y = start_point(inner.problem, 'random', plan.rank, seed)
        # It only starts another relaxation.
        run = relax(inner, y, tolerance=1000.0)
        y = prolonged(context, inner, coarse, run.y)
    context.tally.relaxing(begin)
    return y


def prolonged(
    context: SolveContext, inner: SolveContext, coarse: CoarseGraph, y: Array
) -> Array:
    """A point of the thinned problem (rows, p) on all poses."""
    n, d = inner.problem.manifold.n, context.graph.dimension
    points = inner.schur.points(y)
    rows, translation = coarse.prolong(y[: n * d].reshape(n, d, -1), points[:n])
    return context.problem.compose(rows, np.concatenate([translation, points[n:]]))


# -- random starts


def _from_random_starts(context: SolveContext, plan: Plan, y: Array, seed: int) -> Trajectory:
    """Early rounding of y (rows, p) and, where that fails, of other random starts.

    Refinement by the exact Hessian leads from a roughly relaxed point to the same trajectory as
    from a converged one. Where the rounded cost stays far above the relaxed one, another start is
    drawn.
    """
    rank = y.shape[1]
    tried: list[Trajectory] = []
    for attempt in range(RANDOM_STARTS):
        if attempt:
            y = start_point(context.problem, 'random', rank, seed + attempt * SEED_STRIDE)
        drawn = _round_early(context, plan, y)
        tried += drawn
        last = drawn[-1]
        assert last.relaxed is not None
        if not rounding_failed(context, last.refined, last.relaxed):
            break
        others = [trajectory.refined.cost for trajectory in tried[:-1]]
        if attempt and _agree(last.refined.cost, min(others), context.cost_slack):
            # The gap belongs to the graph, not to the rounding.
            break
    best = min(tried, key=lambda trajectory: trajectory.refined.cost)
    refined = best.refined
    if refined.status is SolveStatus.MAX_ITERATIONS:
        refined = refine(context, plan, refined.y)
    return replace(best, refined=refined, settled=drawn[0].settled)


def _round_early(context: SolveContext, plan: Plan, y: Array) -> list[Trajectory]:
    """One start, rounded early and, if that is far from a minimum, again from a better point.

    Far from its minimum a rounding of several robots often ends in a neighbouring one, seldom after
    a relaxation ten times as exact. The trust radius of the first saves half of the second.
    """
    relaxed = relax(context, y, EARLY_ROUNDING)
    first = _rounded(context, plan, relaxed)
    if first.settled or not plan.confirm_rounding:
        return [first]
    relaxed = relax(context, relaxed.y, 10.0, relaxed.radius)
    return [first, _rounded(context, plan, relaxed)]


def _rounded(context: SolveContext, plan: Plan, relaxed: TrustRegionRun) -> Trajectory:
    refined = refine(context, plan, round_to_rotations(context.problem.manifold, relaxed.y))
    settled = refined.iterations <= SETTLED_ITERATIONS or refined.cg_steps <= SETTLED_CG_STEPS
    return Trajectory(refined, plan.init, relaxed, settled)


def _agree(first: float, second: float, noise: float) -> bool:
    """Whether two costs are those of one minimum; `noise` is their rounding error."""
    # Minima nearer than that are not worth another start.
    return abs(first - second) <= 5e-4 * min(first, second) + noise


# -- coarse to fine


def _from_thinned(context: SolveContext, plan: Plan, seed: int) -> Trajectory | None:
    """Refinement from the solution of a thinned graph; None where it ends in a bad minimum.

    The whole graph has the freedom of the thinned one and more, so its refined cost lies below,
    unless refinement ended in another basin.
    """
    with context.thinned(plan.coarsening, plan.ranges_per_pose) as (coarse, inner):
        best = _solve_thinned(inner, seed, plan.thinned + 1)
        estimate = inner.problem.unpack(best.refined.y, inner.schur.points(best.refined.y))
    if not is_finite(estimate):
        return None
    refined = refine(context, plan, context.problem.pack(coarse.interpolate(estimate)))
    # The cost of all measurements of the thinned graph, whichever of them were used.
    if refined.cost > graph_cost(coarse.graph, estimate) * (1 + 1e-6) + context.cost_slack:
        return None
    lifted = None
    if best.relaxed is not None:
        n, d, y = inner.problem.manifold.n, context.graph.dimension, best.relaxed.y
        lifted = LiftedPoint(
            y[: n * d].reshape(n, d, -1), inner.schur.points(y),
            best.refined.cost - best.relaxed.cost)
    return Trajectory(refined, 'coarse', thinned=lifted)


def _solve_thinned(context: SolveContext, seed: int, thinned: int) -> Trajectory:
    """The best trajectory of a graph thinned so often.

    Rounding may end in a neighbouring minimum unless refinement settles at once. Several starts
    cost little on a thinned graph; two that end at the same least cost decide.
    """
    plan = make_plan(context.schur, context.config, context.backend, thinned=thinned)
    best = find_trajectory(context, plan, seed)
    if best.settled or not plan.compare_starts:
        return best
    for attempt in range(1, RANDOM_STARTS):
        other = find_trajectory(context, plan, seed + attempt * RANDOM_STARTS * SEED_STRIDE)
        least = best.refined.cost
        best = min(best, other, key=lambda trajectory: trajectory.refined.cost)
        if _agree(other.refined.cost, least, context.cost_slack):
            break
    return best


# -- with a robust kernel


def find_robust_trajectory(
    context: SolveContext, plan: Plan, seed: int, initial: Estimate | None = None
) -> tuple[Trajectory, Graduation]:
    """Graduated reweighting from the start that the plan names (paper, section 6)."""
    init = plan.init
    graduation = Graduation(context)
    thinned = _thinned_estimate(context, plan, seed) if plan.robust_start == 'thinned' else None
    relaxed = None
    if thinned is None and plan.robust_start not in ('given', 'trusted'):
        relaxed = relax(context, first_point(context, plan, seed), EARLY_ROUNDING)
    with context.tally.clocked('refine'):
        if initial is not None:
            run = graduation.from_estimate(initial)
        elif relaxed is not None:
            run = graduation.from_relaxation(relaxed)
        elif thinned is not None:
            init, run = 'coarse', graduation.from_estimate(thinned, robust=True)
        else:
            run = graduation.from_trusted(init, seed)
    context.forget_factors()
    return Trajectory(run, init), graduation


def _thinned_estimate(context: SolveContext, plan: Plan, seed: int) -> Estimate | None:
    """The robust solution of a thinned graph on all poses; None where it is not finite."""
    with context.thinned(plan.coarsening) as (coarse, inner):
        inner_plan = make_plan(inner.schur, inner.config, inner.backend, thinned=THINNED_TWICE)
        y = find_robust_trajectory(inner, inner_plan, seed)[0].refined.y
        estimate = inner.problem.unpack(y, inner.schur.points(y))
    return coarse.interpolate(estimate) if is_finite(estimate) else None
