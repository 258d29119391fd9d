"""What every statement about how sure a place is refers to: the datum of the map.

Without known positions a map has no outside: an error of its origin and heading moves everything
and harms nothing inside it. Nobody drives by the start of a path either; goals are places of
beacons and of other robots. So an error of a place is what is left of it once the datum, the
located beacons and the other located robots, is laid on its true places by one rotation and one
shift (S-transformation: Baarda 1973; free network adjustment). Where these leave the rotation open,
the datum is the path of one robot, the one beside which most others are located. A map that knows
the vertical, or heights, has that much of an outside: what is left then is a turn about the
vertical and a shift, of the heights none.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ...array_types import Array
from ...graph import Graph
from ...linalg.rotations import rotation_jacobian

_SPREAD = 1e-3
"""Of the smallest against the largest extension of a datum: below it a rotation is open."""


class Outside(IntEnum):
    """What a map without known positions knows of the outside."""

    NOTHING = 0
    VERTICAL = 1
    HEIGHT = 2
    """The vertical and heights."""

    @classmethod
    def of(cls, graph: Graph) -> Outside:
        """By the measurements of a graph."""
        if not len(graph.verticals):
            return cls.NOTHING
        return cls.HEIGHT if len(graph.heights) else cls.VERTICAL


def motions(arm: Array, outside: Outside = Outside.NOTHING) -> Array:
    """(n d, d + turns): displacements of points (n, d) by a shift and a rotation about 0.

    Zero for the motions that are none, since the outside is known so far.
    """
    n, d = arm.shape
    shift = np.broadcast_to(np.eye(d), (n, d, d))
    moved = np.concatenate([shift, rotation_jacobian(arm)], axis=2).reshape(n * d, -1)
    if outside >= Outside.VERTICAL:
        moved[:, d:-1] = 0.0
    if outside >= Outside.HEIGHT:
        moved[:, d - 1] = 0.0
    return moved


def spans(points: Array, outside: Outside = Outside.NOTHING) -> bool:
    """Whether points (n, d) fix a rotation and a shift, as far as these are open."""
    if outside:
        points = points[:, :-1]
    n, d = points.shape
    if n < d:
        return False
    extent = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    # In the plane two points do, in space three that are not in line.
    return bool(extent[d - 2] > _SPREAD * max(extent[0], 1e-9) and extent[0] > 1e-6)


def relative_to(
    place: Array, points: Array, outside: Outside = Outside.NOTHING
) -> Array | None:
    """(d + turns, d n): how much the motion of a datum of points (n, d) moves a pose at `place`.

    Rows are position, then rotation; the datum's points are displaced by so much. To be taken off
    the displacement of the pose. None where the points leave a rotation open.
    """
    if not spans(points, outside):
        return None
    d, centre = len(place), points.mean(axis=0)
    rigid = np.linalg.pinv(motions(points - centre, outside))
    return np.concatenate([motions((place - centre)[None], outside) @ rigid, rigid[d:]])
