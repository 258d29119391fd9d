"""Robust weights of a problem: squared residuals at a point, and the rows they reweigh."""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...config import RobustConfig
from ...graph import Estimate, squared_residuals
from ..model.schur import SchurOperator
from ..thresholds import current
from .kernels import KERNELS, floored, thresholds


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
            + [rows + self.slices[name].start for name, _, rows in self.problem.rows_of])
        """(rows,): measurement that each row of A belongs to."""
        self.weights = np.ones(len(self.c2))

    def apply(self, weights: Array) -> None:
        """Give every measurement a weight; Q_cc, B and M follow, M is factorised again."""
        self.weights = floored(weights, self.floor)
        self.schur.update(self.problem.omega * self.weights[self.measurement])

    def squares_of(self, estimate: Estimate) -> Array:
        """(m,): squared residuals of an estimate as it stands."""
        by_table = squared_residuals(self.problem.graph, estimate)
        return np.concatenate([by_table[name] for name in self.slices])

    def settle(self, y: Array) -> tuple[Array, Array]:
        """Positions and bearings at their optimum for y: (squared residuals, y with bearings).

        A bearing's best value is the direction between its antennas, at any weight.
        """
        problem, manifold = self.problem, self.problem.manifold
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
        squares = self.problem.omega * np.einsum('ij,ij->i', residual, residual)
        total = np.bincount(self.measurement, squares, minlength=len(self.c2))
        return total.astype(float), y

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
