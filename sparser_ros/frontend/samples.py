"""Sensor data as plain values, and how they come out of ROS messages.

Samples are always three-dimensional and in SI units; the front-end projects to the plane in 2D.
Covariances are row-major x y z rx ry rz; all zeros = configured. A stamp of 0 is unknown:
`received_ns` (bag time, or the node's clock at reception) is used. A sample is not validated: the
front-end does that, and counts what it refuses with a reason.

Messages are read from objects by field names alone (rclpy's and those of rosbags alike), and the
frequent ones from their CDR bytes: rclpy needs 60 us to build the Python object of a
`nav_msgs/Odometry`, `read_odometry` 6. Layout of the bytes: four that name the encoding, then the
fields, aligned to their size counted from there; a string is its length with the closing zero, then
its bytes (OMG DDS-XTypes, XCDR version 1).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..array_types import Array

NAN = float('nan')
MAX_STAMP_NS = 1 << 62
"""Stamps beyond 146 years after the epoch are none; sums of two such still fit 64 bits."""


@dataclass
class Repeats:
    """Readings of one sensor in a row that are equal to the last digit, and what changed meanwhile.

    Drivers that have lost a radio, or an altimeter, go on with what it said last.
    """

    reading: float = NAN
    changes: int = 0
    """Readings unlike the one before."""
    count: int = 0
    """Newest readings equal to the one before."""
    low: Sequence[float] = ()
    """Least and greatest values since then of what a reading should follow, metres."""
    high: Sequence[float] = ()

    def add(self, reading: float, *follows: float) -> None:
        """A reading, beside what it should follow: the height of a robot, or coordinates."""
        if reading == self.reading:
            self.count += 1
            self.low = tuple(map(min, self.low, follows))
            self.high = tuple(map(max, self.high, follows))
        else:
            self.changes += 1
            self.reading, self.count, self.low, self.high = reading, 0, follows, follows

    def frozen(self, least: int, moved_m: float) -> bool:
        """Whether `least` are equal to the one before, while that changed by more than a length."""
        return self.count >= least and math.dist(self.low, self.high) > moved_m


@dataclass(frozen=True)
class RobotSample:
    """What a robot says of one instant."""

    kind: ClassVar[str]
    """One of `counters.KINDS`."""
    robot: str
    stamp_ns: int
    received_ns: int


@dataclass(frozen=True)
class OdometrySample(RobotSample):
    """Pose of a robot in its odometry frame (`nav_msgs/Odometry`)."""

    kind: ClassVar[str] = 'odometry'
    position_xyz: Array
    quat_xyzw: Array
    pose_covariance: Array
    """(6, 6); its meaning is configured (`odometry_noise`)."""
    twist_covariance: Array
    frame_id: str = ''
    child_frame_id: str = ''


@dataclass(frozen=True)
class RangeSample:
    """One distance between two radios (`sparser_ros/UwbRange`)."""

    kind: ClassVar[str] = 'ranges'
    source: str
    target: str
    stamp_ns: int
    received_ns: int
    range_m: float
    variance: float
    """m^2; <= 0 or NaN = configured."""
    frame_id: str = ''
    first_path_rssi: float = NAN
    rx_rssi: float = NAN
    los: int = 0
    """0 unknown, 1 clear, 2 blocked."""


@dataclass(frozen=True)
class SightingSample(RobotSample):
    """Place of a landmark in a frame of the robot that sees it (`sparser_ros/LandmarkSighting`)."""

    kind: ClassVar[str] = 'sightings'
    landmark: str
    position_xyz: Array
    covariance: Array
    """(3, 3)."""
    frame_id: str = ''
    """'' = the base of the robot."""


@dataclass(frozen=True)
class ClosureSample:
    """Pose of one robot at one instant in the frame of another, or of itself, at another."""

    kind: ClassVar[str] = 'closures'
    from_robot: str
    from_stamp_ns: int
    to_robot: str
    to_stamp_ns: int
    received_ns: int
    position_xyz: Array
    quat_xyzw: Array
    covariance: Array
    confidence: float = NAN
    detector: str = ''


@dataclass(frozen=True)
class FrameSample:
    """T_parent_child, constant (one of a `tf2_msgs/TFMessage` on `/tf_static`)."""

    kind: ClassVar[str] = 'frames'
    parent: str
    child: str
    position_xyz: Array
    quat_xyzw: Array


@dataclass(frozen=True)
class FixSample(RobotSample):
    """Absolute position, and perhaps heading, of a robot in the map frame."""

    kind: ClassVar[str] = 'fixes'
    position_xyz: Array
    covariance: Array
    """(6, 6)."""
    quat_xyzw: Array | None = None
    """None = position only."""
    frame_id: str = ''
    antenna: str = ''
    """Frame of what the position is of; '' = configured."""
    satellite: bool = False
    """Whether the position is of latitude and longitude, relative to the datum."""
    initial: bool = False
    """Whether somebody gave it by hand: a pose of the base, by no sensor."""


@dataclass(frozen=True)
class HeightSample(RobotSample):
    """Reading of the height of a robot: metres up, metres to the ground, or Pa."""

    kind: ClassVar[str] = 'heights'
    source: str
    """Name in `heights.inputs`, which says what the value is."""
    value: float


@dataclass(frozen=True)
class AttitudeSample(RobotSample):
    """Orientation of a robot in a frame whose z axis points up (`sensor_msgs/Imu`)."""

    kind: ClassVar[str] = 'attitudes'
    quat_xyzw: Array
    unknown: bool = False
    """Whether the message says that it holds no orientation."""


@dataclass(frozen=True)
class Refused:
    """A message, or a part of one, that holds no sample; counted by the front-end."""

    kind: str
    """One of `counters.KINDS`."""
    reason: str
    detail: str = field(default='', compare=False)
    """What of the configuration does not fit the message, in words."""


Sample = RobotSample | RangeSample | ClosureSample | FrameSample | Refused


# -- from messages ---------------------------------------------------------------------------------

Message = Any
SEMI_MAJOR_M = 6378137.0
ECCENTRICITY_SQUARED = 6.69437999014e-3
"""Of the ellipsoid WGS 84."""
LITTLE_ENDIAN = b'\x00\x01'
"""Encoding of the first two bytes; the low bits of the others count padding at the end."""
_STAMP = struct.Struct('<iI')
_LENGTH = struct.Struct('<I')
_UWB = struct.Struct('<ddffB')
_ODOMETRY_NUMBERS = 3 + 4 + 36 + 6 + 36
_START = 4


class Datum:
    """Origin of the map on the earth; x points `heading` counter-clockwise from east."""

    def __init__(self, origin: Sequence[float], heading_rad: float = 0.0) -> None:
        phi, lam, self._height = math.radians(origin[0]), math.radians(origin[1]), origin[2]
        cosine, sine = math.cos(heading_rad), math.sin(heading_rad)
        self._origin = self._earth_fixed(*origin)
        self.rotation = np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
        """(3, 3): R_map_enu."""
        self._axes = self.rotation @ np.array([
            [-math.sin(lam), math.cos(lam), 0.0],
            [-math.sin(phi) * math.cos(lam), -math.sin(phi) * math.sin(lam), math.cos(phi)],
            [math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi)]])

    @staticmethod
    def _earth_fixed(latitude: float, longitude: float, height: float) -> Array:
        """Earth-centred coordinates (3,) in metres of degrees and metres."""
        phi, lam = math.radians(latitude), math.radians(longitude)
        normal = SEMI_MAJOR_M / math.sqrt(1 - ECCENTRICITY_SQUARED * math.sin(phi) ** 2)
        return np.array([
            (normal + height) * math.cos(phi) * math.cos(lam),
            (normal + height) * math.cos(phi) * math.sin(lam),
            (normal * (1 - ECCENTRICITY_SQUARED) + height) * math.sin(phi)])

    def to_map(self, latitude: float, longitude: float, height: float) -> Array:
        """Position (3,) in the map frame, metres; an unknown height counts as the datum's."""
        known = height if math.isfinite(height) else self._height
        return self._axes @ (self._earth_fixed(latitude, longitude, known) - self._origin)


def stamp(time: Message) -> int:
    """Nanoseconds of a `builtin_interfaces/Time`."""
    return in_nanoseconds(int(time.sec), int(time.nanosec))


def in_nanoseconds(seconds: int, nanosec: int) -> int:
    """One number; out of all bounds where `nanosec` is a second or more, which no clock writes."""
    return seconds * 1_000_000_000 + nanosec if nanosec < 1_000_000_000 else MAX_STAMP_NS


def header_stamp(msg: Message) -> int:
    """Stamp of a message that may have no header; 0 = none."""
    header = getattr(msg, 'header', None)
    return 0 if header is None else stamp(header.stamp)


def covariance(values: Any, size: int = 6) -> Array:
    """A row-major covariance as (size, size); all NaN where the length is wrong."""
    array = np.array(values, dtype=float)
    return array.reshape(size, size) if array.size == size * size else np.full((size, size), np.nan)


def point(message: Message) -> Array:
    return np.array((message.x, message.y, message.z), dtype=float)


def quaternion(message: Message) -> Array:
    return np.array((message.x, message.y, message.z, message.w), dtype=float)


# -- from objects --------------------------------------------------------------------------------


def odometry(msg: Message, received_ns: int, robot: str) -> OdometrySample:
    """From `nav_msgs/Odometry`."""
    pose = msg.pose.pose
    return OdometrySample(
        robot, stamp(msg.header.stamp), received_ns, point(pose.position),
        quaternion(pose.orientation), covariance(msg.pose.covariance),
        covariance(msg.twist.covariance), msg.header.frame_id, msg.child_frame_id)


def uwb_range(msg: Message, received_ns: int, scale: float = 1.0) -> RangeSample:
    """From `sparser_ros/UwbRange`; the scale turns its unit into metres."""
    return RangeSample(
        msg.source, msg.target, stamp(msg.header.stamp), received_ns, float(msg.range) * scale,
        float(msg.variance) * scale**2, msg.header.frame_id, float(msg.first_path_rssi),
        float(msg.rx_rssi), int(msg.los))


def landmark_sighting(msg: Message, received_ns: int) -> SightingSample:
    """From `sparser_ros/LandmarkSighting`."""
    return SightingSample(
        msg.robot, stamp(msg.header.stamp), received_ns, msg.landmark, point(msg.position),
        covariance(msg.covariance, 3), msg.header.frame_id)


def static_frames(msg: Message, received_ns: int) -> Iterator[FrameSample]:
    """From `tf2_msgs/TFMessage` on `/tf_static`."""
    for joint in msg.transforms:
        yield FrameSample(
            joint.header.frame_id, joint.child_frame_id, point(joint.transform.translation),
            quaternion(joint.transform.rotation))


def loop_closure(msg: Message, received_ns: int) -> ClosureSample:
    """From `sparser_ros/LoopClosure`."""
    pose = msg.relative_pose.pose
    return ClosureSample(
        msg.from_robot, stamp(msg.from_stamp), msg.to_robot, stamp(msg.to_stamp), received_ns,
        point(pose.position), quaternion(pose.orientation),
        covariance(msg.relative_pose.covariance), float(msg.confidence), msg.detector)


def fix(
    msg: Message, received_ns: int, robot: str, datum: Datum | None = None, initial: bool = False
) -> Sample:
    """From `geometry_msgs` (PoseWithCovarianceStamped, PoseStamped, PointStamped) in map, or from
    `sensor_msgs/NavSatFix`."""
    if hasattr(msg, 'latitude'):
        return _satellite(msg, received_ns, robot, datum)
    position, full, quat = _placed(msg)
    return FixSample(
        robot, stamp(msg.header.stamp), received_ns, position, full, quat, msg.header.frame_id,
        initial=initial)


def landmark_pose(msg: Message, received_ns: int, robot: str, landmark: str) -> SightingSample:
    """From the same types, of one landmark in the frame of the sensor.

    Turns are not used: that of a tag, seen by one camera, has two solutions that fit almost alike
    (Schweighofer and Pinz 2006).
    """
    position, full, _ = _placed(msg)
    return SightingSample(
        robot, stamp(msg.header.stamp), received_ns, landmark, position, full[:3, :3],
        msg.header.frame_id)


def _placed(msg: Message) -> tuple[Array, Array, Array | None]:
    """Position, covariance (6, 6) of the pose (zeros = unknown), quaternion (None = there is none).
    """
    if hasattr(msg, 'point'):
        return point(msg.point), np.zeros((6, 6)), None
    pose, full = msg.pose, np.zeros((6, 6))
    if hasattr(pose, 'covariance'):
        pose, full = pose.pose, covariance(pose.covariance)
    return point(pose.position), full, quaternion(pose.orientation)


def height(
    msg: Message, received_ns: int, robot: str, source: str, path: Callable[[Any], Any],
    scale: float = 1.0,
) -> HeightSample:
    """From any message that holds a number at a path; without a header it counts from reception."""
    return HeightSample(robot, header_stamp(msg), received_ns, source, float(path(msg)) * scale)


def attitude(msg: Message, received_ns: int, robot: str) -> AttitudeSample:
    """From `sensor_msgs/Imu`, whose covariance begins with -1 where it holds no orientation."""
    return AttitudeSample(
        robot, stamp(msg.header.stamp), received_ns, quaternion(msg.orientation),
        float(msg.orientation_covariance[0]) < 0)


def _satellite(msg: Message, received_ns: int, robot: str, datum: Datum | None) -> Sample:
    values = (float(msg.latitude), float(msg.longitude), float(msg.altitude))
    reason = ''
    if msg.status.status < 0:
        reason = 'no_satellite_fix'
    elif datum is None:
        reason = 'no_datum'
    elif not all(map(math.isfinite, values[:2])):
        reason = 'not_finite'
    elif abs(values[0]) > 90 or abs(values[1]) > 360:
        reason = 'out_of_bounds'
    if reason or datum is None:
        return Refused('fixes', reason)
    full = np.zeros((6, 6))
    if msg.position_covariance_type != 0:
        full[:3, :3] = datum.rotation @ covariance(msg.position_covariance, 3) @ datum.rotation.T
    return FixSample(
        robot, stamp(msg.header.stamp), received_ns, datum.to_map(*values), full,
        antenna=msg.header.frame_id, satellite=True)


# -- from bytes ----------------------------------------------------------------------------------


def readable(data: bytes) -> bool:
    """True if the functions below know the encoding."""
    return data[:2] == LITTLE_ENDIAN


def first_stamp(data: bytes) -> int:
    """Nanoseconds in the header that a message begins with; 0 = none, or not readable."""
    if len(data) < 12 or not readable(data):
        return 0
    seconds, nanoseconds = _STAMP.unpack_from(data, _START)
    return int(seconds * 1_000_000_000 + nanoseconds)


def read_odometry(data: bytes, received_ns: int, robot: str) -> OdometrySample:
    """From the bytes of a `nav_msgs/Odometry`; ValueError or struct.error for anything else."""
    stamp_ns, (frame, child), at = _begin(data, 2)
    values = np.frombuffer(data, '<f8', _ODOMETRY_NUMBERS, at)
    return OdometrySample(
        robot, stamp_ns, received_ns, values[:3], values[3:7], values[7:43].reshape(6, 6),
        values[49:85].reshape(6, 6), frame, child)


def read_range(data: bytes, received_ns: int, scale: float = 1.0) -> RangeSample:
    """From the bytes of a `sparser_ros/UwbRange`; the scale turns its unit into metres."""
    stamp_ns, (frame, source, target), at = _begin(data, 3)
    distance, variance, first_path, rssi, los = _UWB.unpack_from(data, at)
    return RangeSample(
        source, target, stamp_ns, received_ns, distance * scale, variance * scale**2, frame,
        first_path, rssi, los)


def _begin(data: bytes, count: int) -> tuple[int, list[str], int]:
    """The stamp, so many strings after it, and the offset of the numbers of eight bytes that follow
    them."""
    seconds, nanoseconds = _STAMP.unpack_from(data, _START)
    texts, at = [], _START + 8
    for _ in range(count):
        at += -(at - _START) % 4
        length, = _LENGTH.unpack_from(data, at)
        begin, at = at + 4, at + 4 + length
        if not 0 < length <= len(data) - begin or data[at - 1]:
            raise ValueError(f'no string at byte {begin - 4}')
        texts.append(data[begin:at - 1].decode())
    return in_nanoseconds(seconds, nanoseconds), texts, at + -(at - _START) % 8
