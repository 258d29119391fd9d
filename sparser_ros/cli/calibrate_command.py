"""`sparser calibrate`: radios of a bag or graph, against the solved map or a reference."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import ConfigError, SolverError, SparserConfig
from . import calibration_options
from .exit_codes import SOLVED
from .info_command import bag_parameters
from .path_options import GRAPHS, Kind, Reads, Writes, add_force, add_report, write_report

if TYPE_CHECKING:
    from ..calibrate.lever_arms import LeverRow
    from ..calibrate.self_calibration import SelfCalibration
    from ..graph import Graph


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Declare `sparser calibrate`."""
    parser = subparsers.add_parser(
        'calibrate', help='biases, noise, clocks and lever arms of radios from a bag or graph file',
        description='Estimate biases, scale, noise, share of blocked ranges, clocks and lever arms '
        'of all radios against the map that is solved with them, or against a reference. Exit '
        'code 0: done (what could not be determined is said); 2: bad input.')
    parser.add_argument('data', action=Reads, kind=Kind.DATA, metavar='BAG|GRAPH',
                        help='ROS 2 bag, .pyfg or .g2o file')
    parser.add_argument('--config', action=Reads, kind=Kind.PARAMETERS, metavar='C.yaml',
                        help=(
        "a bag's parameter file (default: drafted from the bag, as `sparser info` does)"))
    parser.add_argument('--truth', metavar='TOPIC|FILE', help=(
        'reference positions: for a bag the topic of a pose, with {robot} for several robots; for '
        'a graph a .pyfg whose vertices are the reference'))
    parser.add_argument('--truth-sigma', type=float, default=0.02, metavar='M',
                        help='standard deviation of the reference per axis [m] (default 0.02)')
    parser.add_argument('-o', '--output', action=Writes, kind=Kind.PARAMETERS,
                        metavar='RADIOS.yaml', help=(
        'write the parameters that the node reads, on top of --config or of the draft'))
    add_force(parser)
    add_report(parser)
    parser.add_argument('--plots', action=Writes, kind=Kind.FOLDER, metavar='DIR',
                        help='draw a picture of each pair')
    calibration_options.add(parser, always=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Calibrate; 0 done, whatever could be determined."""
    from ..calibrate.antennas_and_clocks import SIGNIFICANT, calibration_with_places
    from ..calibrate.radio_words import doubt, either_words
    from ..config.solver_config import LiveSolverConfig

    if not 0 < args.truth_sigma < np.inf:
        raise ConfigError(f'--truth-sigma: expected a positive length, got {args.truth_sigma}')
    if args.data.suffix.lower() in GRAPHS:
        config, values = _graph_config(args)
        graph = _graph(args)
    else:
        config, values, graph = _bag(args)
    options = calibration_options.config_of(args)
    assert options is not None
    options = replace(options, sigma='estimate')
    end = [one for one in calibration_with_places(graph, None, options, LiveSolverConfig()) if one]
    found, shown = end[-1]
    either = shown.either(SIGNIFICANT)
    calibration_options.show(found)
    for row in shown.clocks:
        if row.determined:
            print(f'  clock of {row.source}: stamps {row.late_s * 1e3:+.0f} +- '
                  f'{row.sigma_s * 1e3:.0f} ms late'
                  + ('' if row.significant(SIGNIFICANT) else ' (not significant)'))
    calibration_options.show_levers(shown.antennas)
    for one in either:
        print(f'  {either_words(one.robot, one.late_s, one.axis, one.error_m)}')
    _write(args, config, values, found, shown.antennas, {
        'clocks': [asdict(row) for row in shown.clocks if row.determined],
        'lever_arms': [asdict(row) | {
            'determined': row.determined, 'significant': row.significant(SIGNIFICANT),
            'doubt': doubt(row.error_m)}
            for row in shown.antennas],
        'antennas_or_clocks': [asdict(row) for row in either]})
    return SOLVED


def _graph(args: argparse.Namespace) -> Graph:
    from ..calibrate.reference_trajectory import held_to
    from ..io import graph_file

    graph = graph_file.read(args.data).validate()
    if not args.truth:
        return graph
    truth = graph_file.read(Path(args.truth))
    if truth.n_poses != graph.n_poses:
        raise ConfigError(
            f'--truth: {args.truth} has {truth.n_poses} poses, {args.data} has {graph.n_poses}')
    return held_to(graph, truth.poses.translation, np.ones(graph.n_poses, dtype=bool),
                   args.truth_sigma)


def _graph_config(args: argparse.Namespace) -> tuple[SparserConfig, dict[str, Any]]:
    """The configuration on top of which a graph's radios are written, also as parameters."""
    if args.config:
        return bag_parameters(args.data, args.config)
    from ..io import graph_file

    robots = list(graph_file.read(args.data).robots)
    config = SparserConfig(robots=robots) if robots else SparserConfig()
    return config, {'robots': list(config.robots)}


def _bag(args: argparse.Namespace) -> tuple[SparserConfig, dict[str, Any], Graph]:
    """The configuration of a bag, also as parameters, and the graph of a replay."""
    from ..backend.replay import replay
    from ..calibrate.reference_trajectory import held_to
    from .progress import replay_progress

    config, values = bag_parameters(args.data, args.config)
    if args.truth:
        topics = {robot: config.topic(args.truth, robot) for robot in config.robots}
        config = replace(config, backend=replace(config.backend, truth_topics=topics))
    with replay_progress() as progress:
        state = replay.run(args.data, config, progress)
    if state.solution is None:
        raise ConfigError(f'{args.data}: no odometry was usable: there is no map')
    graph = replay.heard_part(state.measured, state.solution)
    if not graph.n_poses:
        raise SolverError('no robot has a place in the map, against which radios could be '
                          f'calibrated: {"; ".join(replay.undetermined_robots(state))}')
    if args.truth:
        reference = replay.reference_positions(
            graph, state.tracks, state.frontend.recorded_odometry())
        graph = held_to(graph, *reference, args.truth_sigma)
    return config, values, graph


def _write(
    args: argparse.Namespace, config: SparserConfig, before: dict[str, Any],
    found: SelfCalibration, levers: Sequence[LeverRow], further: dict[str, list[dict[str, Any]]],
) -> None:
    """Write what the options name, and say what that is."""
    if args.output:
        from ..calibrate.radio_settings import radio_settings
        from ..io import atomic

        settings: dict[str, Any] = radio_settings(
            config, found, noise=True, levers=levers)
        ranges = {**before.get('ranges', {}), **settings['ranges']}
        atomic.write_parameters(
            args.output, {**before, 'radios': settings['radios'], 'ranges': ranges})
        _tell_settings(args.output, config, found, settings)
    written: list[Path] = []
    if args.report:
        from ..calibrate.radio_table import as_dict

        written += write_report(args, {
            'dataset': args.data.stem, 'calibration': as_dict(found), **further})
    if args.plots:
        _draw(args.plots, found)
        written.append(args.plots)
    if written:
        print(f'written: {", ".join(map(str, written))}')


def _tell_settings(
    path: Path, config: SparserConfig, found: SelfCalibration, settings: dict[str, Any]
) -> None:
    """What of which radios is new in the file, and which of its biases chance may have made."""
    from ..calibrate.radio_table import radio_rows

    print(f'written: {path}')
    for name in ('bias_m', 'range_sigma_m', 'lever_arm'):
        radios = [radio for radio, entry in settings['radios'].items()
                  if (entry.get(name) or 0.0) != (config.radios.get(radio, {}).get(name) or 0.0)]
        print(f'  {name} of {", ".join(radios)}' if radios else f'  {name} as configured')
    near = [row.name for row in radio_rows(found) if found.applied and not row.significant]
    if near:
        print(f'  not significant (within its standard deviation): bias_m of {", ".join(near)}')


def _draw(folder: Path, found: SelfCalibration) -> None:
    """One picture of each pair."""
    from ..calibrate.radio_table import BLOCKED_BELOW
    from ..graph import range_residuals
    from ..io.tum import safe_name
    from ..plot import pair_residuals

    low, high, number = found.ends.pairs
    weights = found.weights.get('ranges', np.ones(len(number)))
    before = -range_residuals(found.measured, found.estimate)
    after = -range_residuals(found.graph, found.estimate)
    for pair, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        rows = number == pair
        one, other = found.ends.names[a], found.ends.names[b]
        pair_residuals.save(
            folder / f'{safe_name(one)}_{safe_name(other)}.png',
            f'ranges between {one} and {other} ({np.sum(rows)})',
            found.graph.ranges.distance_m[rows], found.ends.seconds[rows], before[rows],
            after[rows], weights[rows] < BLOCKED_BELOW)
