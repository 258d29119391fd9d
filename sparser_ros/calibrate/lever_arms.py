"""Where antennas stand on their robots: how ranges of robots that turn show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array
from ..graph import range_lever_derivatives
from .radio_words import doubt
from .self_calibration import SelfCalibration

_USEFUL_M = 0.1
"""A place whose standard deviation is above this says no more than a look at the robot."""


@dataclass(frozen=True)
class LeverRow:
    """By how much the lever arm of a robot is off; all antennas of a robot are one."""

    robot: str
    error_m: tuple[float, ...]
    """(d,): true less configured lever arm, in the frame of the robot."""
    sigma_m: tuple[float, ...]

    @property
    def determined(self) -> bool:
        """Whether the ranges say where the antenna is."""
        return max(self.sigma_m) < _USEFUL_M

    def significant(self, sigmas: float) -> bool:
        """Whether the configured lever arm is wrong by so many standard deviations of an axis."""
        off = np.abs(self.error_m) > sigmas * np.array(self.sigma_m)
        return self.determined and bool(np.any(off))

    def to_move(self, sigmas: float) -> bool:
        """Whether the lever arm is wrong, and by no more than an antenna may well be off."""
        return self.significant(sigmas) and not doubt(self.error_m)


def lever_columns(found: SelfCalibration) -> tuple[list[int], Array]:
    """Robots (r,) that have ranges, and derivatives (k, r d) of residuals by their lever arms."""
    graph, ends, d = found.graph, found.ends, found.graph.dimension
    robots = [int(k) for k in np.unique(np.concatenate([ends.first, ends.second]))
              if ends.is_robot(int(k))]
    by_end = range_lever_derivatives(graph, found.estimate)
    columns = np.zeros((len(graph.ranges), len(robots) * d))
    for by_lever, owner in zip(by_end, (ends.first, ends.second), strict=True):
        for at, robot in enumerate(robots):
            columns[:, at * d:(at + 1) * d] += np.where((owner == robot)[:, None], by_lever, 0.0)
    return robots, columns
