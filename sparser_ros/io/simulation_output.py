"""A simulated run as a bag, as a graph and as the parameters that fit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Index
from ..graph import Graph, Landmarks, Poses, Ranges, RelativePoses, empty_graph
from ..graph.precision import kappa_from_covariance
from .sensor_bag import SensorBagWriter, isotropic
from .simulation import CLOSURE_SIGMA_M, CLOSURE_SIGMA_RAD, Simulation
from .tum import quats, xyz


def write_bag(
    path: Path | str, run: Simulation, *, storage: str | None = None, overwrite: bool = False
) -> dict[str, int]:
    """Write odometry, ranges, closures and ground truth; returns messages per kind."""
    with SensorBagWriter(path, storage, overwrite=overwrite) as bag:
        counts = {'odometry': 0, 'ground truth': 0}
        for robot, track in zip(run.robots, run.tracks, strict=True):
            position, quat = xyz(track.translation), quats(track.rotation)
            for k, stamp in enumerate(track.stamp_ns.tolist()):
                bag.odometry(robot, stamp, position[k], quat[k], isotropic(
                    track.translation_variance[k], track.rotation_variance[k]))
            counts['odometry'] += len(track.stamp_ns)
            counts['ground truth'] += _write_truth(bag, run, robot)
        names = [*run.robots, *run.beacon_names]
        table = run.exchanges
        for k, stamp in enumerate(table.stamp_ns.tolist()):
            bag.uwb_range(names[table.source[k]], names[table.target[k]], stamp,
                          float(table.range_m[k]), float(table.variance[k]))
        closures = run.closures
        position, quat = xyz(closures.translation), quats(closures.rotation)
        noise = isotropic(CLOSURE_SIGMA_M**2, CLOSURE_SIGMA_RAD**2)
        for k in range(len(closures.from_row)):
            one, other = int(closures.from_robot[k]), int(closures.to_robot[k])
            bag.loop_closure(
                run.robots[one], int(run.tracks[one].stamp_ns[closures.from_row[k]]),
                run.robots[other], int(run.tracks[other].stamp_ns[closures.to_row[k]]),
                position[k], quat[k], noise, 'simulation')
    return counts | {'ranges': len(table.stamp_ns), 'loop closures': len(closures.from_row)}


def _write_truth(bag: SensorBagWriter, run: Simulation, robot: str) -> int:
    if run.config.truth_rate <= 0:
        return 0
    track = run.tracks[run.robots.index(robot)]
    step = max(1, round(run.config.odometry_rate / run.config.truth_rate))
    rows = np.arange(0, len(track.stamp_ns), step)
    position, quat = xyz(track.true_translation[rows]), quats(track.true_rotation[rows])
    for k, row in enumerate(rows.tolist()):
        bag.ground_truth(robot, int(track.stamp_ns[row]), position[k], quat[k])
    return len(rows)


def graph_of(run: Simulation) -> Graph:
    """The graph with one pose per odometry message and the truth in its vertices.

    Ranges attach to the pose nearest in time, antennas as they are mounted; the way between the
    two instants, at most half an odometry period, is neglected.
    """
    tracks, d = run.tracks, run.config.dimension
    first = np.cumsum([0, *(len(t.stamp_ns) for t in tracks)])
    robot = np.concatenate([np.full(len(t.stamp_ns), k) for k, t in enumerate(tracks)])
    poses = Poses(
        robot, np.arange(first[-1]) - first[robot],
        np.concatenate([t.stamp_ns for t in tracks]),
        np.concatenate([t.true_rotation for t in tracks]),
        np.concatenate([t.true_translation for t in tracks]))
    landmarks = Landmarks(
        run.beacon_names, run.beacons, np.arange(len(run.beacons)) < run.config.known_beacons)
    return empty_graph(d, run.robots).replaced(
        poses=poses, landmarks=landmarks, name='simulation',
        relative_poses=_odometry(run, first).append(_closures(run, first)),
        ranges=_ranges(run, first))


def _odometry(run: Simulation, first: Index) -> RelativePoses:
    keep = np.concatenate([np.arange(len(t.stamp_ns)) > 0 for t in run.tracks])
    rows = np.flatnonzero(keep)

    def joined(name: str) -> Any:
        return np.concatenate([getattr(t, name) for t in run.tracks])[rows]

    return RelativePoses(
        rows - 1, rows, joined('step_rotation'), joined('step_translation'),
        _kappa(joined('rotation_variance'), run.config.dimension),
        1 / joined('translation_variance'), np.ones(len(rows), dtype=bool), joined('stamp_ns'))


def _closures(run: Simulation, first: Index) -> RelativePoses:
    table = run.closures
    i, j = first[table.from_robot] + table.from_row, first[table.to_robot] + table.to_row
    count = len(i)
    stamp = np.concatenate([t.stamp_ns for t in run.tracks])
    return RelativePoses(
        i, j, table.rotation, table.translation,
        _kappa(np.full(count, CLOSURE_SIGMA_RAD**2), run.config.dimension),
        np.full(count, CLOSURE_SIGMA_M**-2), np.zeros(count, dtype=bool),
        np.maximum(stamp[i], stamp[j]))


def _ranges(run: Simulation, first: Index) -> Ranges:
    table, robots = run.exchanges, len(run.robots)

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
    if run.config.outliers > 0:
        config['solver'] = {'robust': {'kernel': 'gm', 'gnc': True}}
    if run.config.truth_rate > 0:
        config['backend'] = {
            'truth_topics': {robot: f'/{robot}/ground_truth' for robot in run.robots}}
    return config
