"""Odometry of a sensor that is not at the base: where it sits is taken out of every message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .motion import Pose, Space, Vector, multiply

_SPACE = Space()


class Mountings:
    """Where the frames that odometry tracks sit on their robots; constant transforms."""

    def __init__(self, poses: Mapping[str, Sequence[float]]) -> None:
        """`poses`: T_base_sensor by robot, x y z (m), or x y z roll pitch yaw (m, rad)."""
        self._sensor_base: dict[str, Pose] = {
            robot: _SPACE.between(_pose(values), _SPACE.identity)
            for robot, values in poses.items() if values}

    def __contains__(self, robot: str) -> bool:
        return robot in self._sensor_base

    def base(
        self, robot: str, position: Sequence[float], quat: Sequence[float]
    ) -> tuple[Vector, Vector]:
        """Position and quaternion of T_odom_base where those of T_odom_sensor are given.

        Always in space: a sensor that is tilted has another heading than its robot.
        """
        known = self._sensor_base.get(robot)
        if known is None:
            return tuple(position), tuple(quat)
        pose = _SPACE.compose(_SPACE.pose(position, quat), known)
        return pose[:3], pose[3:]


def _pose(values: Sequence[float]) -> Pose:
    """Roll about x, then pitch about y, then yaw about z, all of them fixed axes (REP-103)."""
    x, y, z, *turns = map(float, values)
    roll, pitch, yaw = turns or (0.0, 0.0, 0.0)
    quat = multiply(_about(2, yaw), multiply(_about(1, pitch), _about(0, roll)))
    return (x, y, z, *quat)


def _about(axis: int, angle: float) -> Vector:
    parts = [0.0, 0.0, 0.0, math.cos(angle / 2)]
    parts[axis] = math.sin(angle / 2)
    return tuple(parts)
