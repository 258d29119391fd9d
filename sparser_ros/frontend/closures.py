"""Loop closures: checked, and waiting for the odometry of both instants."""

from __future__ import annotations

from collections import OrderedDict

from ..graph import RelativePoses
from .assembly import Assembly, Instant, Intake, Pending, Shared, remember
from .clocks import MAX_STAMP_NS, offset_ns
from .motion import Covariance, Pose, believed, fault, pose_fault
from .samples import ClosureSample


class Closures(Intake):
    """Loop closures on their way to keyframes."""

    kind = 'closures'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._known: OrderedDict[tuple[Instant, Instant], None] = OrderedDict()

    def check(self, sample: ClosureSample, stamp_ns: int) -> Pending | str:
        options, space = self._config.closures, self._space
        instants = self._instants(sample)
        if isinstance(instants, str):
            return instants
        position, quat = sample.position_xyz.tolist(), sample.quat_xyzw.tolist()
        reason = pose_fault(position, quat)
        if reason:
            return reason
        if sample.confidence < options.min_confidence:
            return 'low_confidence'
        motion = space.pose(position, quat)
        if options.max_translation_m and space.distance(motion) > options.max_translation_m:
            return 'too_long'
        reason = fault(sample.covariance, space.dimension)
        if reason and reason != 'zero':
            self.counters.warnings[f'covariance_{reason}'] += 1
        covariance = space.isotropic(options.sigma_m**2, options.sigma_rad**2) if reason \
            else space.covariance(sample.covariance)
        if instants in self._known or instants[::-1] in self._known:
            return 'duplicate'
        remember(self._known, instants)
        return Pending(
            max(sample.from_stamp_ns, sample.to_stamp_ns), instants, (motion, covariance))

    def _instants(self, sample: ClosureSample) -> tuple[Instant, Instant] | str:
        """Its two ends in the time of the robots' odometry, or why there are none."""
        numbers, clocks = self._shared.numbers, self._config.odometry.time_offsets
        if sample.from_robot not in numbers or sample.to_robot not in numbers:
            return 'unknown_robot'
        if sample.from_stamp_ns <= 0 or sample.to_stamp_ns <= 0:
            return 'no_stamp'
        if max(sample.from_stamp_ns, sample.to_stamp_ns) > MAX_STAMP_NS:
            return 'stamp_out_of_bounds'
        shift = offset_ns(self._config.closures.time_offsets, sample.detector)
        from_ns = sample.from_stamp_ns + shift + offset_ns(clocks, sample.from_robot)
        to_ns = sample.to_stamp_ns + shift + offset_ns(clocks, sample.to_robot)
        if self._clock.beyond(max(from_ns, to_ns)):
            return 'in_the_future'
        return (numbers[sample.from_robot], from_ns), (numbers[sample.to_robot], to_ns)

    def row(self, assembly: Assembly, pending: Pending, motion: Pose, covariance: Covariance
            ) -> str:
        """T_kf_from_kf_to = T_kf_from T_from_to T_to_kf."""
        space, start, end = self._space, pending.places[0], pending.places[1]
        if (start.robot, start.number) == (end.robot, end.number):
            return 'same_keyframe'
        back = space.between(end.offset, space.identity)
        if back != space.identity:
            covariance = space.appended(covariance, motion, back, space.isotropic(0.0, 0.0))
        move, turn = space.variances(covariance)
        bounded = believed(self._config.closures, move, turn)
        if bounded[0] > move or bounded[1] > turn:
            self.counters.warnings['too_certain'] += 1
        assembly.add(
            RelativePoses, assembly.row(start), assembly.row(end),
            space.compose(start.offset, space.compose(motion, back)),
            assembly.kappa(bounded[1]), 1 / bounded[0], False, pending.stamp_ns)
        return ''
