"""Random starts: relaxed, rounded, refined, until one can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from ..array_types import Array
from . import thresholds
from .initialize.initialization import start_point
from .manifold.rounding import round_to_rotations
from .optimize.trust_region import TrustRegionRun
from .plan import Plan
from .result import SolveStatus
from .solve_context import SolveContext
from .stages import Start, descend, refine, relax, rounding_failed

SEED_STRIDE = 1000
"""Between the seeds of one solve, whose caller may count seeds up by ones."""


@dataclass(frozen=True)
class Rounded:
    """A relaxed run and the trajectory refined from it."""

    relaxed: TrustRegionRun
    refined: TrustRegionRun
    settled: bool = False
    """Whether the rounding was near its minimum, so that no other start need confirm it."""


def relax_and_round(context: SolveContext, plan: Plan, begin_at: Start, seed: int) -> Rounded:
    """Relaxation, rounding and refinement, early and from several starts where the plan says so.

    Refinement by the exact Hessian is so strong that a roughly relaxed point leads to the same
    trajectory as a converged one. Where the rounded cost stays far above the relaxed one, which
    happens while the data determine little, another start is drawn.
    """
    if not plan.early_rounding:
        relaxed = relax(context, begin_at.y, 1.0)
        return Rounded(relaxed, descend(context, plan, relaxed, begin_at.frozen))
    y, rank = begin_at.y, begin_at.y.shape[1]
    found: list[Rounded] = []
    for attempt in range(thresholds.current().random_starts):
        if attempt:
            y = start_point(context.problem, 'random', rank, seed + attempt * SEED_STRIDE)
        drawn = _round_early(context, plan, y)
        found += drawn
        last = drawn[-1]
        if not rounding_failed(context, last.refined, last.relaxed):
            break
        others = [one.refined.cost for one in found[:-1]]
        if attempt and agree(last.refined.cost, min(others), context.cost_slack):
            # The gap belongs to the graph, not to the rounding.
            break
    best = min(found, key=lambda one: one.refined.cost)
    refined = best.refined
    if refined.status is SolveStatus.MAX_ITERATIONS:
        refined = refine(context, plan, Start(refined.y, begin_at.frozen))
    return Rounded(best.relaxed, refined, drawn[0].settled)


def _round_early(context: SolveContext, plan: Plan, y: Array) -> list[Rounded]:
    """One start, rounded early and, if that is far from a minimum, again from a better point.

    Far from its minimum, one rounding of several robots in three (outfinite) ends in a
    neighbouring one; after a relaxation ten times as exact, one in sixteen. The trust radius of
    the first relaxation saves half of the CG steps of the second and more.
    """
    numbers = thresholds.current()
    first = _rounded(context, plan, relax(context, y, numbers.tolerance_early_rounding))
    if first.settled or not plan.confirm_rounding:
        return [first]
    relaxed = relax(
        context, first.relaxed.y, numbers.tolerance_second_rounding, first.relaxed.radius)
    return [first, _rounded(context, plan, relaxed)]


def _rounded(context: SolveContext, plan: Plan, relaxed: TrustRegionRun) -> Rounded:
    numbers = thresholds.current()
    y = round_to_rotations(context.problem.manifold, relaxed.y)
    refined = refine(context, plan, Start(y))
    settled = (refined.iterations <= numbers.settled_iterations
               or refined.cg_steps <= numbers.settled_cg_steps)
    return Rounded(relaxed, refined, settled)


def agree(one: float, other: float, noise: float) -> bool:
    """Whether two costs are those of one minimum; `noise` is their rounding error."""
    share = thresholds.current().same_minimum_share
    return abs(one - other) <= share * min(one, other) + noise
