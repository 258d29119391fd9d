"""The frequent messages read from their CDR bytes, without an object for every field.

rclpy needs 60 us to build the Python object of a `nav_msgs/Odometry`, this module 6. Layout: four
bytes that name the encoding, then the fields, aligned to their size counted from there; a string
is its length with the closing zero, then its bytes (OMG DDS-XTypes, XCDR version 1).
"""

from __future__ import annotations

import math
import struct

import numpy as np

from .decode import in_nanoseconds
from .samples import OdometrySample, RangeSample, SightingSample

LITTLE_ENDIAN = b'\x00\x01'
"""Encoding of the first two bytes; the low bits of the others count padding at the end."""
_STAMP = struct.Struct('<iI')
_LENGTH = struct.Struct('<I')
_UWB = struct.Struct('<ddffB')
_ODOMETRY_NUMBERS = 3 + 4 + 36 + 6 + 36
_START = 4


def readable(data: bytes) -> bool:
    """Whether this module knows the encoding."""
    return data[:2] == LITTLE_ENDIAN


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A string at an offset, and the offset after it."""
    at += -(at - _START) % 4
    length, = _LENGTH.unpack_from(data, at)
    begin = at + 4
    end = begin + length
    if not 0 < length <= len(data) - begin or data[end - 1]:
        raise ValueError(f'no string at byte {at}')
    return data[begin:end - 1].decode(), end


def _stamp(data: bytes) -> int:
    seconds, nanoseconds = _STAMP.unpack_from(data, _START)
    return in_nanoseconds(int(seconds), int(nanoseconds))


def odometry(data: bytes, robot: str, received_ns: int) -> OdometrySample:
    """From the bytes of a `nav_msgs/Odometry`; ValueError or struct.error for anything else."""
    frame, at = _text(data, _START + 8)
    child, at = _text(data, at)
    values = np.frombuffer(data, '<f8', _ODOMETRY_NUMBERS, at + -(at - _START) % 8)
    return OdometrySample(
        robot, _stamp(data), received_ns, values[:3], values[3:7], values[7:43].reshape(6, 6),
        values[49:85].reshape(6, 6), frame, child, math.hypot(*values[43:46].tolist()))


def uwb_range(data: bytes, scale: float, received_ns: int) -> RangeSample:
    """From the bytes of a `sparser_ros/UwbRange`; the scale turns its unit into metres."""
    frame, at = _text(data, _START + 8)
    source, at = _text(data, at)
    target, at = _text(data, at)
    distance, variance, first_path, rssi, los = _UWB.unpack_from(data, at + -(at - _START) % 8)
    return RangeSample(
        source, target, _stamp(data), received_ns, distance * scale, variance * scale**2, frame,
        first_path, rssi, los)


def landmark_sighting(data: bytes, received_ns: int) -> SightingSample:
    """From the bytes of a `sparser_ros/LandmarkSighting`."""
    frame, at = _text(data, _START + 8)
    robot, at = _text(data, at)
    landmark, at = _text(data, at)
    values = np.frombuffer(data, '<f8', 3 + 9, at + -(at - _START) % 8)
    return SightingSample(
        robot, landmark, _stamp(data), received_ns, values[:3], values[3:].reshape(3, 3), frame)
