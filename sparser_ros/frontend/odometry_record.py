"""The whole odometry of a robot, for trajectories at its rate; older messages are thinned."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from .pose_column import PoseColumn


@dataclass(frozen=True)
class RecordedOdometry:
    """What is known of the odometry of one robot, in its odometry frame.

    Poses are rows `x y yaw` or `x y z qx qy qz qw`; within a segment they are of one frame.
    """

    stamps_ns: Index
    """(k,): increasing."""
    poses: Array
    """(k, 3) or (k, 7)."""
    segments: Index
    """(k,): number of the segment of every message."""
    keyframe_stamps_ns: Index
    """(m,)."""
    keyframe_poses: Array
    """(m, 3) or (m, 7)."""
    keyframe_segments: Index
    """(m,)."""


class OdometryRecord:
    """Messages of one robot as they were believed, at most `limit` of them; 0 = none is kept.

    When it is full every second message of its older half goes: the newer half has the full rate,
    what came before a half of it, a quarter, and so on. A front-end that goes on from a checkpoint
    begins another record: messages before the checkpoint are not in it.
    """

    def __init__(self, width: int, limit: int) -> None:
        self._width, self._limit = width, limit
        self._stamps = array('q')
        self._segments = array('q')
        self._poses = PoseColumn(width)

    def __reduce__(self) -> tuple[type[OdometryRecord], tuple[int, int]]:
        # Left out of the journal's checkpoints, whose time it would multiply: no estimate needs it.
        return OdometryRecord, (self._width, self._limit)

    def __len__(self) -> int:
        return len(self._stamps)

    def append(self, stamp_ns: int, pose: tuple[float, ...], segment: int) -> None:
        """Keep a message newer than all others."""
        if not self._limit:
            return
        if len(self._stamps) >= self._limit:
            self._thin()
        self._stamps.append(stamp_ns)
        self._segments.append(segment)
        self._poses.append(pose)

    def _thin(self) -> None:
        keep: Mask = np.ones(len(self), dtype=bool)
        keep[1:len(self) // 2 + 1:2] = False
        self._poses.take(keep)
        self._stamps = array('q', np.array(self._stamps)[keep].tobytes())
        self._segments = array('q', np.array(self._segments)[keep].tobytes())

    @property
    def columns(self) -> tuple[Index, Array, Index]:
        """Copies of stamps (k,) in ns, poses (k, w) and numbers of segments (k,)."""
        return (np.array(self._stamps, dtype=np.int64), self._poses.values,
                np.array(self._segments, dtype=np.int64))
