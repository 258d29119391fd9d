"""Large messages laid out as CDR bytes by numpy: Path and MarkerArray without Python objects.

A `nav_msgs/Path` of 5 000 poses costs 100 ms as Python objects and 1 ms as bytes;
`publisher.publish(bytes)` sends them unchanged. Encoding: plain CDR (XCDR1), little-endian, each
primitive aligned to its size counted from the end of the four-byte encapsulation header.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from ..array_types import Array, Index

ENCAPSULATION = b'\x00\x01\x00\x00'


class CdrWriter:
    """Appends primitives with their alignment; `bytes()` gives the serialised message."""

    def __init__(self) -> None:
        self._parts: list[bytes] = [ENCAPSULATION]
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes written so far, without the encapsulation header."""
        return self._size

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
