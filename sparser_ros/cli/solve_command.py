"""`sparser solve`: a graph file to its optimal trajectory."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array_types import Array
from ..config import ConfigError, SolverConfig, SolverError
from ..graph import Estimate, Graph, estimate_of, range_residuals
from ..graph.estimate import from_first_pose, turned_onto
from . import calibrate_command
from .console import (
    NOT_CONVERGED,
    SOLVED,
    certificate_text,
    rejected_text,
    residual_text,
    show_undetermined,
    show_warnings,
    show_written,
    solve_progress,
    status_text,
)
from .options import (
    Kind,
    Reads,
    Writes,
    add_config_options,
    add_force,
    add_plot,
    add_report,
    add_run_folder,
    config_from,
    write_report,
)

if TYPE_CHECKING:
    from ..solver import SolveResult

# (flag, name of the option in SolverConfig, metavar); defaults and help come from there.
OPTIONS = (
    ('--init', 'init', None),
    ('--rank', 'rank', 'P'),
    ('--seed', 'seed', 'K'),
    ('--formulation', 'formulation', None),
    ('--backend', 'backend', None),
    ('--target-cost', 'target_cost', 'F'),
    ('--time-limit', 'time_limit_s', 'S'),
    ('--max-iterations', 'max_iterations', 'N'),
    ('--certify', 'certify', None),
    ('--kernel', 'robust.kernel', None),
    ('--gnc', 'robust.gnc', None),
    ('--threshold', 'robust.threshold', 'C'),
)


def add_solve(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        'solve', help='solve a graph file',
        description='Solve a .pyfg or .g2o graph. Exit code 0: solved; 2: bad input; '
        '3: not converged, or parts are undetermined (they are named; --partial accepts them); '
        'the best iterate is written.')
    parser.add_argument('graph', action=Reads, kind=Kind.GRAPH, metavar='GRAPH',
                        help='.pyfg or .g2o file')
    add_config_options(parser, SolverConfig, OPTIONS)
    parser.add_argument(
        '--covariance', action='store_true',
        help='marginal covariances of newest poses and landmarks, printed and in the report')
    add_report(parser)
    add_run_folder(parser)
    parser.add_argument('--output', action=Writes, kind=Kind.GRAPH, metavar='SOLVED_GRAPH',
                        help='write the graph with the solved values in its vertices')
    add_force(parser)
    parser.add_argument('--tum', action=Writes, kind=Kind.FOLDER, metavar='DIR',
                        help='write <robot>.tum into DIR')
    add_plot(parser)
    parser.add_argument('--no-reference', action='store_true', help=(
        'leave the positions in the file out of the picture'))
    parser.add_argument('--residuals', action=Writes, kind=Kind.PICTURE, metavar='P.png',
                        help='draw histograms of the residuals')
    parser.add_argument('--partial', action='store_true', help=(
        'exit code 0 although parts of the graph have no measurement to the rest'))
    parser.add_argument('-v', '--verbose', action='store_true',
                        help='iterations, times by stage and what was chosen for this graph, why')
    calibrate_command.add_calibration_options(parser)
    parser.set_defaults(run=run)


def config_of(args: argparse.Namespace) -> SolverConfig:
    """The solver options of a command line; ConfigError names the flag that is out of bounds."""
    config = config_from(args, SolverConfig, OPTIONS)
    about = '--gnc' if config.robust.gnc else \
        '--threshold' if getattr(args, 'SolverConfig.robust.threshold') is not None else ''
    if not about:
        return config
    config = config_from(args, SolverConfig, OPTIONS, **{'robust.kernel': 'gm'})
    if config.robust.kernel == 'none':
        raise ConfigError(f'--kernel none: {about} is about a robust kernel; choose another, '
                          'or leave --kernel out for gm')
    return config


def run(args: argparse.Namespace) -> int:
    """Solve the graph; 0 solved, 3 not converged."""
    config, calibration = config_of(args), calibrate_command.calibration_of(args)
    if args.output and args.output.suffix.lower() != args.graph.suffix.lower():
        raise ConfigError(f'--output: expected a name ending in {args.graph.suffix}, like the '
                          f'input, got {args.output}')
    from ..backend.observability.judgement import judge
    from ..io import graph_file
    from ..solver import SolveStatus, solve, solve_checked

    start = time.perf_counter()
    graph = graph_file.read(args.graph).validate()
    load = time.perf_counter() - start
    show_warnings(graph.remarks)
    radios = None
    with solve_progress() as progress:
        result = solve_checked(graph, config, progress=progress)
        if calibration is not None and result.estimate is not None:
            from ..backend.calibrate.self_calibration import self_calibrate

            radios = self_calibrate(graph, result.estimate, calibration, config)
            if radios.graph is not graph:
                graph = radios.graph
                result = solve(graph, config, initial=radios.estimate, progress=progress)
    estimate = result.estimate
    seconds = {'load': load, 'total': time.perf_counter() - start}
    truth = reference(args.graph, graph)
    written: list[Path] = []
    if estimate is not None:
        estimate = in_file_frame(graph, estimate, truth)
        written = _write(args, graph, estimate, truth, result)
    judgement = judge(
        graph, estimate if result.status is SolveStatus.CONVERGED else None, result.stats.weights,
        remedy='--gnc finds the false ones and solves without them')
    lost = [finding.text for finding in judgement.undetermined]
    warnings = [finding.text for finding in judgement.warnings]
    show_warnings(warnings)
    covariance = None
    if (args.covariance or args.run_folder) and estimate is not None:
        covariance = covariances_of(graph, estimate, result.stats.weights)
    if args.report or args.run_folder:
        from ..io import report

        fields = {**report.build(
            graph, result.stats, result.status, estimate=estimate, message=result.message,
            dataset=args.graph.stem, seconds=seconds, truth=truth),
            **calibrate_command.calibration_fields(radios), 'covariance': covariance,
            'warnings': [*graph.remarks, *warnings], 'undetermined': lost, 'other_places': {
                name: {'position': place.position.tolist(), 'distance_m': place.distance_m}
                for name, place in judgement.other_places.items()}}
        written += write_report(args, fields)
        if args.run_folder and estimate is not None:
            written += report.write_run(args.run_folder, graph, estimate, fields)
    _show(graph, result, seconds['total'], estimate, truth, partial=bool(lost))
    if args.verbose:
        _show_details(result)
    calibrate_command.show_radios(radios)
    if args.covariance and covariance is not None:
        _show_covariances(covariance)
    show_written(written)
    show_undetermined(lost)
    solved = result.status.solved and (args.partial or not lost)
    return SOLVED if solved else NOT_CONVERGED


def reference(path: Path, graph: Graph) -> Estimate | None:
    """Ground truth from the vertices of a .pyfg; None for a .g2o, whose vertices are a start."""
    free = graph.landmarks.position[~graph.landmarks.fixed]
    known = graph.poses.translation if graph.n_poses else free
    if path.suffix.lower() != '.pyfg' or not np.any(known):
        return None
    return estimate_of(graph)


def in_file_frame(graph: Graph, estimate: Estimate, truth: Estimate | None) -> Estimate:
    """The estimate in the frame of the file's vertices, unless measurements fix the frame.

    Aligned with the reference where there is one, else with the file's first pose.
    """
    from ..linalg.rotations import align

    if graph.anchored:
        return estimate
    if not graph.n_poses:
        # Distances between points say nothing about the side: the mirror image is as good.
        return estimate if truth is None else estimate.moved(
            *align(estimate.landmarks, truth.landmarks, mirror=True))
    if truth is not None and graph.n_poses > graph.dimension:
        return turned_onto(
            estimate, align(estimate.translation, truth.translation)[0],
            estimate.translation.mean(axis=0), truth.translation.mean(axis=0), graph)
    return from_first_pose(graph, estimate)


def _write(
    args: argparse.Namespace, graph: Graph, estimate: Estimate, truth: Estimate | None,
    result: SolveResult,
) -> list[Path]:
    """Write what the options name; returns the files."""
    from ..graph import with_estimate
    from ..io import graph_file, tum

    written = [path for path in (args.output, args.plot, args.residuals) if path]
    if args.output:
        graph_file.rewrite_vertices(args.graph, args.output, with_estimate(graph, estimate))
    if args.tum:
        written += tum.write(args.tum, graph, estimate, graph.poses.stamp_ns)
    if args.plot:
        from ..plot.pictures import save_map

        save_map(
            args.plot, graph, estimate, truth=None if args.no_reference else truth,
            weights=result.stats.weights, cost=result.stats.cost_final)
    if args.residuals:
        from ..io.report import whitened
        from ..plot.pictures import save_histograms

        save_histograms(args.residuals, whitened(graph, estimate), graph.name)
    return written


def covariances_of(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> dict[str, Any]:
    """Fields of the report: covariances of newest poses and landmarks, or why there are none."""
    from ..graph.parts import components
    from ..io import report
    from ..solver.covariance import marginal_covariance, variance_factor

    newest = {robot: int(rows[-1]) for number, robot in enumerate(graph.robots)
              if len(rows := graph.pose_rows(number))}
    try:
        blocks = marginal_covariance(
            graph, estimate, list(newest.values()), range(graph.n_landmarks), weights=weights)
    except SolverError as error:
        return {'error': str(error)}
    # A part without a tie to the rest is at rest in a frame of its own, which is not map.
    known = components(graph) == 0
    poses = {robot: block if known[row] else None
             for (robot, row), block in zip(newest.items(), blocks.poses, strict=True)}
    marks = {name: block if there else None for name, block, there in zip(
        graph.landmarks.names, blocks.landmarks, known[graph.n_poses:], strict=True)}
    first = graph.robots[graph.poses.robot[0]] if graph.n_poses else ''
    gauge = 'absolute data' if graph.anchored else f'the first pose of {first}'
    return report.covariance_fields(
        gauge, variance_factor(graph, estimate, weights), poses, marks)


def _show(
    graph: Graph, result: SolveResult, seconds: float, estimate: Estimate | None,
    truth: Estimate | None, *, partial: bool = False,
) -> None:
    """Print errors, residuals, what is rejected, and the certificate where one was asked for.

    `partial`: parts of the graph are undetermined, which the status then says.
    """
    from ..io.report import REJECTED_BELOW, ate, ate_rmse

    stats = result.stats
    print(f'{graph.name}: {graph}\n{status_text(result.status.value, partial)} in {seconds:.2f} s')
    if not result.status.solved:
        print(result.message)
    if truth is not None and estimate is not None:
        print(f'  against the positions in the file: RMSE {ate_rmse(estimate, truth):.3f} m, '
              f'mean {ate(estimate, truth):.3f} m')
    if estimate is not None and len(graph.ranges):
        absolute = np.abs(range_residuals(graph, estimate))
        print(f'  {residual_text(float(np.median(absolute)), float(np.percentile(absolute, 95)))}')
    if stats.weights:
        print('  ' + rejected_text(
            {name: int(np.sum(weights < REJECTED_BELOW))
             for name, weights in stats.weights.items()}, graph))
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    if stats.certified is not None and stats.suboptimality is not None and cost is not None:
        print(f'  {certificate_text(cost, stats.suboptimality, stats.certified)}')


def _show_details(result: SolveResult) -> None:
    """What a developer asks: costs, effort, times and choices."""
    stats = result.stats
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    print(f'  cost {"none" if cost is None else f"{cost:.8g}"}' + (
        '' if stats.cost_robust is None
        else f' at unit weights, {stats.cost_robust:.8g} with kernel {stats.kernel}'))
    times = ', '.join(f'{stage} {seconds:.3f} s' for stage, seconds in stats.seconds.items())
    print(f'  {stats.iterations} iterations, {stats.cg_steps} CG steps from {stats.init} at rank '
          f'{stats.rank}; {times}; on the {stats.backend}')
    for name, choice in stats.plan.items():
        print(f'  {name}: {choice}')


def _show_covariances(fields: Mapping[str, Any]) -> None:
    """Print the standard deviations of a report's covariances, or why there are none."""
    if 'error' in fields:
        print(f'covariances: {fields["error"]}')
        return
    print(f'standard deviations relative to {fields["gauge"]}, by the claimed noise '
          f'(found variance {fields["variance_factor"]:.2f} times that):')
    size = 2 if fields['order'] == 'x y rz' else 3
    for kind in ('newest_poses', 'landmarks'):
        for name, values in fields[kind].items():
            if values is None:
                print(f'  {name}: undetermined')
                continue
            sigma = np.sqrt(np.maximum(np.diag(np.array(values)), 0))
            turn = ''.join(f' {np.degrees(s):.3f} deg' for s in sigma[size:])
            print(f'  {name}: ' + ' '.join(f'{s:.3f} m' for s in sigma[:size]) + turn)
