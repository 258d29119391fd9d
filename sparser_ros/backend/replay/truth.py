"""Comparison with ground truth recorded beside the data: positions, headings, relative poses.

The truth's frame and map differ by one rigid motion, which is fitted to the positions of all
located robots together (without scale); what remains is error. Relative poses need no such fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ...array_types import Array, Index
from ...graph import Estimate, Graph
from ...linalg.dense.alignment import align
from ...linalg.dense.rotations import angle_to_matrix, quat_to_matrix
from ..session.solution import Location, Solution

MOST_GAP_NS = 500_000_000
"""Truth farther apart than this is not interpolated."""


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

    def at(self, stamps_ns: Index, dimension: int) -> tuple[Array, Array, Any]:
        """Rotations, positions and a mask of the stamps that the recording covers."""
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
        quats = np.array(self.quats_xyzw)[order][nearest]
        inside = (
            (stamps_ns >= stamps[0] - MOST_GAP_NS) & (stamps_ns <= stamps[-1] + MOST_GAP_NS)
            & (stamps[after] - stamps[before] <= MOST_GAP_NS))
        return _rotations(quats, dimension), position, inside


def compare(
    graph: Graph, solution: Solution, tracks: Mapping[str, TruthTrack]
) -> dict[str, Any]:
    """Errors of located robots against their tracks; {} where nothing can be compared."""
    where = {robot.robot: robot.location for robot in solution.robots}
    matched: dict[str, tuple[Index, Array, Array]] = {}
    for name, track in tracks.items():
        if not where.get(name, Location.UNLOCATED).placed or name not in graph.robots:
            continue
        rows = np.flatnonzero(graph.poses.robot == graph.robots.index(name))
        rotation, position, inside = track.at(graph.poses.stamp_ns[rows], graph.dimension)
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
        'robots': {
            name: {key: value for key, value in one.items() if key != 'errors_m'}
            for name, one in robots.items()},
        'relative_poses': pairs,
    }


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
