"""Sensor network localisation: points and distances between them, with or without anchors."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from ...array_types import Array, Index, Mask
from ...graph import Graph, Landmarks, Ranges, empty_graph

_SHORTEST_M = 1e-6
"""Ranges of two sensors at one place are left out, noisy ones are at least this long."""


def sensor_network(
    sensors: int = 200, anchors: int = 0, *, dimension: int = 2, side_m: float = 10.0,
    radius_m: float = 2.0, sigma_m: float = 0.05, seed: int = 0,
) -> Graph:
    """Sensors uniform in a box, ranging all others within a radius; anchors are known points."""
    random = np.random.default_rng(seed)
    points = random.uniform(0, side_m, (sensors + anchors, dimension))
    i, j = cKDTree(points).query_pairs(radius_m, output_type='ndarray').T.astype(np.int64)
    useful = i < sensors
    i, j = i[useful], j[useful]
    distance = np.linalg.norm(points[j] - points[i], axis=1)
    noisy = np.maximum(distance + random.normal(0, sigma_m, len(i)), _SHORTEST_M)
    names = tuple(f'S{k}' for k in range(sensors)) + tuple(f'K{k}' for k in range(anchors))
    return _network(
        points, np.arange(sensors + anchors) >= sensors, names, i, j, noisy,
        np.full(len(i), sigma_m**-2), f'network{sensors}')


def network_of(graph: Graph) -> Graph:
    """The sensor network of a pose graph: a point per pose, a distance per relative pose.

    The distance is the length of the measured translation and keeps its weight (paper, standard
    benchmarks); lengths of zero are left out.
    """
    edges = graph.relative_poses
    distance = np.linalg.norm(edges.translation, axis=1)
    kept = (distance > _SHORTEST_M) & (edges.i != edges.j)
    n = graph.n_poses
    return _network(
        graph.poses.translation, np.zeros(n, dtype=bool), tuple(f'S{k}' for k in range(n)),
        edges.i[kept], edges.j[kept], distance[kept], edges.tau[kept], f'{graph.name}-network')


def _network(
    points: Array, fixed: Mask, names: tuple[str, ...], i: Index, j: Index,
    distance: Array, precision: Array, name: str,
) -> Graph:
    zero = np.zeros((len(i), points.shape[1]))
    return empty_graph(points.shape[1]).replaced(
        landmarks=Landmarks(names, points, fixed),
        ranges=Ranges(
            ~i, ~j, zero, zero.copy(), distance, precision, np.zeros(len(i), dtype=np.int64)),
        name=name)
