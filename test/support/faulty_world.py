"""Graphs of a small world with one fault in them, and their robust solutions."""

from dataclasses import replace

import numpy as np
from backend_world import ROBUST, World, graph_of, longer

from sparser_ros.backend.integrity.examine import examine
from sparser_ros.config.backend_config import IntegrityConfig
from sparser_ros.graph import range_vectors
from sparser_ros.solver import solve

CENTRES = {2: [(-8, 0), (8, 3), (0, 9)], 3: [(-8, 0, 0), (8, 3, 1), (0, 9, -1)]}
BEACONS = {
    2: [(30, 0), (9, 28), (-24, 17), (-23, -18), (10, -27), (-3, 4)],
    3: [(30, 0, 4), (9, 28, -5), (-24, 17, 6), (-23, -18, -4), (10, -27, 5), (-3, 4, 15)],
}


def world(seed=0, dimension=2, known=(), steps=240):
    """Three robots that curve among six beacons for two minutes."""
    return World(['curved'] * 3, CENTRES[dimension], BEACONS[dimension], steps, seed,
                 range_sigma=0.1, dimension=dimension, known=known)


def graph(place, seed=0, share=0.03):
    """The graph of a world, with honest variances, stamps and a share of false long ranges."""
    made = graph_of(place.increments(1, every=2), place.dimension)
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
            (end >= 0) & (made.poses.robot[np.maximum(end, 0)] == number), error_m)
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
    count = len(made.robots)

    def renamed(end):
        robot = end % count
        new = np.where(robot == one, other, np.where(robot == other, one, robot))
        return np.where(end >= 0, end - robot + new, end)

    ranges = made.ranges
    return made.replaced(ranges=ranges.replaced(
        source=renamed(ranges.source), target=renamed(ranges.target)))


def odometry_scaled(made, robot, factor):
    """The odometry of one robot (number) is too long."""
    rel, poses = made.relative_poses, made.poses
    edge, pose = (poses.robot[rel.i] == robot)[:, None], (poses.robot == robot)[:, None]
    return made.replaced(
        relative_poses=rel.replaced(
            translation=np.where(edge, factor, 1.0) * rel.translation),
        poses=poses.replaced(translation=np.where(pose, factor, 1.0) * poses.translation))
