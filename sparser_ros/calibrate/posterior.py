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
    directions: int
    """Combinations that the data determine."""
    chi_square: float
    """Of these combinations against zero: chi-square with `directions` degrees of freedom."""
    prior: Array
    """(r + 1, r + 1): covariance before the data."""
    undetermined: Array
    """(r + 1, q): combinations that the data do not determine, one prior sigma long."""


def posterior(
    information: Array, gradient: Array, at: Array, prior: Array, information_gain: float
) -> Posterior:
    """Posterior from the linear model at the present values `at`.

    With prior = L L^T and theta = L z, L^T information L has eigenvalues lambda: the data
    determine the variance of a direction lambda times better than the prior, and its mean is
    lambda / (1 + lambda) of the least-squares value. Directions with lambda of at least
    `information_gain` count as determined.
    """
    L = np.linalg.cholesky(prior)
    strength, direction = np.linalg.eigh(L.T @ information @ L)
    strength = np.maximum(strength, 0.0)
    seen = strength >= information_gain
    projected = direction.T @ (L.T @ (information @ at - gradient))
    basis = L @ direction
    covariance = (basis * 1 / (1 + strength)) @ basis.T
    chi_square = float(np.sum(projected[seen] ** 2 / strength[seen]))
    return Posterior(
        basis @ (projected / (1 + strength)), covariance, int(np.sum(seen)),
        chi_square, prior, basis[:, ~seen])
