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
from ...graph.parts import OdometrySegments
from ...graph.precision import rotation_variance, translation_variance
from ...linalg.rotations import hat, matrix_to_angle, matrix_to_rotvec, rotation_jacobian

MOST_UNKNOWNS = 270
"""Of all pieces together; beyond, pieces get longer (a dense solve of that size takes 2 ms)."""
_MOST_PIECES = 64
"""Of one segment."""
_LEAST_SIGMA_M = 0.05
"""What a piece may bend by where ranges have no floor."""
_SMALLEST_VARIANCE = 1e-12
"""m^2 and rad^2: keeps the covariance of a joint of exact odometry invertible."""


@dataclass(frozen=True)
class Joints:
    """Composed odometry between neighbouring pieces, in the frame of the piece before."""

    before: Index
    """(j,): piece."""
    after: Index
    point: Array
    """(j, d): where the pieces meet, in map at the estimate."""
    offset: Array
    """(j, d + turns): what the estimate differs from composed odometry by, in map."""
    whitener: Array
    """(j, d + turns, d + turns): inverse square root of the covariance."""

    def __len__(self) -> int:
        return len(self.before)


def no_joints(dimension: int) -> Joints:
    """For segments that are rigid as a whole."""
    size = dimension + (1 if dimension == 2 else 3)
    zero = np.zeros(0, dtype=np.int64)
    return Joints(zero, zero, np.zeros((0, dimension)), np.zeros((0, size)),
                  np.zeros((0, size, size)))


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


def joint_residuals(
    joints: Joints, centers: Array, rotation: Array, shift: Array
) -> Array:
    """(j, d + turns): whitened residuals of joints.

    `rotation` and `shift` move the pieces about their `centers`.
    """
    if not len(joints):
        return joints.offset
    back, gap, turn, _ = _relative(joints, centers, rotation, shift)
    return _whitened(joints, back, gap, turn)


def joint_terms(
    joints: Joints, centers: Array, rotation: Array, shift: Array
) -> tuple[Array, Array, Array]:
    """Residuals as above, and their derivatives (j, s, s) by both pieces' motions."""
    d = centers.shape[1]
    size = joints.offset.shape[1]
    if not len(joints):
        return joints.offset, joints.whitener, joints.whitener
    back, gap, turn, arms = _relative(joints, centers, rotation, shift)
    change = np.ones((len(joints), 1, 1)) if d == 2 else _left_inverse(turn) @ back
    result = []
    for arm, sign in zip(arms, (-1.0, 1.0), strict=True):
        block = np.zeros((len(joints), size, size))
        block[:, :d, :d] = sign * back
        block[:, :d, d:] = sign * back @ rotation_jacobian(arm)
        if sign < 0:
            # The frame in which the residual is taken turns as well.
            block[:, :d, d:] -= back @ rotation_jacobian(gap)
        block[:, d:, d:] = sign * change
        result.append(joints.whitener @ block)
    return _whitened(joints, back, gap, turn), result[0], result[1]


def _relative(
    joints: Joints, centers: Array, rotation: Array, shift: Array
) -> tuple[Array, Array, Array, list[Array]]:
    """Inverse rotations of the pieces before, gaps in map, turns between, arms of both sides."""
    sides = (joints.before, joints.after)
    arms = [(rotation[v] @ (joints.point - centers[v])[:, :, None])[:, :, 0] for v in sides]
    ends = [arm + (centers + shift)[v] for arm, v in zip(arms, sides, strict=True)]
    back = np.swapaxes(rotation[joints.before], 1, 2)
    bend = back @ rotation[joints.after]
    turn = (matrix_to_angle(bend)[:, None] if centers.shape[1] == 2
            else matrix_to_rotvec(bend))
    return back, ends[1] - ends[0], turn, arms


def _whitened(joints: Joints, back: Array, gap: Array, turn: Array) -> Array:
    residual = np.concatenate([(back @ gap[:, :, None])[:, :, 0], turn], axis=1)
    return np.asarray((joints.whitener @ (residual + joints.offset)[:, :, None])[:, :, 0])


def _left_inverse(rotvec: Array) -> Array:
    """(k, 3, 3): inverse left Jacobian of the rotation group (Sola 2018, equation 146)."""
    angle = np.linalg.norm(rotvec, axis=1)
    small = angle < 1e-4
    safe = np.where(small, 1.0, angle)
    factor = np.where(
        small, 1 / 12, 1 / safe**2 - (1 + np.cos(safe)) / (2 * safe * np.sin(safe) + 1e-300))
    cross = hat(rotvec)
    return np.asarray(np.eye(3) - cross / 2 + factor[:, None, None] * (cross @ cross))
