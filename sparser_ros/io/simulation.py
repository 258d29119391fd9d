"""A simulated field: robots that meander, odometry that drifts, ranges with noise and outliers; and
a run as a bag, as a graph and as the parameters that fit it.

Everything is a function of the configuration and its seed. Trajectories are sums of sines, so
that true poses are known at any time, not only at messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ..array_types import Array, Index, Mask
from ..config.simulation_config import SimulationConfig
from ..graph import Graph, Landmarks, Poses, Ranges, RelativePoses
from ..graph.precision import kappa_from_covariance
from ..linalg.rotations import angle_to_matrix
from .bag import SensorBagWriter, isotropic
from .chain import compose
from .stamp_text import SECOND
from .tum import quats, xyz

START_NS = 1_700_000_000 * SECOND
"""Stamp of the first message: November 2023, as a real recording has."""
WAVES = 5
"""Sines per axis of a trajectory; their lengths fall as 1/k, so paths meander without repeats."""
CLOSURE_DISTANCE_M = 6.0
"""Largest distance between two places that a true loop closure joins."""
CLOSURE_SIGMA_M, CLOSURE_SIGMA_RAD = 0.1, 0.03
"""Noise of loop closures per axis: the defaults of the front-end for closures without any."""
DROPOUT = 0.1
"""Share of range exchanges that get no answer."""
CEILING_M = 6.0
"""In space robots fly between the ground and so high, and beacons hang between these heights:"""
BEACON_HEIGHTS_M = (0.3, 5.0)
CLIMB = 0.25
"""Of their speed they climb and sink with."""
TILT_TIME_S, HEIGHT_TIME_S = 10.0, 5.0
"""Time constants of the errors of attitudes and altimeters (exponential autocorrelation)."""
HEIGHT_SLOW = 0.3
"""Share of an altimeter's error that changes so slowly, as the ground below it does; the rest is
noise of each reading, as of a laser."""
HEIGHT_RATE_HZ, IMU_RATE_HZ = 5.0, 10.0
"""Messages of altimeters and IMUs."""


@dataclass(frozen=True)
class Motion:
    centre: Array
    """(d,): metres."""
    amplitude: Array
    """(d, waves): metres."""
    frequency: Array
    """(d, waves): rad/s."""
    phase: Array

    def poses(self, seconds: Array) -> tuple[Array, Array]:
        """True rotations (n, d, d) and translations (n, d); robots look where they go."""
        angle = self.frequency * seconds[:, None, None] + self.phase
        position = self.centre + np.sum(self.amplitude * np.sin(angle), axis=2)
        velocity = np.sum(self.amplitude * self.frequency * np.cos(angle), axis=2)
        heading = np.arctan2(velocity[:, 1], velocity[:, 0])
        if position.shape[1] == 2:
            return angle_to_matrix(heading), position
        climb = np.arctan2(velocity[:, 2], np.hypot(velocity[:, 0], velocity[:, 1]))
        turn = Rotation.from_euler('ZY', np.column_stack([heading, -climb]))
        return turn.as_matrix(), position


@dataclass(frozen=True)
class SimulatedTrack:
    """Odometry of one robot, and its true poses at the same instants."""

    stamp_ns: Index
    rotation: Array
    """(n, d, d): in the odometry frame, which starts at the first pose."""
    translation: Array
    step_rotation: Array
    """(n, d, d): noisy step that leads to each pose; the first is none."""
    step_translation: Array
    translation_variance: Array
    """(n,): m^2 per axis of that step; 0 for the first."""
    rotation_variance: Array
    """(n,): rad^2 per axis."""
    true_rotation: Array
    true_translation: Array


@dataclass(frozen=True)
class Exchanges:
    """UWB ranges in order of time; ends are robots 0 … R - 1, then beacons."""

    stamp_ns: Index
    source: Index
    target: Index
    range_m: Array
    variance: Array
    outlier: Mask


@dataclass(frozen=True)
class Levels:
    """Readings of the altimeter and the IMU of one robot."""

    height_stamp_ns: Index
    height_m: Array
    imu_stamp_ns: Index
    attitude: Array
    """(k, 3, 3): in a frame whose z axis points up, the heading as it may be."""


class Simulation:
    def __init__(self, config: SimulationConfig) -> None:
        self.config = config
        self.robots = tuple(robot_names(config.robots))
        self.beacon_names = tuple(f'L{k}' for k in range(config.beacons))
        # One random stream per sensor: the options of one leave the data of the others alone.
        # Motions, beacons, odometry, ranges, closures, altimeters and IMUs.
        streams = [
            np.random.default_rng(s) for s in np.random.SeedSequence(config.seed).spawn(6)]
        self.motions = [self._motion(streams[0]) for _ in self.robots]
        self.beacons = self._beacons(streams[1])
        self.tracks = [self._track(motion, streams[2]) for motion in self.motions]
        self.poses = self._poses()
        """True poses, one per odometry message, robot by robot."""
        self.exchanges = self._exchanges(streams[3])
        self.closures, self.false_closures = self._closures(streams[4])
        """Loop closures between these poses, and which of them are false."""
        self.levels = [self._levels(motion, streams[5]) for motion in self.motions]

    @property
    def lever(self) -> Array:
        """(d,): antenna in the body frame."""
        return np.eye(self.config.dimension)[0] * self.config.lever_arm

    @property
    def duration_s(self) -> float:
        return self.config.minutes * 60

    def positions(self, robot: str, stamps_ns: Index) -> Array:
        """(n, d): where a robot truly was."""
        motion = self.motions[self.robots.index(robot)]
        return motion.poses((stamps_ns - START_NS) / SECOND)[1]

    def _motion(self, random: np.random.Generator) -> Motion:
        config = self.config
        d = config.dimension
        wave = np.arange(1, WAVES + 1)
        amplitude = 0.6 * config.radius / wave * random.uniform(0.7, 1.3, (d, WAVES))
        frequency = wave * random.uniform(0.8, 1.2, (d, WAVES))
        if d == 3:
            # From close to the ground to close to the ceiling.
            amplitude[2] *= 0.47 * CEILING_M / np.sum(amplitude[2])
        for axes, share in ((slice(0, 2), 1.0), (slice(2, d), CLIMB)):
            rms_speed = np.sqrt(np.sum((amplitude[axes] * frequency[axes]) ** 2) / 2)
            frequency[axes] *= share * config.speed / max(rms_speed, 1e-12)
        centre = random.normal(0, 0.1 * config.radius, d)
        if d == 3:
            centre[2] = CEILING_M / 2
        return Motion(centre, amplitude, frequency, random.uniform(0, 2 * np.pi, (d, WAVES)))

    def _beacons(self, random: np.random.Generator) -> Array:
        """(b, d): around the field, unevenly."""
        count, d = self.config.beacons, self.config.dimension
        angle = 2 * np.pi * (np.arange(count) + random.uniform(-0.3, 0.3, count)) / max(count, 1)
        distance = self.config.radius * random.uniform(0.8, 1.3, count)
        height = random.uniform(*BEACON_HEIGHTS_M, count)
        return np.column_stack(
            [distance * np.cos(angle), distance * np.sin(angle), height])[:, :d]

    def _track(self, motion: Motion, random: np.random.Generator) -> SimulatedTrack:
        config, d = self.config, self.config.dimension
        period = SECOND / config.odometry_rate
        n = max(2, int(self.duration_s * config.odometry_rate))
        # Odometry of different robots is neither simultaneous nor quite periodic.
        ticks = (np.arange(n) + random.uniform() + random.uniform(-0.05, 0.05, n)) * period
        stamp_ns = START_NS + ticks.astype(np.int64)
        rotation, translation = motion.poses((stamp_ns - START_NS) / SECOND)
        step_rotation = np.swapaxes(np.roll(rotation, 1, axis=0), 1, 2) @ rotation
        step_translation = np.einsum(
            'kji,kj->ki', np.roll(rotation, 1, axis=0), np.diff(translation, axis=0, prepend=0))
        length = np.linalg.norm(step_translation, axis=1)
        move = config.drift_m**2 * length + 1e-8
        turn = config.drift_rad**2 * length + 1e-10
        start = np.arange(n) == 0
        move[0] = turn[0] = 0.0
        step_translation = step_translation + np.sqrt(move)[:, None] * random.normal(size=(n, d))
        if config.gravity:
            composed = self._upright(rotation, stamp_ns, turn, random)
            before = np.concatenate([composed[:1], composed[:-1]])
            step_rotation = np.swapaxes(before, 1, 2) @ composed
            # About the vertical the heading drifts, about the others the error of the tilt changes.
            change = 2 * config.tilt_sigma**2 * np.diff(
                stamp_ns, prepend=stamp_ns[0]) / SECOND / TILT_TIME_S
            turn = (turn + 2 * change) / 3
            position = np.cumsum(np.where(start[:, None], 0.0, np.einsum(
                'kij,kj->ki', before, step_translation)), axis=0)
        else:
            step_rotation = step_rotation @ _noise(np.sqrt(turn), d, random)
            composed, position = compose(step_rotation, step_translation, start)
        return SimulatedTrack(
            stamp_ns, composed, position, step_rotation, step_translation, move, turn, rotation,
            translation)

    def _upright(
        self, rotation: Array, stamp_ns: Index, turn: Array, random: np.random.Generator
    ) -> Array:
        """(n, 3, 3): attitudes by gravity, of which the heading drifts by `turn` (n,) rad^2."""
        heading = np.arctan2(rotation[0, 1, 0], rotation[0, 0, 0])
        drift = np.cumsum(np.sqrt(turn) * random.normal(size=len(turn))) - heading
        tilt = _wandering(stamp_ns, TILT_TIME_S, self.config.tilt_sigma, 2, random)
        about = Rotation.from_rotvec(np.column_stack([0 * drift, 0 * drift, drift]))
        leaning = Rotation.from_rotvec(np.column_stack([tilt, np.zeros(len(tilt))]))
        return np.asarray((about * leaning).as_matrix() @ rotation)

    def _levels(self, motion: Motion, random: np.random.Generator) -> Levels:
        """Heights above the ground by a laser, and attitudes."""
        config = self.config
        none = np.zeros(0, dtype=np.int64)
        height_ns, height, imu_ns, attitude = none, np.zeros(0), none, np.zeros((0, 3, 3))
        if config.dimension == 3 and not config.no_altimeter:
            height_ns = _ticks(self.duration_s, HEIGHT_RATE_HZ, random)
            _, position = motion.poses(height_ns / SECOND)
            slow = _wandering(
                height_ns, HEIGHT_TIME_S, HEIGHT_SLOW * config.height_sigma, 1, random)[:, 0]
            fast = np.sqrt(1 - HEIGHT_SLOW**2) * config.height_sigma
            height = position[:, 2] + slow + fast * random.normal(size=len(height_ns))
        if config.dimension == 3 and config.imu:
            imu_ns = _ticks(self.duration_s, IMU_RATE_HZ, random)
            rotation, _ = motion.poses(imu_ns / SECOND)
            attitude = self._upright(rotation, imu_ns, np.full(len(imu_ns), 1e-6), random)
        return Levels(START_NS + height_ns, height, START_NS + imu_ns, attitude)

    def _exchanges(self, random: np.random.Generator) -> Exchanges:
        """Each robot ranges beacons and robots in turn, with dropouts, noise and outliers."""
        config, robots = self.config, len(self.robots)
        parts = []
        count = int(self.duration_s * config.range_rate)
        for robot in range(robots):
            peers = np.setdiff1d(np.arange(robots + config.beacons), [robot])
            if not len(peers) or not count:
                continue
            slot = np.arange(count)
            # Robots share time slots, so ranges of one pair are well apart in time.
            share = (robot + random.uniform(0.1, 0.5, count)) / robots
            seconds = (slot + share) / config.range_rate
            parts.append(np.column_stack([
                seconds * SECOND, np.full(count, robot),
                random.permutation(peers)[slot % len(peers)]]).astype(np.int64))
        table = np.concatenate(parts) if parts else np.zeros((0, 3), dtype=np.int64)
        table = table[np.argsort(table[:, 0], kind='stable')]
        stamp, source, target = table.T
        distance = np.linalg.norm(
            self._antenna(source, stamp) - self._antenna(target, stamp), axis=1)
        variance = config.range_sigma**2 + (config.range_sigma_per_m * distance) ** 2
        outlier = random.uniform(size=len(table)) < config.outliers
        measured = distance + np.sqrt(variance) * random.normal(size=len(table))
        measured += np.where(outlier, random.exponential(config.outlier_bias, len(table)), 0.0)
        heard = (random.uniform(size=len(table)) > DROPOUT) & (distance < config.max_range) & (
            measured > config.range_sigma)
        # The stated variance follows from the measured range: the radio has no other.
        stated = config.range_sigma**2 + (config.range_sigma_per_m * measured) ** 2
        return Exchanges(
            START_NS + stamp[heard], source[heard], target[heard], measured[heard], stated[heard],
            outlier[heard])

    def _antenna(self, end: Index, stamp: Index) -> Array:
        """(k, d): true antenna positions of robots or beacons at stamps since the start."""
        position = np.zeros((len(end), self.config.dimension))
        beacon = end >= len(self.robots)
        position[beacon] = self.beacons[end[beacon] - len(self.robots)]
        for number, motion in enumerate(self.motions):
            rows = end == number
            rotation, translation = motion.poses(stamp[rows] / SECOND)
            position[rows] = translation + rotation @ self.lever
        return position

    def _closures(self, random: np.random.Generator) -> tuple[RelativePoses, Mask]:
        """Pairs of places close to each other, and false ones between places far apart."""
        config, d = self.config, self.config.dimension
        poses = self.poses
        robot, row, position, rotation = (
            poses.robot, poses.index, poses.translation, poses.rotation)
        a, b = random.integers(len(row), size=(2, 400 * max(config.closures, 1)))
        apart = (robot[a] != robot[b]) | (np.abs(row[a] - row[b]) > 30 * config.odometry_rate)
        near = np.linalg.norm(position[a] - position[b], axis=1) < CLOSURE_DISTANCE_M
        false = np.flatnonzero(apart & ~near)[: round(config.closures * config.false_closures)]
        true = np.flatnonzero(apart & near)[: config.closures - len(false)]
        rows = np.concatenate([true, false])
        a, b, wrong = a[rows], b[rows], np.arange(len(rows)) >= len(true)
        turn = np.swapaxes(rotation[a], 1, 2) @ rotation[b]
        move = np.einsum('kji,kj->ki', rotation[a], position[b] - position[a])
        move[wrong] = random.uniform(-3, 3, (len(false), d))
        move = move + CLOSURE_SIGMA_M * random.normal(size=move.shape)
        turn = turn @ _noise(np.full(len(rows), CLOSURE_SIGMA_RAD), d, random)
        return RelativePoses(
            a, b, turn, move, _kappa(np.full(len(rows), CLOSURE_SIGMA_RAD**2), d),
            np.full(len(rows), CLOSURE_SIGMA_M**-2), np.zeros(len(rows), dtype=bool),
            np.maximum(poses.stamp_ns[a], poses.stamp_ns[b])), wrong

    def _poses(self) -> Poses:
        tracks, lengths = self.tracks, [len(track.stamp_ns) for track in self.tracks]
        return Poses(
            np.repeat(np.arange(len(tracks)), lengths),
            np.concatenate([np.arange(length) for length in lengths]),
            np.concatenate([track.stamp_ns for track in tracks]),
            np.concatenate([track.true_rotation for track in tracks]),
            np.concatenate([track.true_translation for track in tracks]))


def _ticks(duration_s: float, rate_hz: float, random: np.random.Generator) -> Index:
    """Stamps since the start, ns."""
    period = SECOND / rate_hz
    return ((np.arange(int(duration_s * rate_hz)) + random.uniform()) * period).astype(np.int64)


def _wandering(
    stamp_ns: Index, time_s: float, sigma: float, size: int, random: np.random.Generator
) -> Array:
    """(n, size): stationary errors with exponential autocorrelation (Ornstein and Uhlenbeck)."""
    kept = np.exp(-np.diff(stamp_ns) / SECOND / time_s)
    fresh = random.normal(size=(len(stamp_ns), size))
    error = np.empty_like(fresh)
    if len(error):
        error[0] = fresh[0]
    for k, share in enumerate(kept.tolist(), start=1):
        error[k] = share * error[k - 1] + np.sqrt(1 - share**2) * fresh[k]
    return sigma * error


def robot_names(count: int) -> list[str]:
    """A, B, C …, without L; then R25, R26 …"""
    letters = 'ABCDEFGHIJKMNOPQRSTUVWXYZ'
    return [letters[k] if k < len(letters) else f'R{k}' for k in range(count)]


def _noise(sigma: Array, d: int, random: np.random.Generator) -> Array:
    """(n, d, d): random small rotations."""
    if d == 2:
        return angle_to_matrix(sigma * random.normal(size=len(sigma)))
    vector = sigma[:, None] * random.normal(size=(len(sigma), 3))
    return np.asarray(Rotation.from_rotvec(vector).as_matrix())


def write_bag(
    path: Path | str, run: Simulation, *, storage: str | None = None, overwrite: bool = False
) -> dict[str, int]:
    """Write odometry, ranges, closures and ground truth; returns messages per kind."""
    rate = run.config.truth_rate
    step = max(1, round(run.config.odometry_rate / rate)) if rate > 0 else None
    with SensorBagWriter(path, storage, overwrite=overwrite) as bag:
        counts = {'odometry': 0, 'ground truth': 0}
        for robot, track in zip(run.robots, run.tracks, strict=True):
            position, quat = xyz(track.translation), quats(track.rotation)
            for k, stamp in enumerate(track.stamp_ns.tolist()):
                bag.odometry(robot, stamp, position[k], quat[k], isotropic(
                    track.translation_variance[k], track.rotation_variance[k]))
            rows = range(0, len(track.stamp_ns), step) if step else range(0)
            position, quat = xyz(track.true_translation), quats(track.true_rotation)
            for k in rows:
                bag.ground_truth(robot, int(track.stamp_ns[k]), position[k], quat[k])
            counts['odometry'] += len(track.stamp_ns)
            counts['ground truth'] += len(rows)
        for robot, level in zip(run.robots, run.levels, strict=True):
            for stamp, height in zip(
                    level.height_stamp_ns.tolist(), level.height_m.tolist(), strict=True):
                bag.altitude(robot, stamp, height)
            quat = quats(level.attitude)
            for k, stamp in enumerate(level.imu_stamp_ns.tolist()):
                bag.imu(robot, stamp, quat[k], run.config.tilt_sigma**2)
        levels = {
            name: count for name, count in (
                ('heights', sum(len(level.height_m) for level in run.levels)),
                ('attitudes', sum(len(level.attitude) for level in run.levels))) if count}
        names = [*run.robots, *run.beacon_names]
        table = run.exchanges
        for k, stamp in enumerate(table.stamp_ns.tolist()):
            bag.uwb_range(names[table.source[k]], names[table.target[k]], stamp,
                          float(table.range_m[k]), float(table.variance[k]))
        closures = run.closures
        position, quat = xyz(closures.translation), quats(closures.rotation)
        noise = isotropic(CLOSURE_SIGMA_M**2, CLOSURE_SIGMA_RAD**2)
        owner, stamp_ns = run.poses.robot, run.poses.stamp_ns
        for k, (i, j) in enumerate(zip(closures.i, closures.j, strict=True)):
            bag.loop_closure(
                run.robots[owner[i]], int(stamp_ns[i]), run.robots[owner[j]], int(stamp_ns[j]),
                position[k], quat[k], noise, 'simulation')
    return counts | levels | {
        'ranges': len(table.stamp_ns), 'loop closures': len(closures)}


def graph_of(run: Simulation) -> Graph:
    """The graph with one pose per odometry message and the truth in its vertices.

    Ranges attach to the pose nearest in time, antennas as they are mounted; the way between the
    two instants, at most half an odometry period, is neglected.
    """
    landmarks = Landmarks(
        run.beacon_names, run.beacons, np.arange(len(run.beacons)) < run.config.known_beacons)
    return Graph(
        run.config.dimension, run.robots, run.poses, landmarks,
        _odometry(run).append(run.closures), _ranges(run), name='simulation')


def _odometry(run: Simulation) -> RelativePoses:
    rows = np.flatnonzero(run.poses.index > 0)

    def joined(name: str) -> Any:
        return np.concatenate([getattr(t, name) for t in run.tracks])[rows]

    return RelativePoses(
        rows - 1, rows, joined('step_rotation'), joined('step_translation'),
        _kappa(joined('rotation_variance'), run.config.dimension),
        1 / joined('translation_variance'), np.ones(len(rows), dtype=bool), joined('stamp_ns'))


def _ranges(run: Simulation) -> Ranges:
    table, robots = run.exchanges, len(run.robots)
    first = np.flatnonzero(run.poses.index == 0)

    def endpoint(end: Index) -> Index:
        result = ~(end - robots)
        for number, track in enumerate(run.tracks):
            rows = end == number
            result[rows] = first[number] + nearest(track.stamp_ns, table.stamp_ns[rows])
        return result

    def lever(end: Index) -> Array:
        return np.where((end < robots)[:, None], run.lever, 0.0)

    return Ranges(
        endpoint(table.source), endpoint(table.target), lever(table.source), lever(table.target),
        table.range_m, 1 / table.variance, table.stamp_ns)


def nearest(stamps: Index, wanted: Index) -> Index:
    """Rows of increasing stamps that are nearest to the wanted ones."""
    after = np.clip(np.searchsorted(stamps, wanted), 1, len(stamps) - 1)
    return np.where(wanted - stamps[after - 1] <= stamps[after] - wanted, after - 1, after)


def _kappa(variance: Array, d: int) -> Array:
    axes = 1 if d == 2 else 3
    return kappa_from_covariance(variance[:, None, None] * np.eye(axes))


def node_config(run: Simulation) -> dict[str, Any]:
    """Parameters for the node: robots, antennas, known beacons, a kernel where ranges lie."""
    radios: dict[str, dict[str, Any]] = {}
    if run.config.lever_arm:
        radios |= {
            robot: {'robot': robot, 'lever_arm': [*run.lever.tolist(), 0.0][:3]}
            for robot in run.robots}
    for number, name in enumerate(run.beacon_names):
        radios[name] = {'beacon': name}
        if number < run.config.known_beacons:
            radios[name] |= {'position': run.beacons[number].tolist(), 'sigma_m': 0.0}
    config: dict[str, Any] = {
        'dimension': run.config.dimension,
        'robots': list(run.robots),
        'odometry_noise': 'pose_increment',
        'radios': radios,
        'ranges': {'max_m': run.config.max_range + 10 * run.config.outlier_bias},
    }
    if run.config.dimension == 3:
        config |= _level_config(run.config)
    if run.config.outliers > 0:
        config['solver'] = {'robust': {'kernel': 'gm', 'gnc': True}}
    if run.config.truth_rate > 0:
        config['backend'] = {
            'truth_topics': {robot: f'/{robot}/ground_truth' for robot in run.robots}}
    return config


def _correlation_s() -> float:
    """Seconds of an altimeter that tell as much as one reading: their mean has the variance of both
    parts of its error, s^2 (1 - h^2) / (f T) and s^2 h^2 2 tau / T of the slow one."""
    return round((1 - HEIGHT_SLOW**2) / HEIGHT_RATE_HZ + HEIGHT_SLOW**2 * 2 * HEIGHT_TIME_S, 2)


def _level_config(options: SimulationConfig) -> dict[str, Any]:
    """Parameters of what says where up is, and how high a robot flies."""
    config: dict[str, Any] = {'odometry': (
        {'vertical': 'gravity', 'tilt_sigma_rad': options.tilt_sigma,
         'tilt_correlation_s': 2 * TILT_TIME_S} if options.gravity else {'vertical': 'free'})}
    if not options.no_altimeter:
        config['heights'] = {'inputs': {'altimeter': {
            'topic': '/{robot}/altitude', 'sigma_m': options.height_sigma,
            'correlation_s': _correlation_s()}}}
    if options.imu and not options.gravity:
        config['attitudes'] = {
            'topic': '/{robot}/imu', 'sigma_rad': options.tilt_sigma,
            'correlation_s': 2 * TILT_TIME_S}
    return config
