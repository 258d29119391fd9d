"""One solve from a graph to a trajectory: plan, relax, round, refine, certify."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..array_types import Array
from ..config import SolverConfig, SolverError
from ..graph import Estimate, Graph, estimate_of
from ..graph import cost as graph_cost
from ..graph.parts import Subgraph, components, extract
from ..linalg.process import single_threaded_blas
from ..linalg.rotations import align
from .gnc import Graduation
from .manifold import round_to_rotations
from .plan import Plan, make_plan
from .result import SolveResult, SolveStats, SolveStatus, is_finite
from .stages import Progress, SolveContext, relax
from .staircase import Assessment, assess
from .trajectory import (
    Trajectory,
    find_robust_trajectory,
    find_trajectory,
    first_point,
)
from .trust_region import CGStop, TrustRegionRun

log = logging.getLogger(__name__)
_LEAST_S = 0.1
"""Time limit of a further solve, however little is left."""
_LITTLE_EXPLAINED = 2.0
"""Cost without a kernel over the degrees of freedom: headings of the plane count twice, and bad
minima cost many times as much."""


def solve(
    graph: Graph,
    config: SolverConfig,
    *,
    initial: Estimate | None = None,
    progress: Progress | None = None,
) -> SolveResult:
    """Solve a graph; the estimate's frame is arbitrary where nothing absolute fixes it.

    With `initial` the solve is a rank-d refinement from it; else parts that no measurement connects
    are solved one by one. `progress(stage, iteration, cost)` is called at every accepted step.
    Raises SolverError or GraphError when the problem is ill-posed; running out of iterations or
    time is no error: the best iterate comes back with its status.
    """
    graph.validate()
    if graph.n_poses + graph.n_landmarks == 0:
        raise SolverError('the graph has no poses and no landmarks: nothing to solve')
    if not graph.n_measurements:
        raise SolverError('the graph has no measurements: nothing to solve')
    if config.certify and graph.free_scale:
        raise SolverError(
            'no certificate for poses of free scale: their rows of X_c are not bounded')
    if len(graph.heights) and (config.certify or config.formulation != 'schur'):
        raise SolverError(
            'heights make the cost another one in the last column of map: no certificate, and '
            'formulation schur only; leave heights out for these')
    # One start and one rounding cannot suit frames that know nothing of each other.
    alone = [] if initial is not None or config.target_cost is not None else _unconnected(graph)
    if alone:
        return _put_together(graph, config, alone, progress)
    with single_threaded_blas():
        # The quadratic problem, its Schur complement, and what suits them.
        context = SolveContext(graph, config, progress=progress)
        given = initial is not None
        plan = make_plan(context.schur, config, context.backend, given=given)
        log.debug('plan of %s:\n%s', graph.name, plan)
        if config.target_cost is not None:
            return _relaxed_to_target(context, plan, initial)
        # Start, relaxation, rounding, refinement.
        graduation = None
        if config.robust.kernel == 'none':
            trajectory = find_trajectory(context, plan, config.seed, initial)
        else:
            trajectory, graduation = find_robust_trajectory(context, plan, config.seed, initial)
        # The certificate, and a better trajectory where its test shows the way to one.
        assessed = None
        if config.certify:
            with context.tally.clocked('certify'):
                assessed = assess(context, plan, trajectory)
        return _result(context, plan, trajectory, assessed, graduation)


def _unconnected(graph: Graph) -> list[Subgraph]:
    """The measured parts that no measurement connects; none where there is one, with all that
    nothing measures."""
    if graph.free_scale:
        return []
    labels, n = components(graph), graph.n_poses
    if not np.any(labels):
        return []
    tied = labels[graph.points(graph.pairs(odometry=True)[0])]
    apart = [labels == part for part in np.unique(tied[tied > 0])]
    if not apart:
        return []
    rest = ~np.logical_or.reduce(apart)
    parts = [extract(graph, mask[:n], mask[n:]) for mask in (rest, *apart)]
    return [part for part in parts if part.graph.n_measurements]


def _put_together(
    graph: Graph, config: SolverConfig, parts: list[Subgraph], progress: Progress | None
) -> SolveResult:
    """Each part solved for itself: costs and effort add up, the worst status is that of all.

    What cannot be added, such as rank and plan, is that of the first part, which is the largest or
    the one in map.
    """
    begin = time.monotonic()
    results = [
        solve(part.graph, _limited(config, begin if number else None), progress=progress)
        for number, part in enumerate(parts)]
    worst = max(results, key=lambda result: list(SolveStatus).index(result.status))
    every = [result.stats for result in results]

    def total(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(every) else None

    seconds: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    weights: dict[str, Array] = {}
    for part, stats in zip(parts, every, strict=True):
        seconds.update(stats.seconds)
        stops.update(stats.cg_stops)
        for name, own in stats.weights.items():
            weights.setdefault(name, np.ones(len(getattr(graph, name))))[part.rows[name]] = own
    proved = [stats.certified for stats in every]
    lowest = [stats.lambda_min for stats in every if stats.lambda_min is not None]
    together = replace(
        every[0], iterations=sum(stats.iterations for stats in every),
        cg_steps=sum(stats.cg_steps for stats in every), cg_stops=dict(stops),
        seconds=dict(seconds), weights=weights,
        backend=next((stats.backend for stats in every if stats.backend != 'cpu'), 'cpu'),
        reweightings=sum(stats.reweightings for stats in every),
        cost_relaxed=total(stats.cost_relaxed for stats in every),
        cost_final=total(stats.cost_final for stats in every),
        cost_robust=total(stats.cost_robust for stats in every),
        suboptimality=total(stats.suboptimality for stats in every),
        certified=None if None in proved else all(proved),
        lambda_min=min(lowest) if len(lowest) == len(every) else None)
    # What nothing measures stays where the graph has it.
    stored = estimate_of(graph)
    estimate: Estimate | None = replace(stored, landmarks=np.nan_to_num(stored.landmarks))
    for part, result in zip(parts, results, strict=True):
        if estimate is None or result.estimate is None:
            estimate = None
        else:
            estimate = part.into(estimate, result.estimate)
    return SolveResult(estimate, worst.status, worst.message, together)


def _limited(config: SolverConfig, begin: float | None) -> SolverConfig:
    """For a further solve: the time that is left of one that began at `begin`."""
    if begin is None or config.time_limit_s <= 0:
        return config
    left = max(config.time_limit_s - (time.monotonic() - begin), _LEAST_S)
    return replace(config, time_limit_s=left)


def solve_checked(
    graph: Graph, config: SolverConfig, *, progress: Progress | None = None
) -> SolveResult:
    """`solve`, and where the solution explains little or has not settled, the better of two.

    Reweighting from a relaxation ends now and then in a minimum that rejects a whole beacon: of
    400 ranges without a fault a third. Its robust cost is then above the degrees of freedom, which
    it is not where noise is as claimed. The other start is the map with known beacons set free,
    moved onto them: known ones take from a relaxation the room to turn in. Without any known beacon
    it is the solution without a kernel. Without a kernel only known beacons call for another start.
    """
    begin = time.monotonic()
    first = solve(graph, config, progress=progress)
    robust = config.robust.kernel != 'none'
    known = _known_beacons(graph)
    cost = _cost(first)
    if first.status is SolveStatus.TIME_LIMIT or not math.isfinite(cost) or (
            not robust and not (known and graph.n_bearings)):
        return first
    residuals = sum(
        len(table) * kind.degrees_of_freedom(graph.dimension) for kind, table in graph.typed())
    settled = first.status is not SolveStatus.MAX_ITERATIONS
    slack = 1 if robust else _LITTLE_EXPLAINED
    if settled and cost <= slack * (residuals - graph.n_determined):
        return first

    if known:
        other = solve(
            _freed(graph), _limited(replace(config, certify=False), begin), progress=progress)
    else:
        other = solve(
            graph, _limited(replace(
                config, certify=False, robust=replace(config.robust, kernel='none')), begin),
            progress=progress)
    start = other.estimate
    if start is None:
        return first
    if known:
        start = _onto_known(graph, start)
    second = solve(graph, _limited(config, begin), initial=start, progress=progress)
    better = second if _cost(second) < cost else first
    seconds: Counter[str] = Counter()
    for result in (first, other, second):
        seconds.update(result.stats.seconds)
    return replace(better, stats=replace(better.stats, seconds=dict(seconds)))


def _cost(result: SolveResult) -> float:
    """What a solve minimises: the robust cost where a kernel is used; infinite where it failed."""
    stats = result.stats
    cost = stats.cost_final if stats.cost_robust is None else stats.cost_robust
    return math.inf if cost is None else cost


def _known_beacons(graph: Graph) -> bool:
    """Whether positions of beacons are known, exactly or with a sigma, and more is measured."""
    known = np.any(graph.landmarks.fixed) or np.any(graph.point_priors.point < 0)
    return bool(known and len(graph.pairs(odometry=True)[0]))


def _freed(graph: Graph) -> Graph:
    """The graph without anything that fixes the frame of map."""
    marks = graph.landmarks
    return graph.replaced(
        landmarks=replace(marks, fixed=np.zeros_like(marks.fixed)),
        **{kind.name: table.take(slice(0, 0)) for kind, table in graph.typed() if kind.absolute})


def _onto_known(graph: Graph, estimate: Estimate) -> Estimate:
    """A map in any frame, moved to where known beacons, fixes and pose priors have it."""
    marks = graph.landmarks
    places, known = [estimate.landmarks[marks.fixed]], [marks.position[marks.fixed]]
    for part in graph.residuals():
        if part.first is None and part.point and not part.height:
            known.append(part.arm_first[:, 0])
            places.append(part.vectors(estimate.points, estimate.rows)[:, 0] + known[-1])
    here, there = np.concatenate(places), np.concatenate(known)
    if not graph.levelled:
        return estimate.moved(*align(here, there))
    # Two beacons leave a turn about their line open, which would tilt an upright map.
    turn = np.eye(3)
    turn[:2, :2], _ = align(here[:, :2], there[:, :2])
    return estimate.moved(turn, (there - here @ turn.T).mean(axis=0))


def _relaxed_to_target(
    context: SolveContext, plan: Plan, initial: Estimate | None
) -> SolveResult:
    """The relaxation down to the configured cost, rounded but not refined."""
    y = (first_point(context, plan, context.config.seed) if initial is None
         else context.problem.pack(initial))
    run = relax(context, y, 1e-4)
    estimate = _estimate(context, round_to_rotations(context.problem.manifold, run.y))
    converged = run.status is SolveStatus.CONVERGED
    status = SolveStatus.STALLED if converged else run.status
    return _finished(estimate, status, _stats(context, plan, plan.init, run))


def _result(
    context: SolveContext, plan: Plan, trajectory: Trajectory, assessed: Assessment | None,
    graduation: Graduation | None,
) -> SolveResult:
    """The finished trajectory with its figures."""
    run, relaxed = trajectory.refined, trajectory.relaxed
    if assessed is not None:
        run, relaxed = assessed.run, assessed.relaxed
    estimate = _estimate(context, run.y)
    stats = replace(
        _stats(context, plan, trajectory.init, relaxed, run),
        cost_final=graph_cost(context.graph, estimate))
    if assessed is not None:
        stats = replace(
            stats, certified=assessed.certified, suboptimality=assessed.suboptimality,
            lambda_min=assessed.lambda_min)
    if graduation is not None and is_finite(estimate):
        reweighting = graduation.reweighting
        squares = reweighting.squares_of(estimate)
        stats = replace(
            stats, cost_robust=reweighting.cost(squares), reweightings=graduation.reweightings,
            weights=reweighting.tables(reweighting.weights_at(squares)))
    return _finished(estimate, run.status, stats)


def _estimate(context: SolveContext, y: Array) -> Estimate:
    return context.problem.unpack(y, context.schur.points(y))


def _stats(
    context: SolveContext, plan: Plan, init: str, relaxed: TrustRegionRun | None,
    refined: TrustRegionRun | None = None,
) -> SolveStats:
    """Figures of the runs that were made; the trace is that of the relaxation if there is one."""
    traced = refined if relaxed is None else relaxed
    tally = context.tally
    return SolveStats(
        rank=plan.rank, init=init, formulation=context.config.formulation, backend=tally.ran,
        backend_reason=context.backend.reason, kernel=context.config.robust.kernel,
        iterations=tally.iterations, cg_steps=tally.cg_steps,
        cg_stops={stop.value: tally.cg_stops[stop] for stop in CGStop},
        seconds=dict(tally.seconds),
        cost_relaxed=None if relaxed is None else relaxed.cost,
        trace=() if traced is None else tuple(traced.trace), plan=plan.described())


def _finished(estimate: Estimate, status: SolveStatus, stats: SolveStats) -> SolveResult:
    if not is_finite(estimate):
        return SolveResult(
            None, SolveStatus.FAILED,
            'the solution is not finite: weights differ too much in scale, or a variable is '
            'determined by no measurement', replace(stats, cost_final=None))
    return SolveResult(estimate, status, status.advice, stats)
