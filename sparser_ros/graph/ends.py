"""Whose a measurement is: robots, landmarks and radios at its ends, and when it was made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from .graph import Graph
from .table import Table


def stamps_of(graph: Graph, table: Table) -> Index:
    """(k,): stamps of measurements in ns; where they have none, those of their newest poses."""
    newest = np.max([np.maximum(getattr(table, column), 0) for column in table.endpoints()], axis=0)
    poses = graph.poses.stamp_ns[newest] if graph.n_poses else np.zeros(len(table), dtype=np.int64)
    stamps = table.stamp_ns  # type: ignore[attr-defined]
    return np.where(stamps > 0, stamps, poses)


def owners(graph: Graph, endpoint: Index) -> Index:
    """(k,): numbers of robots, then of landmarks, of endpoints."""
    robot = graph.poses.robot[np.maximum(endpoint, 0)] if graph.n_poses else endpoint
    return np.where(endpoint >= 0, robot, len(graph.robots) + ~endpoint)


def owners_of(graph: Graph, table: Table) -> Index:
    """(e, k): the same of the ends of measurements, one or two each."""
    return np.stack([owners(graph, getattr(table, column)) for column in table.endpoints()])


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

    @property
    def pairs(self) -> tuple[Index, Index, Index]:
        """Lower radio (q,), higher radio (q,) of every pair, and the pair (k,) of every range."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        keys, number = np.unique(low * len(self.names) + high, return_inverse=True)
        return keys // len(self.names), keys % len(self.names), number


def range_ends(graph: Graph) -> RangeEnds:
    """The ends of all ranges of a graph."""
    table, seconds = graph.ranges, np.zeros(len(graph.ranges))
    if graph.n_poses:
        stamps = stamps_of(graph, table)
        seconds = np.maximum((stamps - graph.poses.stamp_ns.min()) * 1e-9, 0.0)
    return RangeEnds(
        graph.robots + graph.landmarks.names, len(graph.robots), owners(graph, table.source),
        owners(graph, table.target), seconds)
