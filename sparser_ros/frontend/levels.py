"""Heights and attitudes (3D): checked, and waiting for the odometry of their instant.

Errors of altimeters and attitudes change slowly, so that neighbouring readings share them: of
readings within the correlation time T together as much is believed as of one (a share dt / T of the
information of one for each, dt the time since the one before).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..config.inputs_config import HeightInput
from .clocks import nanoseconds
from .motion import Vector, bad_quaternion, rotate, rotation_rows
from .samples import AttitudeSample, HeightSample
from .waiting import Intake, Pending, Shared

MAX_WAITING = 10000
"""Heights, or attitudes, that wait for odometry; further ones are refused."""
SEA_LEVEL_PA, SCALE_M, EXPONENT = 101325.0, 44330.77, 0.190263
"""Of the international standard atmosphere (ICAO Doc 7488): its height at a pressure."""


def standard_height(pressure_pa: float) -> float:
    """Metres in the standard atmosphere of a pressure in Pa."""
    return SCALE_M * (1 - (pressure_pa / SEA_LEVEL_PA) ** EXPONENT)


class SharedError:
    """Information of a reading beside the one before it, whose error it shares in part."""

    def __init__(self, correlation_s: float) -> None:
        self._correlation_ns = correlation_s * 1e9
        self._last_ns: int | None = None

    def share(self, stamp_ns: int) -> float:
        """Of the information of an independent reading, above 0 and at most 1."""
        last, self._last_ns = self._last_ns, stamp_ns
        if last is None or self._correlation_ns <= 0:
            return 1.0
        return min(1.0, max(abs(stamp_ns - last), 1) / self._correlation_ns)


@dataclass
class PendingHeight(Pending):
    """A height that passed the checks."""

    height_m: float
    lever: Vector
    """Point in the body frame that is so high, metres."""
    variance: float
    source: str
    reading: float
    """The number in the message."""


@dataclass
class PendingAttitude(Pending):
    """A vertical that passed the checks."""

    up: Vector
    """Unit vector in the body frame."""
    variance: float
    """rad^2 about each horizontal axis."""


class Heights(Intake[PendingHeight]):
    """Heights of robots on their way to keyframes."""

    kind = 'heights'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._bounds = shared.bounds
        self._inputs = shared.config.height_inputs()
        self._interval_ns = nanoseconds(shared.config.heights.min_interval_s)
        self._last_ns: dict[tuple[str, str], int] = {}
        self._first: dict[tuple[str, str], tuple[int, float]] = {}
        """Stamp of the first reading of each sensor, and the height that counts from there."""
        self._errors: dict[tuple[str, str], SharedError] = {}

    def add(self, sample: HeightSample, stamp_ns: int) -> bool:
        """Take in a reading of a known robot with its stamp in data time."""
        counters, source = self.counters, (sample.robot, sample.source)
        options = self._inputs[sample.source]
        value = self._height(sample.value, options)
        if not math.isfinite(value) or self._bounds.place_fault([value]):
            return counters.drop('not_finite' if not math.isfinite(value) else 'out_of_bounds')
        if options.measures == 'ground' and not options.min_m <= value <= options.max_m:
            return counters.drop('out_of_range')
        last = self._last_ns.get(source)
        if stamp_ns == last:
            return counters.drop('duplicate')
        if last is not None and abs(stamp_ns - last) < self._interval_ns:
            return counters.drop('decimated')
        if counters.waiting >= MAX_WAITING:
            return counters.drop('too_many_waiting')
        self._last_ns[source] = stamp_ns
        self._clock.follow(stamp_ns)
        counters.waiting += 1
        self._waiting.append(self._pending(sample, options, value, stamp_ns))
        return True

    @staticmethod
    def _height(value: float, options: HeightInput) -> float:
        """Metres; NaN for a pressure that is none."""
        if options.measures != 'pressure':
            return value
        return standard_height(value) if value > 0 else math.nan

    def _pending(
        self, sample: HeightSample, options: HeightInput, value: float, stamp_ns: int
    ) -> PendingHeight:
        source = (sample.robot, sample.source)
        first_ns, origin = self._first.setdefault(
            source, (stamp_ns, value if options.measures == 'pressure' else 0.0))
        error = self._errors.setdefault(source, SharedError(options.correlation_s))
        drift = options.sigma_m_per_sqrt_s**2 * abs(stamp_ns - first_ns) * 1e-9
        variance = (options.sigma_m**2 + drift) / error.share(stamp_ns)
        lever = tuple(map(float, options.lever_arm or [0.0, 0.0, 0.0]))
        height = value - origin + options.offset_m
        if options.measures == 'ground':
            # The point that the beam hits is on the ground, however the robot leans.
            lever, height = (lever[0], lever[1], lever[2] - value), options.offset_m
        return PendingHeight(
            stamp_ns, ((self._robots[sample.robot], stamp_ns),), height, lever,
            self._bounds.variance('heights', variance), sample.source, sample.value)


class Attitudes(Intake[PendingAttitude]):
    """Roll and pitch by an IMU on their way to keyframes."""

    kind = 'attitudes'

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._options = shared.config.attitudes
        self._interval_ns = nanoseconds(self._options.min_interval_s)
        self._last_ns: dict[str, int] = {}
        self._errors = {
            robot: SharedError(self._options.correlation_s) for robot in shared.config.robots}

    def add(self, sample: AttitudeSample, stamp_ns: int) -> bool:
        """Take in the attitude of a known robot with its stamp in data time."""
        counters, quat = self.counters, sample.quat_xyzw.tolist()
        if self._config.claims_gravity(sample.robot):
            # Its odometry has the same IMU in it: the two would count twice.
            return counters.drop('odometry_says')
        if sample.unknown:
            return counters.drop('no_orientation')
        reason = bad_quaternion(quat)
        if reason:
            return counters.drop(reason)
        last = self._last_ns.get(sample.robot)
        if stamp_ns == last:
            return counters.drop('duplicate')
        if last is not None and abs(stamp_ns - last) < self._interval_ns:
            return counters.drop('decimated')
        if counters.waiting >= MAX_WAITING:
            return counters.drop('too_many_waiting')
        self._last_ns[sample.robot] = stamp_ns
        self._clock.follow(stamp_ns)
        norm = math.hypot(*quat)
        up = tuple(rotation_rows([c / norm for c in quat])[2])
        mount = self._options.mounts.get(sample.robot)
        if mount:
            up = rotate(_quaternion(*map(float, mount)), up)
        counters.waiting += 1
        self._waiting.append(PendingAttitude(
            stamp_ns, ((self._robots[sample.robot], stamp_ns),), up,
            self._options.sigma_rad**2 / self._errors[sample.robot].share(stamp_ns)))
        return True


def _quaternion(roll: float, pitch: float, yaw: float) -> Vector:
    """x y z w of R_z(yaw) R_y(pitch) R_x(roll)."""
    (a, b), (c, d), (e, f) = (
        (math.cos(angle / 2), math.sin(angle / 2)) for angle in (roll, pitch, yaw))
    return (b * c * e - a * d * f, a * d * e + b * c * f, a * c * f - b * d * e,
            a * c * e + b * d * f)
