"""Two measurement types that the package does not have, as a user would add them."""

from __future__ import annotations

from dataclasses import dataclass

from sparser_ros.graph import Kind, MeasurementType, PointResidual, Table
from sparser_ros.graph.table import (
    Distances,
    PointEndpoint,
    PoseEndpoint,
    Stamps,
    Vectors,
    Weights,
)


@dataclass(frozen=True)
class Dockings(Table):
    """A point of pose i touches a point of another pose, or a landmark."""

    i: PoseEndpoint
    point: PointEndpoint
    lever_i: Vectors
    lever_point: Vectors
    precision: Weights
    stamp_ns: Stamps


DOCKINGS = MeasurementType(
    'dockings', Dockings,
    lambda table: (PointResidual(
        table.i, table.point, table.lever_i, table.lever_point, table.precision),),
    arms={'i': 'lever_i', 'point': 'lever_point'})


@dataclass(frozen=True)
class Baselines(Table):
    """Distance between two landmarks by tape measure."""

    one: PointEndpoint
    other: PointEndpoint
    length_m: Distances
    precision: Weights


BASELINES = MeasurementType(
    'baselines', Baselines,
    lambda table: (PointResidual(
        table.one, table.other, None, None, table.precision, table.length_m),),
    Kind.OTHER)
