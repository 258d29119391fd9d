"""The growing graph: increments kept as they came, concatenated only when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...config import GraphError
from ...graph import Graph, Increment, Landmarks, Poses, concatenated, empty_graph


def merged(increments: list[Increment]) -> Increment:
    """One increment that stands for consecutive ones; its sequence is the last one's."""
    last = increments[-1]
    parts: dict[str, Any] = {
        name: concatenated([getattr(one, name) for one in increments]) for name in last.tables()
    }
    return Increment(
        sequence=last.sequence,
        robots=last.robots,
        poses=concatenated([one.poses for one in increments]),
        landmarks=_joined([one.landmarks for one in increments]),
        newest_stamp_ns=max(one.newest_stamp_ns for one in increments),
        **parts,
    )


class GraphStore:
    """Sum of increments; adding is O(1), reading concatenates what is new since last time."""

    def __init__(self, dimension: int) -> None:
        self._graph = empty_graph(dimension)
        self._waiting: list[Increment] = []
        self.sequence = -1
        self.newest_stamp_ns = 0

    def add(self, increment: Increment, *, first: int | None = None) -> bool:
        """Append one increment, or a merged one that starts at sequence `first`.

        Returns False for one that is already included (a repeated send); raises GraphError when
        one is missing in between.
        """
        if increment.sequence <= self.sequence:
            return False
        begin = increment.sequence if first is None else first
        if begin != self.sequence + 1:
            raise GraphError(
                f'increment {begin} follows {self.sequence}: one in between is missing; '
                'send them in order')
        self._waiting.append(increment)
        self.sequence = increment.sequence
        self.newest_stamp_ns = max(self.newest_stamp_ns, increment.newest_stamp_ns)
        return True

    @property
    def graph(self) -> Graph:
        """The graph after all increments so far."""
        if self._waiting:
            self._graph = _extended(self._graph, self._waiting)
            self._waiting = []
        return self._graph


def _joined(parts: Iterable[Landmarks]) -> Landmarks:
    parts = list(parts)
    return Landmarks(
        tuple(name for part in parts for name in part.names),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.fixed for part in parts]),
    )


def _extended(graph: Graph, increments: list[Increment]) -> Graph:
    tables: dict[str, Any] = {
        name: concatenated([getattr(graph, name), *(getattr(one, name) for one in increments)])
        for name in graph.tables()
    }
    poses: Poses = concatenated([graph.poses, *(one.poses for one in increments)])
    return graph.replaced(
        robots=increments[-1].robots,
        poses=poses,
        landmarks=_joined([graph.landmarks, *(one.landmarks for one in increments)]),
        **tables,
    )
