"""Biases of radios and the scale of their ranges: how they enter a graph, and their prior.

A corrected range is alpha d - b_i - b_j, of the measured distance d, a common factor alpha, and
one bias for each of its two radios (antenna delays add up along a signal's way). These are the
`ranges.scale` and `bias_m` of the configuration. Given the map the residual is linear in them.

The size of the map comes from odometry, and a bias of all radios looks much like another size.
So the scale of each robot's odometry is a parameter as well, as uncertain as wheels and cameras
are: what is said of radios then holds whatever the odometry's scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..array_types import Array
from ..config.calibration_config import CalibrationConfig
from ..graph import Graph
from ..graph.range_ends import RangeEnds

SHORTEST_M = 1e-3
"""A corrected range is at least this long: a measured distance is positive."""
_KNOWN = 1e-6
"""Prior standard deviation of what is configured as known, m or 1."""


@dataclass(frozen=True)
class RadioParameters:
    """A bias for each radio, the scale of ranges, and the scale of each robot's odometry."""

    values: Array
    """(r + 1,): metres, then the scale of ranges minus 1."""
    odometry: Array
    """(robots,): factor on the lengths of a robot's odometry, minus 1."""

    @property
    def bias_m(self) -> Array:
        return self.values[:-1]

    @property
    def scale(self) -> float:
        return 1.0 + float(self.values[-1])

    @property
    def joint(self) -> Array:
        """(r + 1 + robots,): all of them."""
        return np.concatenate([self.values, self.odometry])

    def moved(self, step: Array) -> RadioParameters:
        """Parameters after a step (r + 1 + robots,)."""
        size = len(self.values)
        return RadioParameters(self.values + step[:size], self.odometry + step[size:])

    def pair_bias(self, ends: RangeEnds) -> Array:
        """(k,): what is taken off each range, metres."""
        return np.asarray(self.bias_m[ends.first] + self.bias_m[ends.second])

    def corrected(self, graph: Graph, ends: RangeEnds) -> Graph:
        """The graph with ranges and odometry corrected; `graph` holds them as measured.

        Noise is stretched as what it is part of: with constant weights a smaller map would cost
        less, because it shrinks the noise.
        """
        distance = self.scale * graph.ranges.distance_m - self.pair_bias(ends)
        rel = graph.relative_poses
        length = self.lengths(graph)
        return graph.replaced(
            ranges=graph.ranges.replaced(
                distance_m=np.maximum(distance, SHORTEST_M),
                precision=graph.ranges.precision / self.scale**2),
            relative_poses=rel.replaced(
                translation=length[:, None] * rel.translation, tau=rel.tau / length**2))

    def lengths(self, graph: Graph) -> Array:
        """(e,): factor on the length of every relative pose; 1 for closures."""
        rel = graph.relative_poses
        return np.where(rel.odometry, 1 + self.odometry[graph.poses.robot[rel.i]], 1.0)


def no_correction(ends: RangeEnds) -> RadioParameters:
    """Radios without bias, scales 1."""
    return RadioParameters(np.zeros(len(ends.names) + 1), np.zeros(ends.robots))


def derivatives(parameters: RadioParameters, ends: RangeEnds, length_m: Array) -> sp.csc_matrix:
    """(k, r + 1): of alpha times the residuals in measured metres, (|v| + b_i + b_j) / alpha - d.

    `length_m` (k,) are the distances |v| in the map: the scale acts on these, not on the measured
    ones, whose noise would correlate with the residual's.
    """
    k, r = len(ends.first), len(ends.names)
    rows = np.arange(k)
    stretch = -(length_m + parameters.pair_bias(ends)) / parameters.scale
    return sp.csc_matrix((
        np.concatenate([np.ones(2 * k), stretch]),
        (np.tile(rows, 3), np.concatenate([ends.first, ends.second, np.full(k, r)]))),
        shape=(k, r + 1))


def prior_covariance(ends: RangeEnds, config: CalibrationConfig) -> Array:
    """(r + 1, r + 1): of the biases, m^2, and of the scale; its mean is zero.

    Radios of one type share a bias about which they scatter: uncalibrated antenna delays are
    alike. What is known has a standard deviation of 1e-6.
    """
    own = np.array([
        config.radio_bias_sigma_m.get(name, config.bias_sigma_m) for name in ends.names])
    kinds = [config.radio_types.get(name, '') for name in ends.names]
    alike = np.array([[a == b for b in kinds] for a in kinds], dtype=float).reshape(
        len(own), len(own)) * (own[:, None] > 0) * (own > 0)
    covariance = np.zeros((len(own) + 1, len(own) + 1))
    covariance[:-1, :-1] = np.diag(own**2) + config.type_bias_sigma_m**2 * alike
    covariance[-1, -1] = config.scale_sigma**2
    return covariance + _KNOWN**2 * np.eye(len(covariance))


def odometry_prior(robots: int, config: CalibrationConfig) -> Array:
    """(robots, robots): of the odometry's scales, mean zero.

    Half of the variance is common to all robots: they have the same wheels on the same floor, or
    the same calibration.
    """
    variance = config.odometry_scale_sigma**2 / 2
    return np.asarray(variance * (np.ones((robots, robots)) + np.eye(robots))
                      + _KNOWN**2 * np.eye(robots))
