"""Do lower bounds hold: random small graphs, random starts at high rank, planted wrong minima.

Each graph is solved from `--starts` random starts at ranks up to 8; no start may end below the
bound of any point, and no wrong minimum may be certified; a line a graph while it runs. `python -m
benchmark.bounds [--graphs 200] [--first 0] [--starts 100] [--seconds S]`; exit code 1 where one
does.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

from sparser_ros.graph import Graph
from sparser_ros.solver.certificate import Certifier, sharpened
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule, minimise

from . import arguments, synthetic
from .table import Table, run_main

RULE = StoppingRule(cost_tolerance=0.0, gradient_tolerance=1e-16)
TESTED = 4
"""Points of each graph that are tested: two at rank d, two relaxed."""
RANKS = 8
WRONG = 1e-3
"""Cost of a wrong minimum over the best one, less one."""


@dataclass
class Count:
    """What was found in one family of graphs."""

    graphs: int = 0
    tested: int = 0
    wrong: int = 0
    certified: int = 0
    wrong_certified: int = 0
    exceeded: int = 0
    largest_excess: float = -np.inf
    """Bound less the best cost, over that cost."""


def main(argv: list[str] | None = None) -> int:
    """Count, print, save; 1 where a bound does not hold."""
    made = arguments.parser('bounds', __doc__ or '', data=False)
    made.add_argument('--graphs', type=int, default=200, help='random graphs in all')
    made.add_argument('--first', type=int, default=0, help='seed of the first graph')
    made.add_argument('--starts', type=int, default=100, help='random starts of each')
    made.add_argument('--seconds', type=float, default=math.inf, help='no new graph after these')
    args = made.parse_args(argv)
    deadline = time.perf_counter() + args.seconds
    table = Table('bounds', 'Lower bounds against random starts', {
        'family': 'graphs', 'graphs': 'number', 'tested': 'points tested',
        'certified': 'certified', 'wrong': 'wrong minima', 'wrong_certified': 'of them certified',
        'exceeded': 'bounds above the best cost', 'largest_excess': 'largest (bound - cost) / cost',
    }, args.out)
    counts = {(d, ranges): Count() for d in (2, 3) for ranges in (0, 8)}
    for seed in range(args.first, args.first + args.graphs):
        d, ranges = list(counts)[seed % len(counts)]
        count = counts[d, ranges]
        begin = time.process_time()
        examine(synthetic.small_world(seed, d, ranges), seed, args.starts, count)
        found = [(c.tested, c.wrong, c.wrong_certified, c.exceeded) for c in counts.values()]
        print(f'graph {seed}, {time.process_time() - begin:.1f} CPU s; points tested, wrong '
              'minima, of them certified, bounds above the best cost so far: '
              f'{tuple(map(sum, zip(*found, strict=True)))}', file=sys.stderr, flush=True)
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
        certificate = sharpened(certifier, run.y, certifier.test(run.y), wanted=0.0)
        excess = certificate.lower_bound - best
        wrong = run.cost > (1 + WRONG) * best + 2 * tolerance
        count.tested += 1
        count.certified += certificate.certified
        count.wrong += wrong
        count.wrong_certified += wrong and certificate.certified
        count.exceeded += bool(excess > tolerance)
        count.largest_excess = max(count.largest_excess, float(excess / max(best, 1e-12)))


if __name__ == '__main__':
    run_main(main)
