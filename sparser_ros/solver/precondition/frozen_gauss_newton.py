"""The Gauss-Newton part of a pose graph's Hessian as preconditioner, factorised once."""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...linalg.block.block_cholesky import BlockCholesky
from .. import thresholds
from ..model.schur import SchurOperator
from .newton import NewtonPreconditioner, rotation_tangents
from .regularised_q import blocks_of_poses

NO_BLOCK_FACTOR = np.iinfo(np.int64).max
"""CG steps that stand for a factorisation where factors do not take blocks of poses."""


class FrozenGaussNewtonPreconditioner(NewtonPreconditioner):
    """(T^T Q T)^-1 of a graph without ranges, factorised at the first point.

    In coordinates of the poses' own frames T^T Q T depends on relative poses alone, which hardly
    change after the first steps. Only the tangent basis T follows the point. Where CG still takes
    `patience` steps the first point was far off, and the matrix is factorised at the present one.
    """

    def __init__(self, schur: SchurOperator, *, damping: float | None = None) -> None:
        super().__init__(schur, damping=damping)
        self.patience = patience(schur)

    def prepare(self) -> BlockCholesky:
        """The analysis for points of rank d, which needs none of them."""
        if self.symbolic is None:
            d = self.manifold.d
            self._analyse(d * (d - 1) // 2 if self.manifold.n else 0, d)
        assert self.symbolic is not None
        return self.symbolic

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        if self.factor is None or cg_steps >= self.patience:
            blocks = self._assembled(y)
            floor = self._floor(blocks, blocks.max(initial=0.0))
            self._factorize(blocks, self.damping * floor, np.zeros(0))
        else:
            self.turns = rotation_tangents(self.manifold, y)


def patience(schur: SchurOperator) -> int:
    """CG steps with (Q + shift)^-1 after which the factor of T^T Q T is worth its cost."""
    return max(thresholds.current().frozen_least_cg_steps, factorisation_in_cg_steps(schur))


def pays_at_once(schur: SchurOperator) -> bool:
    """Whether the factor of T^T Q T serves from the first step on, without one of Q + shift.

    In the plane it is no larger than that; in space it pays where factors are thin.
    """
    steps = factorisation_in_cg_steps(schur)
    plane = schur.problem.manifold.d == 2
    return steps <= thresholds.current().frozen_least_cg_steps or (
        plane and steps < NO_BLOCK_FACTOR)


def factorisation_in_cg_steps(schur: SchurOperator) -> int:
    """CG steps that take as long as `frozen_factorisation_share` of a factorisation of T^T Q T.

    Operations are counted by the blocks of the factor of M: b^3 sum(counts^2) for a factorisation
    with b x b blocks, two triangular solves of (d + 1) x (d + 1) blocks for a step.
    """
    counts = schur.symbolic.counts if schur.symbolic is not None else None
    if counts is None or not blocks_of_poses(schur):
        return NO_BLOCK_FACTOR
    d = schur.problem.manifold.d
    b = d * (d - 1) // 2 + d
    factorisation = b**3 * np.sum(counts.astype(float) ** 2)
    step = 4 * (d + 1) ** 2 * d * max(float(np.sum(counts)), 1.0)
    return round(thresholds.current().frozen_factorisation_share * factorisation / step)
