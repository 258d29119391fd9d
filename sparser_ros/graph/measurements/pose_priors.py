"""Absolute poses: priors and fixes with a heading (paper, appendix C)."""

from __future__ import annotations

from dataclasses import dataclass

from .measurement_type import Kind, MeasurementType, register
from .residual import PointResidual, RotationResidual
from .table import PoseEndpoint, Rotations, RotationWeights, Stamps, Table, Vectors, Weights


@dataclass(frozen=True)
class PosePriors(Table):
    """Pose i in the map frame."""

    i: PoseEndpoint
    rotation: Rotations
    translation: Vectors
    kappa: RotationWeights
    """0 where the heading is unknown."""
    tau: Weights
    stamp_ns: Stamps


def _residuals(table: PosePriors) -> tuple[RotationResidual, PointResidual]:
    return (
        RotationResidual(None, table.i, table.rotation, table.kappa),
        PointResidual(None, table.i, table.translation, None, table.tau),
    )


POSE_PRIORS = register(MeasurementType(
    'pose_priors', PosePriors, _residuals, Kind.POSE_FIX, absolute=True))
