"""Where frames sit on their robots: the constant transforms of `/tf_static`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..config import SparserConfig
from .bounds import Bounds
from .counters import KindCounters
from .motion import Pose, Space, bad_quaternion
from .samples import FrameSample

_SPACE = Space()
MAX_FRAMES = 5000
"""Frames that are remembered: a hundred robots of fifty links each."""
MAX_ARM_M = 100.0
"""No sensor sits farther from the base of its robot."""
MOVED_M, MOVED_RAD = 1.0, 0.5
"""A frame that moves on its robot by more is believed once a second message says the same."""


class StaticFrames:
    """A forest of frames; each has one parent."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Pose]] = {}
        """Parent and T_parent_frame of every frame."""
        self._above: dict[str, str] = {}
        """A frame above each one that was looked at, mostly the highest; of a highest one, itself,
        where it is one of a ring."""
        self._between: dict[tuple[str, str], Pose] = {}
        """What was asked for: a new frame changes nothing between two that are joined already."""
        self._claims: dict[str, tuple[str, Pose]] = {}
        """Transforms that move a frame far, by frame, which no second message has confirmed."""
        self.too_far: dict[str, float] = {}
        """Distance in m of frames that are no sensors', by frame."""
        self.revision = 0
        """Rises with every new transform."""

    def add(self, sample: FrameSample, counters: KindCounters, bounds: Bounds) -> bool:
        """Take in a transform; the newest of a frame counts, where it is plausible."""
        parent, child = _plain(sample.parent), _plain(sample.child)
        position, quat = sample.position_xyz.tolist(), sample.quat_xyzw.tolist()
        reason = bounds.place_fault(position) or bad_quaternion(quat)
        if not parent or not child:
            reason = 'no_frame'
        elif parent == child:
            reason = 'own_parent'
        elif child not in self._parents and len(self._parents) >= MAX_FRAMES:
            reason = 'too_many_frames'
        if reason:
            return counters.drop(reason)
        known = (parent, _SPACE.pose(position, quat))
        if self._moves_far(child, known) and self._claims.get(child) != known:
            self._claims[child] = known
            return counters.drop('unconfirmed')
        self._claims.pop(child, None)
        if self._parents.get(child) != known:
            if child in self._parents or self._highest(parent) == child:  # a ring closes
                self._above, self._between = {}, {}
            self._parents[child] = known
            self.revision += 1
        counters.accepted += 1
        return True

    def _moves_far(self, child: str, claim: tuple[str, Pose]) -> bool:
        before = self._parents.get(child)
        if before is None or before[0] != claim[0] or _SPACE.distance(before[1]) > MAX_ARM_M:
            return False
        step = _SPACE.between(before[1], claim[1])
        return _SPACE.distance(step) > MOVED_M or _SPACE.angle(step) > MOVED_RAD

    def between(self, base: str, frame: str) -> Pose | None:
        """T_base_frame as a pose in space; None where no transforms join the two, or not within
        `MAX_ARM_M`."""
        base, frame = _plain(base), _plain(frame)
        if self._highest(base) != self._highest(frame):
            return None
        if (base, frame) not in self._between:
            ours = self._ancestors(base)
            ancestor, pose = next(
                pair for pair in self._ancestors(frame).items() if pair[0] in ours)
            self._between[base, frame] = _SPACE.between(ours[ancestor], pose)
        step = self._between[base, frame]
        metres = _SPACE.distance(step)
        if metres > MAX_ARM_M:
            self.too_far[frame] = metres
            return None
        return step

    def on_robot(self, config: SparserConfig, robot: str, frame: str) -> Pose | None:
        """T_base_frame of a frame on a robot; None where it is not known."""
        return self.between(config.topic(config.frames.base, robot), frame)

    def _highest(self, frame: str) -> str:
        """The frame above all others that are joined to one.

        Every look shortens the way of the next one: transforms come one by one, and each is a
        reason to look again, so that a chain of thousands would cost the square of its length.
        """
        below: dict[str, None] = {}
        while (above := self._above.get(frame) or self._parents.get(frame, ('',))[0]) and (
                above != frame):
            if frame in below:
                break  # once around a ring
            below[frame] = None
            frame = above
        if above:
            self._above[frame] = frame
        for one in below:
            self._above[one] = frame
        return frame

    def _ancestors(self, frame: str) -> dict[str, Pose]:
        """T_ancestor_frame of a frame and of all above it, the nearest first."""
        found, pose = {frame: _SPACE.identity}, _SPACE.identity
        while frame in self._parents:
            frame, step = self._parents[frame]
            if frame in found:
                break  # a ring of parents: what is above is above itself
            pose = found[frame] = _SPACE.compose(step, pose)
        return found

    def values(self) -> list[list[object]]:
        """All transforms as plain values: parent, child, x y z qx qy qz qw."""
        return [[parent, child, *pose] for child, (parent, pose) in self._parents.items()]

    def restore(self, values: Iterable[Sequence[object]]) -> None:
        """Take over the transforms of `values`."""
        self._above, self._between = {}, {}
        for parent, child, *pose in values:
            numbers = tuple(float(value) for value in pose)  # type: ignore[arg-type]
            self._parents[str(child)] = (str(parent), numbers)
            self.revision += 1


def _plain(name: str) -> str:
    return name.lstrip('/')
