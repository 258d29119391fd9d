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

from ...array_types import Array
from ...config.calibration_config import CalibrationConfig
from ...graph import Estimate, Graph, range_residuals
from ...graph.range_ends import RangeEnds
from ..integrity.hypotheses import odometry_scales, radio_biases
from ..integrity.linear_model import LinearModel, linear_model
from ..integrity.radio_errors import SHORTEST_M

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


def radio_model(
    parameters: RadioParameters, corrected: Graph, ends: RangeEnds, estimate: Estimate,
    weights: Mapping[str, Array],
) -> tuple[LinearModel, sp.csc_matrix]:
    """The model at an optimum of `corrected`, the graph with these parameters, and its columns.

    Columns (rows, r + 1 + robots): biases of radios, the scale of ranges, scales of the odometry.
    Scales act on the lengths in the map: measured ones have noise that the residual has as well.
    """
    model = linear_model(corrected, estimate, weights)
    ranges = corrected.ranges
    length_m = range_residuals(corrected, estimate) + ranges.distance_m
    stretch = -(length_m + parameters.pair_bias(ends)) / parameters.scale
    by_scale = model.columns(
        'ranges', np.arange(len(ranges)), (model.root_of_ranges * stretch)[:, None])
    by_odometry = odometry_scales(model) @ sp.diags(
        -1 / (1 + parameters.odometry))
    return model, sp.hstack([radio_biases(model, ends), by_scale, by_odometry], format='csc')


def range_leverages(model: LinearModel) -> Array:
    """(k,): share of each range that the map follows, 0 to 1, noisy; sums are what counts."""
    own = model.jacobian[model.rows('ranges')]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (own.shape[0], _PROBES))
    return np.asarray(np.mean(signs * (own @ model.solve(own.T @ signs)), axis=1))


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


@dataclass(frozen=True)
class Posterior:
    """Posterior of the parameters; what the data do not determine stays near its prior."""

    values: Array
    """(r + 1,): mean; the prior mean is zero."""
    covariance: Array
    """(r + 1, r + 1)."""
    others: Array
    """(n,): mean of the parameters that were integrated out."""
    others_covariance: Array
    """(n, n)."""
    determined: Array
    """(r + 1,): the part of the mean that the data determine; zero along all else."""
    others_then: Array
    """(n,): mean of the others where the parameters are `determined`."""
    directions: int
    """Combinations that the data determine."""
    chi_square: float
    """Of these combinations against zero: chi-square with `directions` degrees of freedom."""
    prior: Array
    """(r + 1, r + 1): covariance before the data."""
    undetermined: Array
    """(r + 1, q): combinations that the data do not determine, one prior sigma long."""


def posterior(
    information: Array, gradient: Array, at: Array, prior: Array, others_prior: Array,
) -> Posterior:
    """Posterior from the linear model at the present values `at`.

    The last n parameters, those of `others_prior` (n, n), are integrated out first: what is left
    of the information on the rest holds whatever their values. With prior = L L^T and
    theta = L z, L^T information L has eigenvalues lambda: the data determine the variance of a
    direction lambda times better than the prior, and its mean is lambda / (1 + lambda) of the
    least-squares value. Directions with a lambda of at least `INFORMATION_GAIN` count as
    determined.
    """
    size = len(prior)
    rest, inverse, pull, right = _integrated_out(information, gradient, at, others_prior, size)
    L = np.linalg.cholesky(prior)
    strength, direction = np.linalg.eigh(L.T @ rest @ L)
    strength = np.maximum(strength, 0.0)
    seen = strength >= INFORMATION_GAIN
    projected = direction.T @ (L.T @ right)
    basis = L @ direction
    values = basis @ (projected / (1 + strength))
    determined = basis @ np.where(seen, projected / (1 + strength), 0.0)
    covariance = (basis / (1 + strength)) @ basis.T
    chi_square = float(np.sum(projected[seen] ** 2 / strength[seen]))
    alone = inverse @ (information @ at - gradient)[size:]
    return Posterior(
        values, covariance, alone - pull.T @ values, inverse + pull.T @ covariance @ pull,
        determined, alone - pull.T @ determined, int(np.sum(seen)), chi_square, prior,
        basis[:, ~seen])


def _integrated_out(
    information: Array, gradient: Array, at: Array, prior: Array, size: int
) -> tuple[Array, Array, Array, Array]:
    """Information on the first `size` parameters with the others integrated out.

    Also: covariance of the others given the first, how they follow these (size, n), and the right
    side of the normal equations of the first.
    """
    right = information @ at - gradient
    cross = information[:size, size:]
    inverse = np.linalg.inv(information[size:, size:] + np.linalg.inv(prior))
    pull = cross @ inverse
    rest = information[:size, :size] - pull @ cross.T
    return (rest + rest.T) / 2, inverse, pull, right[:size] - pull @ right[size:]
