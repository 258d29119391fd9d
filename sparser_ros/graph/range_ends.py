"""The radios at both ends of every range, as far as a graph knows them: robots and landmarks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from .graph import Graph


@dataclass(frozen=True)
class RangeEnds:
    """Radios numbered robots first, then landmarks.

    Several radios of one robot are one: the graph keeps their lever arms, not their names.
    """

    names: tuple[str, ...]
    robots: int
    """So many of the names are robots; landmarks follow."""
    first: Index
    """(k,): radio at the `source` end of each range."""
    second: Index
    seconds: Array
    """(k,): time of each range since the first pose, s; ranges of files carry no stamp and take
    that of their newest pose."""

    def __len__(self) -> int:
        return len(self.names)

    def at(self, radio: int) -> Mask:
        """(k,): ranges with this radio at one end."""
        return np.asarray((self.first == radio) | (self.second == radio))

    def is_robot(self, radio: int) -> bool:
        """Whether a radio is a robot's, not a landmark."""
        return radio < self.robots

    @property
    def pairs(self) -> tuple[Index, Index, Index]:
        """Lower radio (q,), higher radio (q,) of every pair, and the pair (k,) of every range."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        found, number = np.unique(low * len(self.names) + high, return_inverse=True)
        return found // len(self.names), found % len(self.names), number


def range_ends(graph: Graph) -> RangeEnds:
    """The ends of all ranges of a graph."""
    count, table = len(graph.robots), graph.ranges

    def radio(endpoint: Index) -> Index:
        if not graph.n_poses:
            return count + ~endpoint
        robot = graph.poses.robot[np.maximum(endpoint, 0)]
        return np.where(endpoint >= 0, robot, count + ~endpoint)

    seconds = np.zeros(len(table))
    if graph.n_poses:
        newest = np.maximum(np.maximum(table.source, table.target), 0)
        stamps = np.where(table.stamp_ns > 0, table.stamp_ns, graph.poses.stamp_ns[newest])
        seconds = np.maximum((stamps - graph.poses.stamp_ns.min()) * 1e-9, 0.0)
    return RangeEnds(
        graph.robots + graph.landmarks.names, count, radio(table.source), radio(table.target),
        seconds)
