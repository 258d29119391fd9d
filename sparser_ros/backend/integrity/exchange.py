"""Radios of two robots, or of two known beacons, under each other's name.

Ranges of such a beacon belong to the other's place, those of a robot to the other's path. A range
is measured at an antenna that the path carries along. Between two keyframes odometry says
where the robot was: the range goes to the keyframe before its stamp, with the way since then as
part of its lever arm, as the front-end does with ranges of the robot's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...array_types import Array, Index
from ...graph import Graph
from ...graph.ends import owners, stamps_of
from ...graph.finding import Finding

EXCHANGED, BEACONS_EXCHANGED = 'radios_swapped', 'beacons_swapped'
"""Kinds of findings."""
Pair = tuple[str, str]
"""Two robots, or two beacons, in ascending order."""
_FARTHEST = 2.0
"""Steps of odometry after the newest keyframe of a robot for which its motion is taken to go on."""


def exchanged(graph: Graph, pairs: Sequence[Pair]) -> Graph:
    """A graph in which ranges of either robot or beacon of each pair are the other's; rows stay."""
    ranges, stamps = graph.ranges, stamps_of(graph, graph.ranges)
    marks = np.arange(graph.n_landmarks)
    for pair in pairs:
        if set(pair) <= set(graph.landmarks.names):
            numbers = [graph.landmarks.names.index(name) for name in pair]
            marks[numbers] = numbers[::-1]
    paths = {name: _Path(graph, graph.robots.index(name))
             for pair in pairs for name in pair if name in graph.robots}
    bearers = [(paths[label].robot, paths[bearer]) for pair in pairs for label, bearer in (
        pair, pair[::-1]) if label in paths and bearer in paths and len(paths[bearer])]
    columns: dict[str, Array] = {}
    for end, lever in (('source', 'lever_source'), ('target', 'lever_target')):
        endpoint, arm = getattr(ranges, end).copy(), getattr(ranges, lever).copy()
        owner = owners(graph, endpoint)
        beacon = endpoint < 0
        endpoint[beacon] = ~marks[~endpoint[beacon]]
        for robot, path in bearers:
            own = np.flatnonzero(owner == robot)
            endpoint[own] = path.before(stamps[own])
            arm[own] = path.antenna(endpoint[own], stamps[own])
        columns |= {end: endpoint, lever: arm}
    return graph.replaced(ranges=ranges.replaced(**columns))


class _Path:
    """The path of one robot as its odometry has it."""

    def __init__(self, graph: Graph, robot: int) -> None:
        self._graph, self.robot = graph, robot
        self._rows = np.flatnonzero(graph.poses.robot == robot)
        self._stamps = graph.poses.stamp_ns[self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def before(self, stamps: Index) -> Index:
        """(k,): keyframes at or before stamps, as rows of the graph; the first one earlier."""
        return self._rows[np.maximum(np.searchsorted(self._stamps, stamps, 'right') - 1, 0)]

    def antenna(self, rows: Index, stamps: Index) -> Array:
        """(k, d): the robot's antenna at stamps in the frames of keyframes `rows`."""
        turn, move = self._motion(rows, stamps)
        return np.asarray(move + turn @ self._mount)

    @cached_property
    def _mount(self) -> Array:
        """(d,): the antenna in the robot's own frame, by the ranges that bear its name."""
        graph, ranges, mounts = self._graph, self._graph.ranges, []
        stamps = stamps_of(graph, ranges)
        for end, lever in ((ranges.source, ranges.lever_source),
                           (ranges.target, ranges.lever_target)):
            own = np.flatnonzero(owners(graph, end) == self.robot)
            turn, move = self._motion(end[own], stamps[own])
            mounts.append(np.einsum('kji,kj->ki', turn, lever[own] - move))
        arms = np.concatenate(mounts)
        return np.median(arms, axis=0) if len(arms) else np.zeros(graph.dimension)

    def _motion(self, rows: Index, stamps: Index) -> tuple[Array, Array]:
        """(k, d, d), (k, d): rotation and translation from keyframes to where odometry has the
        robot at stamps: between two keyframes on a straight line, with the attitude of the nearer
        one."""
        poses, known = self._graph.poses, self._rows
        if len(known) < 2:
            d = self._graph.dimension
            return np.tile(np.eye(d), (len(rows), 1, 1)), np.zeros((len(rows), d))
        first = np.clip(np.searchsorted(self._stamps, stamps, 'right') - 1, 0, len(known) - 2)
        begin, end = known[first], known[first + 1]
        step = np.maximum(self._stamps[first + 1] - self._stamps[first], 1)
        share = np.clip((stamps - self._stamps[first]) / step, 0.0, _FARTHEST)[:, None]
        place = poses.translation[begin] * (1 - share) + poses.translation[end] * share
        nearer = np.where(share[:, 0] < 0.5, begin, end)
        back = np.swapaxes(poses.rotation[rows], 1, 2)
        return (np.asarray(back @ poses.rotation[nearer]),
                np.einsum('kij,kj->ki', back, place - poses.translation[rows]))


def exchange_finding(pair: Pair, *, robots: bool) -> Finding:
    """What an operator reads."""
    first, second = pair
    if robots:
        return Finding(
            EXCHANGED, f'{first} and {second}',
            f'ranges of radios {first} and {second} fit better when swapped: they are taken for '
            f"each other's; exchange the robots of these radios in the configuration")
    return Finding(
        BEACONS_EXCHANGED, f'{first} and {second}',
        f'ranges of beacons {first} and {second} fit better when swapped: they are taken for each '
        "other's; exchange the names of these beacons in the configuration")
