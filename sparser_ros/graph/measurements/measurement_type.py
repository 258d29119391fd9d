"""Declaration of a measurement type, in one block, and the registry of all types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .residual import HeightResidual, Residual, RotationResidual, VerticalResidual
from .table import Table, empty


@unique
class Kind(IntEnum):
    """Kind of a measurement, by which robust kernels and statistics choose."""

    ODOMETRY = 0
    CLOSURE = 1
    SIGHTING = 2
    RANGE = 3
    PRIOR = 4
    """Known position of a landmark."""
    OTHER = 5
    """Anything else; a robust kernel doubts it where it doubts sightings."""
    POSITION_FIX = 6
    """Position of a robot in map."""
    POSE_FIX = 7
    """Position and heading of a robot in map."""
    VERTICAL = 8
    """Roll and pitch of a robot."""
    HEIGHT = 9
    """Height of a robot or landmark."""


@dataclass(frozen=True)
class MeasurementType:
    """One kind of measurement: its table and the residuals of its rows."""

    name: str
    """Attribute of `Graph` and `Increment`; key of weights, of columns on the wire, of reports."""
    table: type[Table]
    residuals: Callable[[Any], tuple[Residual, ...]]
    """Residuals of a table, of as many rows as it has; their rows of A keep this order."""
    kind: Kind | Callable[[Any], NDArray[np.int8]] = Kind.OTHER
    """Of all rows, or a function that gives it row by row."""
    arms: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Endpoint column -> column of the point in that endpoint's body frame. A pose that is named
    by an endpoint without an arm stays when a graph is thinned."""
    directions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Endpoint column -> column of a direction in that endpoint's body frame."""
    absolute: bool = False
    """True where it fixes the map frame; verticals and heights leave its heading open."""
    free_scale: bool = False
    """True where it is right also up to one factor per pose (paper, table 1, row 3)."""

    def kinds(self, table: Table) -> NDArray[np.int8]:
        """(k,): kind of every row."""
        if isinstance(self.kind, Kind):
            return np.full(len(table), self.kind, dtype=np.int8)
        return self.kind(table)

    def has_rotation(self, dimension: int) -> bool:
        """True if a residual compares rotations."""
        return any(isinstance(part, RotationResidual) for part in self._parts(dimension))

    def degrees_of_freedom(self, dimension: int) -> int:
        """Of one row: d of a coincidence, 1 of a distance or a height, 1 (2D) or 3 (3D) of a
        rotation, d - 1 of a vertical."""
        return sum(_degrees(part, dimension) for part in self._parts(dimension))

    def _parts(self, dimension: int) -> tuple[Residual, ...]:
        return self.residuals(empty(self.table, dimension))


def _degrees(part: Residual, dimension: int) -> int:
    if isinstance(part, RotationResidual):
        return 1 if dimension == 2 else 3
    if isinstance(part, VerticalResidual):
        return dimension - 1
    return 1 if isinstance(part, HeightResidual) or part.distance is not None else dimension


MEASUREMENT_TYPES: dict[str, MeasurementType] = {}
"""All types by name, in the order of their rows in the problem."""


def register(kind: MeasurementType) -> MeasurementType:
    """Make a type known to graphs, increments, solver and wire; ValueError for a taken name."""
    if kind.name in MEASUREMENT_TYPES:
        raise ValueError(f'there is a measurement type {kind.name!r} already')
    MEASUREMENT_TYPES[kind.name] = kind
    return kind
