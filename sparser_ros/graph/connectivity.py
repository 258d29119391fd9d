"""Components of variables that measurements tie together, and variables left without a place."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..array_types import Index
from .finding import Finding
from .graph import Graph, counted

MOST_NAMES = 5
"""Names that one sentence lists."""


def components(graph: Graph) -> Index:
    """(n + m,): number of the connected part of every pose and landmark.

    0 is the part that absolute measurements place in map, or the largest where there are none.

    Absolute measurements and known positions tie variables to the map, and so to each other.
    """
    n, m = graph.n_poses, graph.n_landmarks
    world = n + m
    first, second = graph.pairs(odometry=True)
    absolute = np.concatenate([
        graph.points(graph.absolute_endpoints()), n + np.flatnonzero(graph.landmarks.fixed)])
    rows = np.concatenate([graph.points(first), absolute])
    columns = np.concatenate([graph.points(second), np.full(len(absolute), world)])
    ties = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), (world + 1, world + 1))
    _, labels = connected_components(ties, directed=False)
    sizes = np.bincount(labels[:world], minlength=1 + labels.max())
    if len(absolute):
        sizes[labels[world]] = world + 1
    labels = labels[:world]
    order = np.argsort(-sizes, kind='stable')
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return place[labels]


def undetermined(graph: Graph) -> tuple[Finding, ...]:
    """Variables that no solve can place relative to the others: disconnected, or unmeasured.

    A part without a tie to the rest has an arbitrary place (the cost does not depend on it), and
    a landmark without a measurement as well.
    """
    labels, n = components(graph), graph.n_poses
    poses, marks = labels[:n], labels[n:]
    found = []
    sizes = np.bincount(labels, minlength=1)
    alone = np.flatnonzero((sizes[marks] == 1) & (marks > 0))
    if len(alone):
        names = [graph.landmarks.names[k] for k in alone]
        found.append(Finding(
            'landmark_unmeasured', names[0],
            f'{counted(len(names), "landmark")} without any measurement: {listed(names)}',
            float(len(names))))
    for part in range(1, len(sizes)):
        rows = np.flatnonzero(poses == part)
        inside = [graph.landmarks.names[k] for k in np.flatnonzero(marks == part)]
        if len(rows):
            found.append(_apart(graph, rows, inside))
        elif len(inside) > 1:
            found.append(Finding(
                'disconnected', inside[0],
                f'{counted(len(inside), "landmark")} ({listed(inside)}) are measured among '
                'themselves only'))
    return tuple(found)


def thinly_measured(graph: Graph) -> tuple[Finding, ...]:
    """Landmarks whose ranges are too few for one position: below d + 1 there are several."""
    ranges, n = graph.ranges, graph.n_poses
    ends = np.concatenate([graph.points(ranges.source), graph.points(ranges.target)])
    count = np.bincount(ends, minlength=n + graph.n_landmarks)[n:]
    better = np.concatenate([
        graph.points(getattr(table, column))
        for name, table in graph.tables().items() if name != 'ranges'
        for column in table.endpoints()] or [np.zeros(0, dtype=np.int64)])
    placed = np.bincount(better, minlength=n + graph.n_landmarks)[n:] > 0
    few = (count > 0) & (count <= graph.dimension) & ~placed & ~graph.landmarks.fixed
    return tuple(
        Finding('landmark_ambiguous', graph.landmarks.names[k],
                f'landmark {graph.landmarks.names[k]} has {counted(int(count[k]), "range")}: '
                f'{graph.dimension + 1} at least give one position', float(count[k]))
        for k in np.flatnonzero(few))


def _apart(graph: Graph, rows: Index, landmarks: list[str]) -> Finding:
    """The sentence on a part of the graph that has poses."""
    robots = graph.poses.robot[rows]
    names = []
    for number in np.unique(robots):
        own = graph.poses.index[rows[robots == number]]
        whole = np.count_nonzero(graph.poses.robot == number) == len(own)
        name = graph.robots[number]
        names.append(
            f'robot {name}' if whole
            else f'{counted(len(own), "pose")} of robot {name} from {name}{own.min()} on')
    beside = f' (with {listed(landmarks)})' if landmarks else ''
    return Finding(
        'disconnected', graph.robots[robots[0]],
        f'{listed(names)}{beside}: no measurement to the rest of the graph', float(len(rows)))


def listed(names: list[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ', '.join(names[:MOST_NAMES]) + (f' and {rest} more' if rest > 0 else '')
