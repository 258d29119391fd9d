"""Sensor data as plain values: what a ROS message, a bag or a simulation comes down to.

Always three-dimensional and in SI units; the front-end projects to the plane in 2D. Covariances are
row-major x y z rx ry rz; all zeros = configured. A stamp of 0 is unknown: `received_ns` (bag time,
or the node's clock at reception) is used. A sample is not validated: the front-end does that, and
counts what it refuses with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ..array_types import Array

NAN = float('nan')


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
    position_covariance: Array
    quat_xyzw: Array | None = None
    """None = position only."""
    orientation_covariance: Array | None = None
    frame_id: str = ''
    antenna: str = ''
    """Frame of what the position is of; '' = configured."""
    satellite: bool = False
    """Whether the position is of latitude and longitude, relative to the datum."""


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
