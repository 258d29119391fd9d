"""One solve from a graph to a trajectory: plan, relax, round, refine, certify."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from dataclasses import replace

import numpy as np

from ..array_types import Array
from ..config import SolverConfig, SolverError
from ..graph import Estimate, Graph
from ..graph import cost as graph_cost
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

    With `initial` the solve is a rank-d refinement from it. `progress(stage, iteration, cost)` is
    called at every accepted step. Raises SolverError or GraphError when the problem is ill-posed;
    running out of iterations or time is no error: the best iterate comes back with its status.
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

    def limited(config: SolverConfig) -> SolverConfig:
        left = max(config.time_limit_s - (time.monotonic() - begin), _LEAST_S)
        return replace(config, time_limit_s=left) if config.time_limit_s > 0 else config

    if known:
        other = solve(
            _freed(graph), limited(replace(config, certify=False)), progress=progress)
    else:
        other = solve(
            graph, limited(replace(
                config, certify=False, robust=replace(config.robust, kernel='none'))),
            progress=progress)
    start = other.estimate
    if start is None:
        return first
    if known:
        start = _onto_known(graph, start)
    second = solve(graph, limited(config), initial=start, progress=progress)
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
