"""Absolute positions: landmark priors and position fixes (paper, appendix C)."""

from __future__ import annotations

from dataclasses import dataclass

from .measurement_type import Kind, MeasurementType, register
from .residual import PointResidual
from .table import PointEndpoint, Stamps, Table, Vectors, Weights


@dataclass(frozen=True)
class PointPriors(Table):
    """Position of a point in the map frame."""

    point: PointEndpoint
    lever: Vectors
    """(k, d): antenna in the body frame of a pose; zero for landmarks."""
    position: Vectors
    precision: Weights
    stamp_ns: Stamps


def _residuals(table: PointPriors) -> tuple[PointResidual]:
    return (PointResidual(None, table.point, table.position, table.lever, table.precision),)


POINT_PRIORS = register(MeasurementType(
    'point_priors', PointPriors, _residuals, Kind.PRIOR, {'point': 'lever'}, absolute=True))
