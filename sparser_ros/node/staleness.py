"""Ages of data and solutions on the steady clock, and which robots' TF they stop.

A clock that stands still, or runs on after all data died, must not make old poses look new: ages
are wall time since something came, whatever its stamp.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..graph.finding import Finding


@dataclass
class Staleness:
    """When odometry, any data and solutions last came."""

    robots: tuple[str, ...]
    steady: Callable[[], float] = time.monotonic
    _odometry_s: dict[str, float] = field(default_factory=dict)
    _odometry_ns: dict[str, int] = field(default_factory=dict)
    _data_s: float = math.nan
    _solution_s: float = math.nan
    _behind_s: float = math.nan
    """Since when there are data that no solution includes, as far as since the newest one."""
    _received: int = 0

    def clear(self) -> None:
        """Forget everything, after a reset."""
        self._odometry_s, self._odometry_ns = {}, {}
        self._data_s = self._solution_s = self._behind_s = math.nan

    def data(self, received: int, newest_odometry_ns: Mapping[str, int]) -> None:
        """Note the newest odometry stamps; `received` counts messages of all kinds."""
        now = self.steady()
        if received != self._received:
            self._received, self._data_s = received, now
        for robot, stamp_ns in newest_odometry_ns.items():
            if self._odometry_ns.get(robot) != stamp_ns:
                self._odometry_ns[robot], self._odometry_s[robot] = stamp_ns, now

    def solved(self) -> None:
        """Note a new solution."""
        self._solution_s, self._behind_s = self.steady(), math.nan

    def progress(self, up_to_date: bool) -> None:
        """Note whether the newest solution includes everything handed over."""
        if up_to_date:
            self._behind_s = math.nan
        elif math.isnan(self._behind_s):
            self._behind_s = self.steady()

    @property
    def data_age_s(self) -> float:
        """Seconds since the newest message; NaN = none yet."""
        return self.steady() - self._data_s

    @property
    def solution_age_s(self) -> float:
        """Seconds since the newest solution; NaN = none yet."""
        return self.steady() - self._solution_s

    def stale(self, limit_s: float) -> dict[str, Finding]:
        """What is older than the limit, by robot; '' stands for all robots. 0 = no limit."""
        if limit_s <= 0:
            return {}
        found: dict[str, Finding] = {}
        behind = self.steady() - self._behind_s
        if behind > limit_s and not math.isnan(self._solution_s):
            found[''] = Finding(
                'solution_stale', 'solver',
                f'the solver has given no solution for {self.solution_age_s:.0f} s: the map is '
                'old, its TF has stopped', self.solution_age_s, 's')
        if self.data_age_s > limit_s:
            found.setdefault('', Finding(
                'data_stale', 'all inputs',
                f'no data for {self.data_age_s:.0f} s: the map is old, its TF has stopped',
                self.data_age_s, 's'))
            return found
        for robot in self.robots:
            age = self.steady() - self._odometry_s.get(robot, math.nan)
            if age > limit_s:
                found[robot] = Finding(
                    'odometry_stale', robot,
                    f'no odometry of {robot} for {age:.0f} s: its TF has stopped', age, 's')
        return found
