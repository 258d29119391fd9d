"""A bag through the node's own front-end and back-end at full speed: no ROS, no clock, no chance.

Data go in in bag order; a solve follows every `backend.replay_solve_period_s` of bag time, and
one from scratch ends the run. Only data time decides, so two runs give the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...config import FormatError
from ...config.sparser import SparserConfig
from ...frontend import Frontend, Inputs
from ...frontend.inputs import MEASURING, topic_findings
from ...graph import Graph, Increment, range_residuals
from ...graph.finding import Finding
from ...graph.parts import extract
from ...io import report
from ...io.availability import Availability, StatedPose
from ...io.bag import BagReader
from ..calibrate.antennas_and_clocks import LeverRow, calibration_with_places
from ..calibrate.results import calibrated_config
from ..calibrate.self_calibration import SelfCalibration
from ..session.audited_map import NOTHING, significance
from ..session.graph_store import possible, thinned
from ..session.session import Session
from ..session.solution import Fix, Location, Solution
from .truth import TruthTrack, compare, tracks_of, uncovered

Progress = Callable[[float, Solution | None], None]
"""Called with the share of the bag that is read, and the newest solution."""


@dataclass
class Replay:
    """The state of a run, and its outcome after `run`."""

    config: SparserConfig
    frontend: Frontend
    session: Session
    solution: Solution | None = None
    messages: int = 0
    unused_topics: tuple[str, ...] = ()
    bag_faults: tuple[str, ...] = ()
    """What of the bag cannot be read, in words."""
    topics: dict[str, str] = field(default_factory=dict)
    """Topics of the bag that have messages, with their types."""
    increments: list[Increment] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry per solve: data time, cost, full or warm, located robots."""
    tracks: dict[str, TruthTrack] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    availability: Availability = field(default_factory=Availability)

    @property
    def graph(self) -> Graph:
        return self.session.graph

    @property
    def measured(self) -> Graph:
        """`graph`, with ranges from which no bias of a radio is taken."""
        return self.session.radio_errors.put_back(self.session.graph)

    def solve(self, data_s: float, *, full: bool | None = None, flush: bool = False) -> None:
        """Hand over what the front-end has and solve; nothing happens without new data."""
        increment = self.frontend.take(flush=flush)
        if increment is not None:
            self.session.add(increment)
            self.increments.append(increment)
        elif not flush:
            return
        if self.session.sequence < 0:
            return
        solution = self.solution = self.session.solve(full)
        if increment is not None and self._thin(solution):
            solution = self.solution = self.session.solve(False)
        located = [r.robot for r in solution.robots if r.location is Location.LOCATED]
        self.history.append({
            'data_s': data_s, 'cost_final': solution.stats.cost_final, 'full': solution.full,
            'status': solution.status.value, 'located': located, 'seconds': solution.seconds})
        self._note(data_s, solution)

    def _note(self, data_s: float, solution: Solution) -> None:
        """Who has which fix, and the newest poses with it."""
        graph, fixes, known = self.graph, solution.fixes, solution.covariances
        self.availability.note(data_s, fixes)
        if known is None or not self.tracks:
            return
        d, stamps, place = graph.dimension, graph.poses.stamp_ns, solution.estimate.translation
        paths, newest = {}, []
        for robot, fix in fixes.items():
            covariance = known.of(robot)
            if fix is Fix.NONE or covariance is None:
                continue
            rows = graph.pose_rows(graph.robots.index(robot))
            paths[robot] = stamps[rows], place[rows]
            newest.append(StatedPose(
                robot, fix, int(stamps[rows[-1]]), place[rows[-1]], covariance[:d, :d]))
        self.availability.draw(paths, newest)

    def _thin(self, solution: Solution) -> bool:
        """Thin the graph where it has too many keyframes, as the node does."""
        drop = self.frontend.thin() if possible(solution.quarantined) else None
        if drop is None:
            return False
        step = thinned(self.increments, drop, self.config.keyframes.thinned_per_pair,
                       solution.quarantined)
        self.increments = [step.increment]
        self.session.thin(step.increment, step.renumbering)
        return True


def run(
    path: Path | str, config: SparserConfig, progress: Progress | None = None
) -> Replay:
    """Replay a bag; raises FormatError when it cannot be read or holds none of our topics."""
    begin = time.perf_counter()
    bag = BagReader(path)
    state = Replay(config, Frontend(config), Session(config), topics={
        topic: kind for topic, kind in bag.topics.items() if bag.counts[topic]})
    inputs = Inputs(config)
    routes = {topic: inputs.match(topic, kind) for topic, kind in bag.topics.items()}
    truth = {topic: robot for robot, topic in config.backend.truth_topics.items()}
    state.tracks = tracks_of(bag, config)
    state.unused_topics = tuple(sorted(
        topic for topic, route in routes.items() if route is None and topic not in truth))
    wanted = [topic for topic in bag.topics if topic not in state.unused_topics]
    if not any(routes.values()):
        raise FormatError(path, None, (
            'no topic of this bag is an input of the configuration; it has '
            f'{", ".join(sorted(bag.topics)[:12]) or "no topics"}: see odometry.topic and '
            f'ranges.inputs, or draft one: sparser info {path} --config NEW.yaml'))
    period_ns = int(config.backend.replay_solve_period_s * 1e9)
    due_ns = bag.start_ns + period_ns
    span = max(bag.end_ns - bag.start_ns, 1)
    for message in bag.messages(wanted):
        if message.bag_time_ns >= due_ns:
            state.solve((due_ns - bag.start_ns) * 1e-9)
            due_ns += period_ns * (1 + (message.bag_time_ns - due_ns) // period_ns)
            if progress is not None:
                progress((message.bag_time_ns - bag.start_ns) / span, state.solution)
        state.messages += 1
        route = routes[message.topic]
        if route is not None:
            state.frontend.feed(
                route, bytes(message.raw), message.bag_time_ns, lambda *_: message.msg)  # noqa: B023
        if message.topic in truth:
            # What cannot be read is not compared, which is told.
            with suppress(FormatError):
                state.tracks[truth[message.topic]].add(message.msg, message.bag_time_ns)
    state.bag_faults = tuple(bag.faults)
    state.solve(span * 1e-9, flush=True)
    state.solve(span * 1e-9, flush=True, full=True)
    if progress is not None:
        progress(1.0, state.solution)
    state.seconds['total'] = time.perf_counter() - begin
    return state


def run_calibrated(
    path: Path | str, config: SparserConfig, progress: Progress | None = None
) -> tuple[Replay, SelfCalibration | None, tuple[LeverRow, ...]]:
    """Replay a bag as `calibration.mode` says: once, or again with the radios calibrated.

    The second run has the biases in its configuration, and the lever arms of the robots in the last
    result, whose antennas stand elsewhere, as the node would after a calibration.
    """
    state = run(path, config, progress)
    if config.calibration.mode == 'none' or state.solution is None:
        return state, None, ()
    graph = heard_part(state.measured, state.solution)
    if not len(graph.ranges):
        return state, None, ()
    sigmas = significance(config.calibration, graph)
    # From scratch: beacons that are not located have no place to start from.
    *_, end = calibration_with_places(graph, None, config.calibration, config.solver, sigmas)
    assert end is not None
    calibration, places = end
    moved = () if calibration.doubted else tuple(
        row for row in places.antennas if row.significant(sigmas))
    noisy = config.calibration.sigma == 'estimate' and calibration.noise is not None
    if config.calibration.mode == 'report' or not (
            calibration.applied or noisy or any(row.to_move(sigmas) for row in moved)):
        return state, calibration, moved
    calibrated = calibrated_config(config, calibration, noise=noisy, levers=moved)
    return run(path, calibrated, progress), calibration, moved


def heard_part(graph: Graph, solution: Solution) -> Graph:
    """The robots that have a place in map and every beacon that they range to.

    A beacon that is not located counts: for biases its ranges tell as much.
    """
    where = {robot.robot: robot.location for robot in solution.robots}
    placed = np.array([
        where.get(name, Location.UNLOCATED).placed for name in graph.robots], dtype=bool)
    poses = placed[graph.poses.robot]
    ranges = graph.ranges
    heard = np.zeros(graph.n_landmarks, dtype=bool)
    for near, far in ((ranges.source, ranges.target), (ranges.target, ranges.source)):
        to_beacon = (near >= 0) & (far < 0)
        heard[~far[to_beacon]] |= poses[near[to_beacon]]
    return extract(graph, poses, heard).graph


def findings_of(state: Replay) -> tuple[Finding, ...]:
    """What the node would say of bag, configuration, sources of data and map; each fault once."""
    frontend, solution = state.frontend, state.solution
    every = (
        *(Finding('bag', text, text) for text in state.bag_faults),
        *topic_findings(
            Inputs(state.config), state.topics,
            tuple(state.config.backend.truth_topics.values())),
        *(Finding('truth', text, text) for text in uncovered(state.graph, state.tracks)),
        *frontend.findings,
        *(finding for _, finding in frontend.events),
        *(() if solution is None else solution.findings))
    unique: dict[tuple[str, str], Finding] = {}
    for finding in every:
        unique.setdefault((finding.kind, finding.subject), finding)
    return tuple(unique.values())


def nothing_measured(state: Replay) -> str:
    """Why the map is odometry alone, in words; '' where something was measured."""
    counts = state.frontend.counters.as_dict()
    kinds = {kind: counts[kind] for kind in MEASURING}
    if any(tally['accepted'] for tally in kinds.values()):
        return ''
    refused = [
        f'{tally["received"]} {kind} received, all refused ('
        + ', '.join(f'{reason}: {count}' for reason, count in tally['dropped'].items()) + ')'
        for kind, tally in kinds.items() if tally['received']]
    why = '; '.join(refused) or (
        'no topic of the bag is an input for ranges, sightings, closures or fixes')
    return (f'nothing was measured beside odometry: {why}. Compare ranges.inputs, '
            'sightings.inputs, closures.inputs and radios of the configuration with the topics of '
            'the bag')


def undetermined_robots(state: Replay) -> list[str]:
    """Robots that have no place in map, or two, each with what is missing."""
    if state.solution is None:
        return []
    return [
        f'{robot.robot}: {robot.missing or "not connected to the others"}'
        for robot in state.solution.robots if not robot.location.placed]


def report_of(state: Replay, dataset: str) -> dict[str, Any]:
    """The fields of a report of the last solution, and what only a replay knows."""
    solution, graph = state.solution, state.graph
    if solution is None:
        raise FormatError(dataset, None, 'the bag holds no usable odometry: nothing was solved')
    result = report.build(
        graph, solution.stats, solution.status, estimate=solution.estimate,
        message=solution.message, dataset=dataset, seconds=state.seconds,
        rejected=[{
            'index': rejected.index, 'type': rejected.type, 'from': rejected.source,
            'to': rejected.target, 'weight': rejected.weight,
            'whitened_residual': rejected.whitened_residual} for rejected in solution.rejected])
    truth = compare(graph, solution, state.tracks, state.availability)
    bound = state.session.bound
    if bound is not None:
        result.update({'certified': bound.certified, 'suboptimality': bound.suboptimality})
    result.update({
        'optimality': NOTHING if bound is None else bound.words,
        'ate_m': truth.get('ate_m'),
        'ate_rmse_m': truth.get('ate_rmse_m'),
        'messages': state.messages,
        'counts': state.frontend.counters.as_dict(),
        'unused_topics': list(state.unused_topics),
        'locations': {
            robot.robot: {'location': robot.location.value, 'missing': robot.missing}
            for robot in solution.robots},
        'beacons': {
            name: {'located': bool(located), 'position': position.tolist() if located else None}
            for name, located, position in zip(
                graph.landmarks.names, solution.landmark_located, solution.estimate.landmarks,
                strict=True)},
        'range_residuals_m': range_statistics(graph, solution),
        'left_out': len(state.session.whole.ranges) - len(graph.ranges),
        'truth': truth or None,
        'fix_share': state.availability.shares,
        'noise': solution.noise,
        'solves': state.history,
    })
    return result


def range_statistics(graph: Graph, solution: Solution) -> dict[str, float | int] | None:
    """Residuals (predicted minus measured) of the ranges between located things, metres."""
    located = np.array([
        robot.location.placed for robot in solution.robots], dtype=bool)
    point = np.concatenate([located[graph.poses.robot], solution.landmark_located])
    ends = graph.points(graph.ranges.source), graph.points(graph.ranges.target)
    both = point[ends[0]] & point[ends[1]] if len(graph.ranges) else np.zeros(0, dtype=bool)
    if not np.any(both):
        return None
    residual = range_residuals(graph, solution.estimate)[both]
    whitened = residual * np.sqrt(graph.ranges.precision[both])
    absolute = np.abs(residual)
    return {
        'count': int(np.sum(both)), 'left_out': int(np.sum(~both)),
        'mean': float(np.mean(residual)), 'median': float(np.median(residual)),
        'rms': float(np.sqrt(np.mean(residual**2))),
        'median_absolute': float(np.median(absolute)),
        'p95_absolute': float(np.percentile(absolute, 95)), 'max_absolute': float(absolute.max()),
        'rms_whitened': float(np.sqrt(np.mean(whitened**2))),
    }

