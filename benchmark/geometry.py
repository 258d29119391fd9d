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

from sparser_ros.backend.integrity.noise import Noise
from sparser_ros.backend.observability.observability import Observability, observe
from sparser_ros.backend.session.contest import Contest, run_from_scratch
from sparser_ros.backend.session.frame import Frame, at_origin, frame_of
from sparser_ros.backend.session.judgement import seen_in
from sparser_ros.backend.session.solution import Location
from sparser_ros.backend.session.treatment import Treatment
from sparser_ros.config import RobustConfig, SolverConfig
from sparser_ros.config.backend_config import BackendConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.graph import Estimate, Graph
from sparser_ros.linalg.rotations import nearest_rotation

from .arguments import parser
from .geometry_world import Field, field
from .table import Table, run_main

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
    made = parser('geometry', __doc__.partition('\n')[0], seeds=20, timeout_s=600)
    made.add_argument('--outliers', type=float, default=0.05, metavar='X',
                      help='share of ranges without line of sight')
    made.add_argument('--first-seed', type=int, default=0, metavar='K')
    made.add_argument('--robots', type=int, nargs='+', default=ROBOTS, metavar='N')
    made.add_argument('--known', type=int, nargs='+', default=KNOWN, metavar='N')
    made.add_argument('--motions', nargs='+', default=MOTIONS, choices=MOTIONS)
    made.add_argument('--sightings', action='store_true',
                      help='beacons are seen, and ranges are between robots only')
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
        run = field(robots, known, motion, seed, outliers=args.outliers,
                    sightings=args.sightings)
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
    oracle = _observed(frame, truth, {
        'ranges': np.where(now.false, 0.0, 1.0), 'sightings': np.where(now.mistaken, 0.0, 1.0)})
    contest = _from_scratch(frame, truth, seed)
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


def _observed(
    frame: Frame, estimate: Estimate, weights: dict[str, np.ndarray]
) -> Observability:
    return observe(
        frame.graph, estimate, frame.segments, frame.gauge, CONFIG.observability, weights,
        rejected_weight=CONFIG.rejected_weight)


def _from_scratch(frame: Frame, truth: Estimate, seed: int) -> Contest:
    """A robust solve from scratch in map, as the auditor enters it.

    What is not connected to map has no place in it; its values are true ones, and are not judged.
    """
    config = _sparser(frame.graph)
    contest = Contest(
        frame, truth, (np.eye(2), np.zeros(2)), config, Treatment().apply(frame.graph))
    contest.add('scratch', run_from_scratch(frame.subgraph.graph, config, seed))
    return contest


def _sparser(graph: Graph) -> SparserConfig:
    return SparserConfig(robots=list(graph.robots), backend=CONFIG, solver=SOLVER)


if __name__ == '__main__':
    run_main(main)
