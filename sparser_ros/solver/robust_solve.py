"""A robust trajectory: the planned start, then graduated reweighting (paper, section 6)."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..array_types import Array
from ..graph import Estimate
from . import thresholds
from .initialize.coarsening import coarsen
from .plan import THINNED_TWICE, GraphFeatures, Plan, make_plan
from .result import is_finite
from .robust.reweighting import Reweighting
from .robust.robust_starts import RobustStarts
from .solve_context import SolveContext
from .stages import relax
from .trajectory import Trajectory, first_point


@dataclass(frozen=True)
class RobustTrajectory:
    """A trajectory and the reweighting that it was found by."""

    trajectory: Trajectory
    reweighting: Reweighting
    reweightings: int

    def weights(self, estimate: Estimate) -> dict[str, Array]:
        """Robust weights at an estimate by measurement table."""
        squares = self.reweighting.squares_of(estimate)
        return self.reweighting.tables(self.reweighting.weights_at(squares))

    def cost(self, estimate: Estimate) -> float:
        """sum rho(s) of an estimate."""
        return self.reweighting.cost(self.reweighting.squares_of(estimate))


def find_robust_trajectory(
    context: SolveContext, plan: Plan, seed: int, initial: Estimate | None = None
) -> RobustTrajectory:
    """Graduated reweighting from the start that the plan names."""
    numbers, init = thresholds.current(), plan.init
    starts = RobustStarts(
        context.schur, context.config.robust, context.rule(numbers.tolerance_refinement),
        context.observer('robust'), context.backend)
    thinned = _thinned_estimate(context, plan, seed) if plan.robust_start == 'thinned' else None
    begin = time.perf_counter()
    if initial is not None:
        found = starts.from_estimate(initial)
    elif plan.robust_start == 'trusted':
        found = starts.from_trusted(init, seed)
    elif thinned is not None:
        init, found = 'coarse', starts.from_estimate(thinned, robust=True)
    else:
        relaxed = relax(
            context, first_point(context, plan, seed).y, numbers.tolerance_early_rounding)
        begin = time.perf_counter()
        found = starts.from_relaxation(relaxed)
    context.count(found.run)
    context.tally.clock('refine', begin)
    context.preconditioners.reset()
    return RobustTrajectory(Trajectory(found.run, init), starts.reweighting, found.reweightings)


def _thinned_estimate(context: SolveContext, plan: Plan, seed: int) -> Estimate | None:
    """The robust solution of a thinned graph on all poses; None where it is not finite."""
    begin = time.perf_counter()
    coarse = coarsen(context.graph, plan.coarsening)
    inner = context.thinned(coarse.graph)
    inner_plan = make_plan(
        GraphFeatures.of(inner.schur), inner.config, inner.backend, thinned=THINNED_TWICE)
    found = find_robust_trajectory(inner, inner_plan, seed)
    y = found.trajectory.refined.y
    estimate = inner.problem.unpack(y, inner.schur.points(y))
    context.absorb(inner, begin)
    return coarse.interpolate(estimate) if is_finite(estimate) else None
