"""What a calibration says of radios, as findings: biases, antennas and clocks.

Only what the data determine, what chance would hardly give (`calibration.false_alarm`, shared by
all that is tested) and what moves ranges by more than `calibration.bias_floor_m`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.special import ndtri

from ...graph.finding import Finding
from ..calibrate.results import radio_rows
from ..integrity.radio_errors import (
    ANTENNA_AXES,
    BIAS,
    antenna_moved,
    doubt,
    either_words,
    lateness,
)

if TYPE_CHECKING:
    from ...config.calibration_config import CalibrationConfig
    from ...graph import Graph
    from ..calibrate.antennas_and_clocks import AntennasAndClocks
    from ..calibrate.self_calibration import SelfCalibration

CLOCK = 'range_stamps_late'
"""Of findings whose value is to be taken off the stamps of a robot's or beacon's ranges, s."""
EITHER = 'antenna_or_clock'
"""Of findings of a robot whose antenna, or stamps, are off."""
_BIAS_SIGMAS = 3.0


def biases_of(found: SelfCalibration) -> dict[str, float]:
    """What a calibration takes off the ranges of radios, m; empty where it changes nothing."""
    if not found.applied:
        return {}
    return {name: bias for name, bias in zip(
        found.ends.names, found.parameters.bias_m.tolist(), strict=True) if bias}


def bias_findings(found: SelfCalibration, applied: bool) -> tuple[Finding, ...]:
    """Radios whose bias is determined, significant and large enough, largest first."""
    if not found.applied:
        return ()
    bias = dict(zip(found.ends.names, found.parameters.bias_m.tolist(), strict=True))
    rows = [row for row in radio_rows(found)
            if row.determined and abs(bias[row.name]) > _BIAS_SIGMAS * row.bias_sigma_m]
    return tuple(
        Finding(BIAS, row.name,
                f'ranges of {row.name} are {abs(bias[row.name]):.2f} m too '
                f'{"long" if bias[row.name] > 0 else "short"} (sigma {row.bias_sigma_m:.2f} m): '
                + ('that is taken off' if applied else 'the bias_m of its radio is off by that'),
                bias[row.name], 'm')
        for row in sorted(rows, key=lambda row: -abs(bias[row.name])))


def antennas_of(
    findings: tuple[Finding, ...], dimension: int
) -> dict[str, tuple[float, ...]]:
    """By how much antennas of robots stand elsewhere than configured, (d,) metres."""
    found: dict[str, list[float]] = {}
    for one in findings:
        if one.kind in ANTENNA_AXES:
            axis = ANTENNA_AXES.index(one.kind)
            found.setdefault(one.subject, [0.0] * dimension)[axis] = one.value
    return {robot: tuple(error) for robot, error in found.items()}


def significance(options: CalibrationConfig, graph: Graph) -> float:
    """Standard deviations of antennas and clocks that count.

    Of so many tests, one exceeds that by chance with the probability `false_alarm`.
    """
    tests = graph.dimension * len(graph.robots) + len(graph.robots) + graph.n_landmarks
    return float(-ndtri(options.false_alarm / (2 * tests)))


def place_findings(
    told: AntennasAndClocks, sigmas: float, floor_m: float, applied: bool
) -> tuple[Finding, ...]:
    """Antennas that stand elsewhere than configured, an axis each, and stamps that are late.

    What is off by `sigmas` standard deviations and moves ranges by more than `floor_m`. `applied`:
    whether the running node moves these antennas itself, which it does not where another cause is
    likelier.
    """
    antennas = [
        Finding(EITHER, row.robot,
                f'ranges of {row.robot} are as if {antenna_moved(row.robot, axis, error)} (sigma '
                f'{sigma:.2f} m): {doubted}') if (doubted := doubt(row.error_m)) else
        Finding(ANTENNA_AXES[axis], row.robot,
                f'{antenna_moved(row.robot, axis, error)} (sigma {sigma:.2f} m)'
                + (': that is allowed for' if applied else ''), error, 'm')
        for row in told.antennas if row.determined
        for axis, (error, sigma) in enumerate(zip(row.error_m, row.sigma_m, strict=True))
        if abs(error) > max(sigmas * sigma, floor_m)]
    clocks = [
        Finding(CLOCK, row.source,
                f'stamps of ranges of {row.source} are {lateness(row.late_s)} '
                f'(sigma {row.sigma_s:.2f} s): {"lower" if row.late_s > 0 else "raise"} its '
                'ranges.time_offsets by that', row.late_s, 's')
        for row in told.clocks
        if row.significant(sigmas) and abs(row.late_s) * row.rate_m_s > floor_m]
    either = [
        Finding(EITHER, row.robot,
                either_words(row.robot, row.late_s, row.axis, row.error_m))
        for row in told.either(sigmas) if abs(row.error_m) > floor_m]
    return (*antennas, *clocks, *either)
