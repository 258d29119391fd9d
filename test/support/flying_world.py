"""Robots that fly among beacons and say where up is and how high they are."""

import numpy as np

from sparser_ros.graph import Estimate, Graph
from sparser_ros.linalg.rotations import rotvec_to_matrix


def flying_graph(
    seed=0, robots=2, steps=12, beacons=3, *, noise=1.0, verticals=True, heights=True,
    known=False, kappa_sigma=0.01,
):
    """(graph, truth): odometry, ranges to beacons and among robots, verticals and heights."""
    rng = np.random.default_rng(seed)
    builder = Graph.builder(3)
    tracks = []
    for robot in range(robots):
        # True rotations (n, 3, 3), with some roll and pitch, and translations (n, 3).
        start, yaw = rng.uniform([-5, -5, 0], [5, 5, 8]), rng.uniform(-3, 3)
        own = np.random.default_rng(seed + 10 * robot)
        heading = yaw + np.cumsum(0.3 * own.normal(size=steps))
        turn = rotvec_to_matrix(np.stack([0 * heading, 0 * heading, heading], axis=1))
        rotation = turn @ rotvec_to_matrix(0.1 * own.normal(size=(steps, 3)) * [1, 1, 0])
        move = rotation[:-1] @ np.array([1.0, 0.0, 0.0])
        move[:, 2] += 0.5 * own.normal(size=steps - 1)
        tracks.append((rotation, start + np.vstack([np.zeros(3), np.cumsum(move, axis=0)])))
    marks = rng.uniform(-10, 10, (beacons, 3)) * np.array([1, 1, 0.3])
    lever = np.array([0.1, 0.0, 0.2])
    names = 'AB' if robots == 2 else 'ABCDEFG'[:robots]
    for name, (rotation, translation) in zip(names, tracks, strict=True):
        step = np.einsum('kji,kj->ki', rotation[:-1], np.diff(translation, axis=0))
        turn = np.swapaxes(rotation[:-1], 1, 2) @ rotation[1:]
        turn = turn @ rotvec_to_matrix(noise * kappa_sigma * rng.normal(size=(steps - 1, 3)))
        builder.add_odometry(
            name, step + noise * 0.02 * rng.normal(size=step.shape), turn, sigma_m=0.02,
            sigma_rad=kappa_sigma)
    for robot, (rotation, translation) in enumerate(tracks):
        rows = np.arange(steps)
        antenna = translation + rotation @ lever
        for k, mark in enumerate(marks):
            distance = np.linalg.norm(antenna - mark, axis=1) + noise * 0.05 * rng.normal(
                size=steps)
            builder.add_range(
                (names[robot], rows), f'L{k}', distance, sigma_m=0.05, lever_source=lever)
        for other in range(robot):
            there = tracks[other][1] + tracks[other][0] @ lever
            distance = np.linalg.norm(antenna - there, axis=1)
            builder.add_range(
                (names[robot], rows), (names[other], rows), distance, sigma_m=0.05,
                lever_source=lever, lever_target=lever)
        if verticals:
            error = rotvec_to_matrix(noise * 0.01 * rng.normal(size=(steps, 3)))
            builder.add_vertical(
                (names[robot], rows), (error @ np.swapaxes(rotation, 1, 2))[:, :, 2],
                sigma_rad=0.01)
        if heights:
            low = translation + rotation @ np.array([0.0, 0.0, -0.1])
            builder.add_height(
                (names[robot], rows), low[:, 2] + noise * 0.1 * rng.normal(size=steps),
                sigma_m=0.1, lever=[0.0, 0.0, -0.1])
    if heights and beacons:
        builder.add_height('L0', marks[0, 2], sigma_m=0.1)
    if known:
        for k, mark in enumerate(marks):
            builder.add_prior(f'L{k}', mark)
    graph = builder.build()
    truth = Estimate(
        np.concatenate([r for r, _ in tracks]), np.concatenate([t for _, t in tracks]),
        marks.copy())
    return graph, truth
