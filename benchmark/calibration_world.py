"""Worlds of radios with biases, a scale, wrong sigmas and blocked paths. Seeded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparser_ros.array_types import Array, Index
from sparser_ros.graph import Estimate, Graph, Landmarks, Poses, Ranges, RelativePoses, empty_graph
from sparser_ros.graph.ends import RangeEnds, range_ends
from sparser_ros.linalg.rotations import angle_to_matrix

STEP_S = 0.5
SPEED_M_S = 0.5
MOVE_SIGMA_M, TURN_SIGMA_RAD = 0.005, 0.002
"""Odometry noise of a step."""
RANGE_SIGMA_M = 0.1
BIAS_M = (0.0, 0.6)
SCALE = (0.99, 1.01)
SIGMA_FACTOR = 5.0
"""Claimed sigmas are wrong by a factor between 1 / 5 and 5."""
BLOCKED, EXCESS_M = 0.1, (0.3, 3.0)
ODOMETRY_SCALE = 0.01
"""Standard deviation of the scale of odometry; half of its variance is common to all robots."""


@dataclass(frozen=True)
class Family:
    """What the worlds of a row of the table have in common."""

    name: str
    known: int = 0
    """Beacons of known position, of six."""
    radius_m: float = 30.0
    """Of the circle of beacons."""
    scaled: bool = False
    """Ranges have a common factor."""
    biased: bool = True
    burst_s: float = 5.0
    """Mean length of time that a path is blocked."""
    every: int = 2
    """Steps between the ranges of a pair."""
    honest: bool = True
    """Odometry claims its noise; else three times as much, and ranges sixteen times theirs."""
    minutes: float = 2.0
    odometry_wrong: bool = False
    """Claimed sigmas of odometry are wrong as well, between 1 / 5 and 5, each robot's translations
    and rotations by factors of their own."""


FAMILIES = (
    Family('no known beacons'),
    Family('6 known beacons', known=6),
    Family('no known beacons, 6 m', radius_m=6.0),
    Family('no known beacons, 150 m', radius_m=150.0),
    Family('2 known beacons', known=2),
    Family('6 known beacons, blocked for 30 s', known=6, burst_s=30.0),
    Family('6 known beacons, scale', known=6, scaled=True),
    Family('no known beacons, scale', scaled=True),
    Family('few ranges of unknown noise, no bias', biased=False, every=24, honest=False),
    Family('6 known beacons, odometry wrong', known=6, minutes=8.0, odometry_wrong=True),
    Family('no known beacons, odometry wrong', minutes=8.0, odometry_wrong=True),
)


@dataclass(frozen=True)
class RadioWorld:
    """A graph as its radios give it, the same with true radios, and the truth."""

    measured: Graph
    calibrated: Graph
    truth: Estimate
    bias_m: Array
    """(r,): of robots, then of beacons."""
    scale: float
    odometry_factor: Array
    """(2 robots,): claimed over true sigma of translations, then of rotations."""

    def until(self, seconds: float) -> RadioWorld:
        n = int(np.searchsorted(_seconds(self.measured), seconds, side='right'))

        def part(graph: Graph) -> Graph:
            rel, ranges = graph.relative_poses, graph.ranges
            return graph.replaced(
                poses=graph.poses.take(np.arange(n)), relative_poses=rel.take(rel.j < n),
                ranges=ranges.take(np.maximum(ranges.source, ranges.target) < n))

        truth = Estimate(
            self.truth.rotation[:n], self.truth.translation[:n], self.truth.landmarks)
        return RadioWorld(
            part(self.measured), part(self.calibrated), truth, self.bias_m, self.scale,
            self.odometry_factor)


def _seconds(graph: Graph) -> Array:
    return np.asarray((graph.poses.stamp_ns - graph.poses.stamp_ns[0]) * 1e-9)


def radio_world(family: Family, seed: int, robots: int = 3) -> RadioWorld:
    """Robots on closed curves in the circle of beacons."""
    steps = round(60 * family.minutes / STEP_S)
    random = np.random.default_rng([seed, 14])
    rotation, translation = _paths(family, robots, steps, random)
    beacons = _beacons(family, random)
    truth = Estimate(rotation, translation, beacons)
    n, d = robots * steps, 2
    stamps = 10**9 + np.repeat(np.arange(steps), robots) * int(STEP_S * 1e9)
    poses = Poses(
        np.tile(np.arange(robots), steps), np.repeat(np.arange(steps), robots), stamps,
        rotation, translation)
    fixed = np.arange(len(beacons)) < family.known
    marks = Landmarks(tuple(f'L{k}' for k in range(len(beacons))), beacons, fixed)
    bare = empty_graph(d).replaced(
        robots=tuple('ABCDEFG'[:robots]), poses=poses, landmarks=marks,
        relative_poses=_odometry(family, robots, truth, random))
    source, target = _pairs(robots, len(beacons), n, robots * family.every)
    points = truth.points
    at = np.where(target >= 0, target, n + ~target)
    distance = np.linalg.norm(points[at] - points[source], axis=1)
    none = np.zeros((len(source), d))
    ranges = Ranges(
        source, target, none, none, distance, np.full(len(source), RANGE_SIGMA_M**-2.0),
        stamps[source])
    ends = range_ends(bare.replaced(ranges=ranges))
    clean = np.abs(
        distance + RANGE_SIGMA_M * random.normal(size=len(source))
        + _excess(family, ends, random))
    made = _with_radios(family, bare, ranges, ends, clean, truth, random)
    return _with_odometry(made, random) if family.odometry_wrong else made


def _with_radios(
    family: Family, bare: Graph, ranges: Ranges, ends: RangeEnds, clean: Array, truth: Estimate,
    random: np.random.Generator,
) -> RadioWorld:
    bias = random.uniform(*BIAS_M, len(ends.names)) * family.biased
    scale = float(random.uniform(*SCALE)) if family.scaled else 1.0
    factor = float(SIGMA_FACTOR ** random.uniform(-1, 1)) if family.honest else 16.0
    measured = (clean + bias[ends.first] + bias[ends.second]) / scale
    return RadioWorld(
        bare.replaced(ranges=ranges.replaced(
            distance_m=measured, precision=ranges.precision / factor**2)).validate(),
        bare.replaced(ranges=ranges.replaced(distance_m=clean)).validate(), truth, bias, scale,
        np.full(2 * len(bare.robots), 1.0 if family.honest else 3.0))


def _with_odometry(made: RadioWorld, random: np.random.Generator) -> RadioWorld:
    """The same with wrong claims of the odometry."""
    factor = SIGMA_FACTOR ** random.uniform(-1, 1, len(made.odometry_factor))
    rel = made.measured.relative_poses
    moves, turns = factor.reshape(2, -1)[:, made.measured.poses.robot[rel.i]]
    return replace(made, odometry_factor=factor, measured=made.measured.replaced(
        relative_poses=rel.replaced(tau=rel.tau / moves**2, kappa=rel.kappa / turns**2)))


def _paths(
    family: Family, robots: int, steps: int, random: np.random.Generator
) -> tuple[Array, Array]:
    """Rotations and positions, step by step; a robot looks where it goes."""
    size = min(family.radius_m / 2, 12.0)
    t = STEP_S * np.arange(steps)[:, None, None]
    rate = SPEED_M_S / size * random.uniform(0.8, 1.2, (robots, 2)) * np.array([1.0, 1.4])
    phase = random.uniform(0, 2 * np.pi, (robots, 2))
    centre = random.uniform(-size / 3, size / 3, (robots, 2))
    position = centre + size * np.sin(rate * t + phase)
    speed = size * rate * np.cos(rate * t + phase)
    heading = np.arctan2(speed[..., 1], speed[..., 0])
    return angle_to_matrix(heading.ravel()), position.reshape(-1, 2)


def _beacons(family: Family, random: np.random.Generator, count: int = 6) -> Array:
    angle = 2 * np.pi * (np.arange(count) + random.uniform(-0.3, 0.3, count)) / count
    away = family.radius_m * random.uniform(0.6, 1.2, count)
    return away[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def _odometry(
    family: Family, robots: int, truth: Estimate, random: np.random.Generator
) -> RelativePoses:
    """Steps with noise; the lengths of a robot are off by a factor."""
    i = np.arange(len(truth.translation) - robots)
    j, k = i + robots, len(i)
    scale = 1 + ODOMETRY_SCALE * (
        random.normal() + random.normal(size=robots)) / np.sqrt(2)
    moves = np.einsum(
        'kji,kj->ki', truth.rotation[i], truth.translation[j] - truth.translation[i])
    turns = np.swapaxes(truth.rotation[i], 1, 2) @ truth.rotation[j]
    noise = TURN_SIGMA_RAD * random.normal(size=k)
    claim = 1.0 if family.honest else 3.0
    return RelativePoses(
        i, j, turns @ angle_to_matrix(noise),
        moves / scale[i % robots][:, None] + MOVE_SIGMA_M * random.normal(size=moves.shape),
        np.full(k, (claim * TURN_SIGMA_RAD) ** -2.0), np.full(k, (claim * MOVE_SIGMA_M) ** -2.0),
        np.ones(k, dtype=bool), np.zeros(k, dtype=np.int64))


def _pairs(
    robots: int, beacons: int, poses: int, period: int
) -> tuple[Index, Index]:
    """Ends of ranges: every robot to every beacon and to the robots after it, in turns."""
    ends = [(a, b) for a in range(robots) for b in range(a + 1, robots)]
    ends += [(a, ~b) for a in range(robots) for b in range(beacons)]
    source, target = [], []
    for turn, (a, b) in enumerate(ends):
        start = turn * robots % period
        first = np.arange(start, poses, period)
        source.append(first + a)
        target.append(first + b if b >= 0 else np.full(len(first), b))
    return np.concatenate(source), np.concatenate(target)


def _excess(family: Family, ends: RangeEnds, random: np.random.Generator) -> Array:
    """(k,): metres by which ranges over blocked paths are too long.

    A path is blocked for times that are exponentially distributed, by one length each.
    """
    _, _, pair = ends.pairs
    excess = np.zeros(len(ends.first))
    for number in range(pair.max() + 1):
        rows = np.flatnonzero(pair == number)
        at = float(random.exponential(family.burst_s * (1 / BLOCKED - 1)))
        while at < ends.seconds.max():
            end = at + float(random.exponential(family.burst_s))
            inside = (ends.seconds[rows] >= at) & (ends.seconds[rows] < end)
            excess[rows[inside]] = random.uniform(*EXCESS_M)
            at = end + float(random.exponential(family.burst_s * (1 / BLOCKED - 1)))
    return excess
