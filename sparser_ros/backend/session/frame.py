"""What is solved this time, and what `map` is for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...config.backend import BackendConfig
from ...graph import Graph
from .gauge import anchors_determine, first_segment, gauge_robot, without_anchors
from .odometry_segments import OdometrySegments, connected_part, find_segments
from .subgraph import Subgraph, extract

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Frame:
    """The part of a graph that is connected to the frame of map."""

    graph: Graph
    """The whole graph, without absolute data where these do not fix the frame."""
    segments: OdometrySegments
    anchored: bool
    gauge: int | None
    """Body whose first pose is the origin; None where anchored."""
    mask: Mask
    """(b + m,): segments and landmarks that are solved."""
    part: Subgraph
    gauge_name: str | None
    """Robot of the gauge body, also where it is not needed now."""

    def name(self, variable: int) -> str:
        """A name of a body or landmark that stays the same while the graph grows."""
        count = len(self.segments)
        if variable < count:
            return f'body {int(self.segments.first[variable])}'
        return f'landmark {variable - count}'

    def names(self, mask: Mask) -> frozenset[str]:
        """Names of the masked (b + m,) variables."""
        return frozenset(self.name(v) for v in np.flatnonzero(mask).tolist())

    def named(self, names: frozenset[str]) -> Mask:
        """(b + m,): true where a variable's name is among `names`."""
        return np.array([self.name(v) in names for v in range(len(self.mask))], dtype=bool)

    @property
    def gauge_row(self) -> int:
        """Row of the origin pose in the part."""
        assert self.gauge is not None
        return int(np.searchsorted(self.part.poses, self.segments.first[self.gauge]))


def frame_of(
    graph: Graph, robots: Sequence[str], config: BackendConfig, gauge_name: str | None = None
) -> Frame | None:
    """The frame of a graph; None while nothing can be placed in map.

    `gauge_name` is the gauge robot chosen before: the origin does not change hands.
    """
    if graph.n_poses == 0:
        return None
    anchored = graph.anchored and anchors_determine(graph)
    if graph.anchored and not anchored:
        graph = without_anchors(graph)
    segments = find_segments(graph)
    name = gauge_name or gauge_robot(graph, robots, config)
    gauge = None if name is None else first_segment(graph, segments, name)
    if gauge is None and not anchored:
        return None
    mask = connected_part(graph, segments, -1 if gauge is None else gauge, anchored)
    if anchored and not np.any(mask[:len(segments)]):
        return None
    part = extract(graph, mask[:len(segments)][segments.of_pose], mask[len(segments):])
    return Frame(graph, segments, anchored, None if anchored else gauge, mask, part, name)
