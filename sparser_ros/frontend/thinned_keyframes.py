"""Odometry of keyframes that were thinned: what late measurements between others are placed by.

A closure may name an instant of hours ago. Its keyframe may be gone; the way to the next one that
stays is still known, 32 bytes a keyframe in 2D and 64 in 3D.
"""

from __future__ import annotations

import numpy as np

from ..array_types import Array, Index
from .motion import Geometry, Pose


class ThinnedKeyframes:
    """Stamps and poses in the robot's odometry frame, in order of time."""

    def __init__(self, space: Geometry) -> None:
        self._stamps: Index = np.zeros(0, dtype=np.int64)
        self._poses: Array = np.zeros((0, len(space.identity)))

    def add(self, stamps: Index, poses: Array) -> None:
        """More of them, (k,) in order of time and (k, w)."""
        place = np.searchsorted(self._stamps, stamps, side='right')
        self._stamps = np.insert(self._stamps, place, stamps)
        self._poses = np.insert(self._poses, place, poses, axis=0)

    @property
    def newest_ns(self) -> int:
        """Stamp of the newest one; 0 = there are none."""
        return int(self._stamps[-1]) if len(self._stamps) else 0

    def around(self, stamp_ns: int) -> dict[int, Pose]:
        """The last one before an instant and the first one from it on, as far as there are."""
        after = int(np.searchsorted(self._stamps, stamp_ns))
        return {
            int(self._stamps[row]): tuple(self._poses[row].tolist())
            for row in (after - 1, after) if 0 <= row < len(self._stamps)}
