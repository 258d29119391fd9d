"""Bags of sensor data: the topics and messages that the node subscribes to."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array_types import Array
from .bag import BagWriter
from .messages import LANDMARK_SIGHTING, LOOP_CLOSURE, ODOMETRY, POSE_FIX, UWB_RANGE
from .stamp_text import SECOND

UNKNOWN_HEADING_VARIANCE = 1e6
"""rad^2: the orientation of a fix that has none."""


class SensorBagWriter(BagWriter):
    """A bag writer for sensor data; a topic is declared by its first message.

    Positions are (3,) metres, quaternions x y z w, covariances (6, 6) in x y z rx ry rz.
    """

    def odometry(
        self, robot: str, stamp_ns: int, position_xyz: Array, quat_xyzw: Array, covariance: Array
    ) -> None:
        """`/<robot>/odom`: pose in the robot's odometry frame."""
        self._odometry(f'/{robot}/odom', f'{robot}/odom', robot, stamp_ns,
                       position_xyz, quat_xyzw, covariance)

    def ground_truth(
        self, robot: str, stamp_ns: int, position_xyz: Array, quat_xyzw: Array
    ) -> None:
        """`/<robot>/ground_truth`: true pose in the map frame, as odometry."""
        self._odometry(f'/{robot}/ground_truth', 'map', robot, stamp_ns,
                       position_xyz, quat_xyzw, np.zeros((6, 6)))

    def _odometry(
        self, topic: str, frame: str, robot: str, stamp_ns: int, position_xyz: Array,
        quat_xyzw: Array, covariance: Array,
    ) -> None:
        twist = self._new('geometry_msgs/msg/TwistWithCovariance')(
            self._new('geometry_msgs/msg/Twist')(self._vector(), self._vector()), np.zeros(36))
        self._write(topic, ODOMETRY, stamp_ns, self._new(ODOMETRY)(
            self._header(stamp_ns, frame), f'{robot}/base_link',
            self._pose(position_xyz, quat_xyzw, covariance), twist))

    def uwb_range(
        self, source: str, target: str, stamp_ns: int, range_m: float, variance: float,
        los: int = 0, topic: str = '/uwb/ranges',
    ) -> None:
        """`/uwb/ranges`: one distance between two radios; variance in m^2."""
        unknown = float('nan')
        self._write(topic, UWB_RANGE, stamp_ns, self._new(UWB_RANGE)(
            self._header(stamp_ns, ''), source, target, range_m, variance, unknown, unknown, los))

    def loop_closure(
        self, from_robot: str, from_stamp_ns: int, to_robot: str, to_stamp_ns: int,
        position_xyz: Array, quat_xyzw: Array, covariance: Array,
        detector: str, topic: str = '/loop_closures',
    ) -> None:
        """`/loop_closures`: pose of one robot at one instant seen from another pose."""
        stamp_ns = max(from_stamp_ns, to_stamp_ns)
        self._write(topic, LOOP_CLOSURE, stamp_ns, self._new(LOOP_CLOSURE)(
            self._header(stamp_ns, ''), from_robot, self._time(from_stamp_ns),
            to_robot, self._time(to_stamp_ns),
            self._pose(position_xyz, quat_xyzw, covariance), float('nan'), detector))

    def landmark_sighting(
        self, robot: str, landmark: str, stamp_ns: int, position_xyz: Array, covariance: Array,
        frame_id: str = '', topic: str = '/landmark_sightings',
    ) -> None:
        """`/landmark_sightings`: place of a landmark in a frame of the robot; covariance (3, 3)."""
        point = self._new('geometry_msgs/msg/Point')(*map(float, position_xyz))
        self._write(topic, LANDMARK_SIGHTING, stamp_ns, self._new(LANDMARK_SIGHTING)(
            self._header(stamp_ns, frame_id), robot, landmark, point,
            np.ascontiguousarray(covariance, dtype=float).reshape(9)))

    def fix(
        self, robot: str, stamp_ns: int, position_xyz: Array, quat_xyzw: Array,
        covariance: Array,
    ) -> None:
        """`/<robot>/fix`: pose in the map frame; a large heading variance means position only."""
        self._write(f'/{robot}/fix', POSE_FIX, stamp_ns, self._new(POSE_FIX)(
            self._header(stamp_ns, 'map'), self._pose(position_xyz, quat_xyzw, covariance)))

    def _write(self, topic: str, msgtype: str, stamp_ns: int, msg: Any) -> None:
        if not self.has_topic(topic):
            self.add_topic(topic, msgtype)
        self.write(topic, stamp_ns, msg)

    def _new(self, msgtype: str) -> Any:
        return self.types[msgtype]

    def _time(self, stamp_ns: int) -> Any:
        return self._new('builtin_interfaces/msg/Time')(*divmod(int(stamp_ns), SECOND))

    def _header(self, stamp_ns: int, frame_id: str) -> Any:
        return self._new('std_msgs/msg/Header')(self._time(stamp_ns), frame_id)

    def _vector(self) -> Any:
        return self._new('geometry_msgs/msg/Vector3')(0.0, 0.0, 0.0)

    def _pose(self, position_xyz: Array, quat_xyzw: Array, covariance: Array) -> Any:
        pose = self._new('geometry_msgs/msg/Pose')(
            self._new('geometry_msgs/msg/Point')(*map(float, position_xyz)),
            self._new('geometry_msgs/msg/Quaternion')(*map(float, quat_xyzw)))
        return self._new('geometry_msgs/msg/PoseWithCovariance')(
            pose, np.ascontiguousarray(covariance, dtype=float).reshape(36))


def isotropic(translation_variance: float, rotation_variance: float) -> Array:
    """(6, 6) covariance with one variance per kind of axis, m^2 and rad^2."""
    return np.diag([translation_variance] * 3 + [rotation_variance] * 3)
