"""The whitened linear model r + J dx + G theta at an estimate, and score tests of theta.

G holds the derivatives of the residuals with respect to parameters that the problem does not
have: the bias of a radio, the scale of an odometry. With P = I - J (J^T J)^-1 J^T the best theta
is -(G^T P G)^-1 G^T P r and has covariance (G^T P G)^-1, dx being free: the generalised
likelihood ratio, or Rao's score test (Rao 1948; in geodesy Baarda's data snooping, 1968). One
factorisation of the information serves all hypotheses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ...array_types import Array, Index
from ...graph import Estimate, Graph
from ...graph.precision import chi_square_kappa
from ...graph.residuals import turned_arms
from ...linalg.rotations import matrix_to_angle, matrix_to_rotvec
from ...solver.covariance import Linearised, normal_solver

DETERMINED = 1e-6
"""Share of a parameter's information that the free unknowns must leave for it to be testable."""
KEYFRAMES = 8
"""Poses of each robot that the datum of a map with too few beacons is made of."""


@dataclass(frozen=True)
class Scores:
    """What the residuals say of k parameters G when all n unknowns are free."""

    information: Array
    """(k, k): G^T P G."""
    score: Array
    """(k,): G^T P r."""
    bare: Array
    """(k,): diagonal of G^T G, the information if nothing were free."""
    step: Array
    """(n, k): (J^T J)^-1 J^T G, by which a parameter that stays moves the unknowns."""

    def with_variance(self, factor: float) -> Scores:
        """Where noise has a factor of the claimed variance: residuals are less evidence."""
        return Scores(self.information / factor, self.score / factor, self.bare / factor, self.step)


@dataclass(frozen=True)
class LinearModel:
    """Residuals at an estimate in the order: turns and moves of relative poses, sightings, ranges,
    pose priors (turns, moves), point priors, verticals, heights; all whitened and times the root of
    their weight."""

    graph: Graph
    estimate: Estimate
    weights: Mapping[str, Array]
    """Robust ones by table; a missing table = 1."""
    jacobian: sp.csr_matrix
    residual: Array
    starts: Mapping[str, int]
    """First row of each part."""

    @cached_property
    def solve(self) -> Callable[[Array], Array]:
        """(J^T J)^-1 applied to columns (n, k)."""
        return normal_solver(self.jacobian)

    def rows(self, part: str) -> slice:
        """Rows of a part."""
        begins = [*self.starts.values(), len(self.residual)]
        number = list(self.starts).index(part)
        return slice(begins[number], begins[number + 1])

    def root(self, table: str, precision: Array) -> Array:
        """(k,): roots of precisions times robust weights."""
        return np.sqrt(precision * self.weights[table] if table in self.weights else precision)

    @cached_property
    def root_of_ranges(self) -> Array:
        return self.root('ranges', self.graph.ranges.precision)

    def columns(self, part: str, rows: Index, values: Array, count: int = 0) -> sp.csc_matrix:
        """Derivatives of the residuals by parameters: `values` at measurements `rows` of a part.

        `values` are (k, c), or (k, w, c) where a measurement has w residuals. With a `count` they
        are (k,) or (k, w), and each row has a column of its own: `rows` are then pairs (2, k) of
        measurement and column, of `count`.
        """
        size = len(self.residual)
        if count:
            rows, column = rows
            width = 1 if values.ndim == 1 else values.shape[1]
            at = self.starts[part] + rows[:, None] * width + np.arange(width)
            return sp.csc_matrix(
                (values.ravel(), (at.ravel(), np.repeat(column, width))), shape=(size, count))
        values = values if values.ndim == 3 else values[:, None]
        k, width, c = values.shape
        at = self.starts[part] + rows[:, None] * width + np.arange(width)
        return sp.csc_matrix(
            (values.ravel(), (np.repeat(at.ravel(), c), np.tile(np.arange(c), k * width))),
            shape=(size, c))

    def scores(self, G: sp.csc_matrix) -> Scores:
        """Scores of the parameters with these derivatives (rows, k)."""
        J = self.jacobian
        right = np.column_stack([(J.T @ G).toarray(), J.T @ self.residual])
        step = self.solve(right)
        GJ = right[:, :-1].T
        square = (G.T @ G).toarray()
        inner = square - GJ @ step[:, :-1]
        return Scores(
            (inner + inner.T) / 2, G.T @ self.residual - GJ @ step[:, -1],
            np.diag(square).copy(), step[:, :-1])


def linear_model(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> LinearModel:
    """The model of a graph at an estimate, robust weights applied."""
    # Of faults, residuals are the evidence.
    system = Linearised(graph, estimate, weights, with_residuals=True)
    parts = _residuals(graph, estimate, weights)
    begin, starts = 0, {}
    for name, part in parts.items():
        starts[name] = begin
        begin += len(part)
    free = np.ones(system.size, dtype=bool)
    fixed = graph.n_poses + np.flatnonzero(graph.landmarks.fixed)
    free[system.point_columns(fixed)] = False
    return LinearModel(
        graph, estimate, weights, system.jacobian[:, free], np.concatenate(list(parts.values())),
        starts)


_PARTS = {('relative_poses', True): 'turns', ('relative_poses', False): 'moves',
          ('pose_priors', True): 'prior_turns', ('pose_priors', False): 'prior_moves'}
"""Parts of measurement types that have a turn (True) and a difference of points; the others are
called after their type."""


def _residuals(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> dict[str, Array]:
    """Whitened residuals by part, in the order of rows of `Linearised`: rotation vectors of turns,
    else differences of points, lengths and heights."""
    d, points, rows = graph.dimension, estimate.points, estimate.rows
    result = {}
    for kind, table in graph.typed():
        for part in kind.residuals(table):
            weight = part.weight
            if part.turn:
                weight = 2 * chi_square_kappa(weight, d)
                start = part.arm_first if part.first is None else turned_arms(
                    part.first, part.arm_first, rows)
                turn = estimate.rotation[part.second] @ start
                values = matrix_to_angle(turn)[:, None] if d == 2 else matrix_to_rotvec(turn)
            else:
                values = part.vectors(points, rows)[:, 0]
                if part.height:
                    values = values[:, -1:]
                elif part.distance is not None:
                    values = (np.linalg.norm(values, axis=1) - part.distance)[:, None]
            if kind.name in weights:
                weight = weight * weights[kind.name]
            name = _PARTS.get((kind.name, part.turn), kind.name)
            result[name] = (np.sqrt(weight)[:, None] * values).ravel()
    return result


def newest_poses(graph: Graph) -> dict[str, int]:
    """Row of each robot's newest pose."""
    rows = graph.poses.newest(len(graph.robots))
    return {name: row for name, row in zip(graph.robots, rows.tolist(), strict=True) if row >= 0}


def keyframes_of(graph: Graph, gauge: int | None = None) -> Index:
    """Rows of poses spread over the path of each robot, that of the pose `gauge` first."""
    rows = [np.zeros(0, dtype=np.int64)]
    first = -1 if gauge is None else int(graph.poses.robot[gauge])
    for number in sorted(range(len(graph.robots)), key=lambda number: number != first):
        own = np.flatnonzero(graph.poses.robot == number)
        if len(own):
            own = own[np.argsort(graph.poses.index[own], kind='stable')]
            rows.append(np.unique(own[np.linspace(
                0, len(own) - 1, min(KEYFRAMES, len(own))).astype(np.int64)]))
    return np.concatenate(rows)
