"""Joints: composed odometry between two neighbouring pieces of one path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index
from ...linalg.rotations import hat, matrix_to_angle, matrix_to_rotvec, rotation_jacobian


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
