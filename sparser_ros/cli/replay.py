"""`sparser replay`: a bag through the node's front-end and back-end, without ROS."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOT_CONVERGED = 3


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser replay`."""
    parser = subparsers.add_parser(
        'replay', help="run a bag through the node's front-end and back-end, without ROS",
        description='Replay a ROS 2 bag at full speed and deterministically. Exit code 0: '
        'solved; 2: bad input; 3: not converged, the best iterate is written.')
    parser.add_argument('bag', type=Path, metavar='BAG', help='folder, .mcap or .db3 file')
    parser.add_argument('--config', type=Path, metavar='C.yaml',
                        help="the node's parameter file (default: all defaults)")
    parser.add_argument('--report', type=Path, metavar='R.json', help='write a JSON report')
    parser.add_argument('--tum', type=Path, metavar='DIR',
                        help='write <robot>.tum of every robot that is located')
    parser.add_argument('--plot', type=Path, metavar='P.png', help='draw the map')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Replay the bag; 0 solved, 3 not converged."""
    from ..backend.replay import replay
    from ..config.sparser import SparserConfig
    from ..io import report

    config = SparserConfig.from_yaml(args.config) if args.config else SparserConfig()
    with _progress() as progress:
        state = replay.run(args.bag, config, progress)
    result = replay.report_of(state, args.bag.name)
    if args.report:
        report.write(args.report, result)
    _write(args, state)
    _summary(result)
    assert state.solution is not None
    return 0 if state.solution.status.solved else NOT_CONVERGED


def _write(args: argparse.Namespace, state: Any) -> None:
    """Trajectories and map of what is located, nothing else."""
    from ..backend.session.located import located_part

    if not (args.tum or args.plot):
        return
    graph, estimate = located_part(state.graph, state.solution)
    if args.tum:
        from ..io import tum

        tum.write(args.tum, graph, estimate, graph.poses.stamp_ns)
    if args.plot:
        from ..plot import map as map_plot

        map_plot.save(args.plot, graph, estimate, cost=state.solution.stats.cost_final)


def _summary(result: dict[str, Any]) -> None:
    cost = result['cost_final']
    print(
        f'{result["dataset"]}: {result["n_poses"]} keyframes, {result["n_landmarks"]} beacons, '
        f'{result["n_ranges"]} ranges, {result["n_closures"]} closures\n'
        f'{result["status"]}: cost {"none" if cost is None else f"{cost:.8g}"}, '
        f'{len(result["solves"])} solves, {result["seconds"]["total"]:.1f} s')
    for kind, counts in result['counts'].items():
        if isinstance(counts, dict) and counts['received']:
            reasons = ', '.join(f'{k} {v}' for k, v in counts['dropped'].items())
            print(f'  {kind}: {counts["received"]} received, {counts["accepted"]} accepted, '
                  f'{counts["merged"]} merged, dropped: {reasons or "none"}')
    for robot, state in result['locations'].items():
        print(f'  {robot}: {state["location"]}'
              + (f' ({state["missing"]})' if state['missing'] else ''))
    residuals = result['range_residuals_m']
    if residuals:
        print(f'  range residuals: rms {residuals["rms"]:.3f} m, median '
              f'{residuals["median"]:+.3f} m, 95 % below {residuals["p95_absolute"]:.3f} m')
    truth = result['truth']
    if truth:
        print(f'  against ground truth: RMSE {truth["ate_rmse_m"]:.3f} m, mean '
              f'{truth["ate_m"]:.3f} m (aligned on '
              f'{", ".join(truth["aligned_on"])})')
        for robot, errors in truth['robots'].items():
            print(f'    {robot}: mean {errors["ate_m"]:.3f} m')
        for pair in truth['relative_poses']:
            print(f'    {pair["from"]}->{pair["to"]}: translation {pair["translation_error_m"]:.3f}'
                  f' m, rotation {pair["rotation_error_rad"]:.3f} rad')


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """A bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task('replaying', total=1.0)

        def show(share: float, solution: Any) -> None:
            cost = None if solution is None else solution.stats.cost_final
            text = 'replaying' if cost is None else f'replaying, cost {cost:.6g}'
            bar.update(task, completed=share, description=text)

        yield show
