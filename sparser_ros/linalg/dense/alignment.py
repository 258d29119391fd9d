"""Rigid alignment of point sets (Umeyama 1991, without scale)."""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from .rotations import nearest_rotation


def align(
    points: Array, reference: Array, *, mirror: bool = False
) -> tuple[Array, Array]:
    """Rotation (d, d) and translation (d,) that best carry points (n, d) onto the reference.

    With `mirror` the rotation may have determinant -1.
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
