"""The measurement types, each declared in one block, and the tables of all types together.

A `MeasurementType` says everything of a type: table, endpoints, residuals, kind. Graphs, solver,
robust weights and the wire form follow from the list of them.

Weights are the scalars of the quadratic cost (no factor 1/2): `kappa` on rotations, `tau` on
translations, `precision` = 1/sigma^2 on ranges and positions; `graph/precision.py` derives them
from covariances. Stamps are int nanoseconds, 0 = unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, unique
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..array_types import Array, Index
from .residuals import Residual, axes_of, points_of
from .table import (
    AngleWeights,
    Directions,
    Distances,
    Flags,
    Lengths,
    PointEndpoint,
    PoseEndpoint,
    Rotations,
    RotationWeights,
    Stamps,
    Table,
    Vectors,
    Weights,
    empty,
)


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
        return any(part.turn for part in self._parts(dimension))

    def degrees_of_freedom(self, dimension: int) -> int:
        """Of one row: d of a coincidence, 1 of a distance or a height, 1 (2D) or 3 (3D) of a
        rotation, d - 1 of a vertical."""
        return sum(part.degrees_of_freedom for part in self._parts(dimension))

    def _parts(self, dimension: int) -> tuple[Residual, ...]:
        return self.residuals(empty(self.table, dimension))


# -- the types, in the order of their rows in the problem


@dataclass(frozen=True)
class RelativePoses(Table):
    """Pose of j in the frame of i: odometry and loop closures (paper, table 1, rows 1 and 2)."""

    i: PoseEndpoint
    j: PoseEndpoint
    rotation: Rotations
    """(k, d, d): R_i^T R_j."""
    translation: Vectors
    """(k, d): R_i^T (t_j - t_i)."""
    kappa: RotationWeights
    tau: Weights
    odometry: Flags
    """True for consecutive poses of one robot; false for loop closures."""
    stamp_ns: Stamps


RELATIVE_POSES = MeasurementType(
    'relative_poses', RelativePoses,
    lambda table: (axes_of(table.i, table.j, table.rotation, table.kappa),
                   points_of(table.i, table.j, table.translation, None, table.tau)),
    lambda table: np.where(table.odometry, Kind.ODOMETRY, Kind.CLOSURE).astype(np.int8))


@dataclass(frozen=True)
class Sightings(Table):
    """Position of a point in the frame of pose i (paper, table 1, row 2)."""

    i: PoseEndpoint
    point: PointEndpoint
    """Endpoint that is seen."""
    translation: Vectors
    """(k, d): R_i^T (p - t_i)."""
    tau: Weights
    stamp_ns: Stamps


SIGHTINGS = MeasurementType(
    'sightings', Sightings,
    lambda table: (points_of(table.i, table.point, table.translation, None, table.tau),),
    Kind.SIGHTING, {'i': 'translation'}, free_scale=True)


@dataclass(frozen=True)
class Ranges(Table):
    """Distance between two antennas (paper, table 1, row 4, with lever arms)."""

    source: PointEndpoint
    """Endpoint of one antenna."""
    target: PointEndpoint
    """Endpoint of the other."""
    lever_source: Vectors
    """(k, d): antenna in the body frame of the source pose; zero for landmarks."""
    lever_target: Vectors
    distance_m: Distances
    precision: Weights
    """(k,): 1/sigma^2 in m^-2."""
    stamp_ns: Stamps


RANGES = MeasurementType(
    'ranges', Ranges,
    lambda table: (points_of(table.source, table.target, table.lever_source, table.lever_target,
                             table.precision, table.distance_m),),
    Kind.RANGE, {'source': 'lever_source', 'target': 'lever_target'})


@dataclass(frozen=True)
class PosePriors(Table):
    """Pose i in the map frame (paper, appendix C)."""

    i: PoseEndpoint
    rotation: Rotations
    translation: Vectors
    kappa: RotationWeights
    """0 where the heading is unknown."""
    tau: Weights
    stamp_ns: Stamps


POSE_PRIORS = MeasurementType(
    'pose_priors', PosePriors,
    lambda table: (axes_of(None, table.i, table.rotation, table.kappa),
                   points_of(None, table.i, table.translation, None, table.tau)),
    Kind.POSE_FIX, absolute=True)


@dataclass(frozen=True)
class PointPriors(Table):
    """Position of a point in the map frame: of a landmark, or a position fix (appendix C)."""

    point: PointEndpoint
    lever: Vectors
    """(k, d): antenna in the body frame of a pose; zero for landmarks."""
    position: Vectors
    precision: Weights
    stamp_ns: Stamps


POINT_PRIORS = MeasurementType(
    'point_priors', PointPriors,
    lambda table: (points_of(None, table.point, table.position, table.lever, table.precision),),
    lambda table: np.where(table.point >= 0, Kind.POSITION_FIX, Kind.PRIOR).astype(np.int8),
    {'point': 'lever'}, absolute=True)


@dataclass(frozen=True)
class Verticals(Table):
    """Attitude against gravity: the last axis of map as seen from pose i (docs/method.md)."""

    i: PoseEndpoint
    up: Directions
    """(k, d): R_i^T e_z, of unit length."""
    precision: AngleWeights
    """(k,): 1/sigma^2 of the angle about each horizontal axis, rad^-2."""
    stamp_ns: Stamps


VERTICALS = MeasurementType(
    'verticals', Verticals,
    lambda table: (Residual(None, table.i, _upwards(table.up)[:, None], table.up[:, None],
                            table.precision, point=False),),
    Kind.VERTICAL, directions={'i': 'up'})


@dataclass(frozen=True)
class Heights(Table):
    """Height of a point of a pose, or of a landmark, above the origin of map (docs/method.md)."""

    point: PointEndpoint
    lever: Vectors
    """(k, d): sensor in the body frame of a pose; zero for landmarks."""
    height_m: Lengths
    precision: Weights
    stamp_ns: Stamps


HEIGHTS = MeasurementType(
    'heights', Heights,
    lambda table: (points_of(None, table.point, table.height_m[:, None] * _upwards(table.lever),
                             table.lever, table.precision, height=True),),
    Kind.HEIGHT, {'point': 'lever'})


def _upwards(vectors: Array) -> Array:
    """(k, d): the last axis of map, as often as there are vectors (k, d)."""
    return np.broadcast_to(np.eye(vectors.shape[1])[-1], vectors.shape)


MEASUREMENT_TYPES: dict[str, MeasurementType] = {
    kind.name: kind for kind in (
        RELATIVE_POSES, SIGHTINGS, RANGES, POSE_PRIORS, POINT_PRIORS, VERTICALS, HEIGHTS)}
"""All types by name, in the order of their rows in the problem."""


# -- all types together


class MeasurementTables:
    """Tables by name as attributes (`graph.ranges`); a type without rows has an empty table."""

    measurements: Mapping[str, Table]

    if TYPE_CHECKING:
        relative_poses: RelativePoses
        sightings: Sightings
        ranges: Ranges
        pose_priors: PosePriors
        point_priors: PointPriors
        verticals: Verticals
        heights: Heights
    else:
        def __getattr__(self, name: str) -> Table:
            """The table of a measurement type."""
            try:
                return self.__dict__['measurements'][name]
            except KeyError:
                raise AttributeError(f'{type(self).__name__} has no {name!r}') from None

    def tables(self) -> dict[str, Table]:
        """The measurement tables by name, in the order of their rows in the problem."""
        return dict(self.measurements)

    def typed(self) -> Iterator[tuple[MeasurementType, Table]]:
        """Every measurement type with its table."""
        for name, table in self.measurements.items():
            yield MEASUREMENT_TYPES[name], table

    def residuals(self) -> Iterator[Residual]:
        """The residuals of all measurements, in the order of their rows; none is empty."""
        for kind, table in self.typed():
            if len(table):
                yield from kind.residuals(table)

    @property
    def levelled(self) -> bool:
        """True if verticals or heights make the last axis of map the vertical."""
        return bool(len(self.verticals) or len(self.heights))

    @property
    def n_measurements(self) -> int:
        return sum(len(table) for table in self.measurements.values())

    @property
    def n_bearings(self) -> int:
        """Measured distances: each has a bearing among the unknowns."""
        return sum(len(part) for part in self.residuals() if part.distance is not None)

    @property
    def n_absolute(self) -> int:
        """Measurements that fix the map frame."""
        return sum(len(table) for kind, table in self.typed() if kind.absolute)

    def absolute_endpoints(self) -> Index:
        """(k,): what is measured in the map frame."""
        return _joined([
            getattr(table, column) for kind, table in self.typed() if kind.absolute
            for column in kind.table.endpoints()])

    def absolute_positions(self, dimension: int) -> Array:
        """(k, d): where absolute measurements say that something is, metres."""
        positions = [
            part.arm_first[:, 0] for part in self.residuals()
            if part.first is None and part.point and not part.height]
        return np.concatenate([np.zeros((0, dimension)), *positions])

    def pairs(self, *, odometry: bool) -> tuple[Index, Index]:
        """Endpoints (k,) that each measurement between two variables ties together."""
        first, second = [], []
        for kind, table in self.typed():
            columns = kind.table.endpoints()
            if len(columns) != 2:
                continue
            rows = odometry | (kind.kinds(table) != Kind.ODOMETRY)
            first.append(getattr(table, columns[0])[rows])
            second.append(getattr(table, columns[1])[rows])
        return _joined(first), _joined(second)


def complete(
    dimension: int, measurements: Mapping[str, Table] | None, tables: Iterable[Table],
    named: Mapping[str, Table],
) -> dict[str, Table]:
    """A table of every type: a named one, one of that class, the old one, or empty."""
    names = {kind.table: name for name, kind in MEASUREMENT_TYPES.items()}
    given = {**(measurements or {}), **{names[type(table)]: table for table in tables}, **named}
    unknown = [name for name in given if name not in MEASUREMENT_TYPES]
    if unknown:
        raise TypeError(
            f'no measurement type {unknown[0]!r}; there are {", ".join(MEASUREMENT_TYPES)}')
    return {
        name: given[name] if name in given else empty(kind.table, dimension)
        for name, kind in MEASUREMENT_TYPES.items()}


def _joined(columns: list[Index]) -> Index:
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns])
