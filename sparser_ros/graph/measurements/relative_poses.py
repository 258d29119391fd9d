"""Relative poses: odometry and loop closures (paper, table 1, rows 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .measurement_type import Kind, MeasurementType, register
from .residual import PointResidual, RotationResidual
from .table import (
    Flags,
    PoseEndpoint,
    Rotations,
    RotationWeights,
    Stamps,
    Table,
    Vectors,
    Weights,
)


@dataclass(frozen=True)
class RelativePoses(Table):
    """Pose of j in the frame of i."""

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


def _residuals(table: RelativePoses) -> tuple[RotationResidual, PointResidual]:
    return (
        RotationResidual(table.i, table.j, table.rotation, table.kappa),
        PointResidual(table.i, table.j, table.translation, None, table.tau),
    )


def _kinds(table: RelativePoses) -> NDArray[np.int8]:
    return np.where(table.odometry, Kind.ODOMETRY, Kind.CLOSURE).astype(np.int8)


RELATIVE_POSES = register(MeasurementType('relative_poses', RelativePoses, _residuals, _kinds))
