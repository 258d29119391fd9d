"""`sparser solve`: a graph file to its optimal trajectory."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import ConfigError, FlatOption, SolverConfig, SolverError, build, walk
from ..graph import Estimate, Graph, estimate_of
from . import calibration_options
from .exit_codes import NOT_CONVERGED, SOLVED

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
        '3: not converged, the best iterate is written.')
    parser.add_argument('graph', type=Path, metavar='GRAPH', help='.pyfg or .g2o file')
    known = {o.name: o for o in walk(SolverConfig)}
    for flag, name, metavar in OPTIONS:
        _add_option(parser, flag, known[name], metavar)
    parser.add_argument(
        '--covariance', action='store_true',
        help='marginal covariances of newest poses and landmarks, printed and in the report')
    parser.add_argument('--report', type=Path, metavar='R.json', help='write a JSON report')
    parser.add_argument('--output', type=Path, metavar='SOLVED_GRAPH',
                        help='write the graph with the solved values in its vertices')
    parser.add_argument('--tum', type=Path, metavar='DIR', help='write <robot>.tum into DIR')
    parser.add_argument('--plot', type=Path, metavar='P.png', help='draw the map')
    parser.add_argument('--residuals', type=Path, metavar='P.png',
                        help='draw histograms of the residuals')
    calibration_options.add(parser)
    parser.set_defaults(run=run)


def _add_option(
    parser: argparse.ArgumentParser, flag: str, option: FlatOption, metavar: str | None
) -> None:
    info = option.info
    unit = f' [{info.unit}]' if info.unit else ''
    default = '' if option.default is None else f' (default {option.default})'
    if option.type is bool:
        parser.add_argument(flag, dest=option.name, action='store_const', const=True,
                            help=f'{info.doc}{unit}')
        return
    kind: Any = {'int': int, 'str': str}.get(getattr(option.type, '__name__', ''), float)
    parser.add_argument(flag, dest=option.name, type=kind, choices=info.choices, metavar=metavar,
                        help=f'{info.doc}{unit}{default}')


def config_of(args: argparse.Namespace) -> SolverConfig:
    """The solver options of a command line; ConfigError names the flag that is out of bounds."""
    values = {name: getattr(args, name) for _, name, _ in OPTIONS}
    if values['robust.gnc'] and values['robust.kernel'] is None:
        values['robust.kernel'] = 'gm'
    try:
        return build(SolverConfig, {k: v for k, v in values.items() if v is not None})
    except ConfigError as error:
        text = str(error)
        for flag, name, _ in OPTIONS:
            if text.startswith(f'{name}:'):
                text = flag + text[len(name):]
        raise ConfigError(text) from None


def run(args: argparse.Namespace) -> int:
    """Solve the graph; 0 solved, 3 not converged."""
    config = config_of(args)
    _check_outputs(args)
    from ..io import graph_file
    from ..solver import solve
    from .progress import solve_progress

    start = time.perf_counter()
    graph = graph_file.read(args.graph).validate()
    load = time.perf_counter() - start
    with solve_progress() as progress:
        result = solve(graph, config, progress=progress)
        found = calibration_options.found_in(args, graph, result, config)
        if found is not None and found.graph is not graph:
            graph = found.graph
            result = solve(graph, config, initial=found.estimate, progress=progress)
    estimate = result.estimate
    seconds = {'load': load, 'total': time.perf_counter() - start}
    truth = reference(args.graph, graph)
    if estimate is not None:
        estimate = in_file_frame(graph, estimate, truth)
        _write(args, graph, estimate, truth, result)
    covariance = None
    if args.covariance and estimate is not None:
        covariance = covariances_of(graph, estimate, result.stats.weights)
    if args.report:
        from ..io import report

        fields = report.build(
            graph, result.stats, result.status, estimate=estimate, message=result.message,
            dataset=args.graph.stem, seconds=seconds, truth=truth)
        report.write(args.report, {
            **fields, **calibration_options.fields(found), 'covariance': covariance})
    _summary(graph, result, seconds['total'], estimate, truth)
    calibration_options.show(found)
    if covariance is not None:
        _covariance_summary(covariance)
    return SOLVED if result.status.solved else NOT_CONVERGED


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
) -> None:
    from ..graph import with_estimate
    from ..io import graph_file, tum

    if args.output:
        graph_file.rewrite_vertices(args.graph, args.output, with_estimate(graph, estimate))
    if args.tum:
        tum.write(args.tum, graph, estimate, graph.poses.stamp_ns)
    if args.plot:
        from ..plot import map as map_plot

        map_plot.save(
            args.plot, graph, estimate, truth=truth, weights=result.stats.weights,
            cost=result.stats.cost_final)
    if args.residuals:
        from ..io.report import whitened
        from ..plot import residual_histograms

        residual_histograms.save(args.residuals, whitened(graph, estimate), graph.name)


def covariances_of(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> dict[str, Any]:
    """Fields of the report: covariances of newest poses and landmarks, or why there are none."""
    from ..io import report
    from ..solver.certify.covariance import marginal_covariance, variance_factor

    newest = {
        robot: int(rows[np.argmax(graph.poses.index[rows])])
        for number, robot in enumerate(graph.robots)
        if len(rows := np.flatnonzero(graph.poses.robot == number))}
    try:
        found = marginal_covariance(
            graph, estimate, list(newest.values()), range(graph.n_landmarks), weights=weights)
    except SolverError as error:
        return {'error': str(error)}
    first = graph.robots[graph.poses.robot[0]] if graph.n_poses else ''
    gauge = 'absolute data' if graph.anchored else f'the first pose of {first}'
    return report.covariance_fields(
        gauge, variance_factor(graph, estimate, weights),
        dict(zip(newest, found.poses, strict=True)),
        dict(zip(graph.landmarks.names, found.landmarks, strict=True)))


def _covariance_summary(fields: Mapping[str, Any]) -> None:
    if 'error' in fields:
        print(f'covariances: {fields["error"]}')
        return
    print(f'standard deviations relative to {fields["gauge"]}, by the claimed noise '
          f'(found variance {fields["variance_factor"]:.2f} times that):')
    size = 2 if fields['order'] == 'x y rz' else 3
    for kind in ('newest_poses', 'landmarks'):
        for name, values in fields[kind].items():
            sigma = np.sqrt(np.maximum(np.diag(np.array(values)), 0))
            turn = ''.join(f' {np.degrees(s):.3f} deg' for s in sigma[size:])
            print(f'  {name}: ' + ' '.join(f'{s:.3f} m' for s in sigma[:size]) + turn)


def certificate_text(cost: float, suboptimality: float, certified: bool) -> str:
    """What a certificate says, in words; costs as in the report."""
    lowest = max(cost - suboptimality, 0.0)
    share = f' ({100 * suboptimality / cost:.2g} %)' if cost > 0 else ''
    if certified:
        return (f'certified: this is the best possible map; no solution costs less than '
                f'{lowest:.8g}')
    if not np.isfinite(suboptimality):
        return 'not certified: no bound on better maps was found'
    return (f'not certified: no solution costs less than {lowest:.6g}; the best possible map is at '
            f'most {suboptimality:.4g}{share} better')


def _summary(
    graph: Graph, result: Any, seconds: float, estimate: Estimate | None, truth: Estimate | None
) -> None:
    from ..io.report import REJECTED_BELOW, ate, ate_rmse

    stats = result.stats
    cost = stats.cost_relaxed if stats.cost_final is None else stats.cost_final
    shown = 'none' if cost is None else f'{cost:.8g}'
    print(
        f'{graph.name}: {graph}\n'
        f'{result.status.value}: cost {shown} after {stats.iterations} iterations, '
        f'{seconds:.2f} s on the {stats.backend} ({stats.backend_reason})')
    if stats.cost_robust is not None:
        rejected = sum(int(np.sum(w < REJECTED_BELOW)) for w in stats.weights.values())
        print(f'{stats.kernel}: robust cost {stats.cost_robust:.8g}, {rejected} rejected')
    if stats.certified is not None:
        print(certificate_text(cost, stats.suboptimality, stats.certified))
    if truth is not None and estimate is not None:
        print(f'against the positions in the file: RMSE {ate_rmse(estimate, truth):.3f} m, '
              f'mean {ate(estimate, truth):.3f} m')
    if not result.status.solved:
        print(result.message)
