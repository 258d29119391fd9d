"""The variables of a graph: poses of robots, and points without heading."""

from __future__ import annotations

from dataclasses import dataclass

from ..array_types import Array, Mask
from .measurements import Table
from .measurements.table import Numbers, Rotations, Stamps, Vectors


@dataclass(frozen=True)
class Poses(Table):
    """Pose variables, in any order of robots; values are truth, reference or initial guess."""

    robot: Numbers
    """(n,): position in `Graph.robots`."""
    index: Numbers
    """(n,): number of the pose within its robot, increasing in time."""
    stamp_ns: Stamps
    """(n,): 0 = unknown."""
    rotation: Rotations
    """(n, d, d): R_map_body."""
    translation: Vectors
    """(n, d): body in map, metres."""


@dataclass(frozen=True)
class Landmarks:
    """Points without heading: beacons and landmarks."""

    names: tuple[str, ...]
    position: Array
    """(m, d): metres in map."""
    fixed: Mask
    """(m,): true where the position is known exactly and is no variable."""

    def __len__(self) -> int:
        return len(self.names)
