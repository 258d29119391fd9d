"""Scalar weights from covariances and back (SE-Sync's choice; the reference costs use it).

3D: kappa = 3 / (2 tr S_R), tau = 3 / tr S_t; 2D: kappa = 1 / S_theta, tau = 2 / tr S_t;
range: 1 / variance. In 2D this kappa counts the angle twice (a 1-sigma heading error costs 2):
statistics that need chi^2 use kappa / 2 there, see `chi_square_kappa`.
"""

from __future__ import annotations

import numpy as np

from ..array_types import Array


def kappa_from_covariance(covariance: Array) -> Array:
    """Weights of rotations: covariance (k, 1, 1) in 2D or (k, 3, 3) in 3D, in rad^2."""
    trace = np.trace(covariance, axis1=-2, axis2=-1)
    return 1 / trace if covariance.shape[-1] == 1 else 3 / (2 * trace)


def tau_from_covariance(covariance: Array) -> Array:
    """Weights of translations: covariance (k, d, d) in m^2."""
    return covariance.shape[-1] / np.trace(covariance, axis1=-2, axis2=-1)


def rotation_variance(kappa: Array, dimension: int) -> Array:
    """Variance in rad^2 per axis that gives `kappa` back."""
    return 1 / kappa if dimension == 2 else 1 / (2 * kappa)


def translation_variance(tau: Array) -> Array:
    """Variance in m^2 per axis that gives `tau` back."""
    return 1 / tau


def chi_square_kappa(kappa: Array, dimension: int) -> Array:
    """The rotation weight that makes kappa |R - R'|^2 a chi^2 variable."""
    return kappa / 2 if dimension == 2 else kappa
