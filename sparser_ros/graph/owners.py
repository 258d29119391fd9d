"""Whose a measurement is: the robots and landmarks at its ends, and when it was made."""

from __future__ import annotations

import numpy as np

from ..array_types import Index
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
