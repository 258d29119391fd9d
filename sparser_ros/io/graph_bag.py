"""A graph as a bag: messages and parameters from which the node rebuilds the graph.

The node must make every odometry message a pose, read `pose.covariance` as the covariance of the
increment since the previous message, and attach a range to the pose nearest in time, of either
robot; `node_config` sets this. So a range needs a stamp that lies in the cell of both its poses:
between the midpoints towards the poses before and after.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import GraphError
from ..graph import Graph
from ..graph.ends import range_ends
from ..graph.precision import rotation_variance, translation_variance
from .bag import UNKNOWN_HEADING_VARIANCE, SensorBagWriter, isotropic
from .chain import compose
from .stamp_text import SECOND
from .tum import quats, xyz

MOST_ANTENNAS = 16
"""Distinct lever arms of a robot above which its graph was made from keyframes, not antennas."""
LIMIT_SHARE, LEAST_LIMIT_M = 0.01, 1.0
"""Alert limit of a graph file: a share of the extent of its positions, and at least so much."""
FILE_PAUSE_S = 600.0
"""Pause (s) of a robot's odometry across which its measurements wait for the next pose."""
SYNTHETIC_STEP_NS = SECOND // 10
REPEATED_STEP_NS = SECOND // 10_000
MOST_POSES = 10**9
"""Numbers of poses beyond this are stamps or keys, which 64 bits could not hold at 10 Hz."""
MOST_REPEATED = 0.05
"""Share of repeated stamps above which a file counts as one without times."""
APART_NS = 1000
"""Measurements of one kind and the same ends at one instant would count as one: they are moved so
far apart."""
END_NS = 2**31 * SECOND
"""First stamp whose seconds do not fit into a message."""
At = Callable[[int], tuple[str, int]]
"""Robot and stamp of a pose (its row), as the bag has them."""
UNBOUNDED_NS = 2**62
"""Bound of a stamp that nothing bounds; sums of two still fit into 64 bits."""


@dataclass
class BagReport:
    """Counts of the messages written, and the measurements that a bag cannot hold."""

    odometry: int = 0
    ranges: int = 0
    closures: int = 0
    fixes: int = 0
    sightings: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Counts of measurements by their names in the plural; sensor topics of a graph lack them."""
    ranges_ambiguous: list[int] = field(default_factory=list)
    """Rows of ranges for which no stamp is nearest to both poses."""


def write(
    path: Path | str, graph: Graph, *, storage: str | None = None, overwrite: bool = False
) -> BagReport:
    """Write the messages of a graph; GraphError where odometry does not join all poses, or there is
    none."""
    if not graph.n_poses:
        raise GraphError('a bag needs robots with odometry, and this graph has no pose')
    stamp_ns = pose_stamps(graph)
    newest = int(np.argmax(stamp_ns))
    if stamp_ns[newest] >= END_NS:
        raise GraphError(
            f'{graph.endpoint_name(newest)}: its stamp of {stamp_ns[newest] // SECOND} s is past '
            f'those of ROS messages, which end at {END_NS // SECOND} s, in 2038: subtract the '
            'same time from all stamps')
    order, edge = _odometry(graph)
    radios = RadioNames(graph)
    range_stamp_ns, wrong_pose = range_stamps(graph, stamp_ns)
    report = BagReport(
        left_out={what: count for what, count in (
            ('sightings of robots', int(np.sum(graph.sightings.point >= 0))),
            ('verticals', len(graph.verticals)), ('heights', len(graph.heights))) if count},
        ranges_ambiguous=np.flatnonzero(wrong_pose).tolist())

    def at(pose: int) -> tuple[str, int]:
        return graph.robots[graph.poses.robot[pose]], int(stamp_ns[pose])

    with SensorBagWriter(path, storage, overwrite=overwrite) as bag:
        report.odometry = _write_odometry(bag, graph, order, edge, at)
        report.ranges = _write_ranges(bag, graph, radios, range_stamp_ns)
        report.closures = _write_closures(bag, graph, edge, at)
        report.sightings = _write_sightings(bag, graph, stamp_ns)
        report.fixes = _write_fixes(bag, graph, at)
    return report


# -- odometry --------------------------------------------------------------------------------


def _odometry(graph: Graph) -> tuple[Index, Index]:
    """(n,): poses, robot by robot, in order; (n,): relative pose that leads to each of them.

    -1 at the first pose of each robot; GraphError where one is missing elsewhere.
    """
    poses, table = graph.poses, graph.relative_poses
    order = poses.order
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
    return order, edge


def _write_odometry(
    bag: SensorBagWriter, graph: Graph, order: Index, edge: Index, at: At
) -> int:
    """Composed odometry poses with the covariance of the step that leads to them."""
    d, n, on = graph.dimension, len(order), edge >= 0
    table = graph.relative_poses.take(edge[on])
    steps, moves = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
    steps[on], moves[on] = table.rotation, table.translation
    move, turn = np.zeros(n), np.zeros(n)
    move[on], turn[on] = translation_variance(table.tau), rotation_variance(table.kappa, d)
    rotation, translation = compose(steps, moves, ~on)
    quat = quats(rotation)
    for k, pose in enumerate(order.tolist()):
        bag.odometry(*at(pose), xyz(translation[k]), quat[k], isotropic(move[k], turn[k]))
    return n


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


def _write_closures(bag: SensorBagWriter, graph: Graph, edge: Index, at: At) -> int:
    """Every relative pose that odometry messages, those of `edge`, do not carry."""
    table, d = graph.relative_poses, graph.dimension
    rows = np.setdiff1d(np.arange(len(table)), edge)
    quat = quats(table.rotation)
    move, turn = translation_variance(table.tau), rotation_variance(table.kappa, d)
    for k, later in zip(rows.tolist(), _later(table.i[rows], table.j[rows]), strict=True):
        robot, stamp = at(table.j[k])
        bag.loop_closure(
            *at(table.i[k]), robot, stamp + later, xyz(table.translation[k]), quat[k],
            isotropic(move[k], turn[k]), 'graph')
    return len(rows)


def _write_sightings(bag: SensorBagWriter, graph: Graph, stamp_ns: Index) -> int:
    """Sightings of landmarks, at the stamps of the poses that see them."""
    table = graph.sightings.take(graph.sightings.point < 0)
    variance = translation_variance(table.tau)
    where = xyz(table.translation)
    stamps = stamp_ns[table.i] + _later(table.i, table.point)
    for k in np.argsort(stamps, kind='stable').tolist():
        i = int(table.i[k])
        bag.landmark_sighting(
            graph.robots[graph.poses.robot[i]], graph.landmarks.names[~int(table.point[k])],
            int(stamps[k]), where[k], np.eye(3) * variance[k])
    return len(table)


def _write_fixes(bag: SensorBagWriter, graph: Graph, at: At) -> int:
    """Pose priors and position priors of poses; those of beacons are configuration."""
    priors, d = graph.pose_priors, graph.dimension
    points = graph.point_priors.take(graph.point_priors.point >= 0)
    quat = quats(priors.rotation)
    later = _later(np.concatenate([priors.i, points.point]))
    for k, i in enumerate(priors.i.tolist()):
        turn = float(rotation_variance(priors.kappa[k], d)) if priors.kappa[k] > 0 else \
            UNKNOWN_HEADING_VARIANCE
        robot, stamp = at(i)
        bag.fix(robot, stamp + later[k], xyz(priors.translation[k]), quat[k],
                isotropic(1 / priors.tau[k], turn))
    for k, i in enumerate(points.point.tolist()):
        robot, stamp = at(i)
        bag.fix(robot, stamp + later[len(priors) + k], xyz(points.position[k]),
                np.array([0.0, 0.0, 0.0, 1.0]),
                isotropic(1 / points.precision[k], UNKNOWN_HEADING_VARIANCE))
    return len(priors) + len(points)


# -- stamps ----------------------------------------------------------------------------------


def pose_stamps(graph: Graph) -> Index:
    """(n,): positive stamps that increase along every robot's poses.

    The graph's own stamps where they increase: a repeated stamp moves by 0.1 ms, and where the
    first is 0, which ROS takes for unknown, all of them move. Otherwise the numbers of the poses
    at 10 Hz, for all robots.
    """
    poses = graph.poses
    if not len(poses):
        return poses.stamp_ns
    order = poses.order
    stamp, robot = poses.stamp_ns[order], poses.robot[order]
    step, same = np.diff(stamp), np.diff(robot) == 0
    repeated = np.count_nonzero(step[same] == 0)
    if np.any(step[same] < 0) or repeated > MOST_REPEATED * np.count_nonzero(same):
        number = poses.index if poses.index.max() < MOST_POSES else np.unique(
            poses.index, return_inverse=True)[1]
        return SECOND + number * SYNTHETIC_STEP_NS
    for number in np.unique(robot):
        rows = robot == number
        stamp[rows] = _increasing(stamp[rows], REPEATED_STEP_NS)
    result = np.empty_like(stamp)
    result[order] = stamp + (SECOND - stamp.min() if stamp.min() <= 0 else 0)
    return result


def _increasing(stamp: Index, least: int) -> Index:
    """Stamps in order, later by as much as keeps them `least` ns apart."""
    ramp = np.arange(len(stamp)) * least
    return np.maximum.accumulate(stamp - ramp) + ramp


def range_stamps(graph: Graph, stamp_ns: Index) -> tuple[Index, Mask]:
    """Stamps of the ranges for given stamps of the poses, and those nearest to no two poses.

    The file's own stamp if both cells hold it, else that of the later pose, of the earlier one,
    or the nearest time in both cells.
    """
    ranges = graph.ranges
    low, high = _cells(graph, stamp_ns)
    ends = []
    first, last = np.full(len(ranges), -UNBOUNDED_NS), np.full(len(ranges), UNBOUNDED_NS)
    for endpoint in (ranges.source, ranges.target):
        pose = endpoint >= 0
        rows = np.maximum(endpoint, 0)
        ends.append(np.where(pose, stamp_ns[rows], 0))
        first = np.maximum(first, np.where(pose, low[rows], -UNBOUNDED_NS))
        last = np.minimum(last, np.where(pose, high[rows], UNBOUNDED_NS))
    later, earlier = np.maximum(*ends), np.minimum(*ends)
    earlier = np.where(earlier == 0, later, earlier)
    shift = stamp_ns[0] - graph.poses.stamp_ns[0] if len(stamp_ns) else 0
    own = ranges.stamp_ns + shift
    stamp = np.clip((later + earlier) // 2, first, np.maximum(first, last))
    for choice in (earlier, later, own):
        inside = (choice >= first) & (choice <= last) & (choice > 0)
        stamp = np.where(inside, choice, stamp)
    wrong = first > last
    stamp = np.where(wrong, later, stamp)
    return _apart(stamp, range_ends(graph).pairs[2]), wrong


def _apart(stamp: Index, ends: Index) -> Index:
    """Stamps, later where rows of the same ends have the same one; `ends` has a number for each."""
    result, order = stamp.copy(), np.lexsort((stamp, ends))
    for rows in np.split(order, np.flatnonzero(np.diff(ends[order])) + 1):
        result[rows] = _increasing(stamp[rows], APART_NS)
    return result


def _later(*ends: Index) -> list[int]:
    """By how many ns measurements with the same ends, in any order, are moved apart."""
    pairs = np.sort(np.stack(ends, axis=1), axis=1)
    number = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return _apart(np.zeros(len(number), dtype=np.int64), number).tolist()


def _cells(graph: Graph, stamp_ns: Index) -> tuple[Index, Index]:
    """First and last stamp that is strictly nearest to each pose among its robot's poses."""
    poses = graph.poses
    order = poses.order
    stamp, robot = stamp_ns[order], poses.robot[order]
    middle = stamp[:-1] + (stamp[1:] - stamp[:-1]) // 2
    same = robot[1:] == robot[:-1]
    low, high = np.full(len(order), -UNBOUNDED_NS), np.full(len(order), UNBOUNDED_NS)
    low[1:][same] = middle[same] + 1
    high[:-1][same] = middle[same] - 1
    result = np.empty_like(low), np.empty_like(high)
    result[0][order], result[1][order] = low, high
    return result


# -- parameters ------------------------------------------------------------------------------


class RadioNames:
    """Radio names of the ends of ranges: robot or beacon, with a number per antenna."""

    def __init__(self, graph: Graph) -> None:
        self.graph, ranges = graph, graph.ranges
        ends = np.concatenate([ranges.source, ranges.target])
        levers = np.concatenate([ranges.lever_source, ranges.lever_target])
        owner = graph.poses.robot[ends[ends >= 0]]
        self.levers: dict[str, list[tuple[float, ...]]] = {robot: [] for robot in graph.robots}
        antennas_of = np.unique(np.column_stack([owner, levers[ends >= 0]]), axis=0)
        for number, *lever in antennas_of.tolist():
            self.levers[graph.robots[int(number)]].append(tuple(lever))
        for robot, antennas in self.levers.items():
            if len(antennas) > MOST_ANTENNAS:
                raise GraphError(
                    f'the ranges of robot {robot} have {len(antennas)} different lever arms; a '
                    f'bag can name at most {MOST_ANTENNAS} antennas of a robot (a graph made '
                    'from keyframes holds odometry in them: use the original one)')
        taken = Counter(graph.landmarks.names)
        for robot, antennas in self.levers.items():
            taken.update({robot, *(self._antenna(robot, k) for k in range(len(antennas)))})
        twice = [name for name, count in taken.items() if count > 1]
        if twice:
            raise GraphError(
                f'{twice[0]}: two radios of the bag would have this name (those of robot A are '
                'called A, or A_0, A_1 ... where it has several antennas): rename the robot or '
                'landmark in the graph')

    def name(self, endpoint: int, lever: Array) -> str:
        """Radio at one end of a range."""
        if endpoint < 0:
            return self.graph.landmarks.names[~endpoint]
        robot = self.graph.robots[self.graph.poses.robot[endpoint]]
        return self._antenna(robot, self.levers[robot].index(tuple(lever.tolist())))

    def _antenna(self, robot: str, number: int) -> str:
        return robot if len(self.levers[robot]) == 1 else f'{robot}_{number}'

    def specs(self) -> dict[str, dict[str, Any]]:
        """The entries of the `radios` parameter: lever arms and known beacons."""
        specs: dict[str, dict[str, Any]] = {}
        for robot, antennas in self.levers.items():
            for number, lever in enumerate(antennas):
                if any(lever) or len(antennas) > 1:
                    specs[self._antenna(robot, number)] = {
                        'robot': robot, 'lever_arm': list(lever)}
        marks, priors = self.graph.landmarks, self.graph.point_priors
        for name in marks.names:
            specs[name] = {'beacon': name}
        for point in np.unique(priors.point[priors.point < 0]):
            # Several places of one beacon are their mean by weight.
            rows = priors.point == point
            weight = priors.precision[rows]
            specs[marks.names[~point]] |= {
                'position': np.average(priors.position[rows], axis=0, weights=weight).tolist(),
                'sigma_m': float(np.sum(weight) ** -0.5)}
        for row in np.flatnonzero(marks.fixed):
            specs[marks.names[row]] |= {'position': marks.position[row].tolist(), 'sigma_m': 0.0}
        return specs


def limit_of(graph: Graph) -> float:
    """Alert limit in metres that suits the size of a graph: 1 m up to 150 m, 10 m for 1 km."""
    places = graph.poses.translation
    extent = float(np.linalg.norm(np.ptp(places, axis=0))) if len(places) else 0.0
    return max(LEAST_LIMIT_M, float(f'{LIMIT_SHARE * extent:.1g}'))


def node_config(graph: Graph) -> dict[str, Any]:
    """Parameters with which the node rebuilds the graph from its bag."""
    reach = float(graph.ranges.distance_m.max(initial=0))
    config: dict[str, Any] = {
        'dimension': graph.dimension,
        'robots': list(graph.robots),
        'radios': RadioNames(graph).specs(),
        'odometry_noise': 'pose_increment',
        'keyframes': {'every_message': True, 'max_count': 0},
        # What a file measures at a pose counts at that pose, however long its robot pauses there.
        'stamps': {'timeout_s': FILE_PAUSE_S},
        'ranges': {'attach': 'nearest', 'max_m': max(300.0, 2 * reach), 'min_m': 0.0,
                   'min_sigma_m': 1e-9, 'merge_window_s': 0.0},
        # The steps and noise of a graph are what they are: nothing is to be judged or bounded.
        'odometry': {'max_speed_m_per_s': math.inf, 'max_turn_rate_rad_per_s': math.inf,
                     'gap_s': 1e6, 'max_extrapolation_s': 60.0, 'min_sigma_m': 1e-9,
                     'min_sigma_rad': 1e-9},
        'closures': {'max_translation_m': 0.0, 'min_sigma_m': 1e-9, 'min_sigma_rad': 1e-9},
        'backend': {'observability': {'alert_limit_m': limit_of(graph)}},
    }
    if graph.dimension == 3:
        # Odometry of files begins at any attitude: its z axis is no vertical.
        config['odometry']['vertical'] = 'free'
    if len(graph.sightings):
        longest = np.linalg.norm(graph.sightings.translation, axis=1).max()
        config['sightings'] = {
            'min_m': 0.0, 'max_m': max(100.0, 2 * float(longest)), 'min_sigma_m': 1e-9,
            'min_interval_s': 0.0, 'max_total_rate_hz': 1e6}
    if len(graph.pose_priors) or np.any(graph.point_priors.point >= 0):
        config['fixes'] = {
            'min_sigma_m': 1e-9, 'min_sigma_rad': 1e-9,
            'topic': '/{robot}/fix', 'lever_arms': _fix_levers(graph),
            'max_heading_sigma_rad': 10.0}
    return config


def _fix_levers(graph: Graph) -> dict[str, list[float]]:
    """The antenna of each robot's position fixes, where it is off the body origin."""
    priors = graph.point_priors.take(graph.point_priors.point >= 0)
    levers: dict[str, list[float]] = {}
    for number, robot in enumerate(graph.robots):
        mine = priors.lever[graph.poses.robot[priors.point] == number]
        if len(np.unique(mine, axis=0)) > 1:
            raise GraphError(
                f'the position fixes of robot {robot} have several lever arms; a bag can hold one')
        if np.any(mine):
            levers[robot] = [*mine[0].tolist(), 0.0][:3]
    return levers
