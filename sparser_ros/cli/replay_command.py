"""`sparser replay`: a bag through the node's front-end and back-end, without ROS."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import SolverError
from ..io.availability import accuracy_lines, share_text
from .calibrate_command import calibration_fields, show_levers, show_radios
from .console import (
    NOT_CONVERGED,
    SOLVED,
    noise_text,
    rejected_text,
    replay_progress,
    residual_text,
    show_undetermined,
    show_warnings,
    show_written,
    status_text,
)
from .info_command import bag_parameters
from .options import Kind, Reads, Writes, add_plot, add_report, add_run_folder, write_report

if TYPE_CHECKING:
    from ..graph import Graph

FAR_NOISE = 2.0
"""Found over claimed standard deviation, or its inverse, from which a user is told."""


def add_replay(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'replay', help="run a bag through the node's front-end and back-end, without ROS",
        description='Replay a ROS 2 bag at full speed and deterministically. Exit code 0: '
        'solved; 2: bad input, or nothing was measured; 3: not converged, or robots have no place '
        'in map (they are named), the best iterate is written.')
    parser.add_argument('bag', action=Reads, kind=Kind.BAG, metavar='BAG',
                        help='folder, .mcap or .db3 file')
    parser.add_argument('--config', action=Reads, kind=Kind.PARAMETERS, metavar='C.yaml',
                        help=(
        "the node's parameter file (default: drafted from the bag, as `sparser info` does)"))
    add_report(parser)
    add_run_folder(parser)
    parser.add_argument('--tum', action=Writes, kind=Kind.FOLDER, metavar='DIR',
                        help='write <robot>.tum (keyframes) and odometry_rate/<robot>.tum of '
                             'every robot; the first line says of one that is not located')
    add_plot(parser)
    parser.add_argument('--calibrate', action='store_true', help=(
        'calibration.mode: apply: a second replay with the radios calibrated against the first '
        'map'))
    parser.add_argument('-v', '--verbose', action='store_true',
                        help='counts of messages, number of solves, errors per robot')
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Replay the bag; 0 solved, 3 not converged or robots without a place."""
    from ..backend.replay import replay

    config, _ = bag_parameters(args.bag, args.config)
    if args.calibrate:
        config = replace(config, calibration=replace(config.calibration, mode='apply'))
    with replay_progress() as progress:
        state, radios, levers = replay.run_calibrated(args.bag, config, progress)
    warnings = [finding.text for finding in replay.findings_of(state)]
    show_warnings(warnings)
    lost = replay.undetermined_robots(state)
    nothing = replay.nothing_measured(state)
    result = {
        **replay.report_of(state, args.bag.name), **calibration_fields(radios),
        'warnings': warnings, 'undetermined': lost}
    written = write_report(args, result)
    if nothing:
        raise SolverError(f'{args.bag}: {nothing}')
    written += _write(args, state, result)
    _summary(result, state.graph, args.verbose)
    show_radios(radios)
    show_levers(levers)
    show_written(written)
    show_undetermined(lost)
    assert state.solution is not None
    return SOLVED if state.solution.status.solved and not lost else NOT_CONVERGED


def _write(args: argparse.Namespace, state: Any, result: dict[str, Any]) -> list[Path]:
    """Trajectories and map; robots and beacons without a place in map are marked in each."""
    from ..backend.session.solution import covariance_fields

    written: list[Path] = []
    if not (args.tum or args.plot or args.run_folder):
        return written
    solution, graph, estimate = state.solution, state.graph, state.solution.estimate
    if not graph.n_poses:
        print('no trajectory and no picture: no robot has odometry', file=sys.stderr)
        return written
    lost = {robot.robot: robot for robot in solution.robots if not robot.location.placed}
    if args.tum:
        from ..frontend import track
        from ..io import tum

        remarks = {name: robot.remark for name, robot in lost.items()}
        written += tum.write(args.tum, graph, estimate, graph.poses.stamp_ns, remarks)
        written += track.write(
            args.tum, graph, estimate, state.frontend.recorded_odometry(), remarks)
    if args.run_folder:
        from ..io.report import write_run

        known = solution.covariances
        fields = None if known is None else covariance_fields(graph, known)
        written += write_run(
            args.run_folder, graph, estimate, {**result, 'covariance': fields})
    if args.plot:
        from ..backend.replay.truth import recorded
        from ..io.availability import laid_on, true_poses
        from ..plot.pictures import save_map

        truth = true_poses(graph, recorded({
            name: track for name, track in state.tracks.items() if name not in lost},
            graph.dimension))
        save_map(
            args.plot, graph, estimate, cost=solution.stats.cost_final,
            truth=None if truth is None else laid_on(truth, estimate),
            untrusted={name: robot.location.value for name, robot in lost.items()},
            located=solution.landmark_located,
            fix_share=result['fix_share'])
        written.append(args.plot)
    return written


def _summary(result: dict[str, Any], graph: Graph, verbose: bool) -> None:
    from ..graph.graph import counted
    from ..graph.parts import listed
    from ..solver.result import SolveStatus

    beacons = result['beacons']
    lost = [name for name, beacon in beacons.items() if not beacon['located']]
    print(
        f'{result["dataset"]}: {result["n_poses"]} keyframes, {result["n_ranges"]} ranges, '
        f'{result["n_closures"]} closures; {len(beacons) - len(lost)} of {len(beacons)} beacons '
        f'located{f" (not {listed(lost)})" if lost else ""}\n'
        f'{status_text(result["status"], bool(result["undetermined"]))} in '
        f'{result["seconds"]["total"]:.1f} s')
    if not SolveStatus(result['status']).solved:
        print(result['message'])
    for robot, state in result['locations'].items():
        print(f'  {robot}: {state["location"]}'
              + (f' ({state["missing"]})' if state['missing'] else ''))
        if robot in result['fix_share']:
            print(f'    fix: {share_text(result["fix_share"][robot])} of the time')
    _noise(result['noise'])
    if result['truth']:
        _errors(result['truth'], verbose)
    residuals = result['range_residuals_m']
    if residuals:
        print(f'  {residual_text(residuals["median_absolute"], residuals["p95_absolute"])}')
    left_out = result['left_out']
    print('  ' + rejected_text(
        Counter(measurement['type'] for measurement in result['rejected']), graph)
        + (f'; {counted(left_out, "more range")} left out as faulty' if left_out else ''))
    if not verbose:
        return
    cost = result['cost_final']
    print(f'  cost {"none" if cost is None else f"{cost:.8g}"}, rejected measurements included')
    if result['suboptimality'] is not None:
        print(f'  {result["optimality"]}')
    if residuals:
        print(f'  range residuals: rms {residuals["rms"]:.3f} m, rejected ones included')
    print(f'  {len(result["solves"])} solves')
    for kind, counts in result['counts'].items():
        if isinstance(counts, dict) and counts['received']:
            reasons = ', '.join(f'{k} {v}' for k, v in counts['dropped'].items())
            print(f'  {kind}: {counts["received"]} received, {counts["accepted"]} accepted, '
                  f'{counts["merged"]} merged, dropped: {reasons or "none"}')


def _noise(factors: dict[str, float]) -> None:
    """Sources whose noise is far from what it claims."""
    for source, factor in factors.items():
        if not 1 / FAR_NOISE < factor < FAR_NOISE:
            print(f'  {noise_text(source, factor)}')


def _errors(truth: dict[str, Any], verbose: bool) -> None:
    print(f'  against ground truth: RMSE {truth["ate_rmse_m"]:.3f} m, mean '
          f'{truth["ate_m"]:.3f} m (aligned on {", ".join(truth["aligned_on"])}; '
          f'{truth["compared"]} of {truth["keyframes"]} keyframes)')
    for line in accuracy_lines(truth['stated']):
        print(f'  {line}')
    if not verbose:
        return
    for robot, errors in truth['robots'].items():
        print(f'    {robot}: mean {errors["ate_m"]:.3f} m')
