"""Messages: classes by name, fields, quality of service, and large ones as CDR bytes.

A `nav_msgs/Path` of 5 000 poses costs 100 ms as Python objects and 1 ms as bytes laid out by
numpy; `publisher.publish(bytes)` sends them unchanged. Encoding: plain CDR (XCDR1), little-endian,
each primitive aligned to its size counted from the end of the four-byte encapsulation header.
"""

from __future__ import annotations

import importlib
import re
import struct
from typing import Any

import numpy as np
import tf_transformations
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.topic_endpoint_info import TopicEndpointInfo

from ..array_types import Array, Index
from ..config import ConfigError

try:
    from rclpy import event_handler
except ImportError:  # before Iron
    from rclpy import qos_event as event_handler  # type: ignore[no-redef]


def message_type(name: str) -> Any:
    """The class of `package/msg/Name`; ConfigError where it is not installed."""
    package, _, rest = name.partition('/')
    module, _, kind = rest.rpartition('/')
    try:
        return getattr(importlib.import_module(f'{package}.{module or "msg"}'), kind)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f'message type {name} is not available ({error}); install the package {package} and '
            'source its workspace') from None


def deserialise(name: str, data: bytes) -> Any:
    """The object that CDR bytes of a message type hold; raises whatever the middleware does."""
    return deserialize_message(data, message_type(name))


def time_message(stamp_ns: int) -> Time:
    """A stamp of int nanoseconds as a message."""
    sec, nanosec = divmod(int(stamp_ns), 10**9)
    return Time(sec=sec, nanosec=nanosec)


def stamp_ns(message: Any) -> int:
    """A `builtin_interfaces/Time` as int nanoseconds."""
    return int(message.sec) * 10**9 + int(message.nanosec)


def fill_pose(point: Any, quat: Any, matrix: Array) -> None:
    """Write a rigid motion (4, 4) into message fields x y z and x y z w."""
    point.x, point.y, point.z = matrix[:3, 3].tolist()
    quat.x, quat.y, quat.z, quat.w = map(float, tf_transformations.quaternion_from_matrix(matrix))


def topic_token(robot: str) -> str:
    """A robot's name as part of a topic name: `01` becomes `robot_01`, `tug-3` `tug_3`."""
    tokens = [re.sub(r'[^A-Za-z0-9_]', '_', token) for token in robot.strip('/').split('/')]
    return '/'.join(f'robot_{t}' if not t or t[0].isdigit() else t for t in tokens)


def full_name(endpoint: TopicEndpointInfo) -> str:
    """Of the node that has an endpoint."""
    return f'{endpoint.node_namespace.rstrip("/")}/{endpoint.node_name}'


LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Paths, markers, beacons: late joiners get the newest one. Profiles are reliable by default."""
STATUS, TRANSFORMS = QoSProfile(depth=10), QoSProfile(depth=100)
"""The second is what tf2's own broadcaster uses."""
NO_EVENTS = event_handler.PublisherEventCallbacks(use_default_callbacks=False)
"""rclpy's two default events of each publisher would be half of what its executor looks at in
every wake-up. They tell of subscribers with other wishes, which are told so themselves."""


ENCAPSULATION = b'\x00\x01\x00\x00'


class CdrWriter:
    """Appends primitives with their alignment; `bytes()` gives the serialised message."""

    def __init__(self) -> None:
        self._parts: list[bytes] = [ENCAPSULATION]
        self._size = 0
        """Bytes written so far, without the encapsulation header."""

    def raw(self, data: bytes) -> CdrWriter:
        """Append bytes as they are."""
        self._parts.append(data)
        self._size += len(data)
        return self

    def align(self, to: int) -> CdrWriter:
        """Pad with zeros to a multiple of `to`."""
        return self.raw(bytes(-self._size % to))

    def pack(self, code: str, *values: float | int | bool) -> CdrWriter:
        """Append primitives of one struct code (`i`, `I`, `d`, `f`, `B`, `?`)."""
        return self.align(struct.calcsize('=' + code)).raw(
            struct.pack(f'<{len(values)}{code}', *values))

    def string(self, text: str) -> CdrWriter:
        """Append a string: length with its final zero, characters, zero."""
        data = text.encode() + b'\0'
        return self.pack('I', len(data)).raw(data)

    def header(self, stamp_ns: int, frame_id: str) -> CdrWriter:
        """Append a `std_msgs/Header`."""
        return self.pack('i', stamp_ns // 10**9).pack('I', stamp_ns % 10**9).string(frame_id)

    def rows(self, values: NDArray, dtype: str) -> CdrWriter:
        """Append a sequence of structs of one primitive type: values (k, columns)."""
        values = np.ascontiguousarray(values, dtype=dtype)
        self.pack('I', len(values))
        if len(values):
            self.align(values.dtype.itemsize).raw(values.tobytes())
        return self

    def bytes(self) -> bytes:
        """The serialised message."""
        return b''.join(self._parts)


def path_bytes(
    stamp_ns: int, frame_id: str, stamps_ns: Index, positions_xyz: Array,
    quats_xyzw: Array,
) -> bytes:
    """A serialised `nav_msgs/Path`: poses (n, 3) and (n, 4), each with its own stamp."""
    writer = CdrWriter().header(stamp_ns, frame_id).pack('I', len(stamps_ns))
    if not len(stamps_ns):
        return writer.bytes()
    frame = frame_id.encode() + b'\0'
    poses = np.zeros(len(stamps_ns), dtype=_path_element(len(frame)))
    poses['sec'], poses['nanosec'] = stamps_ns // 10**9, stamps_ns % 10**9
    poses['length'], poses['frame'] = len(frame), frame
    poses['pose'][:, :3], poses['pose'][:, 3:] = positions_xyz, quats_xyzw
    # Every element ends on a multiple of 8, so all but the first start on one: only the first
    # has padding of its own.
    first = poses[0]
    writer.pack('i', int(first['sec'])).pack('I', int(first['nanosec'])).string(frame_id)
    writer.align(8).raw(first['pose'].tobytes())
    return writer.raw(poses[1:].tobytes()).bytes()


def path_points(data: bytes) -> tuple[Index, Array]:
    """Stamps (n,) in ns and positions (n, 3) of what `path_bytes` wrote, without the first pose."""
    length = struct.unpack_from('<I', data, 12)[0]
    at = 16 + length + -length % 4
    count = struct.unpack_from('<I', data, at)[0]
    rows = max(count - 1, 0)
    element = _path_element(length)
    poses = np.frombuffer(
        data, dtype=element, count=rows, offset=len(data) - rows * element.itemsize)
    return (poses['sec'].astype(np.int64) * 10**9 + poses['nanosec'],
            np.asarray(poses['pose'][:, :3]))


def _path_element(length: int) -> np.dtype:
    """A pose of a path that is not the first, its frame having so many bytes."""
    return np.dtype([
        ('sec', '<i4'), ('nanosec', '<u4'), ('length', '<u4'), ('frame', f'S{length}'),
        ('padding', f'V{-(12 + length) % 8}'), ('pose', '<f8', 7)])
