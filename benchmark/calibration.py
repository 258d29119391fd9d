"""Are radios found by calibration, and are their sigmas honest: simulated families.

Normalised errors squared (NEES) of all biases (and of the scale), divided by their number: 1 where
covariances are right. Errors of trajectories against those with the true radios.
`python -m benchmark.calibration [--runs 20] [--first 1] [--families NAME...]`
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparser_ros.array_types import Array
from sparser_ros.backend.calibrate.self_calibration import (
    SelfCalibration,
    robust_solver,
    self_calibrate,
)
from sparser_ros.config import SolverConfig
from sparser_ros.config.calibration_config import CalibrationConfig
from sparser_ros.config.simulation_config import SimulationConfig
from sparser_ros.graph import Estimate, Graph, estimate_of
from sparser_ros.graph.ends import RangeEnds, range_ends
from sparser_ros.io.simulation import Simulation, graph_of
from sparser_ros.linalg.rotations import aligned_errors

from .nees import band
from .table import Row, Table, parser, run_main

SPEED_M_S = 0.5
MOVE_SIGMA, TURN_SIGMA = 0.01, 0.004
"""Odometry noise per root of a metre: m and rad."""
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
    rate_hz: float = 8.0
    """Ranges of a robot."""
    honest: bool = True
    """Odometry claims its noise; else three times as much, and ranges sixteen times theirs."""


FAMILIES = (
    Family('no known beacons'),
    Family('6 known beacons', known=6),
    Family('no known beacons, 6 m', radius_m=6.0),
    Family('no known beacons, 150 m', radius_m=150.0),
    Family('2 known beacons', known=2),
    Family('6 known beacons, blocked for 30 s', known=6, burst_s=30.0),
    Family('6 known beacons, scale', known=6, scaled=True),
    Family('no known beacons, scale', scaled=True),
    Family('few ranges of unknown noise, no bias', biased=False, rate_hz=0.7, honest=False),
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


def radio_world(family: Family, seed: int) -> RadioWorld:
    """Three robots in the field of beacons for two minutes."""
    random = np.random.default_rng([seed, 14])
    bare = graph_of(Simulation(SimulationConfig(
        robots=3, beacons=6, known_beacons=family.known, minutes=2.0, seed=seed, outliers=0.0,
        # A range counts at the nearest pose: at this rate that is 1 cm off at most.
        odometry_rate=20.0, range_rate=family.rate_hz, truth_rate=0.0, radius=family.radius_m,
        speed=SPEED_M_S, max_range=1e4, range_sigma=RANGE_SIGMA_M, range_sigma_per_m=0.0,
        drift_m=MOVE_SIGMA, drift_rad=TURN_SIGMA)))
    claim = 1.0 if family.honest else 3.0
    rel, ends = bare.relative_poses, range_ends(bare)
    scale = 1 + ODOMETRY_SCALE * (random.normal() + random.normal(size=3)) / np.sqrt(2)
    bare = bare.replaced(relative_poses=rel.replaced(
        translation=rel.translation / scale[bare.poses.robot[rel.i], None],
        kappa=rel.kappa / claim**2, tau=rel.tau / claim**2))
    clean = bare.ranges.distance_m + _excess(family, ends, random)
    bias = random.uniform(*BIAS_M, len(ends.names)) * family.biased
    scaled = float(random.uniform(*SCALE)) if family.scaled else 1.0
    factor = float(SIGMA_FACTOR ** random.uniform(-1, 1)) if family.honest else 16.0
    measured = (clean + bias[ends.first] + bias[ends.second]) / scaled
    return RadioWorld(
        bare.replaced(ranges=bare.ranges.replaced(
            distance_m=measured, precision=bare.ranges.precision / factor**2)).validate(),
        bare.replaced(ranges=bare.ranges.replaced(distance_m=clean)).validate(),
        estimate_of(bare), bias, scaled)


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


RATIO = 1.15
"""Error of a trajectory over that with the true radios that counts as as good."""


@dataclass(frozen=True)
class Outcome:
    nees: float
    """Squared normalised error of all parameters."""
    degrees: int
    common: float
    """Error of what all biases share, in its standard deviations."""
    applied: bool
    raw_m: float
    true_m: float
    found_m: float
    aligned: float
    """`ate_m` of the calibrated trajectory, aligned by a rigid motion as in every report, over that
    with the true radios."""


def main(argv: list[str] | None = None) -> int:
    made = parser('calibration', __doc__ or '', data=False)
    made.add_argument('--runs', type=int, default=20, help='worlds of each family')
    made.add_argument('--first', type=int, default=1, help='seed of the first world')
    made.add_argument('--families', nargs='*', metavar='NAME', default=[],
                      choices=[family.name for family in FAMILIES],
                      help='only these (default: all)')
    args = made.parse_args(argv)
    families = [f for f in FAMILIES if not args.families or f.name in args.families]
    seeds = range(args.first, args.first + args.runs)
    table = Table('calibration', 'Radios found with the map, on simulation', {
        'family': 'family', 'runs': 'runs', 'applied': 'applied', 'nees': 'NEES', 'low': 'from',
        'high': 'to', 'common': 'common rms', 'raw': 'raw m', 'true': 'true radios m',
        'found': 'calibrated m', 'near': f'in map within {RATIO}',
        'aligned': f'ATE within {RATIO}'}, args.out)
    for family in families:
        table.add(summary(family, [outcome(family, seed) for seed in seeds]))
    return 0


def outcome(family: Family, seed: int) -> Outcome:
    """Calibrate one world; solves start at the truth (whether they find it is not asked here)."""
    world = radio_world(family, seed)
    run = robust_solver(SolverConfig())
    raw, _ = run(world.measured, world.truth)
    best, _ = run(world.calibrated, world.truth)
    found = calibrated(family, world, raw)
    error, covariance = errors(family, world, found)
    one = np.ones(len(world.bias_m))
    biases = covariance[:len(one), :len(one)]
    return Outcome(
        float(error @ np.linalg.solve(covariance, error)), len(error),
        float(one @ error[:len(one)] / np.sqrt(one @ biases @ one)), found.applied,
        ate(family, raw, world.truth), ate(family, best, world.truth),
        ate(family, found.estimate, world.truth),
        aligned(found.estimate, world.truth) / aligned(best, world.truth))


def calibrated(family: Family, world: RadioWorld, initial: Estimate) -> SelfCalibration:
    """The calibration of a world; a scale is sought where there is one."""
    spread = float(SCALE[1] - 1) / np.sqrt(3) if family.scaled else 0.0
    return self_calibrate(
        world.measured, initial, CalibrationConfig(sigma='estimate', scale_sigma=spread),
        SolverConfig())


def errors(
    family: Family, world: RadioWorld, found: SelfCalibration
) -> tuple[Array, Array]:
    """True minus found biases (and the scale), and their covariance."""
    use = np.arange(len(world.bias_m) + family.scaled)
    truth = np.append(world.bias_m, world.scale - 1)
    error = truth - found.posterior.values[:len(truth)]
    return error[use], found.posterior.covariance[np.ix_(use, use)]


def ate(family: Family, estimate: Estimate, truth: Estimate) -> float:
    """Mean error of positions, aligned unless known beacons fix the frame."""
    if family.known < 2:
        return aligned(estimate, truth)
    return float(np.mean(np.linalg.norm(estimate.translation - truth.translation, axis=1)))


def aligned(estimate: Estimate, truth: Estimate) -> float:
    """Mean error of positions after alignment."""
    return float(np.mean(aligned_errors(estimate.translation, truth.translation)))


def summary(family: Family, outcomes: list[Outcome]) -> Row:
    degrees = sum(one.degrees for one in outcomes)
    low, high = band(1, degrees)

    def share(true: list[bool]) -> str:
        return f'{100 * np.mean(true):.0f} %'

    def middle(name: str) -> float:
        return float(np.median([getattr(one, name) for one in outcomes]))

    return {
        'family': family.name, 'runs': len(outcomes),
        'applied': share([one.applied for one in outcomes]),
        'nees': sum(one.nees for one in outcomes) / degrees, 'low': low,
        'high': high, 'common': float(np.sqrt(np.mean([o.common**2 for o in outcomes]))),
        'raw': middle('raw_m'), 'true': middle('true_m'), 'found': middle('found_m'),
        'near': share([o.found_m <= RATIO * o.true_m for o in outcomes]),
        'aligned': share([o.aligned <= RATIO for o in outcomes])}


if __name__ == '__main__':
    run_main(main)
