"""The small problem behind observability: stretches of trajectory are rigid, landmarks are points.

Measurements between rigid stretches (whole segments, or pieces of them joined by odometry) become
distances and coincidences of points carried by them. A closure with weights kappa, tau is 2d
coincidences of weight tau / 2d at +-s along each axis with s^2 = kappa d / tau: the same quadratic
form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from ...array_types import Array, Index, Mask
from ...linalg.rotations import angle_to_matrix, rotation_jacobian, rotvec_to_matrix
from .datum import Outside
from .pieces import Joints, joint_residuals, joint_terms
from .rigid_kernels import (
    DIRECTION,
    HEIGHT,
    CarriedPairs,
    Unknowns,
    add_joints,
    pair_cost,
    pair_normal_equations,
)

GROUND = -1
QUADRATIC = float('inf')
"""Kernel width that believes every measurement that is not rejected."""
WIDTH = 9.0
"""c^2 of the kernel that compares placements: a contradiction of 3 sigma is half believed. An
outlier among the ranges of a field of 20 m costs 2 ln(0.9 / 0.1 * 20 m / (2.5 * 0.2 m)), about
10, against an inlier."""
WIDE = 64 * WIDTH
"""c^2 that searches: what the present placement rejects may be the truth, and pulls as well."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of points, each carried by a variable (`GROUND` = fixed in map)."""

    first: Index
    second: Index
    point_first: Array
    """(k, d): in map, at the estimate."""
    point_second: Array
    weight: Array
    group: Index
    """(k,): rows of one measurement share a number from 0 on."""
    kept: Mask
    """(k,): false for measurements that the robust solve rejects."""
    degrees: Array
    """(k,): degrees of freedom of the measurement, by which kernels widen; infinite for
    surveyed places of landmarks and for verticals, which no kernel doubts."""
    part: Index
    """(k,): what of the points coincides: `WHOLE`, `HEIGHT`, or `DIRECTION`, where the points are
    unit vectors. Of distances `WHOLE`."""

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: Mask) -> Pairs:
        return Pairs(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    @property
    def scalars(self) -> Array:
        """(k,): scalar residuals of each coincidence."""
        d = self.point_first.shape[1]
        return np.array([d, 1, d - 1])[self.part]


@dataclass(frozen=True)
class Placement:
    """Rigid motions of all variables about their centres; the last one is the ground's."""

    rotation: Array
    """(v + 1, d, d)."""
    shift: Array
    """(v + 1, d): metres."""


@dataclass(frozen=True)
class Residuals:
    """Whitened residuals of one placement."""

    ranges: Array
    same: Array
    """(c, d)."""
    joints: Array
    """(j, d + turns)."""
    vector: Array
    """(k, d): between the antennas of ranges, m."""
    length: Array


@dataclass(frozen=True)
class RigidProblem:
    """Distances and coincidences between rigid stretches, landmarks and the ground."""

    pieces: int
    centers: Array
    """(v + 1, d): where each variable turns: centroid of its measured points."""
    ranges: Pairs
    distance: Array
    same: Pairs
    joints: Joints

    def thinned(self, most: int) -> RigidProblem:
        """The problem with at most so many ranges, evenly picked: coarser, for searches."""
        step = -(-len(self.ranges) // most)
        if step <= 1:
            return self
        rows = np.arange(len(self.ranges)) % step == 0
        return replace(self, ranges=self.ranges.take(rows), distance=self.distance[rows])

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
        """Unknowns of a variable: shift first, then rotation (pieces only)."""
        d, size = self.dimension, self.dimension + self.turns
        if variable < self.pieces:
            return slice(variable * size, (variable + 1) * size)
        begin = self.pieces * size + (variable - self.pieces) * d
        return slice(begin, begin + d)

    @cached_property
    def level(self) -> bool:
        """Whether some piece knows where up is: a turn of everything is free about the vertical
        only."""
        return bool(np.any(self.same.part == DIRECTION))

    @property
    def outside(self) -> Outside:
        """What verticals and heights tell of the frame."""
        if not self.level:
            return Outside.NOTHING
        high = bool(np.any(self.same.part == HEIGHT))
        return Outside.HEIGHT if high else Outside.VERTICAL

    def held(self, piece: int) -> Index:
        """Unknowns of a piece that give everything else its frame, the gauge.

        Rotations are about the axes of map: of a level frame the heading is held, and the height
        only where nothing measures one.
        """
        own = np.arange(self.columns(piece).start, self.columns(piece).stop)
        if not self.level:
            return own
        d = self.dimension
        high = self.outside is Outside.HEIGHT
        return own[[*range(d - 1 if high else d), len(own) - 1]]

    @property
    def unknowns(self) -> int:
        return self.columns(self.variables - 1).stop if self.variables else 0

    def identity(self) -> Placement:
        """The placement that leaves everything where the estimate has it."""
        count, d = self.variables + 1, self.dimension
        return Placement(np.tile(np.eye(d), (count, 1, 1)), np.zeros((count, d)))

    @cached_property
    def _own(self) -> dict[tuple[bool, bool], Array]:
        """Points relative to their variables' centres, by (of ranges, of the first side)."""
        return {
            (pairs is self.ranges, first): (
                pairs.point_first if first else pairs.point_second) - np.where(
                    (pairs.part == DIRECTION)[:, None], 0.0, self.centers[
                        pairs.first if first else pairs.second])
            for pairs in (self.ranges, self.same) for first in (True, False)}

    def arms(self, at: Placement, pairs: Pairs, first: bool) -> Array:
        """(k, d): points of one side relative to their centres, turned."""
        variable = pairs.first if first else pairs.second
        return np.einsum(
            'kij,kj->ki', at.rotation[variable], self._own[pairs is self.ranges, first])

    def places(self, at: Placement, pairs: Pairs, first: bool) -> Array:
        """(k, d): points of one side in map."""
        variable = pairs.first if first else pairs.second
        return self.arms(at, pairs, first) + (self.centers + at.shift)[variable]

    def residuals(self, at: Placement) -> Residuals:
        """Whitened residuals, without robust weights."""
        vector = self.places(at, self.ranges, False) - self.places(at, self.ranges, True)
        length = np.sqrt(np.einsum('ki,ki->k', vector, vector))
        same = self.same
        gap = np.where(
            (same.part == DIRECTION)[:, None],
            self.arms(at, same, False) - self.arms(at, same, True),
            self.places(at, same, False) - self.places(at, same, True)) * self._counted
        return Residuals(
            np.sqrt(self.ranges.weight) * (length - self.distance),
            np.sqrt(self.same.weight)[:, None] * gap, self._bent(at)[0], vector, length)

    @cached_property
    def _counted(self) -> Array:
        """(c, d): 1 where a coordinate of a coincidence counts."""
        counted = np.ones((len(self.same), self.dimension))
        counted[self.same.part == HEIGHT, :-1] = 0.0
        return counted

    def _bent(self, at: Placement) -> tuple[Array, Array, Array]:
        return joint_terms(self.joints, self.centers, at.rotation, at.shift)

    def squares(self, residuals: Residuals) -> tuple[Array, Array]:
        """Squared residuals of ranges, and of the measurements behind the coincidences."""
        gap = np.sum(residuals.same**2, axis=1)
        return residuals.ranges**2, np.bincount(
            self.same.group, gap).astype(float)

    @cached_property
    def _unknowns(self) -> Unknowns:
        b, d, size = self.pieces, self.dimension, self.dimension + self.turns
        variable = np.arange(self.variables + 1)
        begin = np.where(variable < b, variable * size, b * size + (variable - b) * d)
        sizes = np.where(variable < b, size, d)
        sizes[-1] = 0
        return Unknowns(begin, sizes)

    @cached_property
    def _carried(self) -> tuple[CarriedPairs, CarriedPairs, Array]:
        """Ranges, coincidences, and degrees of freedom of the measurements behind these."""
        def carried(pairs: Pairs) -> CarriedPairs:
            own = self._own
            return CarriedPairs(
                np.where(pairs.first < 0, self.variables, pairs.first),
                np.where(pairs.second < 0, self.variables, pairs.second),
                own[pairs is self.ranges, True], own[pairs is self.ranges, False],
                np.sqrt(pairs.weight), pairs.kept, pairs.part)

        groups = int(self.same.group.max()) + 1 if len(self.same) else 0
        return carried(self.ranges), carried(self.same), self._degrees(groups)

    def cost(self, at: Placement, width: float = QUADRATIC) -> float:
        """Sum of squared residuals, or of Geman-McClure terms of a kernel with c^2 = `width`.

        The quadratic cost leaves rejected measurements out; with a kernel they take part, since
        another placement may explain them.
        """
        ranges, same, degrees = self._carried
        joints = joint_residuals(self.joints, self.centers, at.rotation, at.shift)
        return float(np.sum(joints**2)) + float(pair_cost(
            at.rotation, self.centers + at.shift, ranges, self.distance, same, self.same.group,
            degrees, width))

    def normal_equations(self, at: Placement, width: float = QUADRATIC) -> tuple[Array, Array]:
        """J^T W J (u, u) and J^T W r (u,) of `linearised`, W the robust weights."""
        ranges, same, degrees = self._carried
        normal, gradient = np.zeros((self.unknowns, self.unknowns)), np.zeros(self.unknowns)
        pair_normal_equations(
            at.rotation, self.centers + at.shift, ranges, self.distance, same, self.same.group,
            degrees, width, self._unknowns, normal, gradient)
        if len(self.joints):
            residual, by_before, by_after = self._bent(at)
            add_joints(
                self.joints.before, self.joints.after, residual, by_before, by_after,
                self._unknowns, normal, gradient)
        return normal, gradient

    def weights(self, residuals: Residuals, width: float) -> tuple[Array, Array]:
        """Robust weights of ranges (k,) and coincidences (c,)."""
        if np.isinf(width):
            return self.ranges.kept.astype(float), self.same.kept.astype(float)
        squares, same = self.squares(residuals)
        weight = (1 + same / (width * self._degrees(len(same)))) ** -2.0
        return (1 + squares / width) ** -2.0, weight[self.same.group]

    def _degrees(self, groups: int) -> Array:
        degrees = np.ones(groups)
        degrees[self.same.group] = self.same.degrees
        return degrees

    def linearised(
        self, at: Placement, width: float = QUADRATIC
    ) -> tuple[Array, csr_matrix]:
        """Whitened residuals, by the roots of their robust weights, and their Jacobian."""
        d = self.dimension
        residuals = self.residuals(at)
        range_weight, same_weight = (np.sqrt(w) for w in self.weights(residuals, width))
        unit = residuals.vector / np.maximum(residuals.length, 1e-9)[:, None]
        scale = np.sqrt(self.ranges.weight) * range_weight
        gap_scale = np.sqrt(self.same.weight) * same_weight
        _, *sides = self._bent(at)
        below = len(self.ranges) + d * len(self.same)
        blocks = [
            self._entries(at, self.ranges, side, (scale * sign)[:, None, None] * unit[:, None], 0)
            for side, sign in ((True, -1.0), (False, 1.0))
        ] + [
            self._entries(
                at, self.same, side,
                (gap_scale * sign)[:, None, None] * np.eye(d) * self._counted[:, :, None],
                len(self.ranges))
            for side, sign in ((True, -1.0), (False, 1.0))
        ] + [
            _dense_rows(block, variable * (d + self.turns), below)
            for block, variable in zip(
                sides, (self.joints.before, self.joints.after), strict=True)
        ]
        residual = np.concatenate([
            range_weight * residuals.ranges, (same_weight[:, None] * residuals.same).ravel(),
            residuals.joints.ravel()])
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
        # With the direction of map, e, in place of the turned one, a: e x (a - e) = e x a is the
        # same gradient, and no turn about e seems to be measured.
        arm = np.where((pairs.part == DIRECTION)[:, None], self.arms(at, pairs, False), arm)
        shifted = weight * (pairs.part != DIRECTION)[:, None, None]
        block = np.concatenate([shifted, weight @ rotation_jacobian(arm)], axis=2)
        size = d + turns
        body = (variable >= 0) & (variable < self.pieces)
        start = np.where(
            body, variable * size, self.pieces * size + (variable - self.pieces) * d)
        column = start[:, None, None] + np.arange(size)[None, None, :]
        m = weight.shape[1]
        row = row_offset + (np.arange(len(variable)) * m)[:, None] + np.arange(m)
        row, column = np.broadcast_arrays(row[:, :, None], column)
        keep = np.broadcast_to((variable >= 0)[:, None, None], block.shape) & (
            body[:, None, None] | (np.arange(size) < d))
        return row[keep], np.broadcast_to(column, block.shape)[keep], block[keep]

    def stepped(self, at: Placement, step: Array) -> Placement:
        """The placement after a step in the unknowns."""
        d, size, b = self.dimension, self.dimension + self.turns, self.pieces
        moved = step[:b * size].reshape(b, size)
        shift, rotation = at.shift.copy(), at.rotation.copy()
        shift[:b] += moved[:, :d]
        turn = moved[:, d:]
        rotation[:b] = (
            angle_to_matrix(turn[:, 0]) if d == 2 else rotvec_to_matrix(turn)
        ) @ rotation[:b]
        shift[b:self.variables] += step[b * size:].reshape(-1, d)
        return Placement(rotation, shift)

    def relaxed(
        self, at: Placement, free: Mask, steps: int = 20, width: float = QUADRATIC
    ) -> Placement:
        """A local minimum near a placement (Levenberg-Marquardt over the `free` unknowns)."""
        damping, best = 1e-3, self.cost(at, width)
        fresh, column = True, np.flatnonzero(free)
        for _ in range(steps):
            if fresh:
                normal, gradient = self.normal_equations(at, width)
                normal, gradient = normal[np.ix_(column, column)], gradient[column]
                diagonal = np.diag(normal)
                scale = diagonal + 1e-9 * max(1.0, float(np.max(diagonal, initial=0.0)))
            step = np.zeros(self.unknowns)
            step[free] = -_solved(normal, damping * scale, gradient)
            trial = self.stepped(at, step)
            value = self.cost(trial, width)
            fresh = value < best
            if fresh:
                done = best - value < 1e-4 * (1 + 1e-2 * best)
                at, best, damping = trial, value, max(damping / 10, 1e-9)
                if done:
                    break
            else:
                damping *= 10
                if damping > 1e8:
                    break
        return at


def _solved(normal: Array, damping: Array, gradient: Array) -> Array:
    matrix = normal.copy()
    matrix[np.diag_indices_from(matrix)] += damping
    return np.asarray(cho_solve(
        cho_factor(matrix, overwrite_a=True, check_finite=False), gradient, check_finite=False))


def _dense_rows(block: Array, column: Index, below: int) -> tuple[Index, Index, Array]:
    """Entries of square blocks (j, s, s) in rows from `below` on, each from its column on."""
    count, size = block.shape[:2]
    row = below + np.arange(count * size).reshape(count, size, 1)
    place = np.broadcast_to(column[:, None, None] + np.arange(size), block.shape)
    return np.broadcast_to(row, block.shape).ravel(), place.ravel(), block.ravel()
