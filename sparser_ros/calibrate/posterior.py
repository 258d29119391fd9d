"""Which combinations of radio parameters the data determine, and the best values of those."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array


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
    information: Array, gradient: Array, at: Array, prior: Array, information_gain: float,
    others_prior: Array,
) -> Posterior:
    """Posterior from the linear model at the present values `at`.

    The last n parameters, those of `others_prior` (n, n), are integrated out first: what is left
    of the information on the rest holds whatever their values. With prior = L L^T and
    theta = L z, L^T information L has eigenvalues lambda: the data determine the variance of a
    direction lambda times better than the prior, and its mean is lambda / (1 + lambda) of the
    least-squares value. Directions with a lambda of at least `information_gain` count as
    determined.
    """
    size = len(prior)
    rest, inverse, pull, right = _integrated_out(information, gradient, at, others_prior, size)
    L = np.linalg.cholesky(prior)
    strength, direction = np.linalg.eigh(L.T @ rest @ L)
    strength = np.maximum(strength, 0.0)
    seen = strength >= information_gain
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
