"""Heights and attitudes (3D): checked, waiting for the odometry of their instant, and compared with
it.

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
from ..graph import Heights as HeightTable
from ..graph import Verticals
from ..graph.finding import Finding
from .assembly import Assembly, Intake, Pending, Shared, SharedErrors
from .frames import mounting
from .motion import Vector, bad_quaternion, believed_m2, place_fault, rotate, rotation_rows
from .samples import AttitudeSample, HeightSample, Repeats

SEA_LEVEL_PA, SCALE_M, EXPONENT = 101325.0, 44330.77, 0.190263
"""Of the international standard atmosphere (ICAO Doc 7488): its height at a pressure."""

READINGS = 400
"""Newest heights of a robot that are compared with its odometry, and every so many of them:"""
EVERY = 20
FALSE_ALARM = 1e-4
"""Probability of one half of a comparison under its noise: what stands below a laser for a while
looks like a slope in one half of the readings, a tilt is the same in both."""
LEAST_TILT_RAD = 0.1
"""Below it (6 degrees) nothing is said: the wind and mounts tilt robots by less, and the claimed
noise of odometry may be too small by a factor."""
CLEAR_TILT_RAD = 0.5
"""Below it (29 degrees) four times as many must be there: tables along a short way look like it."""
LEAST_TURN_RAD, ROUNDS = 0.2, 30
"""Mounts that are turned by less are not told; steps to one from each turn of a cube."""
FROZEN, FROZEN_CLIMB_M = 20, 1.0
"""So many equal readings in a row, while odometry climbs or sinks so far, are no measurements."""


def standard_height(pressure_pa: float) -> float:
    """Metres in the standard atmosphere of a pressure in Pa."""
    return SCALE_M * (1 - (pressure_pa / SEA_LEVEL_PA) ** EXPONENT)


class Heights(Intake):
    """Heights of robots on their way to keyframes."""

    kind = 'heights'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._inputs = shared.config.height_inputs()
        self._first: dict[tuple[str, str], tuple[int, float]] = {}
        """Stamp of the first reading of each sensor, and the height that counts from there."""
        self._errors, self._walks = SharedErrors(), SharedErrors()
        """Of single readings, and of how far sensors have wandered."""
        self._checks: dict[tuple[str, str], LevelCheck] = {}
        """Odometry against heights, by robot and source of heights."""

    def check(self, sample: HeightSample, stamp_ns: int) -> Pending | str:
        options, source = self._inputs[sample.source], (sample.robot, sample.source)
        value = sample.value
        if options.measures == 'pressure':
            value = standard_height(value) if value > 0 else math.nan
        reason = place_fault([value])
        if not reason and options.measures == 'ground' and not (
                options.min_m <= value <= options.max_m):
            reason = 'out_of_range'
        reason = reason or self._one_too_many(source, stamp_ns, self._config.heights.min_interval_s)
        if reason:
            return reason
        first_ns, origin = self._first.setdefault(
            source, (stamp_ns, value if options.measures == 'pressure' else 0.0))
        age_s = abs(stamp_ns - first_ns) * 1e-9
        # A random walk shares its error with all of its past.
        variance = options.sigma_m**2 / self._errors.share(
            source, stamp_ns, options.correlation_s) + (
            options.sigma_m_per_sqrt_s**2 * age_s / self._walks.share(source, stamp_ns, age_s))
        offset, lever = options.of(sample.robot)
        height = value - origin + offset
        if options.measures == 'ground':
            # The point that the beam hits is on the ground, however the robot leans.
            lever, height = [lever[0], lever[1], lever[2] - value], offset
        return self._of_robot(
            sample.robot, stamp_ns, height, tuple(lever),
            believed_m2(self._config.heights, variance), sample.source, sample.value)

    def row(self, assembly: Assembly, pending: Pending, height_m: float, lever: Vector,
            variance: float, source: str, reading: float) -> str:
        """The height of a point of the robot, with its lever arm from the keyframe.

        A reading (the number in the message) of a robot whose odometry claims gravity is compared
        with that. Odometry that is not aligned with gravity is told, and says nothing of the
        vertical from then on; a sensor that is frozen says nothing.
        """
        place, space = pending.places[0], self._space
        name = self._config.robots[place.robot]
        if self._config.claims_gravity(name):
            check = self._checks.setdefault((name, source), LevelCheck(
                self._config.odometry.sigma_m_per_sqrt_m**2))
            segment, pose = self._shared.tracks[place.robot].odometry_at(place)
            check.height(segment, space.act(pose, lever), height_m, variance, reading, pose[2])
            if self._frozen(check, name, source, pending.stamp_ns):
                return 'frozen'
        assembly.add(HeightTable, assembly.row(place), space.act(place.offset, lever), height_m,
                     1 / variance, pending.stamp_ns)
        return ''

    def _frozen(self, check: LevelCheck, name: str, source: str, stamp_ns: int) -> bool:
        """Tell what a comparison of heights and odometry shows; True where the sensor is frozen."""
        tilt = check.tilt_rad()
        if tilt:
            self._shared.unlevelled.add(name)
            self._events.add(stamp_ns, Finding(
                'odometry_tilted', name, f'the odometry of {name} says that its z axis points up, '
                f'but its {source} has it tilted by {math.degrees(tilt):.0f} degrees: its roll and '
                'pitch are not used from now on; set odometry.sensor_poses, or '
                f'odometry.vertical_of.{name}: free', tilt, 'rad'))
        if name in self._shared.unlevelled:
            return False  # z of the odometry is not up
        if check.frozen:
            self._events.add(stamp_ns, Finding(
                'altimeter_frozen', name, f'the {source} of {name} says the same height '
                f'while {name} climbs or sinks: its readings are not used'))
        return check.frozen


class Attitudes(Intake):
    """Roll and pitch by an IMU on their way to keyframes."""

    kind = 'attitudes'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._options = shared.config.attitudes
        self._errors = SharedErrors()
        self._checks: dict[str, MountCheck] = {}
        """Odometry against attitudes, by robot."""

    def check(self, sample: AttitudeSample, stamp_ns: int) -> Pending | str:
        options, robot, quat = self._options, sample.robot, sample.quat_xyzw.tolist()
        if self._config.claims_gravity(robot):
            # Its odometry has the same IMU in it: the two would count twice.
            return 'odometry_says'
        if sample.unknown:
            return 'no_orientation'
        reason = bad_quaternion(quat) or self._one_too_many(robot, stamp_ns, options.min_interval_s)
        if reason:
            return reason
        norm = math.hypot(*quat)
        up = tuple(rotation_rows([c / norm for c in quat])[2])
        mount = options.mounts.get(robot)
        if mount:
            up = rotate(mounting([0.0, 0.0, 0.0, *mount])[3:], up)
        return self._of_robot(
            robot, stamp_ns, up,
            options.sigma_rad**2 / self._errors.share(robot, stamp_ns, options.correlation_s))

    def row(self, assembly: Assembly, pending: Pending, up: Vector, variance: float) -> str:
        """The vertical (a unit vector in the body frame, rad^2 about each horizontal axis) as the
        keyframe sees it; nothing once the IMU is turned against the odometry of its robot."""
        config, place = self._config, pending.places[0]
        name = config.robots[place.robot]
        check = self._checks.setdefault(name, MountCheck(config.odometry.sigma_rad_per_sqrt_m**2))
        segment, pose = self._shared.tracks[place.robot].odometry_at(place)
        check.add(segment, pose[:3], np.array(rotation_rows(pose[3:])), up, variance)
        turn = check.turn()
        if turn is not None:
            self._shared.unlevelled.add(name)
            mount = Rotation.from_matrix(turn) * Rotation.from_euler(
                'xyz', config.attitudes.mounts.get(name, [0.0, 0.0, 0.0]))
            degrees = float(np.degrees(Rotation.from_matrix(turn).magnitude()))
            angles = ', '.join(f'{angle:.1f}' for angle in mount.as_euler('xyz'))
            self._events.add(pending.stamp_ns, Finding(
                'imu_turned', name, f'the IMU of {name} is turned against its base by '
                f'{degrees:.0f} degrees: its roll and pitch are not used from now on; '
                f'attitudes.mounts.{name}: [{angles}] would fit', math.radians(degrees), 'rad'))
        if name in self._shared.unlevelled:
            return 'turned'
        assembly.add(Verticals, assembly.row(place), rotate(place.offset[3:], up), 1 / variance,
                     pending.stamp_ns)
        return ''


# -- comparison with odometry ----------------------------------------------------------------------


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
        last_place, last_way = self._readings[-1][:2] if self._readings else (place, 0.0)
        way = last_way + math.dist(last_place, place)
        self._readings.append((place, way, *values))
        self._count += 1

    def _columns(self) -> list[Array]:
        return [np.array(column) for column in zip(*self._readings, strict=True)]

    def _noise(self, variance: Array, way: Array) -> Array:
        """Odometry drifts along the path; from its middle on it does so half as far."""
        return np.asarray(variance + self._drift * np.abs(way - np.median(way)))


class LevelCheck(_Stretch):
    """The heights of one robot against its odometry."""

    def __init__(self, variance_per_m: float) -> None:
        super().__init__(variance_per_m)
        self._repeats = Repeats()

    def height(
        self, segment: int, point: Vector, height_m: float, variance: float, reading: float,
        robot_z: float,
    ) -> None:
        """A reading, by which `point` of the odometry frame is so high, of a robot at `robot_z`."""
        if segment != self._segment:
            self._repeats = Repeats()
        self._repeats.add(reading, robot_z)
        self.add(segment, point, height_m, variance)

    @property
    def frozen(self) -> bool:
        """True while the altimeter says the same although the robot climbs."""
        return self._repeats.frozen(FROZEN, FROZEN_CLIMB_M)

    def tilt_rad(self) -> float:
        """Angle between z of the odometry and the vertical, 0 where chance explains it."""
        count = len(self._readings)
        if self._count % EVERY or count < EVERY or self._repeats.count >= EVERY:
            return 0.0
        point, way, height, variance = self._columns()

        def fitted(part: slice) -> tuple[Array, Array]:
            return _fitted(point[part], height[part] - point[part, 2],
                           self._noise(variance[part], way[part]))

        first, of_first = fitted(slice(count // 2))
        second, of_second = fitted(slice(count // 2, count))
        chance = chdtri(3, FALSE_ALARM)
        if first @ of_first @ first < chance or second @ of_second @ second < chance:
            return 0.0
        # What a half does not show is open in it: the two agree in what both of them show.
        apart = first - second
        between = np.linalg.inv(np.linalg.inv(of_first) + np.linalg.inv(of_second))
        if first @ second <= 0 or apart @ between @ apart > 0.5 * (
                first @ of_first @ first + second @ of_second @ second):
            return 0.0
        error, _ = fitted(slice(count))
        # What the path does not show is as it should be: a flat one says nothing of n_z.
        tilt = math.atan2(float(np.hypot(error[0], error[1])), 1.0 + float(error[2]))
        return tilt if tilt > (LEAST_TILT_RAD if count >= 4 * EVERY else CLEAR_TILT_RAD) else 0.0


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
