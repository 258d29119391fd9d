"""`~/status` and `/diagnostics`: one look says what arrives, what is solved and what is missing."""

from __future__ import annotations

import math
import resource
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from ..backend.session.audited_map import NOTHING
from ..backend.session.solution import Fix, Location, Solution
from ..config.option import flat
from ..msg import SolverStatus
from ..solver.result import SolveStatus
from .alarms import Alarms
from .callbacks import CallbackTimes
from .messages import NO_EVENTS, STATUS, time_message
from .picture import sigmas
from .pipeline import Pipeline
from .publishers import Publishers
from .subscriptions import Subscriptions

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
MOST_TEXT = 600
"""Characters of the text of `~/status`: what a terminal shows in a few lines."""
LONG_CALLBACK_S = 0.02
"""From when the longest callback is a warning."""
BEGUN_ANEW = 'its odometry has begun anew, and no solve has placed it since'
STATE_NAMES = {getattr(SolverStatus, f'STATE_{name.upper()}'): name for name in (
    'waiting', 'running', 'paused', 'degraded', 'error')}


class StatusPublisher:
    """Publishes the whole state of the node as one message, and as `diagnostic_msgs`."""

    def __init__(
        self, node: Node, pipeline: Pipeline, inputs: Subscriptions, outputs: Publishers,
        alarms: Alarms, times: CallbackTimes,
    ) -> None:
        self._node, self._pipeline = node, pipeline
        self._inputs, self._outputs, self._alarms, self._times = inputs, outputs, alarms, times
        self._status = node.create_publisher(
            SolverStatus, '~/status', STATUS, event_callbacks=NO_EVENTS)
        self._diagnostics = node.create_publisher(
            DiagnosticArray, '/diagnostics', STATUS, event_callbacks=NO_EVENTS)

    def report(self, latency_s: float) -> None:
        """Publish `~/status`; `latency_s` is the age of the newest solution's data when it came."""
        pipeline, alarms = self._pipeline, self._alarms
        solution, worker = pipeline.solution, pipeline.worker.state
        message = SolverStatus()
        message.header.stamp = self._now()
        message.header.frame_id = pipeline.config.frames.map
        message.state = self._state()
        self._add_robots(message)
        for name, count in self._sizes().items():
            setattr(message, name, count)
        counters = pipeline.frontend.counters
        message.received, message.dropped = counters.received, counters.dropped
        lost = {item.topic: item.lost for item in self._inputs.inputs.values() if item.lost}
        message.lost_topics, message.lost_counts = list(lost), list(lost.values())
        message.solving = worker.busy
        message.worker_restarts = worker.restarts
        message.callback_errors = sum(self._times.errors.values())
        message.latency, message.map_epoch = latency_s, pipeline.epoch
        message.solution_age_s = alarms.staleness.solution_age_s
        message.data_age_s = alarms.staleness.data_age_s
        message.findings = [finding.text for finding in alarms.findings]
        message.rulings = [ruling.words for ruling in pipeline.rulings.entries]
        self._add_solution(message)
        texts = [*message.findings, *message.rulings]
        if solution is not None and not pipeline.follows(pipeline.rulings.revision):
            texts.append('the map does not follow the operator yet')
        if worker.restarting:
            texts.insert(0, worker.text)
        elif worker.auditor_missing and worker.auditor_missing not in texts:
            texts.append(worker.auditor_missing)
        if solution is not None and not _as_good_as_solved(solution):
            texts.append(f'{solution.message} {solution.status.advice}')
        message.text = joined(texts)
        self._status.publish(message)

    def _sizes(self) -> dict[str, int]:
        """Of everything handed to the solver, and of what no solution includes yet; named as the
        fields of `SolverStatus`."""
        graph = self._pipeline.graph
        return {
            'keyframes': graph.n_poses, 'ranges': len(graph.ranges),
            'closures': int(np.sum(~graph.relative_poses.odometry)),
            'sightings': len(graph.sightings), 'waiting': self._pipeline.handed.waiting,
            'beacons': len(graph.landmarks)}

    def _now(self) -> Any:
        return time_message(self._node.get_clock().now().nanoseconds)

    def _state(self) -> int:
        """The state that `~/status` reports."""
        solution, worker = self._pipeline.solution, self._pipeline.worker.state
        findings = self._alarms.findings
        if worker.restarting and worker.restarts:
            return int(SolverStatus.STATE_ERROR)
        if self._pipeline.paused:
            return int(SolverStatus.STATE_PAUSED)
        if any(finding.kind == 'solve_failed' for finding in findings):
            return int(SolverStatus.STATE_ERROR)
        if solution is None:
            return int(SolverStatus.STATE_WAITING)
        if solution.status is SolveStatus.FAILED:
            return int(SolverStatus.STATE_ERROR)
        if findings or not _as_good_as_solved(solution):
            return int(SolverStatus.STATE_DEGRADED)
        return int(SolverStatus.STATE_RUNNING)

    def _add_robots(self, message: SolverStatus) -> None:
        solution, config = self._pipeline.solution, self._pipeline.config
        known = dict.fromkeys(config.robots, ('unlocated', 'no solution yet'))
        fixes: Mapping[str, Fix] = {}
        covariances = protection = None
        if solution is not None:
            known.update({r.robot: (r.location.value, r.missing) for r in solution.robots})
            fixes = solution.fixes
            covariances, protection = solution.covariances, solution.protection
        anew = dict.fromkeys(filter(self._outputs.begun_anew, known))
        known.update(dict.fromkeys(anew, (Location.UNLOCATED.value, BEGUN_ANEW)))
        fixes = {**fixes, **dict.fromkeys(anew, Fix.NONE)}
        message.robots = len(known)
        message.robots_located = sum(
            state == Location.LOCATED.value for state, _ in known.values())
        message.robot_names = list(known)
        message.robot_states = [state for state, _ in known.values()]
        message.robot_missing = [missing for _, missing in known.values()]
        message.robot_fix = [int(fixes.get(robot, Fix.NONE)) for robot in known]
        message.robot_correction_m = [
            self._outputs.corrections_m.get(robot, math.nan) for robot in known]
        both = [sigmas(None if robot in anew else covariances, robot) for robot in known]
        message.robot_sigma_m = [position for position, _ in both]
        message.robot_sigma_rad = [rotation for _, rotation in both]
        levels = [(math.inf, math.nan) if protection is None or robot in anew
                  else protection.of(robot) for robot in known]
        message.robot_protection_m = [horizontal for horizontal, _ in levels]
        message.robot_protection_z_m = [vertical for _, vertical in levels]
        message.alert_limit_m = config.backend.observability.alert_limit_m
        message.integrity_risk = config.backend.integrity.risk
        message.covariance_gauge = '' if covariances is None else covariances.gauge
        message.variance_factor = (
            math.nan if covariances is None else covariances.variance_factor)

    def _add_solution(self, message: SolverStatus) -> None:
        """What the newest solve gave, and how good the map is: what the auditor proves, or a
        tick's own certificate."""
        solution, bound = self._pipeline.solution, self._pipeline.worker.bound
        message.cost = message.cost_relaxed = math.nan
        message.suboptimality = message.lower_bound = message.bound_age_s = math.nan
        message.optimality = NOTHING
        if bound is not None:
            message.certified, message.suboptimality = bound.certified, bound.suboptimality
            message.lower_bound, message.optimality = bound.lower, bound.words
        if solution is None:
            return
        stats = solution.stats
        message.rejected = len(solution.rejected)
        if stats.cost_final is not None:
            message.cost = float(stats.cost_final)
        if stats.cost_relaxed is not None:
            message.cost_relaxed = float(stats.cost_relaxed)
        message.iterations = stats.iterations
        message.solve_seconds = solution.seconds
        message.full_solve = solution.full
        message.noise_sources = list(solution.noise)
        message.noise_factors = list(solution.noise.values())
        if bound is not None:
            message.bound_age_s = max(
                0.0, (solution.newest_stamp_ns - bound.newest_stamp_ns) * 1e-9)
        if stats.suboptimality is not None:
            message.certified = bool(stats.certified)
            message.suboptimality = stats.suboptimality

    def diagnose(self) -> None:
        """Publish inputs, graph, solver and callbacks."""
        pipeline, times, findings = self._pipeline, self._times, self._alarms.findings
        solution, worker = pipeline.solution, pipeline.worker.state
        state = STATE_NAMES[self._state()]
        greatest_s, slowest = times.greatest()
        name = self._node.get_fully_qualified_name().lstrip('/')
        message = DiagnosticArray(status=[
            _status(f'{name}: inputs', WARN if findings else OK,
                    joined([finding.text for finding in findings]) or 'receiving',
                    {**self._inputs.summary(), **dict(flat(pipeline.frontend.counters.as_dict()))}),
            _status(f'{name}: graph', OK, state, {
                **self._sizes(),
                # Everything received is in the newest solution, and no solve is under way.
                'settled': pipeline.flushed and pipeline.up_to_date and worker.settled,
            }),
            _status(f'{name}: solver', ERROR if state == 'error' else OK, worker.text, {
                # Data are kept from the first message on; robots are located after an audit.
                'ready': not worker.restarting and not worker.auditor_missing,
                'auditor': worker.auditor_missing or 'running',
                'solving': worker.busy,
                'restarts': worker.restarts, 'pid': worker.pid,
                'journal': pipeline.recording.path or 'none',
                'max_rss_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                **({} if solution is None else {'status': solution.status.value, **{
                    name: getattr(solution.stats, name) for name in (
                        'backend', 'backend_reason', 'kernel', 'iterations', 'cost_final')}}),
            }),
            _status(f'{name}: callbacks',
                    WARN if greatest_s > LONG_CALLBACK_S or times.errors else OK,
                    f'longest {1e3 * greatest_s:.1f} ms ({slowest})',
                    {**{f'{kind}.{key}': f'{value:.3f}' for kind, row in times.summary().items()
                        for key, value in row.items()},
                     **{f'{kind}.errors': count for kind, count in times.errors.items()}}),
        ])
        message.header.stamp = self._now()
        self._diagnostics.publish(message)


def _as_good_as_solved(solution: Solution) -> bool:
    """Whether an operator need not hear how a solve ended: where no step lowers the cost any more,
    only rounding errors keep the gradient above its tolerance."""
    return solution.status.solved or solution.status is SolveStatus.STALLED


def _status(name: str, level: bytes, text: str, values: Mapping[str, Any]) -> DiagnosticStatus:
    return DiagnosticStatus(
        level=level, name=name, message=text, hardware_id=name.partition(':')[0],
        values=[KeyValue(key=str(key), value=str(value)) for key, value in values.items()])


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
