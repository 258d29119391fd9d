"""Comparison with ground truth recorded beside the data: positions, headings, relative poses.

The truth's frame and map differ by one rigid motion, which is fitted to the positions of all
located robots together (without scale); what remains is error. Relative poses need no such fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from ...array_types import Array, Index
from ...frontend.motion import geometry
from ...frontend.record import RecordedOdometry
from ...graph import Estimate, Graph
from ...io.availability import Availability
from ...linalg.rotations import align, angle_to_matrix, quat_to_matrix
from ..session.solution import Location, Solution

LEFT_OUT_SHARE = 0.05
"""Share of keyframes without truth from which it is worth a warning; bags end raggedly."""
MOST_GAP_NS = 500_000_000
"""Between truth farther apart than this a robot does not drive straight on."""
MOST_DRIVEN_GAP_NS = 5_000_000_000
"""Then its odometry says how it drove, up to this gap; farther apart nothing is compared."""
WINDOW = 5
"""The direction of odometry against truth comes from so many recorded poses before and after."""
LEAST_SPREAD_M = 0.2
"""Below this spread of them the robot stands, and has no direction."""


@dataclass
class TruthTrack:
    """Recorded poses of one robot, in the order of arrival."""

    stamps_ns: list[int]
    positions_xyz: list[Array]
    quats_xyzw: list[Array]

    def add(self, msg: Any, received_ns: int) -> None:
        """Append a PoseStamped, PoseWithCovarianceStamped or Odometry (duck-typed)."""
        pose = msg.pose.pose if hasattr(msg.pose, 'pose') else msg.pose
        stamp = msg.header.stamp
        stamp_ns = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
        p, q = pose.position, pose.orientation
        self.stamps_ns.append(stamp_ns or received_ns)
        self.positions_xyz.append(np.array([p.x, p.y, p.z], dtype=float))
        self.quats_xyzw.append(np.array([q.x, q.y, q.z, q.w], dtype=float))

    def at(
        self, stamps_ns: Index, dimension: int, odometry: RecordedOdometry | None = None
    ) -> tuple[Array, Array, Any]:
        """Rotations, positions and a mask of the stamps that the recording covers.

        Between recorded poses farther apart than `MOST_GAP_NS` the way has the shape of the
        odometry, turned and bent so that it passes through them.
        """
        stamps = np.array(self.stamps_ns, dtype=np.int64)
        if len(stamps) == 0:
            n, d = len(stamps_ns), dimension
            return np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d)), np.zeros(n, dtype=bool)
        order = np.argsort(stamps, kind='stable')
        stamps = stamps[order]
        where = (np.array(self.positions_xyz)[order])[:, :dimension]
        after = np.clip(np.searchsorted(stamps, stamps_ns), 1, max(len(stamps) - 1, 1))
        after = np.minimum(after, len(stamps) - 1)
        before = np.maximum(after - 1, 0)
        gap = np.maximum(stamps[after] - stamps[before], 1)
        share = np.clip((stamps_ns - stamps[before]) / gap, 0, 1)[:, None]
        position = (1 - share) * where[before] + share * where[after]
        nearest = np.where(share[:, 0] < 0.5, before, after)
        rotation = _rotations(np.array(self.quats_xyzw)[order], dimension)[nearest]
        inside = (
            (stamps_ns >= stamps[0] - MOST_GAP_NS) & (stamps_ns <= stamps[-1] + MOST_GAP_NS)
            & (gap <= MOST_GAP_NS))
        if odometry is None or not len(odometry.stamps_ns):
            return rotation, position, inside
        way = _Way(odometry, dimension)
        own = np.flatnonzero((gap > MOST_GAP_NS) & (gap <= MOST_DRIVEN_GAP_NS)
                             & (stamps_ns >= stamps[0]) & (stamps_ns <= stamps[-1]))
        own = own[way.unbroken(stamps[before[own]], stamps[after[own]])]
        bend = way.positions(stamps_ns[own]) - (1 - share[own]) * way.positions(
            stamps[before[own]]) - share[own] * way.positions(stamps[after[own]])
        for k, row in enumerate(own):
            turn = way.direction(stamps, where, before[row])
            position[row] += turn @ bend[k]
        at_truth = way.rotations(stamps[nearest[own]])
        rotation[own] = rotation[own] @ np.swapaxes(at_truth, 1, 2) @ way.rotations(stamps_ns[own])
        inside[own] = True
        return rotation, position, inside


class _Way:
    """The odometry of a robot at any time, in its own frame."""

    def __init__(self, record: RecordedOdometry, dimension: int) -> None:
        self._stamps = record.stamps_ns
        self._segments = record.segments
        self._rotations, self._positions = geometry(dimension).arrays(record.poses)

    def unbroken(self, first_ns: Index, last_ns: Index) -> Any:
        """Mask of the spans that odometry of one frame covers."""
        start = np.searchsorted(self._stamps, first_ns, side='right') - 1
        end = np.searchsorted(self._stamps, last_ns)
        covered = (start >= 0) & (end < len(self._stamps))
        last = len(self._stamps) - 1
        return covered & (
            self._segments[np.clip(start, 0, last)] == self._segments[np.clip(end, 0, last)])

    def positions(self, stamps_ns: Index) -> Array:
        """(n, d): between two messages on a straight line."""
        since = (self._stamps - self._stamps[0]).astype(float)
        when = (stamps_ns - self._stamps[0]).astype(float)
        return np.stack([np.interp(when, since, axis) for axis in self._positions.T], axis=1)

    def rotations(self, stamps_ns: Index) -> Array:
        """(n, d, d): of the message nearest in time."""
        after = np.clip(np.searchsorted(self._stamps, stamps_ns), 1, len(self._stamps) - 1)
        after = np.maximum(after, 0)
        before = np.maximum(after - 1, 0)
        later = stamps_ns - self._stamps[before] > self._stamps[after] - stamps_ns
        return self._rotations[np.where(later, after, before)]

    def direction(self, stamps_ns: Index, positions: Array, before: int) -> Array:
        """(d, d): from the odometry frame into that of the truth, about one recorded pose."""
        rows = slice(max(before - WINDOW, 0), before + WINDOW + 2)
        near = stamps_ns[rows]
        usable = self.unbroken(near, np.full(len(near), stamps_ns[before]))
        usable |= self.unbroken(np.full(len(near), stamps_ns[before]), near)
        own, there = self.positions(near[usable]), positions[rows][usable]
        spread = np.linalg.norm(own - own.mean(axis=0), axis=1) if len(own) else np.zeros(1)
        if spread.max() < LEAST_SPREAD_M:
            return np.zeros((positions.shape[1],) * 2)
        return align(own, there)[0]


def uncovered(
    graph: Graph, tracks: Mapping[str, TruthTrack], odometry: Mapping[str, RecordedOdometry]
) -> list[str]:
    """Robots that are compared with the truth in part or not at all, in words."""
    texts = []
    for name, track in tracks.items():
        if name not in graph.robots:
            continue
        stamps = graph.poses.stamp_ns[graph.poses.robot == graph.robots.index(name)]
        inside = track.at(stamps, graph.dimension, odometry.get(name))[2]
        left_out = len(stamps) - int(np.sum(inside))
        if not track.stamps_ns:
            texts.append(f'ground truth of {name}: no message on its topic: nothing is compared')
        elif left_out > LEFT_OUT_SHARE * len(stamps):
            texts.append(
                f'ground truth of {name}: {left_out} of {len(stamps)} keyframes are not compared: '
                f'recorded poses are up to {_longest_s(track):.1f} s apart, or do not span them '
                f'(along odometry at most {MOST_DRIVEN_GAP_NS * 1e-9:.0f} s are filled in)')
    return texts


def _longest_s(track: TruthTrack) -> float:
    stamps = np.sort(np.array(track.stamps_ns, dtype=np.int64))
    return float(np.diff(stamps).max() * 1e-9) if len(stamps) > 1 else 0.0


def compare(
    graph: Graph, solution: Solution, tracks: Mapping[str, TruthTrack],
    odometry: Mapping[str, RecordedOdometry], availability: Availability,
) -> dict[str, Any]:
    """Errors of located robots against their tracks; {} where nothing can be compared.

    `availability` has the maps as they were meanwhile.
    """
    where = {robot.robot: robot.location for robot in solution.robots}
    matched: dict[str, tuple[Index, Array, Array]] = {}
    of = 0
    for name, track in tracks.items():
        if not where.get(name, Location.UNLOCATED).placed or name not in graph.robots:
            continue
        rows = np.flatnonzero(graph.poses.robot == graph.robots.index(name))
        rotation, position, inside = track.at(
            graph.poses.stamp_ns[rows], graph.dimension, odometry.get(name))
        of += len(rows)
        if np.any(inside):
            matched[name] = rows[inside], rotation[inside], position[inside]
    if not matched:
        return {}
    fitted = [n for n in matched if where[n] is Location.LOCATED] or list(matched)
    turn, shift = align(
        np.concatenate([solution.estimate.translation[matched[n][0]] for n in fitted]),
        np.concatenate([matched[n][2] for n in fitted]))
    moved = solution.estimate.moved(turn, shift)
    robots = {
        name: _errors(moved, rows, rotation, position, where[name])
        for name, (rows, rotation, position) in matched.items()}
    every = [robots[n]['errors_m'] for n in fitted]
    pairs = [
        _relative(solution.estimate, matched, a, b)
        for a, b in combinations([n for n in matched if where[n] is Location.LOCATED], 2)]
    return {
        'ate_m': float(np.mean(np.concatenate(every))),
        'ate_rmse_m': float(np.sqrt(np.mean(np.concatenate(every) ** 2))),
        'aligned_on': fitted,
        'compared': sum(len(rows) for rows, *_ in matched.values()),
        'keyframes': of,
        'robots': {
            name: {key: value for key, value in errors.items() if key != 'errors_m'}
            for name, errors in robots.items()},
        'relative_poses': pairs,
        'stated': availability.accuracy(
            partial(_recorded, graph.dimension, tracks, odometry)),
    }


def _recorded(
    dimension: int, tracks: Mapping[str, TruthTrack], odometry: Mapping[str, RecordedOdometry],
    robot: str, stamps_ns: Index,
) -> Array:
    """(k, d): recorded positions, NaN where there are none."""
    if robot not in tracks:
        return np.full((len(stamps_ns), dimension), np.nan)
    _, position, inside = tracks[robot].at(stamps_ns, dimension, odometry.get(robot))
    return np.where(inside[:, None], position, np.nan)


def _errors(
    moved: Estimate, rows: Index, rotation: Array, position: Array, where: Location
) -> dict[str, Any]:
    errors = np.linalg.norm(moved.translation[rows] - position, axis=1)
    result: dict[str, Any] = {
        'location': where.value, 'poses': len(rows), 'ate_m': float(np.mean(errors)),
        'ate_max_m': float(np.max(errors)), 'errors_m': errors}
    if where is Location.LOCATED:
        turns = np.swapaxes(rotation, 1, 2) @ moved.rotation[rows]
        mean, spread = _angles(turns)
        result['heading_offset_rad'] = mean
        result['heading_spread_rad'] = spread
    return result


def _relative(
    estimate: Estimate, matched: Mapping[str, tuple[Index, Array, Array]],
    a: str, b: str,
) -> dict[str, Any]:
    """Error of b's trajectory placed relative to a's: each is fitted to the truth by itself.

    Positions alone are used: frames that a tracking system gives to its targets, and the
    orientation in some recordings, are turned arbitrarily.
    """
    rows_a, _, position_a = matched[a]
    rows_b, _, position_b = matched[b]
    turn_a, shift_a = align(estimate.translation[rows_a], position_a)
    turn_b, _ = align(estimate.translation[rows_b], position_b)
    placed = estimate.translation[rows_b] @ turn_a.T + shift_a
    return {
        'from': a, 'to': b,
        'translation_error_m': float(np.mean(np.linalg.norm(placed - position_b, axis=1))),
        'rotation_error_rad': _angle(turn_a.T @ turn_b),
    }


def _angle(turn: Array) -> float:
    """Rotation angle of a (d, d) matrix."""
    d = len(turn)
    return float(2 * np.arcsin(min(1.0, np.linalg.norm(turn - np.eye(d)) / np.sqrt(8))))


def _angles(turns: Array) -> tuple[float, float]:
    """Mean rotation angle and spread about it (2D: signed; 3D: of the yaw)."""
    angles = np.arctan2(turns[:, 1, 0], turns[:, 0, 0])
    mean = float(np.angle(np.mean(np.exp(1j * angles))))
    return mean, float(np.sqrt(np.mean(np.angle(np.exp(1j * (angles - mean))) ** 2)))


def _rotations(quats: Array, dimension: int) -> Array:
    rotation = quat_to_matrix(quats)
    if dimension == 3:
        return rotation
    return angle_to_matrix(np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]))
