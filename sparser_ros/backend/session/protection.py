"""Protection levels of robots, as a solution carries them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...array_types import Array


@dataclass(frozen=True)
class Protection:
    """Bounds on the errors of the newest positions, metres; infinite where none can be stated."""

    robots: tuple[str, ...]
    horizontal_m: Array
    """(r,)"""
    vertical_m: Array
    """(r,): NaN in the plane."""

    def of(self, robot: str) -> tuple[float, float]:
        """(horizontal, vertical) of a robot; infinite, and NaN, where it is not known."""
        if robot not in self.robots:
            return math.inf, math.nan
        row = self.robots.index(robot)
        return float(self.horizontal_m[row]), float(self.vertical_m[row])
