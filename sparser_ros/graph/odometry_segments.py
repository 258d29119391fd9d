"""Rigid segments: stretches of unbroken odometry, the units that measurements place in `map`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ..array_types import Index, Mask
from . import Graph, is_landmark


@dataclass(frozen=True)
class OdometrySegments:
    """Numbering of segments by their first pose; usually one segment per robot."""

    of_pose: Index
    """(n,): body of every pose."""
    robot: Index
    """(b,): robot of every body."""
    first: Index
    """(b,): first pose row of every body."""
    last: Index
    """(b,): last pose row of every body."""

    def __len__(self) -> int:
        return len(self.robot)

    def newest(self, robot: int) -> int:
        """Number of the segment that holds a robot's newest pose; -1 without poses."""
        own = np.flatnonzero(self.robot == robot)
        return int(own[np.argmax(self.last[own])]) if len(own) else -1

    def variable(self, endpoint: Index) -> Index:
        """Segments, then landmarks, as one numbering of what endpoints belong to."""
        landmark = is_landmark(endpoint)
        pose = np.where(landmark, 0, endpoint)
        body = self.of_pose[pose] if len(self.of_pose) else pose
        return np.where(landmark, len(self) + ~np.asarray(endpoint), body)


def find_segments(graph: Graph) -> OdometrySegments:
    """Connected components of the odometry edges, numbered by first appearance."""
    edges, n = graph.relative_poses, graph.n_poses
    zero = np.zeros(0, dtype=np.int64)
    if n == 0:
        return OdometrySegments(zero, zero, zero, zero)
    i, j = edges.i[edges.odometry], edges.j[edges.odometry]
    count, label = _components(n, i, j)
    first = np.full(count, n, dtype=np.int64)
    last = np.full(count, -1, dtype=np.int64)
    rows = np.arange(n)
    np.minimum.at(first, label, rows)
    np.maximum.at(last, label, rows)
    order = np.argsort(first, kind='stable')
    renamed = np.empty(count, dtype=np.int64)
    renamed[order] = np.arange(count)
    first, last = first[order], last[order]
    return OdometrySegments(renamed[label], graph.poses.robot[first], first, last)


def connected_part(graph: Graph, segments: OdometrySegments, gauge: int, anchored: bool) -> Mask:
    """(b + m,): segments and landmarks connected to the frame of `map`.

    That frame is the ground (fixed landmarks and priors) where `anchored`, else body `gauge`.
    """
    count = len(segments) + graph.n_landmarks
    ground = count
    pairs = [measured_pairs(graph, segments)]
    if anchored:
        tied = np.concatenate([
            len(segments) + np.flatnonzero(graph.landmarks.fixed),
            segments.variable(graph.absolute_endpoints()),
        ])
        pairs.append(np.stack([tied, np.full(len(tied), ground)], axis=1))
    edges = np.concatenate(pairs)
    _, label = _components(count + 1, edges[:, 0], edges[:, 1])
    return np.asarray(label[:-1] == label[ground if anchored else gauge])


def measured_pairs(graph: Graph, segments: OdometrySegments) -> Index:
    """(k, 2): variables that each measurement but odometry ties together, table by table."""
    first, second = graph.pairs(odometry=False)
    return np.stack([segments.variable(first), segments.variable(second)], axis=1)


def _components(count: int, i: Index, j: Index) -> tuple[int, Index]:
    adjacency = coo_matrix((np.ones(len(i), dtype=np.int8), (i, j)), shape=(count, count))
    number, label = connected_components(adjacency, directed=False)
    return int(number), label.astype(np.int64)
