"""What every statement about how sure a place is refers to: the datum of the map.

Without known positions a map has no outside: an error of its origin and heading moves everything
and harms nothing inside it. Nobody drives by the start of a path either; goals are places of
beacons and of other robots. So an error of a place is what is left of it once the datum, the
located beacons and the other located robots, is laid on its true places by one rotation and one
shift (S-transformation: Baarda 1973; free network adjustment). Where these leave the rotation open,
the datum is the path of one robot, the one beside which most others are located. A map that knows
the vertical, or heights, has that much of an outside: what is left then is a turn about the
vertical and a shift, of the heights none.

Of a map with known positions these are the datum, as far as they fix a frame (`frame_missing`).
"""

from __future__ import annotations

from enum import Enum, IntEnum, unique

import numpy as np

from ...array_types import Array, Index
from ...graph import Graph
from ...linalg.rotations import rotation_jacobian

_SPREAD = 1e-3
"""Of the smallest against the largest extension of a datum: below it a rotation is open."""
_SAME_POINT_M = 0.1
"""Known points within this of each other, or of a line, count as one, or as collinear."""


@unique
class Location(Enum):
    """How far the measurements determine a robot in `map`."""

    LOCATED = 'located'
    """Position and heading: pose, path and TF are published."""
    AMBIGUOUS = 'ambiguous'
    """Two or more placements fit about as well; `missing` names them, no TF."""
    POSITION_ONLY = 'position_only'
    """Heading undetermined, no TF."""
    UNLOCATED = 'unlocated'
    """Connected, perhaps, but not determined; no TF. A pose with its covariance is published in
    every state where that is finite."""

    @property
    def placed(self) -> bool:
        """Whether the robot has one position in map."""
        return self in (Location.LOCATED, Location.POSITION_ONLY)


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


def directions_open(points: Array, levelled: bool) -> int:
    """How many directions known points (k, d) lack to fix a frame.

    0: it is fixed. 1: up to its mirror image, which robots that turn exclude. More: a rotation is
    open. Where the vertical is known points are seen from above.
    """
    if levelled:
        points = points[:, :-1]
    d = points.shape[1]
    if not len(points):
        return d + 1
    distinct = np.unique(np.round(points, 2), axis=0)
    extent = np.linalg.svd(distinct - np.mean(distinct, axis=0), compute_uv=False)
    return d - int(np.sum(extent > _SAME_POINT_M))


def frame_missing(graph: Graph) -> str:
    """What known beacons, position fixes and priors leave open of the frame `map`; '' = nothing.

    A pose with a heading fixes the frame. Odometry and ranges must tie everything else.
    """
    missing = _open(graph)
    if missing == 0:
        return ''
    if not len(_known_points(graph)):
        return 'no known beacon or fix is heard: map starts at the gauge robot'
    levelled = bool(len(graph.verticals))
    names = [graph.landmarks.names[k] for k in _heard(graph).tolist()]
    what = ', '.join(names) or 'position fixes'
    if missing == 1:
        shape = 'vertical plane' if levelled else 'line' if graph.dimension == 2 else 'plane'
        return f'the known points lie on one {shape} ({what}): map is fixed up to its mirror image'
    free = ('its heading is unobservable' if levelled or graph.dimension == 2
            else 'a turn about them is unobservable')
    return (f'known points give map a position only ({what}): {free}; another known beacon, or the '
            'initial pose of the gauge robot, is missing')


def frame_fixed(graph: Graph) -> bool:
    """Whether absolute data could fix the frame, up to a mirror image."""
    return _open(graph) <= 1


def _open(graph: Graph) -> int:
    """How many directions a graph lacks to fix `map` (`directions_open`)."""
    if np.any(graph.pose_priors.kappa > 0):
        return 0
    return directions_open(_known_points(graph), bool(len(graph.verticals)))


def _known_points(graph: Graph) -> Array:
    """(k, d): known beacons with measurements, position fixes and priors on poses."""
    return np.concatenate([
        graph.landmarks.position[_heard(graph)], graph.absolute_positions(graph.dimension)])


def _heard(graph: Graph) -> Index:
    """(k,): known beacons with ranges or sightings."""
    seen = np.zeros(graph.n_landmarks, dtype=bool)
    for endpoint in (graph.ranges.source, graph.ranges.target, graph.sightings.point):
        seen[~endpoint[endpoint < 0]] = True
    return np.flatnonzero(graph.landmarks.fixed & seen)
