"""How often a robot is called located that is not, and how often one is withheld that could be.

Every run is solved robustly from scratch after 10, 20, 40 and 80 s and judged as the auditor
does, other placements solved too; verdicts on all robots are compared with the truth. The oracle
is the same judgement made at the true placement with false ranges known.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from sparser_ros.array_types import Array, Mask
from sparser_ros.backend.integrity.noise import Noise
from sparser_ros.backend.observability.observability import observe
from sparser_ros.backend.session.contest import Contest, run_from_scratch
from sparser_ros.backend.session.frame import Frame, at_origin, frame_of
from sparser_ros.backend.session.judgement import seen_in
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import BackendConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import (
    Estimate,
    Graph,
    Poses,
    Ranges,
    RelativePoses,
    empty_graph,
)
from sparser_ros.io.chain import compose
from sparser_ros.linalg.rotations import angle_to_matrix, nearest_rotation

from . import synthetic
from .table import Table, parser, run_main

BEACONS, RADIUS_M, SPEED_M_S = 6, 30.0, 1.2
MOVE_SIGMA, TURN_SIGMA = 0.02, 0.003
"""Odometry noise per root of a metre: m and rad."""
STILL_M, STILL_RAD = 1e-4, 1e-5
"""What odometry drifts by in a second without motion."""
RANGE_SIGMA_M, RANGE_SHARE, RANGES_PER_S = 0.1, 0.01, 4
OUTLIER_M = 8.0


@dataclass(frozen=True)
class Field:
    """A run with the truth."""

    graph: Graph
    truth: Estimate
    second: Array
    """(n,): time of each pose."""
    false: Mask
    """(k,): ranges without line of sight."""

    def until(self, second: float) -> Field:
        g = self.graph
        n = int(np.searchsorted(self.second, second, side='right'))
        heard = np.maximum(g.ranges.source, g.ranges.target) < n
        return Field(
            synthetic.first_poses(g, n),
            Estimate(self.truth.rotation[:n], self.truth.translation[:n],
                     self.truth.landmarks.copy()),
            self.second[:n], self.false[heard])


def field(
    robots: int, known: int, motion: str, seed: int, *, seconds: int = 80, outliers: float = 0.05,
) -> Field:
    """Robots that stand, drive straight or in curves among six beacons, `known` of them known."""
    random = np.random.default_rng([seed, robots, known, len(motion)])
    angle = 2 * np.pi * (np.arange(BEACONS) + random.uniform(-0.3, 0.3, BEACONS)) / BEACONS
    beacons = RADIUS_M * random.uniform(0.8, 1.3, BEACONS)[:, None] * np.column_stack(
        [np.cos(angle), np.sin(angle)])
    paths = [_path(motion, seconds, random) for _ in range(robots)]
    # Poses of one second stand together, as they arrive.
    heading = np.stack([p[0] for p in paths], axis=1).ravel()
    position = np.stack([p[1] for p in paths], axis=1).reshape(-1, 2)
    rotation = angle_to_matrix(heading)
    robot = np.tile(np.arange(robots), seconds)
    edges, frame = _odometry(rotation, position, robots, random)
    ranges, false = _ranges(position, beacons, robots, outliers, random)
    fixed = random.permutation(BEACONS) < known
    graph = empty_graph(2, tuple('ABCDEFG'[:robots])).replaced(
        poses=Poses(
            robot, np.arange(len(robot)) // robots,
            1_000_000_000 * (1 + np.arange(len(robot)) // robots), *frame),
        landmarks=synthetic.marks(np.where(fixed[:, None], beacons, np.nan), fixed),
        relative_poses=edges, ranges=ranges)
    return Field(graph, Estimate(rotation, position, beacons),
                 np.repeat(np.arange(seconds), robots).astype(float), false)


def _path(motion: str, seconds: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Headings (s,) and positions (s, 2)."""
    time = np.arange(seconds, dtype=float)
    start = random.uniform(-0.5, 0.5, 2) * RADIUS_M
    course = random.uniform(-np.pi, np.pi)
    if motion == 'curved':
        wave = np.arange(1, 4)
        rate = SPEED_M_S / RADIUS_M * random.uniform(1, 3, 3) * wave
        swing = random.uniform(0.3, 1.0, 3) / wave
        phase = random.uniform(0, 2 * np.pi, 3)
        heading = course + 2 * np.sum(swing * np.sin(np.outer(time, rate) + phase), axis=1)
    else:
        heading = np.full(seconds, course)
    speed = 0.0 if motion == 'standing' else SPEED_M_S
    steps = speed * np.column_stack([np.cos(heading), np.sin(heading)])[:-1]
    return heading, start + np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])


def _odometry(
    rotation: Array, position: Array, robots: int, random: np.random.Generator
) -> tuple[RelativePoses, tuple[Array, Array]]:
    n = len(rotation)
    i, j = np.arange(n - robots), np.arange(robots, n)
    length = np.linalg.norm(position[j] - position[i], axis=1)
    move_sigma = np.sqrt(MOVE_SIGMA**2 * length + STILL_M**2)
    turn_sigma = np.sqrt(TURN_SIGMA**2 * length + STILL_RAD**2)
    move = move_sigma[:, None] * random.normal(size=(len(i), 2))
    edges = synthetic.noisy_edges(
        i, j, rotation, position, turn_sigma * random.normal(size=len(i)), move, turn_sigma**-2.0,
        move_sigma**-2.0, np.ones(len(i), dtype=bool))
    frame_r, frame_t = np.tile(np.eye(2), (n, 1, 1)), np.zeros((n, 2))
    for robot in range(robots):
        own, steps = np.arange(robot, n, robots), np.arange(robot, n - robots, robots)
        frame_r[own], frame_t[own] = compose(
            np.concatenate([np.eye(2)[None], edges.rotation[steps]]),
            np.concatenate([np.zeros((1, 2)), edges.translation[steps]]), own == robot)
    return edges, (frame_r, frame_t)


def _ranges(
    position: Array, beacons: Array, robots: int, outliers: float, random: np.random.Generator,
) -> tuple[Ranges, Mask]:
    peers = robots + BEACONS - 1
    source = np.repeat(np.arange(len(position)), RANGES_PER_S)
    asked = (source % robots + 1 + random.integers(peers, size=len(source))) % (peers + 1)
    target = np.where(asked < robots, source // robots * robots + asked, ~(asked - robots))
    distance = synthetic.distances(position, beacons, source, target)
    sigma = np.hypot(RANGE_SIGMA_M, RANGE_SHARE * distance)
    false = random.uniform(size=len(source)) < outliers
    measured = distance + sigma * random.normal(size=len(source)) + np.where(
        false, random.exponential(OUTLIER_M, len(source)), 0.0)
    measured = np.maximum(measured, 0.05)
    return synthetic.plain_ranges(
        2, source, target, measured,
        1 / (RANGE_SIGMA_M**2 + (RANGE_SHARE * measured) ** 2)), false


ROBOTS, KNOWN, MOTIONS = (1, 2, 3), (0, 1, 2, 4), ('straight', 'curved', 'standing')
SECONDS = (10, 20, 40, 80)
ALERT_LIMIT_M = 1.0
CONFIDENCE = 0.95
CONFIG = BackendConfig()
STANDS_M = 1.0
"""A path within this has no heading: its first pose is the frame."""
SOLVER = SolverConfig(robust=RobustConfig(kernel='gm', gnc=True))


@dataclass(frozen=True)
class Outcome:
    """One robot at one instant."""

    robot: str
    second: float
    located: bool
    verdict: str
    error_m: float
    """Of the newest position."""
    due: bool
    """Whether the truth, with false ranges known, would be judged located."""
    gap: float
    seconds: float
    """CPU time of the judgement, with solves from better placements."""
    missing: str


def main(argv: list[str] | None = None) -> int:
    made = parser('geometry', __doc__.partition('\n')[0], data=False, seeds=20)
    made.add_argument('--outliers', type=float, default=0.05, metavar='X',
                      help='share of ranges without line of sight')
    made.add_argument('--first-seed', type=int, default=0, metavar='K')
    made.add_argument('--robots', type=int, nargs='+', default=ROBOTS, metavar='N')
    made.add_argument('--known', type=int, nargs='+', default=KNOWN, metavar='N')
    made.add_argument('--motions', nargs='+', default=MOTIONS, choices=MOTIONS)
    made.add_argument('--verbose', action='store_true', help='print every false verdict')
    args = made.parse_args(argv)
    table = Table('geometry', 'Located and not', {
        'case': 'case', 'verdicts': 'verdicts', 'located': 'located', 'false': 'false-located',
        'false_bound': 'at most, %', 'due': 'right and due', 'withheld': 'false-withheld',
        'withheld_bound': 'at most, % ', 'judged_ms': 'judged in at most, ms',
    }, args.out)
    every: list[Outcome] = []
    for robots in args.robots:
        for known in args.known:
            for motion in args.motions:
                name = f'{robots} robots, {known} known, {motion}'
                some = _case(robots, known, motion, args)
                every += some
                table.add({'case': name, **figures(some)})
    table.add({'case': 'all', **figures(every)})
    table.note(
        f'False-located: located and more than {ALERT_LIMIT_M:g} m off. False-withheld: not '
        'located, although right and due by the oracle. At most: upper end of the one-sided '
        f'{100 * CONFIDENCE:g} % interval of Clopper and Pearson; instants of one run are not '
        'independent of each other.')
    return 0


def _case(robots: int, known: int, motion: str, args: Any) -> list[Outcome]:
    result = []
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        run = field(robots, known, motion, seed, outliers=args.outliers)
        for second in SECONDS:
            some = outcomes(run, second, seed)
            result += some
            for one in some:
                false = one.located and one.error_m > ALERT_LIMIT_M
                if args.verbose and (false or _withheld(one)):
                    print(f'{"FALSE" if false else "withheld"} {robots} {known} {motion} '
                          f'seed {seed} {one}', file=sys.stderr, flush=True)
    return result


def figures(some: list[Outcome]) -> dict[str, Any]:
    """Counts and upper bounds of rates."""
    located = sum(one.located for one in some)
    false = sum(one.located and one.error_m > ALERT_LIMIT_M for one in some)
    due = sum(one.due and one.error_m <= ALERT_LIMIT_M for one in some)
    withheld = sum(_withheld(one) for one in some)
    return {
        'verdicts': len(some), 'located': located, 'false': false,
        'false_bound': 100 * upper_bound(false, located), 'due': due, 'withheld': withheld,
        'withheld_bound': 100 * upper_bound(withheld, due),
        'judged_ms': 1e3 * max((one.seconds for one in some), default=0.0)}


def _withheld(one: Outcome) -> bool:
    return one.due and not one.located and one.error_m <= ALERT_LIMIT_M


def upper_bound(count: int, of: int) -> float:
    """Largest rate that leaves so few cases a probability of 1 - CONFIDENCE."""
    if of == 0 or count == of:
        return 1.0
    return float(beta.ppf(CONFIDENCE, count + 1, of - count))


def outcomes(field: Field, second: float, seed: int = 0) -> list[Outcome]:
    """Verdicts on all robots after so many seconds of the run."""
    now = field.until(second)
    frame = frame_of(now.graph, _sparser(now.graph))
    if frame is None:
        return []
    truth = now.truth
    if frame.gauge is not None:
        truth = at_origin(
            truth, int(frame.segments.first[frame.gauge]), (np.eye(2), np.zeros(2)), frame.graph)
    oracle = observe(
        frame.graph, truth, frame.segments, frame.gauge, CONFIG.observability,
        {'ranges': np.where(now.false, 0.0, 1.0)}, rejected_weight=CONFIG.rejected_weight)
    # A robust solve from scratch in map, as the auditor enters it. What is not connected to map
    # has no place in it; its values are true ones, and are not judged.
    config = _sparser(frame.graph)
    contest = Contest(
        frame, truth, (np.eye(2), np.zeros(2)), config, Treatment().apply(frame.graph))
    contest.add('scratch', run_from_scratch(frame.subgraph.graph, config, seed))
    begin = time.process_time()
    seen = seen_in(contest, _sparser(now.graph), Noise())
    cpu = time.process_time() - begin
    found = contest.best.whole
    truth = _aligned(frame, truth, found)
    result = []
    for segment, row in enumerate(frame.segments.last.tolist()):
        if not frame.mask[segment]:
            continue
        where = seen.location[segment]
        result.append(Outcome(
            frame.graph.robots[frame.segments.robot[segment]], second,
            where is Location.LOCATED, where.value,
            float(np.linalg.norm(found.translation[row] - truth.translation[row])),
            oracle.location[segment] is Location.LOCATED, seen.gap, cpu,
            seen.missing[segment]))
    return result


def _aligned(frame: Frame, truth: Estimate, found: Estimate) -> Estimate:
    """The truth in the frame of the gauge robot's path; as it is where absolute data fix it."""
    if frame.gauge is None:
        return truth
    rows = frame.segments.of_pose == frame.gauge
    here, there = truth.translation[rows], found.translation[rows]
    if np.max(np.ptp(here, axis=0)) < STANDS_M:
        return truth
    offset = here - np.mean(here, axis=0)
    turn = nearest_rotation(((there - np.mean(there, axis=0)).T @ offset)[None])[0]
    return truth.moved(turn, np.mean(there, axis=0) - turn @ np.mean(here, axis=0))


def _sparser(graph: Graph) -> SparserConfig:
    return SparserConfig(robots=list(graph.robots), backend=CONFIG, solver=SOLVER)


if __name__ == '__main__':
    run_main(main)
