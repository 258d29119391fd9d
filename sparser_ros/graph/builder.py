"""A graph from arrays, or from one measurement after another, without knowing its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..array_types import Array, Index, Mask
from ..config import GraphError
from .measurements import Heights, PointPriors, PosePriors, Ranges, RelativePoses, Verticals
from .table import MOST_LENGTH_M, Landmarks, Poses, Table, concatenated

End = str | tuple[str, int | ArrayLike]
"""A beacon by its name, or a robot with the number of one or more of its poses."""
G = TypeVar('G')
"""The graph, which knows its builder."""


class GraphBuilder(Generic[G]):
    """Collects measurements; `build` makes the graph, its poses at the composed odometry.

    Poses of a robot are numbered from 0; the first `add_odometry` of a robot makes its pose 0, and
    each motion one more. Beacons appear with their first measurement. In the plane rotations are
    angles in radians, in space rotation vectors; matrices (d, d) will do as well. Every argument
    may be one value, or an array with one row for each of k measurements.
    """

    def __init__(self, make: Callable[..., G], dimension: int = 2, name: str = '') -> None:
        """`make` gives a graph of its parts, validated."""
        if dimension not in (2, 3):
            raise GraphError(f'dimension must be 2 or 3, not {dimension}')
        self._make = make
        self.dimension = dimension
        self._name = name
        self._robots: list[str] = []
        self._rows: list[list[int]] = []
        self._rotation: list[Array] = []
        self._translation: list[Array] = []
        self._stamps: list[int] = []
        self._beacons: dict[str, Array | None] = {}
        self._tables: dict[Callable[..., Table], list[Any]] = {}

    def add_odometry(
        self, robot: str, translation: ArrayLike, rotation: ArrayLike, *,
        sigma_m: ArrayLike, sigma_rad: ArrayLike, stamp_ns: ArrayLike = 0,
    ) -> GraphBuilder[G]:
        """k motions of a robot, each in the frame of the pose before it.

        `translation` (k, d) in metres, `rotation` (k,) or (k, 3) or (k, d, d); standard deviations
        per axis, one or (k,); `stamp_ns` (k,) of the poses that the motions end at.
        """
        shift, turn = self._motions(translation, rotation)
        k = len(shift)
        rows = self._rows[self._robot(robot)]
        stamps = _spread('stamp_ns', stamp_ns, k, dtype=np.int64)
        first = len(self._rotation)
        for row in range(k):
            before = rows[-1]
            self._translation.append(
                self._translation[before] + self._rotation[before] @ shift[row])
            self._rotation.append(self._rotation[before] @ turn[row])
            self._stamps.append(int(stamps[row]))
            rows.append(len(self._rotation) - 1)
        j = np.arange(first, first + k)
        self._relative(np.array(rows[-k - 1:-1], dtype=np.int64), j, shift, turn,
                       sigma_m, sigma_rad, np.ones(k, dtype=bool))
        return self

    def add_closure(
        self, source: End, target: End, translation: ArrayLike, rotation: ArrayLike, *,
        sigma_m: ArrayLike, sigma_rad: ArrayLike,
    ) -> GraphBuilder[G]:
        """k loop closures: the pose of `target` in the frame of `source`, as in `add_odometry`."""
        shift, turn = self._motions(translation, rotation)
        i, j = (self._ends(end, len(shift), poses_only=True) for end in (source, target))
        self._relative(i, j, shift, turn, sigma_m, sigma_rad, np.zeros(len(shift), dtype=bool))
        return self

    def add_range(
        self, source: End, target: End, distance_m: ArrayLike, *, sigma_m: ArrayLike,
        lever_source: ArrayLike = 0.0, lever_target: ArrayLike = 0.0,
    ) -> GraphBuilder[G]:
        """k distances between antennas; a lever arm (d,) is the antenna in its robot's frame."""
        distance = _numbers('distance_m', distance_m)
        k = len(distance)
        ends = [self._ends(end, k) for end in (source, target)]
        self._add(
            Ranges, *ends, self._arms(ends[0], lever_source), self._arms(ends[1], lever_target),
            distance, _precision('sigma_m', sigma_m, k))
        return self

    def add_prior(
        self, what: End, position: ArrayLike, rotation: ArrayLike | None = None, *,
        sigma_m: ArrayLike = 0.0, sigma_rad: ArrayLike = 0.0,
    ) -> GraphBuilder[G]:
        """Known positions (k, d) in map of a beacon or of poses, for poses with a heading as well.

        `sigma_m` of 0 makes a beacon's position exact. Without `rotation` the heading is free.
        """
        where = self._vectors('position', position)
        k = len(where)
        ends = self._ends(what, k)
        if isinstance(what, str) and not np.any(_bounded('sigma_m', sigma_m)):
            if k != 1:
                raise GraphError(
                    f'position: {k} rows for the exact position of {what!r}: give one, or sigma_m')
            self._beacons[what] = where[0]
        elif rotation is None:
            self._add(PointPriors, ends, self._arms(ends, 0.0), where,
                      _precision('sigma_m', sigma_m, k))
        else:
            kappa, tau = self._weights(sigma_m, sigma_rad, k)
            ends = self._ends(what, k, poses_only=True)
            self._add(PosePriors, ends, self._turns(rotation, k), where, kappa, tau)
        return self

    def add_vertical(
        self, what: tuple[str, ArrayLike], up: ArrayLike, *, sigma_rad: ArrayLike,
    ) -> GraphBuilder[G]:
        """The vertical as poses see it: the last axis of map (k, 3) in their body frames."""
        seen = self._vectors('up', up)
        length = np.linalg.norm(seen, axis=1, keepdims=True)
        if np.any(length < 1e-6):
            raise GraphError('up: a direction of no length')
        k = len(seen)
        self._add(
            Verticals, self._ends(what, k, poses_only=True), seen / length,
            _precision('sigma_rad', sigma_rad, k))
        return self

    def add_height(
        self, what: End, height_m: ArrayLike, *, sigma_m: ArrayLike, lever: ArrayLike = 0.0,
    ) -> GraphBuilder[G]:
        """k heights in map of a beacon, or of points `lever` (d,) in the frames of poses."""
        height = _numbers('height_m', height_m)
        k = len(height)
        ends = self._ends(what, k)
        self._add(
            Heights, ends, self._arms(ends, lever), height, _precision('sigma_m', sigma_m, k))
        return self

    def build(self) -> G:
        """The graph; GraphError names what is not finite, not positive or not there."""
        d, n = self.dimension, len(self._rotation)
        robot, index = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        for number, rows in enumerate(self._rows):
            robot[rows], index[rows] = number, np.arange(len(rows))
        poses = Poses(
            robot, index, np.array(self._stamps, dtype=np.int64),
            np.array(self._rotation).reshape(n, d, d), np.array(self._translation).reshape(n, d))
        known = self._beacons.values()
        landmarks = Landmarks(
            tuple(self._beacons),
            np.array([np.zeros(d) if at is None else at for at in known]).reshape(-1, d),
            np.array([at is not None for at in known], dtype=bool))
        return self._make(
            d, tuple(self._robots), poses, landmarks,
            *(concatenated(tables) for tables in self._tables.values()), name=self._name)

    # -- parts -----------------------------------------------------------------------------------

    def _robot(self, name: str) -> int:
        """Number of a robot; a new one starts at the origin."""
        if name not in self._robots:
            if name in self._beacons:
                raise GraphError(f'{name!r} is a beacon already')
            self._robots.append(name)
            self._rows.append([len(self._rotation)])
            self._rotation.append(np.eye(self.dimension))
            self._translation.append(np.zeros(self.dimension))
            self._stamps.append(0)
        return self._robots.index(name)

    def _ends(self, end: End, k: int, *, poses_only: bool = False) -> Index:
        """(k,) endpoints of a beacon or of poses; GraphError for unknown robots, poses."""
        if isinstance(end, str):
            if poses_only or end in self._robots:
                raise GraphError(f'{end!r}: give a robot with the number of its pose: ({end!r}, 0)')
            self._beacons.setdefault(end, None)
            return np.full(k, ~list(self._beacons).index(end), dtype=np.int64)
        if not isinstance(end, (tuple, list)) or len(end) != 2:
            raise GraphError(
                f'{end!r}: give the name of a beacon, or a robot with the number of its pose')
        robot, numbers = end
        if robot not in self._robots:
            raise GraphError(
                f'no robot {robot!r}: add its odometry first; there are {self._robots}')
        rows = self._rows[self._robots.index(robot)]
        wanted = np.asarray(numbers)
        if wanted.size and wanted.dtype.kind not in 'iu':
            raise GraphError(f'robot {robot!r}: poses are numbered 0, 1, 2, …, got {numbers!r}')
        wanted = _spread(f'poses of robot {robot!r}', wanted, k, dtype=np.int64)
        if np.any((wanted < -len(rows)) | (wanted >= len(rows))):
            raise GraphError(f'robot {robot!r} has poses 0 to {len(rows) - 1}, got {end[1]}')
        return np.array([rows[number] for number in wanted.tolist()], dtype=np.int64)

    def _add(self, kind: Callable[..., Table], *columns: Array | Index | Mask) -> None:
        """A table of measurements without times."""
        stamps = np.zeros(len(columns[0]), dtype=np.int64)
        self._tables.setdefault(kind, []).append(kind(*columns, stamps))

    def _arms(self, end: Index, arm: ArrayLike) -> Array:
        """(k, d): a lever arm at poses, zero at beacons."""
        arms = _spread('lever arm', _bounded('lever arm', arm), (len(end), self.dimension))
        return np.where((end >= 0)[:, None], arms, 0.0)

    def _motions(self, translation: ArrayLike, rotation: ArrayLike) -> tuple[Array, Array]:
        shift = self._vectors('translation', translation)
        return shift, self._turns(rotation, len(shift))

    def _vectors(self, name: str, values: ArrayLike) -> Array:
        """(k, d) of one row or several; GraphError where they are not d long."""
        array = _bounded(name, values)
        if array.size and (array.ndim > 2 or array.shape[-1:] != (self.dimension,)):
            raise GraphError(f'{name}: expected {self.dimension} numbers for each measurement, '
                             f'got an array of shape {array.shape}')
        return array.reshape(-1, self.dimension)

    def _turns(self, rotation: ArrayLike, k: int) -> Array:
        """(k, d, d) of angles, rotation vectors or matrices."""
        # The compiled functions load numba, which half of the commands do without.
        from ..linalg.rotations import angle_to_matrix, rotvec_to_matrix

        d, values = self.dimension, _bounded('rotation', rotation)
        if values.shape[-2:] == (d, d) and values.ndim in (2, 3) and values.size == k * d * d:
            turns = values.reshape(k, d, d)
            if not np.allclose(turns @ np.swapaxes(turns, 1, 2), np.eye(d), atol=1e-6) or np.any(
                    np.linalg.det(turns) < 0):
                raise GraphError('rotation: a matrix whose rows are not orthonormal, or a mirror')
            return turns
        try:
            if d == 2:
                return angle_to_matrix(np.broadcast_to(values, k))
            return rotvec_to_matrix(np.broadcast_to(values, (k, 3)))
        except ValueError:
            raise GraphError(
                f'rotation: expected {k} angles, rotation vectors or matrices, got an array of '
                f'shape {values.shape}') from None

    def _relative(
        self, i: Index, j: Index, shift: Array, turn: Array, sigma_m: ArrayLike,
        sigma_rad: ArrayLike, odometry: Mask,
    ) -> None:
        kappa, tau = self._weights(sigma_m, sigma_rad, len(i))
        self._add(RelativePoses, i, j, turn, shift, kappa, tau, odometry)

    def _weights(
        self, sigma_m: ArrayLike, sigma_rad: ArrayLike, k: int
    ) -> tuple[Array, Array]:
        """kappa and tau of standard deviations per axis (`graph.precision`)."""
        kappa = _precision('sigma_rad', sigma_rad, k)
        return kappa if self.dimension == 2 else kappa / 2, _precision('sigma_m', sigma_m, k)


def _bounded(name: str, values: ArrayLike) -> Array:
    """An argument as an array; GraphError where it is not finite, or beyond all sizes."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise GraphError(f'{name}: expected numbers, got {values!r}') from None
    wrong = ~(np.abs(array) <= MOST_LENGTH_M)
    if np.any(wrong):
        raise GraphError(
            f'{name}: {array[wrong].flat[0]} is not a number between -{MOST_LENGTH_M:g} and '
            f'{MOST_LENGTH_M:g}')
    return array


def _numbers(name: str, values: ArrayLike) -> Array:
    """(k,) of one number or several."""
    array = np.atleast_1d(_bounded(name, values))
    if array.ndim > 1:
        raise GraphError(f'{name}: expected one number for each measurement, got an array of '
                         f'shape {array.shape}')
    return array


def _spread(
    name: str, values: ArrayLike, shape: Any, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """One value, or one for each measurement, in that shape; GraphError where they differ."""
    try:
        return np.broadcast_to(np.asarray(values, dtype=dtype), shape)
    except (TypeError, ValueError):
        raise GraphError(f'{name}: expected one value, or an array of shape {shape}, got one of '
                         f'shape {np.shape(values)}') from None


def _precision(name: str, sigma: ArrayLike, k: int) -> Array:
    """(k,) 1 / sigma^2; GraphError where a sigma is not positive or beyond all sizes."""
    values = _spread(name, _bounded(name, sigma), k)
    if not np.all(values > 0):
        raise GraphError(f'{name}: a standard deviation must be positive, got {values.min()}')
    if np.any(values < 1 / MOST_LENGTH_M):
        raise GraphError(f'{name}: {values.min()} is below {1 / MOST_LENGTH_M:g}; what is exact is '
                         'a known beacon, add_prior with sigma_m=0')
    return 1 / values**2
