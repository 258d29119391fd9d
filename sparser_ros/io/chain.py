"""Odometry chains: poses composed from steps."""

from __future__ import annotations

import numpy as np

from ..array_types import Array, Mask
from ..linalg.dense.rotations import angle_to_matrix, matrix_to_angle


def compose(rotation: Array, translation: Array, start: Mask) -> tuple[Array, Array]:
    """Poses (n, d, d), (n, d) of chains; each chain starts at the identity where `start` is true.

    Row k of rotation and translation is the step from pose k - 1 to pose k, in the frame of pose
    k - 1; it is ignored at starts.
    """
    d = translation.shape[1]
    if d == 2:
        # In the plane headings add up, and each step is turned by the heading before it.
        turn = np.where(start, 0.0, matrix_to_angle(rotation))
        composed = angle_to_matrix(_restarted(turn[:, None], start)[:, 0])
        before = np.concatenate([composed[:1], composed[:-1]])
        move = np.einsum('kij,kj->ki', before, translation)
        return composed, _restarted(np.where(start[:, None], 0.0, move), start)
    composed, position = np.tile(np.eye(d), (len(start), 1, 1)), np.zeros((len(start), d))
    for k in np.flatnonzero(~start).tolist():
        composed[k] = composed[k - 1] @ rotation[k]
        position[k] = position[k - 1] + composed[k - 1] @ translation[k]
    return composed, position


def _restarted(steps: Array, start: Mask) -> Array:
    """Running sums that begin anew at each start."""
    total = np.cumsum(steps, axis=0)
    first = np.maximum.accumulate(np.where(start, np.arange(len(start)), 0))
    return total - total[first]
