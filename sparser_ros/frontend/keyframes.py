"""Which odometry messages become poses of the graph."""

from __future__ import annotations

from ..config.frontend_config import KeyframesConfig
from .motion import Geometry, Pose


class KeyframeRule:
    """Selection by distance, angle and time since the last keyframe, whichever comes first."""

    def __init__(self, options: KeyframesConfig, space: Geometry) -> None:
        self._space = space
        self._distance_m = options.distance_m
        self._angle_rad = options.angle_rad
        self._time_ns = options.time_s * 1e9
        self._always = options.every_message

    def chosen(self, motion: Pose, elapsed_ns: int) -> bool:
        """True if the pose reached by `motion` from the last keyframe becomes one."""
        return (
            self._always
            or elapsed_ns >= self._time_ns
            or self._space.distance(motion) >= self._distance_m
            or self._space.angle(motion) >= self._angle_rad
        )
