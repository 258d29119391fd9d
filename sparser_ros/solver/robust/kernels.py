"""Robust kernels rho(s) of squared whitened residuals, and the measurements they apply to.

Iteratively reweighted least squares minimises sum rho(s_k) by weights w_k = rho'(s_k) (paper,
section 6, with one slip: its equation for the weights divides by s once more, which would give
perfect measurements infinite weight).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...array_types import Array
from ...config import RobustConfig
from ...graph import Kind, MeasurementTables
from ..thresholds import current
from .one_sided import mixture_inverse, mixture_rho, mixture_weight


@dataclass(frozen=True)
class Kernel:
    """rho, its derivative and the inverse of that, all of (s, c^2); rho is concave, rho(s) <= s."""

    rho: Callable[[Array, Array], Array]
    weight: Callable[[Array, Array], Array]
    """w = rho'(s), 1 at s = 0 and never increasing."""
    inverse: Callable[[Array, Array], Array]
    """The largest s of a weight in (0, 1]; for weight 1 of a kernel with a quadratic part, its
    end."""


def _gm_rho(s: Array, c2: Array) -> Array:
    return s / (1 + s / c2)


def _gm_weight(s: Array, c2: Array) -> Array:
    return (1 + s / c2) ** -2.0


def _gm_inverse(w: Array, c2: Array) -> Array:
    return c2 * (1 / np.sqrt(w) - 1)


def _huber_rho(s: Array, c2: Array) -> Array:
    return np.where(s <= c2, s, 2 * np.sqrt(c2) * np.sqrt(s) - c2)


def _huber_weight(s: Array, c2: Array) -> Array:
    return np.sqrt(c2 / np.maximum(s, c2))


def _huber_inverse(w: Array, c2: Array) -> Array:
    return c2 / np.square(w)


def _cauchy_rho(s: Array, c2: Array) -> Array:
    return c2 * np.log1p(s / c2)


def _cauchy_weight(s: Array, c2: Array) -> Array:
    return 1 / (1 + s / c2)


def _cauchy_inverse(w: Array, c2: Array) -> Array:
    return c2 * (1 / w - 1)


KERNELS = {
    'none': Kernel(
        lambda s, c2: np.asarray(s, dtype=float), lambda s, c2: np.ones(np.shape(s)),
        lambda w, c2: np.zeros(np.shape(w))),
    'gm': Kernel(_gm_rho, _gm_weight, _gm_inverse),
    'huber': Kernel(_huber_rho, _huber_weight, _huber_inverse),
    'cauchy': Kernel(_cauchy_rho, _cauchy_weight, _cauchy_inverse),
    'one_sided': Kernel(mixture_rho, mixture_weight, mixture_inverse),
}
"""Geman-McClure (gm), Huber and Cauchy; `none` trusts everything. `one_sided` has another width for
ranges that are too long (`one_sided.py`)."""


def squared_threshold(config: RobustConfig, degrees: int, plane_turn: bool = False) -> float:
    """c^2 of a measurement with so many degrees of freedom.

    Either threshold^2, or, where `threshold_probability` is positive, the value that the squared
    residual of the cost exceeds with the remaining probability under its noise. `plane_turn`
    marks a relative pose of the plane: its cost counts the angle twice (`graph/precision.py`), so
    its law is 2 chi^2_1 + chi^2_2 instead of chi^2_3.
    """
    probability = config.threshold_probability
    if probability <= 0:
        return config.threshold**2
    # These modules load about as long as a small solve takes, and not every solve needs them.
    if not plane_turn:
        from scipy.special import chdtri

        return float(chdtri(degrees, 1.0 - probability))
    from scipy.optimize import brentq

    return float(brentq(lambda s: _plane_tail(s) - (1 - probability), 0, 1e4))


def _plane_tail(s: float) -> float:
    """P(2 a + b > s) for a ~ chi^2_1 and b ~ chi^2_2, by the convolution in closed form."""
    from scipy.special import dawsn, erfc

    root = np.sqrt(s) / 2
    return float(erfc(root) + 2 / np.sqrt(np.pi) * np.exp(-s / 4) * dawsn(root))


def floored(weights: Array, floor: float) -> Array:
    """Weights raised to a floor that keeps M positive definite and falls with the weight.

    With one floor for all, a closure of a centimetre's precision that is false by 100 m (s = 1e8)
    would pull as much as a true one.
    """
    share = current().weight_floor_share
    falling = np.where(weights > 0, np.maximum(np.sqrt(weights), share), 1.0)
    return np.maximum(weights, floor * falling)


_SWITCHES = {
    Kind.ODOMETRY: 'odometry', Kind.CLOSURE: 'closures', Kind.SIGHTING: 'sightings',
    Kind.RANGE: 'ranges', Kind.OTHER: 'sightings', Kind.POSITION_FIX: 'fixes',
    Kind.POSE_FIX: 'fixes',
}
"""Option of RobustConfig that says whether a kind of measurement is doubted; surveyed places of
landmarks are not."""


def thresholds(
    source: MeasurementTables, config: RobustConfig, dimension: int
) -> dict[str, Array]:
    """c^2 per measurement by table; infinite where a measurement is trusted."""
    doubted = np.array([kind in _SWITCHES and getattr(config, _SWITCHES[kind]) for kind in Kind])
    result = {}
    for kind, table in source.typed():
        c2 = squared_threshold(
            config, kind.degrees_of_freedom(dimension),
            dimension == 2 and kind.has_rotation(dimension))
        result[kind.name] = np.where(doubted[kind.kinds(table)], c2, np.inf)
    return result
