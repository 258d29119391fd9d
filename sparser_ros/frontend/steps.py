"""Is a step between two odometry messages a motion that the robot can have made?

A step is believed when its length is at most `slack + min(v_max dt, v dt + a_max dt^2)`, where v
is the recent speed, and its turn at most `slack + w_max dt`. After a silence the speed of the
past stands in for the limits: a robot does not get faster than three times its top speed while
nobody looks.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass

from ..array_types import Array
from ..config.frontend_config import OdometryConfig
from .motion import Geometry, Pose

SPEED_SPAN_NS = 500_000_000
"""The recent speed is that over this time: over single steps jitter of the stamps (tiers: 0.1 ms
between messages) makes it ten times too large."""
REMEMBERED_PERIODS = 21
"""Periods whose median is the usual one."""
GAP_PERIODS = 10
"""A silence is a gap when it lasts so many usual periods (and `odometry.gap_s`)."""
PAUSE_PERIODS = 3
"""A reading so many usual periods after the last one waits for the next: believed at once, a stamp
ahead would make as many right ones look old, which is what a clock set back looks like (the
default of `stamps.jump_messages`)."""
TOP_SPEED_FACTOR = 3.0
"""Times its top speed: as fast as a robot can have gone during a gap."""
LEAST_TOP_SPEED = 1.0
"""m/s: top speed of a robot that has stood still so far, for the same purpose."""
ORIGIN_M = 0.05
ORIGIN_RAD = 0.05
"""A driver that starts again begins at the identity, or within one message of it."""
AWAY_M = 2.0
"""And the robot was at least so far from its origin before: closer by, a way back is likely."""


@dataclass(frozen=True)
class Reading:
    """One message of odometry in the configured dimension."""

    stamp_ns: int
    pose: Pose
    pose_covariance: Array
    twist_covariance: Array
    twist_speed: float = math.nan
    """m/s as the message says; NaN = it does not."""


@dataclass(frozen=True)
class Gap:
    """Silence before a reading, and what the robot may have done meanwhile."""

    seconds: float
    path_m: float
    turn_rad: float


class StepRule:
    """The bounds on steps of one robot, from its options and from how it has moved so far."""

    def __init__(self, options: OdometryConfig, space: Geometry) -> None:
        self._options = options
        self._space = space
        self.forget()

    def forget(self) -> None:
        """A new segment: the robot may move otherwise now."""
        self._trail: deque[tuple[int, float, float]] = deque()
        self._periods: deque[int] = deque(maxlen=REMEMBERED_PERIODS)
        self._path = self._turn = 0.0
        self._top_speed = 0.0

    def learn(self, last: Reading, reading: Reading) -> None:
        """Take note of a step that was believed."""
        step = self._space.between(last.pose, reading.pose)
        self._periods.append(reading.stamp_ns - last.stamp_ns)
        self._path += self._space.distance(step)
        self._turn += self._space.angle(step)
        trail = self._trail
        if not trail:
            trail.append((last.stamp_ns, 0.0, 0.0))
        trail.append((reading.stamp_ns, self._path, self._turn))
        while len(trail) > 2 and reading.stamp_ns - trail[1][0] >= SPEED_SPAN_NS:
            trail.popleft()
        speed = self.speed
        if speed is not None:
            self._top_speed = max(self._top_speed, speed)

    def _rate(self, column: int) -> float | None:
        if len(self._trail) < 2:
            return None
        first, last = self._trail[0], self._trail[-1]
        span = last[0] - first[0]
        return (last[column] - first[column]) / (span * 1e-9) if span >= SPEED_SPAN_NS else None

    @property
    def speed(self) -> float | None:
        """Recent speed, m/s; None = not known yet."""
        return self._rate(1)

    def seconds(self, last: Reading, reading: Reading) -> float:
        return (reading.stamp_ns - last.stamp_ns) * 1e-9

    @property
    def _usual_period_s(self) -> float:
        """Median period of the last messages, s; 0 = not known yet."""
        return statistics.median(self._periods) * 1e-9 if self._periods else 0.0

    def usual_gap_s(self) -> float:
        """So many seconds are `GAP_PERIODS` usual periods."""
        return GAP_PERIODS * self._usual_period_s

    def paused(self, last: Reading, reading: Reading) -> bool:
        """Whether a reading comes so late that its stamp may as well be wrong."""
        usual = self._usual_period_s
        return 0 < PAUSE_PERIODS * usual < self.seconds(last, reading)

    def gap(self, last: Reading, reading: Reading) -> Gap | None:
        """The silence before a reading; None = none worth the name."""
        seconds = self.seconds(last, reading)
        if seconds <= self._options.gap_s or seconds <= self.usual_gap_s():
            return None
        step = self._space.between(last.pose, reading.pose)
        path = max(self._space.distance(step), (self.speed or 0.0) * seconds)
        turn = max(self._space.angle(step), (self._rate(2) or 0.0) * seconds)
        return Gap(seconds, path, turn)

    def too_long_a_gap(self, last: Reading, reading: Reading) -> bool:
        seconds = self.seconds(last, reading)
        return seconds > self._options.max_gap_s and seconds > self.usual_gap_s()

    def distance(self, last: Reading, reading: Reading) -> float:
        """Length of a step, m."""
        return self._space.distance(self._space.between(last.pose, reading.pose))

    def nearness(self, last: Reading, reading: Reading) -> float:
        """Length of a step plus its turn at a lever of one metre, to compare two steps."""
        step = self._space.between(last.pose, reading.pose)
        return self._space.distance(step) + self._space.angle(step)

    def possible(self, last: Reading, reading: Reading) -> bool:
        """True if the step from one reading to a later one is a motion."""
        o = self._options
        seconds = self.seconds(last, reading)
        if seconds <= 0:
            return False
        step = self._space.between(last.pose, reading.pose)
        length = o.max_speed_m_per_s * seconds
        speed = self.speed
        if speed is not None and length < math.inf:
            length = min(length, speed * seconds + o.max_acceleration_m_per_s2 * seconds**2)
            if self.gap(last, reading) is not None:
                top = TOP_SPEED_FACTOR * max(self._top_speed, LEAST_TOP_SPEED)
                length = min(length, top * seconds)
        return (self._space.distance(step) <= length + o.step_slack_m
                and self._space.angle(step) <= o.max_turn_rate_rad_per_s * seconds
                + o.step_slack_rad)

    def restarted(self, last: Reading, reading: Reading) -> bool:
        """True if a reading after an interruption begins at the origin, far from the last one."""
        home = self._space.identity
        at_home = self._space.between(home, reading.pose)
        if self._space.distance(at_home) > ORIGIN_M or self._space.angle(at_home) > ORIGIN_RAD:
            return False
        interrupted = self._periods and self.seconds(last, reading) * 2 > self.usual_gap_s()
        away = self._space.distance(self._space.between(home, last.pose)) >= AWAY_M
        return bool(interrupted and away and self._options.max_speed_m_per_s < math.inf)
