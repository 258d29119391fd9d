"""Robust weights of a problem: squared residuals at a point, and the rows they reweigh."""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...config import RobustConfig
from ...graph import Estimate, range_residuals, squared_residuals
from ..model.schur import SchurOperator
from ..thresholds import current
from .kernels import KERNELS, floored, thresholds
from .one_sided import long_widths


class Reweighting:
    """Residuals, kernel widths and weights of all measurements, one table after the other.

    At any rank: the relaxation is reweighted like the trajectory. With a one-sided kernel squares
    of ranges that are too long carry a minus sign.
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
            + [rows + self.slices[name].start for name, _, rows in self.problem.rows_of])
        """(rows,): measurement that each row of A belongs to."""
        self.weights = np.ones(len(self.c2))
        self._one_sided = config.kernel == 'one_sided'
        self._long = self.c2
        if self._one_sided and config.ranges:
            rows = self.slices['ranges']
            self._long = self.c2.copy()
            self._long[rows] = long_widths(self.problem.graph.ranges, config, self.c2[rows])

    def apply(self, weights: Array) -> None:
        """Give every measurement a weight; Q_cc, B and M follow, M is factorised again."""
        self.weights = floored(weights, self.floor)
        self.schur.update(self.problem.omega * self.weights[self.measurement])

    def squares_of(self, estimate: Estimate) -> Array:
        """(m,): squared residuals of an estimate as it stands."""
        graph = self.problem.graph
        by_table = squared_residuals(graph, estimate)
        if self._one_sided:
            by_table['ranges'] = np.copysign(by_table['ranges'], range_residuals(graph, estimate))
        return np.concatenate([by_table[name] for name in self.slices])

    def settle(self, y: Array) -> tuple[Array, Array]:
        """Positions and bearings at their optimum for y: (squared residuals, y with bearings).

        A bearing's best value is the direction between its antennas, at any weight.
        """
        problem, manifold = self.problem, self.problem.manifold
        sign = np.ones(len(self.c2))
        residual = problem.A @ y + problem.C @ self.schur.points(y)[problem.kept]
        if manifold.k:
            y = y.copy()
            at, distance = problem.bearing_rows, problem.distance[:, None]
            bearings = y[manifold.n * manifold.d :][: manifold.k]
            vector = residual[at] + distance * bearings
            length = np.linalg.norm(vector, axis=1, keepdims=True)
            known = length[:, 0] > current().bearing_least_length_m
            bearings[known] = vector[known] / length[known]
            residual[at] = vector - distance * bearings
            if self._one_sided:
                sign[self.measurement[at[length[:, 0] < distance[:, 0]]]] = -1.0
        squares = self.problem.omega * np.einsum('ij,ij->i', residual, residual)
        total = np.bincount(self.measurement, squares, minlength=len(self.c2))
        return sign * total, y

    def weights_at(self, squares: Array, mu: float = 1.0) -> Array:
        """w = rho'(s) at kernel width mu c^2; 1 where trusted."""
        weights, doubted = np.ones(len(squares)), self.doubted
        weights[doubted] = self.kernel.weight(*self._widened(squares, mu))
        return weights

    def cost(self, squares: Array, mu: float = 1.0) -> float:
        """sum rho(s) at kernel width mu c^2; trusted measurements count with s."""
        rho = self.kernel.rho(*self._widened(squares, mu))
        if self._one_sided:
            rho = mu * rho
        return float(np.sum(rho) + np.sum(np.abs(squares[~self.doubted])))

    def _widened(self, squares: Array, mu: float) -> tuple[Array, Array]:
        """(s, c^2) of the doubted measurements, so that rho is mu rho(s / mu), a wider kernel.

        Of most kernels that is rho at mu c^2. The one-sided one has a width in which noise is
        the unit as well; c^2 alone would leave its edge as sharp as at the end.
        """
        squares, c2 = squares[self.doubted], self.c2[self.doubted]
        if not self._one_sided:
            return squares, mu * c2
        return np.abs(squares) / mu, np.where(np.signbit(squares), self._long[self.doubted], c2)

    def tables(self, weights: Array) -> dict[str, Array]:
        """Weights by measurement table, of those that hold a doubted measurement."""
        return {
            name: weights[rows].copy() for name, rows in self.slices.items()
            if np.any(self.doubted[rows])}
