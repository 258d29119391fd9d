"""Marginal covariances of poses and points from the Gauss-Newton information at an estimate.

Residuals are the scalar ranges and the relative poses themselves (bearings eliminated), linear in
a small motion of each variable:

- pose i: t_i + dt and exp(w) R_i, both along the axes of map; order x y theta or
  x y z rx ry rz, as in geometry_msgs/PoseWithCovariance;
- landmark: l + dl.

The cost has no factor 1/2, so the information is half its Hessian. Rotations of the plane count
with kappa / 2 (`graph/precision.py`): then 2 kappa' |w|^2 is chi-square.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..array_types import Array, Index, Mask
from ..config import SolverError
from ..graph import Estimate, Graph, Residual, chi_square_residuals
from ..graph.precision import chi_square_kappa
from ..graph.residuals import turned_arms
from ..linalg.cholesky import NotPositiveDefiniteError, factorize
from ..linalg.process import single_threaded_blas
from ..linalg.rotations import rotation_jacobian

COLUMNS_AT_ONCE = 30
"""Right-hand sides: their memory is that of a few poses, however many are chosen."""

_MOST_GROWTH = 1e11
"""Variance of a variable over that with all others known. A singular matrix that passes for
positive definite gives 1e12 (20 000 poses) to 1e16; no real chain of measurements comes near."""

_WEAK_PRECISION = 1e-6
"""Of every unknown of a normal matrix: 1 km, 1000 rad."""


@dataclass(frozen=True)
class Marginals:
    """Covariances of the chosen variables; zero for variables that are held."""

    poses: Array
    """(k, 3, 3) in the order x y theta, or (k, 6, 6) in x y z rx ry rz; metres and radians."""
    landmarks: Array
    """(l, d, d), square metres."""
    joint: Array
    """All of them together, poses first; shape (3 k + 2 l,) or (6 k + 3 l,) squared."""


def marginal_covariance(
    graph: Graph,
    estimate: Estimate,
    poses: Sequence[int] | Index = (),
    landmarks: Sequence[int] | Index = (),
    *,
    weights: Mapping[str, Array] | None = None,
) -> Marginals:
    """Covariances of poses and landmarks (rows of the graph) at an estimate, usually an optimum.

    `weights` are robust weights by table (`SolveStats.weights`). What no absolute measurement
    grounds is relative to a held pose, the first one of the component.
    Raises SolverError when the measurements leave something undetermined.
    """
    system = Linearised(graph, estimate, weights or {})
    free = system.free()
    information = system.information()[free][:, free].tocsc()
    chosen_poses = np.asarray(poses, dtype=np.int64)
    chosen_points = np.asarray(landmarks, dtype=np.int64) + graph.n_poses
    wanted = np.concatenate(
        [system.pose_columns(chosen_poses).ravel(), system.point_columns(chosen_points).ravel()])
    position = np.full(system.size, -1, dtype=np.int64)
    position[np.flatnonzero(free)] = np.arange(int(free.sum()))
    chosen = position[wanted]
    try:
        solve = _inverse(information)
        joint = columns_of_inverse(solve, information.shape[0], chosen)
        held = chosen < 0
        shares = np.where(held, 1.0, np.diagonal(joint) * information.diagonal()[chosen])
        if not np.all((shares > 0) & (shares < _MOST_GROWTH)):
            raise NotPositiveDefiniteError('singular but for rounding errors')
    except NotPositiveDefiniteError as error:
        raise SolverError(
            'the measurements leave a pose or landmark undetermined: no covariance; add '
            'measurements or take it out of the graph') from error
    k, step, d = len(chosen_poses), system.step, graph.dimension
    at = np.arange(k)[:, None] * step + np.arange(step)
    points = k * step + np.arange(len(chosen_points))[:, None] * d + np.arange(d)
    return Marginals(
        joint[at[:, :, None], at[:, None, :]], joint[points[:, :, None], points[:, None, :]],
        joint)


def variance_factor(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array]
) -> float:
    """Found over claimed variance of the residuals under robust weights, at least 1."""
    d = graph.dimension
    squares = chi_square_residuals(graph, estimate)
    total = degrees = 0.0
    for kind, table in graph.typed():
        weight = np.asarray(weights.get(kind.name, np.ones(len(table))))
        total += float(weight @ squares[kind.name])
        degrees += float(np.sum(weight)) * kind.degrees_of_freedom(d)
    free = degrees - graph.n_determined
    return max(1.0, total / free) if free > 0 else 1.0


def in_map(covariance: Array, rotation: Array, point: Mask) -> Array:
    """Covariances (k b, k b) of bodies in their own frames, rotation first, as in `Marginals`.

    Order and axes of geometry_msgs/PoseWithCovariance: position, then rotation about the axes of
    map. `rotation` (k, d, d) are the bodies'; those that are points have no rotation: zero.
    """
    k, d = len(rotation), rotation.shape[-1]
    turns = 1 if d == 2 else 3
    b = d + turns
    turned = np.zeros((k, b, b))
    turned[:, :d, turns:] = rotation
    turned[:, d:, :turns] = 1.0 if d == 2 else rotation
    turned[np.asarray(point), d:] = 0.0
    blocks = turned[:, None] @ covariance.reshape(k, b, k, b).swapaxes(1, 2)
    blocks = blocks @ np.swapaxes(turned, 1, 2)
    return np.asarray(blocks.swapaxes(1, 2).reshape(k * b, k * b))


def columns_of_inverse(solve: Callable[[Array], Array], size: int, rows: Index) -> Array:
    """Rows and columns `rows` of the inverse (size, size) that `solve` applies to columns; zero
    where a row is -1 (held)."""
    free = np.flatnonzero(rows >= 0)
    out = np.zeros((len(rows), len(rows)))
    for start in range(0, len(free), COLUMNS_AT_ONCE):
        part = free[start : start + COLUMNS_AT_ONCE]
        unit = np.zeros((size, len(part)))
        unit[rows[part], np.arange(len(part))] = 1.0
        out[np.ix_(free, part)] = solve(unit)[rows[free]]
    return (out + out.T) / 2


@dataclass
class Linearised:
    """Whitened Jacobian of all residuals: columns of poses (t, w), then of landmarks."""

    graph: Graph
    estimate: Estimate
    weights: Mapping[str, Array]
    with_residuals: bool = False
    """Whether translations are derived at their residuals; else these count as zero, and what is
    not measured has no information."""
    blocks: list[sp.csr_matrix] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.graph
        self.d = graph.dimension
        self.turns = 1 if self.d == 2 else 3
        self.step = self.d + self.turns
        self.size = graph.n_poses * self.step + graph.n_landmarks * self.d
        self._points, self._rows = self.estimate.points, self.estimate.rows
        for kind, table in graph.typed():
            for part in kind.residuals(table):
                if part.turn:
                    self._rotations(kind.name, part)
                else:
                    self._differences(kind.name, part)
        self.jacobian = sp.vstack(
            [sp.csr_matrix((0, self.size)), *self.blocks], format='csr')

    def information(self) -> sp.csr_matrix:
        """Half the Gauss-Newton Hessian of the cost."""
        return (self.jacobian.T @ self.jacobian).tocsr()

    def free(self) -> Mask:
        """(size,): false for fixed landmarks and for one pose per ungrounded component.

        Where there are verticals only its heading is held, where there are heights not its height.
        """
        graph, n = self.graph, self.graph.n_poses
        points = n + graph.n_landmarks
        variable = np.concatenate([
            np.repeat(np.arange(n), self.step),
            n + np.repeat(np.arange(graph.n_landmarks), self.d)])
        touch = sp.csr_matrix(
            (np.ones(self.size), (np.arange(self.size), variable)), shape=(self.size, points))
        links = abs(self.jacobian) @ touch
        _, label = connected_components(links.T @ links, directed=False)
        grounded = np.zeros(label.max(initial=-1) + 1, dtype=bool)
        grounded[label[n:][graph.landmarks.fixed]] = True
        grounded[label[graph.points(graph.absolute_endpoints())]] = True
        held = np.zeros(points, dtype=bool)
        held[n:] = graph.landmarks.fixed
        labels, first = np.unique(label[:n], return_index=True)
        pinned = first[~grounded[labels]]
        held[pinned] = True
        free = ~held[variable]
        own, part = self.pose_columns(pinned), label[pinned]
        high = np.isin(part, label[graph.points(graph.heights.point)])
        free[own[high, self.d - 1]] = True
        # In an upright frame only its heading is held, whoever says where up is.
        upright = np.isin(part, label[graph.verticals.i])
        free[own[upright, self.d:self.d + 2]] = True
        return free

    def pose_columns(self, i: Index) -> Index:
        """(k, d + turns): columns of translation and rotation."""
        return i[:, None] * self.step + np.arange(self.step)

    def point_columns(self, point: Index) -> Index:
        """(k, d): columns of positions: of poses' translations or of landmarks."""
        n = self.graph.n_poses
        start = np.where(point < n, point * self.step, n * self.step + (point - n) * self.d)
        return start[:, None] + np.arange(self.d)

    def _turn_columns(self, i: Index) -> Index:
        return i[:, None] * self.step + self.d + np.arange(self.turns)

    def _add(self, precision: Array, parts: list[tuple[Index, Array]]) -> None:
        """Residual rows (k, r) with derivatives (k, r, c) by columns (k, c)."""
        k = len(precision)
        if not k:
            return
        r = parts[0][1].shape[1]
        rows = np.arange(k * r).reshape(k, r)
        root = np.sqrt(precision)[:, None, None]
        entries = [
            tuple(np.broadcast_to(part, values.shape).ravel() for part in (
                root * values, rows[:, :, None], columns[:, None, :]))
            for columns, values in parts]
        data, row, column = (np.concatenate(items) for items in zip(*entries, strict=True))
        self.blocks.append(sp.csr_matrix((data, (row, column)), shape=(k * r, self.size)))

    def _weighted(self, table: str, values: Array) -> Array:
        return values * self.weights[table] if table in self.weights else values

    def _eye(self, k: int, size: int, sign: float = 1.0) -> Array:
        return np.tile(sign * np.eye(size), (k, 1, 1))

    def _rotations(self, table: str, residual: Residual) -> None:
        """R_j - R_i R~, weight 2 kappa per axis of the small rotation."""
        k = len(residual)
        kappa = 2 * chi_square_kappa(residual.weight, self.d)
        parts = [(self._turn_columns(residual.second), self._eye(k, self.turns))]
        if residual.first is not None:
            parts.append((self._turn_columns(residual.first), self._eye(k, self.turns, -1.0)))
        self._add(self._weighted(table, kappa), parts)

    def _differences(self, table: str, residual: Residual) -> None:
        """One end less the other: all coordinates, the last one, or the length less a distance."""
        along = self._eye(len(residual), self.d)
        vector = residual.vectors(self._points, self._rows)[:, 0]
        if residual.height:
            along = along[:, -1:]
        elif residual.distance is not None:
            length = np.linalg.norm(vector, axis=1, keepdims=True)
            along = (vector / np.maximum(length, 1e-12))[:, None, :]
        parts = []
        for endpoint, arm, sign in zip(
                (residual.first, residual.second), residual.arms, (-1.0, 1.0), strict=True):
            if endpoint is None:
                continue
            if residual.point:
                parts.append((self.point_columns(self.graph.points(endpoint)), sign * along))
            if np.any(endpoint >= 0) and np.any(arm):
                # A vertical at zero residual, or a turn about it would seem to be measured.
                turned = (turned_arms(endpoint, arm, self._rows) if residual.point
                          else residual.arm_first)[:, 0]
                if (residual.point and residual.distance is None and sign < 0
                        and not self.with_residuals):
                    # At zero residual the first arm ends where the second one does.
                    turned = turned + vector
                parts.append((
                    self._turn_columns(np.maximum(endpoint, 0)),
                    sign * along @ rotation_jacobian(turned)))
        self._add(self._weighted(table, residual.weight), parts)


def normal_solver(jacobian: sp.csr_matrix) -> Callable[[Array], Array]:
    """(J^T J)^-1 for J (rows, n), applied to columns (n, k).

    Every unknown has a prior of `_WEAK_PRECISION`: what is undetermined does not make it singular.
    """
    information = (jacobian.T @ jacobian).tocsc()
    information.setdiag(information.diagonal() + _WEAK_PRECISION)
    return _inverse(information)


def _inverse(information: sp.csc_matrix) -> Callable[[Array], Array]:
    """The inverse applied to columns (n, k); NotPositiveDefiniteError where there is none."""
    # Unit diagonal: metres and radians differ in scale by orders of magnitude.
    diagonal = information.diagonal()
    if np.any(diagonal <= 0):
        raise NotPositiveDefiniteError('a variable has no information')
    scale = 1 / np.sqrt(diagonal)
    D = sp.diags(scale)
    with single_threaded_blas():
        factor = factorize((D @ information @ D).tocsc())

    def solved(right: Array) -> Array:
        with single_threaded_blas():
            return np.asarray(scale[:, None] * factor.solve_any(scale[:, None] * right))

    return solved
