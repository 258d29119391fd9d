"""An estimate: values of all variables of a graph, immutable once made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..array_types import Array
from .graph import Graph, counted


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
    """The estimate moved so that its first pose is where the graph has it."""
    turn = graph.poses.rotation[0] @ estimate.rotation[0].T
    return estimate.moved(turn, graph.poses.translation[0] - turn @ estimate.translation[0])


def with_estimate(graph: Graph, estimate: Estimate) -> Graph:
    """The same graph with the estimate in its vertices."""
    return graph.replaced(
        poses=graph.poses.replaced(rotation=estimate.rotation, translation=estimate.translation),
        landmarks=type(graph.landmarks)(
            graph.landmarks.names, estimate.landmarks, graph.landmarks.fixed
        ),
    )
