"""Ranges between antennas (paper, table 1, row 4, with lever arms)."""

from __future__ import annotations

from dataclasses import dataclass

from .measurement_type import Kind, MeasurementType, register
from .residual import PointResidual
from .table import Distances, PointEndpoint, Stamps, Table, Vectors, Weights


@dataclass(frozen=True)
class Ranges(Table):
    """Distance between two antennas."""

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


def range_residual(table: Ranges) -> PointResidual:
    """The residual of each range, its bearing included."""
    return PointResidual(
        table.source, table.target, table.lever_source, table.lever_target, table.precision,
        table.distance_m)


def _residuals(table: Ranges) -> tuple[PointResidual]:
    return (range_residual(table),)


RANGES = register(MeasurementType(
    'ranges', Ranges, _residuals, Kind.RANGE,
    {'source': 'lever_source', 'target': 'lever_target'}))
