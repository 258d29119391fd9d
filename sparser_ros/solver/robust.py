"""Robust kernels rho(s) of squared whitened residuals, and the weights of a problem.

Iteratively reweighted least squares minimises sum rho(s_k) by weights w_k = rho'(s_k) (paper,
section 6, with one slip: its equation for the weights divides by s once more, which would give
perfect measurements infinite weight).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..array_types import Array
from ..config import RobustConfig
from ..graph import Estimate, Kind, MeasurementTables, squared_residuals
from .problem import LEAST_LENGTH_M
from .schur import SchurOperator


@dataclass(frozen=True)
class Kernel:
    """rho and its derivative, both of (s, c^2); rho is concave, rho(s) <= s."""

    rho: Callable[[Array, Array], Array]
    weight: Callable[[Array, Array], Array]
    """w = rho'(s), 1 at s = 0 and never increasing."""


def _huber_rho(s: Array, c2: Array) -> Array:
    return np.where(s <= c2, s, 2 * np.sqrt(c2) * np.sqrt(s) - c2)


KERNELS = {
    'none': Kernel(
        lambda s, c2: np.asarray(s, dtype=float), lambda s, c2: np.ones(np.shape(s))),
    'gm': Kernel(lambda s, c2: s / (1 + s / c2), lambda s, c2: (1 + s / c2) ** -2.0),
    'huber': Kernel(_huber_rho, lambda s, c2: np.sqrt(c2 / np.maximum(s, c2))),
    'cauchy': Kernel(lambda s, c2: c2 * np.log1p(s / c2), lambda s, c2: 1 / (1 + s / c2)),
}
"""Geman-McClure (gm), Huber and Cauchy; `none` trusts everything."""


@cache
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
    falling = np.where(weights > 0, np.maximum(np.sqrt(weights), 1e-4), 1.0)
    return np.maximum(weights, floor * falling)


_SWITCHES = {
    Kind.ODOMETRY: 'odometry', Kind.CLOSURE: 'closures', Kind.SIGHTING: 'sightings',
    Kind.RANGE: 'ranges', Kind.OTHER: 'sightings', Kind.POSITION_FIX: 'fixes',
    Kind.POSE_FIX: 'fixes', Kind.VERTICAL: 'odometry', Kind.HEIGHT: 'heights',
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


class Reweighting:
    """Residuals, kernel widths and weights of all measurements, one table after the other.

    At any rank: the relaxation is reweighted like the trajectory.
    """

    def __init__(self, schur: SchurOperator, config: RobustConfig) -> None:
        self.schur, self.problem = schur, schur.problem
        self.kernel, self.floor = KERNELS[config.kernel], config.weight_floor
        by_table = thresholds(self.problem.graph, config, self.problem.graph.dimension)
        starts = np.cumsum([0] + [len(column) for column in by_table.values()])
        self.slices = {
            name: slice(starts[k], starts[k + 1]) for k, name in enumerate(by_table)}
        self.c2 = np.concatenate(list(by_table.values()))
        self.doubted = np.isfinite(self.c2)
        self.measurement = np.concatenate(
            [np.zeros(0, dtype=np.int64)]
            + [rows + self.slices[name].start for name, _, rows in self.problem.all_rows.rows_of])
        """(rows,): measurement that each row of A belongs to, those of heights last."""
        self.weights = np.ones(len(self.c2))

    def apply(self, weights: Array) -> None:
        """Give every measurement a weight; Q_cc, B and M follow, M is factorised again."""
        self.weights = floored(weights, self.floor)
        self.schur.update(self.problem.all_rows.omega * self.weights[self.measurement])

    def squares_of(self, estimate: Estimate) -> Array:
        """(m,): squared residuals of an estimate as it stands."""
        by_table = squared_residuals(self.problem.graph, estimate)
        return np.concatenate([by_table[name] for name in self.slices])

    def settle(self, y: Array) -> tuple[Array, Array]:
        """Positions and bearings at their optimum for y: (squared residuals, y with bearings).

        A bearing's best value is the direction between its antennas, at any weight.
        """
        problem, manifold = self.problem, self.problem.manifold
        points = self.schur.points(y)
        residual, heights = problem.residuals(y, points)
        if manifold.k:
            y = y.copy()
            at, distance = problem.bearing_rows, problem.distance[:, None]
            bearings = y[manifold.n * manifold.d :][: manifold.k]
            vector = residual[at] + distance * bearings
            length = np.linalg.norm(vector, axis=1, keepdims=True)
            known = length[:, 0] > LEAST_LENGTH_M
            bearings[known] = vector[known] / length[known]
            residual[at] = vector - distance * bearings
        squares = problem.all_rows.omega * np.concatenate([
            np.einsum('ij,ij->i', residual, residual), heights**2])
        total = np.bincount(self.measurement, squares, minlength=len(self.c2))
        return np.asarray(total, dtype=float), y

    def weights_at(self, squares: Array, mu: float = 1.0) -> Array:
        """w = rho'(s) at kernel width mu c^2; 1 where trusted."""
        weights, doubted = np.ones(len(squares)), self.doubted
        weights[doubted] = self.kernel.weight(squares[doubted], mu * self.c2[doubted])
        return weights

    def cost(self, squares: Array, mu: float = 1.0) -> float:
        """sum rho(s) at kernel width mu c^2; trusted measurements count with s."""
        doubted = self.doubted
        rho = self.kernel.rho(squares[doubted], mu * self.c2[doubted])
        return float(np.sum(rho) + np.sum(squares[~doubted]))

    def tables(self, weights: Array) -> dict[str, Array]:
        """Weights by measurement table, of those that hold a doubted measurement."""
        return {
            name: weights[rows].copy() for name, rows in self.slices.items()
            if np.any(self.doubted[rows])}
