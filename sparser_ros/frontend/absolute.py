"""Closures and fixes: validation, and attachment to keyframes by composing odometry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config import SparserConfig
from .bounds import Bounds
from .counters import KindCounters
from .motion import Geometry, Pose, Vector, bad_quaternion
from .noise import Noise, fault
from .odometry import Attachment
from .samples import ClosureSample, FixSample
from .static_frames import StaticFrames


@dataclass(frozen=True)
class PendingClosure:
    """A closure that passed the gates."""

    motion: Pose
    """T_from_to at the stamps of the message."""
    covariance: Any
    stamp_ns: int


@dataclass(frozen=True)
class PendingFix:
    """A fix that passed the gates."""

    pose: Pose | None
    """T_map_base; None = position only."""
    position: Vector
    """Of the antenna in map."""
    lever: Vector
    translation_variance: float
    rotation_variance: float
    stamp_ns: int


class ClosureGate:
    """Checks a loop closure and composes it onto keyframes."""

    def __init__(self, config: SparserConfig, space: Geometry, noise: Noise,
                 counters: KindCounters, bounds: Bounds) -> None:
        self._options = config.closures
        self._bounds = bounds
        self._space = space
        self._noise = noise
        self._counters = counters

    def check(self, sample: ClosureSample) -> PendingClosure | str:
        """The closure in the configured dimension, or why it is refused."""
        o = self._options
        position, quat = sample.position_xyz.tolist(), sample.quat_xyzw.tolist()
        reason = self._bounds.place_fault(position) or bad_quaternion(quat)
        if reason:
            return reason
        if sample.confidence < o.min_confidence:
            return 'low_confidence'
        motion = self._space.pose(position, quat)
        if o.max_translation_m and self._space.distance(motion) > o.max_translation_m:
            return 'too_long'
        reason = fault(sample.covariance, self._space.dimension)
        if reason and reason != 'zero':
            self._counters.warnings[f'covariance_{reason}'] += 1
        covariance = self._noise.isotropic(o.sigma_m**2, o.sigma_rad**2) if reason \
            else self._noise.of(sample.covariance)
        return PendingClosure(motion, covariance, max(sample.from_stamp_ns, sample.to_stamp_ns))

    def attached(self, closure: PendingClosure, start: Attachment,
                 end: Attachment) -> tuple[Pose, float, float]:
        """T_kf_from_kf_to = T_kf_from T_from_to T_to_kf, with mean variances per axis."""
        space = self._space
        back = space.between(end.offset, space.identity)
        covariance = closure.covariance
        if back != space.identity:
            covariance = self._noise.append(
                covariance, closure.motion, back, self._noise.isotropic(0.0, 0.0))
        motion = space.compose(start.offset, space.compose(closure.motion, back))
        move, turn = self._noise.variances(covariance)
        bounded = self._bounds.variances('closures', move, turn)
        if bounded[0] > move or bounded[1] > turn:
            self._counters.warnings['too_certain'] += 1
        return motion, *bounded


class FixGate:
    """Checks an absolute position or pose and moves it onto a keyframe."""

    def __init__(self, config: SparserConfig, space: Geometry, counters: KindCounters,
                 bounds: Bounds, frames: StaticFrames) -> None:
        self._config = config
        self._options = config.fixes
        self._frames = frames
        self._bounds = bounds
        self._map = config.frames.map
        self._space = space
        self._counters = counters
        zero = [0.0, 0.0, 0.0]
        self._levers = {
            robot: space.vector([*map(float, config.fixes.lever_arms.get(robot, zero)), 0.0])
            for robot in config.robots}

    def check(self, sample: FixSample, stamp_ns: int) -> PendingFix | str:
        """The fix in the configured dimension, or why it is refused."""
        o, space = self._options, self._space
        position = sample.position_xyz.tolist()
        reason = self._bounds.place_fault(position[: space.dimension])
        if not reason and sample.satellite:
            reason = self._bounds.datum_fault(math.hypot(*position))
        if reason:
            return reason
        if sample.frame_id and sample.frame_id.lstrip('/') != self._map:
            return 'wrong_frame'
        lever = self._lever(sample)
        spread = np.diagonal(sample.position_covariance)[: space.dimension]
        with np.errstate(over='ignore', invalid='ignore'):
            # Finite extremes may add up to infinity, which is refused below.
            move = float(np.mean(spread))
        if not math.isfinite(move) or np.any(spread <= 0):
            if math.isfinite(move) and not np.any(spread):
                reason = 'covariance_zero'
            else:
                reason = 'covariance_unusable'
            self._counters.warnings[reason] += 1
            move = o.sigma_m**2
        bounded = self._bounds.variance('fixes', move)
        if bounded > move:
            self._counters.warnings['too_certain'] += 1
        move = bounded
        turn = self._heading_variance(sample)
        if turn is None or sample.quat_xyzw is None:
            return PendingFix(None, space.vector(position), lever, move, math.inf, stamp_ns)
        _, turn = self._bounds.variances('fixes', move, turn)
        quat = sample.quat_xyzw.tolist()
        reason = bad_quaternion(quat)
        if reason:
            return reason
        antenna = space.pose(position, quat)
        mount = (*(-c for c in lever), *space.identity[space.dimension:])
        return PendingFix(space.compose(antenna, mount), space.vector(position), lever, move, turn,
                          stamp_ns)

    def _lever(self, sample: FixSample) -> Vector:
        """Antenna in the base frame: as configured, or where its frame sits."""
        if sample.antenna and sample.robot not in self._options.lever_arms:
            known = self._frames.on_robot(self._config, sample.robot, sample.antenna)
            if known is not None:
                return self._space.vector(known)
        return self._levers[sample.robot]

    def _heading_variance(self, sample: FixSample) -> float | None:
        """Variance per axis of the rotation; None = it is not to be used."""
        o = self._options
        if o.use == 'position' or sample.quat_xyzw is None:
            return None
        usable = False
        turn = 0.0
        if sample.orientation_covariance is not None:
            diagonal = np.diagonal(sample.orientation_covariance)
            diagonal = diagonal[2:] if self._space.dimension == 2 else diagonal
            turn = float(np.mean(diagonal))
            usable = math.isfinite(turn) and bool(np.all(diagonal > 0))
        if o.use == 'pose':
            return turn if usable else o.sigma_rad**2
        return turn if usable and turn < o.max_heading_sigma_rad**2 else None

    def at_keyframe(self, fix: PendingFix, place: Attachment) -> tuple[Pose | None, Vector]:
        """(pose of the keyframe or None, lever arm from the keyframe)."""
        space = self._space
        lever = space.act(place.offset, fix.lever)
        if fix.pose is None:
            return None, lever
        return space.compose(fix.pose, space.between(place.offset, space.identity)), lever
