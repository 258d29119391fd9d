"""What absolute data (known beacons, position fixes, priors) say about the frame `map`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ...array_types import Mask
from ...graph import Graph

SAME_POINT_M = 0.1
"""Known points within this of each other, or of a line, count as one, or as collinear."""


class Determined(IntEnum):
    """How much of the frame is fixed, in rising order."""

    NOTHING = 0
    POSITION = 1
    """A point of map, but a heading (in space: a turn about that point or a line) is free."""
    MIRRORED = 2
    """A frame up to the mirror image about the line (plane) of the known points."""
    FRAME = 3


@dataclass(frozen=True)
class AbsoluteData:
    """A verdict and its reason in words."""

    determined: Determined
    words: str
    points: tuple[str, ...]
    """Names of the known landmarks that are measured."""


def absolute_data(graph: Graph) -> AbsoluteData:
    """What the absolute data of a graph determine, as far as they are measured.

    A pose with a heading fixes the frame. Otherwise the known points count by the space that
    they span: d dimensions fix it, d - 1 leave a mirror image (which robots that turn exclude),
    fewer leave a heading free. Odometry and ranges must tie everything else; `observe` tells.
    """
    d = graph.dimension
    known = np.flatnonzero(graph.landmarks.fixed & _measured(graph))
    names = tuple(graph.landmarks.names[k] for k in known.tolist())
    if np.any(graph.pose_priors.kappa > 0):
        return AbsoluteData(Determined.FRAME, 'a prior on a pose fixes map', names)
    points = np.concatenate([
        graph.landmarks.position[known], graph.point_priors.position,
        graph.pose_priors.translation])
    if len(points) == 0:
        return AbsoluteData(
            Determined.NOTHING, 'no known beacon or fix is heard: map starts at the gauge robot',
            names)
    spread = np.linalg.svd(points - np.mean(points, axis=0), compute_uv=False)
    span = int(np.sum(spread > SAME_POINT_M))
    what = ', '.join(names) if names else 'position fixes'
    if span >= d:
        return AbsoluteData(Determined.FRAME, f'known points fix map: {what}', names)
    if span == d - 1:
        shape = 'line' if d == 2 else 'plane'
        return AbsoluteData(
            Determined.MIRRORED,
            f'the known points lie on one {shape} ({what}): map is fixed up to its mirror image',
            names)
    rest = 'its heading is unobservable' if d == 2 else 'a turn about them is unobservable'
    return AbsoluteData(
        Determined.POSITION,
        f'known points give map a position only ({what}): {rest}; another known beacon, or the '
        'initial pose of the gauge robot, is missing', names)


def _measured(graph: Graph) -> Mask:
    seen = np.zeros(graph.n_landmarks, dtype=bool)
    for endpoint in (graph.ranges.source, graph.ranges.target, graph.sightings.point):
        seen[~endpoint[endpoint < 0]] = True
    return seen
