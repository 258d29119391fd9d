"""One-sided doubt: a range can be too long, hardly ever too short.

A range over a clear path has a normal error; over a blocked one, with probability eps, it is longer
by an excess whose density near zero is 1 / L. With e the whitened error (measured minus predicted),
the path is clear with probability w = 1 / (1 + exp((e^2 - c^2) / 2)) where

    c^2 = 2 log((1 - eps) L / (eps sigma sqrt(2 pi))).

Its influence e w(e) has mean zero where ranges are as assumed, since E[e P(clear | e)] is the mean
of the errors of clear ranges: long ranges leave no bias. A symmetric kernel has one. With s = e^2
and w over its value at zero, k = exp(-c^2 / 2), the cost is

    rho(s) = (1 + k) (s + 2 log((1 + k) / (1 + exp((s - c^2) / 2)))),

twice the negative logarithm of the mixture but for a factor. Errors on the short side are doubted
by the configured width, in the same form.
"""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...graph import Ranges

EXCESS_M = 1.0
"""Mean excess of a blocked range; indoor surveys of UWB radios find 0.3 to 3 m."""
LEAST_SIGMAS = 5.0
"""Least mean excess in standard deviations of the noise: what is no longer than the noise is not
told from it."""
_LARGEST_EXPONENT = 700.0
"""exp of more is infinite in float64."""


def mixture_rho(s: Array, c2: Array) -> Array:
    """rho(s), bounded by (1 + k) (c^2 + 2 log(1 + k)); in a form without cancellation."""
    edge = np.exp(-c2 / 2)
    return np.asarray((1 + edge) * (np.minimum(s, c2) + 2 * (
        np.log1p(edge) - np.log1p(np.exp(-np.abs(s - c2) / 2)))))


def mixture_weight(s: Array, c2: Array) -> Array:
    """rho'(s)."""
    return np.asarray(
        (1 + np.exp(-c2 / 2)) / (1 + np.exp(np.minimum((s - c2) / 2, _LARGEST_EXPONENT))))


def mixture_inverse(w: Array, c2: Array) -> Array:
    """The s of a weight in (0, 1]."""
    return np.asarray(c2 + 2 * np.log((1 + np.exp(-c2 / 2)) / w - 1))


def long_widths(ranges: Ranges, share: float, short: Array) -> Array:
    """(k,): c^2 of ranges that are too long; `share` eps of them are expected over blocked paths.

    `short` (k,) are those of ranges that are too short; no width is larger.
    """
    excess = np.maximum(EXCESS_M * np.sqrt(ranges.precision), LEAST_SIGMAS)
    odds = (1 - share) / share * excess / np.sqrt(2 * np.pi)
    return np.asarray(np.minimum(2 * np.log(odds), short))


def widths_at(ranges: Ranges, share: float, short: Array, residual: Array) -> Array:
    """(k,): c^2 at residuals (k,), predicted minus measured."""
    return np.where(residual < 0, long_widths(ranges, share, short), short)
