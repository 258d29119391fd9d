"""Hazardously misleading information over simulated recordings with one fault each, without ROS.

A robot-second is misleading when the robot is `located` and its newest pose is further from the
truth than the alert limit. It is silent when neither front-end nor solution lists a finding. An
event is an interval of misleading seconds of one robot that lasts longer than the time to alert.
True errors against protection levels make a Stanford diagram (stanford.png), of real sets as well.
`python -m benchmark.integrity [--faults gross burst] [--seeds 20] [--sets tiers plaza2]`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from sparser_ros.array_types import Array, Index
from sparser_ros.backend.replay.prospects import prospects
from sparser_ros.backend.replay.replay import Replay
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, Solution
from sparser_ros.frontend import Frontend
from sparser_ros.graph import Graph
from sparser_ros.io.simulation import START_NS
from sparser_ros.io.stamp_text import SECOND
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.linalg.rotations import align

from . import arguments, stanford
from .datasets import chosen, directory
from .scenarios import FAULTS, Scenario, scenario
from .table import Table, run_main

ALERT_LIMIT_M = 1.0
"""Position error above which a located robot is misleading."""
TIME_TO_ALERT_S = 3.0
"""Longest misleading interval that does not count as an event."""
TICK_S = 1.0
"""Time between two solves, in data time."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Outcome:
    """Result of one recording, in robot-seconds."""

    fault: str
    seed: int
    seconds: float
    located: float
    bound: float
    """Robot-seconds for which the information of the data lets robots be located at best."""
    misleading: float
    silent: float
    events: int
    """Misleading intervals longer than the time to alert."""
    named: bool | None
    """Whether a culprit was named; None where there is none."""
    points: tuple[tuple[float, float], ...]
    """(horizontal error, m; protection level, m) of located robots at every tick."""


def errors_of(made: Scenario, state_rows: dict[str, tuple[Array, Array]]) -> dict[str, float]:
    """Error of each robot's newest pose under the alignment that most robots agree on, m."""
    d = made.run.config.dimension
    frames = [(np.eye(d), np.zeros(d))]
    if not made.anchored:
        frames = [align(path, truth) for path, truth in state_rows.values() if len(path) > d]
    best: dict[str, Array] = {}
    for rotation, shift in frames:
        errors = {
            robot: np.linalg.norm(path @ rotation.T + shift - truth, axis=1)
            for robot, (path, truth) in state_rows.items()}
        if not best or _middle(errors) < _middle(best):
            best = errors
    return {robot: float(error[-1]) for robot, error in best.items()}


def _middle(errors: dict[str, Array]) -> float:
    return float(np.median([np.median(error) for error in errors.values()]))


def level_errors(
    made: Scenario, solution: Solution, graph: Graph, paths: dict[str, tuple[Array, Array]],
) -> dict[str, float]:
    """Horizontal error of each robot's newest position in the frame that levels refer to, m.

    Without known positions that is the map as a whole; where that is too little, where the gauge
    robot truly was at its first pose.
    """
    errors = start_errors(made, solution, graph.poses.robot, graph.poses.stamp_ns, paths)
    if solution.anchored:
        return errors
    names = graph.landmarks.names
    true_place = dict(zip(made.run.beacon_names, made.run.beacons, strict=True))
    places = {name: path[-1] for name, (path, _) in paths.items()}
    places.update(zip(names, solution.estimate.landmarks, strict=False))
    truth = {name: true[-1] for name, (_, true) in paths.items()} | true_place
    beside = {name: stanford.error_of(name, solution, names, places, truth) for name in paths}
    return {name: errors[name] if one is None else one for name, one in beside.items()}


def start_errors(
    made: Scenario, solution: Solution, robot: Index, stamps: Index,
    paths: dict[str, tuple[Array, Array]],
) -> dict[str, float]:
    """Horizontal error of each robot's newest position relative to the gauge robot's start, m."""
    turn, shift = np.eye(made.run.config.dimension), np.zeros(made.run.config.dimension)
    gauge = None if solution.covariances is None else next((
        name for name in made.run.robots
        if solution.covariances.gauge.endswith(f'the start of {name}')), None)
    if gauge is not None:
        number = made.run.robots.index(gauge)
        first = int(np.flatnonzero(robot == number)[0])
        at = (stamps[first:first + 1] - START_NS) / SECOND
        true_turn, true_place = made.run.motions[number].poses(at)
        turn = true_turn[0] @ solution.estimate.rotation[first].T
        shift = true_place[0] - turn @ solution.estimate.translation[first]
    return {
        name: float(np.linalg.norm((turn @ path[-1] + shift - truth[-1])[:2]))
        for name, (path, truth) in paths.items()}


def paths_of(made: Scenario, solution: Solution, robot: Index, stamps: Index
             ) -> dict[str, tuple[Array, Array]]:
    """(path, truth) of every located robot: positions (k, d) of its keyframes."""
    count = len(solution.estimate.translation)
    rows: dict[str, tuple[Array, Array]] = {}
    for item in solution.robots:
        if item.location is not Location.LOCATED:
            continue
        number = made.run.robots.index(item.robot)
        own = np.flatnonzero(robot[:count] == number)
        truth = made.run.positions(item.robot, stamps[own])
        rows[item.robot] = (solution.estimate.translation[own], truth)
    return rows


def judged(fault: str, seed: int, minutes: float) -> Outcome:
    """Play one recording and compare it with the truth."""
    return outcome_of(scenario(fault, seed, minutes), seed)


def outcome_of(made: Scenario, seed: int) -> Outcome:
    """Play a recording and compare it with the truth."""
    with single_threaded_blas():
        state = Replay(made.config, Frontend(made.config), Session(made.config))
        return _compared(made, state, seed)


def _compared(made: Scenario, state: Replay, seed: int) -> Outcome:
    located = misleading = silent = 0.0
    events, named = 0, False
    since: dict[str, float] = dict.fromkeys(made.run.robots, 0.0)
    points: list[tuple[float, float]] = []
    due = START_NS + int(TICK_S * SECOND)
    for sample in made.samples:
        while sample.received_ns >= due:
            state.solve((due - START_NS) / SECOND)
            due += int(TICK_S * SECOND)
            solution = state.solution
            if solution is None:
                continue
            texts = [finding.text for finding in (*state.frontend.findings, *solution.findings)]
            named = named or any(
                re.search(rf'\b{culprit}\b', text) for culprit in made.culprits for text in texts)
            poses = state.graph.poses
            paths = paths_of(made, solution, poses.robot, poses.stamp_ns)
            errors = errors_of(made, paths)
            beside = level_errors(made, solution, state.graph, paths)
            for robot in made.run.robots:
                error = errors.get(robot, 0.0)
                located += TICK_S * (robot in errors)
                if robot in errors and solution.protection is not None:
                    points.append((beside[robot], solution.protection.of(robot)[0]))
                if error <= ALERT_LIMIT_M:
                    since[robot] = 0.0
                    continue
                misleading += TICK_S
                silent += TICK_S * (not texts)
                since[robot] += TICK_S
                events += since[robot] == TIME_TO_ALERT_S + TICK_S
        state.frontend.add(sample)
    return Outcome(
        made.fault, seed, made.run.duration_s * len(made.run.robots), located,
        _bound(made, state), misleading, silent,
        events, named if made.culprits else None, tuple(points))


def _bound(made: Scenario, state: Replay) -> float:
    """Robot-seconds; measurements that are rejected count as well."""
    if state.solution is None or not state.graph.n_poses:
        return 0.0
    best = prospects(state.graph, state.solution.estimate, {}, state.graph.poses.stamp_ns,
                     made.config.backend)
    return best.share() * made.run.duration_s * len(made.run.robots)


def upper_rate(events: int, hours: float) -> float:
    """Upper confidence bound of a Poisson rate per hour (Garwood 1936)."""
    return float(chi2.ppf(CONFIDENCE, 2 * (events + 1)) / (2 * hours)) if hours else float('inf')


def main(argv: Sequence[str] | None = None) -> int:
    made = arguments.parser('integrity', __doc__ or '', seeds=5)
    made.add_argument('--faults', nargs='*', choices=list(FAULTS), default=list(FAULTS))
    made.add_argument('--first-seed', type=int, default=0)
    made.add_argument('--minutes', type=float, default=2.5, help='length of a recording')
    made.add_argument('--jobs', type=int, default=1, help='processes side by side')
    made.add_argument('--ticks', type=int, default=300, help='solutions of a real set')
    args = made.parse_args(argv)
    table = Table('integrity', 'Misleading information by fault', {
        'fault': 'fault', 'recordings': 'recordings', 'hours': 'robot-hours',
        'located': 'located %', 'bound': 'at best %', 'misleading': 'misleading s',
        'silent': 'silent s', 'events': 'events longer than 3 s',
        'rate': 'events per robot-hour, below (95 %)',
        'named': 'culprit named',
    }, args.out)
    everything: list[Outcome] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for fault in args.faults:
            seeds = range(args.first_seed, args.first_seed + args.seeds)
            outcomes = list(pool.map(
                judged, [fault] * args.seeds, seeds, [args.minutes] * args.seeds))
            everything += outcomes
            table.add(row_of(fault, outcomes))
    panels = {
        'simulated, no fault': _points(o for o in everything if o.fault == 'clean'),
        'simulated, one fault': _points(o for o in everything if o.fault != 'clean')}
    if everything:
        table.add(row_of('all', everything))
        diagram(panels, args.out)
    for one in chosen(args.sets) if args.sets else ():
        panels[one.name] = stanford.played(directory(args.data) / one.file, args.ticks)
        diagram(panels, args.out)
    return 0


def _points(outcomes: Iterable[Outcome]) -> Array:
    return np.array([point for one in outcomes for point in one.points]).reshape(-1, 2)


def diagram(points: dict[str, Array], out: Path) -> None:
    """Table and picture of all panels that have epochs."""
    panels = {name: one for name, one in points.items() if len(one)}
    table = stanford.table(out)
    for name, one in panels.items():
        table.add(stanford.row_of(name, one, ALERT_LIMIT_M))
    stanford.picture(out / 'stanford.png', panels, ALERT_LIMIT_M)


def row_of(name: str, outcomes: list[Outcome]) -> dict[str, object]:
    seconds = sum(one.seconds for one in outcomes)
    events = sum(one.events for one in outcomes)
    known = [one.named for one in outcomes if one.named is not None]
    return {
        'fault': name, 'recordings': len(outcomes), 'hours': seconds / 3600,
        'located': 100 * sum(one.located for one in outcomes) / seconds,
        'bound': 100 * sum(one.bound for one in outcomes) / seconds,
        'misleading': sum(one.misleading for one in outcomes),
        'silent': sum(one.silent for one in outcomes), 'events': events,
        'rate': upper_rate(events, seconds / 3600),
        'named': f'{sum(known)} of {len(known)}' if known else None}


if __name__ == '__main__':
    run_main(main)
