"""One solution made ready to publish: transforms, paths and lines as arrays in `map`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..array_types import Array, Index, Mask
from ..backend.session.solution import Fix, Location, Solution
from ..graph import Ranges, Table, antennas
from .keyframe_arrays import Keyframes
from .transforms import Transform, lifted, planar_quats, spatial


@dataclass(frozen=True)
class DrawnTrajectory:
    """Keyframes of one located robot in `map`."""

    stamps_ns: Index
    positions_xyz: Array
    quats_xyzw: Array


def map_to_odom(solution: Solution, keyframes: Keyframes) -> dict[str, Transform]:
    """T_map_odom of every robot whose pose is stated, from its newest keyframe in the solution.

    T_map_odom = T_map_base(k) inv(T_odom_base(k)): the odometry pose stored with the keyframe
    makes a look-up in the hot path unnecessary.
    """
    transforms = {}
    for robot, row in newest_rows(solution, keyframes, Fix.FLOAT).items():
        here = lifted(solution.estimate.rotation[row], solution.estimate.translation[row])
        transforms[robot] = here @ lifted(*keyframes.odometry(row)).inverse()
    return transforms


def corrections(
    before: Mapping[str, Transform], after: Mapping[str, Transform],
    odometry: Callable[[str], tuple[int, Array, Array] | None],
) -> dict[str, float]:
    """How far new transforms move the robots, in metres, where their odometry has them now."""
    moved = {}
    for robot in before.keys() & after.keys():
        newest = odometry(robot)
        if newest is not None:
            here = lifted(newest[1], newest[2])
            moved[robot] = float(np.linalg.norm(
                (after[robot] @ here).translation - (before[robot] @ here).translation))
    return moved


def newest_rows(
    solution: Solution, keyframes: Keyframes, least: Fix = Fix.FIXED
) -> dict[str, int]:
    """Row of the newest keyframe in the solution, of every robot that has at least this fix."""
    solved, newest = len(solution.estimate.translation), {}
    for robot, fix in solution.fixes.items():
        rows = keyframes.rows(robot, solved)
        if fix >= least and len(rows):
            newest[robot] = int(rows[-1])
    return newest


def trajectory(
    solution: Solution, keyframes: Keyframes, robot: str, max_poses: int
) -> DrawnTrajectory:
    """Path of one robot, thinned evenly to `max_poses`, first and newest kept."""
    rows = keyframes.rows(robot, len(solution.estimate.translation))
    if len(rows) > max_poses:
        rows = rows[np.linspace(0, len(rows) - 1, max_poses).round().astype(np.int64)]
    return DrawnTrajectory(
        keyframes.stamps_ns(rows),
        spatial(solution.estimate.translation[rows]),
        planar_quats(solution.estimate.rotation[rows]),
    )


def drawable(solution: Solution, keyframes: Keyframes) -> Mask:
    """(n + m,): true for points that may be shown in `map`, poses first.

    Poses of robots that have a fix, of position-only ones the newest keyframe; located landmarks.
    """
    solved, fixes = len(solution.estimate.translation), solution.fixes
    shown = np.zeros(solved, dtype=bool)
    for item in solution.robots:
        rows = keyframes.rows(item.robot, solved)
        if item.location is Location.POSITION_ONLY:
            shown[rows[-1:]] = True
        elif fixes[item.robot] is not Fix.NONE:
            shown[rows] = True
    return np.concatenate([shown, solution.landmark_located])


def newest(tables: Sequence[Table], count: int) -> list:
    """The last tables of a stream that together hold at least `count` rows."""
    chosen: list = []
    total = 0
    for table in reversed(tables):
        if total >= count:
            break
        chosen.append(table)
        total += len(table)
    return chosen[::-1]


def range_segments(solution: Solution, ranges: Ranges) -> tuple[Array, Index]:
    """Antenna positions (k, 2, 3) of the ranges in the solution, and their rows in `ranges`."""
    estimate = solution.estimate
    n, m = len(estimate.translation), len(estimate.landmarks)
    rows = np.flatnonzero(
        (ranges.source < n) & (ranges.target < n) & (ranges.source >= -m) & (ranges.target >= -m))
    part = ranges.take(rows)
    ends = [
        antennas(estimate, part.source, part.lever_source),
        antennas(estimate, part.target, part.lever_target),
    ]
    return np.stack([spatial(end) for end in ends], axis=1), rows
