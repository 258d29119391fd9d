"""Options of commands that calibrate radios, and what they print of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..config import ConfigError, SolverConfig
from ..config.calibration_config import CalibrationConfig
from .config_options import add_config_options, config_from

if TYPE_CHECKING:
    from ..calibrate.lever_arms import LeverRow
    from ..calibrate.self_calibration import SelfCalibration
    from ..graph import Graph
    from ..solver.result import SolveResult

# (flag, name of the option in CalibrationConfig, metavar)
OPTIONS = (
    ('--bias-sigma', 'bias_sigma_m', 'M'),
    ('--type-bias-sigma', 'type_bias_sigma_m', 'M'),
    ('--scale-sigma', 'scale_sigma', 'S'),
    ('--range-sigma', 'sigma', None),
)


def add(parser: argparse.ArgumentParser, *, always: bool = False) -> None:
    """Declare the options; with `always` the command calibrates without being asked."""
    group = parser.add_argument_group('calibration of radios')
    if not always:
        group.add_argument('--calibrate', action='store_true', help=(
            'estimate the biases of all radios with the map, and apply them where they are '
            'significant'))
    add_config_options(group, CalibrationConfig, OPTIONS)


def config_of(args: argparse.Namespace) -> CalibrationConfig | None:
    """The calibration that a command line asks for, if any; ConfigError where it cannot be."""
    config = config_from(args, CalibrationConfig, OPTIONS)
    if getattr(args, 'calibrate', True):
        return config
    if config != CalibrationConfig():
        raise ConfigError(f'{", ".join(flag for flag, _, _ in OPTIONS)}: need --calibrate')
    return None


def found_in(
    calibration: CalibrationConfig | None, graph: Graph, result: SolveResult, config: SolverConfig
) -> SelfCalibration | None:
    """The calibration of a solved graph; None where it is not asked for or nothing was solved."""
    if calibration is None or result.estimate is None:
        return None
    from ..calibrate.self_calibration import self_calibrate

    return self_calibrate(graph, result.estimate, calibration, config)


def fields(found: SelfCalibration | None) -> dict[str, Any]:
    """What a report says of it."""
    if found is None:
        return {}
    from ..calibrate.radio_table import as_dict

    return {'calibration': as_dict(found)}


def show_levers(antennas: Iterable[LeverRow]) -> None:
    """Print by how much lever arms are off, and what to do about it."""
    from ..calibrate.antennas_and_clocks import SIGNIFICANT
    from ..calibrate.radio_words import doubt

    for lever in antennas:
        by = ', '.join(f'{error:+.3f} +- {sigma:.3f}' for error, sigma in zip(
            lever.error_m, lever.sigma_m, strict=True))
        verdict = ('not determined, drive curves' if not lever.determined
                   else 'move it by that much' if lever.to_move(SIGNIFICANT)
                   else f'left as it is: {doubt(lever.error_m)}' if lever.significant(SIGNIFICANT)
                   else 'agrees with the configuration')
        print(f'  lever arm of {lever.robot}: off by ({by}) m: {verdict}')


def show(found: SelfCalibration | None) -> None:
    """Print the radios."""
    if found is None:
        return
    from ..calibrate.radio_table import lines

    print('\n'.join(lines(found)))
