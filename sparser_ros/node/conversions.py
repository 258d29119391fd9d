"""Small conversions between numpy and message fields."""

from __future__ import annotations

import re
from typing import Any

from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.topic_endpoint_info import TopicEndpointInfo


def time_message(stamp_ns: int) -> Time:
    """A stamp of int nanoseconds as a message."""
    sec, nanosec = divmod(int(stamp_ns), 10**9)
    return Time(sec=sec, nanosec=nanosec)


def stamp_ns(message: Any) -> int:
    """A `builtin_interfaces/Time` as int nanoseconds."""
    return int(message.sec) * 10**9 + int(message.nanosec)


def fill_pose(point: Any, quat: Any, position_xyz: NDArray, quat_xyzw: NDArray) -> None:
    """Write (3,) and (4,) into message fields x y z and x y z w."""
    point.x, point.y, point.z = map(float, position_xyz)
    quat.x, quat.y, quat.z, quat.w = map(float, quat_xyzw)


def topic_token(robot: str) -> str:
    """A robot's name as part of a topic name: `01` becomes `robot_01`, `tug-3` `tug_3`."""
    tokens = [re.sub(r'[^A-Za-z0-9_]', '_', token) for token in robot.strip('/').split('/')]
    return '/'.join(f'robot_{t}' if not t or t[0].isdigit() else t for t in tokens)


def full_name(endpoint: TopicEndpointInfo) -> str:
    """Of the node that has an endpoint."""
    return f'{endpoint.node_namespace.rstrip("/")}/{endpoint.node_name}'
