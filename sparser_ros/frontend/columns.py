"""Rows collected one by one, turned into the tables of an increment."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array_types import Array, Index
from ..graph import PointPriors, PosePriors, Ranges, RelativePoses, Sightings, empty
from .motion import Geometry, Pose, Vector


class MeasurementRows:
    """New measurements since the last increment; endpoints are final already."""

    def __init__(self, space: Geometry) -> None:
        self._space = space
        self.relative: list[tuple[int, int, Pose, float, float, bool, int]] = []
        """i, j, motion, translation variance, rotation variance, odometry, stamp."""
        self.ranges: list[tuple[int, int, Vector, Vector, float, float, int]] = []
        """source, target, lever arms, distance, variance, stamp."""
        self.sightings: list[tuple[int, int, Vector, float, int]] = []
        """i, point, position, variance, stamp."""
        self.pose_priors: list[tuple[int, Pose, float, float, int]] = []
        """i, pose, translation variance, rotation variance, stamp."""
        self.point_priors: list[tuple[int, Vector, Vector, float, int]] = []
        """endpoint, lever arm, position, variance, stamp."""

    def tables(self) -> dict[str, Any]:
        """The measurement tables by name."""
        return {
            'relative_poses': self._relative(), 'sightings': self._sightings(),
            'ranges': self._ranges(), 'pose_priors': self._pose_priors(),
            'point_priors': self._point_priors(),
        }

    def _kappa(self, rotation_variance: Array) -> Array:
        """As `graph.precision.kappa_from_covariance` for variances per axis."""
        return 1 / rotation_variance if self._space.dimension == 2 else 0.5 / rotation_variance

    def _relative(self) -> RelativePoses:
        if not self.relative:
            return empty(RelativePoses, self._space.dimension)
        i, j, motion, move, turn, odometry, stamp = zip(*self.relative, strict=True)
        rotation, translation = self._space.arrays(motion)
        return RelativePoses(
            _index(i), _index(j), rotation, translation, self._kappa(np.array(turn)),
            1 / np.array(move), np.array(odometry, dtype=bool), _index(stamp))

    def _ranges(self) -> Ranges:
        if not self.ranges:
            return empty(Ranges, self._space.dimension)
        source, target, one, other, distance, variance, stamp = zip(*self.ranges, strict=True)
        return Ranges(
            _index(source), _index(target), np.array(one, dtype=float),
            np.array(other, dtype=float), np.array(distance, dtype=float),
            1 / np.array(variance, dtype=float), _index(stamp))

    def _sightings(self) -> Sightings:
        if not self.sightings:
            return empty(Sightings, self._space.dimension)
        i, point, position, variance, stamp = zip(*self.sightings, strict=True)
        return Sightings(_index(i), _index(point), np.array(position, dtype=float),
                         1 / np.array(variance, dtype=float), _index(stamp))

    def _pose_priors(self) -> PosePriors:
        if not self.pose_priors:
            return empty(PosePriors, self._space.dimension)
        i, pose, move, turn, stamp = zip(*self.pose_priors, strict=True)
        rotation, translation = self._space.arrays(pose)
        return PosePriors(_index(i), rotation, translation, self._kappa(np.array(turn)),
                          1 / np.array(move), _index(stamp))

    def _point_priors(self) -> PointPriors:
        if not self.point_priors:
            return empty(PointPriors, self._space.dimension)
        point, lever, position, variance, stamp = zip(*self.point_priors, strict=True)
        return PointPriors(_index(point), np.array(lever, dtype=float),
                           np.array(position, dtype=float),
                           1 / np.array(variance, dtype=float), _index(stamp))


def _index(values: Any) -> Index:
    return np.array(values, dtype=np.int64)
