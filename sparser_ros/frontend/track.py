"""The odometry of one robot: recent poses, keyframes, and the noise between consecutive ones."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import SparserConfig
from .clocks import MAX_STAMP_NS, nanoseconds
from .motion import Covariance, Geometry, Pose, believed, fault
from .record import OdometryRecord, PoseColumn, RecordedOdometry

LONGEST_GAP_NS = nanoseconds(2.0)
"""No interpolation between odometry messages further apart."""
RECORDED = 100_000
"""Messages of a robot kept for trajectories at the rate of the odometry, 40 bytes each, 72 in
space."""


class Reading(NamedTuple):
    """One message of odometry in the configured dimension."""

    stamp_ns: int
    pose: Pose
    pose_covariance: Array
    twist_covariance: Array


class Step(NamedTuple):
    """How far a robot went, or may have gone, from one reading to the next."""

    seconds: float
    distance_m: float
    angle_rad: float


class Attachment(NamedTuple):
    """An instant of a robot: its nearest keyframe and the odometry from there to the instant."""

    robot: int
    number: int
    offset: Pose


class Track:
    """Poses of one robot in its odometry frame, in time order."""

    def __init__(self, robot: int, config: SparserConfig, space: Geometry) -> None:
        options = config.odometry
        self._robot = robot
        self._space = space
        self._options = options
        self._mode = config.odometry_noise
        self._exact = config.ranges.attach == 'exact'
        self._keyframes = config.keyframes
        self._history_ns = nanoseconds(options.history_s)
        self._reach_ns = nanoseconds(options.max_extrapolation_s)
        # Exact attachments may take any near keyframe, the nearest one needs to be the nearest.
        self._window_ns = nanoseconds(
            config.stamps.reorder_window_s if self._exact else config.stamps.timeout_s)
        self.stamps: list[int] = []
        self.poses: list[Pose] = []
        # Columns, not lists: a thinning reads all of them within one callback.
        self.keyframe_stamps = array('q')
        self.keyframe_poses = PoseColumn(len(space.identity))
        self._all_stamps = array('q')
        self._all_poses = PoseColumn(len(space.identity))
        """Keyframes, thinned ones included: a closure may name an instant of hours ago, whose
        keyframe may be gone. 32 bytes a keyframe in 2D and 64 in 3D."""
        self._thinned_ns = 0
        """Stamp of the newest keyframe that is gone."""
        self.edges: list[tuple[int, Pose, float, float]] = []
        """Number of a keyframe, motion to it from the one before, and variances per axis of its
        translation and rotation, of those that no increment holds yet."""
        self.rows = array('q')
        """Pose rows of the keyframes handed out so far."""
        self.segments: list[int] = []
        """Numbers of the keyframes at which a segment begins, the first one included."""
        self._record = OdometryRecord(len(space.identity), RECORDED)
        self.travelled_m = 0.0
        """Way since the start."""
        self._begin_edge(None)

    def _begin_edge(self, covariance: Covariance) -> None:
        """Begin to accumulate at a new keyframe."""
        self._motion = self._space.identity
        self._total: Covariance = self._space.certain
        self._path = self._turn = 0.0
        self._covariance = covariance
        self._gap_variances = (0.0, 0.0)

    def add(self, reading: Reading, step: Step | None, unseen: bool = False) -> str:
        """Append a reading newer than all others; returns a warning, '' = none.

        `unseen`: the step is only what the robot may have made in a silence. Without a step a
        segment begins. Nothing is known of the motion before it (not even that the robot goes on
        with its velocity: a simulator may have set it elsewhere): its first reading becomes a
        keyframe without an edge into it.
        """
        stamp_ns, pose, space = reading.stamp_ns, reading.pose, self._space
        warning, usable = '', None
        if self._mode == 'pose_accumulated':
            warning, usable = self._usable(reading.pose_covariance)
        if step is None or not self.stamps:
            self.segments.append(len(self.keyframe_stamps))
            self._append(stamp_ns, pose)
            self._keyframe(stamp_ns, pose, usable)
            return warning
        if unseen:
            self._gap_variances = self._widened(self._configured(*step))
        self.travelled_m += step.distance_m
        self._path += step.distance_m
        self._turn += step.angle_rad
        if self._mode in ('pose_increment', 'twist'):
            own = self._mode == 'pose_increment'
            warning, noise = self._usable(
                reading.pose_covariance if own else reading.twist_covariance)
            if noise is None:
                noise = space.isotropic(*self._configured(*step))
            elif not own:
                noise = space.covariance(reading.twist_covariance * step.seconds**2)
            self._total = space.appended(
                self._total, self._motion, space.between(self.poses[-1], pose), noise)
        self._append(stamp_ns, pose)
        motion = self._motion = space.between(self.keyframe_poses[-1], pose)
        elapsed_ns, o = stamp_ns - self.keyframe_stamps[-1], self._keyframes
        if o.every_message or elapsed_ns >= o.time_s * 1e9 \
                or space.distance(motion) >= o.distance_m or space.angle(motion) >= o.angle_rad:
            variances, doubt = self._variances(stamp_ns, pose, usable)
            self.edges.append((
                len(self.keyframe_stamps), motion, *believed(self._options, *variances)))
            self._keyframe(stamp_ns, pose, usable)
            warning = warning or doubt
        return warning

    def _usable(self, covariance: Array) -> tuple[str, Any]:
        reason = fault(covariance, self._space.dimension)
        if reason:
            return f'covariance_{reason}', None
        return '', self._space.covariance(covariance)

    def _configured(self, seconds: float, distance: float, angle: float) -> tuple[float, float]:
        """Variances per axis (translation, rotation) of a random walk along that motion."""
        o = self._options
        seconds = max(seconds, 1e-9)
        return (
            o.sigma_m_per_sqrt_m**2 * distance + o.sigma_m_per_sqrt_rad**2 * angle
            + o.sigma_m_per_sqrt_s**2 * seconds,
            o.sigma_rad_per_sqrt_m**2 * distance + o.sigma_rad_per_sqrt_rad**2 * angle
            + o.sigma_rad_per_sqrt_s**2 * seconds,
        )

    def _variances(
        self, stamp_ns: int, pose: Pose, covariance: Any
    ) -> tuple[tuple[float, float], str]:
        """Variances of the edge into a keyframe at this pose, and a warning."""
        fallback = self._configured(
            (stamp_ns - self.keyframe_stamps[-1]) * 1e-9, self._path, self._turn)
        if self._mode in ('pose_increment', 'twist'):
            return self._widened(self._space.variances(self._total)), ''
        if self._mode == 'configured' or covariance is None or self._covariance is None:
            return fallback, ''
        grown = self._space.growth(self.keyframe_poses[-1], pose, self._covariance, covariance)
        if min(grown) <= 0:
            return fallback, 'covariance_not_growing'
        return self._widened(grown), ''

    def _widened(self, variances: tuple[float, float]) -> tuple[float, float]:
        """With those of what happened in silences since the last keyframe."""
        return variances[0] + self._gap_variances[0], variances[1] + self._gap_variances[1]

    def _append(self, stamp_ns: int, pose: Pose) -> None:
        self.stamps.append(stamp_ns)
        self.poses.append(pose)
        self._record.append(stamp_ns, pose, len(self.segments) - 1)
        # Cutting in large steps keeps the cost per message constant.
        if len(self.stamps) >= 512 and len(self.stamps) % 256 == 0:
            old = bisect.bisect_left(self.stamps, stamp_ns - self._history_ns)
            if old > len(self.stamps) // 4:
                del self.stamps[:old], self.poses[:old]

    def _keyframe(self, stamp_ns: int, pose: Pose, covariance: Any) -> None:
        for stamps, poses in ((self.keyframe_stamps, self.keyframe_poses),
                              (self._all_stamps, self._all_poses)):
            stamps.append(stamp_ns)
            poses.append(pose)
        self._begin_edge(covariance)

    @property
    def chains(self) -> Index:
        """(k,): number of the segment of every keyframe."""
        numbers = np.arange(len(self.keyframe_stamps))
        return np.searchsorted(np.array(self.segments, dtype=np.int64), numbers, side='right') - 1

    def thin(self, keep: Mask, rows: Index) -> None:
        """Forget keyframes but those of a mask (k,), whose pose rows are `rows` from now on.

        All edges are handed out; the first keyframe of every segment stays.
        """
        stamps = np.array(self.keyframe_stamps)
        self._thinned_ns = max(self._thinned_ns, int(stamps[~keep].max(initial=0)))
        self.keyframe_poses.take(keep)
        self.keyframe_stamps = array('q', stamps[keep].tobytes())
        self.segments = (np.cumsum(keep) - 1)[self.segments].tolist()
        self.rows = array('q', rows.astype(np.int64).tobytes())

    def _broken(self, first_ns: int, second_ns: int) -> bool:
        """True if a segment begins after the first instant and up to the second."""
        before, after = (
            bisect.bisect_right(self.segments, stamp_ns, key=self.keyframe_stamps.__getitem__)
            for stamp_ns in (first_ns, second_ns))
        return before != after

    @property
    def recorded(self) -> RecordedOdometry:
        """The messages and keyframes so far, which do not change any more.

        Messages that came later than the reorder window are not among them.
        """
        return RecordedOdometry(
            *self._record.columns, np.array(self.keyframe_stamps, dtype=np.int64),
            self.keyframe_poses.values, self.chains)

    def locate(self, stamp_ns: int, final: bool) -> Attachment | str | None:
        """The attachment of an instant; None = wait for odometry; a text = why there is none.

        The next keyframe counts as a neighbour only within a fixed window, so that the choice
        does not depend on how late the question is asked. `final` = do not wait.
        """
        if not self.stamps:
            return 'no_odometry' if final else None
        newest = self.stamps[-1]
        after = bisect.bisect_right(self.keyframe_stamps, stamp_ns)
        if after and self.keyframe_stamps[after - 1] == stamp_ns:
            return Attachment(self._robot, after - 1, self._space.identity)
        if after == len(self.keyframe_stamps) and not final and newest < stamp_ns + self._window_ns:
            return None
        covered = self.keyframe_stamps[0] <= stamp_ns <= newest
        pose = self._pose_at(stamp_ns) if self._exact or not covered else self.poses[-1]
        if isinstance(pose, str):
            return pose
        number = self._keyframe_of(stamp_ns, after)
        if isinstance(number, str):
            return number
        offset = self._space.identity
        if self._exact:
            offset = self._space.between(self.keyframe_poses[number], pose)
        return Attachment(self._robot, number, offset)

    def odometry_at(self, place: Attachment) -> tuple[int, Pose]:
        """Number (from 1 on) of the segment of an attached instant, and its pose in odometry."""
        return (bisect.bisect_right(self.segments, place.number),
                self._space.compose(self.keyframe_poses[place.number], place.offset))

    def _keyframe_of(self, stamp_ns: int, after: int) -> int | str:
        """The keyframe that an instant attaches to, of the segment its pose belongs to."""
        number = max(after - 1, 0)
        if not 0 < after < len(self.keyframe_stamps):
            return number
        ahead = self.keyframe_stamps[after] - stamp_ns
        if after in self.segments:
            row = bisect.bisect_left(self.stamps, self.keyframe_stamps[after])
            end = self.stamps[row - 1] if row else self.keyframe_stamps[after - 1]
            if stamp_ns <= end:
                return number
            near = self._nearer_side(end, stamp_ns, self.keyframe_stamps[after])
            if near is None:
                return 'odometry_gap'
            return number if near == end else after
        # Where keyframes were thinned, the way to the one before may be long.
        thinned = stamp_ns <= self._thinned_ns
        if (ahead <= self._window_ns or thinned) \
                and ahead < stamp_ns - self.keyframe_stamps[number]:
            number = after
        return number

    def _nearer_side(self, first_ns: int, stamp_ns: int, second_ns: int) -> int | None:
        """The nearer of two instants, if within reach of extrapolation."""
        near = first_ns if 2 * stamp_ns <= first_ns + second_ns else second_ns
        return near if abs(stamp_ns - near) <= self._reach_ns else None

    def _pose_at(self, stamp_ns: int) -> Pose | str:
        """Pose by interpolation, or a bit of extrapolation; a text = why there is none."""
        stamps: Sequence[int] = self.stamps
        poses: PoseColumn | Sequence[Pose] = self.poses
        gap_ns = LONGEST_GAP_NS
        if stamp_ns < stamps[0] and stamps[0] > self.keyframe_stamps[0]:
            # What was pruned survives as keyframes.
            stamps, poses, gap_ns = self._all_stamps, self._all_poses, MAX_STAMP_NS
        after = bisect.bisect_left(stamps, stamp_ns)
        if after < len(stamps) and stamps[after] == stamp_ns:
            return poses[after]
        inside = 0 < after < len(stamps)
        first = min(max(after - 1, 0), len(stamps) - 2)
        second = first + 1
        joined = first >= 0 and stamps[second] - stamps[first] <= gap_ns \
            and not self._broken(stamps[first], stamps[second])
        if not inside:
            end = 0 if after == 0 else len(stamps) - 1
            if abs(stamp_ns - stamps[end]) > self._reach_ns:
                return 'before_odometry' if after == 0 else 'after_odometry'
            if not joined:
                return poses[end]
        elif not joined:
            near = self._nearer_side(stamps[first], stamp_ns, stamps[second])
            return 'odometry_gap' if near is None \
                else poses[first if near == stamps[first] else second]
        share = (stamp_ns - stamps[first]) / (stamps[second] - stamps[first])
        return self._space.interpolate(poses[first], poses[second], share)
