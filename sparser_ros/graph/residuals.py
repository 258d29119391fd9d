"""Residuals of an estimate: squared weighted residual per measurement and the whole cost."""

from __future__ import annotations

import numpy as np

from ..array_types import Array, Index
from .estimate import Estimate
from .graph import Graph
from .keys import point_index
from .measurements import range_residual, turned_arms


def antennas(estimate: Estimate, endpoint: Index, arm: Array) -> Array:
    """(k, d): positions in map of points (k, d) in the body frames of endpoints; metres.

    At a landmark the arm is not read.
    """
    points = estimate.points[point_index(endpoint, len(estimate.translation))]
    return np.asarray(points + turned_arms(endpoint, arm, estimate.rows))


def range_vectors(graph: Graph, estimate: Estimate) -> Array:
    """(k, d): target antenna minus source antenna in the map frame, metres."""
    return range_residual(graph.ranges).vectors(estimate.points, estimate.rows)


def range_directions(graph: Graph, estimate: Estimate) -> Array:
    """(k, d): `range_vectors` of unit length."""
    vector = range_vectors(graph, estimate)
    return np.asarray(
        vector / np.maximum(np.linalg.norm(vector, axis=1, keepdims=True), 1e-12))


def range_residuals(graph: Graph, estimate: Estimate) -> Array:
    """(k,): predicted minus measured distance, metres."""
    return np.linalg.norm(range_vectors(graph, estimate), axis=1) - graph.ranges.distance_m


def range_lever_derivatives(graph: Graph, estimate: Estimate) -> tuple[Array, Array]:
    """(k, d) twice: `range_residuals` by the lever arms of source and target, 1; zero of landmarks.

    With v the vector between the antennas and u = v / |v|, a lever arm that is short by e at the
    end of v on pose R_j makes the residual u^T R_j e too small, at its beginning too large. Ranges
    that act between keyframes are taken for those of the keyframe's heading: robots turn little
    between two.
    """
    unit = range_directions(graph, estimate)
    zero = np.zeros((1, *estimate.rotation.shape[1:]))
    rotation = np.concatenate([estimate.rotation, zero])

    def turned(endpoint: Index) -> Array:
        # Landmarks have negative endpoints: the zero matrix, behind the poses.
        rows = np.where(endpoint >= 0, endpoint, len(rotation) - 1)
        return np.asarray(np.einsum('ki,kij->kj', unit, rotation[rows]))

    return -turned(graph.ranges.source), turned(graph.ranges.target)


def squared_residuals(graph: Graph, estimate: Estimate) -> dict[str, Array]:
    """Weighted squared residuals per measurement table, bearings of ranges eliminated.

    With the optimal bearing (the unit vector along the antennas' difference) a range costs
    precision * (|difference| - distance)^2. The sum of all is the cost (no factor 1/2).
    """
    points, rows = estimate.points, estimate.rows
    return {
        kind.name: np.sum([part.squares(points, rows) for part in kind.residuals(table)], axis=0)
        for kind, table in graph.typed()}


def cost(graph: Graph, estimate: Estimate) -> float:
    """The quadratic cost at unit robust weights, without the factor 1/2."""
    return float(sum(np.sum(part) for part in squared_residuals(graph, estimate).values()))
