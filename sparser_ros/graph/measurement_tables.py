"""One table of every measurement type: what a graph and an increment have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..array_types import Array, Index
from .measurements import (
    MEASUREMENT_TYPES,
    HeightResidual,
    Heights,
    Kind,
    MeasurementType,
    PointPriors,
    PointResidual,
    PosePriors,
    Ranges,
    RelativePoses,
    Sightings,
    Table,
    VerticalResidual,
    Verticals,
    empty,
)

T = TypeVar('T', bound=Table)


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

    def point_residuals(self) -> Iterator[PointResidual]:
        """The residuals between points, in the order of their rows."""
        for kind, table in self.typed():
            for part in kind.residuals(table):
                if isinstance(part, PointResidual):
                    yield part

    def vertical_residuals(self) -> Iterator[VerticalResidual]:
        """The residuals of verticals, in the order of their rows."""
        for kind, table in self.typed():
            for part in kind.residuals(table):
                if isinstance(part, VerticalResidual):
                    yield part

    def height_residuals(self) -> Iterator[HeightResidual]:
        """The residuals of heights, in the order of their rows."""
        for kind, table in self.typed():
            for part in kind.residuals(table):
                if isinstance(part, HeightResidual):
                    yield part

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
        return sum(len(part) for part in self.point_residuals() if part.distance is not None)

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
        found = [
            part.arm_first for part in self.point_residuals()
            if part.first is None and part.arm_first is not None]
        return np.concatenate([np.zeros((0, dimension)), *found])

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
    """A table of every registered type: a named one, one of that class, the old one, or empty."""
    names = {kind.table: name for name, kind in MEASUREMENT_TYPES.items()}
    given = {**(measurements or {}), **{names[type(one)]: one for one in tables}, **named}
    unknown = [name for name in given if name not in MEASUREMENT_TYPES]
    if unknown:
        raise TypeError(
            f'no measurement type {unknown[0]!r}; there are {", ".join(MEASUREMENT_TYPES)}')
    return {
        name: given[name] if name in given else empty(kind.table, dimension)
        for name, kind in MEASUREMENT_TYPES.items()}


def _joined(columns: list[Index]) -> Index:
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns])
