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
class ThinnedSolution:
    """A trajectory of a thinned graph."""

    estimate: Estimate
    cost: float
    """At rank d, of the measurements of that graph."""


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


def relaxed_above(context: SolveContext, plan: Plan, y: Array) -> Array | None:
    """A point of the relaxation that the trajectory y (rows, d) leads to on a thinned graph.

    Where that trajectory is no minimum of the relaxation, the way down is long: on the thinned
    graph its steps cost a tenth. None where the thinned trajectory is as good as its relaxation.
    """
    begin = time.perf_counter()
    coarse = coarsen(context.graph, plan.coarsening)
    inner = context.thinned(coarse.graph)
    whole = context.problem.unpack(y, context.schur.points(y))
    low = inner.problem.pack(Estimate(
        whole.rotation[coarse.kept], whole.translation[coarse.kept], whole.landmarks))
    certifier, numbers = Certifier(inner.schur), thresholds.current()
    certificate = certifier.test(low)
    if certificate.directions is None:
        return None
    top = climb(
        inner.schur, low, Goal(gap=numbers.thinned_bound_gap, deadline=inner.deadlines.end),
        max_rank=numbers.staircase_highest_rank, certifier=certifier,
        tested=(TrustRegionRun(low, certificate.cost, SolveStatus.CONVERGED), certificate),
        observer=inner.observer('certify'))
    inner.tally.add(top.iterations, 0, Counter())
    manifold = inner.problem.manifold
    rank = next_rank(needed_rank(manifold, top.run.y) - 1, numbers.staircase_highest_rank)
    run = replace(top.run, y=reduce_rank(manifold, top.run.y, rank))
    n, d = inner.problem.manifold.n, context.graph.dimension
    points = inner.schur.points(run.y)
    rows, translation = coarse.prolong(run.y[: n * d].reshape(n, d, -1), points[:n])
    context.absorb(inner, begin)
    return context.problem.compose(rows, np.concatenate([translation, points[n:]]))


def from_thinned(
    context: SolveContext, plan: Plan, seed: int,
    solve_thinned: Callable[[SolveContext, int], ThinnedSolution | None],
) -> TrustRegionRun | None:
    """Refinement from the solution of a thinned graph; None where that ends in a bad minimum.

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
    return refined if refined.cost <= bound * (1 + slack) + context.cost_slack else None


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
