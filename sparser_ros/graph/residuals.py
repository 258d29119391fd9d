"""Residuals of an estimate: squared weighted residual per measurement and the whole cost."""

from __future__ import annotations

import numpy as np

from ..array_types import Array, Index
from .estimate import Estimate
from .graph import Graph


def range_vectors(graph: Graph, estimate: Estimate) -> Array:
    """(k, d): target antenna minus source antenna in the map frame, metres."""
    ranges, points = graph.ranges, estimate.points

    def antenna(endpoint: Index, lever: Array) -> Array:
        position = points[graph.points(endpoint)].copy()
        pose = endpoint >= 0
        position[pose] += np.einsum('kij,kj->ki', estimate.rotation[endpoint[pose]], lever[pose])
        return position

    return antenna(ranges.target, ranges.lever_target) - antenna(
        ranges.source, ranges.lever_source
    )


def range_residuals(graph: Graph, estimate: Estimate) -> Array:
    """(k,): predicted minus measured distance, metres."""
    return np.linalg.norm(range_vectors(graph, estimate), axis=1) - graph.ranges.distance_m


def squared_residuals(graph: Graph, estimate: Estimate) -> dict[str, Array]:
    """Weighted squared residuals per measurement table, bearings of ranges eliminated.

    With the optimal bearing (the unit vector along the antennas' difference) a range costs
    precision * (|difference| - distance)^2. The sum of all is the cost (no factor 1/2).
    """
    rotation, translation, points = estimate.rotation, estimate.translation, estimate.points
    rel, see = graph.relative_poses, graph.sightings
    pose, point = graph.pose_priors, graph.point_priors

    def square(array: Array) -> Array:
        return np.sum(array**2, axis=tuple(range(1, array.ndim)))

    turn = rotation[rel.j] - rotation[rel.i] @ rel.rotation
    move = translation[rel.j] - translation[rel.i] - np.einsum(
        'kij,kj->ki', rotation[rel.i], rel.translation)
    sight = points[graph.points(see.point)] - translation[see.i] - np.einsum(
        'kij,kj->ki', rotation[see.i], see.translation
    ) * (1.0 if estimate.scale is None else estimate.scale[see.i, None])
    fix = points[graph.points(point.point)] - point.position
    on_pose = point.point >= 0
    fix[on_pose] += np.einsum(
        'kij,kj->ki', rotation[point.point[on_pose]], point.lever[on_pose])
    return {
        'relative_poses': rel.kappa * square(turn) + rel.tau * square(move),
        'sightings': see.tau * square(sight),
        'ranges': graph.ranges.precision * range_residuals(graph, estimate) ** 2,
        'pose_priors': pose.kappa * square(rotation[pose.i] - pose.rotation)
        + pose.tau * square(translation[pose.i] - pose.translation),
        'point_priors': point.precision * square(fix),
    }


def cost(graph: Graph, estimate: Estimate) -> float:
    """The quadratic cost at unit robust weights, without the factor 1/2."""
    return float(sum(np.sum(part) for part in squared_residuals(graph, estimate).values()))
