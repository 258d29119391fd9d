"""An increment: the variables and measurements that the front-end adds to the graph at once.

Increments are append-only: endpoints number poses and landmarks in the order in which all
increments so far introduced them, so the graph is their concatenation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .graph import Graph, Landmarks, Poses
from .measurement_tables import MeasurementTables, complete
from .measurements import Table


@dataclass(frozen=True, init=False)
class Increment(MeasurementTables):
    """New rows of every table; arrays only, so it crosses a process boundary cheaply.

    Measurement tables are given in any order, or by name, as in `Graph`.
    """

    sequence: int
    """0, 1, 2, …: position in the stream; the graph after it is the sum of 0..sequence."""
    robots: tuple[str, ...]
    """Names of all robots so far (grows at the end)."""
    poses: Poses
    """New keyframes; their values are T_odom_base of the robot's own odometry frame."""
    landmarks: Landmarks
    """New landmarks; position is a guess (NaN = unknown) or, where fixed, exact."""
    newest_stamp_ns: int = 0
    """Stamp of the newest sensor data included."""
    unlevelled: tuple[str, ...] = ()
    """Robots whose verticals, those of earlier increments as well, are found to be wrong."""
    measurements: Mapping[str, Table] = field(default_factory=dict)

    def __init__(
        self, sequence: int, robots: tuple[str, ...], poses: Poses, landmarks: Landmarks,
        *tables: Table, newest_stamp_ns: int = 0, unlevelled: tuple[str, ...] = (),
        measurements: Mapping[str, Table] | None = None, **named: Table,
    ) -> None:
        dimension = poses.translation.shape[1]
        vars(self).update(
            sequence=sequence, robots=robots, poses=poses, landmarks=landmarks,
            newest_stamp_ns=newest_stamp_ns, unlevelled=unlevelled,
            measurements=complete(dimension, measurements, tables, named))

    def replaced(self, **parts: Any) -> Increment:
        """A copy with some parts replaced."""
        return replace(self, **parts)


def extended(graph: Graph, increment: Increment) -> Graph:
    """The graph after an increment."""
    old = graph.landmarks
    new = increment.landmarks
    return graph.replaced(
        robots=increment.robots,
        poses=graph.poses.append(increment.poses),
        landmarks=Landmarks(
            old.names + new.names,
            np.concatenate([old.position, new.position]),
            np.concatenate([old.fixed, new.fixed]),
        ),
        **{name: table.append(getattr(increment, name)) for name, table in graph.tables().items()},
    )
