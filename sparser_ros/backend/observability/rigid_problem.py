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

from ...array_types import Array, Index, Mask
from ...linalg.rotations import angle_to_matrix, rotvec_to_matrix
from .datum import Outside
from .pieces import Joints, joint_residuals, joint_terms
from .rigid_kernels import (
    DIRECTION,
    DISTANCE,
    HEIGHT,
    WHOLE,
    Ties,
    Unknowns,
    add_joints,
    tie_cost,
    tie_normal_equations,
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
class Placement:
    """Rigid motions of all variables about their centres; the last one is the ground's."""

    rotation: Array
    """(v + 1, d, d)."""
    shift: Array
    """(v + 1, d): metres."""


@dataclass(frozen=True)
class RigidProblem:
    """Distances and coincidences between rigid stretches, landmarks and the ground."""

    pieces: int
    centers: Array
    """(v + 1, d): where each variable turns: centroid of its measured points."""
    ties: Ties
    joints: Joints

    def thinned(self, most: int) -> RigidProblem:
        """The problem with at most so many ranges, evenly picked: coarser, for searches."""
        apart = self.ties.part == DISTANCE
        step = -(-int(np.sum(apart)) // most)
        if step <= 1:
            return self
        return replace(self, ties=self.ties.take(~apart | ((np.cumsum(apart) - 1) % step == 0)))

    @cached_property
    def placing(self) -> Ties:
        """What ties points to places; rejected measurements may be the true ones, and count."""
        return self.ties.take((self.ties.part == DISTANCE) | (self.ties.part == WHOLE))

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
        return bool(np.any(self.ties.part == DIRECTION))

    @property
    def outside(self) -> Outside:
        """What verticals and heights tell of the frame."""
        if not self.level:
            return Outside.NOTHING
        high = bool(np.any(self.ties.part == HEIGHT))
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

    def placed(self, at: Placement, variable: Index, arm: Array) -> Array:
        """(k, d): points in map whose variables carry them at `arm` (k, d) from their centres."""
        turned = np.einsum('kij,kj->ki', at.rotation[variable], arm)
        return turned + (self.centers + at.shift)[variable]

    @cached_property
    def _unknowns(self) -> Unknowns:
        b, d, size = self.pieces, self.dimension, self.dimension + self.turns
        variable = np.arange(self.variables + 1)
        begin = np.where(variable < b, variable * size, b * size + (variable - b) * d)
        sizes = np.where(variable < b, size, d)
        sizes[-1] = 0
        return Unknowns(begin, sizes)

    def cost(self, at: Placement, width: float = QUADRATIC) -> float:
        """Sum of squared residuals, or of Geman-McClure terms of a kernel with c^2 = `width`.

        The quadratic cost leaves rejected measurements out; with a kernel they take part, since
        another placement may explain them.
        """
        joints = joint_residuals(self.joints, self.centers, at.rotation, at.shift)
        return float(np.sum(joints**2)) + float(
            tie_cost(at.rotation, self.centers + at.shift, self.ties, width))

    def normal_equations(self, at: Placement, width: float = QUADRATIC) -> tuple[Array, Array]:
        """J^T W J (u, u) and J^T W r (u,) of whitened residuals r, W the robust weights."""
        normal, gradient = np.zeros((self.unknowns, self.unknowns)), np.zeros(self.unknowns)
        tie_normal_equations(
            at.rotation, self.centers + at.shift, self.ties, width, self._unknowns, normal,
            gradient)
        if len(self.joints):
            residual, by_before, by_after = joint_terms(
                self.joints, self.centers, at.rotation, at.shift)
            add_joints(
                self.joints.before, self.joints.after, residual, by_before, by_after,
                self._unknowns, normal, gradient)
        return normal, gradient

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
