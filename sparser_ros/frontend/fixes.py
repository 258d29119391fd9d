"""Absolute positions and poses: checked, and waiting for the odometry of their instant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import PointPriors, PosePriors
from .assembly import Assembly, Intake, Pending
from .clocks import nanoseconds
from .motion import Pose, Vector, bad_quaternion, believed, believed_m2, place_fault
from .samples import FixSample


@dataclass
class PendingFix(Pending):
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

    def check(self, sample: FixSample, stamp_ns: int) -> PendingFix | str:
        space, options = self._space, self._config.fixes
        position = sample.position_xyz.tolist()
        reason = place_fault(position[: space.dimension])
        if reason:
            return reason
        if sample.satellite and 0 < options.max_distance_m < math.hypot(*position):
            return 'far_from_datum'
        if sample.frame_id and sample.frame_id.lstrip('/') != self._config.frames.map:
            return 'wrong_frame'
        lever = self._lever(sample)
        move, turn = self._position_variance(sample), self._heading_variance(sample)
        pose = None
        if turn is None or sample.quat_xyzw is None:
            turn = math.inf
        else:
            _, turn = believed(options, move, turn)
            quat = sample.quat_xyzw.tolist()
            reason = bad_quaternion(quat)
            if reason:
                return reason
            mount = (*(-c for c in lever), *space.identity[space.dimension:])
            pose = space.compose(space.pose(position, quat), mount)
        number = self._robots[sample.robot]
        return self._one_too_many(number, stamp_ns, nanoseconds(options.min_interval_s)) \
            or PendingFix(
                stamp_ns, ((number, stamp_ns),), pose, space.vector(position), lever, move, turn)

    def _lever(self, sample: FixSample) -> Vector:
        """Antenna in the base frame: as configured, or where its frame sits."""
        arm: Sequence[float] | None = self._config.fixes.lever_arms.get(sample.robot)
        if arm is None and sample.antenna:
            arm = self._shared.frames.on_robot(self._config, sample.robot, sample.antenna)
        return self._space.vector([*map(float, arm or (0.0, 0.0)), 0.0])

    def _position_variance(self, sample: FixSample) -> float:
        """Mean variance per axis of the dimension, m^2."""
        spread = np.diagonal(sample.position_covariance)[: self._space.dimension]
        with np.errstate(over='ignore', invalid='ignore'):
            # Finite extremes may add up to infinity, which is refused below.
            move = float(np.mean(spread))
        if not math.isfinite(move) or np.any(spread <= 0):
            zero = math.isfinite(move) and not np.any(spread)
            self.counters.warnings['covariance_zero' if zero else 'covariance_unusable'] += 1
            move = self._config.fixes.sigma_m**2
        bounded = believed_m2(self._config.fixes, move)
        if bounded > move:
            self.counters.warnings['too_certain'] += 1
        return bounded

    def _heading_variance(self, sample: FixSample) -> float | None:
        """Variance per axis of the rotation; None = it is not to be used."""
        options = self._config.fixes
        if options.use == 'position' or sample.quat_xyzw is None:
            return None
        turn = math.nan
        if sample.orientation_covariance is not None:
            diagonal = np.diagonal(sample.orientation_covariance)
            diagonal = diagonal[2:] if self._space.dimension == 2 else diagonal
            if np.all(diagonal > 0):
                turn = float(np.mean(diagonal))
        usable = math.isfinite(turn)
        if options.use == 'pose':
            return turn if usable else options.sigma_rad**2
        return turn if usable and turn < options.max_heading_sigma_rad**2 else None

    def row(self, pending: PendingFix, assembly: Assembly) -> str:
        """A position with its lever arm from the keyframe, or the pose of the keyframe in map."""
        space, place = self._space, pending.place
        if pending.pose is None:
            assembly.add(
                PointPriors, assembly.row(place), space.act(place.offset, pending.lever),
                pending.position, 1 / pending.translation_variance, pending.stamp_ns)
        else:
            back = space.between(place.offset, space.identity)
            assembly.add(
                PosePriors, assembly.row(place), space.compose(pending.pose, back),
                assembly.kappa(pending.rotation_variance), 1 / pending.translation_variance,
                pending.stamp_ns)
        return ''
