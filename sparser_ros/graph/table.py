"""Structures of arrays: tables whose columns declare shape, unit and what they may hold.

A column is declared by its type, for example `lever: Vectors`. From these declarations follow
empty tables, validation, renumbering of endpoints and the form on the wire.

An endpoint is one integer that names a pose or a landmark, stable while the graph grows: >= 0 is a
pose, in the order of `Graph.poses`, < 0 the landmark `~endpoint`, in that of `Graph.landmarks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import DTypeLike

from ..array_types import Array, Index, Mask

T = TypeVar('T', bound='Table')

MOST_LENGTH_M = 1e12
"""No length is longer and no standard deviation smaller than its inverse: their squares and the
squares of their quotients stay finite."""


@dataclass(frozen=True)
class Column:
    """Type, shape and unit of one column of k rows."""

    dtype: DTypeLike = np.float64
    shape: str = ''
    """One letter `d` per axis after the rows: '' (k,), 'd' (k, d), 'dd' (k, d, d)."""
    unit: str = ''
    endpoint: str = ''
    """`pose` or `point` (pose or landmark) where the column names variables."""
    positive: bool = False
    """Values must be above zero."""
    negative: bool = True
    """Values may be below zero."""


PoseEndpoint = Annotated[Index, Column(np.int64, endpoint='pose')]
PointEndpoint = Annotated[Index, Column(np.int64, endpoint='point')]
Numbers = Annotated[Index, Column(np.int64)]
Stamps = Annotated[Index, Column(np.int64, unit='ns')]
Flags = Annotated[Mask, Column(np.bool_)]
Rotations = Annotated[Array, Column(shape='dd')]
Vectors = Annotated[Array, Column(shape='d', unit='m')]
Distances = Annotated[Array, Column(unit='m', positive=True)]
Lengths = Annotated[Array, Column(unit='m')]
Directions = Annotated[Array, Column(shape='d', unit='1')]
AngleWeights = Annotated[Array, Column(unit='rad^-2', positive=True)]
RotationWeights = Annotated[Array, Column(unit='1', negative=False)]
"""kappa; 0 where a rotation is unknown."""
Weights = Annotated[Array, Column(unit='m^-2', positive=True)]
"""tau of translations or 1 / sigma^2."""


@dataclass(frozen=True)
class Table:
    """Columns of equal length; concatenation and selection act on all of them."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def take(self: T, rows: Any) -> T:
        """The table of the chosen rows (mask or indices)."""
        return type(self)(**{name: column[rows] for name, column in vars(self).items()})

    def append(self: T, other: T) -> T:
        """This table followed by another of the same kind."""
        return concatenated([self, other])

    def replaced(self: T, **columns: Any) -> T:
        """A copy with some columns replaced."""
        return replace(self, **columns)

    @classmethod
    @cache
    def columns(cls) -> dict[str, Column]:
        """The declared columns by name, in order."""
        hints = get_type_hints(cls, include_extras=True)
        return {f.name: hints[f.name].__metadata__[0] for f in fields(cls)}

    @classmethod
    def endpoints(cls) -> tuple[str, ...]:
        """Names of the columns that name variables."""
        return tuple(name for name, column in cls.columns().items() if column.endpoint)


@dataclass(frozen=True)
class Poses(Table):
    """Pose variables, in any order of robots; values are truth, reference or initial guess."""

    robot: Numbers
    """(n,): position in `Graph.robots`."""
    index: Numbers
    """(n,): number of the pose within its robot, increasing in time."""
    stamp_ns: Stamps
    """(n,): 0 = unknown."""
    rotation: Rotations
    """(n, d, d): R_map_body."""
    translation: Vectors
    """(n, d): body in map, metres."""

    @property
    def order(self) -> Index:
        """(n,): rows robot by robot, those of each in the order of their numbers."""
        return np.lexsort((self.index, self.robot))

    def newest(self, robots: int) -> Index:
        """(robots,): row of each robot's last pose, in whatever order the rows are; -1 without any.
        """
        last = np.full(robots, -1, dtype=np.int64)
        np.maximum.at(last, self.robot, self.index)
        rows = np.flatnonzero(self.index == last[self.robot])
        last[self.robot[rows]] = rows
        return last

    @property
    def numbered(self) -> Index:
        """(n,): numbers within each robot from 0, none left out."""
        order = self.order
        robot = self.robot[order]
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order)) - np.searchsorted(robot, robot)
        return number


@dataclass(frozen=True)
class Landmarks:
    """Points without heading: beacons and landmarks."""

    names: tuple[str, ...]
    position: Array
    """(m, d): metres in map."""
    fixed: Mask
    """(m,): true where the position is known exactly and is no variable."""

    def __len__(self) -> int:
        return len(self.names)

    @staticmethod
    def joined(parts: Sequence[Landmarks]) -> Landmarks:
        """Those of several graphs, one after the other."""
        return Landmarks(
            tuple(name for part in parts for name in part.names),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.fixed for part in parts]))


def concatenated(tables: list[T]) -> T:
    """One table of several of the same kind."""
    if len(tables) == 1:
        return tables[0]
    return type(tables[0])(**{
        name: np.concatenate([getattr(table, name) for table in tables])
        for name in tables[0].columns()})


def empty(kind: type[T], dimension: int) -> T:
    """A table without rows."""
    return kind(**{
        name: np.zeros((0, *[dimension] * len(column.shape)), dtype=column.dtype)
        for name, column in kind.columns().items()})


def point_index(endpoint: Index, n_poses: int) -> Index:
    """Rows of endpoints in the stacked positions [pose translations; landmarks]."""
    endpoint = np.asarray(endpoint, dtype=np.int64)
    return np.where(endpoint >= 0, endpoint, n_poses + ~endpoint)
