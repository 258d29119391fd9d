"""Endpoints: one integer that names a pose or a landmark, stable while the graph grows.

An endpoint >= 0 is a pose, in the order of `Graph.poses`; an endpoint < 0 is the landmark
`~endpoint`, in the order of `Graph.landmarks`. Appending poses or landmarks renumbers nothing.
"""

from __future__ import annotations

import numpy as np

from ..array_types import Index, Mask


def landmark_endpoint(landmark: int | Index) -> int | Index:
    """The endpoint of a landmark number."""
    return ~landmark


def is_landmark(endpoint: Index) -> Mask:
    """True where an endpoint is a landmark."""
    return np.asarray(endpoint) < 0


def point_index(endpoint: Index, n_poses: int) -> Index:
    """Rows in the stacked positions [pose translations; landmarks]."""
    endpoint = np.asarray(endpoint, dtype=np.int64)
    return np.where(endpoint >= 0, endpoint, n_poses + ~endpoint)
