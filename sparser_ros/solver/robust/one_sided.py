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
from ...config import RobustConfig
from ...graph import Ranges

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


def long_widths(ranges: Ranges, config: RobustConfig, short: Array) -> Array:
    """(k,): c^2 of ranges that are too long, with the share eps and the excess L of `config`.

    `short` (k,) are those of ranges that are too short; no width is larger. L is at least that
    width: an excess within the noise is not told from it.
    """
    excess = np.maximum(config.blocked_excess_m * np.sqrt(ranges.precision), np.sqrt(short))
    odds = (1 / config.blocked_share - 1) * excess / np.sqrt(2 * np.pi)
    return np.asarray(np.minimum(2 * np.log(odds), short))


def widths_at(ranges: Ranges, config: RobustConfig, short: Array, residual: Array) -> Array:
    """(k,): c^2 at residuals (k,), predicted minus measured."""
    return np.where(residual < 0, long_widths(ranges, config, short), short)
