"""An estimate: values of all variables of a graph; the residuals and the cost it leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..array_types import Array, Index
from .graph import Graph, counted
from .measurements import HEIGHTS, RANGES
from .precision import chi_square_kappa
from .residuals import turned_arms
from .table import point_index


@dataclass(frozen=True, repr=False)
class Estimate:
    """Poses and landmarks in the map frame, in the order of the graph's tables."""

    rotation: Array
    """(n, d, d): R_map_body."""
    translation: Array
    """(n, d): metres."""
    landmarks: Array
    """(m, d): metres."""
    scale: Array | None = None
    """(n,): factor of each pose's sightings; None = all 1."""

    def __post_init__(self) -> None:
        for array in (self.rotation, self.translation, self.landmarks):
            array.setflags(write=False)

    @property
    def dimension(self) -> int:
        return int(self.translation.shape[1])

    @property
    def points(self) -> Array:
        """(n + m, d): stacked positions, poses first."""
        return np.concatenate([self.translation, self.landmarks])

    @property
    def rows(self) -> Array:
        """(n, d, d): R^T of every pose, times its scale: the rows of X_c."""
        rows = np.swapaxes(self.rotation, 1, 2)
        return rows if self.scale is None else self.scale[:, None, None] * rows

    def __repr__(self) -> str:
        return f'<Estimate: {self}>'

    def __str__(self) -> str:
        parts = [f'{self.dimension}D', counted(len(self.translation), 'pose')]
        if len(self.landmarks):
            parts.append(counted(len(self.landmarks), 'landmark'))
        if len(self.points):
            size = np.ptp(self.points, axis=0)
            parts.append(' x '.join(f'{length:.0f}' for length in size) + ' m in size')
        return ', '.join(parts)

    def moved(self, rotation: Array, translation: Array) -> Estimate:
        """The estimate after the rigid motion x -> rotation x + translation."""
        return Estimate(
            rotation @ self.rotation,
            self.translation @ rotation.T + translation,
            self.landmarks @ rotation.T + translation,
            self.scale,
        )


def estimate_of(graph: Graph) -> Estimate:
    """The values stored in the graph's own vertices."""
    return Estimate(
        graph.poses.rotation.copy(), graph.poses.translation.copy(), graph.landmarks.position.copy()
    )


def from_first_pose(graph: Graph, estimate: Estimate) -> Estimate:
    """The estimate moved so that its first pose is where the graph has it, as in `at_origin`."""
    return at_origin(estimate, 0, (graph.poses.rotation[0], graph.poses.translation[0]), graph)


def at_origin(
    estimate: Estimate, row: int, pose: tuple[Array, Array], graph: Graph
) -> Estimate:
    """The estimate moved by `turned_onto` so that pose `row` is at `pose` (rotation, translation).
    """
    return turned_onto(
        estimate, pose[0] @ estimate.rotation[row].T, estimate.translation[row], pose[1], graph)


def turned_onto(
    estimate: Estimate, rotation: Array, point: Array, place: Array, graph: Graph
) -> Estimate:
    """The estimate turned by a rotation (d, d), with a point of its frame moved to a place (d,).

    Where the graph has verticals or heights only the heading is turned, where it has heights these
    stay.
    """
    # The compiled functions load numba, which half of the commands do without.
    from ..linalg.rotations import nearest_about_vertical

    if graph.levelled:
        rotation = nearest_about_vertical(rotation)
    shift = place - rotation @ point
    if len(graph.heights):
        shift[-1] = 0.0
    return estimate.moved(rotation, shift)


def with_estimate(graph: Graph, estimate: Estimate) -> Graph:
    """The same graph with the estimate in its vertices."""
    return graph.replaced(
        poses=graph.poses.replaced(rotation=estimate.rotation, translation=estimate.translation),
        landmarks=replace(graph.landmarks, position=estimate.landmarks))


# -- residuals


def antennas(estimate: Estimate, endpoint: Index, arm: Array) -> Array:
    """(k, d): positions in map of points (k, d) in the body frames of endpoints; metres.

    At a landmark the arm is not read.
    """
    points = estimate.points[point_index(endpoint, len(estimate.translation))]
    return np.asarray(points + turned_arms(endpoint, arm[:, None], estimate.rows)[:, 0])


def range_vectors(graph: Graph, estimate: Estimate) -> Array:
    """(k, d): target antenna minus source antenna in the map frame, metres."""
    (residual,) = RANGES.residuals(graph.ranges)
    return residual.vectors(estimate.points, estimate.rows)[:, 0]


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


def height_residuals(graph: Graph, estimate: Estimate) -> Array:
    """(k,): height of a point less that measured, metres."""
    (residual,) = HEIGHTS.residuals(graph.heights)
    return residual.vectors(estimate.points, estimate.rows)[:, 0, -1]


def squared_residuals(graph: Graph, estimate: Estimate) -> dict[str, Array]:
    """Weighted squared residuals per measurement table, bearings of ranges eliminated.

    With the optimal bearing (the unit vector along the antennas' difference) a range costs
    precision * (|difference| - distance)^2. The sum of all is the cost (no factor 1/2).
    """
    points, rows = estimate.points, estimate.rows
    return {
        kind.name: np.sum([part.squares(points, rows) for part in kind.residuals(table)], axis=0)
        if len(table) else np.zeros(0) for kind, table in graph.typed()}


def chi_square_residuals(graph: Graph, estimate: Estimate) -> dict[str, Array]:
    """As `squared_residuals`, but chi-square where measurements are as precise as they claim."""
    return squared_residuals(with_chi_square_turns(graph), estimate)


def with_chi_square_turns(graph: Graph) -> Graph:
    """The graph with rotations of the plane weighted by their noise: the cost counts them twice
    (`precision.py`)."""
    return graph.replaced(**{
        name: table.replaced(kappa=chi_square_kappa(table.kappa, graph.dimension))
        for name, table in graph.tables().items() if hasattr(table, 'kappa')})


def cost(graph: Graph, estimate: Estimate) -> float:
    """The quadratic cost at unit robust weights, without the factor 1/2."""
    return float(sum(np.sum(part) for part in squared_residuals(graph, estimate).values()))
