"""Absolute positions: landmark priors and position fixes (paper, appendix C)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def _kinds(table: PointPriors) -> NDArray[np.int8]:
    return np.where(table.point >= 0, Kind.POSITION_FIX, Kind.PRIOR).astype(np.int8)


POINT_PRIORS = register(MeasurementType(
    'point_priors', PointPriors, _residuals, _kinds, {'point': 'lever'}, absolute=True))
