"""Biases of radios, scale of ranges and odometry: linear model, prior and posterior.

A corrected range is alpha d - b_i - b_j, of the measured distance d, a common factor alpha, and
one bias for each of its two radios (antenna delays add up along a signal's way). These are the
`ranges.scale` and `bias_m` of the configuration. Given the map the residual is linear in them.

The size of the map comes from odometry, and a bias of all radios looks much like another size.
So the scale of each robot's odometry is a parameter as well, as uncertain as wheels and cameras
are: what is said of radios then holds whatever the odometry's scale.

Columns are those of the faults of the same kinds (`integrity.hypotheses`), at the values that are
taken off already; the scores of `integrity.linear_model` eliminate the map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag

from ...array_types import Array
from ...config.calibration_config import CalibrationConfig
from ...graph import Estimate, Graph, range_residuals
from ...graph.ends import RangeEnds
from ..integrity.hypotheses import odometry_scales, radio_biases
from ..integrity.linear_model import LinearModel, linear_model
from ..integrity.odometry_errors import SCALE, OdometryErrors
from ..integrity.radio_errors import RadioErrors

_KNOWN = 1e-6
"""Prior standard deviation of what is configured as known, m or 1."""
INFORMATION_GAIN = 4.0
"""A combination counts as determined from this many times the information of its prior: half of
its standard deviation."""
_PROBES = 12
"""Random signs for the leverages of ranges (Hutchinson); the error of a sum over n ranges is of
relative size 1 / sqrt(12 n)."""


@dataclass(frozen=True)
class RadioParameters:
    """A bias for each radio, the scale of ranges, and the scale of each robot's odometry."""

    ends: RangeEnds
    values: Array
    """(r + 1 + robots,): metres, then scales minus 1."""

    @property
    def bias_m(self) -> Array:
        """(r,)."""
        return self.values[:len(self.ends.names)]

    @property
    def scale(self) -> float:
        """Factor on ranges."""
        return 1.0 + float(self.values[len(self.ends.names)])

    @property
    def odometry(self) -> Array:
        """(robots,): factor on the lengths of a robot's odometry, minus 1."""
        return self.values[len(self.ends.names) + 1:]

    @property
    def pair_bias(self) -> Array:
        """(k,): what is taken off each range, metres."""
        return np.asarray(self.bias_m[self.ends.first] + self.bias_m[self.ends.second])

    def corrected(self, graph: Graph) -> Graph:
        """The graph with ranges and odometry corrected; `graph` holds them as measured.

        Noise is stretched as what it is part of: with constant weights a smaller map would cost
        less, because it shrinks the noise.
        """
        ranges, names = graph.ranges, self.ends.names
        scaled = ranges.replaced(
            distance_m=self.scale * ranges.distance_m, precision=ranges.precision / self.scale**2)
        too_long = OdometryErrors({
            (SCALE, name): -share
            for name, share in zip(names, self.odometry.tolist(), strict=False)})
        return graph.replaced(
            ranges=RadioErrors(dict(zip(names, self.bias_m.tolist(), strict=True))).off(
                graph, scaled),
            relative_poses=too_long.off(graph, graph.relative_poses))


def no_correction(ends: RangeEnds) -> RadioParameters:
    """Radios without bias, scales 1."""
    return RadioParameters(ends, np.zeros(len(ends.names) + 1 + ends.robots))


def radio_model(
    parameters: RadioParameters, corrected: Graph, estimate: Estimate,
    weights: Mapping[str, Array],
) -> tuple[LinearModel, sp.csc_matrix]:
    """The model at an optimum of `corrected`, the graph with these parameters, and its columns.

    Columns (rows, r + 1 + robots): biases of radios, the scale of ranges, scales of the odometry.
    Scales act on the lengths in the map: measured ones have noise that the residual has as well.
    """
    model = linear_model(corrected, estimate, weights)
    ranges = corrected.ranges
    length_m = range_residuals(corrected, estimate) + ranges.distance_m
    stretch = -(length_m + parameters.pair_bias) / parameters.scale
    by_scale = model.columns(
        'ranges', np.arange(len(ranges)), (model.root_of_ranges * stretch)[:, None])
    scales = -1 / (1 + parameters.odometry)
    by_odometry = odometry_scales(model) @ sp.diags(scales) if len(scales) else (
        sp.csc_matrix((len(model.residual), 0)))
    return model, sp.hstack(
        [radio_biases(model, parameters.ends), by_scale, by_odometry], format='csc')


def range_leverages(model: LinearModel) -> Array:
    """(k,): share of each range that the map follows, 0 to 1, noisy; sums are what counts."""
    own = model.jacobian[model.rows('ranges')]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (own.shape[0], _PROBES))
    return np.asarray(np.mean(signs * (own @ model.solve(own.T @ signs)), axis=1))


def prior_covariance(ends: RangeEnds, config: CalibrationConfig) -> Array:
    """(r + 1 + robots, r + 1 + robots): of all parameters, whose mean is zero.

    Radios of one type share a bias about which they scatter: uncalibrated antenna delays are
    alike. Half of the variance of the odometry's scales is common to all robots: they have the
    same wheels on the same floor, or the same calibration. What is known has a standard deviation
    of 1e-6.
    """
    own = np.array([
        config.radio_bias_sigma_m.get(name, config.bias_sigma_m) for name in ends.names])
    kinds = np.array([config.radio_types.get(name, '') for name in ends.names])
    alike = (kinds[:, None] == kinds) * (own[:, None] > 0) * (own > 0)
    shared = config.odometry_scale_sigma**2 / 2 * (
        np.ones((ends.robots, ends.robots)) + np.eye(ends.robots))
    covariance = block_diag(
        np.diag(own**2) + config.type_bias_sigma_m**2 * alike, config.scale_sigma**2, shared)
    return np.asarray(covariance + _KNOWN**2 * np.eye(len(covariance)))


@dataclass(frozen=True)
class Posterior:
    """Posterior of n parameters; what the data do not determine stays near its prior."""

    values: Array
    """(n,): mean; the prior mean is zero."""
    covariance: Array
    """(n, n)."""
    prior: Array
    """(n, n): covariance before the data."""
    determined: Array
    """(n,): the mean with the first parameters along what the data determine, zero along all
    else."""
    directions: int
    """Combinations of the first parameters that the data determine."""
    chi_square: float
    """Of these combinations against zero: chi-square with `directions` degrees of freedom."""


def posterior(
    information: Array, gradient: Array, at: Array, prior: Array, size: int
) -> Posterior:
    """Posterior from the linear model at the present values `at`.

    All but the first `size` parameters are integrated out first: what is left of the information
    holds whatever their values. With prior = L L^T and theta = L z, L^T information L has
    eigenvalues lambda: the data determine the variance of a direction lambda times better than the
    prior, and its mean is lambda / (1 + lambda) of the least-squares value. Directions with a
    lambda of at least `INFORMATION_GAIN` count as determined.
    """
    right = information @ at - gradient
    across = information[:size, size:]
    others = np.linalg.inv(information[size:, size:] + np.linalg.inv(prior[size:, size:]))
    pull = across @ others
    left = information[:size, :size] - pull @ across.T
    L = np.linalg.cholesky(prior[:size, :size])
    strength, direction = np.linalg.eigh(L.T @ ((left + left.T) / 2) @ L)
    strength = np.maximum(strength, 0.0)
    seen = strength >= INFORMATION_GAIN
    projected = direction.T @ (L.T @ (right[:size] - pull @ right[size:]))
    basis = L @ direction
    # Means of the others follow those of the first.
    follow = np.concatenate([np.eye(size), -pull.T])
    alone = np.concatenate([np.zeros(size), others @ right[size:]])
    values, determined = (alone + follow @ (basis @ (part / (1 + strength))) for part in (
        projected, np.where(seen, projected, 0.0)))
    covariance = follow @ ((basis / (1 + strength)) @ basis.T) @ follow.T
    covariance[size:, size:] += others
    return Posterior(
        values, covariance, prior, determined, int(np.sum(seen)),
        float(np.sum(projected[seen] ** 2 / strength[seen])))
