"""Corrections of a long Newton step by the factor that it was made with.

A relaxation of ranges moves like a linkage: along its soft motions lengths stay the same to first
order only, and what a straight step changes to second order is priced by stiff measurements.
Newton's equation of the optimality conditions, (Q - Lambda) z = 0 and unit rows, is therefore
solved once more from where the step ends, with its own multipliers and the matrix of the point
where it began; z leaves the manifold in between. Source: Nocedal and Wright, Numerical
Optimization, 2006, section 18.3 (second-order correction); Deuflhard, Newton Methods for Nonlinear
Problems, 2011, section 2.1 (simplified Newton).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array
from ..manifold.manifold import Manifold
from ..model.schur import SchurOperator
from ..precondition.shifted_hessian import ShiftedHessian
from .multipliers import Multipliers


@dataclass(frozen=True)
class Conditions:
    """The optimality conditions with a shift, linearised at one point."""

    schur: SchurOperator
    hessian: ShiftedHessian
    """Factorised at y with `shift`."""
    shift: float
    y: Array
    """(rows, p)"""
    multipliers: Multipliers
    """Lambda of the matrix: those of y, or those of the step that led there."""

    def linear(self, s: Array) -> Array:
        """(Q_s - Lambda + shift) s."""
        return self.schur(s) - self.multipliers.times(s) + self.shift * s

    def of(self, residual: Array) -> Multipliers:
        """The change of the multipliers that takes the residual's normal part away."""
        return Multipliers.of(self.schur.problem.manifold, self.y, residual)


@dataclass(frozen=True)
class Ambient:
    """A point near the manifold with multipliers."""

    z: Array
    """(rows, p)"""
    multipliers: Multipliers
    moved: float
    """Norm of the tangential part of the last step."""


def corrected(at: Conditions, end: Ambient) -> Ambient:
    """One step of the simplified Newton method from `end`."""
    manifold = at.schur.problem.manifold
    residual = at.schur(end.z) - end.multipliers.times(end.z) + at.shift * (end.z - at.y)
    normal = -0.5 * excess_times(manifold, end.z, at.y)
    residual += at.linear(normal)
    tangent = -at.hessian.solve(manifold.project(at.y, residual))
    residual += at.linear(tangent)
    return Ambient(
        end.z + normal + tangent, end.multipliers.plus(at.of(residual)),
        float(np.linalg.norm(tangent)))


def excess_times(manifold: Manifold, z: Array, y: Array) -> Array:
    """(Z_b Z_b^T - I) Y_b of every block b; zero on the homogenising rows."""
    d, n, k, p = manifold.d, manifold.n, manifold.k, z.shape[1]
    turns = z[: n * d].reshape(n, d, p)
    bearings = z[n * d : n * d + k]
    out = np.zeros_like(y)
    excess = turns @ np.swapaxes(turns, 1, 2) - np.eye(d)
    out[: n * d] = (excess @ y[: n * d].reshape(n, d, p)).reshape(n * d, p)
    out[n * d : n * d + k] = (
        np.sum(bearings**2, axis=1, keepdims=True) - 1) * y[n * d : n * d + k]
    return out
