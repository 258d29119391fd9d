"""Attitudes against gravity: where up is in the frame of a pose (docs/method.md, section 1)."""

from __future__ import annotations

from dataclasses import dataclass

from .measurement_type import Kind, MeasurementType, register
from .residual import VerticalResidual
from .table import AngleWeights, Directions, PoseEndpoint, Stamps, Table


@dataclass(frozen=True)
class Verticals(Table):
    """The last axis of map as seen from pose i."""

    i: PoseEndpoint
    up: Directions
    """(k, d): R_i^T e_z, of unit length."""
    precision: AngleWeights
    """(k,): 1/sigma^2 of the angle about each horizontal axis, rad^-2."""
    stamp_ns: Stamps


def _residuals(table: Verticals) -> tuple[VerticalResidual]:
    return (VerticalResidual(table.i, table.up, table.precision),)


VERTICALS = register(MeasurementType(
    'verticals', Verticals, _residuals, Kind.VERTICAL, directions={'i': 'up'}))
