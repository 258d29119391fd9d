"""Seeded false measurements, which a robust kernel should reject."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ..array_types import Index
from ..graph import Graph, RelativePoses
from ..linalg.dense.rotations import angle_to_matrix


def with_false_closures(graph: Graph, share: float, seed: int) -> tuple[Graph, Index]:
    """The graph with false loop closures added, and their rows in `relative_poses`.

    `share` is relative to the true closures. Endpoints are uniform over pairs of poses that are
    not neighbours, rotations uniform on SO(d), translations uniform in a box as large as the
    stored trajectory; weights are those of true closures drawn at random.
    """
    random = np.random.default_rng(seed)
    table, n, d = graph.relative_poses, graph.n_poses, graph.dimension
    true = np.flatnonzero(~table.odometry)
    count = round(share * len(true))
    i, j = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    while len(i) < count:
        pair = random.integers(n, size=(2, count))
        pair = pair[:, np.abs(pair[0] - pair[1]) > 1]
        i, j = np.concatenate([i, pair[0]])[:count], np.concatenate([j, pair[1]])[:count]
    if d == 2:
        rotation = angle_to_matrix(random.uniform(-np.pi, np.pi, count))
    else:
        rotation = Rotation.from_quat(random.normal(size=(count, 4))).as_matrix()
    extent = np.ptp(graph.poses.translation, axis=0) if n else np.zeros(d)
    like = random.choice(true, count) if count else true[:0]
    false = RelativePoses(
        i, j, rotation, random.uniform(-0.5, 0.5, (count, d)) * extent, table.kappa[like],
        table.tau[like], np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64))
    rows = len(table) + np.arange(count)
    return graph.replaced(relative_poses=table.append(false)), rows


def with_long_ranges(
    graph: Graph, share: float, seed: int, shortest_m: float = 5.0, longest_m: float = 50.0
) -> tuple[Graph, Index]:
    """The graph with a share of its ranges lengthened, as blocked lines of sight do; their rows.

    Each chosen range becomes its measured value plus a uniform excess between the two bounds.
    """
    random = np.random.default_rng(seed)
    ranges = graph.ranges
    rows = np.sort(random.choice(len(ranges), round(share * len(ranges)), replace=False))
    distance = ranges.distance_m.copy()
    distance[rows] += random.uniform(shortest_m, longest_m, len(rows))
    return graph.replaced(ranges=ranges.replaced(distance_m=distance)), rows
