"""The geometry of X_c in formulas, for all variables of a kind at once: what the kernels compute.

Gradient and Hessian are the standard conversions from the Euclidean ones (Boumal 2023; Absil,
Mahony and Sepulchre 2008, chapters 3 to 5). Y (n, d, p) are rotation blocks with Y_i Y_i^T = I_d,
u (k, p) bearings of unit length, G = Q Y, Lambda the multipliers. The common factor 2 of gradient
and Hessian is left out.
"""

from __future__ import annotations

import numpy as np

from sparser_ros.array_types import Array


def symmetric_part(a: Array) -> Array:
    """(A + A^T) / 2 of (..., d, d)."""
    return np.asarray((a + np.swapaxes(a, -1, -2)) / 2)


def rotation_multipliers(y: Array, g: Array) -> Array:
    """Lambda_i = sym(G_i Y_i^T), (n, d, d), from Y and G (n, d, p)."""
    return symmetric_part(g @ np.swapaxes(y, 1, 2))


def project_rotations(y: Array, v: Array) -> Array:
    """P_Y(V) = V - sym(V Y^T) Y: the part of V (n, d, p) that is tangent at Y."""
    return v - rotation_multipliers(y, v) @ y


def rotation_hessian(y: Array, qv: Array, v: Array, multipliers: Array) -> Array:
    """Hess[V] = P_Y(Q V - Lambda V), (n, d, p)."""
    return project_rotations(y, qv - multipliers @ v)


def retract_rotations(y: Array, v: Array) -> Array:
    """R_Y(V) = (A A^T)^(-1/2) A with A = Y + V: the polar retraction, (n, d, p)."""
    u, _, wt = np.linalg.svd(y + v, full_matrices=False)
    return np.asarray(u @ wt)


def bearing_multipliers(u: Array, g: Array) -> Array:
    """lambda_k = <g_k, u_k>, (k,), from u and G (k, p)."""
    return np.asarray(np.sum(g * u, axis=1))


def project_bearings(u: Array, v: Array) -> Array:
    """P_u(v) = v - <v, u> u, (k, p)."""
    return v - bearing_multipliers(u, v)[:, None] * u


def bearing_hessian(u: Array, qv: Array, v: Array, multipliers: Array) -> Array:
    """Hess[v] = P_u(Q v - lambda v), (k, p)."""
    return project_bearings(u, qv - multipliers[:, None] * v)


def retract_bearings(u: Array, v: Array) -> Array:
    """R_u(v) = (u + v) / |u + v|, (k, p)."""
    return np.asarray((u + v) / np.linalg.norm(u + v, axis=1, keepdims=True))
