"""Segments cut into pieces short enough to be rigid, and the odometry that joins them.

Odometry bends over long paths. A placement is judged with every piece free to turn and shift
against its neighbour at the price that the covariance of the composed odometry sets, to first
order in the residuals of single edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index
from ...graph import Estimate, Graph
from ...graph.odometry_segments import OdometrySegments
from ...graph.precision import rotation_variance, translation_variance
from ...linalg.rotations import matrix_to_angle, matrix_to_rotvec, rotation_jacobian
from .joints import Joints, no_joints

MOST_UNKNOWNS = 270
"""Of all pieces together; beyond, pieces get longer (a dense solve of that size takes 2 ms)."""
_MOST_PIECES = 64
"""Of one segment."""
_LEAST_SIGMA_M = 0.05
"""What a piece may bend by where ranges have no floor."""
_SMALLEST_VARIANCE = 1e-12
"""m^2 and rad^2: keeps the covariance of a joint of exact odometry invertible."""


@dataclass(frozen=True)
class Pieces:
    """The pieces of all segments, numbered along the segments."""

    parts: OdometrySegments
    """The pieces themselves."""
    segment: Index
    """(p,): segment of every piece."""
    first: Index
    """(b,): first piece of every segment."""
    last: Index
    """(b,): newest piece of every segment."""
    joints: Joints


@dataclass(frozen=True)
class _Edges:
    """Odometry edges in the order of their segments."""

    place: Index
    """(e,): place of the later pose in that order."""
    segment: Index
    point: Array
    """(e, d): later pose in map."""
    move: Array
    """(e, d): residual of the translation in map."""
    turn: Array
    """(e, turns): residual of the rotation in map."""
    move_variance: Array
    turn_variance: Array
    length: Array


def cut(
    graph: Graph, estimate: Estimate, segments: OdometrySegments, bend_m: float
) -> Pieces:
    """Pieces whose odometry bends by about `bend_m` (standard deviation) at most."""
    order = np.lexsort((graph.poses.index, segments.of_pose))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    edges = _edges(graph, estimate, segments, place)
    counts = _counts(edges, segments, graph.dimension, max(bend_m, _LEAST_SIGMA_M))
    share = _shares(edges, segments, counts, len(order))
    segment_of_place = segments.of_pose[order]
    inside = np.minimum((share * counts[segment_of_place]).astype(np.int64),
                        counts[segment_of_place] - 1)
    label = segment_of_place * (_MOST_PIECES + 1) + inside
    names, piece_of_place = np.unique(label, return_inverse=True)
    piece_of_place = piece_of_place.reshape(-1)
    begin = np.searchsorted(piece_of_place, np.arange(len(names)))
    end = np.searchsorted(piece_of_place, np.arange(len(names)), side='right') - 1
    segment = names // (_MOST_PIECES + 1)
    of_pose = np.empty(len(order), dtype=np.int64)
    of_pose[order] = piece_of_place
    parts = OdometrySegments(of_pose, segments.robot[segment], order[begin], order[end])
    first = np.searchsorted(segment, np.arange(len(segments)))
    last = np.searchsorted(segment, np.arange(len(segments)), side='right') - 1
    reference = (begin + end) // 2
    reference[first], reference[last] = begin[first], end[last]
    return Pieces(parts, segment, first, last, _joints(
        edges, segment, reference, estimate.translation[order[begin]], graph.dimension))


def _edges(
    graph: Graph, estimate: Estimate, segments: OdometrySegments, place: Index
) -> _Edges:
    table = graph.relative_poses.take(graph.relative_poses.odometry)
    d = graph.dimension
    before, after = estimate.rotation[table.i], estimate.rotation[table.j]
    step = estimate.translation[table.j] - estimate.translation[table.i]
    move = step - np.einsum('kij,kj->ki', before, table.translation)
    turn_matrix = after @ np.swapaxes(before @ table.rotation, 1, 2)
    turn = matrix_to_angle(turn_matrix)[:, None] if d == 2 else matrix_to_rotvec(turn_matrix)
    later = np.argsort(place[table.j], kind='stable')
    return _Edges(
        place[table.j][later], segments.of_pose[table.j][later],
        estimate.translation[table.j][later], move[later], turn[later],
        translation_variance(table.tau)[later], rotation_variance(table.kappa, d)[later],
        np.linalg.norm(table.translation, axis=1)[later])


def _counts(
    edges: _Edges, segments: OdometrySegments, dimension: int, bend_m: float
) -> Index:
    """(b,): pieces per segment, within `MOST_UNKNOWNS` for all together."""
    def total(column: Array) -> Array:
        return np.asarray(np.bincount(edges.segment, column, len(segments))[:, None], dtype=float)

    n = np.arange(1, _MOST_PIECES + 1)
    bend = total(edges.move_variance) / n + total(edges.turn_variance) * total(
        edges.length) ** 2 / (3 * n**3)
    enough = bend <= bend_m**2
    poses = np.bincount(segments.of_pose, minlength=len(segments))
    wanted = np.where(np.any(enough, axis=1), 1 + np.argmax(enough, axis=1), _MOST_PIECES)
    wanted = np.minimum(wanted, np.maximum(poses // 2, 1))
    most = MOST_UNKNOWNS // (dimension + (1 if dimension == 2 else 3))
    if np.sum(wanted) > most:
        wanted = np.maximum(1, wanted * most // np.sum(wanted))
    return np.asarray(wanted)


def _shares(
    edges: _Edges, segments: OdometrySegments, counts: Index, poses: int
) -> Array:
    """(poses,): share of its segment's bending that lies before each place."""
    length = np.bincount(edges.segment, edges.length, len(segments)) / counts
    bend = edges.move_variance + edges.turn_variance * length[edges.segment] ** 2 / 3
    total = np.bincount(edges.segment, bend, len(segments))
    step = np.zeros(poses)
    np.add.at(step, edges.place, bend / np.maximum(total, 1e-300)[edges.segment])
    running = np.cumsum(step)
    per_segment = np.bincount(segments.of_pose, minlength=len(segments))
    begin = np.cumsum(per_segment) - per_segment
    return running - np.repeat(running[begin] - step[begin], per_segment)


def _joints(
    edges: _Edges, segment: Index, reference: Index, begin: Array, dimension: int
) -> Joints:
    """Noise of the edges between the reference poses of two pieces acts where the pieces meet."""
    d, turns = dimension, edges.turn.shape[1]
    after = np.flatnonzero(segment[1:] == segment[:-1]) + 1
    if not len(after):
        return no_joints(d)
    # Reference places rise along the pieces: an edge belongs to the first reference not before it.
    owner = np.searchsorted(reference, edges.place)
    number = np.full(len(segment) + 1, -1)
    number[after] = np.arange(len(after))
    joint = number[np.minimum(owner, len(segment))]
    used = (joint >= 0) & (segment[np.minimum(owner, len(segment) - 1)] == edges.segment)
    joint = joint[used]
    point = begin[after]
    arm = point[joint] - edges.point[used]
    # A turn at the later pose moves the meeting point by its lever arm.
    lever = rotation_jacobian(arm)
    turn_variance, move_variance = edges.turn_variance[used], edges.move_variance[used]
    blocks = np.zeros((len(arm), d + turns, d + turns))
    blocks[:, :d, :d] = move_variance[:, None, None] * np.eye(d) + turn_variance[
        :, None, None] * (lever @ np.swapaxes(lever, 1, 2))
    blocks[:, :d, d:] = turn_variance[:, None, None] * lever
    blocks[:, d:, :d] = np.swapaxes(blocks[:, :d, d:], 1, 2)
    blocks[:, d:, d:] = turn_variance[:, None, None] * np.eye(turns)
    residual = np.concatenate([
        edges.move[used] + np.einsum('kij,kj->ki', lever, edges.turn[used]), edges.turn[used]],
        axis=1)
    covariance = np.zeros((len(after), d + turns, d + turns))
    offset = np.zeros((len(after), d + turns))
    np.add.at(covariance, joint, blocks)
    np.add.at(offset, joint, residual)
    covariance += _SMALLEST_VARIANCE * np.eye(d + turns)
    # Inverse of the Cholesky factor: whitens, as any square root does.
    return Joints(after - 1, after, point, offset, np.asarray(np.linalg.inv(
        np.linalg.cholesky(covariance)), dtype=float))
