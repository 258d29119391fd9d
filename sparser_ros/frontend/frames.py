"""Places of frames on their robots: the constant transforms of `/tf_static`, and those taken out
of the odometry of sensors that are not at the base."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from scipy.spatial.transform import Rotation

from ..config import SparserConfig
from .clocks import MAX_WAITING, nanoseconds
from .counters import KindCounters
from .motion import SPACE, Pose, place_fault
from .samples import FrameSample, OdometrySample

MAX_FRAMES = 5000
"""Frames that are remembered: a hundred robots of fifty links each."""
MAX_DEPTH = 100
"""Joints from a sensor to the frame above all others at most; a humanoid has fifty."""
MAX_ARM_M = 100.0
"""No sensor sits farther from the base of its robot."""
MOVED_M, MOVED_RAD = 1.0, 0.5
"""A frame that moves on its robot by more is believed once a second message says the same."""
FRAME_WAIT_NS = nanoseconds(2.0)
"""Odometry of a frame that is not the base waits this long (data time) for `/tf_static` to say
where it sits: who publishes that keeps it for late subscribers, who get it within a second."""
Unmounted = tuple[OdometrySample, int]
"""A message, and its stamp in data time."""


class StaticFrames:
    """A forest of frames; each has one parent."""

    def __init__(self) -> None:
        self.parents: dict[str, tuple[str, Pose]] = {}
        """Parent and T_parent_frame of every frame."""
        self._between: dict[tuple[str, str], Pose] = {}
        """Answers since the last new transform."""
        self._claims: dict[str, tuple[str, Pose]] = {}
        """Transforms that move a frame far, by frame, which no second message has confirmed."""
        self.too_far: dict[str, float] = {}
        """Distance in m of frames that are no sensors', by frame."""
        self.revision = 0
        """Rises with every new transform."""

    def add(self, sample: FrameSample, counters: KindCounters) -> bool:
        """Take in a transform; the newest of a frame counts, where it is plausible."""
        parent, child = _plain(sample.parent), _plain(sample.child)
        position, quat = sample.position_xyz.tolist(), sample.quat_xyzw.tolist()
        reason = place_fault(position, quat)
        if not parent or not child:
            reason = 'no_frame'
        elif parent == child:
            reason = 'own_parent'
        elif child not in self.parents and len(self.parents) >= MAX_FRAMES:
            reason = 'too_many_frames'
        if reason:
            return counters.drop(reason)
        claim, known = (parent, SPACE.pose(position, quat)), self.parents.get(child)
        if known is not None and known[0] == parent and SPACE.distance(known[1]) <= MAX_ARM_M:
            step = SPACE.between(known[1], claim[1])
            moved = SPACE.distance(step) > MOVED_M or SPACE.angle(step) > MOVED_RAD
            if moved and self._claims.get(child) != claim:
                self._claims[child] = claim
                return counters.drop('unconfirmed')
        self._claims.pop(child, None)
        if known != claim:
            self.restore({child: claim})
        counters.accept()
        return True

    def restore(self, parents: Mapping[str, tuple[str, Pose]]) -> None:
        """Take transforms as they are."""
        self.parents.update(parents)
        self._between = {}
        self.revision += len(parents)

    def between(self, base: str, frame: str) -> Pose | None:
        """T_base_frame as a pose in space; None where no transforms join the two, or not within
        `MAX_ARM_M`."""
        base, frame = _plain(base), _plain(frame)
        step = self._between.get((base, frame))
        if step is None:
            ours, theirs = self._ancestors(base), self._ancestors(frame)
            common = next((name for name in theirs if name in ours), None)
            if common is None:
                return None
            step = self._between[base, frame] = SPACE.between(ours[common], theirs[common])
        metres = SPACE.distance(step)
        if metres > MAX_ARM_M:
            self.too_far[frame] = metres
            return None
        return step

    def on_robot(self, config: SparserConfig, robot: str, frame: str) -> Pose | None:
        """T_base_frame of a frame on a robot; None where it is not known."""
        return self.between(config.topic(config.frames.base, robot), frame)

    def _ancestors(self, frame: str) -> dict[str, Pose]:
        """T_ancestor_frame of a frame and of those above it, the nearest first."""
        ancestors, pose = {frame: SPACE.identity}, SPACE.identity
        while frame in self.parents and len(ancestors) < MAX_DEPTH:
            frame, step = self.parents[frame]
            if frame in ancestors:
                break  # a ring of parents: what is above is above itself
            pose = ancestors[frame] = SPACE.compose(step, pose)
        return ancestors


def _plain(name: str) -> str:
    return name.lstrip('/')


class Mounting:
    """Places on one robot of the frames that its odometry tracks; constant transforms.

    What is decided of a frame stays: a transform that comes later would be a jump of the robot.
    """

    def __init__(self, config: SparserConfig, robot: str, frames: StaticFrames) -> None:
        self._frames = frames if config.frames.static_topic else None
        self._base = _plain(config.topic(config.frames.base, robot))
        values = config.odometry.sensor_poses.get(robot)
        self._configured = _inverse(mounting(values)) if values else None
        self._decided: dict[str, Pose | None] = {}
        """T_sensor_base by frame; None = taken as the base."""
        self._waiting: deque[Unmounted] = deque()

    def sensor_base(self, frame: str) -> Pose | None:
        """T_sensor_base; None where the frame is, or counts as, the base."""
        return self._configured or self._decided.get(_plain(frame))

    def offer(self, sample: OdometrySample, stamp_ns: int) -> list[Unmounted]:
        """The messages whose turn has come: this one, with those that waited; or none."""
        settled = self._settled(sample)
        if settled and not self._waiting:
            return [(sample, stamp_ns)]
        self._waiting.append((sample, stamp_ns))
        return self.released(settled or stamp_ns - self._waiting[0][1] >= FRAME_WAIT_NS
                             or len(self._waiting) >= MAX_WAITING)

    def _settled(self, sample: OdometrySample) -> bool:
        """True if a message need not wait (any longer)."""
        frame = _plain(sample.child_frame_id)
        if self._frames is None or frame in ('', self._base) \
                or self._configured or frame in self._decided:
            return True
        pose = self._frames.between(self._base, frame)
        if pose is not None:
            self._decided[frame] = _inverse(pose)
        return pose is not None

    def released(self, flush: bool) -> list[Unmounted]:
        """Messages that need not wait any longer after new transforms.

        With `flush` all: frames that are still unknown count as the base from now on.
        """
        if not (flush or all(self._settled(sample) for sample, _ in self._waiting)):
            return []
        waiting, self._waiting = self._waiting, deque()
        for sample, _ in waiting:
            if not self._settled(sample):
                self._decided[_plain(sample.child_frame_id)] = None
        return list(waiting)

    def late(self) -> list[str]:
        """Frames of odometry taken as the base, though by now transforms say otherwise."""
        return [] if self._frames is None else [
            frame for frame, known in self._decided.items()
            if known is None and self._frames.between(self._base, frame) not in (
                None, SPACE.identity)]

    def base(self, sample: OdometrySample) -> tuple[Sequence[float], Sequence[float]]:
        """Position and quaternion of T_odom_base.

        Always in space: a sensor that is tilted has another heading than its robot.
        """
        position, quat = sample.position_xyz.tolist(), sample.quat_xyzw.tolist()
        known = self.sensor_base(sample.child_frame_id)
        if known is None:
            return position, quat
        pose = SPACE.compose(SPACE.pose(position, quat), known)
        return pose[:3], pose[3:]


def _inverse(pose: Pose) -> Pose:
    return SPACE.between(pose, SPACE.identity)


def mounting(values: Sequence[float]) -> Pose:
    """T_base_sensor of x y z (m), or x y z roll pitch yaw (m, rad).

    Roll about x, then pitch about y, then yaw about z, all of them fixed axes (REP-103).
    """
    x, y, z, *turns = map(float, values)
    return (x, y, z, *Rotation.from_euler('xyz', turns or [0.0] * 3).as_quat().tolist())
