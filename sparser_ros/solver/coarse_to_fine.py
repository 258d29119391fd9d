"""Coarse to fine: the solution of a thinned graph as the start of the whole one's."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..array_types import Array
from ..graph import Estimate, Graph
from ..graph import cost as graph_cost
from . import thresholds
from .certify.certificate import Certifier
from .certify.newton_descent import NewtonDescent
from .certify.staircase import Goal, climb, needed_rank, next_rank
from .initialize.coarsening import CoarseGraph, coarsen
from .initialize.initialization import start_point
from .manifold.rounding import reduce_rank
from .optimize.trust_region import TrustRegionRun
from .plan import Plan
from .result import SolveStatus
from .solve_context import SolveContext
from .stages import Start, refine, relax


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
class ThinnedSolution:
    """A trajectory of a thinned graph."""

    estimate: Estimate
    cost: float
    """At rank d, of the measurements of that graph."""
    relaxed: LiftedPoint | None = None
    """What it was rounded from."""


def relaxed_start(context: SolveContext, plan: Plan, seed: int) -> Start:
    """A rough relaxation of a thinned graph from a random start, prolonged to all poses."""
    begin = time.perf_counter()
    coarse = coarsen(context.graph, plan.relaxation_coarsening)
    inner = context.thinned(coarse.graph)
    run = relax(
        inner, start_point(inner.problem, 'random', plan.rank, seed),
        thresholds.current().tolerance_thinned_relaxation)
    n, d = inner.problem.manifold.n, context.graph.dimension
    points = inner.schur.points(run.y)
    rows, translation = coarse.prolong(
        run.y[: n * d].reshape(n, d, plan.rank), points[:n])
    y = context.problem.compose(rows, np.concatenate([translation, points[n:]]))
    context.absorb(inner, begin)
    context.tally.relaxing(begin)
    return Start(y)


def lifted(context: SolveContext, relaxed: TrustRegionRun, cost: float) -> LiftedPoint:
    """A relaxation of a thinned graph, to be kept; `cost` is that of the trajectory below it."""
    n, d = context.problem.manifold.n, context.graph.dimension
    return LiftedPoint(
        relaxed.y[: n * d].reshape(n, d, -1), context.schur.points(relaxed.y),
        cost - relaxed.cost)


def relaxed_above(
    context: SolveContext, plan: Plan, y: Array, known: LiftedPoint | None = None
) -> Array | None:
    """A point of the relaxation below the trajectory y (rows, d), found on a thinned graph.

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
    run = replace(run, y=reduce_rank(manifold, run.y, rank))
    n, d = manifold.n, context.graph.dimension
    points = inner.schur.points(run.y)
    rows, translation = coarse.prolong(run.y[: n * d].reshape(n, d, -1), points[:n])
    context.absorb(inner, begin)
    return context.problem.compose(rows, np.concatenate([translation, points[n:]]))


def _opened(inner: SolveContext, y: Array) -> TrustRegionRun:
    """Down from a point of the thinned relaxation, at the next rank to the end.

    What that needs is found here: on the whole graph a step costs ten times as much, and those
    along soft motions are many. Directions that lead nowhere leave their columns empty.
    """
    numbers, end = thresholds.current(), inner.deadlines.end
    newton = NewtonDescent(inner.schur, inner.observer('certify'))
    run = newton.run(
        y, gain=numbers.staircase_tolerance, most=numbers.staircase_steps, deadline=end,
        rough=True)
    rank = next_rank(y.shape[1], numbers.staircase_highest_rank)
    begin = newton.opened(run.y, rank) if rank > y.shape[1] else run.y
    run = newton.run(
        begin, gain=numbers.thinned_gain, most=numbers.staircase_steps, deadline=end)
    inner.tally.add(newton.iterations, 0, Counter())
    return run


def _from_trajectory(
    context: SolveContext, inner: SolveContext, coarse: CoarseGraph, y: Array
) -> TrustRegionRun | None:
    """Up the staircase of the thinned graph from the trajectory y (rows, d) of the whole one."""
    certifier, numbers = Certifier(inner.schur), thresholds.current()
    whole = context.problem.unpack(y, context.schur.points(y))
    low = inner.problem.pack(Estimate(
        whole.rotation[coarse.kept], whole.translation[coarse.kept], whole.landmarks))
    certificate = certifier.test(low)
    if certificate.directions is None:
        return None
    top = climb(
        inner.schur, low, Goal(gap=numbers.thinned_bound_gap, deadline=inner.deadlines.end),
        max_rank=numbers.staircase_highest_rank, certifier=certifier,
        tested=(TrustRegionRun(low, certificate.cost, SolveStatus.CONVERGED), certificate),
        observer=inner.observer('certify'))
    inner.tally.add(top.iterations, 0, Counter())
    return top.run


def from_thinned(
    context: SolveContext, plan: Plan, seed: int,
    solve_thinned: Callable[[SolveContext, int], ThinnedSolution | None],
) -> tuple[TrustRegionRun, LiftedPoint | None] | None:
    """Refinement from the solution of a thinned graph, and the relaxation of that one.

    None where it ends in a bad minimum.

    The whole graph has the freedom of the thinned one and more, so its refined cost lies below,
    unless refinement ended in another basin. `solve_thinned(context, seed)` solves that graph.
    """
    begin = time.perf_counter()
    coarse = coarsen(context.graph, plan.coarsening)
    graph = fewer_ranges(coarse.graph, plan.ranges_per_pose)
    inner = context.thinned(graph)
    solution = solve_thinned(inner, seed)
    context.absorb(inner, begin)
    if solution is None:
        return None
    refined = refine(
        context, plan, Start(context.problem.pack(coarse.interpolate(solution.estimate))))
    bound = _bound(coarse, graph, solution)
    slack = thresholds.current().thinned_cost_slack
    good = refined.cost <= bound * (1 + slack) + context.cost_slack
    return (refined, solution.relaxed) if good else None


def _bound(coarse: CoarseGraph, solved: Graph, solution: ThinnedSolution) -> float:
    """The cost of all measurements of the thinned graph, whichever of them were used."""
    if solved is coarse.graph:
        return solution.cost
    return graph_cost(coarse.graph, solution.estimate)


def fewer_ranges(graph: Graph, per_pose: float) -> Graph:
    """The graph with every k-th range, so that there are at most about so many a pose."""
    stride = int(len(graph.ranges) / (per_pose * graph.n_poses)) + 1
    if stride == 1:
        return graph
    return graph.replaced(ranges=graph.ranges.take(np.arange(0, len(graph.ranges), stride)))
