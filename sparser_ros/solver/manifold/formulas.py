"""The geometry of the search space X_c in formulas: what the compiled kernels compute.

Each function is one equation in NumPy, for all variables of a kind at once. The inner loops use
the compiled versions in `linalg/dense/manifold_kernels.py` and `linalg/dense/tangent_kernels.py`,
which test/solver/manifold/test_formulas.py compares with these.

The problem is the paper's reduced one, min tr(X_c^T Q_s X_c) (problem 3 and appendix B). Section
7.1 minimises it by the Riemannian trust region of Absil, Baker and Gallivan (2007), and leaves
gradient and Hessian to the standard conversions from the Euclidean ones (Boumal 2023; Absil,
Mahony and Sepulchre 2008, chapters 3 to 5), which are written out here.

Symbols: X_c holds n rotation blocks Y_i = R_i^T, here Y (n, d, p) with Y_i Y_i^T = I_d, and k
bearings u (k, p) of unit length; p is the rank, p = d for a trajectory. G = Q Y is the gradient in
the ambient space, Lambda are the multipliers of the constraints. Rows that are held at [I_d 0] do
not move. The common factor 2 of gradient and Hessian is left out.
"""

from __future__ import annotations

import numpy as np

from ...array_types import Array


def symmetric_part(a: Array) -> Array:
    """(A + A^T) / 2 of (..., d, d)."""
    return np.asarray((a + np.swapaxes(a, -1, -2)) / 2)


def cost_change(y: Array, moved: Array, qy: Array, q_moved: Array) -> float:
    """tr(Y'^T Q Y') - tr(Y^T Q Y) = <Y' - Y, Q Y + Q Y'> for points (rows, p).

    Exact, Q being symmetric, and free of the cancellation between two large costs.
    """
    return float(np.sum((moved - y) * (qy + q_moved)))


# -- rotations: the Stiefel manifold St(p, d) = {Y: Y Y^T = I_d}


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
    return nearest_rotations(y + v)


def nearest_rotations(a: Array) -> Array:
    """The points of St(p, d) closest to A (n, d, p) in the Frobenius norm: U W^T, A = U S W^T."""
    u, _, wt = np.linalg.svd(a, full_matrices=False)
    return np.asarray(u @ wt)


# -- bearings: the sphere {u: |u| = 1}, or oblique manifold for all of them


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


# -- scaled rotations: {S: S S^T = s^2 I_d, s > 0} (paper, table 1, row 3)


def scales(y: Array) -> Array:
    """s_i = |S_i| / sqrt(d), (m,), of blocks (m, d, p)."""
    return np.asarray(np.linalg.norm(y, axis=(1, 2)) / np.sqrt(y.shape[1]))


def scaled_multipliers(y: Array, g: Array) -> Array:
    """The part of sym(G S^T) / s^2 without trace, (m, d, d): a scale has no constraint."""
    d = y.shape[1]
    square = np.sum(y**2, axis=(1, 2)) / d
    full = symmetric_part(g @ np.swapaxes(y, 1, 2) / square[:, None, None])
    return full - (np.trace(full, axis1=1, axis2=2) / d)[:, None, None] * np.eye(d)


def project_scaled(y: Array, v: Array) -> Array:
    """P_S(V) = V - Lambda_S(V) S, (m, d, p)."""
    return np.asarray(v - scaled_multipliers(y, v) @ y)


def scaled_hessian(y: Array, qv: Array, v: Array, multipliers: Array) -> Array:
    """Hess[V] = P_S(Q V - Lambda V), (m, d, p)."""
    return project_scaled(y, qv - multipliers @ v)


def retract_scaled(y: Array, v: Array) -> Array:
    """R_S(V): the closest multiple of orthonormal rows to S + V, (m, d, p)."""
    return nearest_scaled(y + v)


def nearest_scaled(a: Array) -> Array:
    """The closest multiples of orthonormal rows to blocks A (m, d, p): mean(sigma) U W^T."""
    u, sigma, wt = np.linalg.svd(a, full_matrices=False)
    return np.asarray(np.mean(sigma, axis=1)[:, None, None] * (u @ wt))


# -- tangent coordinates: orthonormal bases T of the tangent spaces, T^T T = I


def coordinates(basis: Array, v: Array) -> Array:
    """x = T^T V, (n, q), from a basis (n, d, p, q) and ambient vectors (n, d, p)."""
    return np.asarray(np.einsum('ndpq,ndp->nq', basis, v))


def ambient(basis: Array, x: Array) -> Array:
    """V = T x, (n, d, p), from a basis (n, d, p, q) and coordinates (n, q)."""
    return np.asarray(np.einsum('ndpq,nq->ndp', basis, x))


def tangent_hessian(basis: Array, q: Array, multipliers: Array) -> Array:
    """T_i^T (Q_ij - Lambda_i [i = j]) T_j, (n, q, n, q), of rotations alone.

    From a basis (n, d, p, q), a dense Q (n d, n d) and multipliers (n, d, d). Bearings u_k add
    rows u_perp^T Q T and the pivot (Q_kk - lambda_k) I, which elimination removes again.
    """
    n, d = basis.shape[:2]
    Q = q.reshape(n, d, n, d).copy()
    Q[np.arange(n), :, np.arange(n), :] -= multipliers
    return np.asarray(np.einsum('iapx,iajb,jbpy->ixjy', basis, Q, basis, optimize=True))
