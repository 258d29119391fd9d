"""The gate before publishing: whether the newest data agree with the map, per robot and in all.

Bounds are one-sided confidence bounds. Withdrawing is no accusation: of ranges the gate asks for
less certainty than a finding does, of a path that leaves its odometry for as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import bdtrik, chdtri, ndtri

from ...array_types import Array, Mask
from ...config.backend_config import IntegrityConfig
from ...graph.finding import Finding
from ...graph.range_ends import RangeEnds
from .doubts import Rows, lower_share
from .odometry_windows import OdometryWindows

_BENDING = frozenset({'odometry_scale', 'odometry_turn', 'odometry_jump', 'radios_swapped'})
"""Faults that bend the path of their robot, which no robust weight takes out of the estimate."""
_MEDIAN_SIGMA = float(ndtri(0.75))
"""Median of |z| for a standard normal z."""
_CHANCE = 0.05
"""Probability, of ranges within the limits, of a bound beyond them: a robot is then withdrawn for
some seconds, which is the lesser evil."""


@dataclass(frozen=True)
class Gate:
    """Whether the estimate may be published."""

    passed: bool = True
    """Whether the map as a whole may be published."""
    reasons: tuple[str, ...] = ()
    """Why not, in words."""
    robots: dict[str, str] = field(default_factory=dict)
    """Robots that must not be published even so, with the reason."""


def gate_of(
    graph_robots: tuple[str, ...], dimension: int, sources: RangeEnds, rows: Rows,
    windows: OdometryWindows, findings: Sequence[Finding], false_alarm: float,
    config: IntegrityConfig,
) -> Gate:
    """The gate at an estimate, from the newest ranges and odometry, and from what was found."""
    if not config.gate:
        return Gate()
    newest = float(sources.seconds.max()) if len(sources.seconds) else 0.0
    recent = sources.seconds >= newest - config.window_s
    whole = _ranges_reason(rows, recent, config)
    bent = {name: one.text for one in findings if one.kind in _BENDING
            for name in one.subject.split(' and ')}
    robots: dict[str, str] = {}
    for number, name in enumerate(graph_robots):
        reason = _ranges_reason(rows, recent & sources.at(number), config) or \
            _odometry_reason(
                windows.of(number), dimension, false_alarm, config) or bent.get(name, '')
        if reason:
            robots[name] = reason
    return Gate(not whole, (f'the map as a whole: {whole}',) if whole else (), robots)


def _ranges_reason(rows: Rows, part: Mask, config: IntegrityConfig) -> str:
    total, far = int(part.sum()), int(np.sum(rows.far & part))
    if lower_share(far, total, _CHANCE) > config.gate_rejected:
        return f'{100 * far / total:.0f} % of its newest ranges do not fit'
    variance, lower = variance_factor(rows.whitened[part], _CHANCE)
    if lower > config.gate_variance:
        return f'its newest ranges are off by {np.sqrt(variance):.1f} times their noise'
    return ''


def _odometry_reason(
    squares: Array, dimension: int, false_alarm: float, config: IntegrityConfig
) -> str:
    """The newest windows of odometry against the estimate."""
    newest = squares[-max(1, round(config.memory_s / config.window_s)):]
    degrees, total = dimension * len(newest), float(np.sum(newest))
    if degrees and total > config.gate_variance * chdtri(degrees, false_alarm):
        return f'its path leaves its odometry by {np.sqrt(total / degrees):.0f} times the noise'
    return ''


def variance_factor(whitened: Array, false_alarm: float) -> tuple[float, float]:
    """(variance over the claimed one by the median, its lower confidence bound); 0 without data.

    The median holds with up to half of the residuals wrong; its bound is an order statistic.
    """
    n = len(whitened)
    if n == 0:
        return 0.0, 0.0
    size = np.sort(np.abs(whitened))
    # Fewer than `below` of n residuals lie under the median with the false-alarm probability.
    below = int(np.floor(float(np.nan_to_num(bdtrik(false_alarm, n, 0.5)))))
    bound = size[max(min(below, n) - 1, 0)] if below >= 1 else 0.0
    return float((np.median(size) / _MEDIAN_SIGMA) ** 2), float((bound / _MEDIAN_SIGMA) ** 2)
