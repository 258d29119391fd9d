"""Landmarks with a topic each: `geometry_msgs` poses or points in the frame of the sensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..decode import Refused, Sample, SightingSample, covariance, point, stamp


class LandmarkPose:
    """PoseStamped, PoseWithCovarianceStamped or PointStamped of one landmark; turns are not used.

    A tag's turn, seen by one camera, has two solutions that fit almost alike (Schweighofer and
    Pinz 2006); its position has one.
    """

    def __init__(self, robot: str, landmark: str) -> None:
        self._robot = robot
        self._landmark = landmark

    def __call__(self, msg: Any, received_ns: int) -> Iterator[Sample]:
        """One sighting."""
        spread = np.zeros((3, 3))
        place = getattr(msg, 'point', None)
        if place is None:
            pose = msg.pose
            if hasattr(pose, 'covariance'):
                spread, pose = covariance(pose.covariance)[:3, :3], pose.pose
            place = getattr(pose, 'position', None)
        if place is None:
            yield Refused('sightings', 'unreadable')
            return
        yield SightingSample(
            self._robot, self._landmark, stamp(msg.header.stamp), received_ns, point(place),
            spread, msg.header.frame_id)
