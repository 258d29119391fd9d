"""The larger part of the Hessian of a pose graph as its preconditioner, factorised once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...linalg.block.block_cholesky import BlockCholesky
from ..model.schur import SchurOperator
from .newton import NewtonPreconditioner, rotation_tangents
from .regularised_q import made_of_poses

Array = NDArray[np.float64]

_LEAST = 6
"""CG steps that no graph is denied."""
_SHARE = 0.5
"""CG steps to wait for, as a share of those that a factorisation takes as long as."""
_NEVER = np.iinfo(np.int64).max
"""What they are worth where factors are not made of blocks of poses."""


class FrozenGaussNewtonPreconditioner(NewtonPreconditioner):
    """(T^T Q T)^-1 of a graph without ranges, factorised at the first point.

    In coordinates of the poses' own frames T^T Q T depends on relative poses alone, and those are
    nearly the measured ones from the first steps on. Only T follows the point, unless CG takes
    long all the same: then the first point was far off.
    """

    def __init__(self, schur: SchurOperator, *, damping: float = 1e-10) -> None:
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
    return max(_LEAST, _worth(schur))


def pays_at_once(schur: SchurOperator) -> bool:
    """Whether the factor of T^T Q T serves from the first step on, without one of Q + shift.

    In the plane it is no larger than that; in space it pays where factors are thin.
    """
    worth = _worth(schur)
    return worth <= _LEAST or (schur.problem.manifold.d == 2 and worth < _NEVER)


def _worth(schur: SchurOperator) -> int:
    """CG steps that take as long as the share of a factorisation that is to be waited for."""
    counts = schur.symbolic.counts if schur.symbolic is not None else None
    if counts is None or not made_of_poses(schur):
        return _NEVER
    d = schur.problem.manifold.d
    b = d * (d - 1) // 2 + d
    factorisation = b**3 * np.sum(counts.astype(float) ** 2)
    step = 4 * (d + 1) ** 2 * d * max(float(np.sum(counts)), 1.0)
    return round(_SHARE * factorisation / step)
