"""Who made a measurement: robots and landmarks as the radios at the ends of ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...graph import Graph

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Sources:
    """Radios numbered robots first, then landmarks, as `Graph.robots` and `Graph.landmarks`.

    Several radios of one robot are one source: the graph keeps their lever arms, not their names.
    """

    names: tuple[str, ...]
    robots: int
    first: Index
    """(k,): source at the `source` end of each range."""
    second: Index
    seconds: NDArray[np.float64]
    """(k,): time of each range since the first pose; 0 for those before it."""

    def __len__(self) -> int:
        return len(self.names)

    def at(self, source: int) -> Mask:
        """(k,): ranges with this source at one end."""
        return np.asarray((self.first == source) | (self.second == source))

    def is_robot(self, source: int) -> bool:
        return source < self.robots


def sources_of(graph: Graph) -> Sources:
    """The sources of all ranges of a graph."""
    count = len(graph.robots)

    def owner(endpoint: Index) -> Index:
        pose = endpoint >= 0
        robot = graph.poses.robot[np.where(pose, endpoint, 0)] if graph.n_poses else endpoint
        return np.where(pose, robot, count + ~endpoint)

    table = graph.ranges
    begin = int(graph.poses.stamp_ns.min()) if graph.n_poses else 0
    stamps = table.stamp_ns
    if len(table) and graph.n_poses:
        # Ranges of files carry stamp 0: the time of their newest pose stands for it.
        newest = np.maximum(table.source, table.target)
        stamps = np.where(stamps > 0, stamps, graph.poses.stamp_ns[np.maximum(newest, 0)])
    return Sources(
        graph.robots + graph.landmarks.names, count, owner(table.source), owner(table.target),
        np.maximum((stamps - begin) * 1e-9, 0.0))
