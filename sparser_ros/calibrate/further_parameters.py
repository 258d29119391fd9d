"""Parameters that ranges show beside biases and scales: clocks and lever arms of radios."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from ..array_types import Array
from .joint_model import joint_model
from .posterior import posterior
from .self_calibration import SelfCalibration


def further_parameters(
    found: SelfCalibration, columns: Array, prior_sigma: Array
) -> tuple[Array, Array]:
    """Values (q,) and covariance (q, q) of further parameters, biases, scales and map free.

    `columns` (k, q): derivatives of the residuals of ranges by them; `prior_sigma` (q,): standard
    deviations before any range.
    """
    model = joint_model(
        found.parameters, found.graph, found.ends, found.estimate, found.weights, columns)
    share = found.inflation[0] * found.inflation[1]
    size, count = len(found.parameters.values), columns.shape[1]
    later = posterior(
        model.information / share, model.gradient / share,
        np.concatenate([found.parameters.values, np.zeros(count), found.parameters.odometry]),
        block_diag(found.found.prior, np.diag(prior_sigma**2)), 4.0, found.odometry_prior)
    return later.values[size:size + count], later.covariance[size:size + count, size:size + count]
