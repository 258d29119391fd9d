"""The odometry of one robot: recent poses, keyframes, and the noise between consecutive ones; all
of it as recorded (older messages are thinned); and trajectories in `map` at its rate, which pass
through the keyframes of an estimate and follow the odometry in between."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import SparserConfig
from ..graph import Estimate, Graph
from ..io import tum
from ..linalg.rotations import angle_to_matrix, matrix_to_angle, matrix_to_rotvec, rotvec_to_matrix
from .clocks import nanoseconds
from .motion import Covariance, Geometry, Pose, believed, fault, geometry
from .samples import MAX_STAMP_NS

LONGEST_GAP_NS, LONGEST_GAP_PERIODS = nanoseconds(2.0), 2
"""No interpolation between odometry messages further apart than both: a time, and so many of the
interval before."""
RECORDED = 100_000
"""Messages of a robot kept for trajectories at the rate of the odometry, 40 bytes each, 72 in
space."""
FOLDER = 'odometry_rate'
"""Below the folder of the trajectories at the rate of the keyframes."""


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


class PoseColumns(NamedTuple):
    """Poses of one robot in its odometry frame, in the order of time."""

    stamps_ns: Index
    """(k,): increasing."""
    segments: Index
    """(k,): number of the segment of each; within a segment they are of one frame."""
    poses: Array
    """(k, 3) rows `x y yaw`, or (k, 7) rows `x y z qx qy qz qw`."""


class RecordedOdometry(NamedTuple):
    """Recorded odometry of one robot."""

    messages: PoseColumns
    keyframes: PoseColumns


class PoseLog:
    """Poses with their stamps and segments as growing columns: numpy reads them at once, as tuples
    they would take milliseconds."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.stamps, self.segments, self._numbers = array('q'), array('q'), array('d')

    def __len__(self) -> int:
        return len(self.stamps)

    def __getitem__(self, number: int) -> Pose:
        begin = range(len(self))[number] * self._width
        return tuple(self._numbers[begin:begin + self._width])

    def append(self, stamp_ns: int, pose: Pose, segment: int) -> None:
        """Keep a pose newer than all others."""
        self.stamps.append(stamp_ns)
        self.segments.append(segment)
        self._numbers.extend(pose)

    @property
    def columns(self) -> PoseColumns:
        """Copies."""
        return PoseColumns(np.array(self.stamps), np.array(self.segments),
                           np.array(self._numbers).reshape(-1, self._width))

    def take(self, keep: Mask) -> None:
        """Forget all but those of a mask (k,)."""
        stamps, segments, poses = self.columns
        self.stamps = array('q', stamps[keep].tobytes())
        self.segments = array('q', segments[keep].tobytes())
        self._numbers = array('d', poses[keep].tobytes())


class OdometryRecord(PoseLog):
    """Messages of one robot as they were believed, at most `limit` of them.

    Of a full one every second message goes where messages are closest for their age: gaps grow
    in proportion to the age, as those between thinned keyframes do, and the newest have the full
    rate. A front-end that goes on from a checkpoint begins another record: messages before the
    checkpoint are not in it.
    """

    def __init__(self, width: int, limit: int) -> None:
        super().__init__(width)
        self._limit = limit

    def __reduce__(self) -> tuple[type[OdometryRecord], tuple[int, int]]:
        # Left out of the journal's checkpoints, whose time it would multiply: no estimate needs it.
        return OdometryRecord, (self._width, self._limit)

    def append(self, stamp_ns: int, pose: Pose, segment: int) -> None:
        """Keep a message newer than all others."""
        super().append(stamp_ns, pose, segment)
        if len(self) <= self._limit:
            return
        stamps = self.columns.stamps_ns
        second = np.arange(1, len(stamps) - 1, 2)
        gap_for_age = (stamps[second + 1] - stamps[second - 1]) / (stamps[-1] - stamps[second])
        keep = np.ones(len(stamps), dtype=bool)
        keep[second[gap_for_age <= np.median(gap_for_age)]] = False
        self.take(keep)


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
        self.keyframes, self._all = (PoseLog(len(space.identity)) for _ in range(2))
        """The second with those that are thinned: a closure may name an instant of hours ago, whose
        keyframe may be gone. 40 bytes a keyframe in 2D and 72 in 3D."""
        self._thinned_ns = 0
        """Stamp of the newest keyframe that is gone."""
        self.edges: list[tuple[int, Pose, float, float]] = []
        """Number of a keyframe, motion to it from the one before, and variances per axis of its
        translation and rotation, of those that no increment holds yet."""
        self.rows = array('q')
        """Pose rows of the keyframes handed out so far."""
        self.segment = -1
        """Number of the newest segment; -1 = no odometry yet."""
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
            self.segment += 1
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
        motion = self._motion = space.between(self.keyframes[-1], pose)
        elapsed_ns, o = stamp_ns - self.keyframes.stamps[-1], self._keyframes
        if o.every_message or elapsed_ns >= o.time_s * 1e9 \
                or space.distance(motion) >= o.distance_m or space.angle(motion) >= o.angle_rad:
            variances, doubt = self._variances(stamp_ns, pose, usable)
            self.edges.append((
                len(self.keyframes), motion, *believed(self._options, *variances)))
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
            (stamp_ns - self.keyframes.stamps[-1]) * 1e-9, self._path, self._turn)
        if self._mode in ('pose_increment', 'twist'):
            return self._widened(self._space.variances(self._total)), ''
        if self._mode == 'configured' or covariance is None or self._covariance is None:
            return fallback, ''
        grown = self._space.growth(self.keyframes[-1], pose, self._covariance, covariance)
        if min(grown) <= 0:
            return fallback, 'covariance_not_growing'
        return self._widened(grown), ''

    def _widened(self, variances: tuple[float, float]) -> tuple[float, float]:
        """With those of what happened in silences since the last keyframe."""
        return variances[0] + self._gap_variances[0], variances[1] + self._gap_variances[1]

    def _append(self, stamp_ns: int, pose: Pose) -> None:
        self.stamps.append(stamp_ns)
        self.poses.append(pose)
        self._record.append(stamp_ns, pose, self.segment)
        # Cutting in large steps keeps the cost per message constant.
        if len(self.stamps) >= 512 and len(self.stamps) % 256 == 0:
            old = bisect.bisect_left(self.stamps, stamp_ns - self._history_ns)
            if old > len(self.stamps) // 4:
                del self.stamps[:old], self.poses[:old]

    def _keyframe(self, stamp_ns: int, pose: Pose, covariance: Any) -> None:
        self.keyframes.append(stamp_ns, pose, self.segment)
        self._all.append(stamp_ns, pose, self.segment)
        self._begin_edge(covariance)

    def thin(self, keep: Mask, rows: Index) -> None:
        """Forget keyframes but those of a mask (k,), whose pose rows are `rows` from now on.

        All edges are handed out; the first keyframe of every segment stays.
        """
        gone = self.keyframes.columns.stamps_ns[~keep]
        self._thinned_ns = max(self._thinned_ns, int(gone.max(initial=0)))
        self.keyframes.take(keep)
        self.rows = array('q', rows.astype(np.int64).tobytes())

    def _segment_at(self, stamp_ns: int) -> int:
        """Number of the segment of an instant; -1 = before all."""
        after = bisect.bisect_right(self.keyframes.stamps, stamp_ns)
        return self.keyframes.segments[after - 1] if after else -1

    @property
    def segment_begin_ns(self) -> int:
        """Stamp of the first keyframe of the newest segment; there must be one."""
        return self.keyframes.stamps[bisect.bisect_left(self.keyframes.segments, self.segment)]

    @property
    def recorded(self) -> RecordedOdometry:
        """The messages and keyframes so far, which do not change any more.

        Messages that came later than the reorder window are not among them.
        """
        return RecordedOdometry(self._record.columns, self.keyframes.columns)

    def locate(self, stamp_ns: int, final: bool) -> Attachment | str | None:
        """The attachment of an instant; None = wait for odometry; a text = why there is none.

        The next keyframe counts as a neighbour only within a fixed window, so that the choice
        does not depend on how late the question is asked. `final` = do not wait.
        """
        if not self.stamps:
            return 'no_odometry' if final else None
        newest, keyframe_ns = self.stamps[-1], self.keyframes.stamps
        after = bisect.bisect_right(keyframe_ns, stamp_ns)
        if after and keyframe_ns[after - 1] == stamp_ns:
            return Attachment(self._robot, after - 1, self._space.identity)
        if after == len(keyframe_ns) and not final and newest < stamp_ns + self._window_ns:
            return None
        covered = keyframe_ns[0] <= stamp_ns <= newest
        pose = self._pose_at(stamp_ns) if self._exact or not covered else self.poses[-1]
        if isinstance(pose, str):
            return pose
        number = self._keyframe_of(stamp_ns, after)
        if isinstance(number, str):
            return number
        offset = self._space.identity
        if self._exact:
            offset = self._space.between(self.keyframes[number], pose)
        return Attachment(self._robot, number, offset)

    def odometry_at(self, place: Attachment) -> tuple[int, Pose]:
        """Number of the segment of an attached instant, and its pose in odometry."""
        return (self.keyframes.segments[place.number],
                self._space.compose(self.keyframes[place.number], place.offset))

    def _keyframe_of(self, stamp_ns: int, after: int) -> int | str:
        """The keyframe that an instant attaches to, of the segment its pose belongs to."""
        number, keyframe_ns = max(after - 1, 0), self.keyframes.stamps
        if not 0 < after < len(keyframe_ns):
            return number
        ahead = keyframe_ns[after] - stamp_ns
        if self.keyframes.segments[after] != self.keyframes.segments[number]:
            row = bisect.bisect_left(self.stamps, keyframe_ns[after])
            end = self.stamps[row - 1] if row else keyframe_ns[number]
            if stamp_ns <= end:
                return number
            near = self._nearer_side(end, stamp_ns, keyframe_ns[after])
            if near is None:
                return 'odometry_gap'
            return number if near == end else after
        # Where keyframes were thinned, the way to the one before may be long.
        thinned = stamp_ns <= self._thinned_ns
        if (ahead <= self._window_ns or thinned) \
                and ahead < stamp_ns - keyframe_ns[number]:
            number = after
        return number

    def _nearer_side(self, first_ns: int, stamp_ns: int, second_ns: int) -> int | None:
        """The nearer of two instants, if within reach of extrapolation."""
        near = first_ns if 2 * stamp_ns <= first_ns + second_ns else second_ns
        return near if abs(stamp_ns - near) <= self._reach_ns else None

    def _pose_at(self, stamp_ns: int) -> Pose | str:
        """Pose by interpolation, or a bit of extrapolation; a text = why there is none."""
        stamps: Sequence[int] = self.stamps
        poses: PoseLog | Sequence[Pose] = self.poses
        gap_ns = LONGEST_GAP_NS
        if stamp_ns < stamps[0] and stamps[0] > self.keyframes.stamps[0]:
            # What was pruned survives as keyframes.
            stamps, poses, gap_ns = self._all.stamps, self._all, MAX_STAMP_NS
        after = bisect.bisect_left(stamps, stamp_ns)
        if after < len(stamps) and stamps[after] == stamp_ns:
            return poses[after]
        inside = 0 < after < len(stamps)
        first = min(max(after - 1, 0), len(stamps) - 2)
        second = first + 1
        if first > 0:
            gap_ns = max(gap_ns, LONGEST_GAP_PERIODS * (stamps[first] - stamps[first - 1]))
        joined = first >= 0 and stamps[second] - stamps[first] <= gap_ns \
            and self._segment_at(stamps[first]) == self._segment_at(stamps[second])
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


# -- trajectories ----------------------------------------------------------------------------------


def write(directory: Path | str, graph: Graph, estimate: Estimate,
          recorded: Mapping[str, RecordedOdometry],
          remarks: Mapping[str, str] | None = None) -> list[Path]:
    """Write `odometry_rate/<robot>.tum` of every robot that has poses and recorded odometry.

    `remarks`: as of `io.tum.write`.
    """
    paths = []
    names = tum.safe_names(graph.robots)
    for number, robot in enumerate(graph.robots):
        rows = np.flatnonzero(graph.poses.robot == number)
        if not len(rows) or robot not in recorded:
            continue
        stamps, rotation, translation = at_odometry_rate(
            recorded[robot], graph.poses.stamp_ns[rows], estimate.rotation[rows],
            estimate.translation[rows])
        if len(stamps):
            path = Path(directory) / FOLDER / f'{names[number]}.tum'
            tum.write_one(path, stamps.tolist(), rotation, translation,
                          (remarks or {}).get(robot, ''))
            paths.append(path)
    return paths


def at_odometry_rate(
    record: RecordedOdometry, stamps_ns: Index, rotation: Array, translation: Array
) -> tuple[Index, Array, Array]:
    """Stamps (k,), rotations (k, d, d) and translations (k, d) of every recorded message from the
    first keyframe on, in the frame of the estimate.

    `stamps_ns` (m,), `rotation` (m, d, d) and `translation` (m, d) are the estimate of the
    keyframes of the robot. A message goes with the corrections (from the odometry frame into the
    frame of the estimate) of the keyframes before and after it, in proportion to the time: the
    trajectory passes through all keyframes without a step. At the end of a segment, and after the
    newest keyframe, only the keyframe before counts.
    """
    space = geometry(rotation.shape[-1])
    messages, keyframes = record
    stamps, of, row = np.intersect1d(stamps_ns, keyframes.stamps_ns, return_indices=True)
    odometry, origin = space.arrays(keyframes.poses[row])
    turn = rotation[of] @ np.swapaxes(odometry, 1, 2)
    segment = keyframes.segments[row]

    before = np.searchsorted(stamps, messages.stamps_ns, side='right') - 1
    used = before >= 0
    used[used] = segment[before[used]] == messages.segments[used]
    first, time = before[used], messages.stamps_ns[used]
    second = np.minimum(first + 1, len(stamps) - 1)
    second = np.where(segment[second] == segment[first], second, first)
    span = stamps[second] - stamps[first]
    share = np.where(span > 0, (time - stamps[first]) / np.maximum(span, 1), 0.0)[:, None]

    own_turn, own = space.arrays(messages.poses[used])
    ends = [translation[of[k]] + (turn[k] @ (own - origin[k])[:, :, None])[:, :, 0]
            for k in (first, second)]
    # Rotations at that share of the shortest way from one to the other.
    way = np.swapaxes(turn[first], 1, 2) @ turn[second]
    way = angle_to_matrix(share[:, 0] * matrix_to_angle(way)) if space.dimension == 2 \
        else rotvec_to_matrix(share * matrix_to_rotvec(way))
    return time, turn[first] @ way @ own_turn, (1 - share) * ends[0] + share * ends[1]
