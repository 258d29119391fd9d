"""Absolute positions and poses: checked, and waiting for the odometry of their instant."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .clocks import nanoseconds
from .motion import Pose, Vector, bad_quaternion
from .samples import FixSample
from .waiting import Intake, Pending, Shared

MAX_WAITING = 10000
"""Fixes that wait for odometry; further ones are refused."""


@dataclass
class PendingFix(Pending):
    """A fix that passed the checks."""

    pose: Pose | None
    """T_map_base; None = position only."""
    position: Vector
    """Of the antenna in map."""
    lever: Vector
    translation_variance: float
    rotation_variance: float


class Fixes(Intake[PendingFix]):
    """Absolute positions and poses on their way to keyframes."""

    kind = 'fixes'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        config, space = shared.config, shared.space
        self._options = config.fixes
        self._space = space
        self._frames = shared.frames
        self._bounds = shared.bounds
        zero = [0.0, 0.0, 0.0]
        self._levers = {
            robot: space.vector([*map(float, config.fixes.lever_arms.get(robot, zero)), 0.0])
            for robot in config.robots}
        self._interval_ns = nanoseconds(config.fixes.min_interval_s)
        self._last_ns: dict[int, int] = {}

    def add(self, sample: FixSample, stamp_ns: int) -> bool:
        """Take in a fix of a known robot with its stamp in data time."""
        counters, number = self.counters, self._robots[sample.robot]
        pending = self._checked(sample, stamp_ns)
        if isinstance(pending, str):
            return counters.drop(pending)
        last = self._last_ns.get(number)
        if stamp_ns == last:
            return counters.drop('duplicate')
        if last is not None and abs(stamp_ns - last) < self._interval_ns:
            return counters.drop('decimated')
        if counters.waiting >= MAX_WAITING:
            return counters.drop('too_many_waiting')
        self._last_ns[number] = stamp_ns
        self._clock.follow(stamp_ns)
        counters.waiting += 1
        self._waiting.append(pending)
        return True

    def _checked(self, sample: FixSample, stamp_ns: int) -> PendingFix | str:
        """The fix in the configured dimension, or why it is refused."""
        space = self._space
        position = sample.position_xyz.tolist()
        reason = self._bounds.place_fault(position[: space.dimension])
        if not reason and sample.satellite:
            reason = self._bounds.datum_fault(math.hypot(*position))
        if reason:
            return reason
        if sample.frame_id and sample.frame_id.lstrip('/') != self._config.frames.map:
            return 'wrong_frame'
        lever = self._lever(sample)
        move = self._position_variance(sample)
        turn = self._heading_variance(sample)
        pose = None
        if turn is None or sample.quat_xyzw is None:
            turn = math.inf
        else:
            _, turn = self._bounds.variances('fixes', move, turn)
            quat = sample.quat_xyzw.tolist()
            reason = bad_quaternion(quat)
            if reason:
                return reason
            mount = (*(-c for c in lever), *space.identity[space.dimension:])
            pose = space.compose(space.pose(position, quat), mount)
        return PendingFix(stamp_ns, ((self._robots[sample.robot], stamp_ns),), pose,
                          space.vector(position), lever, move, turn)

    def _lever(self, sample: FixSample) -> Vector:
        """Antenna in the base frame: as configured, or where its frame sits."""
        if sample.antenna and sample.robot not in self._options.lever_arms:
            known = self._frames.on_robot(self._config, sample.robot, sample.antenna)
            if known is not None:
                return self._space.vector(known)
        return self._levers[sample.robot]

    def _position_variance(self, sample: FixSample) -> float:
        """Mean variance per axis of the dimension, m^2."""
        spread = np.diagonal(sample.position_covariance)[: self._space.dimension]
        with np.errstate(over='ignore', invalid='ignore'):
            # Finite extremes may add up to infinity, which is refused below.
            move = float(np.mean(spread))
        if not math.isfinite(move) or np.any(spread <= 0):
            zero = math.isfinite(move) and not np.any(spread)
            self.counters.warnings['covariance_zero' if zero else 'covariance_unusable'] += 1
            move = self._options.sigma_m**2
        bounded = self._bounds.variance('fixes', move)
        if bounded > move:
            self.counters.warnings['too_certain'] += 1
        return bounded

    def _heading_variance(self, sample: FixSample) -> float | None:
        """Variance per axis of the rotation; None = it is not to be used."""
        options = self._options
        if options.use == 'position' or sample.quat_xyzw is None:
            return None
        usable = False
        turn = 0.0
        if sample.orientation_covariance is not None:
            diagonal = np.diagonal(sample.orientation_covariance)
            diagonal = diagonal[2:] if self._space.dimension == 2 else diagonal
            turn = float(np.mean(diagonal))
            usable = math.isfinite(turn) and bool(np.all(diagonal > 0))
        if options.use == 'pose':
            return turn if usable else options.sigma_rad**2
        return turn if usable and turn < options.max_heading_sigma_rad**2 else None
