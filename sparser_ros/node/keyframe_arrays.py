"""All keyframes handed to the solver so far, as growing arrays: what publishing needs of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..array_types import Array, Index
from ..graph import Graph, Increment, Landmarks, Poses


class GrowingArray:
    """An array that grows at the end; doubling keeps appending cheap at any length."""

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        self._data: NDArray = np.zeros((256, *shape), dtype=dtype)
        self._size = 0

    def append(self, rows: NDArray) -> None:
        size = self._size + len(rows)
        if size > len(self._data):
            grown = np.zeros((max(size, 2 * len(self._data)), *self._data.shape[1:]),
                             dtype=self._data.dtype)
            grown[:self._size] = self._data[:self._size]
            self._data = grown
        self._data[self._size:size] = rows
        self._size = size

    @property
    def values(self) -> NDArray:
        """The rows so far, without a copy."""
        return self._data[:self._size]


class Keyframes:
    """Stamp and T_odom_base of every keyframe in the order of the graph, and whose it is."""

    def __init__(self, dimension: int) -> None:
        d = dimension
        self.robots: tuple[str, ...] = ()
        self.landmarks: list[str] = []
        self.landmark_fixed: list[bool] = []
        self._rows: list[GrowingArray] = []
        self._dimension = d
        self._robot = GrowingArray((), np.int64)
        self._stamp_ns = GrowingArray((), np.int64)
        self._rotation = GrowingArray((d, d), float)
        self._translation = GrowingArray((d,), float)

    def __len__(self) -> int:
        return len(self._stamp_ns.values)

    def append(self, increment: Increment) -> None:
        """Add the keyframes and landmarks of the next increment."""
        self.robots = increment.robots
        self.landmarks.extend(increment.landmarks.names)
        self.landmark_fixed.extend(bool(fixed) for fixed in increment.landmarks.fixed)
        poses, size = increment.poses, len(self)
        while len(self._rows) < len(self.robots):
            self._rows.append(GrowingArray((), np.int64))
        for number in np.unique(poses.robot).tolist():
            self._rows[number].append(size + np.flatnonzero(poses.robot == number))
        self._robot.append(poses.robot)
        self._stamp_ns.append(poses.stamp_ns)
        self._rotation.append(poses.rotation)
        self._translation.append(poses.translation)

    def rows(self, robot: str, among_first: int) -> Index:
        """Rows of one robot among the first so many keyframes, in time order.

        A robot's keyframes come in time order, so these are their numbers as they came.
        """
        if robot not in self.robots:
            return np.zeros(0, dtype=np.int64)
        rows = self._rows[self.robots.index(robot)].values
        return rows[:np.searchsorted(rows, among_first)]

    def graph(self) -> Graph:
        """Robots, keyframes and landmarks without a measurement; nothing is copied.

        Poses are T_odom_base, positions of landmarks are not known.
        """
        m = len(self.landmarks)
        poses = Poses(
            self._robot.values, np.arange(len(self)), self._stamp_ns.values,
            self._rotation.values, self._translation.values)
        marks = Landmarks(tuple(self.landmarks), np.full((m, self._dimension), np.nan),
                          np.array(self.landmark_fixed, dtype=bool))
        return Graph(self._dimension, self.robots, poses, marks)

    def stamps_ns(self, rows: Index) -> Index:
        """Stamps of the rows."""
        return self._stamp_ns.values[rows]

    def odometry(self, row: int) -> tuple[Array, Array]:
        """T_odom_base stored with a keyframe: rotation (d, d), translation (d,)."""
        return self._rotation.values[row], self._translation.values[row]
