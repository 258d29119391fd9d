"""What the closure adapters share: keyframe stamps by id, and covariances in either order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...array_types import Array
from ...config.inputs_config import ClosureInput
from ..decode import covariance

ROTATION_FIRST = [3, 4, 5, 0, 1, 2]
NO_COVARIANCE = np.zeros((6, 6))


class KeyframeIds:
    """Stamps of the keyframes a SLAM front-end has announced, and the closures already seen."""

    def __init__(self, options: ClosureInput, robots: Sequence[str]) -> None:
        self._names = options.robots
        self._robots = robots
        self._rotation_first = options.covariance_order
        self._stamps: dict[tuple[str, int], int] = {}
        self._seen: OrderedDict[Hashable, None] = OrderedDict()

    def robot(self, number: Any) -> str:
        """Name of the front-end's robot id; the id itself where it has none."""
        name = self._names.get(str(number))
        if name is not None:
            return name
        if not self._names and isinstance(number, int) and 0 <= number < len(self._robots):
            return self._robots[number]
        return str(number)

    def announce(self, robot: str, key: int, stamp_ns: int) -> None:
        """A keyframe exists."""
        if stamp_ns:
            self._stamps[robot, key] = stamp_ns

    def stamp(self, robot: str, key: int) -> int:
        """Its stamp; 0 = never announced."""
        return self._stamps.get((robot, key), 0)

    def new(self, identity: Hashable) -> bool:
        """True the first time; front-ends send their whole graph again and again."""
        if identity in self._seen:
            return False
        self._seen[identity] = None
        return True

    def forget(self, identity: Hashable) -> None:
        """Let a closure be told again, because it could not be used yet."""
        self._seen.pop(identity, None)

    def covariance(self, values: Any, usually_rotation_first: bool) -> Array:
        """(6, 6) with the translation first."""
        order = self._rotation_first
        matrix = covariance(values)
        rotation_first = order == 'rotation_first' or (order == 'auto' and usually_rotation_first)
        return matrix[np.ix_(ROTATION_FIRST, ROTATION_FIRST)] if rotation_first else matrix
