"""`sparser solve`: a graph file to its optimal trajectory."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import ConfigError, SolverConfig, SolverError
from ..graph import Estimate, Graph, estimate_of
from . import calibration_options, solve_summary
from .config_options import add_config_options, config_from
from .exit_codes import NOT_CONVERGED, SOLVED
from .path_options import Kind, Reads, Writes, add_force, add_report, write_report
from .warnings_text import show_undetermined, show_warnings

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


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser solve`."""
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
    parser.add_argument('--run', dest='run_folder', action=Writes, kind=Kind.RUN, metavar='DIR',
                        help=(
        'write map, report and covariances into a folder, for `sparser report DIR`'))
    parser.add_argument('--output', action=Writes, kind=Kind.GRAPH, metavar='SOLVED_GRAPH',
                        help='write the graph with the solved values in its vertices')
    add_force(parser)
    parser.add_argument('--tum', action=Writes, kind=Kind.FOLDER, metavar='DIR',
                        help='write <robot>.tum into DIR')
    parser.add_argument('--plot', action=Writes, kind=Kind.PICTURE, metavar='P.png',
                        help='draw the map')
    parser.add_argument('--no-reference', action='store_true', help=(
        'leave the positions in the file out of the picture'))
    parser.add_argument('--residuals', action=Writes, kind=Kind.PICTURE, metavar='P.png',
                        help='draw histograms of the residuals')
    parser.add_argument('--partial', action='store_true', help=(
        'exit code 0 although parts of the graph have no measurement to the rest'))
    parser.add_argument('-v', '--verbose', action='store_true',
                        help='iterations, times by stage and what was chosen for this graph, why')
    calibration_options.add(parser)
    parser.set_defaults(run=run)


def config_of(args: argparse.Namespace) -> SolverConfig:
    """The solver options of a command line; ConfigError names the flag that is out of bounds."""
    config = config_from(args, SolverConfig, OPTIONS)
    if config.robust.gnc and config.robust.kernel == 'none':
        return config_from(args, SolverConfig, OPTIONS, **{'robust.kernel': 'gm'})
    return config


def run(args: argparse.Namespace) -> int:
    """Solve the graph; 0 solved, 3 not converged."""
    config, calibration = config_of(args), calibration_options.config_of(args)
    _check_outputs(args)
    from ..backend.observability.judgement import judge
    from ..io import graph_file
    from ..solver import SolveStatus, solve, solve_checked
    from .progress import solve_progress

    start = time.perf_counter()
    graph = graph_file.read(args.graph).validate()
    load = time.perf_counter() - start
    show_warnings(graph.remarks)
    with solve_progress() as progress:
        result = solve_checked(graph, config, progress=progress)
        found = calibration_options.found_in(calibration, graph, result, config)
        if found is not None and found.graph is not graph:
            graph = found.graph
            result = solve(graph, config, initial=found.estimate, progress=progress)
    estimate = result.estimate
    seconds = {'load': load, 'total': time.perf_counter() - start}
    truth = reference(args.graph, graph)
    written: list[Path] = []
    if estimate is not None:
        estimate = in_file_frame(graph, estimate, truth)
        written = _write(args, graph, estimate, truth, result)
    judged = judge(
        graph, estimate if result.status is SolveStatus.CONVERGED else None, result.stats.weights,
        remedy='--gnc finds the false ones and solves without them')
    lost = [one.text for one in judged.undetermined]
    warnings = [one.text for one in judged.warnings]
    show_warnings(warnings)
    covariance = None
    if (args.covariance or args.run_folder) and estimate is not None:
        covariance = covariances_of(graph, estimate, result.stats.weights)
    if args.report or args.run_folder:
        from ..io import report

        fields = {**report.build(
            graph, result.stats, result.status, estimate=estimate, message=result.message,
            dataset=args.graph.stem, seconds=seconds, truth=truth),
            **calibration_options.fields(found), 'covariance': covariance,
            'warnings': [*graph.remarks, *warnings], 'undetermined': lost, 'other_places': {
                name: {'position': place.position.tolist(), 'distance_m': place.distance_m}
                for name, place in judged.other_places.items()}}
        written += _write_report(args, graph, estimate, fields)
    solve_summary.show(graph, result, seconds['total'], estimate, truth, partial=bool(lost))
    if args.verbose:
        solve_summary.details(result)
    calibration_options.show(found)
    solve_summary.covariances(covariance if args.covariance else None)
    if written:
        print(f'written: {", ".join(map(str, written))}')
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
    from ..linalg.dense.alignment import align

    if graph.anchored:
        return estimate
    if not graph.n_poses:
        # Distances between points say nothing about the side: the mirror image is as good.
        return estimate if truth is None else estimate.moved(
            *align(estimate.landmarks, truth.landmarks, mirror=True))
    if truth is not None and graph.n_poses > graph.dimension:
        return estimate.moved(*align(estimate.translation, truth.translation))
    turn = graph.poses.rotation[0] @ estimate.rotation[0].T
    return estimate.moved(turn, graph.poses.translation[0] - turn @ estimate.translation[0])


def _check_outputs(args: argparse.Namespace) -> None:
    """ConfigError before the solve for an output that could not be written after it."""
    if args.output and args.output.suffix.lower() != args.graph.suffix.lower():
        raise ConfigError(
            f'--output: expected a name ending in {args.graph.suffix}, like the input, '
            f'got {args.output}')


def _write(
    args: argparse.Namespace, graph: Graph, estimate: Estimate, truth: Estimate | None,
    result: Any,
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
        from ..plot import map as map_plot

        map_plot.save(
            args.plot, graph, estimate, truth=None if args.no_reference else truth,
            weights=result.stats.weights, cost=result.stats.cost_final)
    if args.residuals:
        from ..io.report import whitened
        from ..plot import residual_histograms

        residual_histograms.save(args.residuals, whitened(graph, estimate), graph.name)
    return written


def _write_report(
    args: argparse.Namespace, graph: Graph, estimate: Estimate | None, fields: dict[str, Any]
) -> list[Path]:
    from ..io import run_folder

    written = write_report(args, fields)
    if args.run_folder and estimate is not None:
        written += run_folder.write(args.run_folder, graph, estimate, fields)
    return written


def covariances_of(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> dict[str, Any]:
    """Fields of the report: covariances of newest poses and landmarks, or why there are none."""
    from ..graph.connectivity import components
    from ..io import report
    from ..solver.covariance import marginal_covariance, variance_factor

    newest = {
        robot: int(rows[np.argmax(graph.poses.index[rows])])
        for number, robot in enumerate(graph.robots)
        if len(rows := np.flatnonzero(graph.poses.robot == number))}
    try:
        found = marginal_covariance(
            graph, estimate, list(newest.values()), range(graph.n_landmarks), weights=weights)
    except SolverError as error:
        return {'error': str(error)}
    # A part without a tie to the rest is at rest in a frame of its own, which is not map.
    known = components(graph) == 0
    poses = [block if known[row] else None
             for block, row in zip(found.poses, newest.values(), strict=True)]
    marks = [block if row else None
             for block, row in zip(found.landmarks, known[graph.n_poses:], strict=True)]
    first = graph.robots[graph.poses.robot[0]] if graph.n_poses else ''
    gauge = 'absolute data' if graph.anchored else f'the first pose of {first}'
    return report.covariance_fields(
        gauge, variance_factor(graph, estimate, weights),
        dict(zip(newest, poses, strict=True)),
        dict(zip(graph.landmarks.names, marks, strict=True)))
