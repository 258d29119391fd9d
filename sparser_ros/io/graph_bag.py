"""A graph as a bag: messages from which the node rebuilds the graph.

The node must make every odometry message a pose, read `pose.covariance` as the covariance of the
increment since the previous message, and attach a range to the pose nearest in time; the
parameters of `graph_config.py` set this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..array_types import Index, Mask
from ..config import GraphError
from ..graph import Graph
from ..graph.precision import rotation_variance, translation_variance
from .chain import compose
from .graph_config import RadioNames
from .graph_stamps import pose_stamps, range_stamps
from .sensor_bag import UNKNOWN_HEADING_VARIANCE, SensorBagWriter, isotropic
from .tum import quats, safe_name, xyz


@dataclass
class BagReport:
    """Counts of the messages written, and the measurements that a bag cannot hold."""

    odometry: int = 0
    ranges: int = 0
    closures: int = 0
    fixes: int = 0
    sightings: int = 0
    sightings_left_out: int = 0
    """Those of other robots: messages are about landmarks."""
    ranges_ambiguous: list[int] = field(default_factory=list)
    """Rows of ranges for which no stamp is nearest to both poses."""
    ranges_merged: list[int] = field(default_factory=list)
    """Rows of ranges that the front-end will merge with another range of the same radios."""


def write(
    path: Path | str, graph: Graph, *, storage: str | None = None, overwrite: bool = False
) -> BagReport:
    """Write the messages of a graph; GraphError where odometry does not join all poses."""
    stamp_ns = pose_stamps(graph)
    odometry = _odometry(graph)
    radios = RadioNames(graph)
    times = range_stamps(graph, stamp_ns)
    report = BagReport(
        sightings_left_out=int(np.sum(graph.sightings.point >= 0)),
        ranges_ambiguous=np.flatnonzero(times.wrong_pose).tolist(),
        ranges_merged=np.flatnonzero(times.merged).tolist())
    with SensorBagWriter(path, storage, overwrite=overwrite) as bag:
        report.odometry = _write_odometry(bag, graph, odometry, stamp_ns)
        report.ranges = _write_ranges(bag, graph, radios, times.stamp_ns)
        report.closures = _write_closures(bag, graph, odometry, stamp_ns)
        report.sightings = _write_sightings(bag, graph, stamp_ns)
        report.fixes = _write_fixes(bag, graph, stamp_ns)
    return report


# -- odometry --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Odometry:
    """The graph's odometry in the order of robots and poses."""

    order: Index
    """(n,): poses, robot by robot, in order."""
    start: Mask
    """(n,): true at the first pose of each robot."""
    edge: Index
    """(n,): relative pose that leads to the pose; -1 at the first of each robot."""


def _odometry(graph: Graph) -> _Odometry:
    """One edge from each pose to the next; GraphError where there is none."""
    poses, table = graph.poses, graph.relative_poses
    order = np.lexsort((poses.index, poses.robot))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    start = np.diff(poses.robot[order], prepend=-1) != 0
    edge = np.full(len(order), -1)
    rows = np.flatnonzero(table.odometry & (place[table.j] == place[table.i] + 1))
    edge[place[table.j[rows[::-1]]]] = rows[::-1]
    edge[start] = -1
    missing = (edge < 0) & ~start
    if np.any(missing):
        k = int(np.argmax(missing))
        raise GraphError(
            f'no odometry between {graph.endpoint_name(int(order[k - 1]))} and '
            f'{graph.endpoint_name(int(order[k]))}: a bag needs it between all poses of a robot')
    return _Odometry(order, start, edge)


def _write_odometry(
    bag: SensorBagWriter, graph: Graph, odometry: _Odometry, stamp_ns: Index
) -> int:
    """Composed odometry poses with the covariance of the step that leads to them."""
    table, d = graph.relative_poses, graph.dimension
    n = len(odometry.order)
    steps, moves = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
    move, turn = np.zeros(n), np.zeros(n)
    on = ~odometry.start
    edge = odometry.edge[on]
    steps[on], moves[on] = table.rotation[edge], table.translation[edge]
    move[on], turn[on] = translation_variance(table.tau[edge]), rotation_variance(
        table.kappa[edge], d)
    rotation, translation = compose(steps, moves, odometry.start)
    quat = quats(rotation)
    names = [safe_name(robot) for robot in graph.robots]
    for k, pose in enumerate(odometry.order.tolist()):
        bag.odometry(
            names[graph.poses.robot[pose]], int(stamp_ns[pose]), xyz(translation[k]), quat[k],
            isotropic(move[k], turn[k]))
    return len(odometry.order)


# -- measurements ----------------------------------------------------------------------------


def _write_ranges(bag: SensorBagWriter, graph: Graph, radios: RadioNames, stamp_ns: Index) -> int:
    ranges = graph.ranges
    variance = 1 / ranges.precision
    for k in np.argsort(stamp_ns, kind='stable').tolist():
        bag.uwb_range(
            radios.name(int(ranges.source[k]), ranges.lever_source[k]),
            radios.name(int(ranges.target[k]), ranges.lever_target[k]),
            int(stamp_ns[k]), float(ranges.distance_m[k]), float(variance[k]))
    return len(ranges)


def _write_closures(
    bag: SensorBagWriter, graph: Graph, odometry: _Odometry, stamp_ns: Index
) -> int:
    """Every relative pose that odometry messages do not carry."""
    table, d = graph.relative_poses, graph.dimension
    rows = np.setdiff1d(np.arange(len(table)), odometry.edge)
    names = [safe_name(robot) for robot in graph.robots]
    quat = quats(table.rotation)
    move, turn = translation_variance(table.tau), rotation_variance(table.kappa, d)
    for k in rows.tolist():
        i, j = int(table.i[k]), int(table.j[k])
        bag.loop_closure(
            names[graph.poses.robot[i]], int(stamp_ns[i]),
            names[graph.poses.robot[j]], int(stamp_ns[j]),
            xyz(table.translation[k]), quat[k], isotropic(move[k], turn[k]), 'graph')
    return len(rows)


def _write_sightings(bag: SensorBagWriter, graph: Graph, stamp_ns: Index) -> int:
    """Sightings of landmarks, at the stamps of the poses that see them."""
    table = graph.sightings.take(graph.sightings.point < 0)
    variance = translation_variance(table.tau)
    where = xyz(table.translation)
    for k in np.argsort(stamp_ns[table.i], kind='stable').tolist():
        i = int(table.i[k])
        bag.landmark_sighting(
            graph.robots[graph.poses.robot[i]], graph.landmarks.names[~int(table.point[k])],
            int(stamp_ns[i]), where[k], np.eye(3) * variance[k])
    return len(table)


def _write_fixes(bag: SensorBagWriter, graph: Graph, stamp_ns: Index) -> int:
    """Pose priors and position priors of poses; those of beacons are configuration."""
    names = [safe_name(robot) for robot in graph.robots]
    priors, d = graph.pose_priors, graph.dimension
    quat = quats(priors.rotation)
    for k, i in enumerate(priors.i.tolist()):
        turn = float(rotation_variance(priors.kappa[k], d)) if priors.kappa[k] > 0 else \
            UNKNOWN_HEADING_VARIANCE
        bag.fix(names[graph.poses.robot[i]], int(stamp_ns[i]), xyz(priors.translation[k]),
                quat[k], isotropic(1 / priors.tau[k], turn))
    points = graph.point_priors.take(graph.point_priors.point >= 0)
    for k, i in enumerate(points.point.tolist()):
        bag.fix(names[graph.poses.robot[i]], int(stamp_ns[i]), xyz(points.position[k]),
                np.array([0.0, 0.0, 0.0, 1.0]),
                isotropic(1 / points.precision[k], UNKNOWN_HEADING_VARIANCE))
    return len(priors) + len(points)
