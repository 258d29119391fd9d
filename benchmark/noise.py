"""What recorded measurements are worth: noise beside its claim, and what it does to a map.

Ranges of whole stretches of 20 s, a fifth of all, are left out. The others, robustly solved, give
the noise of every source (standard deviation over the claimed one), and a map weighted by it. How
well either map foretells the ranges that are left out is an error that nothing has been fitted to.
`python -m benchmark.noise [plaza2 tiers ...]`
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparser_ros.array_types import Array
from sparser_ros.backend.integrity.noise import Noise, noise_of
from sparser_ros.config.solver_config import SolverConfig
from sparser_ros.graph import Estimate, Graph, estimate_of, range_residuals
from sparser_ros.graph.ends import stamps_of
from sparser_ros.io.report import ate_rmse
from sparser_ros.solver.solve import solve

from .available import SETS, graphs
from .table import Table, parser, run_main

STRETCH_S, SHARE, ROUNDS, FLOOR_M = 20.0, 0.2, 3, 0.03
CLAIMED = SolverConfig()
ROBUST = replace(CLAIMED, robust=replace(CLAIMED.robust, kernel='gm', gnc=True))


def left_out(graph: Graph, seed: int) -> Array:
    """(k,): true for the ranges of random stretches."""
    stamps = stamps_of(graph, graph.ranges) * 1e-9
    stretch = ((stamps - stamps.min()) / STRETCH_S).astype(int)
    chosen = np.random.default_rng(seed).random(stretch.max() + 1) < SHARE
    return np.asarray(chosen[stretch])


def maps(graph: Graph, start: Estimate) -> tuple[Estimate, Estimate, Noise]:
    """Maps by claimed noise and by the one that it shows, and this."""
    noise, estimates = Noise(), []
    for _ in range(ROUNDS):
        weighted = noise.applied_to(graph)
        result = solve(weighted, ROBUST, initial=start)
        assert result.estimate is not None
        estimates.append(start := result.estimate)
        noise = noise_of(weighted, start, result.stats.weights, FLOOR_M, taken=noise)
    return estimates[0], estimates[-1], noise


def main(argv: list[str] | None = None) -> int:
    made = parser('noise', __doc__ or '', sets=False)
    made.add_argument('names', nargs='*', metavar='SET', help=' '.join(SETS))
    made.add_argument('--seed', type=int, default=0)
    args = made.parse_args(argv)
    table = Table('noise', 'Noise of recorded sets, and ranges that are left out', {
        'set': 'set', 'out': 'left out', 'odometry': 'odometry', 'ranges': 'ranges',
        'sightings': 'sightings', 'half': 'claimed: half within m', 'most': '90 % m',
        'rmse': 'RMSE m', 'own_half': 'as found: half within m', 'own_most': '90 % m',
        'own_rmse': 'RMSE m', 'apart': 'maps apart m'}, args.out)
    for name, graph in graphs(args):
        out = left_out(graph, args.seed)
        known, asked = (graph.replaced(ranges=graph.ranges.take(np.flatnonzero(part)))
                        for part in (np.logical_not(out), out))
        truth = estimate_of(graph)
        start = solve(known, CLAIMED).estimate
        assert start is not None
        *estimates, noise = maps(known, start)
        sigma = noise.sigmas
        row = {'set': name, 'apart': ate_rmse(estimates[1], estimates[0]),
               'out': int(np.sum(out)), 'ranges': sigma.get('ranges'),
               'sightings': sigma.get('sightings'), 'odometry': float(np.median([
                   value for source, value in sigma.items() if source.startswith('odometry')]))}
        for estimate, prefix in zip(estimates, ('', 'own_'), strict=True):
            off = np.abs(range_residuals(asked, estimate))
            row |= {prefix + 'half': float(np.median(off)),
                    prefix + 'most': float(np.quantile(off, 0.9)),
                    prefix + 'rmse': ate_rmse(estimate, truth)}
        table.add(row)
    return 0


if __name__ == '__main__':
    run_main(main)
