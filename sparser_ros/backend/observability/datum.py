"""What every statement about how sure a place is refers to: the datum of the map.

Without known positions a map has no outside: an error of its origin and heading moves everything
and harms nothing inside it. Nobody drives by the start of a path either; goals are places of
beacons and of other robots. So an error of a place is what is left of it once the datum, the
located beacons and the other located robots, is laid on its true places by one rotation and one
shift (S-transformation: Baarda 1973; free network adjustment). Where these leave the rotation open,
the datum is all of the keyframes.
"""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...linalg.rotations import rotation_jacobian

_SPREAD = 1e-3
"""Of the smallest against the largest extension of a datum: below it a rotation is open."""


def motions(arm: Array) -> Array:
    """(n d, d + turns): displacements of points (n, d) by a shift and a rotation about 0."""
    n, d = arm.shape
    shift = np.broadcast_to(np.eye(d), (n, d, d))
    return np.concatenate([shift, rotation_jacobian(arm)], axis=2).reshape(n * d, -1)


def spans(points: Array) -> bool:
    """Whether points (n, d) fix a rotation and a shift."""
    n, d = points.shape
    if n < d:
        return False
    extent = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    # In the plane two points do, in space three that are not in line.
    return bool(extent[d - 2] > _SPREAD * max(extent[0], 1e-9) and extent[0] > 1e-6)


def relative_to(place: Array, points: Array) -> Array | None:
    """(d + turns, d n): how much the motion of a datum of points (n, d) moves a pose at `place`.

    Rows are position, then rotation; the datum's points are displaced by so much. To be taken off
    the displacement of the pose. None where the points leave a rotation open.
    """
    if not spans(points):
        return None
    d, centre = len(place), points.mean(axis=0)
    rigid = np.linalg.pinv(motions(points - centre))
    return np.concatenate([motions((place - centre)[None]) @ rigid, rigid[d:]])
