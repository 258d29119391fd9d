"""Landmark sightings: validation, and their way from the sensor to the base of the robot."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..config import SparserConfig
from .bounds import Bounds
from .counters import KindCounters
from .motion import Geometry, Pose, Space, Vector, rotation_rows
from .mountings import mounted
from .noise import fault
from .radios import Radio, Radios
from .samples import SightingSample
from .static_frames import StaticFrames

_SPACE = Space()
UNKNOWN_FRAME = 'unknown_frame'
"""Why a sighting is refused until something says where its frame sits."""


@dataclass(frozen=True)
class PendingSighting:
    """A sighting that passed the gate."""

    stamp_ns: int
    robot: int
    frame: str
    ends: tuple[Radio, ...]
    """The landmark, as the radio that may sit on it."""
    position: Vector
    """(d,) in the base frame of the robot at that instant."""
    variance: float

    @property
    def landmark(self) -> str:
        return self.ends[0].beacon


class SightingGate:
    """Checks a sighting and moves it into the base frame of the robot."""

    def __init__(self, config: SparserConfig, space: Geometry, radios: Radios,
                 counters: KindCounters, bounds: Bounds, frames: StaticFrames) -> None:
        self._config = config
        self._frames = frames
        self._options = config.sightings
        self._bounds = bounds
        self._space = space
        self._radios = radios
        self._counters = counters
        self._robots = {name: number for number, name in enumerate(config.robots)}
        self._bases = {name: config.topic(config.frames.base, name).lstrip('/')
                       for name in config.robots}
        self._sensors = mounted(config.sightings.sensor_poses)

    def check(self, sample: SightingSample, stamp_ns: int) -> PendingSighting | str:
        """The sighting in the configured dimension, or why it is refused."""
        o, space = self._options, self._space
        landmark = self._radios.landmark(
            sample.landmark, ignore_unknown=o.unknown_landmarks == 'ignore')
        if landmark is None:
            return 'unknown_landmark' if sample.landmark else 'no_landmark'
        if landmark.robot:
            return 'robot_seen'
        position = sample.position_xyz.tolist()
        reason = self._bounds.place_fault(position)
        if reason:
            return reason
        distance = math.hypot(*position)
        if distance < o.min_m:
            return 'too_near'
        if distance > o.max_m:
            return 'too_far'
        sensor = self._sensor(sample)
        if sensor is None:
            return UNKNOWN_FRAME
        return PendingSighting(
            stamp_ns, self._robots[sample.robot], sample.frame_id, (landmark,),
            space.vector(_SPACE.act(sensor, tuple(position))),
            self._bounds.variance('sightings', self._variance(sample, sensor, distance)))

    def _sensor(self, sample: SightingSample) -> Pose | None:
        """T_base_sensor of the frame that the position is in; None = not known."""
        frame = sample.frame_id.lstrip('/')
        known = self._sensors.get(frame) or self._sensors.get(sample.robot)
        if known is None and frame in ('', self._bases[sample.robot]):
            return _SPACE.identity
        return known or self._frames.on_robot(self._config, sample.robot, frame)

    def _variance(self, sample: SightingSample, sensor: Pose, distance: float) -> float:
        """Mean variance per axis of the dimension, m^2."""
        o, d = self._options, self._space.dimension
        own = o.sigma_m**2 + (o.sigma_per_m * distance) ** 2
        if not o.use_message_covariance:
            return own
        if not np.any(sample.covariance):
            return own
        turn, full = np.array(rotation_rows(sensor[3:])), np.eye(6)
        with np.errstate(invalid='ignore', over='ignore'):  # judged below
            full[:3, :3] = turn @ sample.covariance @ turn.T
        reason = fault(full, d)
        if reason:
            self._counters.warnings[f'covariance_{reason}'] += 1
            return own
        return float(np.mean(np.diagonal(full)[:d]))
