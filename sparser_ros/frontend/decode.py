"""ROS messages to samples, by field names alone: rclpy's objects and those of rosbags alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array_types import Array
from .geodesy import Datum
from .samples import (
    ClosureSample,
    FixSample,
    FrameSample,
    OdometrySample,
    RangeSample,
    SightingSample,
)
from .stamps import MAX_STAMP_NS

Message = Any


@dataclass(frozen=True)
class Refused:
    """A message, or a part of one, that holds no sample; counted by the front-end."""

    kind: str
    """One of `counters.KINDS`."""
    reason: str
    detail: str = field(default='', compare=False)
    """Which part of the configuration does not fit the message, in words."""


Sample = (OdometrySample | RangeSample | SightingSample | ClosureSample | FixSample | FrameSample
          | Refused)


def stamp(time: Message) -> int:
    """Nanoseconds of a `builtin_interfaces/Time`."""
    return in_nanoseconds(int(time.sec), int(time.nanosec))


def in_nanoseconds(seconds: int, nanosec: int) -> int:
    """One number; out of all bounds where `nanosec` is a second or more, which no clock writes."""
    return seconds * 1_000_000_000 + nanosec if nanosec < 1_000_000_000 else MAX_STAMP_NS


def covariance(values: Any, size: int = 6) -> Array:
    """A row-major covariance as (size, size); all NaN where the length is wrong."""
    array = np.array(values, dtype=float)
    return array.reshape(size, size) if array.size == size * size else \
        np.full((size, size), np.nan)


def point(message: Message) -> Array:
    return np.array((message.x, message.y, message.z), dtype=float)


def quaternion(message: Message) -> Array:
    return np.array((message.x, message.y, message.z, message.w), dtype=float)


def odometry(msg: Message, robot: str, received_ns: int) -> OdometrySample:
    """From `nav_msgs/Odometry`."""
    pose = msg.pose.pose
    return OdometrySample(
        robot, stamp(msg.header.stamp), received_ns, point(pose.position),
        quaternion(pose.orientation), covariance(msg.pose.covariance),
        covariance(msg.twist.covariance), msg.header.frame_id, msg.child_frame_id,
        math.hypot(*point(msg.twist.twist.linear).tolist()))


def uwb_range(msg: Message, received_ns: int) -> RangeSample:
    """From `sparser_ros/UwbRange`."""
    return RangeSample(
        msg.source, msg.target, stamp(msg.header.stamp), received_ns, float(msg.range),
        float(msg.variance), msg.header.frame_id, float(msg.first_path_rssi),
        float(msg.rx_rssi), int(msg.los))


def landmark_sighting(msg: Message, received_ns: int) -> SightingSample:
    """From `sparser_ros/LandmarkSighting`."""
    return SightingSample(
        msg.robot, msg.landmark, stamp(msg.header.stamp), received_ns, point(msg.position),
        covariance(msg.covariance, 3), msg.header.frame_id)


def static_frames(msg: Message) -> Iterator[FrameSample]:
    """From `tf2_msgs/TFMessage` on `/tf_static`."""
    for one in msg.transforms:
        yield FrameSample(
            one.header.frame_id, one.child_frame_id, point(one.transform.translation),
            quaternion(one.transform.rotation))


def loop_closure(msg: Message, received_ns: int) -> ClosureSample:
    """From `sparser_ros/LoopClosure`."""
    pose = msg.relative_pose.pose
    return ClosureSample(
        msg.from_robot, stamp(msg.from_stamp), msg.to_robot, stamp(msg.to_stamp), received_ns,
        point(pose.position), quaternion(pose.orientation),
        covariance(msg.relative_pose.covariance), float(msg.confidence), msg.detector)


def fix(msg: Message, robot: str, received_ns: int, datum: Datum | None = None) -> Sample:
    """From `geometry_msgs` (PoseWithCovarianceStamped, PoseStamped, PointStamped) in map, or from
    `sensor_msgs/NavSatFix`."""
    if hasattr(msg, 'latitude'):
        return _satellite(msg, robot, received_ns, datum)
    unknown = np.zeros((6, 6))
    if hasattr(msg, 'point'):
        return FixSample(
            robot, stamp(msg.header.stamp), received_ns, point(msg.point), unknown[:3, :3],
            frame_id=msg.header.frame_id)
    pose, full = msg.pose, unknown
    if hasattr(pose, 'covariance'):
        pose, full = pose.pose, covariance(pose.covariance)
    return FixSample(
        robot, stamp(msg.header.stamp), received_ns, point(pose.position), full[:3, :3],
        quaternion(pose.orientation), full[3:, 3:], msg.header.frame_id)


def _satellite(msg: Message, robot: str, received_ns: int, datum: Datum | None) -> Sample:
    if msg.status.status < 0:
        return Refused('fixes', 'no_satellite_fix')
    if datum is None:
        return Refused('fixes', 'no_datum')
    values = (float(msg.latitude), float(msg.longitude), float(msg.altitude))
    if not all(map(math.isfinite, values[:2])):
        return Refused('fixes', 'not_finite')
    if abs(values[0]) > 90 or abs(values[1]) > 360:
        return Refused('fixes', 'out_of_bounds')
    spread = covariance(msg.position_covariance, 3)
    if msg.position_covariance_type == 0:
        spread = np.zeros((3, 3))
    turn = datum.rotation
    return FixSample(
        robot, stamp(msg.header.stamp), received_ns, datum.to_map(*values),
        turn @ spread @ turn.T, None, None, '', msg.header.frame_id, satellite=True)
