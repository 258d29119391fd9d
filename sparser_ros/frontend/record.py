"""The whole odometry of a robot (older messages are thinned), and trajectories in `map` at its
rate: keyframes hold them, odometry fills them in."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..array_types import Array, Index, Mask
from ..graph import Estimate, Graph
from ..io import tum
from ..linalg.rotations import angle_to_matrix, matrix_to_angle, matrix_to_rotvec, rotvec_to_matrix
from .motion import Pose, geometry

FOLDER = 'odometry_rate'
"""Below the folder of the trajectories at the rate of the keyframes."""


class PoseColumn:
    """Poses in the order of time, `width` numbers each, as one growing column: numpy reads it at
    once, as tuples they would take milliseconds."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._numbers = array('d')

    def __len__(self) -> int:
        return len(self._numbers) // self._width

    def __getitem__(self, number: int) -> Pose:
        begin = range(len(self))[number] * self._width
        return tuple(self._numbers[begin:begin + self._width])

    def append(self, pose: Pose) -> None:
        self._numbers.extend(pose)

    @property
    def values(self) -> Array:
        """(k, width): a copy."""
        return np.array(self._numbers).reshape(-1, self._width)

    def take(self, keep: Mask) -> None:
        """Forget all but those of a mask (k,)."""
        self._numbers = array('d', self.values[keep].tobytes())


@dataclass(frozen=True)
class RecordedOdometry:
    """Recorded odometry and keyframes of one robot, in its odometry frame.

    Poses are rows `x y yaw` or `x y z qx qy qz qw`; within a segment they are of one frame.
    """

    stamps_ns: Index
    """(k,): increasing."""
    segments: Index
    """(k,): number of the segment of every message."""
    poses: Array
    """(k, 3) or (k, 7)."""
    keyframe_stamps_ns: Index
    """(m,)."""
    keyframe_poses: Array
    """(m, 3) or (m, 7)."""
    keyframe_segments: Index
    """(m,)."""


class OdometryRecord:
    """Messages of one robot as they were believed, at most `limit` of them.

    Of a full one every second message goes where messages are closest for their age: gaps grow
    in proportion to the age, as those between thinned keyframes do, and the newest have the full
    rate. A front-end that goes on from a checkpoint begins another record: messages before the
    checkpoint are not in it.
    """

    def __init__(self, width: int, limit: int) -> None:
        self._width, self._limit = width, limit
        self._numbers = array('q')
        """Stamps and segments, in turns."""
        self._poses = PoseColumn(width)

    def __reduce__(self) -> tuple[type[OdometryRecord], tuple[int, int]]:
        # Left out of the journal's checkpoints, whose time it would multiply: no estimate needs it.
        return OdometryRecord, (self._width, self._limit)

    def append(self, stamp_ns: int, pose: Pose, segment: int) -> None:
        """Keep a message newer than all others."""
        self._numbers.extend((stamp_ns, segment))
        self._poses.append(pose)
        if len(self._numbers) <= 2 * self._limit:
            return
        stamps, segments, _ = self.columns
        second = np.arange(1, len(stamps) - 1, 2)
        gap_for_age = (stamps[second + 1] - stamps[second - 1]) / (stamps[-1] - stamps[second])
        keep = np.ones(len(stamps), dtype=bool)
        keep[second[gap_for_age <= np.median(gap_for_age)]] = False
        self._poses.take(keep)
        self._numbers = array('q', np.column_stack([stamps, segments])[keep].tobytes())

    @property
    def columns(self) -> tuple[Index, Index, Array]:
        """Stamps and segments (k,), and poses (k, width): copies."""
        numbers = np.array(self._numbers, dtype=np.int64).reshape(-1, 2)
        return numbers[:, 0], numbers[:, 1], self._poses.values


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
            path.parent.mkdir(parents=True, exist_ok=True)
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
    stamps, of, row = np.intersect1d(stamps_ns, record.keyframe_stamps_ns, return_indices=True)
    odometry, origin = space.arrays(record.keyframe_poses[row])
    turn = rotation[of] @ np.swapaxes(odometry, 1, 2)
    segment = record.keyframe_segments[row]

    message_stamps = record.stamps_ns
    before = np.searchsorted(stamps, message_stamps, side='right') - 1
    used = before >= 0
    used[used] = segment[before[used]] == record.segments[used]
    first, time = before[used], message_stamps[used]
    second = np.minimum(first + 1, len(stamps) - 1)
    second = np.where(segment[second] == segment[first], second, first)
    span = stamps[second] - stamps[first]
    share = np.where(span > 0, (time - stamps[first]) / np.maximum(span, 1), 0.0)[:, None]

    own_turn, own = space.arrays(record.poses[used])
    ends = [translation[of[k]] + (turn[k] @ (own - origin[k])[:, :, None])[:, :, 0]
            for k in (first, second)]
    # Rotations at that share of the shortest way from one to the other.
    way = np.swapaxes(turn[first], 1, 2) @ turn[second]
    way = angle_to_matrix(share[:, 0] * matrix_to_angle(way)) if space.dimension == 2 \
        else rotvec_to_matrix(share * matrix_to_rotvec(way))
    return time, turn[first] @ way @ own_turn, (1 - share) * ends[0] + share * ends[1]
