"""Heights and attitudes (3D): checked, waiting for the odometry of their instant, and compared with
it; and what odometry itself says of the vertical and of its height.

Errors of altimeters and attitudes change slowly, so that neighbouring readings share them: of
readings within the correlation time T together as much is believed as of one (a share dt / T of the
information of one for each, dt the time since the one before).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from ..config import SparserConfig
from ..graph import Heights as HeightTable
from ..graph import Verticals
from ..graph.finding import Finding
from .assembly import Assembly
from .clocks import nanoseconds
from .frames import mounting
from .level_checks import LevelCheck, MountCheck
from .motion import Pose, Vector, bad_quaternion, place_fault, rotate, rotation_rows
from .samples import AttitudeSample, HeightSample
from .waiting import Intake, Pending, Shared

SEA_LEVEL_PA, SCALE_M, EXPONENT = 101325.0, 44330.77, 0.190263
"""Of the international standard atmosphere (ICAO Doc 7488): its height at a pressure."""


def standard_height(pressure_pa: float) -> float:
    """Metres in the standard atmosphere of a pressure in Pa."""
    return SCALE_M * (1 - (pressure_pa / SEA_LEVEL_PA) ** EXPONENT)


class SharedErrors:
    """Information of a reading beside the one before it of its source, whose error it shares."""

    def __init__(self) -> None:
        self._last_ns: dict[Hashable, int] = {}

    def share(self, source: Hashable, stamp_ns: int, correlation_s: float) -> float:
        """Of the information of an independent reading, above 0 and at most 1."""
        last = self._last_ns.get(source)
        self._last_ns[source] = stamp_ns
        if last is None or correlation_s <= 0:
            return 1.0
        return min(1.0, max(abs(stamp_ns - last), 1) / (correlation_s * 1e9))


class OdometryLevels:
    """The vertical and the height that the odometry of every keyframe states, while believed."""

    def __init__(self, config: SparserConfig) -> None:
        self._options = config.odometry
        self.believed = [config.claims_gravity(robot) for robot in config.robots]
        """By robot: its odometry says where up is, and nothing else denies it."""
        self._trusted = self._options.height == 'trusted'
        self._errors = SharedErrors()
        self.unlevelled: set[str] = set()
        """Robots whose odometry, or IMU, says something else of the vertical than is true."""

    def keyframe(
        self, assembly: Assembly, robot: int, row: int, pose: Pose, stamp_ns: int
    ) -> None:
        """Add what the odometry of a keyframe states."""
        if not self.believed[robot]:
            return
        o, share = self._options, self._errors.share
        tilt = o.tilt_sigma_rad**2 / share(('tilt', robot), stamp_ns, o.tilt_correlation_s)
        assembly.add(Verticals, row, tuple(rotation_rows(pose[3:])[2]), 1 / tilt, stamp_ns)
        if self._trusted:
            height = o.height_sigma_m**2 / share(
                ('height', robot), stamp_ns, o.height_correlation_s)
            assembly.add(HeightTable, row, (0.0, 0.0, 0.0), pose[2], 1 / height, stamp_ns)


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


class Heights(Intake[PendingHeight]):
    """Heights of robots on their way to keyframes."""

    kind = 'heights'

    def __init__(self, shared: Shared, levels: OdometryLevels) -> None:
        super().__init__(shared)
        self._levels = levels
        self._inputs = shared.config.height_inputs()
        self._interval_ns = nanoseconds(shared.config.heights.min_interval_s)
        self._first: dict[tuple[str, str], tuple[int, float]] = {}
        """Stamp of the first reading of each sensor, and the height that counts from there."""
        self._errors = SharedErrors()
        self._checks: dict[tuple[int, str], LevelCheck] = {}
        """Odometry against heights, by robot and source of heights."""

    def check(self, sample: HeightSample, stamp_ns: int) -> PendingHeight | str:
        """The height of a point of a known robot, or why it is refused."""
        options, source = self._inputs[sample.source], (sample.robot, sample.source)
        value = sample.value
        if options.measures == 'pressure':
            value = standard_height(value) if value > 0 else math.nan
        reason = place_fault([value])
        if not reason and options.measures == 'ground' and not (
                options.min_m <= value <= options.max_m):
            reason = 'out_of_range'
        reason = reason or self._one_too_many(source, stamp_ns, self._interval_ns)
        if reason:
            return reason
        first_ns, origin = self._first.setdefault(
            source, (stamp_ns, value if options.measures == 'pressure' else 0.0))
        drift = options.sigma_m_per_sqrt_s**2 * abs(stamp_ns - first_ns) * 1e-9
        variance = (options.sigma_m**2 + drift) / self._errors.share(
            source, stamp_ns, options.correlation_s)
        lever = tuple(map(float, options.lever_arm or [0.0, 0.0, 0.0]))
        height = value - origin + options.offset_m
        if options.measures == 'ground':
            # The point that the beam hits is on the ground, however the robot leans.
            lever, height = (lever[0], lever[1], lever[2] - value), options.offset_m
        return PendingHeight(
            stamp_ns, ((self._robots[sample.robot], stamp_ns),), height, lever,
            self._bounds.variance('heights', variance), sample.source, sample.value)

    def row(self, pending: PendingHeight, assembly: Assembly) -> str:
        """The height of a point of the robot, with its lever arm from the keyframe."""
        if self._frozen(pending):
            return 'frozen'
        place = pending.place
        assembly.add(
            HeightTable, assembly.row(place), self._space.act(place.offset, pending.lever),
            pending.height_m, 1 / pending.variance, pending.stamp_ns)
        return ''

    def _frozen(self, pending: PendingHeight) -> bool:
        """Compare a height with the odometry of its robot; True where the sensor is frozen.

        Odometry that claims gravity and is not aligned with it is told, and says nothing of the
        vertical from then on.
        """
        config, place, source = self._config, pending.place, pending.source
        robot = place.robot
        name, track = config.robots[robot], self._shared.tracks[robot]
        if not config.claims_gravity(name):
            return False
        check = self._checks.setdefault(
            (robot, source), LevelCheck(config.odometry.sigma_m_per_sqrt_m**2))
        pose = self._space.compose(track.keyframe_poses[place.number], place.offset)
        check.height(
            bisect.bisect_right(track.segments, place.number),
            self._space.act(pose, pending.lever), pending.height_m, pending.variance,
            pending.reading, pose[2])
        tilt = check.tilt_rad()
        if tilt:
            self._levels.believed[robot] = False
            self._levels.unlevelled.add(name)
            self._events.add(pending.stamp_ns, Finding(
                'odometry_tilted', name, f'the odometry of {name} says that its z axis points up, '
                f'but its {source} has it tilted by {math.degrees(tilt):.0f} degrees: its roll and '
                'pitch are not used from now on; set odometry.sensor_poses, or '
                f'odometry.vertical_of.{name}: free', tilt, 'rad'))
        if not self._levels.believed[robot]:
            return False  # z of the odometry is not up
        step = check.step_m()
        if step:
            self._events.add(pending.stamp_ns, Finding(
                'altimeter_step', name, f'the {source} of {name} stepped by {step:+.1f} m '
                f'while {name} did not: what is below is not the floor', step, 'm'))
        if check.frozen:
            self._events.add(pending.stamp_ns, Finding(
                'altimeter_frozen', name, f'the {source} of {name} says the same height '
                f'while {name} climbs or sinks: its readings are not used'))
        return check.frozen


@dataclass
class PendingAttitude(Pending):
    """A vertical that passed the checks."""

    up: Vector
    """Unit vector in the body frame."""
    variance: float
    """rad^2 about each horizontal axis."""


class Attitudes(Intake[PendingAttitude]):
    """Roll and pitch by an IMU on their way to keyframes."""

    kind = 'attitudes'

    def __init__(self, shared: Shared, levels: OdometryLevels) -> None:
        super().__init__(shared)
        self._levels = levels
        self._options = shared.config.attitudes
        self._errors = SharedErrors()
        self._checks: dict[int, MountCheck] = {}
        """Odometry against attitudes, by robot."""

    def check(self, sample: AttitudeSample, stamp_ns: int) -> PendingAttitude | str:
        """The vertical in the body frame of a known robot, or why it is refused."""
        options, robot, quat = self._options, sample.robot, sample.quat_xyzw.tolist()
        if self._config.claims_gravity(robot):
            # Its odometry has the same IMU in it: the two would count twice.
            return 'odometry_says'
        if sample.unknown:
            return 'no_orientation'
        reason = bad_quaternion(quat) or self._one_too_many(
            robot, stamp_ns, nanoseconds(options.min_interval_s))
        if reason:
            return reason
        norm = math.hypot(*quat)
        up = tuple(rotation_rows([c / norm for c in quat])[2])
        mount = options.mounts.get(robot)
        if mount:
            up = rotate(mounting([0.0, 0.0, 0.0, *mount])[3:], up)
        return PendingAttitude(
            stamp_ns, ((self._robots[robot], stamp_ns),), up, options.sigma_rad**2
            / self._errors.share(robot, stamp_ns, options.correlation_s))

    def row(self, pending: PendingAttitude, assembly: Assembly) -> str:
        """The vertical as the keyframe sees it."""
        if self._turned(pending):
            return 'turned'
        space, place = self._space, pending.place
        turn = (*space.zero, *place.offset[space.dimension:])
        assembly.add(Verticals, assembly.row(place), space.act(turn, pending.up),
                     1 / pending.variance, pending.stamp_ns)
        return ''

    def _turned(self, pending: PendingAttitude) -> bool:
        """Compare an attitude with the odometry of its robot; True once the IMU is turned."""
        config, place, unlevelled = self._config, pending.place, self._levels.unlevelled
        robot = place.robot
        name, track = config.robots[robot], self._shared.tracks[robot]
        check = self._checks.setdefault(
            robot, MountCheck(config.odometry.sigma_rad_per_sqrt_m**2))
        pose = self._space.compose(track.keyframe_poses[place.number], place.offset)
        check.add(
            bisect.bisect_right(track.segments, place.number), pose[:3],
            np.array(rotation_rows(pose[3:])), pending.up, pending.variance)
        turn = check.turn()
        if turn is not None:
            unlevelled.add(name)
            mount = Rotation.from_matrix(turn) * Rotation.from_euler(
                'xyz', config.attitudes.mounts.get(name, [0.0, 0.0, 0.0]))
            degrees = float(np.degrees(Rotation.from_matrix(turn).magnitude()))
            angles = ', '.join(f'{angle:.1f}' for angle in mount.as_euler('xyz'))
            self._events.add(pending.stamp_ns, Finding(
                'imu_turned', name, f'the IMU of {name} is turned against its base by '
                f'{degrees:.0f} degrees: its roll and pitch are not used from now on; '
                f'attitudes.mounts.{name}: [{angles}] would fit', math.radians(degrees), 'rad'))
        return name in unlevelled
