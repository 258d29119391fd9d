"""Test of what a robot says of the vertical against what it says of its height.

Along a path that odometry gives as p (in its own frame, z claimed to be up) an altimeter reads
h = n . p + const, with n the true vertical in that frame. Where n differs from e_z the odometry is
not aligned with gravity (a tilted mount, the frame of a camera), and what it says of roll and pitch
is not believed any longer. An altimeter that says the same while its robot climbs is frozen.

Beside odometry that knows its turns R_i but no vertical, an IMU says up = u_i in the body frame:
R_i u_i is the same n at all times. Where it is not, and R_i M u_i is for one rotation M, the IMU is
mounted otherwise than configured.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation
from scipy.special import chdtri

from ..array_types import Array
from .motion import Vector

READINGS = 400
"""Newest heights of a robot that are compared with its odometry, and every so many of them:"""
EVERY = 20
FALSE_ALARM = 1e-4
"""Probability of one half of a comparison under its noise: what stands below a laser for a while
looks like a slope in one half of the readings, a tilt is the same in both."""
LEAST_TILT_RAD = 0.1
"""Below it (6 degrees) nothing is said: the wind and mounts tilt robots by less, and the claimed
noise of odometry may be too small by a factor."""
LEAST_TURN_RAD, ROUNDS = 0.2, 30
"""Mounts that are turned by less are not told; steps to one from each turn of a cube."""
STEP_M, STEP_SIGMA, SIDE = 0.3, 6.0, 3
"""A step of the height between so many readings and as many, by which the robot did not climb:
larger, and by so many standard deviations of readings as they scatter."""
FROZEN, FROZEN_CLIMB_M = 20, 1.0
"""So many equal readings in a row, while odometry climbs or sinks so far, are no measurements."""


class _Stretch:
    """The newest readings of a sensor of one robot along one segment of its odometry."""

    def __init__(self, variance_per_m: float) -> None:
        self._drift = variance_per_m
        self._readings: deque[tuple[Any, ...]] = deque(maxlen=READINGS)
        """Place in the odometry frame, length of the path so far, and values."""
        self._segment = -1
        self._count = 0

    def add(self, segment: int, place: Vector, *values: Any) -> None:
        """A reading at a place of the odometry, metres."""
        if segment != self._segment:
            self._readings.clear()
            self._segment = segment
        way = 0.0
        if self._readings:
            last = self._readings[-1]
            way = last[1] + math.dist(last[0], place)
        self._readings.append((place, way, *values))
        self._count += 1

    def _columns(self) -> list[Array]:
        return [np.array(column) for column in zip(*self._readings, strict=True)]

    def _noise(self, variance: Array, way: Array) -> Array:
        """Odometry drifts along the path; from its middle on it does so half as far."""
        return np.asarray(variance + self._drift * np.abs(way - np.median(way)))


class LevelCheck(_Stretch):
    """The heights of one robot against its odometry."""

    _equal = 0
    """Readings in a row that say the same as the one before."""
    _low = _high = 0.0
    """Of the odometry since then, metres."""

    def height(
        self, segment: int, point: Vector, height_m: float, variance: float, reading: float,
        robot_z: float,
    ) -> None:
        """A reading, by which `point` of the odometry frame is so high, of a robot at `robot_z`."""
        same = segment == self._segment and bool(self._readings) and (
            reading == self._readings[-1][4])
        self._equal = self._equal + 1 if same else 0
        self._low = min(self._low, robot_z) if same else robot_z
        self._high = max(self._high, robot_z) if same else robot_z
        self.add(segment, point, height_m, variance, reading)

    @property
    def frozen(self) -> bool:
        """True while the altimeter says the same although the robot climbs."""
        return self._equal >= FROZEN and self._high - self._low > FROZEN_CLIMB_M

    def step_m(self) -> float:
        """By how much the newest readings have stepped, 0 where noise or a climb explain it."""
        if len(self._readings) < 2 * EVERY:
            return 0.0
        offset = np.array([height - point[2] for point, _, height, *_ in self._readings])
        # The median difference is that of noise: steps are rare.
        sigma = 1.4826 / math.sqrt(2) * float(np.median(np.abs(np.diff(offset))))
        step = float(np.median(offset[-SIDE:]) - np.median(offset[-2 * SIDE:-SIDE]))
        return step if abs(step) > max(STEP_M, STEP_SIGMA * sigma) else 0.0

    def tilt_rad(self) -> float:
        """Angle between z of the odometry and the vertical, 0 where chance explains it."""
        count = len(self._readings)
        if self._count % EVERY or count < 4 * EVERY or self._equal >= EVERY:
            return 0.0
        point, way, height, variance, _ = self._columns()

        def fitted(part: slice) -> tuple[Array, Array]:
            return _fitted(point[part], height[part] - point[part, 2],
                           self._noise(variance[part], way[part]))

        (first, one), (second, other) = fitted(slice(count // 2)), fitted(slice(count // 2, count))
        chance = chdtri(3, FALSE_ALARM)
        if first @ one @ first < chance or second @ other @ second < chance:
            return 0.0
        # What a half does not show is open in it: the two agree in what both of them show.
        apart = first - second
        between = np.linalg.inv(np.linalg.inv(one) + np.linalg.inv(other))
        if first @ second <= 0 or apart @ between @ apart > 0.5 * (
                first @ one @ first + second @ other @ second):
            return 0.0
        error, _ = fitted(slice(count))
        # What the path does not show is as it should be: a flat one says nothing of n_z.
        tilt = math.atan2(float(np.hypot(error[0], error[1])), 1.0 + float(error[2]))
        return tilt if tilt > LEAST_TILT_RAD else 0.0


def _fitted(point: Array, offset: Array, variance: Array) -> tuple[Array, Array]:
    """(3,), (3, 3): n - e_z of offset = (n - e_z) . p + const, a prior of 1 rad on it; information.

    With weights of Huber's kernel: a table below a laser is no slope.
    """
    root = 1 / np.sqrt(variance)
    A = np.column_stack([point - point.mean(axis=0), np.ones(len(point))])
    prior = np.diag([1.0, 1.0, 1.0, 0.0])
    weight = np.ones(len(point))
    for _ in range(8):
        w = weight * root**2
        normal = A.T @ (w[:, None] * A) + prior
        x = np.linalg.solve(normal, A.T @ (w * offset))
        whitened = np.abs(root * (offset - A @ x))
        scale = max(1.0, 1.4826 * float(np.median(whitened)))
        weight = np.minimum(1.0, 2.0 * scale / np.maximum(whitened, 1e-12))
    # The constant eliminated; a spread of residuals beyond the claimed noise counts.
    own = normal[:3, :3] - np.outer(normal[:3, 3], normal[3, :3]) / normal[3, 3]
    return x[:3], own / scale**2


class MountCheck(_Stretch):
    """The attitudes of one robot's IMU against its odometry; values: rotation (3, 3) of the
    odometry, up in the body frame, and its variance."""

    def turn(self) -> Array | None:
        """(3, 3): turns the IMU as configured into the body frame; None where chance does."""
        if self._count % EVERY or len(self._readings) < 2 * EVERY:
            return None
        _, way, rotation, up, variance = self._columns()
        weight = 1 / self._noise(variance, way)
        mount, misfit = _mounted(rotation, up, weight)
        if math.acos(np.clip((np.trace(mount) - 1) / 2, -1, 1)) < LEAST_TURN_RAD:
            return None
        scale = max(1.0, float(np.sum(misfit)) / (2 * len(up)))
        gain = (_misfit(rotation @ up[:, :, None], weight) - misfit) / scale
        half = len(up) // 2
        chance = chdtri(3, FALSE_ALARM)
        return mount if min(np.sum(gain[:half]), np.sum(gain[half:])) > chance else None


def _misfit(seen: Array, weight: Array) -> Array:
    """(..., k): squared whitened distances of directions (..., k, 3, 1) from their mean."""
    mean = np.sum(weight[:, None, None] * seen, axis=-3, keepdims=True)
    mean = mean / np.maximum(np.linalg.norm(mean, axis=-2, keepdims=True), 1e-12)
    return np.asarray(weight * np.sum((seen - mean)**2, axis=(-2, -1)))


def _mounted(rotation: Array, up: Array, weight: Array) -> tuple[Array, Array]:
    """(3, 3), (k,): the mount by which R_i M u_i is the same for all, and what is left of each.

    In turns: the mount for a vertical (Kabsch), the vertical for a mount; from all 24 turns of a
    cube, since the sum has several minima. Of those that fit alike one by which the odometry began
    upright, not on its head (a robot that leans forward only fits both), and nearest to none.
    """
    mount = Rotation.create_group('O').as_matrix()
    # What the sum depends on: sum over i of w R_i[a, b] u_i[c].
    moment = np.einsum('k,kab,kc->abc', weight, rotation, up)
    for _ in range(ROUNDS):
        mean = np.einsum('abc,mbc->ma', moment, mount)
        mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
        left, _, right = np.linalg.svd(np.einsum('abc,ma->mbc', moment, mean))
        left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
        mount = left @ right
    seen = rotation @ (mount @ up.T).transpose(0, 2, 1)[..., None]
    misfit = _misfit(seen, weight)
    total = np.sum(misfit, axis=1)
    scale = max(1.0, float(np.min(total)) / (2 * len(up)))
    alike = np.flatnonzero(total < np.min(total) + scale * chdtri(3, FALSE_ALARM))
    best = max(alike, key=lambda k: (mean[k, 2] > 0, np.trace(mount[k])))
    return mount[best], misfit[best]
