"""`sparser replay`: a bag through the node's front-end and back-end, without ROS."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import calibration_options
from .exit_codes import NOT_CONVERGED, SOLVED


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
    parser.add_argument('--calibrate', action='store_true', help=(
        'calibration.mode: apply: a second replay with the radios calibrated against the first '
        'map'))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Replay the bag; 0 solved, 3 not converged."""
    from ..backend.replay import replay
    from ..backend.replay.calibrated_replay import run_calibrated
    from ..config.sparser import SparserConfig
    from ..io import report
    from .progress import replay_progress

    config = SparserConfig.from_yaml(args.config) if args.config else SparserConfig()
    if args.calibrate:
        config = replace(config, calibration=replace(config.calibration, mode='apply'))
    with replay_progress() as progress:
        state, found = run_calibrated(args.bag, config, progress)
    result = {
        **replay.report_of(state, args.bag.name), **calibration_options.fields(found)}
    if args.report:
        report.write(args.report, result)
    _write(args, state)
    _summary(result)
    calibration_options.show(found)
    assert state.solution is not None
    return SOLVED if state.solution.status.solved else NOT_CONVERGED


def _write(args: argparse.Namespace, state: Any) -> None:
    """Trajectories and map of the located robots and beacons; the others have no pose in map."""
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
