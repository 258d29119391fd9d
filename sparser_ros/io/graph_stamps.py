"""Times for a graph's poses and ranges, such that a bag made of it gives the graph back.

A front-end that makes every odometry message a pose attaches a range to the pose nearest in
time, of either robot. So a range needs a stamp that lies in the cell of both its poses: between
the midpoints towards the poses before and after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Index, Mask
from ..graph import Graph
from .stamp_text import SECOND

SYNTHETIC_STEP_NS = SECOND // 10
REPEATED_STEP_NS = SECOND // 10_000
MOST_POSES = 10**9
"""Numbers of poses beyond this are stamps or keys, which 64 bits could not hold at 10 Hz."""
MOST_REPEATED = 0.05
"""Share of repeated stamps above which a file counts as one without times."""
MERGE_GAP_NS = 25_000_000
"""Ranges of one pair of radios are kept this far apart: the front-end merges those within its
merge window (20 ms by default) as the two directions of one exchange."""
UNBOUNDED_NS = 2**62
"""Bound of a stamp that nothing bounds; sums of two still fit into 64 bits."""


def pose_stamps(graph: Graph) -> Index:
    """(n,): positive stamps that increase along every robot's poses.

    The graph's own stamps where they increase: a repeated stamp moves by 0.1 ms, and where the
    first is 0, which ROS takes for unknown, all of them move. Otherwise the numbers of the poses
    at 10 Hz, for all robots.
    """
    poses = graph.poses
    if not len(poses):
        return poses.stamp_ns
    order = np.lexsort((poses.index, poses.robot))
    stamp, robot = poses.stamp_ns[order], poses.robot[order]
    step, same = np.diff(stamp), np.diff(robot) == 0
    if np.any(step[same] < 0) or np.mean(step[same] == 0) > MOST_REPEATED:
        number = poses.index if poses.index.max() < MOST_POSES else np.unique(
            poses.index, return_inverse=True)[1]
        return SECOND + number * SYNTHETIC_STEP_NS
    for number in np.unique(robot):
        rows = robot == number
        ramp = np.arange(np.count_nonzero(rows)) * REPEATED_STEP_NS
        stamp[rows] = np.maximum.accumulate(stamp[rows] - ramp) + ramp
    result = np.empty_like(stamp)
    result[order] = stamp + (SECOND - stamp.min() if stamp.min() <= 0 else 0)
    return result


@dataclass(frozen=True)
class RangeStamps:
    """Stamps of all ranges, and which of them cannot be recovered exactly."""

    stamp_ns: Index
    wrong_pose: Mask
    """No stamp is nearest to both poses."""
    merged: Mask
    """Too close to another range of the same radios, with no room to move."""


def range_stamps(graph: Graph, stamp_ns: Index) -> RangeStamps:
    """Stamps of the ranges for given stamps of the poses.

    The file's own stamp if both cells hold it, else that of the later pose, of the earlier one,
    or the nearest time in both cells.
    """
    ranges = graph.ranges
    low, high = _cells(graph, stamp_ns)
    ends = []
    first, last = np.full(len(ranges), -UNBOUNDED_NS), np.full(len(ranges), UNBOUNDED_NS)
    for endpoint in (ranges.source, ranges.target):
        pose = endpoint >= 0
        rows = np.maximum(endpoint, 0)
        ends.append(np.where(pose, stamp_ns[rows], 0))
        first = np.maximum(first, np.where(pose, low[rows], -UNBOUNDED_NS))
        last = np.minimum(last, np.where(pose, high[rows], UNBOUNDED_NS))
    later, earlier = np.maximum(*ends), np.minimum(*ends)
    earlier = np.where(earlier == 0, later, earlier)
    shift = stamp_ns[0] - graph.poses.stamp_ns[0] if len(stamp_ns) else 0
    own = ranges.stamp_ns + shift
    stamp = np.clip((later + earlier) // 2, first, np.maximum(first, last))
    for choice in (earlier, later, own):
        inside = (choice >= first) & (choice <= last) & (choice > 0)
        stamp = np.where(inside, choice, stamp)
    wrong = first > last
    stamp = np.where(wrong, later, stamp)
    stamp, merged = _spread(_pairs(graph), stamp, np.where(wrong, later, last))
    return RangeStamps(stamp, wrong, merged)


def _cells(graph: Graph, stamp_ns: Index) -> tuple[Index, Index]:
    """First and last stamp that is strictly nearest to each pose among its robot's poses."""
    poses = graph.poses
    order = np.lexsort((poses.index, poses.robot))
    stamp, robot = stamp_ns[order], poses.robot[order]
    middle = stamp[:-1] + (stamp[1:] - stamp[:-1]) // 2
    same = robot[1:] == robot[:-1]
    low, high = np.full(len(order), -UNBOUNDED_NS), np.full(len(order), UNBOUNDED_NS)
    low[1:][same] = middle[same] + 1
    high[:-1][same] = middle[same] - 1
    result = np.empty_like(low), np.empty_like(high)
    result[0][order], result[1][order] = low, high
    return result


def _pairs(graph: Graph) -> Index:
    """(k,): equal numbers for ranges between the same two radios, either way round."""
    ranges = graph.ranges
    radio = [
        np.where(e >= 0, graph.poses.robot[np.maximum(e, 0)], e)
        for e in (ranges.source, ranges.target)
    ]
    both = np.column_stack([np.minimum(*radio), np.maximum(*radio)])
    return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1) if len(both) else both[:, 0]


def _spread(pair: Index, stamp: Index, last: Index) -> tuple[Index, Mask]:
    """Move ranges of one pair apart, later ones later, as far as their cells allow."""
    stamp, crowded = stamp.copy(), np.zeros(len(stamp), dtype=bool)
    order = np.lexsort((stamp, pair))
    close = (np.diff(pair[order]) == 0) & (np.diff(stamp[order]) < MERGE_GAP_NS)
    for k in np.flatnonzero(close):
        before, row = order[k], order[k + 1]
        wanted = stamp[before] + MERGE_GAP_NS
        crowded[row] = stamp[row] < wanted > last[row]
        stamp[row] = min(max(stamp[row], wanted), max(last[row], stamp[row]))
    return stamp, crowded
