"""Errors that odometry makes all the time, solved for: a share of its length, a rate of turning.

Such a fault is two parameters of a robot. Once data make it likely, its size belongs into the map:
the odometry is corrected by the best estimate, and what the estimate leaves uncertain adds to the
covariances of everything (`solved_sizes.py`). Fear is left for faults that are unlikely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array
from ...graph import Graph, RelativePoses
from ...io.chain import compose
from ...linalg.rotations import angle_to_matrix, rotvec_to_matrix

SCALE, TURN = 'odometry_scale', 'odometry_turn'
ALL_ROBOTS = 'all robots'
"""Subject of a share that all odometry is too long by."""


@dataclass(frozen=True)
class OdometryErrors:
    """By kind and robot: the share by which moves are too long, the rate of turning (rad/s)."""

    size: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.size)

    def of(self, kind: str, robot: str) -> float:
        """The error of a robot, with that of all robots."""
        return self.size.get((kind, robot), 0.0) + self.size.get((kind, ALL_ROBOTS), 0.0)

    def off(self, graph: Graph, table: RelativePoses) -> RelativePoses:
        """Relative poses of a graph, or a part of them, with the errors taken off odometry.

        The rate is about the vertical axis of the robot, as gyroscopes of wheeled robots err. The
        noise is shortened with the moves.
        """
        if not self.size or not len(table):
            return table
        own = np.where(table.odometry, graph.poses.robot[table.i], -1)
        share, rate = (
            np.array([*(self.of(kind, name) for name in graph.robots), 0.0])[own]
            for kind in (SCALE, TURN))
        stamps = graph.poses.stamp_ns
        angle = -rate * (stamps[table.j] - stamps[table.i]) * 1e-9
        back = angle_to_matrix(angle) if graph.dimension == 2 else rotvec_to_matrix(
            angle[:, None] * np.array([0.0, 0.0, 1.0]))
        return table.replaced(
            rotation=table.rotation @ back, translation=table.translation * (1 - share)[:, None],
            tau=table.tau / (1 - share)**2)

    def driven(self, graph: Graph) -> tuple[Array, Array]:
        """(n, d, d), (n, d): poses in the frames of odometry, as the corrected steps lead."""
        poses, table = graph.poses, self.off(graph, graph.relative_poses)
        order = poses.order
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        steps = np.flatnonzero(table.odometry & (place[table.j] == place[table.i] + 1))
        turn = np.tile(np.eye(graph.dimension), (len(order), 1, 1))
        move = np.zeros((len(order), graph.dimension))
        start = np.ones(len(order), dtype=bool)
        at = place[table.j[steps]]
        turn[at], move[at], start[at] = table.rotation[steps], table.translation[steps], False
        rotation, translation = compose(turn, move, start)
        first = order[np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))]
        base = poses.rotation[first]
        return ((base @ rotation)[place], (
            poses.translation[first] + np.einsum('kij,kj->ki', base, translation))[place])
