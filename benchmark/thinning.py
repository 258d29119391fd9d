"""What thinning costs: maps of simulated runs whose old keyframes went, beside maps of all of them.

The front-end makes one graph of a run for every limit of keyframes, thinned while it grows as in
the node; each is solved from scratch. `python -m benchmark.thinning [--hours 1] [--counts 0 …]`
"""

from __future__ import annotations

import time

import numpy as np

from sparser_ros.backend.session.graph_store import GraphStore, thinned
from sparser_ros.config import SolverError
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend import Frontend
from sparser_ros.graph import Graph
from sparser_ros.io.simulation import Simulation, node_config
from sparser_ros.linalg.rotations import align
from sparser_ros.solver import solve

from .scenarios import RECENT_S, SECOND, samples_of, seconds_of
from .table import Row, Table, median, parser, rmse, run_main

TAKE_S = 1.0
"""Data between two increments, as in the node."""
DISTANCE_M = 1.0
"""Between keyframes."""


def main(argv: list[str] | None = None) -> int:
    made = parser('thinning', __doc__ or '', data=False, seeds=3)
    made.add_argument('--hours', type=float, default=1.0)
    made.add_argument('--robots', type=int, default=3)
    made.add_argument('--counts', nargs='+', type=int, default=[0, 4000, 2000, 1000, 500],
                      help='keyframes.max_count; 0 = all')
    args = made.parse_args(argv)
    table = Table('thinning', f'Thinned maps: {args.hours:g} h of {args.robots} robots', {
        'count': 'max_count', 'keyframes': 'keyframes', 'ranges': 'ranges', 'thinnings': 'times',
        'ate_m': 'ATE m', 'recent_m': 'newest 10 min m', 'beacons_m': 'beacons m',
        'solve_s': 'solve s',
    }, args.out)
    found: dict[int, list[Row]] = {count: [] for count in args.counts}
    for seed in range(args.seeds):
        run = Simulation(SimulationConfig(
            robots=args.robots, minutes=60 * args.hours, seed=seed, odometry_rate=4.0,
            range_rate=1.0, truth_rate=0.0))
        for count in args.counts:
            found[count].append(measured(run, count))
    for count, rows in found.items():
        table.add({'count': count, **{
            key: median([row[key] for row in rows]) for key in rows[0]}})
    table.note('Medians of the seeds; rmse of positions after one alignment of poses and beacons. '
               'Ranges of a tenth of a metre and a hundredth of the distance, 5 % of them blocked.')
    return 0


def measured(run: Simulation, count: int) -> Row:
    config = SparserConfig.from_mapping({**node_config(run), 'keyframes': {
        'max_count': count, 'distance_m': DISTANCE_M}})
    graph, thinnings = graph_of(run, config)
    begin = time.perf_counter()
    estimate = solve(graph, config.solver).estimate
    seconds = time.perf_counter() - begin
    if estimate is None:
        raise SolverError(f'no map of {graph}')
    stamp, reference = graph.poses.stamp_ns, np.concatenate(run.truth_of(graph))
    rotation, translation = align(estimate.points, reference, mirror=True)
    error = np.linalg.norm(estimate.points @ rotation.T + translation - reference, axis=1)
    n = graph.n_poses
    return {
        'keyframes': n, 'ranges': len(graph.ranges), 'thinnings': thinnings,
        'ate_m': rmse(error[:n]), 'beacons_m': rmse(error[n:]), 'solve_s': seconds,
        'recent_m': rmse(error[:n][stamp > stamp.max() - RECENT_S * SECOND])}


def graph_of(run: Simulation, config: SparserConfig) -> tuple[Graph, int]:
    """The graph of a whole run, thinned while it grows, and how often."""
    frontend, increments, due = Frontend(config), [], TAKE_S
    for sample in samples_of(run):
        if seconds_of(sample) >= due:
            due += TAKE_S
            increment = frontend.take()
            if increment is not None:
                increments.append(increment)
                drop = frontend.thin()
                if drop is not None:
                    increments = [thinned(
                        increments, drop, config.keyframes.thinned_per_pair).increment]
        frontend.add(sample)
    store, begin = GraphStore(config.dimension), 0
    for one in increments:
        store.add(one, first=begin)
        begin = one.sequence + 1
    return store.graph, frontend.thinnings


if __name__ == '__main__':
    run_main(main)
