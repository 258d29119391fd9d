"""Rotations of SO(2) and SO(3) in batches, and the rigid alignment of point sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array_types import Array
from .compiled import compiled

_ROUNDING_OF_ENTRIES = 1e-13
"""Change of an entry of an orthonormal matrix that counts as rounding."""
_LEAST_DETERMINANT = 1e-4
"""Determinant, over the cube of the mean length of a row, of a matrix that is clearly near a
rotation; below, Newton's iteration is slow or its limit ill-determined, and an SVD decides."""
_MOST_NEWTON_STEPS = 30
"""An upper bound; scaled Newton iterations converge quadratically (Higham 1986)."""


def angle_to_matrix(angle: Array) -> Array:
    """SO(2) matrices, shape (..., 2, 2), of angles in radians."""
    angle = np.asarray(angle, dtype=float)
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack(
        [np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)], axis=-2
    )


def matrix_to_angle(rotation: Array) -> Array:
    """Angles in (-pi, pi] of SO(2) matrices, shape (..., 2, 2)."""
    return np.asarray(np.arctan2(rotation[..., 1, 0], rotation[..., 0, 0]))


def quat_to_matrix(quat_xyzw: Array) -> Array:
    """SO(3) matrices of quaternions x y z w, shape (..., 4); normalises, refuses zero norm."""
    quat = np.asarray(quat_xyzw, dtype=float)
    norm = np.linalg.norm(quat, axis=-1, keepdims=True)
    if not np.all(norm > 1e-6):
        raise ValueError('a quaternion has (almost) zero norm')
    x, y, z, w = np.moveaxis(quat / norm, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def matrix_to_quat(rotation: Array) -> Array:
    """Unit quaternions x y z w with w >= 0 of SO(3) matrices, shape (..., 3, 3)."""
    rotation = np.asarray(rotation, dtype=float)
    trace = np.einsum('...ii->...', rotation)[..., None, None]
    # The four rows are proportional to the quaternion; the longest one is well conditioned.
    candidates = np.empty((*rotation.shape[:-2], 4, 4))
    candidates[..., :3, :3] = (
        rotation + np.swapaxes(rotation, -1, -2) + (1 - trace) * np.eye(3))
    candidates[..., :3, 3] = candidates[..., 3, :3] = np.stack([
        rotation[..., 2, 1] - rotation[..., 1, 2], rotation[..., 0, 2] - rotation[..., 2, 0],
        rotation[..., 1, 0] - rotation[..., 0, 1]], axis=-1)
    candidates[..., 3, 3] = 1 + trace[..., 0, 0]
    best = np.argmax(np.linalg.norm(candidates, axis=-1), axis=-1)
    quat = np.take_along_axis(candidates, best[..., None, None], axis=-2)[..., 0, :]
    quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
    return np.where(quat[..., 3:] < 0, -quat, quat)


def rotvec_to_matrix(rotvec: Array) -> Array:
    """SO(3) matrices of rotation vectors, shape (..., 3), by Rodrigues' formula."""
    rotvec = np.asarray(rotvec, dtype=float)
    angle = np.linalg.norm(rotvec, axis=-1)[..., None, None]
    cross = hat(rotvec)
    return (
        np.eye(3)
        + np.sinc(angle / np.pi) * cross
        + 0.5 * np.sinc(angle / (2 * np.pi)) ** 2 * (cross @ cross)
    )


def matrix_to_rotvec(rotation: Array) -> Array:
    """Rotation vectors (norm <= pi) of SO(3) matrices, shape (..., 3, 3)."""
    quat = matrix_to_quat(rotation)
    sine = np.linalg.norm(quat[..., :3], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, quat[..., 3:])
    return quat[..., :3] * np.where(sine > 1e-12, angle / np.maximum(sine, 1e-300), 2.0)


def hat(vector: Array) -> Array:
    """Skew-symmetric matrices, shape (..., 3, 3), with hat(a) b = a x b."""
    x, y, z = np.moveaxis(np.asarray(vector, dtype=float), -1, 0)
    zero = np.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def rotation_jacobian(vector: Array) -> Array:
    """(k, d, turns): derivative of exp(w) v by the rotation vector w at 0, for vectors (k, d)."""
    if vector.shape[1] == 2:
        return np.stack([-vector[:, 1], vector[:, 0]], axis=1)[:, :, None]
    return -hat(vector)


def nearest_about_vertical(matrix: Array) -> Array:
    """(3, 3): the turn about the last axis that is closest to a (3, 3) matrix."""
    angle = np.arctan2(matrix[1, 0] - matrix[0, 1], matrix[0, 0] + matrix[1, 1])
    turn = np.eye(3)
    turn[:2, :2] = angle_to_matrix(angle)
    return turn


def nearest_rotation(matrix: Array) -> Array:
    """Closest rotations (Frobenius norm) to (..., d, d) matrices: polar factors of det = +1."""
    if matrix.shape[-1] == 2:
        cosine = matrix[..., 0, 0] + matrix[..., 1, 1]
        sine = matrix[..., 1, 0] - matrix[..., 0, 1]
        return angle_to_matrix(np.arctan2(sine, cosine))
    flat = np.ascontiguousarray(matrix, dtype=float).reshape(-1, 3, 3)
    nearest = np.empty_like(flat)
    clear = _nearest_by_newton(flat, nearest)
    if not np.all(clear):
        u, _, vt = np.linalg.svd(flat[~clear])
        u[..., -1] *= np.linalg.det(u @ vt)[:, None]
        nearest[~clear] = u @ vt
    return nearest.reshape(matrix.shape)


@compiled()
def _nearest_by_newton(matrix: Any, out: Any) -> Any:
    """Polar factors of (m, 3, 3) by scaled Newton iteration (Higham); mask (m,): it converged.

    Where the determinant is negative or small, the factor is no rotation or ill-determined.
    """
    converged = np.zeros(len(matrix), dtype=np.bool_)
    x = np.empty((3, 3))
    cofactor = np.empty((3, 3))
    for m in range(len(matrix)):
        size = 0.0
        for i in range(3):
            for j in range(3):
                x[i, j] = matrix[m, i, j]
                size += x[i, j] * x[i, j]
        size = np.sqrt(size / 3)
        for step in range(_MOST_NEWTON_STEPS):
            for i in range(3):
                k, q = (i + 1) % 3, (i + 2) % 3
                for j in range(3):
                    u, v = (j + 1) % 3, (j + 2) % 3
                    cofactor[i, j] = x[k, u] * x[q, v] - x[k, v] * x[q, u]
            det = 0.0
            for j in range(3):
                det += x[0, j] * cofactor[0, j]
            if step == 0 and not det > _LEAST_DETERMINANT * size**3:
                break
            # x <- (g x + x^-T / g) / 2, the inverse transposed being cofactors over det.
            scale = det ** (-1 / 3)
            change = 0.0
            for i in range(3):
                for j in range(3):
                    new = 0.5 * (scale * x[i, j] + cofactor[i, j] / (scale * det))
                    change = max(change, abs(new - x[i, j]))
                    x[i, j] = new
            if change < _ROUNDING_OF_ENTRIES:
                converged[m] = True
                break
        for i in range(3):
            for j in range(3):
                out[m, i, j] = x[i, j]
    return converged


def align(
    points: Array, reference: Array, *, mirror: bool = False
) -> tuple[Array, Array]:
    """Rotation (d, d) and translation (d,) that best carry points (n, d) onto the reference.

    Umeyama 1991, without scale. With `mirror` the rotation may have determinant -1.
    """
    centre, reference_centre = points.mean(axis=0), reference.mean(axis=0)
    covariance = (reference - reference_centre).T @ (points - centre)
    if mirror:
        u, _, vt = np.linalg.svd(covariance)
        rotation = u @ vt
    else:
        rotation = nearest_rotation(covariance)
    return rotation, reference_centre - rotation @ centre


def aligned_errors(points: Array, reference: Array, *, mirror: bool = False) -> Array:
    """(n,): distances to the reference after the best rigid alignment."""
    rotation, translation = align(points, reference, mirror=mirror)
    return np.asarray(np.linalg.norm(points @ rotation.T + translation - reference, axis=1))
