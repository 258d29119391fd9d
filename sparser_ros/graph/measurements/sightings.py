"""Sightings of points from poses (paper, table 1, row 2)."""

from __future__ import annotations

from dataclasses import dataclass

from .measurement_type import Kind, MeasurementType, register
from .residual import PointResidual
from .table import PointEndpoint, PoseEndpoint, Stamps, Table, Vectors, Weights


@dataclass(frozen=True)
class Sightings(Table):
    """Position of a point in the frame of pose i."""

    i: PoseEndpoint
    point: PointEndpoint
    """Endpoint that is seen."""
    translation: Vectors
    """(k, d): R_i^T (p - t_i)."""
    tau: Weights
    stamp_ns: Stamps


def _residuals(table: Sightings) -> tuple[PointResidual]:
    return (PointResidual(table.i, table.point, table.translation, None, table.tau),)


SIGHTINGS = register(MeasurementType(
    'sightings', Sightings, _residuals, Kind.SIGHTING, {'i': 'translation'}, free_scale=True))
