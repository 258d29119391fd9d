"""Where antennas stand on their robots, from ranges of robots that turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array
from ..graph import range_vectors
from .further_parameters import further_parameters
from .self_calibration import SelfCalibration

_PRIOR_M = 1.0
"""Prior standard deviation of an antenna's place, per axis: the size of a robot."""
_USEFUL_M = 0.1
"""A place whose standard deviation is above this says no more than a look at the robot."""
_SIGNIFICANT = 3.0
"""Standard deviations of an axis from which the configured lever arm is said to be wrong."""


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

    @property
    def significant(self) -> bool:
        """Whether the configured lever arm is wrong."""
        off = np.abs(self.error_m) > _SIGNIFICANT * np.array(self.sigma_m)
        return self.determined and bool(np.any(off))


def lever_arms(found: SelfCalibration) -> list[LeverRow]:
    """Errors of the lever arms of all robots that have ranges.

    With v the vector between the antennas and u = v / |v|, a lever arm that is short by e at the
    end of v on pose R_j makes the residual (predicted minus measured) u^T R_j e too small, at its
    beginning too large. Ranges that act between keyframes are taken for those of the keyframe's
    heading: robots turn little between two.
    """
    graph, ends, d = found.graph, found.ends, found.graph.dimension
    ranges = graph.ranges
    robots = [int(k) for k in np.unique(np.concatenate([ends.first, ends.second]))
              if ends.is_robot(int(k))]
    if not robots:
        return []
    vector = range_vectors(graph, found.estimate)
    unit = vector / np.maximum(np.linalg.norm(vector, axis=1, keepdims=True), 1e-12)
    columns = np.zeros((len(ranges), len(robots) * d))
    for sign, endpoint, owner in ((1.0, ranges.target, ends.second),
                                  (-1.0, ranges.source, ends.first)):
        turned = np.einsum(
            'ki,kij->kj', unit, found.estimate.rotation[np.maximum(endpoint, 0)])
        for at, robot in enumerate(robots):
            columns[:, at * d:(at + 1) * d] += np.where(
                (owner == robot)[:, None], sign * turned, 0.0)
    error, covariance = further_parameters(found, columns, _PRIOR_M)
    sigma = np.sqrt(np.diagonal(covariance))
    return [
        LeverRow(ends.names[robot], _part(error, at, d), _part(sigma, at, d))
        for at, robot in enumerate(robots)]


def _part(values: Array, at: int, d: int) -> tuple[float, ...]:
    return tuple(values[at * d:(at + 1) * d].tolist())
