"""A reference trajectory in place of a map that has to be found: ranges are held against it."""

from __future__ import annotations

import numpy as np

from ..array_types import Array, Mask
from ..config import ConfigError
from ..graph import Graph, PointPriors


def held_to(graph: Graph, positions: Array, known: Mask, sigma_m: float) -> Graph:
    """The graph with its poses held to reference positions (n, d) where they are `known` (n,).

    What is absolute in the graph goes, since the reference has a frame of its own. Known beacons
    become unknown ones for the same reason. ConfigError where fewer than two poses are known.
    """
    rows = np.flatnonzero(known)
    if len(rows) < 2:
        raise ConfigError('--truth: the reference covers no two poses of the graph')
    count, d = len(rows), graph.dimension
    priors = PointPriors(
        rows.astype(np.int64), np.zeros((count, d)), positions[rows],
        np.full(count, 1 / sigma_m**2), graph.poses.stamp_ns[rows])
    marks = graph.landmarks
    return graph.replaced(
        measurements={
            name: table for kind, table in graph.typed() if not kind.absolute
            for name in (kind.name,)} | {'point_priors': priors},
        landmarks=type(marks)(
            marks.names, marks.position, np.zeros(len(marks.names), dtype=bool)))
