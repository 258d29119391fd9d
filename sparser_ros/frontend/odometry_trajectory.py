"""Trajectories in `map` at the rate of the odometry: keyframes hold it, odometry fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..array_types import Array, Index
from ..graph import Estimate, Graph
from ..io import tum
from ..linalg.dense.rotations import (
    angle_to_matrix,
    matrix_to_angle,
    matrix_to_rotvec,
    rotvec_to_matrix,
)
from .motion import geometry
from .odometry_record import RecordedOdometry


@dataclass(frozen=True)
class FilledTrajectory:
    """Poses of one robot in `map`."""

    stamps_ns: Index
    """(k,): increasing."""
    rotation: Array
    """(k, d, d)."""
    translation: Array
    """(k, d): metres."""


FOLDER = 'odometry_rate'
"""Below the folder of the trajectories at the rate of the keyframes."""


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
        way = at_odometry_rate(recorded[robot], graph.poses.stamp_ns[rows],
                               estimate.rotation[rows], estimate.translation[rows])
        if len(way.stamps_ns):
            path = Path(directory) / FOLDER / f'{names[number]}.tum'
            path.parent.mkdir(parents=True, exist_ok=True)
            tum.write_one(path, way.stamps_ns.tolist(), way.rotation, way.translation,
                          (remarks or {}).get(robot, ''))
            paths.append(path)
    return paths


def at_odometry_rate(
    record: RecordedOdometry, stamps_ns: Index, rotation: Array, translation: Array
) -> FilledTrajectory:
    """Every recorded message from the first keyframe on, in the frame of the estimate.

    `stamps_ns` (m,), `rotation` (m, d, d) and `translation` (m, d) are the estimate of the
    keyframes of the robot. A message goes with the corrections (from the odometry frame into the
    frame of the estimate) of the keyframes before and after it, in proportion to the time: the
    trajectory passes through all keyframes without a step. At the end of a segment, and after the
    newest keyframe, only the keyframe before counts.
    """
    space = geometry(rotation.shape[-1])
    stamps, of, row = np.intersect1d(
        stamps_ns, record.keyframe_stamps_ns, return_indices=True)
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
    ends = [translation[of[k]] + _rotated(turn[k], own - origin[k]) for k in (first, second)]
    return FilledTrajectory(
        time, _between(turn[first], turn[second], share) @ own_turn,
        (1 - share) * ends[0] + share * ends[1])


def _rotated(rotation: Array, vectors: Array) -> Array:
    """(k, d): R v, row by row."""
    turned: Array = (rotation @ vectors[:, :, None])[:, :, 0]
    return turned


def _between(first: Array, second: Array, share: Array) -> Array:
    """(k, d, d): the rotation at a share of the shortest way from one to another."""
    way = np.swapaxes(first, 1, 2) @ second
    if first.shape[-1] == 2:
        return first @ angle_to_matrix(share[:, 0] * matrix_to_angle(way))
    return first @ rotvec_to_matrix(share * matrix_to_rotvec(way))
