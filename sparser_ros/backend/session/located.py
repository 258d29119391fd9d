"""What of a solution may be shown in `map`: located robots and beacons, and nothing else."""

from __future__ import annotations

import numpy as np

from ...graph import Estimate, Graph
from ...graph.subgraph import Subgraph, extract
from .solution import Location, Solution


def located_part(graph: Graph, solution: Solution) -> tuple[Graph, Estimate]:
    """The graph of what has a position in map, and its estimate."""
    part = located(graph, solution)
    return part.graph, part.of(solution.estimate)


def located(graph: Graph, solution: Solution) -> Subgraph:
    """What has a position in map.

    `graph` is the one that the solution is of. Unplaced stretches of a located robot's odometry
    cannot be told apart here and are included.
    """
    where = {robot.robot: robot.location for robot in solution.robots}
    shown = np.array([
        where.get(name, Location.UNLOCATED).placed for name in graph.robots],
        dtype=bool)
    return extract(graph, shown[graph.poses.robot], solution.landmark_located)
