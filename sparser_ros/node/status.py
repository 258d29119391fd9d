"""`~/status` and `/diagnostics`: one look says what arrives, what is solved and what is missing."""

from __future__ import annotations

import math
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from ..backend.session.bound import NOTHING
from ..backend.session.solution import Fix, Location, Solution
from ..config.option import flat
from ..graph.finding import Finding
from ..msg import SolverStatus
from ..solver.result import SolveStatus
from .callbacks import CallbackTimes
from .messages import time_message
from .picture import sigmas
from .pipeline import Pipeline

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
MOST_TEXT = 600
"""Characters of the text of `~/status`: what a terminal shows in a few lines."""
STATE_NAMES = {
    SolverStatus.STATE_WAITING: 'waiting',
    SolverStatus.STATE_RUNNING: 'running',
    SolverStatus.STATE_PAUSED: 'paused',
    SolverStatus.STATE_DEGRADED: 'degraded',
    SolverStatus.STATE_ERROR: 'error',
}


def totals(counters: Mapping[str, Any]) -> tuple[int, int]:
    """Messages received and refused over all kinds of input."""
    kinds = [kind for kind in counters.values() if isinstance(kind, Mapping)]
    received = sum(int(kind['received']) for kind in kinds)
    dropped = sum(sum(kind['dropped'].values()) for kind in kinds)
    return received, dropped


def state_of(pipeline: Pipeline, findings: Sequence[Finding]) -> int:
    """The state that `~/status` reports."""
    solution, worker = pipeline.solution, pipeline.worker.state
    if worker.restarting and worker.restarts:
        return int(SolverStatus.STATE_ERROR)
    if pipeline.paused:
        return int(SolverStatus.STATE_PAUSED)
    if any(finding.kind == 'solve_failed' for finding in findings):
        return int(SolverStatus.STATE_ERROR)
    if solution is None:
        return int(SolverStatus.STATE_WAITING)
    if solution.status.value == 'failed':
        return int(SolverStatus.STATE_ERROR)
    if findings or not _as_good_as_solved(solution):
        return int(SolverStatus.STATE_DEGRADED)
    return int(SolverStatus.STATE_RUNNING)


def _as_good_as_solved(solution: Solution) -> bool:
    """Whether an operator need not hear how a solve ended: where no step lowers the cost any more,
    only rounding errors keep the gradient above its tolerance."""
    return solution.status.solved or solution.status is SolveStatus.STALLED


@dataclass(frozen=True)
class Figures:
    """What the node itself knows beside its pipeline."""

    findings: tuple[Finding, ...] = ()
    """All that lasts, new ones first, then the worst."""
    latency_s: float = math.nan
    solution_age_s: float = math.nan
    data_age_s: float = math.nan
    epoch: int = 0
    corrections_m: Mapping[str, float] = field(default_factory=dict)
    """How far the newest solution moved each robot in `map`."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """Messages that the middleware lost, by topic."""
    errors: int = 0
    """Exceptions of callbacks."""


def status_message(pipeline: Pipeline, now_ns: int, figures: Figures) -> SolverStatus:
    """The whole state as one message."""
    message = SolverStatus()
    message.header.stamp = time_message(now_ns)
    message.header.frame_id = pipeline.config.frames.map
    message.state = state_of(pipeline, figures.findings)
    solution, counts, worker = pipeline.solution, pipeline.counts, pipeline.worker.state
    _add_robots(message, pipeline, figures.corrections_m)
    message.keyframes = counts.keyframes
    message.beacons = len(pipeline.keyframes.landmarks)
    message.ranges, message.closures = counts.ranges, counts.closures
    message.sightings = counts.sightings
    message.waiting = counts.waiting
    message.received, message.dropped = totals(pipeline.frontend.counters.as_dict())
    message.lost_topics = list(figures.lost)
    message.lost_counts = list(figures.lost.values())
    message.solving = worker.busy
    message.worker_restarts = worker.restarts
    message.callback_errors = figures.errors
    message.latency, message.map_epoch = figures.latency_s, figures.epoch
    message.solution_age_s, message.data_age_s = figures.solution_age_s, figures.data_age_s
    message.cost = message.cost_relaxed = math.nan
    message.findings = [finding.text for finding in figures.findings]
    message.rulings = [ruling.words for ruling in pipeline.rulings.entries]
    texts = [*message.findings, *message.rulings]
    if solution is not None and not pipeline.follows(pipeline.rulings.revision):
        texts.append('the map does not follow the operator yet')
    if worker.restarting:
        texts.insert(0, worker.text)
    elif worker.auditor_missing and worker.auditor_missing not in texts:
        texts.append(worker.auditor_missing)
    if solution is not None:
        _add_solution(message, solution)
        if not _as_good_as_solved(solution):
            texts.append(f'{solution.message} {solution.status.advice}')
    _add_bound(message, pipeline)
    message.text = joined(texts)
    return message


def _add_robots(
    message: SolverStatus, pipeline: Pipeline, corrections_m: Mapping[str, float]
) -> None:
    known = dict.fromkeys(pipeline.config.robots, ('unlocated', 'no solution yet'))
    if pipeline.solution is not None:
        known.update({r.robot: (r.location.value, r.missing) for r in pipeline.solution.robots})
    message.robots = len(known)
    message.robots_located = sum(
        state == Location.LOCATED.value for state, _ in known.values())
    message.robot_names = list(known)
    message.robot_states = [state for state, _ in known.values()]
    message.robot_missing = [missing for _, missing in known.values()]
    fixes = {} if pipeline.solution is None else pipeline.solution.fixes
    message.robot_fix = [int(fixes.get(robot, Fix.NONE)) for robot in known]
    message.robot_correction_m = [corrections_m.get(robot, math.nan) for robot in known]
    covariances = None if pipeline.solution is None else pipeline.solution.covariances
    both = [sigmas(covariances, robot) for robot in known]
    message.robot_sigma_m, message.robot_sigma_rad = [m for m, _ in both], [r for _, r in both]
    protection = None if pipeline.solution is None else pipeline.solution.protection
    levels = [(math.inf, math.nan) if protection is None else protection.of(robot)
              for robot in known]
    message.robot_protection_m = [flat for flat, _ in levels]
    message.robot_protection_z_m = [up for _, up in levels]
    backend = pipeline.config.backend
    message.alert_limit_m = backend.observability.alert_limit_m
    message.integrity_risk = backend.integrity.risk
    message.covariance_gauge = '' if covariances is None else covariances.gauge
    message.variance_factor = math.nan if covariances is None else covariances.variance_factor


def _add_solution(message: SolverStatus, solution: Solution) -> None:
    stats = solution.stats
    message.rejected = len(solution.rejected)
    message.cost = _number(stats.cost_final)
    message.cost_relaxed = _number(stats.cost_relaxed)
    message.iterations = stats.iterations
    message.solve_seconds = solution.seconds
    message.full_solve = solution.full


def _add_bound(message: SolverStatus, pipeline: Pipeline) -> None:
    """How good the map is: what the auditor proves, or a tick's own certificate."""
    solution, bound = pipeline.solution, pipeline.worker.bound
    message.suboptimality = message.lower_bound = message.bound_age_s = math.nan
    message.optimality = NOTHING
    if bound is not None:
        message.certified, message.suboptimality = bound.certified, bound.suboptimality
        message.lower_bound, message.optimality = bound.lower, bound.words
        if solution is not None:
            message.bound_age_s = max(
                0.0, (solution.newest_stamp_ns - bound.newest_stamp_ns) * 1e-9)
    if solution is not None and solution.stats.suboptimality is not None:
        message.certified = bool(solution.stats.certified)
        message.suboptimality = solution.stats.suboptimality


def diagnostics_message(
    pipeline: Pipeline, now_ns: int, name: str, times: CallbackTimes,
    findings: Sequence[Finding], inputs: Mapping[str, str], corrections_m: Mapping[str, float],
) -> DiagnosticArray:
    """Inputs, graph, solver and callbacks as `diagnostic_msgs`."""
    solution, worker = pipeline.solution, pipeline.worker.state
    counters = pipeline.frontend.counters.as_dict()
    state = STATE_NAMES[state_of(pipeline, findings)]
    words = joined([finding.text for finding in findings])
    greatest, slowest = times.greatest()
    bound = pipeline.worker.bound
    statuses = [
        _status(f'{name}: inputs', WARN if findings else OK,
                words or 'receiving', {**inputs, **dict(flat(counters))}),
        _status(f'{name}: graph', OK, state, {
            'keyframes': pipeline.counts.keyframes, 'ranges': pipeline.counts.ranges,
            'closures': pipeline.counts.closures, 'sightings': pipeline.counts.sightings,
            'waiting': pipeline.counts.waiting,
            'beacons': len(pipeline.keyframes.landmarks),
            'settled': settled(pipeline),
            **{f'correction_m.{robot}': f'{moved:.3f}'
               for robot, moved in sorted(corrections_m.items())},
            **_protection(solution),
        }),
        _status(f'{name}: solver', ERROR if state == 'error' else OK, worker.text, {
            # Data are kept from the first message on; robots are located once there are audits.
            'ready': not worker.restarting and not worker.auditor_missing,
            'auditor': worker.auditor_missing or 'running',
            'solving': worker.busy,
            'restarts': worker.restarts, 'pid': worker.pid,
            'optimality': NOTHING if bound is None else bound.words,
            **({} if solution is None else _figures(solution)),
        }),
        _status(f'{name}: callbacks', WARN if greatest > 0.02 or times.errors else OK,
                f'longest {1e3 * greatest:.1f} ms ({slowest})',
                {**{f'{kind}.{key}': f'{value:.3f}' for kind, row in times.summary().items()
                    for key, value in row.items()},
                 **{f'{kind}.errors': error.count for kind, error in times.errors.items()}}),
        _status(f'{name}: memory', OK, '', {
            'journal': pipeline.recording.path or 'none',
            'max_rss_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}),
    ]
    message = DiagnosticArray(status=statuses)
    message.header.stamp = time_message(now_ns)
    return message


def settled(pipeline: Pipeline) -> bool:
    """True when everything received is in the newest solution and no solve is under way."""
    return bool(pipeline.flushed and pipeline.up_to_date and pipeline.worker.state.settled)


def _protection(solution: Solution | None) -> dict[str, Any]:
    known = None if solution is None else solution.protection
    if known is None:
        return {}
    return {f'protection_m.{robot}': f'{level:.3f}' for robot, level in zip(
        known.robots, known.horizontal_m.tolist(), strict=True)}


def _figures(solution: Solution) -> dict[str, Any]:
    return {
        'status': solution.status.value, 'cost': solution.stats.cost_final,
        'iterations': solution.stats.iterations, 'seconds': f'{solution.seconds:.3f}',
        'full': solution.full, 'rejected': len(solution.rejected),
        'backend': solution.stats.backend, 'backend_reason': solution.stats.backend_reason,
        'rank': solution.stats.rank,
        'init': solution.stats.init, 'formulation': solution.stats.formulation,
        'kernel': solution.stats.kernel, 'cg_steps': solution.stats.cg_steps,
        **{key: f'{value:.6g}' for key, value in solution.extra.items()},
    }


def _status(name: str, level: bytes, text: str, values: Mapping[str, Any]) -> DiagnosticStatus:
    return DiagnosticStatus(
        level=level, name=name, message=text, hardware_id=name.partition(':')[0],
        values=[KeyValue(key=str(key), value=str(value)) for key, value in values.items()])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def joined(texts: Sequence[str], most: int = MOST_TEXT) -> str:
    """The texts in one line, the last ones left out (and counted) where it would be too long."""
    line = ''
    for number, text in enumerate(texts):
        longer = f'{line}; {text}' if line else text
        if len(longer) > most:
            rest = len(texts) - number
            cut = line or text[:most]
            return f'{cut}; and {rest} more' if line else cut
        line = longer
    return line
