"""`visualization_msgs/MarkerArray` as CDR bytes, in chunks that RViz draws.

RViz refuses line lists beyond 16 384 points, so long ones are cut; ids are stable from one
message to the next, and leftovers of the last message are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..array_types import Array
from .cdr import CdrWriter

Color = tuple[float, float, float, float]

ARROW, SPHERE, LINE_LIST, SPHERE_LIST, TEXT = 0, 2, 5, 7, 9
ADD, DELETE, DELETE_ALL = 0, 2, 3
MAX_POINTS = 16000


@dataclass(frozen=True)
class Marker:
    """One marker; its points are in the frame of the array."""

    namespace: str
    id: int
    type: int = SPHERE
    action: int = ADD
    position_xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat_xyzw: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    scale: tuple[float, float, float] = (0.1, 0.1, 0.1)
    color: Color = (1.0, 1.0, 1.0, 1.0)
    points: Array | None = None
    """(k, 3)."""
    text: str = ''


def line_list(namespace: str, segments: Array, color: Color, width: float) -> list[Marker]:
    """Segments (k, 2, 3) as line lists of at most `MAX_POINTS` points each."""
    points = np.asarray(segments, dtype=float).reshape(-1, 3)
    return [
        Marker(namespace, number, LINE_LIST, scale=(width, 0.0, 0.0), color=color,
               points=points[start:start + MAX_POINTS])
        for number, start in enumerate(range(0, len(points), MAX_POINTS))
    ]


def with_deletions(
    markers: Sequence[Marker], shown: set[tuple[str, int]]
) -> tuple[list[Marker], set[tuple[str, int]]]:
    """The markers and a deletion of each one shown before and absent now; and what shows now."""
    now = {(marker.namespace, marker.id) for marker in markers}
    gone = [Marker(namespace, number, action=DELETE) for namespace, number in sorted(shown - now)]
    return [*markers, *gone], now


def marker_array_bytes(stamp_ns: int, frame_id: str, markers: Sequence[Marker]) -> bytes:
    """A serialised `visualization_msgs/MarkerArray`."""
    writer = CdrWriter().pack('I', len(markers))
    for marker in markers:
        _marker(writer, stamp_ns, frame_id, marker)
    return writer.bytes()


def _marker(writer: CdrWriter, stamp_ns: int, frame_id: str, marker: Marker) -> None:
    writer.header(stamp_ns, frame_id).string(marker.namespace)
    writer.pack('i', marker.id, marker.type, marker.action)
    writer.pack('d', *marker.position_xyz, *marker.quat_xyzw)
    writer.pack('d', *marker.scale).pack('f', *marker.color)
    writer.pack('i', 0).pack('I', 0).pack('?', False)  # lifetime: for ever; frame_locked
    writer.rows(np.zeros((0, 3)) if marker.points is None else marker.points, '<f8')
    writer.pack('I', 0)  # colors
    writer.string('')  # texture_resource
    writer.header(0, '').string('').pack('I', 0)  # texture: header, format, data
    writer.pack('I', 0)  # uv_coordinates
    writer.string(marker.text)
    writer.string('').string('').pack('I', 0)  # mesh_resource; mesh_file: name, data
    writer.pack('?', False)  # mesh_use_embedded_materials
