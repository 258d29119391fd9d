"""Are covariances honest: normalised errors on simulation.

Normalised estimation error squared (NEES, Bar-Shalom): e' P^-1 e of the newest pose, chi-square
with 3 or 6 degrees of freedom where P is right. Its mean over all runs must lie in the interval
that holds 95 % of such means. Real sets: `benchmark.available`.
`python -m benchmark.nees [--runs 100] [--first 0]`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.stats import chi2

from sparser_ros.array_types import Array
from sparser_ros.config import RobustConfig
from sparser_ros.config.solver_config import LIVE_ROBUST
from sparser_ros.graph import Estimate, Graph, Poses, empty_graph, estimate_of
from sparser_ros.linalg.rotations import matrix_to_angle, matrix_to_rotvec
from sparser_ros.solver.covariance import in_map

from . import synthetic
from .stream import solver_of
from .table import Table, parser, run_main

SIGMA_M, SIGMA_RAD, RANGE_SIGMA_M = 0.02, 0.005, 0.1
"""Odometry per step and axis; ranges."""
OUTLIER_M = (1.0, 10.0)
"""What is added to a blocked range, uniformly."""
POSES = (50, 100, 200)
"""Sizes at which the newest poses are judged."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Case:
    """One family of simulated worlds."""

    dimension: int
    beacons: bool
    """Known beacons fix the frame; else ranges between the robots and closures do the work."""
    outliers: float

    @property
    def degrees(self) -> int:
        """Of freedom of a pose."""
        return 3 if self.dimension == 2 else 6

    @property
    def name(self) -> str:
        return (f'{self.dimension}D, {"beacons" if self.beacons else "no beacons"}, '
                f'{100 * self.outliers:.0f} % blocked')


CASES = tuple(
    Case(dimension, beacons, outliers)
    for dimension in (2, 3) for beacons in (True, False) for outliers in (0.0, 0.1))


def main(argv: list[str] | None = None) -> int:
    made = parser('nees', __doc__ or '', data=False)
    made.add_argument('--runs', type=int, default=100, help='simulated worlds of each family')
    made.add_argument('--first', type=int, default=0, help='seed of the first world')
    args = made.parse_args(argv)
    simulated = Table('nees', 'Normalised errors of newest poses on simulation', {
        'case': 'world', 'poses': 'poses', 'mean': 'mean NEES', 'low': 'from', 'high': 'to',
        'inside': 'inside'}, args.out)
    for case in CASES:
        values = np.array([
            list(normalised_errors(case, args.first + run)) for run in range(args.runs)])
        for column, poses in enumerate(POSES):
            low, high = band(case.degrees, args.runs)
            mean = float(np.mean(values[:, column]))
            simulated.add({
                'case': case.name, 'poses': poses, 'mean': mean, 'low': low, 'high': high,
                'inside': 'yes' if low <= mean <= high else 'no'})
    return 0


def band(degrees: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval that holds this share of the means of `count` NEES of so many degrees each."""
    edges = chi2.ppf([(1 - confidence) / 2, (1 + confidence) / 2], degrees * count) / count
    return float(edges[0]), float(edges[1])


def normalised_errors(case: Case, seed: int) -> Iterator[float]:
    """NEES of the second robot's newest pose at each of `POSES`, by the incremental solver.

    The solver starts at the truth: whether it finds the right minimum is not asked here.
    """
    graph = world(case, seed)
    truth = estimate_of(graph)
    kernel = replace(LIVE_ROBUST, gnc=False) if case.outliers else RobustConfig()
    for count in POSES:
        part = synthetic.first_poses(graph, count)
        solver = solver_of(part, estimate_of(part), kernel)
        newest = count - 1
        solver.update(np.array([count - 2, newest]), 1e-6)
        own = solver.covariance(np.array([newest]))
        assert own is not None
        covariance = in_map(own, solver.rotation[[newest]], np.zeros(1, dtype=bool))
        yield nees(solver.rotation[newest], solver.position[newest], truth, newest, covariance)


def nees(rotation: Array, position: Array, truth: Estimate, row: int, covariance: Array) -> float:
    """e' P^-1 e of one pose; rotations exp(w) R as in `Marginals`."""
    turn = rotation @ truth.rotation[row].T
    w = matrix_to_angle(turn)[None] if len(turn) == 2 else matrix_to_rotvec(turn)
    error = np.concatenate([position - truth.translation[row], w])
    return float(error @ np.linalg.solve(covariance, error))


@cache
def _cells(steps: int, dimension: int) -> tuple[Array, Array]:
    """True rotations and positions of both robots, step by step: two curved paths."""
    t = np.arange(steps)[:, None] * np.array([[0.10, 0.11]])
    position = np.stack([
        6 * np.sin(t) + [0, 2], 6 * np.sin(0.7 * t) * np.cos(0.4 * t) + [0, 3],
        2 * np.sin(0.5 * t) + [0, 1]], axis=-1)
    heading = np.cumsum(0.1 * np.cos(0.3 * t), axis=0)
    if dimension == 2:
        return synthetic.rotations(heading.ravel()), position[..., :2].reshape(-1, 2)
    turns = np.stack([0.3 * np.sin(t), 0.3 * np.cos(0.6 * t), heading], axis=-1)
    return synthetic.rotations(turns.reshape(-1, 3)), position.reshape(-1, 3)


def world(case: Case, seed: int) -> Graph:
    """Two robots on curves; poses alternate between them, vertices are the truth."""
    random, d = np.random.default_rng(seed), case.dimension
    n = POSES[-1]
    rotation, position = _cells(n // 2, d)
    first = np.arange(n - 2)
    # Every tenth pose has seen one of the other robot's or an older one of its own.
    if case.beacons:
        i, j = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    else:
        j = np.arange(9, n, 5)
        i = random.integers(0, j - 2)
    i, j = np.concatenate([first, i]), np.concatenate([first + 2, j])
    k = len(i)
    turn = SIGMA_RAD * random.normal(size=k if d == 2 else (k, 3))
    relative = synthetic.noisy_edges(
        i, j, rotation, position, turn, SIGMA_M * random.normal(size=(k, d)),
        synthetic.kappa_of(SIGMA_RAD, d), SIGMA_M**-2.0, np.arange(k) < len(first))
    beacons = np.array([
        [9, 8, 3], [-9, 7, -3], [8, -8, -2], [-7, -9, 4], [0, 10, 5], [0, -9, -5.0]])[:, :d]
    beacons = beacons[:len(beacons) * case.beacons]
    count = len(beacons)
    source = np.repeat(np.arange(n), max(count, 1))
    target = ~np.tile(np.arange(count), n) if count else np.arange(n) ^ 1
    kept = random.random(len(source)) < (0.5 if count else 1.0)
    kept &= (target < 0) | (source < target)
    source, target = source[kept], target[kept]
    distance = synthetic.distances(position, beacons, source, target)
    distance = np.abs(distance + RANGE_SIGMA_M * random.normal(size=len(source)))
    blocked = random.random(len(source)) < case.outliers
    distance = distance + blocked * random.uniform(*OUTLIER_M, size=len(source))
    poses = Poses(
        np.arange(n) % 2, np.arange(n) // 2, 10**8 * (1 + np.arange(n)), rotation, position)
    return empty_graph(d).replaced(
        robots=('A', 'B'), poses=poses, relative_poses=relative,
        ranges=synthetic.plain_ranges(d, source, target, distance, RANGE_SIGMA_M**-2.0),
        landmarks=synthetic.marks(beacons, np.ones(count, dtype=bool))).validate()


if __name__ == '__main__':
    run_main(main)
