"""The paper's four ways of handling the free variables X_f, in one trust region (section 7.1).

| name | variables | operator |
|---|---|---|
| schur | X_c | Q_s by sparse products and triangular solves (ours) |
| dense | X_c | Q_s as an explicit matrix |
| original | X_c and X_f | Q |
| original-varpro | X_c and X_f | Q, and X_f set to its optimum after every step |

They share optimum and preconditioner, and differ in cost and number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from ..array_types import Array
from ..config import SolverError
from ..linalg.arrays import HOST
from .compute_backend import ComputeBackend
from .manifold import Manifold
from .schur import SchurOperator
from .trust_region import Observer, Preconditioner, StoppingRule, TrustRegionRun

DENSE_LIMIT_BYTES = 4 * 2**30
"""Largest explicit Schur complement."""

_COLUMNS_AT_ONCE = 15
"""Of right-hand sides: as many as triangular solves keep in registers. Solves of as many columns as
a graph has would be compiled for that graph."""


class Schur:
    """X_f eliminated by the matrix-free operator."""

    def __init__(self, schur: SchurOperator) -> None:
        self.schur = schur
        self.manifold: Manifold = schur.problem.manifold

    def __call__(self, y: Array, out: Array) -> Array:
        return self.schur(y, out)

    def enter(self, y: Array) -> Array:
        """The variables of this formulation at X_c = y (rows, p)."""
        return y

    def leave(self, y: Array) -> Array:
        """X_c of the variables of this formulation."""
        return y

    def minimise(
        self, y: Array, preconditioner: Preconditioner, rule: StoppingRule,
        observer: Observer | None = None,
        backend: ComputeBackend | None = None, *, radius: float = math.inf,
    ) -> TrustRegionRun:
        """The trust region from X_c = y to X_c, on the CPU if no backend is given."""
        backend = backend or ComputeBackend()
        run = backend.minimise(
            self, self.manifold, self.enter(y), preconditioner, rule, observer, radius)
        return replace(run, y=self.leave(run.y))


class Dense(Schur):
    """X_f eliminated by an explicit Q_s: few flops per step while it is small."""

    def __init__(self, schur: SchurOperator) -> None:
        super().__init__(schur)
        rows = schur.shape[0]
        if 8 * rows**2 > DENSE_LIMIT_BYTES:
            raise SolverError(
                f'formulation dense: a matrix of {rows} x {rows} takes {8 * rows**2 / 2**30:.0f} '
                f'GiB, the limit is {DENSE_LIMIT_BYTES / 2**30:.0f}; use formulation schur')
        self.matrix = schur.Q_cc.toarray()
        B_T, block = schur.B_T.tocsc(), 16 * _COLUMNS_AT_ONCE
        for start in range(0, rows, block):
            columns = B_T[:, start : start + block].toarray()
            self.matrix[:, start : start + block] -= schur.B @ schur.factor.solve_any(
                columns, _COLUMNS_AT_ONCE)

    def __call__(self, y: Array, out: Array) -> Array:
        return np.matmul(self.matrix, y, out=out)


@dataclass(frozen=True)
class PointManifold(Manifold):
    """The rotations and bearings of another manifold followed by `points` free rows."""

    inner: Manifold = field(kw_only=True)
    points: int = field(kw_only=True)
    best: Callable[[Array], Array] | None = field(kw_only=True, default=None)
    """X_f (points, p) for X_c (rows, p), at which retractions end; None = where they lead."""

    @property
    def rows(self) -> int:
        return self.inner.rows + self.points

    def project(self, y: Array, v: Array, out: Array | None = None) -> Array:
        free = v[-self.points :].copy()
        out = self.inner.project(y, v, out)
        out[-self.points :] = free
        return out

    def retract(self, y: Array, v: Array, out: Array | None = None) -> Array:
        free = y[-self.points :] + v[-self.points :]
        out = self.inner.retract(y, v, out)
        out[-self.points :] = free
        if self.best is not None:
            out[-self.points :] = self.best(np.ascontiguousarray(out[: -self.points]))
        return out

    def multipliers(self, y: Array, gradient: Array) -> tuple[Array, Array]:
        return self.inner.multipliers(y, gradient)

    def hessian(
        self, y: Array, qv: Array, v: Array, blocks: Array, scalars: Array, out: Array
    ) -> Array:
        out = self.inner.hessian(y, qv, v, blocks, scalars, out)
        out[-self.points :] = qv[-self.points :]
        return out


class Original(Schur):
    """X_f stays a variable and the operator is the sparse Q.

    With `follows` X_f = -M^-1 B^T X_c after every step (Khosoussi et al. 2016).
    """

    def __init__(self, schur: SchurOperator, *, follows: bool = False) -> None:
        super().__init__(schur)
        self.n_c = schur.shape[0]
        self.Q: sp.csr_matrix = schur.full().copy()
        # X_f of a problem without free variables has no rows, and -0 would mean all of them.
        points = self.Q.shape[0] - self.n_c
        if points:
            inner = self.manifold
            self.manifold = PointManifold(
                inner.d, inner.n, inner.k, inner.homogenised, inner=inner, points=points,
                best=(lambda y: schur.points(y)[schur.problem.kept]) if follows else None)

    def __call__(self, y: Array, out: Array) -> Array:
        HOST.matrix(self.Q).product(y, out)
        return out

    def enter(self, y: Array) -> Array:
        return np.vstack([y, self.schur.points(y)[self.schur.problem.kept]])

    def leave(self, y: Array) -> Array:
        return np.ascontiguousarray(y[: self.n_c])


FORMULATIONS: dict[str, Callable[[SchurOperator], Schur]] = {
    'schur': Schur, 'dense': Dense, 'original': Original,
    'original-varpro': partial(Original, follows=True),
}
"""By name: the formulation of a problem."""
