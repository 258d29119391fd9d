"""map -> odom of every located robot: values from solutions, stamps from a timer of their own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import tf_transformations

from ..array_types import Array
from ..linalg.rotations import matrix_to_quat


@dataclass(frozen=True)
class Transform:
    """A rigid motion in 3D: x -> rotation x + translation."""

    rotation: Array
    """(3, 3)."""
    translation: Array
    """(3,): metres."""

    def __matmul__(self, other: Transform) -> Transform:
        return Transform(self.rotation @ other.rotation,
                         self.rotation @ other.translation + self.translation)

    def inverse(self) -> Transform:
        """The motion back."""
        return Transform(self.rotation.T, -self.rotation.T @ self.translation)

    @property
    def quat_xyzw(self) -> Array:
        """(4,): the rotation as a unit quaternion."""
        matrix = np.eye(4)
        matrix[:3, :3] = self.rotation
        return np.asarray(tf_transformations.quaternion_from_matrix(matrix))


def lifted(rotation: Array, translation: Array) -> Transform:
    """A motion of the plane or of space, as one of space."""
    d = len(translation)
    full, offset = np.eye(3), np.zeros(3)
    full[:d, :d], offset[:d] = rotation, translation
    return Transform(full, offset)


def planar_quats(rotation: Array) -> Array:
    """Quaternions x y z w (n, 4) of rotations (n, d, d), d = 2 or 3.

    A path has thousands of poses, and `tf_transformations` takes one at a time.
    """
    if rotation.shape[-1] == 3:
        return np.asarray(matrix_to_quat(rotation))
    half = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]) / 2
    quats = np.zeros((len(rotation), 4))
    quats[:, 2], quats[:, 3] = np.sin(half), np.cos(half)
    return quats


def spatial(points: Array) -> Array:
    """Points (n, d) as (n, 3), z = 0 in the plane."""
    points = np.asarray(points, dtype=float)
    if points.shape[1] == 3:
        return points
    return np.column_stack([points, np.zeros(len(points))])


class MapToOdom:
    """The transforms now valid, and stamps that only ever grow.

    tf2 refuses a stamp that it has seen and consumers fail on one that goes back, so a stopped
    clock silences the broadcast; only a new solution is still sent, one microsecond on.
    """

    RESEND_NS = 1000
    STEPS = 20
    """Broadcasts whose distance in the node's clock is remembered: 1 s of the usual 20 Hz."""
    LONGEST_STEP_NS = 2_000_000_000
    """A longer step of the clock is a jump or a pause: a bag at 40 times its speed has less."""

    FAST = 2.0
    """From so many times the speed of the wall clock on a bag is played fast. A clock of the usual
    speed that stands still and catches up shows less over the remembered steps."""

    def __init__(
        self, tolerance_ns: int, steady_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.tolerance_ns = tolerance_ns
        self._steady_ns = steady_ns
        self._steps: deque[tuple[int, int]] = deque(maxlen=self.STEPS)
        """Steps of the node's clock and of the steady one, ns."""
        self._now_ns = self._steady_now_ns = 0
        self._transforms: dict[str, Transform] = {}
        self._changed = False
        self._last_stamp_ns = 0

    @property
    def transforms(self) -> Mapping[str, Transform]:
        """T_map_odom by robot."""
        return self._transforms

    def update(self, transforms: Mapping[str, Transform]) -> None:
        """Replace all transforms by those of a new solution."""
        self._transforms = dict(transforms)
        self._changed = True

    def clear(self, *, restart_stamps: bool = False) -> None:
        """Forget the transforms; after a jump back in time stamps start again as well."""
        self._transforms = {}
        self._changed = False
        if restart_stamps:
            self._last_stamp_ns = 0
            self._steps.clear()

    def next_stamp_ns(self, now_ns: int) -> int | None:
        """Stamp of a broadcast now, or None when there is nothing to say or no time to say it.

        The timer is on the wall, stamps are in data time: where a bag is played at 20 times its
        speed a second passes between two broadcasts, and odometry of that second needs a
        transform. So the stamp reaches as far ahead there as the clock mostly goes in two of them;
        else by the tolerance alone, also after the node or the clock has stood still.
        """
        step = self.follow(now_ns)
        if not self._transforms or now_ns <= 0:
            return None
        stamp = now_ns + max(self.tolerance_ns, self._two_fast_steps_ns())
        if stamp <= self._last_stamp_ns:
            if not self._changed and step <= 0:
                return None
            stamp = self._last_stamp_ns + self.RESEND_NS
        self._last_stamp_ns = stamp
        self._changed = False
        return stamp

    def follow(self, now_ns: int) -> int:
        """Note the node's clock at a broadcast, sent or not; its step since the one before, ns."""
        step, self._now_ns = now_ns - self._now_ns, now_ns
        steady = self._steady_ns()
        steady_step, self._steady_now_ns = steady - self._steady_now_ns, steady
        if 0 <= step < self.LONGEST_STEP_NS:
            self._steps.append((step, steady_step))
        return step

    def _two_fast_steps_ns(self) -> int:
        """How far a fast clock mostly goes in two broadcasts; 0 at the usual speed."""
        forward = sorted(step for step, _ in self._steps if step)
        if sum(forward) < self.FAST * sum(steady for _, steady in self._steps):
            return 0
        return 2 * forward[len(forward) // 2] if forward else 0
