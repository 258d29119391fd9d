"""Simulated sensor data with one fault each, as samples in the order of reception, without ROS."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from sparser_ros.array_types import Array
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.config.sparser import SparserConfig
from sparser_ros.frontend.samples import (
    AttitudeSample,
    ClosureSample,
    HeightSample,
    OdometrySample,
    RangeSample,
)
from sparser_ros.io.bag import isotropic
from sparser_ros.io.simulation import START_NS, Simulation, node_config
from sparser_ros.io.stamp_text import SECOND
from sparser_ros.io.tum import quats, xyz

Sample = OdometrySample | RangeSample | ClosureSample | HeightSample | AttitudeSample
Samples = list[Sample]


@dataclass(frozen=True)
class Scenario:
    """One recording: its simulation, its samples, its fault, and the names of faulty sources."""

    run: Simulation
    config: SparserConfig
    samples: Samples
    fault: str
    culprits: tuple[str, ...] = ()

    @property
    def anchored(self) -> bool:
        """Whether known beacons fix the frame of `map`."""
        return self.run.config.known_beacons >= self.run.config.dimension


@dataclass
class Draw:
    """Random choices of one scenario: a robot, another one, a beacon and a time."""

    random: np.random.Generator
    run: Simulation
    parameters: dict[str, Any] = field(default_factory=dict)

    def robot(self) -> str:
        return str(self.random.choice(self.run.robots))

    def time_ns(self) -> int:
        """In the middle half of the recording."""
        share = self.random.uniform(0.25, 0.75)
        return START_NS + int(share * self.run.duration_s * SECOND)

    def offset_xy(self, least_m: float, most_m: float) -> Array:
        """So far in any direction."""
        bearing, metres = self.random.uniform(0, 2 * np.pi), self.random.uniform(least_m, most_m)
        return metres * np.array([np.cos(bearing), np.sin(bearing)])

    def sometimes(self, share: float, least: float, most: float) -> float:
        """A value between these with that probability, else 0."""
        return self.random.uniform(least, most) if self.random.random() < share else 0.0


RECENT_S = 600.0
"""Newest stretch whose position errors are shown beside those of a whole run."""


def seconds_of(sample: Sample) -> float:
    """Time of reception since the start of the data."""
    return (sample.received_ns - START_NS) / SECOND


def samples_of(run: Simulation) -> Iterator[Sample]:
    """What a simulated run measures, in the order of the stamps."""
    return heapq.merge(
        _ranges(run), *(_odometry(run, k) for k in range(len(run.robots))),
        *(_levels(run, k) for k in range(len(run.robots))), key=lambda sample: sample.stamp_ns)


def _ranges(run: Simulation) -> Iterator[RangeSample]:
    table, names = run.exchanges, [*run.robots, *run.beacon_names]
    for k, stamp in enumerate(table.stamp_ns.tolist()):
        yield RangeSample(
            names[table.source[k]], names[table.target[k]], stamp, stamp,
            float(table.range_m[k]), float(table.variance[k]))


def _odometry(run: Simulation, number: int) -> Iterator[OdometrySample]:
    robot, track, none = run.robots[number], run.tracks[number], np.zeros((6, 6))
    position, quat = xyz(track.translation), quats(track.rotation)
    for k, stamp in enumerate(track.stamp_ns.tolist()):
        yield OdometrySample(
            robot, stamp, stamp, position[k], quat[k], isotropic(
                track.translation_variance[k], track.rotation_variance[k]), none,
            f'{robot}/odom', f'{robot}/base_link')


def _levels(run: Simulation, number: int) -> Iterator[HeightSample | AttitudeSample]:
    robot, level = run.robots[number], run.levels[number]
    heights = (
        HeightSample(robot, stamp, stamp, 'altimeter', height) for stamp, height in zip(
            level.height_stamp_ns.tolist(), level.height_m.tolist(), strict=True))
    attitudes = (
        AttitudeSample(robot, stamp, stamp, quat) for stamp, quat in zip(
            level.imu_stamp_ns.tolist(), quats(level.attitude), strict=True))
    return heapq.merge(heights, attitudes, key=lambda sample: sample.stamp_ns)


def by_reception(samples: Samples) -> Samples:
    """Samples in the order of reception."""
    return sorted(samples, key=lambda sample: sample.received_ns)


def changed(
    samples: Iterable[Sample], kind: type, change: Callable[[Any], Sample | None], robot: str = '',
) -> Samples:
    """The samples with those of a kind, and of a robot, changed, or left out where that is None."""
    found = (change(one) if isinstance(one, kind) and robot in ('', getattr(one, 'robot', ''))
             else one for one in samples)
    return [one for one in found if one is not None]


Faulty = tuple[Samples, tuple[str, ...]]


def clean(samples: Samples, draw: Draw) -> Faulty:
    """No fault."""
    return samples, ()


def gross(samples: Samples, draw: Draw) -> Faulty:
    """10 to 40 % of all ranges 5 to 50 m too long."""
    share = draw.random.uniform(0.1, 0.4)
    return _lengthened(samples, lambda: draw.sometimes(share, 5, 50)), ()


def biased_radio(samples: Samples, draw: Draw) -> Faulty:
    """All ranges of one radio 0.3 to 1 m too long."""
    radio, metres = draw.robot(), draw.random.uniform(0.3, 1.0)
    return _lengthened(samples, lambda: metres, radio), (radio,)


def burst(samples: Samples, draw: Draw) -> Faulty:
    """One radio's ranges 2 to 5 m too long for 30 s, as behind a wall."""
    radio, begin = draw.robot(), draw.time_ns()
    metres = draw.random.uniform(2.0, 5.0)
    return _lengthened(samples, lambda: metres, radio, begin, 30), ()


def _lengthened(
    samples: Samples, metres: Callable[[], float], radio: str = '', begin_ns: int = 0,
    seconds: float = math.inf,
) -> Samples:
    """Ranges longer from a time on, of one radio or of all; `metres` is asked for each of them."""
    def change(sample: RangeSample) -> RangeSample:
        if radio in ('', sample.source, sample.target) and (
                0 <= sample.stamp_ns - begin_ns < seconds * SECOND):
            return replace(sample, range_m=sample.range_m + metres())
        return sample

    return changed(samples, RangeSample, change)


def swapped_radios(samples: Samples, draw: Draw) -> Faulty:
    """Two robots carry each other's radio."""
    if len(draw.run.robots) < 2:
        return samples, ()
    return _swapped(samples, draw, draw.run.robots)


def swapped_beacons(samples: Samples, draw: Draw) -> Faulty:
    """Two known beacons carry each other's radio."""
    return _swapped(samples, draw, draw.run.beacon_names)


def _swapped(samples: Samples, draw: Draw, names: Sequence[str]) -> Faulty:
    one, other = draw.random.choice(names, 2, replace=False).tolist()
    swap = {one: other, other: one}

    def change(sample: RangeSample) -> RangeSample:
        return replace(
            sample, source=swap.get(sample.source, sample.source),
            target=swap.get(sample.target, sample.target))

    return changed(samples, RangeSample, change), (one, other)


def restarted(samples: Samples, draw: Draw) -> Faulty:
    """A robot's odometry begins again at its origin."""
    robot, begin = draw.robot(), draw.time_ns()
    return _rebased(samples, robot, begin, np.zeros(2), 0.0), (robot,)


def slipped(samples: Samples, draw: Draw) -> Faulty:
    """A robot's odometry jumps by 2 to 10 m and up to 1 rad."""
    robot, begin = draw.robot(), draw.time_ns()
    first = next(
        s for s in samples
        if isinstance(s, OdometrySample) and s.robot == robot and s.stamp_ns >= begin)
    target = first.position_xyz[:2] + draw.offset_xy(2, 10)
    turn = _heading(first.quat_xyzw) + draw.random.uniform(-1, 1)
    return _rebased(samples, robot, begin, target, turn), (robot,)


def _heading(quat: Any) -> float:
    return float(Rotation.from_quat(quat).as_euler('ZYX')[0])


def _rebased(
    samples: Samples, robot: str, begin_ns: int, target_xy: Array, target_heading: float
) -> Samples:
    """Odometry moved rigidly about the vertical so that it is at a target pose at `begin_ns`."""
    first: list[OdometrySample] = []

    def change(sample: OdometrySample) -> OdometrySample:
        if sample.stamp_ns < begin_ns:
            return sample
        if not first:
            first.append(sample)
        turn = target_heading - _heading(first[0].quat_xyzw)
        begin = np.append(first[0].position_xyz[:2], 0.0)
        position = np.append(target_xy, 0.0) + _about_vertical(turn, sample.position_xyz - begin)
        return replace(
            sample, position_xyz=position, quat_xyzw=_turned(sample.quat_xyzw, turn))

    return changed(samples, OdometrySample, change, robot)


def _about_vertical(angle: float, vector: Array) -> Array:
    return np.asarray(Rotation.from_euler('z', angle).apply(vector))


def _turned(quat: Any, angle: float) -> Array:
    return np.asarray((Rotation.from_euler('z', angle) * Rotation.from_quat(quat)).as_quat())


def scaled(samples: Samples, draw: Draw) -> Faulty:
    """A robot's odometry is 5 to 15 % too long."""
    robot, factor = draw.robot(), 1 + draw.random.uniform(0.05, 0.15)
    return changed(samples, OdometrySample, lambda s: replace(
        s, position_xyz=factor * s.position_xyz), robot), (robot,)


def turning(samples: Samples, draw: Draw) -> Faulty:
    """A robot's odometry turns by itself, 2 to 10 mrad/s."""
    robot = draw.robot()
    rate = draw.random.choice([-1.0, 1.0]) * draw.random.uniform(0.002, 0.01)
    last: list[Array] = []

    def change(sample: OdometrySample) -> OdometrySample:
        angle = rate * (sample.stamp_ns - START_NS) / SECOND
        if not last:
            last[:] = [sample.position_xyz, sample.position_xyz]
        move = sample.position_xyz - last[0]
        last[:] = [sample.position_xyz, last[1] + _about_vertical(angle, move)]
        return replace(
            sample, position_xyz=last[1], quat_xyzw=_turned(sample.quat_xyzw, angle))

    return changed(samples, OdometrySample, change, robot), (robot,)


def stuck_odometry(samples: Samples, draw: Draw) -> Faulty:
    """A robot's odometry stands for 10 to 20 s while the robot drives, and goes on from there."""
    robot, begin = draw.robot(), draw.time_ns()
    end = begin + int(draw.random.uniform(10, 20) * SECOND)
    # The one at which it stands, and the newest.
    held: list[OdometrySample] = []

    def change(sample: OdometrySample) -> OdometrySample:
        if sample.stamp_ns < begin:
            return sample
        if not held:
            held[:] = [sample, sample]
        first = held[0]
        if sample.stamp_ns < end:
            held[1] = sample
            return replace(
                sample, position_xyz=first.position_xyz, quat_xyzw=first.quat_xyzw)
        turn = _heading(first.quat_xyzw) - _heading(held[1].quat_xyzw)
        move = _about_vertical(turn, sample.position_xyz - held[1].position_xyz)
        return replace(sample, position_xyz=first.position_xyz + move,
                       quat_xyzw=_turned(sample.quat_xyzw, turn))

    return changed(samples, OdometrySample, change, robot), (robot,)


def stuck_ranges(samples: Samples, draw: Draw) -> Faulty:
    """One radio repeats its last ranges for 30 s."""
    radio, begin = draw.robot(), draw.time_ns()
    last: dict[tuple[str, str], float] = {}

    def change(sample: RangeSample) -> RangeSample:
        ends = sample.source, sample.target
        if radio in ends and begin <= sample.stamp_ns < begin + 30 * SECOND and ends in last:
            return replace(sample, range_m=last[ends])
        last[ends] = sample.range_m
        return sample

    return changed(samples, RangeSample, change), ()


def hidden_robot(samples: Samples, draw: Draw) -> Faulty:
    """For 30 s, 70 % of one robot's ranges are 1 to 10 m too long, each by another length."""
    radio, begin = draw.robot(), draw.time_ns()
    return _lengthened(samples, lambda: draw.sometimes(0.7, 1, 10), radio, begin, 30), ()


def boastful_ranges(samples: Samples, draw: Draw) -> Faulty:
    """All ranges claim a hundredth of their variance."""
    return changed(samples, RangeSample, lambda s: replace(s, variance=s.variance / 100)), ()


def vanished(samples: Samples, draw: Draw) -> Faulty:
    """Nothing of one robot arrives for 40 s."""
    robot, begin = draw.robot(), draw.time_ns()

    def heard(sample: Sample) -> bool:
        if not begin <= sample.received_ns < begin + 40 * SECOND:
            return True
        if isinstance(sample, OdometrySample):
            return sample.robot != robot
        return not isinstance(sample, RangeSample) or robot not in (sample.source, sample.target)

    return [s for s in samples if heard(s)], (robot,)


def late_ranges(samples: Samples, draw: Draw) -> Faulty:
    """All ranges arrive 2 s after their stamps."""
    return by_reception(changed(samples, RangeSample, lambda s: replace(
        s, received_ns=s.received_ns + 2 * SECOND))), ()


def wrong_clock(samples: Samples, draw: Draw) -> Faulty:
    """The stamps of one radio are 0.5 to 20 s ahead."""
    radio, ahead = draw.robot(), int(draw.random.uniform(0.5, 20) * SECOND)

    def change(sample: RangeSample) -> RangeSample:
        if sample.source != radio:
            return sample
        return replace(sample, stamp_ns=sample.stamp_ns + ahead)

    return changed(samples, RangeSample, change), (radio,)


def misplaced_beacon(samples: Samples, draw: Draw) -> Faulty:
    """The configured position of a known beacon is 3 to 10 m off."""
    known = draw.run.beacon_names[:draw.run.config.known_beacons]
    if not known:
        return samples, ()
    name = str(draw.random.choice(known))
    place = draw.parameters['radios'][name]['position']
    place[:2] = (np.array(place[:2]) + draw.offset_xy(3, 10)).tolist()
    return samples, (name,)


def misplaced_antenna(samples: Samples, draw: Draw) -> Faulty:
    """The configured lever arm of a robot's radio is 0.3 to 1 m off, level."""
    robot = draw.robot()
    place = [*draw.offset_xy(0.3, 1.0).tolist(), 0.0]
    draw.parameters.setdefault('radios', {})[robot] = {'robot': robot, 'lever_arm': place}
    return samples, (robot,)


def moved_beacon(samples: Samples, draw: Draw) -> Faulty:
    """Somebody moves a beacon by 1 to 5 m."""
    if not draw.run.beacon_names:
        return samples, ()
    number, begin = int(draw.random.integers(len(draw.run.beacons))), draw.time_ns()
    name, old = draw.run.beacon_names[number], draw.run.beacons[number]
    new = old.copy()
    new[:2] += draw.offset_xy(1, 5)

    def change(sample: RangeSample) -> RangeSample:
        if name not in (sample.source, sample.target) or sample.stamp_ns < begin:
            return sample
        other = sample.target if sample.source == name else sample.source
        motion = draw.run.motions[draw.run.robots.index(other)]
        here = motion.poses(np.array([(sample.stamp_ns - START_NS) / SECOND]))[1][0]
        longer = np.linalg.norm(new - here) - np.linalg.norm(old - here)
        return replace(sample, range_m=max(0.05, sample.range_m + float(longer)))

    return changed(samples, RangeSample, change), (name,)


def biased_beacon(samples: Samples, draw: Draw) -> Faulty:
    """All ranges of one beacon 0.3 to 1 m too long."""
    if not draw.run.beacon_names:
        return samples, ()
    name, metres = str(draw.random.choice(draw.run.beacon_names)), draw.random.uniform(0.3, 1.0)
    return _lengthened(samples, lambda: metres, name), (name,)


def two_faults(samples: Samples, draw: Draw) -> Faulty:
    """A radio that is too long, and an odometry of another scale."""
    changed, first = biased_radio(samples, draw)
    changed, second = scaled(changed, draw)
    return changed, (*first, *second)


def false_closure(samples: Samples, draw: Draw) -> Faulty:
    """A false loop closure between two robots with a covariance of almost zero."""
    if len(draw.run.robots) < 2:
        return samples, ()
    one, other = draw.random.choice(draw.run.robots, 2, replace=False).tolist()
    stamp = draw.time_ns()
    closure = ClosureSample(
        one, stamp, other, stamp, stamp + SECOND, np.append(draw.random.uniform(-3, 3, 2), 0.0),
        np.array([0.0, 0.0, 0.0, 1.0]), np.diag(np.full(6, 1e-12)), 1.0, 'scenario')
    return by_reception([*samples, closure]), ()


def tilted_odometry(samples: Samples, draw: Draw) -> Faulty:
    """A robot's odometry claims gravity and is tilted by 10 to 90 degrees."""
    robot = draw.robot()
    turn = Rotation.from_euler('ZX', [draw.random.uniform(-np.pi, np.pi), np.radians(
        draw.random.choice([draw.random.uniform(10, 30), 90.0]))])
    return changed(samples, OdometrySample, lambda s: replace(
        s, position_xyz=turn.apply(s.position_xyz),
        quat_xyzw=(turn * Rotation.from_quat(s.quat_xyzw)).as_quat()), robot), (robot,)


def turned_imu(samples: Samples, draw: Draw) -> Faulty:
    """A robot's IMU is mounted with 90 degrees about one of its axes that nobody configured."""
    robot = draw.robot()
    mount = Rotation.from_euler(str(draw.random.choice(list('xyz'))), draw.random.choice(
        [-90.0, 90.0]), degrees=True)
    return changed(samples, AttitudeSample, lambda s: replace(
        s, quat_xyzw=(Rotation.from_quat(s.quat_xyzw) * mount).as_quat()), robot), (robot,)


def drifting_barometer(samples: Samples, draw: Draw) -> Faulty:
    """The heights of one robot drift by 2 m within half a minute to two minutes, for good."""
    robot, begin = draw.robot(), draw.time_ns()
    metres, seconds = draw.random.choice([-2.0, 2.0]), draw.random.uniform(30, 120)

    def change(sample: HeightSample) -> HeightSample:
        share = np.clip((sample.stamp_ns - begin) / SECOND / seconds, 0.0, 1.0)
        return replace(sample, value=sample.value + float(metres * share))

    return changed(samples, HeightSample, change, robot), (robot,)


def furniture(samples: Samples, draw: Draw) -> Faulty:
    """The laser of one robot measures to tables below it, a quarter of the time."""
    robot, table = draw.robot(), draw.random.uniform(0.6, 1.2)
    seconds = np.cumsum(draw.random.exponential(1.0, 400) * np.tile([9.0, 3.0], 200))

    def change(sample: HeightSample) -> HeightSample:
        above = np.searchsorted(seconds, (sample.stamp_ns - START_NS) / SECOND) % 2 == 1
        return replace(sample, value=sample.value - table) if above else sample

    return changed(samples, HeightSample, change, robot), (robot,)


def frozen_altimeter(samples: Samples, draw: Draw) -> Faulty:
    """The altimeter of one robot repeats what it said at a time."""
    robot, begin = draw.robot(), draw.time_ns()
    held: list[float] = []

    def change(sample: HeightSample) -> HeightSample:
        if sample.stamp_ns >= begin:
            held[:] = held or [sample.value]
            return replace(sample, value=held[0])
        return sample

    return changed(samples, HeightSample, change, robot), (robot,)


def other_size(samples: Samples, draw: Draw) -> Faulty:
    """No fault; a field of another size, claims of noise that are wrong, small systematic errors.

    Claimed sigmas are 0.3 to 3 times those of odometry, 0.5 to 2 times those of ranges; radios have
    biases of 5 cm, odometry is 1 % too long or too short (rms).
    """
    random, run = draw.random, draw.run
    odometry, ranges = _between(random, 0.1, 10.0), _between(random, 0.25, 4.0)
    bias_m = {name: random.normal(0, 0.05) for name in (*run.robots, *run.beacon_names)}
    scale = {name: random.normal(1, 0.01) for name in run.robots}
    samples = changed(samples, OdometrySample, lambda s: replace(
        s, position_xyz=s.position_xyz * scale[s.robot],
        pose_covariance=s.pose_covariance * odometry))
    return changed(samples, RangeSample, lambda s: replace(
        s, range_m=max(0.05, s.range_m + bias_m[s.source] + bias_m[s.target]),
        variance=s.variance * ranges)), ()


def _between(random: np.random.Generator, low: float, high: float) -> float:
    """Uniform in the logarithm."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


LEVEL_FAULTS: dict[str, Callable[[Samples, Draw], Faulty]] = {
    one.__name__: one for one in (
        tilted_odometry, turned_imu, drifting_barometer, furniture, frozen_altimeter)}
"""Of robots that fly."""
FAULTS: dict[str, Callable[[Samples, Draw], Faulty]] = {
    one.__name__: one for one in (
        clean, gross, biased_radio, burst, swapped_radios, swapped_beacons, restarted, slipped,
        scaled, vanished, late_ranges, wrong_clock, misplaced_beacon, false_closure, turning,
        moved_beacon, biased_beacon, two_faults, stuck_odometry, stuck_ranges, hidden_robot,
        boastful_ranges, misplaced_antenna, other_size)} | LEVEL_FAULTS


def scenario(fault: str, seed: int, minutes: float = 2.5) -> Scenario:
    """A recording with that fault; robots, beacons, dimension and noise are drawn by the seed."""
    random = np.random.default_rng([seed, *fault.encode()])
    beacons = int(random.integers(0, 7))
    options = SimulationConfig(
        robots=int(random.integers(1, 4)), beacons=beacons,
        known_beacons=int(random.choice([0, 0, min(2, beacons), beacons])), minutes=minutes,
        seed=seed, dimension=int(random.choice([2, 2, 2, 3])),
        outliers=float(random.choice([0.0, 0.05])),
        drift_m=float(random.uniform(0.01, 0.04)), drift_rad=float(random.uniform(0.001, 0.005)))
    if fault in LEVEL_FAULTS:
        options = replace(
            options, dimension=3, robots=int(random.integers(2, 4)),
            beacons=int(random.integers(3, 7)), known_beacons=0, radius=float(
                random.choice([15.0, 60.0])), imu=fault == 'turned_imu',
            no_gravity=fault == 'turned_imu')
    if fault == swapped_beacons.__name__:
        # Two alone would look like a map that is turned.
        beacons = int(random.integers(4, 7))
        options = replace(options, beacons=beacons, known_beacons=beacons)
    if fault == other_size.__name__:
        radius, beacons = _between(random, 5, 150), int(random.integers(2, 9))
        options = replace(
            options, robots=int(random.integers(1, 5)), beacons=beacons,
            known_beacons=int(random.choice([0, 0, 0, beacons])), radius=radius,
            max_range=radius * random.uniform(0.8, 3.0), speed=_between(random, 0.2, 1.5),
            range_rate=_between(random, 0.5, 8.0), range_sigma=_between(random, 0.03, 0.3),
            outliers=float(random.choice([0.0, 0.05, 0.15])),
            outlier_bias=_between(random, 0.5, 10.0), drift_m=_between(random, 0.005, 0.1),
            drift_rad=_between(random, 0.0005, 0.02))
    run = Simulation(options)
    parameters = node_config(run)
    draw = Draw(random, run, parameters)
    samples, culprits = FAULTS[fault](list(samples_of(run)), draw)
    parameters['solver'] = {'robust': {'kernel': 'gm', 'gnc': True}}
    return Scenario(run, SparserConfig.from_mapping(parameters), samples, fault, culprits)
