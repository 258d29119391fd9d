"""Odometry of a sensor that is not at the base: where it sits is taken out of every message."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from ..config import SparserConfig
from .motion import Pose, Space, Vector, multiply
from .samples import OdometrySample
from .stamps import nanoseconds
from .static_frames import StaticFrames

_SPACE = Space()
FRAME_WAIT_NS = nanoseconds(2.0)
"""Odometry of a frame that is not the base waits this long (data time) for `/tf_static` to say
where it sits: who publishes that keeps it for late subscribers, who get it within a second."""
MAX_HELD = 10000
"""Messages of a robot that wait so at most; with more the wait ends."""
Held = tuple[int, OdometrySample, int]
"""Number of the robot, message, and its stamp in data time."""


class Mountings:
    """Where the frames that odometry tracks sit on their robots; constant transforms.

    What is decided of a frame stays: a transform that comes later would be a jump of the robot.
    """

    def __init__(self, config: SparserConfig, frames: StaticFrames) -> None:
        self._frames = frames if config.frames.static_topic else None
        self._bases = {
            robot: config.topic(config.frames.base, robot).lstrip('/') for robot in config.robots}
        self._configured: dict[str, Pose] = {
            robot: _inverse(mounting(values))
            for robot, values in config.odometry.sensor_poses.items() if values}
        self._decided: dict[tuple[str, str], Pose | None] = {}
        """T_sensor_base by robot and frame; None = taken as the base."""
        self._held: dict[str, deque[Held]] = {}

    def known(self, robot: str, frame: str) -> bool:
        """Whether it is known where a frame sits on a robot, the base itself excepted."""
        return self._sensor_base(robot, frame.lstrip('/')) is not None

    def _sensor_base(self, robot: str, frame: str) -> Pose | None:
        return self._configured.get(robot) or self._decided.get((robot, frame))

    def hold(self, number: int, sample: OdometrySample, stamp_ns: int) -> list[Held]:
        """The messages whose turn has come: this one, with those that waited; or none."""
        robot, frame = sample.robot, sample.child_frame_id.lstrip('/')
        if self._settled(robot, frame):
            return [*self._release(robot), (number, sample, stamp_ns)]
        held = self._held.setdefault(robot, deque())
        held.append((number, sample, stamp_ns))
        if stamp_ns - held[0][2] < FRAME_WAIT_NS and len(held) < MAX_HELD:
            return []
        return self._release(robot)

    def _settled(self, robot: str, frame: str) -> bool:
        """Whether messages of a frame need not wait (any longer)."""
        if self._frames is None or frame in ('', self._bases[robot]) \
                or robot in self._configured or (robot, frame) in self._decided:
            return True
        found = self._frames.between(self._bases[robot], frame)
        if found is not None:
            self._decided[robot, frame] = _inverse(found)
        return found is not None

    def _release(self, robot: str) -> list[Held]:
        """What waited of a robot; frames that nothing is known of count as the base from now on."""
        held = self._held.pop(robot, ())
        for _, sample, _ in held:
            frame = sample.child_frame_id.lstrip('/')
            if not self._settled(robot, frame):
                self._decided[robot, frame] = None
        return list(held)

    def found(self) -> list[Held]:
        """What need not wait any longer, after new transforms."""
        return [one for robot in list(self._held)
                if all(self._settled(robot, sample.child_frame_id.lstrip('/'))
                       for _, sample, _ in self._held[robot]) for one in self._release(robot)]

    def flush(self) -> list[Held]:
        """All that waits."""
        return [one for robot in list(self._held) for one in self._release(robot)]

    def late(self) -> list[tuple[str, str]]:
        """(robot, frame) of odometry taken as the base, though by now transforms say otherwise."""
        return [] if self._frames is None else [
            (robot, frame) for (robot, frame), known in self._decided.items()
            if known is None and self._frames.between(self._bases[robot], frame) not in (
                None, _SPACE.identity)]

    def base(
        self, robot: str, frame: str, position: Sequence[float], quat: Sequence[float]
    ) -> tuple[Vector, Vector]:
        """Position and quaternion of T_odom_base where those of T_odom_sensor are given.

        Always in space: a sensor that is tilted has another heading than its robot.
        """
        known = self._sensor_base(robot, frame.lstrip('/'))
        if known is None:
            return tuple(position), tuple(quat)
        pose = _SPACE.compose(_SPACE.pose(position, quat), known)
        return pose[:3], pose[3:]


def _inverse(pose: Pose) -> Pose:
    return _SPACE.between(pose, _SPACE.identity)


def mounting(values: Sequence[float]) -> Pose:
    """T_base_sensor of x y z (m), or x y z roll pitch yaw (m, rad).

    Roll about x, then pitch about y, then yaw about z, all of them fixed axes (REP-103).
    """
    x, y, z, *turns = map(float, values)
    roll, pitch, yaw = turns or (0.0, 0.0, 0.0)
    quat = multiply(_about(2, yaw), multiply(_about(1, pitch), _about(0, roll)))
    return (x, y, z, *quat)


def _about(axis: int, angle: float) -> Vector:
    parts = [0.0, 0.0, 0.0, math.cos(angle / 2)]
    parts[axis] = math.sin(angle / 2)
    return tuple(parts)


def mounted(poses: Mapping[str, Sequence[float]]) -> dict[str, Pose]:
    """T_base_sensor by name, from configured values."""
    return {name.lstrip('/'): mounting(values) for name, values in poses.items() if values}
