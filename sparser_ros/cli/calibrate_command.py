"""`sparser calibrate`: radios of a bag or graph, against the solved map or a reference.

`sparser solve` and `sparser replay` calibrate as well: their options, and what they print of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import ConfigError, SolverError, SparserConfig
from ..config.calibration_config import CalibrationConfig
from ..config.option import nested
from .console import SOLVED, show_written
from .info_command import bag_parameters, replayed
from .options import (
    GRAPHS,
    Kind,
    Reads,
    Writes,
    add_config_options,
    add_force,
    add_report,
    config_from,
    write_report,
)

if TYPE_CHECKING:
    from ..backend.calibrate.antennas_and_clocks import LeverRow
    from ..backend.calibrate.self_calibration import SelfCalibration
    from ..graph import Graph

# (flag, name of the option in CalibrationConfig, metavar)
OPTIONS = (
    ('--bias-sigma', 'bias_sigma_m', 'M'),
    ('--type-bias-sigma', 'type_bias_sigma_m', 'M'),
    ('--scale-sigma', 'scale_sigma', 'S'),
    ('--range-sigma', 'sigma', None),
)


def add_calibrate(subparsers: argparse._SubParsersAction) -> None:
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
    add_config_options(
        parser.add_argument_group('calibration of radios'), CalibrationConfig, OPTIONS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Calibrate; 0 done, whatever could be determined."""
    from ..backend.calibrate.antennas_and_clocks import SIGNIFICANT, calibration_with_places
    from ..backend.integrity.radio_errors import doubt, either_words
    from ..config.solver_config import LIVE_SOLVER

    if not 0 < args.truth_sigma < np.inf:
        raise ConfigError(f'--truth-sigma: expected a positive length, got {args.truth_sigma}')
    if args.data.suffix.lower() in GRAPHS:
        config, values, graph = _graph(args)
    else:
        config, values, graph = _bag(args)
    options = replace(config_from(args, CalibrationConfig, OPTIONS), sigma='estimate')
    ends = [end for end in calibration_with_places(graph, None, options, LIVE_SOLVER) if end]
    radios, places = ends[-1]
    either = places.either(SIGNIFICANT)
    show_radios(radios)
    for row in places.clocks:
        if row.determined:
            print(f'  clock of {row.source}: stamps {row.late_s * 1e3:+.0f} +- '
                  f'{row.sigma_s * 1e3:.0f} ms late'
                  + ('' if row.significant(SIGNIFICANT) else ' (not significant)'))
    show_levers(places.antennas)
    for choice in either:
        print(f'  {either_words(choice.robot, choice.late_s, choice.axis, choice.error_m)}')
    if args.output:
        _write_settings(args.output, config, values, radios, places.antennas)
    show_written(write_report(args, {
        'dataset': args.data.stem, **calibration_fields(radios),
        'clocks': [asdict(row) for row in places.clocks if row.determined],
        'lever_arms': [asdict(row) | {
            'determined': row.determined, 'significant': row.significant(SIGNIFICANT),
            'doubt': doubt(row.error_m)}
            for row in places.antennas],
        'antennas_or_clocks': [asdict(row) for row in either]}))
    return SOLVED


def _graph(args: argparse.Namespace) -> tuple[SparserConfig, dict[str, Any], Graph]:
    """The configuration on top of which a graph's radios are written, its values, the graph."""
    from ..backend.calibrate.self_calibration import held_to
    from ..io import graph_file

    graph = graph_file.read(args.data).validate()
    if not graph.n_poses:
        raise ConfigError(f'{args.data}: it has no poses, and calibration is by robots that move; '
                          '`sparser solve --calibrate` estimates biases without them')
    if args.config:
        config, values = bag_parameters(args.data, args.config)
    else:
        marks = graph.landmarks
        values = {'dimension': graph.dimension, 'radios': {
            marks.names[row]: {'beacon': marks.names[row], 'position': marks.position[row].tolist()}
            for row in np.flatnonzero(marks.fixed)}}
        if graph.robots:
            values['robots'] = list(graph.robots)
        config = SparserConfig.from_mapping(values)
    if not args.truth:
        return config, values, graph
    truth = graph_file.read(Path(args.truth))
    same = (truth.dimension, truth.robots) == (graph.dimension, graph.robots) and all(
        np.array_equal(getattr(truth.poses, name), getattr(graph.poses, name))
        for name in ('robot', 'index'))
    if not same:
        raise ConfigError(
            f'--truth: {args.truth} has other poses than {args.data}, or in another order')
    return config, values, held_to(
        graph, truth.poses.translation, np.ones(graph.n_poses, dtype=bool), args.truth_sigma)


def _bag(args: argparse.Namespace) -> tuple[SparserConfig, dict[str, Any], Graph]:
    """The configuration of a bag, also as parameters, and the graph of a replay."""
    from ..backend.calibrate.self_calibration import held_to
    from ..backend.replay import replay
    from ..backend.replay.truth import recorded
    from ..io.availability import at_poses

    config, values = bag_parameters(args.data, args.config)
    if args.truth:
        topics = {robot: config.topic(args.truth, robot) for robot in config.robots}
        config = replace(config, backend=replace(config.backend, truth_topics=topics))
    state, solution = replayed(args.data, config)
    graph = replay.heard_part(state.measured, solution)
    if not graph.n_poses:
        raise SolverError('no robot has a place in the map, against which radios could be '
                          f'calibrated: {"; ".join(replay.undetermined_robots(state))}')
    if args.truth:
        places = at_poses(graph, recorded(state.tracks, graph.dimension))
        graph = held_to(graph, places, np.all(np.isfinite(places), axis=1), args.truth_sigma)
    return config, values, graph


def _write_settings(
    path: Path, config: SparserConfig, values: dict[str, Any], radios: SelfCalibration,
    levers: Sequence[LeverRow],
) -> None:
    """Write the parameters of the radios on top of `values`, and say what is new in the file."""
    from ..backend.calibrate.results import radio_rows, radio_settings
    from ..io import atomic

    # A dotted name that stays beside a block would say the old value again.
    values = nested(values)
    settings: dict[str, Any] = radio_settings(config, radios, noise=True, levers=levers)
    ranges = {**values.get('ranges', {}), **settings['ranges']}
    atomic.write_parameters(path, {**values, 'radios': settings['radios'], 'ranges': ranges})
    print(f'written: {path}')
    for name in ('bias_m', 'range_sigma_m', 'lever_arm'):
        new = [radio for radio, entry in settings['radios'].items()
               if (entry.get(name) or 0.0) != (config.radios.get(radio, {}).get(name) or 0.0)]
        print(f'  {name} of {", ".join(new)}' if new else f'  {name} as configured')
    near = [row.name for row in radio_rows(radios) if radios.applied and not row.significant]
    if near:
        print(f'  not significant (within its standard deviation): bias_m of {", ".join(near)}')


def add_calibration_options(parser: argparse.ArgumentParser) -> None:
    """Declare --calibrate of another command, and the options that it needs."""
    group = parser.add_argument_group('calibration of radios')
    group.add_argument('--calibrate', action='store_true', help=(
        'estimate the biases of all radios with the map, and apply them where they are '
        'significant'))
    add_config_options(group, CalibrationConfig, OPTIONS)


def calibration_of(args: argparse.Namespace) -> CalibrationConfig | None:
    """The calibration that those options ask for, if any; ConfigError where it cannot be."""
    config = config_from(args, CalibrationConfig, OPTIONS)
    if args.calibrate:
        return config
    if config != CalibrationConfig():
        raise ConfigError(f'{", ".join(flag for flag, _, _ in OPTIONS)}: need --calibrate')
    return None


def calibration_fields(radios: SelfCalibration | None) -> dict[str, Any]:
    if radios is None:
        return {}
    from ..backend.calibrate.results import as_dict

    return {'calibration': as_dict(radios)}


def show_levers(antennas: Iterable[LeverRow]) -> None:
    """Print by how much lever arms are off, and what to do about it."""
    from ..backend.calibrate.antennas_and_clocks import SIGNIFICANT
    from ..backend.integrity.radio_errors import doubt

    for lever in antennas:
        by = ', '.join(f'{error:+.3f} +- {sigma:.3f}' for error, sigma in zip(
            lever.error_m, lever.sigma_m, strict=True))
        verdict = ('not determined, drive curves' if not lever.determined
                   else 'move it by that much' if lever.to_move(SIGNIFICANT)
                   else f'left as it is: {doubt(lever.error_m)}' if lever.significant(SIGNIFICANT)
                   else 'agrees with the configuration')
        print(f'  lever arm of {lever.robot}: off by ({by}) m: {verdict}')


def show_radios(radios: SelfCalibration | None) -> None:
    if radios is None:
        return
    from ..backend.calibrate.results import lines

    print('\n'.join(lines(radios)))
