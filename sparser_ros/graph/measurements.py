"""Measurements as structures of arrays: one frozen table per kind, k rows each.

Weights are the scalars of the quadratic cost (no factor 1/2): `kappa` on rotations, `tau` on
translations, `precision` = 1/sigma^2 on ranges and positions; `precision.py` derives them from
covariances. Stamps are int nanoseconds, 0 = unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from ..array_types import Array, Index, Mask

T = TypeVar('T', bound='Table')


@dataclass(frozen=True)
class Table:
    """Columns of equal length; concatenation and selection act on all of them."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self: T, rows: Any) -> T:
        """The table of the chosen rows (mask or indices)."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def append(self: T, other: T) -> T:
        """This table followed by another of the same kind."""
        return type(self)(
            **{
                f.name: np.concatenate([getattr(self, f.name), getattr(other, f.name)])
                for f in fields(self)
            }
        )

    def replaced(self: T, **columns: Any) -> T:
        """A copy with some columns replaced."""
        return replace(self, **columns)


@dataclass(frozen=True)
class RelativePoses(Table):
    """Pose of j in the frame of i: odometry and loop closures (paper, table I, rows 1 and 2)."""

    i: Index
    j: Index
    rotation: Array
    """(k, d, d): R_i^T R_j."""
    translation: Array
    """(k, d): R_i^T (t_j - t_i)."""
    kappa: Array
    tau: Array
    odometry: Mask
    """True for consecutive poses of one robot; false for loop closures."""
    stamp_ns: Index


@dataclass(frozen=True)
class Sightings(Table):
    """Position of a point in the frame of pose i (paper, table I, row 2)."""

    i: Index
    point: Index
    """Endpoint that is seen."""
    translation: Array
    """(k, d): R_i^T (p - t_i)."""
    tau: Array
    stamp_ns: Index


@dataclass(frozen=True)
class Ranges(Table):
    """Distance between two antennas (paper, table I, row 3, with lever arms)."""

    source: Index
    """Endpoint of one antenna."""
    target: Index
    """Endpoint of the other."""
    lever_source: Array
    """(k, d): antenna in the body frame of the source pose; zero for landmarks."""
    lever_target: Array
    distance_m: Array
    precision: Array
    """(k,): 1/sigma^2 in m^-2."""
    stamp_ns: Index


@dataclass(frozen=True)
class PosePriors(Table):
    """Pose i in the map frame (paper, appendix C)."""

    i: Index
    rotation: Array
    translation: Array
    kappa: Array
    """0 where the heading is unknown."""
    tau: Array
    stamp_ns: Index


@dataclass(frozen=True)
class PointPriors(Table):
    """Position of a point in the map frame: landmark priors and position fixes."""

    point: Index
    """Endpoint."""
    lever: Array
    """(k, d): antenna in the body frame of a pose; zero for landmarks."""
    position: Array
    precision: Array
    stamp_ns: Index


def empty(kind: type[T], dimension: int) -> T:
    """A table without rows."""
    d = dimension
    shapes = {
        'rotation': (0, d, d), 'translation': (0, d), 'position': (0, d), 'lever': (0, d),
        'lever_source': (0, d), 'lever_target': (0, d),
    }
    indices = {'i', 'j', 'point', 'source', 'target', 'stamp_ns'}
    columns = {}
    for item in fields(kind):
        dtype: Any = np.int64 if item.name in indices else float
        if item.name == 'odometry':
            dtype = bool
        columns[item.name] = np.zeros(shapes.get(item.name, (0,)), dtype=dtype)
    return kind(**columns)
