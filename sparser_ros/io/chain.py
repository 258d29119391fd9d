"""Odometry chains: which relative poses are steps of one, and poses composed from steps."""

from __future__ import annotations

import numpy as np

from ..array_types import Array, Index, Mask
from ..graph import Poses, RelativePoses
from ..linalg.rotations import angle_to_matrix, matrix_to_angle


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


def steps(poses: Poses, number: Index, i: Index, j: Index) -> tuple[Mask, Mask]:
    """Masks (k,) of relative poses i to j: steps to a robot's next pose, and steps back.

    `number` (n,) counts the poses of each robot. Some systems write odometry as the step back, from
    the newer pose to the older one; beside a step forward from that pose it is a loop closure.
    """
    same = poses.robot[i] == poses.robot[j]
    forward = same & (number[j] == number[i] + 1)
    back = same & (number[i] == number[j] + 1)
    return forward, back & ~np.isin(j, i[forward])


def turned(table: RelativePoses, back: Mask) -> RelativePoses:
    """The table with the measurements of some rows inverted, from j to i."""
    inverse = np.swapaxes(table.rotation, 1, 2)
    return table.replaced(
        i=np.where(back, table.j, table.i), j=np.where(back, table.i, table.j),
        rotation=np.where(back[:, None, None], inverse, table.rotation),
        translation=np.where(
            back[:, None], -np.einsum('kij,kj->ki', inverse, table.translation),
            table.translation))


def _restarted(steps: Array, start: Mask) -> Array:
    """Running sums that begin anew at each start."""
    total = np.cumsum(steps, axis=0)
    first = np.maximum.accumulate(np.where(start, np.arange(len(start)), 0))
    return total - total[first]
