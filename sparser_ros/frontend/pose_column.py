"""Poses as one growing column of numbers: numpy reads it at once, as tuples they would take ms."""

from __future__ import annotations

from array import array

import numpy as np

from ..array_types import Array, Mask
from .motion import Pose


class PoseColumn:
    """Poses of keyframes in the order of time, `width` numbers each."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._numbers = array('d')

    def __len__(self) -> int:
        return len(self._numbers) // self._width

    def __getitem__(self, number: int) -> Pose:
        begin = (number if number >= 0 else len(self) + number) * self._width
        if not 0 <= begin < len(self._numbers):
            raise IndexError(number)
        return tuple(self._numbers[begin:begin + self._width])

    def append(self, pose: Pose) -> None:
        """Add the newest one."""
        self._numbers.extend(pose)

    @property
    def values(self) -> Array:
        """(k, width): a copy."""
        return np.array(self._numbers).reshape(-1, self._width)

    def take(self, keep: Mask) -> Array:
        """Forget all but those of a mask (k,); returns the others (g, width)."""
        every = self.values
        self._numbers = array('d', every[keep].tobytes())
        return every[~keep]
