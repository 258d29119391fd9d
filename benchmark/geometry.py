"""How often a robot is called located that is not, and how often one is withheld that could be.

Every run is solved robustly from scratch after 10, 20, 40 and 80 s and judged as the auditor
does, other placements solved too; verdicts on all robots are compared with the truth. The oracle
is the same judgement made at the true placement with false ranges known.
"""

from __future__ import annotations

import sys
from typing import Any

from scipy.stats import beta

from .arguments import parser
from .geometry_job import Outcome, outcomes
from .geometry_world import field
from .table import Table, run_main

ROBOTS, KNOWN, MOTIONS = (1, 2, 3), (0, 1, 2, 4), ('straight', 'curved', 'standing')
SECONDS = (10, 20, 40, 80)
ALERT_LIMIT_M = 1.0
CONFIDENCE = 0.95


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


if __name__ == '__main__':
    run_main(main)
