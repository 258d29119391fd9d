"""Heights: the last coordinate of a point in map (docs/method.md, section 1)."""

from __future__ import annotations

from dataclasses import dataclass

from .measurement_type import Kind, MeasurementType, register
from .residual import HeightResidual
from .table import Lengths, PointEndpoint, Stamps, Table, Vectors, Weights


@dataclass(frozen=True)
class Heights(Table):
    """Height of a point of a pose, or of a landmark, above the origin of map."""

    point: PointEndpoint
    lever: Vectors
    """(k, d): sensor in the body frame of a pose; zero for landmarks."""
    height_m: Lengths
    precision: Weights
    stamp_ns: Stamps


def _residuals(table: Heights) -> tuple[HeightResidual]:
    return (HeightResidual(table.point, table.lever, table.height_m, table.precision),)


HEIGHTS = register(MeasurementType(
    'heights', Heights, _residuals, Kind.HEIGHT, {'point': 'lever'}))
