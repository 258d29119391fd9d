"""How far the estimated path leaves odometry, window by window, against the noise it claims.

Over a window from pose p to pose q the estimate says R_p^T (t_q - t_p), odometry X_p^-1 X_q. Their
difference e has at most the covariance C that the odometry claims: sum of 1 / tau, and the
heading noise of each step times the way still to go. So e^T C^-1 e is at most chi-square with d
degrees of freedom: of independent data, the mean of the estimate less that of the prior has the
covariance of the prior less that of the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...array_types import Array, Index
from ...graph import Estimate, Graph
from ...graph.odometry_segments import find_segments
from ...graph.precision import rotation_variance, translation_variance
from ...linalg.rotations import rotation_jacobian


@dataclass(frozen=True)
class OdometryWindows:
    """One row per window of one robot, in time order."""

    robot: Index
    end_s: Array
    """Time of its last pose since the first pose of the graph."""
    square: Array
    """e^T C^-1 e."""

    def of(self, robot: int) -> Array:
        """Squares of one robot's windows, oldest first."""
        return self.square[self.robot == robot]


def odometry_windows(graph: Graph, estimate: Estimate, window_s: float) -> OdometryWindows:
    """Disjoint windows of unbroken odometry.

    The poses of the graph hold T_odom_base, as increments bring them.
    """
    segments = find_segments(graph)
    rel = graph.relative_poses
    edges = np.flatnonzero(rel.odometry)
    into = np.full(graph.n_poses, -1, dtype=np.int64)
    into[rel.j[edges]] = edges
    begin = int(graph.poses.stamp_ns.min()) if graph.n_poses else 0
    robot, end, square = [], [], []
    for segment in range(len(segments)):
        rows = np.flatnonzero(segments.of_pose == segment)
        seconds = (graph.poses.stamp_ns[rows] - begin) * 1e-9
        number = np.floor((seconds - seconds[0]) / window_s)
        cuts = np.r_[0, np.flatnonzero(np.diff(number)) + 1, len(rows) - 1]
        for first, last in pairwise(cuts):
            part = rows[first:last + 1]
            # A short window at the end says little and would only cost a degree of freedom.
            if len(part) < 2 or seconds[last] - seconds[first] < window_s / 2:
                continue
            robot.append(int(segments.robot[segment]))
            end.append(float(seconds[last]))
            square.append(_square(graph, estimate, part, into[part[1:]]))
    return OdometryWindows(
        np.array(robot, dtype=np.int64), np.array(end), np.array(square, dtype=float))


def _square(graph: Graph, estimate: Estimate, rows: Index, edges: Index) -> float:
    d, rel = graph.dimension, graph.relative_poses
    first, last = rows[0], rows[-1]
    odometry = graph.poses.rotation[first].T @ (
        graph.poses.translation[rows] - graph.poses.translation[first]).T
    found = estimate.rotation[first].T @ (
        estimate.translation[last] - estimate.translation[first])
    to_go = (odometry[:, -1:] - odometry[:, 1:]).T
    turned = rotation_jacobian(to_go)
    heading = rotation_variance(rel.kappa[edges], d)
    covariance = np.sum(translation_variance(rel.tau[edges])) * np.eye(d) + np.einsum(
        'k,kij,klj->il', heading, turned, turned)
    error = found - odometry[:, -1]
    return float(error @ np.linalg.solve(covariance, error))
