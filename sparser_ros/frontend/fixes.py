"""Absolute positions and poses: checked, and waiting for the odometry of their instant."""

from __future__ import annotations

import math

import numpy as np

from ..graph import PointPriors, PosePriors
from .assembly import Assembly, Intake, Pending
from .motion import Pose, Vector, bad_quaternion, believed, believed_m2, place_fault
from .samples import FixSample


class Fixes(Intake):
    """Absolute positions and poses on their way to keyframes."""

    kind = 'fixes'

    def check(self, sample: FixSample, stamp_ns: int) -> Pending | str:
        space, options = self._space, self._config.fixes
        position = sample.position_xyz.tolist()
        reason = place_fault(position[: space.dimension])
        if reason:
            return reason
        if sample.satellite and 0 < options.max_distance_m < math.hypot(*position):
            return 'far_from_datum'
        if sample.frame_id and sample.frame_id.lstrip('/') != self._config.frames.map:
            return 'wrong_frame'
        arm = options.lever_arms.get(sample.robot) or (self._shared.frames.on_robot(
            self._config, sample.robot, sample.antenna) if sample.antenna else None)
        lever = space.vector([*map(float, arm or (0.0, 0.0)), 0.0])
        move, turn, pose = self._position_variance(sample), self._heading_variance(sample), None
        if turn is not None and sample.quat_xyzw is not None:
            _, turn = believed(options, move, turn)
            quat = sample.quat_xyzw.tolist()
            reason = bad_quaternion(quat)
            if reason:
                return reason
            mount = (*(-c for c in lever), *space.identity[space.dimension:])
            pose = space.compose(space.pose(position, quat), mount)
        return self._one_too_many(sample.robot, stamp_ns, options.min_interval_s) \
            or self._of_robot(
                sample.robot, stamp_ns, pose, space.vector(position), lever, move, turn)

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

    def row(self, assembly: Assembly, pending: Pending, pose: Pose | None, position: Vector,
            lever: Vector, move: float, turn: float) -> str:
        """A position (of the antenna) with its lever arm from the keyframe, or the pose of the
        keyframe in map; variances per axis."""
        space, place = self._space, pending.places[0]
        if pose is None:
            assembly.add(PointPriors, assembly.row(place), space.act(place.offset, lever),
                         position, 1 / move, pending.stamp_ns)
        else:
            back = space.between(place.offset, space.identity)
            assembly.add(PosePriors, assembly.row(place), space.compose(pose, back),
                         assembly.kappa(turn), 1 / move, pending.stamp_ns)
        return ''
