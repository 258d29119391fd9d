"""Graphs of a small world with one fault in them or with radios as they are; robust solutions."""

from dataclasses import replace

import numpy as np
from backend_world import ROBUST, World, longer

from benchmark.calibration import RadioWorld
from sparser_ros.backend.integrity.examine import examine
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import range_vectors
from sparser_ros.graph.ends import range_ends
from sparser_ros.solver import solve

CENTRES = {2: [(-8, 0), (8, 3), (0, 9)], 3: [(-8, 0, 0), (8, 3, 1), (0, 9, -1)]}
BEACONS = {
    2: [(30, 0), (9, 28), (-24, 17), (-23, -18), (10, -27), (-3, 4)],
    3: [(30, 0, 4), (9, 28, -5), (-24, 17, 6), (-23, -18, -4), (10, -27, 5), (-3, 4, 15)],
}


def world(seed=0, dimension=2, known=(), steps=240, robots=3):
    """Three robots that curve among six beacons for two minutes."""
    return World(['curved'] * robots, CENTRES[dimension][:robots], BEACONS[dimension], steps, seed,
                 range_sigma=0.1, dimension=dimension, known=known)


def graph(place, seed=0, share=0.03):
    """The graph of a world, with honest variances, stamps and a share of false long ranges."""
    made = place.graph(1, every=2)
    rng = np.random.default_rng(1000 + seed)
    ranges, rel = made.ranges, made.relative_poses
    long = np.where(rng.random(len(ranges)) < share, rng.exponential(8.0, len(ranges)), 0.0)
    # The world's odometry is twice as good as it claims; kappa of space is of a variance of half.
    turns = 4 if place.dimension == 2 else 2
    return made.replaced(
        ranges=ranges.replaced(
            stamp_ns=made.poses.stamp_ns[ranges.source], distance_m=ranges.distance_m + long),
        relative_poses=rel.replaced(tau=4 * rel.tau, kappa=turns * rel.kappa))


def solved(made, truth):
    """(estimate, weights) of a robust solve that starts near the truth, in the truth's frame."""
    result = solve(made, ROBUST, initial=truth)
    assert result.estimate is not None
    return result.estimate, dict(result.stats.weights or {})


def examined(made, truth):
    """What the monitors say of a graph and its robust solution."""
    return examine(made, *solved(made, truth), IntegrityConfig())


def antenna_elsewhere(made, name, error_m):
    """The configured lever arm of a robot lacks `error_m` (d,), in its own frame."""
    number, ranges = made.robots.index(name), made.ranges
    levers = {
        lever: getattr(ranges, lever) - np.outer(
            (end >= 0) & (end % len(made.robots) == number), error_m)
        for lever, end in (('lever_source', ranges.source), ('lever_target', ranges.target))}
    return made.replaced(ranges=ranges.replaced(**levers))


def beacon_moved(data, truth, number, way, rows):
    """Data whose ranges `rows` are as they would be if a beacon (number) stood elsewhere."""
    there = truth.landmarks + np.outer(np.arange(len(truth.landmarks)) == number, way)
    before, after = (np.linalg.norm(range_vectors(data, replace(truth, landmarks=places)), axis=1)
                     for places in (truth.landmarks, there))
    return longer(data, np.where(rows, after - before, 0.0))


def robots_exchanged(made, one, other):
    """The radios of two robots (numbers) bear each other's name."""
    ranges, count = made.ranges, len(made.robots)
    names = np.arange(count)
    names[[one, other]] = other, one
    source, target = (np.where(end >= 0, end - end % count + names[end % count], end)
                      for end in (ranges.source, ranges.target))
    return made.replaced(ranges=ranges.replaced(source=source, target=target))


def odometry_claiming(made, robot, times):
    """The odometry of one robot (number) claims so many times its noise."""
    rel = made.relative_poses
    square = np.where(rel.j % len(made.robots) == robot, times**2, 1.0)
    return made.replaced(relative_poses=rel.replaced(
        tau=rel.tau / square, kappa=rel.kappa / square))


def odometry_scaled(made, robot, factor):
    """The odometry of one robot (number) is too long."""
    rel, poses = made.relative_poses, made.poses
    edge, pose = (poses.robot[rel.i] == robot)[:, None], (poses.robot == robot)[:, None]
    return made.replaced(
        relative_poses=rel.replaced(
            translation=np.where(edge, factor, 1.0) * rel.translation),
        poses=poses.replaced(translation=np.where(pose, factor, 1.0) * poses.translation))


def radio_world(seed, known=(), scaled=False, dimension=2, steps=240, sigma_factor=None,
                biased=True, blocked=0.1):
    """Three robots among six beacons for two minutes.

    Biases 0 to 0.6 m per radio, scale 0.99 to 1.01, claimed sigma wrong by a factor of 0.2 to 5,
    10 % of the ranges in bursts of 5 s per pair that are 0.3 to 3 m too long.
    """
    place = world(seed, dimension, known, steps)
    clean = graph(place, seed, share=0.0)
    rng = np.random.default_rng(500 + seed)
    ends = range_ends(clean)
    bias = rng.uniform(0, 0.6, len(ends.names)) * biased
    scale = float(rng.uniform(0.99, 1.01)) if scaled else 1.0
    factor = float(5 ** rng.uniform(-1, 1)) if sigma_factor is None else sigma_factor
    ranges = clean.ranges
    _, _, pair = ends.pairs
    window = (ends.seconds // 5.0).astype(int)
    late = rng.random((pair.max() + 1, window.max() + 1)) < blocked
    late = np.where(late, rng.uniform(0.3, 3.0, late.shape), 0.0)[pair, window]
    # alpha d - b_i - b_j is the corrected range.
    true = ranges.distance_m + late
    measured = (true + bias[ends.first] + bias[ends.second]) / scale
    return RadioWorld(
        clean.replaced(ranges=ranges.replaced(
            distance_m=measured, precision=ranges.precision / factor**2)),
        clean.replaced(ranges=ranges.replaced(distance_m=true)),
        place.truth, bias, scale)
