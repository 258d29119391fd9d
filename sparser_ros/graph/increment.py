"""What the front-end hands to the back-end: the variables and measurements since the last one.

Increments are append-only: endpoints number poses and landmarks in the order in which all
increments so far introduced them, so the graph is their concatenation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .graph import Graph, Landmarks, Poses
from .measurements import PointPriors, PosePriors, Ranges, RelativePoses, Sightings


@dataclass(frozen=True)
class Increment:
    """New rows of every table; arrays only, so it crosses a process boundary cheaply."""

    sequence: int
    """0, 1, 2, …: position in the stream; the graph after it is the sum of 0..sequence."""
    robots: tuple[str, ...]
    """Names of all robots so far (grows at the end)."""
    poses: Poses
    """New keyframes; their values are T_odom_base of the robot's own odometry frame."""
    landmarks: Landmarks
    """New landmarks; position is a guess (NaN = unknown) or, where fixed, exact."""
    relative_poses: RelativePoses
    sightings: Sightings
    ranges: Ranges
    pose_priors: PosePriors
    point_priors: PointPriors
    newest_stamp_ns: int = 0
    """Stamp of the newest sensor data included."""

    @property
    def n_measurements(self) -> int:
        return sum(
            len(t)
            for t in (self.relative_poses, self.sightings, self.ranges, self.pose_priors,
                      self.point_priors)
        )


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
        relative_poses=graph.relative_poses.append(increment.relative_poses),
        sightings=graph.sightings.append(increment.sightings),
        ranges=graph.ranges.append(increment.ranges),
        pose_priors=graph.pose_priors.append(increment.pose_priors),
        point_priors=graph.point_priors.append(increment.point_priors),
    )
