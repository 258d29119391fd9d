"""The small problem behind observability: every body's trajectory is rigid, landmarks are points.

Measurements between segments become distances and coincidences of points carried by them. A
closure with weights kappa, tau is 2d coincidences of weight tau / 2d at +-s along each axis with
s^2 = kappa d / tau: the same quadratic form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ...graph import Estimate, Graph
from ...graph.precision import chi_square_kappa
from ...linalg.dense.rotations import angle_to_matrix, hat, rotvec_to_matrix
from ..session.odometry_segments import OdometrySegments

Array = NDArray[np.float64]
Index = NDArray[np.int64]
GROUND = -1
CELL_M = 0.5
"""Ranges between two places of this size are one piece of information: their biases are equal."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of points, each carried by a variable (`GROUND` = fixed in map)."""

    first: Index
    second: Index
    point_first: Array
    """(k, d): in map, at the estimate."""
    point_second: Array
    weight: Array

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: NDArray[np.bool_]) -> Pairs:
        return Pairs(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Placement:
    """Rigid motions of all variables about their centres; the last one is the ground's."""

    rotation: Array
    """(v + 1, d, d)."""
    shift: Array
    """(v + 1, d): metres."""


@dataclass(frozen=True)
class RigidProblem:
    """Distances and coincidences between rigid segments, landmarks and the ground."""

    segments: int
    centers: Array
    """(v + 1, d): where each variable turns: centroid of its measured points."""
    ranges: Pairs
    distance: Array
    same: Pairs

    @property
    def dimension(self) -> int:
        return int(self.centers.shape[1])

    @property
    def variables(self) -> int:
        return len(self.centers) - 1

    @property
    def turns(self) -> int:
        """Degrees of freedom of a rotation."""
        return 1 if self.dimension == 2 else 3

    def columns(self, variable: int) -> slice:
        """Unknowns of a variable: shift first, then rotation (segments only)."""
        d, size = self.dimension, self.dimension + self.turns
        if variable < self.segments:
            return slice(variable * size, (variable + 1) * size)
        begin = self.segments * size + (variable - self.segments) * d
        return slice(begin, begin + d)

    @property
    def unknowns(self) -> int:
        return self.columns(self.variables - 1).stop if self.variables else 0

    def identity(self) -> Placement:
        """The placement that leaves everything where the estimate has it."""
        count, d = self.variables + 1, self.dimension
        return Placement(np.tile(np.eye(d), (count, 1, 1)), np.zeros((count, d)))

    def arms(self, at: Placement, pairs: Pairs, first: bool) -> Array:
        """(k, d): points of one side relative to their centres, turned."""
        variable = pairs.first if first else pairs.second
        point = pairs.point_first if first else pairs.point_second
        return np.einsum('kij,kj->ki', at.rotation[variable], point - self.centers[variable])

    def places(self, at: Placement, pairs: Pairs, first: bool) -> Array:
        """(k, d): points of one side in map."""
        variable = pairs.first if first else pairs.second
        return self.arms(at, pairs, first) + self.centers[variable] + at.shift[variable]

    def linearised(self, at: Placement) -> tuple[Array, csr_matrix]:
        """Whitened residuals and their Jacobian."""
        d = self.dimension
        vector = self.places(at, self.ranges, False) - self.places(at, self.ranges, True)
        length = np.linalg.norm(vector, axis=1)
        unit = vector / np.maximum(length, 1e-9)[:, None]
        scale = np.sqrt(self.ranges.weight)
        gap = self.places(at, self.same, False) - self.places(at, self.same, True)
        gap_scale = np.sqrt(self.same.weight)
        residual = np.concatenate([
            scale * (length - self.distance), (gap_scale[:, None] * gap).ravel()])
        blocks = [
            self._entries(at, self.ranges, side, (scale * sign)[:, None, None] * unit[:, None], 0)
            for side, sign in ((True, -1.0), (False, 1.0))
        ] + [
            self._entries(
                at, self.same, side,
                (gap_scale * sign)[:, None, None] * np.eye(d), len(self.ranges))
            for side, sign in ((True, -1.0), (False, 1.0))
        ]
        row, column, value = (np.concatenate(part) for part in zip(*blocks, strict=True))
        shape = (len(residual), self.unknowns)
        return residual, csr_matrix((value, (row, column)), shape=shape)

    def _entries(
        self, at: Placement, pairs: Pairs, first: bool, weight: Array, row_offset: int
    ) -> tuple[Index, Index, Array]:
        """Jacobian entries of `weight` (k, m, d) times the motion of one side's points."""
        d, turns = self.dimension, self.turns
        variable = pairs.first if first else pairs.second
        arm = self.arms(at, pairs, first)
        turned = np.stack([-arm[:, 1], arm[:, 0]], axis=1)[:, :, None] if d == 2 else -hat(arm)
        block = np.concatenate([weight, weight @ turned], axis=2)
        size = d + turns
        body = (variable >= 0) & (variable < self.segments)
        start = np.where(
            body, variable * size, self.segments * size + (variable - self.segments) * d)
        column = start[:, None, None] + np.arange(size)[None, None, :]
        m = weight.shape[1]
        row = row_offset + (np.arange(len(variable)) * m)[:, None] + np.arange(m)
        row, column = np.broadcast_arrays(row[:, :, None], column)
        keep = np.broadcast_to((variable >= 0)[:, None, None], block.shape) & (
            body[:, None, None] | (np.arange(size) < d))
        return row[keep], np.broadcast_to(column, block.shape)[keep], block[keep]

    def cost(self, at: Placement) -> float:
        """Sum of squared whitened residuals."""
        return float(np.sum(self.linearised(at)[0] ** 2))

    def stepped(self, at: Placement, step: Array) -> Placement:
        """The placement after a step in the unknowns."""
        d, size, b = self.dimension, self.dimension + self.turns, self.segments
        moved = step[:b * size].reshape(b, size)
        shift, rotation = at.shift.copy(), at.rotation.copy()
        shift[:b] += moved[:, :d]
        turn = moved[:, d:]
        rotation[:b] = (
            angle_to_matrix(turn[:, 0]) if d == 2 else rotvec_to_matrix(turn)
        ) @ rotation[:b]
        shift[b:self.variables] += step[b * size:].reshape(-1, d)
        return Placement(rotation, shift)

    def relaxed(self, at: Placement, free: NDArray[np.bool_], steps: int = 20) -> Placement:
        """A local minimum near a placement (Levenberg–Marquardt over the `free` unknowns)."""
        damping, best = 1e-3, self.cost(at)
        for _ in range(steps):
            residual, jacobian = self.linearised(at)
            jacobian = jacobian[:, free]
            normal = (jacobian.T @ jacobian).toarray()
            scale = np.diag(normal) + 1e-9 * max(1.0, float(np.max(normal, initial=0.0)))
            step = np.zeros(self.unknowns)
            step[free] = -np.linalg.solve(
                normal + np.diag(damping * scale), jacobian.T @ residual)
            trial = self.stepped(at, step)
            value = self.cost(trial)
            if value < best:
                done = best - value < 1e-6 * (1 + best)
                at, best, damping = trial, value, max(damping / 10, 1e-9)
                if done:
                    break
            else:
                damping *= 10
                if damping > 1e8:
                    break
        return at


def rigid_problem(
    graph: Graph, estimate: Estimate, segments: OdometrySegments, range_sigma_floor_m: float
) -> RigidProblem:
    """The small problem of a graph at an estimate; measurements within a body drop out."""
    b, d = len(segments), graph.dimension
    ranges, distance = _ranges(graph, estimate, segments, range_sigma_floor_m)
    same = _coincidences(graph, estimate, segments)
    fixed = b + np.flatnonzero(graph.landmarks.fixed)
    ranges, same = _grounded(ranges, fixed), _grounded(same, fixed)
    centers = np.zeros((b + graph.n_landmarks + 1, d))
    count = np.zeros(len(centers))
    for pairs in (ranges, same):
        for variable, point in (
            (pairs.first, pairs.point_first), (pairs.second, pairs.point_second)):
            np.add.at(centers, variable, point)
            np.add.at(count, variable, 1)
    centers /= np.maximum(count, 1)[:, None]
    alone = np.flatnonzero(count[:b] == 0)
    centers[alone] = estimate.translation[segments.last[alone]]
    centers[b:-1] = estimate.landmarks
    centers[GROUND] = 0
    return RigidProblem(b, centers, ranges, distance, same)


def _ranges(
    graph: Graph, estimate: Estimate, segments: OdometrySegments, floor: float
) -> tuple[Pairs, Array]:
    table = graph.ranges
    first, second = segments.variable(table.source), segments.variable(table.target)

    def antenna(endpoint: Index, lever: Array) -> Array:
        point = estimate.points[graph.points(endpoint)].copy()
        pose = endpoint >= 0
        point[pose] += np.einsum('kij,kj->ki', estimate.rotation[endpoint[pose]], lever[pose])
        return point

    point_first = antenna(table.source, table.lever_source)
    point_second = antenna(table.target, table.lever_target)
    cells = np.concatenate([
        first[:, None], second[:, None], np.floor(point_first / CELL_M),
        np.floor(point_second / CELL_M)], axis=1).astype(np.int64)
    weight = table.precision
    if floor > 0 and len(cells):
        _, group, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        weight = np.minimum(weight, 1 / (floor**2 * count[group.reshape(-1)]))
    keep = first != second
    pairs = Pairs(first, second, point_first, point_second, np.asarray(weight))
    return pairs.take(keep), table.distance_m[keep]


def _coincidences(graph: Graph, estimate: Estimate, segments: OdometrySegments) -> Pairs:
    rotation, translation, points = estimate.rotation, estimate.translation, estimate.points
    see, point, prior = graph.sightings, graph.point_priors, graph.pose_priors
    closures = graph.relative_poses.take(~graph.relative_poses.odometry)
    seen = translation[see.i] + np.einsum('kij,kj->ki', rotation[see.i], see.translation)
    lever = np.where(
        (point.point >= 0)[:, None],
        np.einsum('kij,kj->ki', rotation[np.maximum(point.point, 0)], point.lever)
        if graph.n_poses else 0.0, 0.0)
    carried = translation[closures.i] + np.einsum(
        'kij,kj->ki', rotation[closures.i], closures.translation)
    ground = np.full(len(prior), GROUND)
    parts = [
        Pairs(segments.variable(see.i), segments.variable(see.point), seen,
              points[graph.points(see.point)], see.tau),
        Pairs(segments.variable(point.point), np.full(len(point), GROUND),
              points[graph.points(point.point)] + lever, point.position, point.precision),
        _frames(segments.variable(closures.i), segments.variable(closures.j), carried,
                translation[closures.j], rotation[closures.i] @ closures.rotation,
                rotation[closures.j], closures.kappa, closures.tau),
        _frames(segments.variable(prior.i), ground, translation[prior.i], prior.translation,
                rotation[prior.i], prior.rotation, prior.kappa, prior.tau),
    ]
    joined = Pairs(*(
        np.concatenate([getattr(part, name) for part in parts])
        for name in Pairs.__dataclass_fields__))
    return joined.take(joined.first != joined.second)


def _frames(
    first: Index, second: Index, t_first: Array, t_second: Array, r_first: Array,
    r_second: Array, kappa: Array, tau: Array,
) -> Pairs:
    """Coincidence of two frames as coincidences of 2d points along their axes."""
    d = t_first.shape[1]
    reach = np.sqrt(chi_square_kappa(kappa, d) * d / tau)
    signs = np.array([1.0, -1.0])

    def points(origin: Array, axes: Array) -> Array:
        offsets = reach[:, None, None, None] * signs[:, None, None] * np.swapaxes(
            axes, 1, 2)[:, None]
        return (origin[:, None, None] + offsets).reshape(-1, d)

    repeat = 2 * d
    return Pairs(
        np.repeat(first, repeat), np.repeat(second, repeat), points(t_first, r_first),
        points(t_second, r_second), np.repeat(tau / repeat, repeat))


def _grounded(pairs: Pairs, fixed: Index) -> Pairs:
    """The pairs with fixed landmarks made ground."""
    def ground(variable: Index) -> Index:
        return np.where(np.isin(variable, fixed), GROUND, variable)

    moved = Pairs(ground(pairs.first), ground(pairs.second), pairs.point_first,
                  pairs.point_second, pairs.weight)
    return moved
