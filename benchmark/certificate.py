"""What a certificate costs beside its solve, what it proves, and whether bounds hold.

CPU seconds of a solve with a certificate less those of the same solve without one, which are
comparable on a busy machine. `python -m benchmark.certificate [--sets MIT outfinite]`. With
`--graphs 200` random small graphs are solved from `--starts` random starts at ranks up to 8 each:
no start may end below the bound of any point, and no wrong minimum may be certified; exit code 1
where one does.
"""

from __future__ import annotations

import math
import sys
import time
from argparse import Namespace
from dataclasses import dataclass

import numpy as np

from sparser_ros.config import SolverConfig
from sparser_ros.graph import Graph
from sparser_ros.io import graph_file
from sparser_ros.solver import solve
from sparser_ros.solver.certificate import Certifier, Multipliers, ascended_gap
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule, minimise
from sparser_ros.solver.warm_up import warm_up

from . import synthetic
from .datasets import PAPER, directory
from .table import Row, Table, parser, run_main, timed

FURTHER = {'mrclam5a': 'pyfg/mrclam5a.pyfg', 'goats_14': 'pyfg/goats_14.pyfg'}
SPACE = (5750, 16900)
"""Poses and edges of a generated graph in space with isotropic noise."""
RULE = StoppingRule(cost_tolerance=0.0, gradient_tolerance=1e-16)
TESTED = 4
"""Points of each random graph that are tested: two at rank d, two relaxed."""
RANKS = 8
WRONG = 1e-3
"""Cost of a wrong minimum over the best one, less one."""


def main(argv: list[str] | None = None) -> int:
    made = parser('certificate', __doc__ or '')
    made.add_argument('--graphs', type=int, help='random graphs instead of sets')
    made.add_argument('--first', type=int, default=0, help='seed of the first random graph')
    made.add_argument('--starts', type=int, default=100, help='random starts of each')
    made.add_argument('--seconds', type=float, default=math.inf, help='no new graph after these')
    args = made.parse_args(argv)
    if args.graphs:
        return bounds(args)
    table = Table('certificate', 'Certificates: CPU seconds beside those of the solve', {
        'set': 'set', 'solve_s': 'solve s', 'certify_s': 'certify s', 'cost': 'cost',
        'lower': 'no solution below', 'certified': 'certified',
        'relaxed_gap': 'gap of the bound'}, args.out)
    for d in (2, 3):
        warm_up(d, SolverConfig(certify=True))
    files = {dataset.name: dataset.file for dataset in PAPER} | FURTHER
    for name in args.sets or [*files, 'space']:
        graph = (synthetic.space_lattice(*SPACE) if name == 'space'
                 else graph_file.read(directory(args.data) / files[name]).validate())
        table.add({'set': name, **measured(graph)})
    table.note('Gap of the bound: cost of the last relaxed point less the bound, over that cost; '
               'of certified trajectories their own.')
    return 0


def measured(graph: Graph) -> Row:
    """Of two solves, without and with the certificate."""
    seconds = []
    for certify in (False, True):
        result, _, cpu = timed(solve, graph, SolverConfig(certify=certify))
        seconds.append(cpu)
    stats = result.stats
    cost, gap = stats.cost_final, stats.suboptimality
    assert cost is not None and gap is not None
    lower = cost - gap
    top = cost if stats.certified or stats.cost_relaxed is None else stats.cost_relaxed
    return {
        'solve_s': seconds[0], 'certify_s': max(seconds[1] - seconds[0], 0.0), 'cost': cost,
        'lower': lower, 'certified': 'yes' if stats.certified else 'no',
        'relaxed_gap': (top - lower) / top if top > 0 else None}


@dataclass
class Count:
    """What was found in one family of random graphs."""

    graphs: int = 0
    tested: int = 0
    wrong: int = 0
    certified: int = 0
    wrong_certified: int = 0
    exceeded: int = 0
    largest_excess: float = -np.inf
    """Bound less the best cost, over that cost."""


def bounds(args: Namespace) -> int:
    """Count, print, save; 1 where a bound does not hold."""
    table = Table('bounds', 'Lower bounds against random starts', {
        'family': 'graphs', 'graphs': 'number', 'tested': 'points tested',
        'certified': 'certified', 'wrong': 'wrong minima', 'wrong_certified': 'of them certified',
        'exceeded': 'bounds above the best cost', 'largest_excess': 'largest (bound - cost) / cost',
    }, args.out, 'certificate')
    deadline = time.perf_counter() + args.seconds
    counts = {(d, ranges): Count() for d in (2, 3) for ranges in (0, 8)}
    for seed in range(args.first, args.first + args.graphs):
        d, ranges = list(counts)[seed % len(counts)]
        examine(synthetic.small_world(seed, d, ranges), seed, args.starts, counts[d, ranges])
        print(f'graph {seed}: {counts[d, ranges]}', file=sys.stderr, flush=True)
        if time.perf_counter() > deadline:
            table.note(f'Ended by --seconds after graph {seed}.')
            break
    for (d, ranges), count in counts.items():
        table.add({'family': f'{d}D, ' + ('ranges' if ranges else 'pose graphs'),
                   **vars(count)})
    return int(any(c.exceeded or c.wrong_certified for c in counts.values()))


def examine(graph: Graph, seed: int, starts: int, count: Count) -> None:
    schur = SchurOperator(QuadraticProblem(graph))
    manifold, certifier, d = schur.problem.manifold, Certifier(schur), graph.dimension
    random, preconditioner = np.random.default_rng(seed), RegularisedQ(schur)
    ranks = [d, d, 5, RANKS, *random.integers(d, RANKS + 1, max(starts - TESTED, 0))]
    ends = [minimise(
        schur, manifold, manifold.random_point(int(rank), random), preconditioner, RULE)
        for rank in ranks]
    best = min(run.cost for run in ends)
    tolerance = certifier.tolerance(best)
    count.graphs += 1
    for run in ends[:TESTED]:
        multipliers = Multipliers.of(manifold, run.y, schur(run.y))
        gap = ascended_gap(certifier, certifier.test(run.y), multipliers, wanted=0.0)
        excess, certified = run.cost - gap - best, gap <= certifier.tolerance(run.cost)
        wrong = run.cost > (1 + WRONG) * best + 2 * tolerance
        count.tested += 1
        count.certified += certified
        count.wrong += wrong
        count.wrong_certified += wrong and certified
        count.exceeded += bool(excess > tolerance)
        count.largest_excess = max(count.largest_excess, float(excess / max(best, 1e-12)))


if __name__ == '__main__':
    run_main(main)
