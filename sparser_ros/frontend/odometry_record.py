"""The whole odometry of a robot, for trajectories at its rate; older messages are thinned."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..array_types import Array, Index
from .pose_column import PoseColumn


@dataclass(frozen=True)
class RecordedOdometry:
    """What is known of the odometry of one robot, in its odometry frame.

    Poses are rows `x y yaw` or `x y z qx qy qz qw`; within a segment they are of one frame.
    """

    blocks: tuple[Array, ...]
    """(k, 2 + width) each, in the order of time: stamps and segments as the bits of integers, and
    poses. They are put together when somebody looks: within a callback that takes too long."""
    keyframe_stamps_ns: Index
    """(m,)."""
    keyframe_poses: Array
    """(m, 3) or (m, 7)."""
    keyframe_segments: Index
    """(m,)."""

    @cached_property
    def _rows(self) -> Array:
        return np.concatenate(self.blocks)

    @property
    def stamps_ns(self) -> Index:
        """(k,): increasing."""
        return _integers(self._rows[:, 0])

    @property
    def segments(self) -> Index:
        """(k,): number of the segment of every message."""
        return _integers(self._rows[:, 1])

    @property
    def poses(self) -> Array:
        """(k, 3) or (k, 7)."""
        return self._rows[:, 2:]


def _integers(bits: Array) -> Index:
    return np.ascontiguousarray(bits).view(np.int64)


BLOCKS = 64
"""A full record has so many blocks: two of them are thinned to one within a callback, not all."""


class OdometryRecord:
    """Messages of one robot as they were believed, at most `limit` of them; 0 = none is kept.

    While it is full, every second message goes where messages are closest for their age: gaps grow
    in proportion to the age, as those between thinned keyframes do, and the newest have the full
    rate. A front-end that goes on from a checkpoint begins another record: messages before the
    checkpoint are not in it.
    """

    def __init__(self, width: int, limit: int) -> None:
        self._width, self._limit = width, limit
        self._block = max(1, limit // BLOCKS)
        self._full: list[Array] = []
        """Blocks (k, 2 + width): stamps and segments as the bits of integers, and poses."""
        self._numbers = array('q')
        """Stamps and segments, in turns, of the newest messages, which fill no block yet."""
        self._poses = PoseColumn(width)

    def __reduce__(self) -> tuple[type[OdometryRecord], tuple[int, int]]:
        # Left out of the journal's checkpoints, whose time it would multiply: no estimate needs it.
        return OdometryRecord, (self._width, self._limit)

    def append(self, stamp_ns: int, pose: tuple[float, ...], segment: int) -> None:
        """Keep a message newer than all others."""
        if not self._limit:
            return
        self._numbers.extend((stamp_ns, segment))
        self._poses.append(pose)
        if len(self._poses) >= self._block:
            self._full.append(self._newest())
            self._numbers, self._poses = array('q'), PoseColumn(self._width)
            if len(self._full) >= BLOCKS:
                self._thin()

    def _newest(self) -> Array:
        """(k, 2 + width): the messages that fill no block yet."""
        numbers = np.array(self._numbers, dtype=np.int64).reshape(-1, 2)
        return np.column_stack([numbers.view(np.float64), self._poses.values])

    def _thin(self) -> None:
        """Make one block of two neighbours: those of the shortest span for their age."""
        ends = np.array([block[[0, -1], 0].view(np.int64) for block in self._full])
        span, age = ends[1:, 1] - ends[:-1, 0], ends[-1, 1] - ends[:-1, 0]
        first = int(np.argmin(span / np.maximum(age, 1)))
        self._full[first:first + 2] = [np.concatenate(self._full[first:first + 2])[::2].copy()]

    @property
    def blocks(self) -> tuple[Array, ...]:
        """All messages, in blocks that never change."""
        return (*self._full, self._newest())
