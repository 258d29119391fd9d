"""Hazardously misleading information over simulated recordings with one fault each, without ROS.

A robot-second is misleading when the robot is `located` and its newest pose is further from the
truth than the alert limit. It is silent when neither front-end nor solution lists a finding. An
event is an interval of misleading seconds of one robot that lasts longer than the time to alert.
True errors are compared with protection levels, of real sets as well. `--audit-s 6`: on a computer
on which an audit takes 6 s, so that what it says is of older data.
`python -m benchmark.integrity [--faults gross burst] [--seeds 20] [--sets tiers plaza2]`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import betaincinv
from scipy.stats import chi2

from sparser_ros.array_types import Array, Index
from sparser_ros.backend.replay.prospects import prospects
from sparser_ros.backend.replay.replay import Replay
from sparser_ros.backend.session.scene import datum_of, relative_to
from sparser_ros.backend.session.session import Session
from sparser_ros.backend.session.solution import Location, Solution, Verdict, tracked_map
from sparser_ros.config.solver_config import LIVE_SOLVER
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend import Frontend
from sparser_ros.io import graph_file
from sparser_ros.io.graph_bag import pose_stamps
from sparser_ros.io.simulation import START_NS, Simulation
from sparser_ros.io.stamp_text import SECOND
from sparser_ros.linalg.process import single_threaded_blas
from sparser_ros.linalg.rotations import align

from . import stream
from .datasets import chosen, directory
from .scenarios import FAULTS, Scenario, scenario
from .table import Table, parser, run_main

ALERT_LIMIT_M = 1.0
"""Position error above which a located robot is misleading."""
TIME_TO_ALERT_S = 3.0
"""Longest misleading interval that does not count as an event."""
TICK_S = 1.0
"""Time between two solves, in data time."""
CONFIDENCE = 0.95
REGIONS = {
    'nominal': 'error <= level <= limit',
    'unavailable': 'error <= level, level > limit',
    'misleading': 'level < error <= limit',
    'misleading, unavailable': 'limit < level < error',
    'hazardous': 'level <= limit < error',
}


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


Paths = dict[str, tuple[Array, Array]]
"""Of located robots: (path, truth), positions (k, d) of their keyframes."""


def errors_of(made: Scenario, paths: Paths) -> dict[str, float]:
    """Error of each robot's newest pose under the alignment that most robots agree on, m."""
    d = made.run.config.dimension
    frames = [(np.eye(d), np.zeros(d))]
    if not made.anchored:
        frames = [align(path, truth) for path, truth in paths.values() if len(path) > d]
    best: dict[str, Array] = {}
    for rotation, shift in frames:
        errors = {
            robot: np.linalg.norm(path @ rotation.T + shift - truth, axis=1)
            for robot, (path, truth) in paths.items()}
        if not best or _middle(errors) < _middle(best):
            best = errors
    return {robot: float(error[-1]) for robot, error in best.items()}


def _middle(errors: dict[str, Array]) -> float:
    return float(np.median([np.median(error) for error in errors.values()]))


def level_errors(
    solution: Solution, names: Sequence[str], paths: Paths, beacons: Mapping[str, Array],
) -> dict[str, float]:
    """Horizontal error of each robot's newest position beside what its level is relative to, m.

    That are known positions, or the located beacons and the other robots; where these are too few,
    all poses of located robots so far. `names` are those of the landmarks of the graph, `beacons`
    true places.
    """
    d = solution.estimate.translation.shape[1]
    places = {name: path[-1] for name, (path, _) in paths.items()}
    places.update(zip(names, solution.estimate.landmarks, strict=False))
    truth = {name: true[-1] for name, (_, true) in paths.items()} | dict(beacons)
    located = [name for name, known in zip(names, solution.landmark_located, strict=False)
               if known]
    every = [np.concatenate(parts) for parts in zip(*paths.values(), strict=True)]
    errors: dict[str, float] = {}
    for robot in paths if solution.anchored or (paths and len(every[0]) > d) else ():
        datum = datum_of(robot, solution.robots, located)
        points = np.array([places[name] for name in datum])
        if solution.anchored:
            turn, shift = np.eye(d), np.zeros(d)
        elif len(datum) and relative_to(places[robot], points) is not None:
            turn, shift = align(points, np.array([truth[name] for name in datum]))
        else:
            turn, shift = align(*every)
        errors[robot] = float(np.linalg.norm(
            (turn @ places[robot] + shift - truth[robot])[:2]))
    return errors


def paths_of(
    solution: Solution, robots: Sequence[str], robot: Index, truth: Callable[[str, Index], Array]
) -> Paths:
    """`robot` (n,): numbers of the robots of all poses; `truth`: of a robot's rows, positions."""
    count = len(solution.estimate.translation)
    rows: Paths = {}
    for item in solution.robots:
        own = np.flatnonzero(robot[:count] == robots.index(item.robot))
        if item.location is Location.LOCATED and len(own):
            rows[item.robot] = solution.estimate.translation[own], truth(item.robot, own)
    return rows


def true_path(run: Simulation, stamps_ns: Index) -> Callable[[str, Index], Array]:
    """(robot, rows) -> (n, d): where a robot truly was, of poses at `stamps_ns`."""
    return lambda robot, rows: run.positions(robot, stamps_ns[rows])


class SlowSession(Session):
    """A session on a slow computer: an audit takes some ticks, and tells of the data before them.

    Ticks follow each other every `TICK_S`. None is forced to audit, and graphs are not thinned.
    """

    def __init__(self, config: SparserConfig, ticks: int) -> None:
        super().__init__(config)
        self._ticks, self._left = ticks, 0
        self._verdict: Verdict | None = None

    def solve(self, full: bool | None = None) -> Solution:
        self._left -= 1
        if self._verdict is not None and self._left <= 0:
            self.tracker.adopt(self.auditor.caught_up(self._verdict))
            self._verdict = None
        solution = self.tracker.solve()
        if self._verdict is None and self.auditor.due(solution.doubt):
            self._verdict = self.auditor.audit(tracked_map(solution))
            self._left = self._ticks
        return solution


def judged(fault: str, seed: int, minutes: float, audit_s: int = 0) -> Outcome:
    with single_threaded_blas():
        return outcome_of(scenario(fault, seed, minutes), seed, audit_s)


def outcome_of(made: Scenario, seed: int, audit_s: int = 0) -> Outcome:
    """Play a recording and compare it with the truth; an audit takes so many seconds of it."""
    session = (SlowSession(made.config, round(audit_s / TICK_S)) if audit_s
               else Session(made.config))
    state = Replay(made.config, Frontend(made.config), session)
    located = misleading = silent = 0.0
    events, named = 0, False
    since: dict[str, float] = dict.fromkeys(made.run.robots, 0.0)
    points: list[tuple[float, float]] = []
    beacons = dict(zip(made.run.beacon_names, made.run.beacons, strict=True))
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
            paths = paths_of(
                solution, made.run.robots, poses.robot, true_path(made.run, poses.stamp_ns))
            errors = errors_of(made, paths)
            beside = level_errors(solution, state.graph.landmarks.names, paths, beacons)
            for robot in made.run.robots:
                error = errors.get(robot, 0.0)
                located += TICK_S * (robot in errors)
                if robot in beside and solution.protection is not None:
                    points.append((beside[robot], solution.protection.of(robot)[0]))
                if error <= ALERT_LIMIT_M:
                    since[robot] = 0.0
                    continue
                misleading += TICK_S
                silent += TICK_S * (not texts)
                since[robot] += TICK_S
                events += since[robot] == TIME_TO_ALERT_S + TICK_S
        state.frontend.add(sample)
    seconds, share = made.run.duration_s * len(made.run.robots), 0.0
    if state.solution is not None and state.graph.n_poses:
        # Measurements that are rejected count as well.
        share = prospects(state.graph, state.solution.estimate, {}, state.graph.poses.stamp_ns,
                          made.config.backend).share()
    return Outcome(
        made.fault, seed, seconds, located, share * seconds, misleading, silent, events,
        named if made.culprits else None, tuple(points))


def upper_rate(events: int, hours: float) -> float:
    """Upper confidence bound of a Poisson rate per hour (Garwood 1936)."""
    return float(chi2.ppf(CONFIDENCE, 2 * (events + 1)) / (2 * hours)) if hours else float('inf')


def main(argv: Sequence[str] | None = None) -> int:
    made = parser('integrity', __doc__ or '', seeds=5)
    made.add_argument('--faults', nargs='*', choices=list(FAULTS), default=list(FAULTS))
    made.add_argument('--first-seed', type=int, default=0)
    made.add_argument('--minutes', type=float, default=2.5, help='length of a recording')
    made.add_argument('--audit-s', type=int, default=0, help='data time that an audit takes')
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
                judged, [fault] * args.seeds, seeds, [args.minutes] * args.seeds,
                [args.audit_s] * args.seeds))
            everything += outcomes
            table.add(row_of(fault, outcomes))
    if everything:
        table.add(row_of('all', everything))
    levels = Table('levels', 'Protection levels against true errors', {
        'name': 'recordings', 'epochs': 'epochs',
        **{region: f'{region} %' for region in REGIONS},
        'level': 'median level m', 'most': '90 % of levels below m',
        'ratio': 'largest error over level',
        'rate': 'error above level, share below (95 %)'}, args.out, 'integrity')
    for name, outcomes in (
            ('simulated, no fault', [one for one in everything if one.fault == 'clean']),
            ('simulated, one fault', [one for one in everything if one.fault != 'clean'])):
        points = [point for one in outcomes for point in one.points]
        if points:
            levels.add(level_row(name, np.array(points)))
    for one in chosen(args.sets) if args.sets else ():
        levels.add(level_row(one.name, played(directory(args.data) / one.file, args.ticks)))
    return 0


def counts(points: Array) -> dict[str, int]:
    """Epochs of each region; points (k, 2) = (error, level), metres."""
    error, level = points[:, 0], points[:, 1]
    out, usable = error > level, level <= ALERT_LIMIT_M
    region = np.select(
        [~out & usable, ~out, usable & (error <= ALERT_LIMIT_M), ~usable], [0, 1, 2, 3], 4)
    return dict(zip(REGIONS, np.bincount(region, minlength=len(REGIONS)).tolist(), strict=True))


def level_row(name: str, points: Array) -> dict[str, object]:
    """One row of the table of levels: shares in percent."""
    found = counts(points)
    total = max(len(points), 1)
    wrong = found['misleading'] + found['misleading, unavailable'] + found['hazardous']
    finite = points[np.isfinite(points[:, 1])]
    return {
        'name': name, 'epochs': len(points),
        **{region: 100 * number / total for region, number in found.items()},
        'ratio': float(np.max(finite[:, 0] / finite[:, 1])) if len(finite) else None,
        'level': float(np.median(points[:, 1])) if len(points) else None,
        'most': float(np.percentile(points[:, 1], 90, method='higher')) if len(points) else None,
        'rate': float(betaincinv(wrong + 1, total - wrong, CONFIDENCE)) if wrong < total else 1.0}


def played(path: Path, ticks: int) -> Array:
    """(k, 2): horizontal errors and protection levels of located robots at every tick, metres."""
    graph = graph_file.read(path)
    config = SparserConfig(
        dimension=graph.dimension, robots=list(graph.robots), solver=LIVE_SOLVER)
    order = np.lexsort((graph.poses.robot, pose_stamps(graph)))
    truth, robot = graph.poses.translation[order], graph.poses.robot[order]
    beacons = dict(zip(graph.landmarks.names, graph.landmarks.position, strict=True))
    points: list[tuple[float, float]] = []
    names: list[str] = []
    for increment, solution in stream.played(graph, config, ticks):
        names += increment.landmarks.names
        paths = paths_of(solution, graph.robots, robot, lambda _, rows: truth[rows])
        if solution.protection is not None:
            points += [(error, solution.protection.of(name)[0]) for name, error in level_errors(
                solution, names, paths, beacons).items()]
    return np.array(points).reshape(-1, 2)


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
