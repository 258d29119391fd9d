"""From a rank-p point to a trajectory: projection to rank d (docs/method.md, section 4)."""

from __future__ import annotations

import numpy as np

from ...array_types import Array
from ...linalg.dense.rotations import nearest_rotation
from .manifold import Manifold


def reduce_rank(manifold: Manifold, y: Array, rank: int) -> Array:
    """The closest point of a lower rank: principal frame, then the manifold's projection.

    Where the frame is fixed by homogenising rows the leading columns are that frame; otherwise
    the leading right singular vectors of the rotations are (of the bearings, if there are none).
    """
    n, d = manifold.n, manifold.d
    if y.shape[1] <= rank:
        return manifold.lift(y, rank)
    if manifold.homogenised:
        return manifold.nearest_point(_turned_tail(manifold, y, rank))
    _, _, vt = np.linalg.svd(y[: n * d] if n else y, full_matrices=False)
    return manifold.nearest_point(y @ vt[:rank].T)


def _turned_tail(manifold: Manifold, y: Array, rank: int) -> Array:
    """The leading d columns kept, the rest reduced to its rank - d principal directions."""
    d = manifold.d
    tail = y[:, d:]
    _, _, vt = np.linalg.svd(tail, full_matrices=False)
    return np.hstack([y[:, :d], tail @ vt[: rank - d].T])


def round_to_rotations(manifold: Manifold, y: Array) -> Array:
    """A rank-d point whose blocks are rotations (det +1)."""
    n, d = manifold.n, manifold.d
    z = reduce_rank(manifold, y, d)
    blocks = z[: n * d].reshape(n, d, d)
    if n and not manifold.homogenised and np.mean(np.linalg.det(blocks) < 0) > 0.5:
        z[:, -1] *= -1
    turned = manifold.scales(z)[:, None, None] * nearest_rotation(z[: n * d].reshape(n, d, d))
    z[: n * d] = turned.reshape(n * d, d)
    return z
