"""Parts of a graph: stretches of unbroken odometry, what measurements tie together, subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..array_types import Index, Mask
from .estimate import Estimate
from .finding import Finding
from .graph import Graph, counted
from .table import Landmarks, Table

MOST_NAMES = 5
"""Names that one sentence lists."""


# -- rigid segments: what measurements place in map


@dataclass(frozen=True)
class OdometrySegments:
    """Numbering of segments by their first pose; usually one segment per robot."""

    of_pose: Index
    """(n,): body of every pose."""
    robot: Index
    """(b,): robot of every body."""
    first: Index
    """(b,): first pose row of every body."""
    last: Index
    """(b,): last pose row of every body."""

    def __len__(self) -> int:
        return len(self.robot)

    def newest(self, robot: int) -> int:
        """Number of the segment that holds a robot's newest pose; -1 without poses."""
        own = np.flatnonzero(self.robot == robot)
        return int(own[np.argmax(self.last[own])]) if len(own) else -1

    def variable(self, endpoint: Index) -> Index:
        """Segments, then landmarks, as one numbering of what endpoints belong to."""
        landmark = endpoint < 0
        pose = np.where(landmark, 0, endpoint)
        body = self.of_pose[pose] if len(self.of_pose) else pose
        return np.where(landmark, len(self) + ~np.asarray(endpoint), body)


def find_segments(graph: Graph) -> OdometrySegments:
    """Connected components of the odometry edges, numbered by first appearance."""
    edges, n = graph.relative_poses, graph.n_poses
    zero = np.zeros(0, dtype=np.int64)
    if n == 0:
        return OdometrySegments(zero, zero, zero, zero)
    i, j = edges.i[edges.odometry], edges.j[edges.odometry]
    count, label = connected(n, i, j)
    first = np.full(count, n, dtype=np.int64)
    last = np.full(count, -1, dtype=np.int64)
    rows = np.arange(n)
    np.minimum.at(first, label, rows)
    np.maximum.at(last, label, rows)
    order = np.argsort(first, kind='stable')
    renamed = np.empty(count, dtype=np.int64)
    renamed[order] = np.arange(count)
    first, last = first[order], last[order]
    return OdometrySegments(renamed[label], graph.poses.robot[first], first, last)


def measured_pairs(graph: Graph, segments: OdometrySegments) -> Index:
    """(k, 2): variables that each measurement but odometry ties together, table by table."""
    first, second = graph.pairs(odometry=False)
    return np.stack([segments.variable(first), segments.variable(second)], axis=1)


def measured(graph: Graph) -> bool:
    """Whether anything but odometry says where a robot is: heights and verticals do not."""
    return graph.anchored or len(graph.pairs(odometry=False)[0]) > 0


def connected(count: int, i: Index, j: Index) -> tuple[int, Index]:
    """Number and label (count,) of the parts that ties between i (k,) and j (k,) leave."""
    adjacency = coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(count, count))
    number, label = connected_components(adjacency, directed=False)
    return int(number), label.astype(np.int64)


# -- components, and variables left without a place


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
    _, labels = connected(world + 1, rows, columns)
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
    findings = []
    sizes = np.bincount(labels, minlength=1)
    alone = np.flatnonzero((sizes[marks] == 1) & (marks > 0))
    if len(alone):
        names = [graph.landmarks.names[k] for k in alone]
        findings.append(Finding(
            'landmark_unmeasured', names[0],
            f'{counted(len(names), "landmark")} without any measurement: {listed(names)}',
            float(len(names))))
    for part in range(1, len(sizes)):
        rows = np.flatnonzero(poses == part)
        inside = [graph.landmarks.names[k] for k in np.flatnonzero(marks == part)]
        if len(rows):
            findings.append(_apart(graph, rows, inside))
        elif len(inside) > 1:
            findings.append(Finding(
                'disconnected', inside[0],
                f'{counted(len(inside), "landmark")} ({listed(inside)}) are measured among '
                'themselves only'))
    return tuple(findings)


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


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Names in one line, the last ones counted."""
    rest = len(names) - most
    return ', '.join(names[:most]) + (f' and {rest} more' if rest > 0 else '')


# -- some variables as a graph of its own, and the way back


@dataclass(frozen=True)
class Subgraph:
    """The chosen variables and the measurements among them."""

    graph: Graph
    poses: Index
    """Rows of its poses in the whole graph."""
    landmarks: Index
    rows: dict[str, Index]
    """Rows of its measurements in the whole graph's tables."""

    def of(self, estimate: Estimate) -> Estimate:
        """The subgraph's share of an estimate of the whole graph."""
        return Estimate(
            estimate.rotation[self.poses], estimate.translation[self.poses],
            estimate.landmarks[self.landmarks])

    def into(self, whole: Estimate, own: Estimate) -> Estimate:
        """The whole estimate with the subgraph's values replaced."""
        rotation, translation = whole.rotation.copy(), whole.translation.copy()
        landmarks = whole.landmarks.copy()
        rotation[self.poses], translation[self.poses] = own.rotation, own.translation
        landmarks[self.landmarks] = own.landmarks
        return Estimate(rotation, translation, landmarks)


def extract(graph: Graph, poses: Mask, landmarks: Mask) -> Subgraph:
    """The masked poses and landmarks and all measurements among them."""
    pose_rows, landmark_rows = np.flatnonzero(poses), np.flatnonzero(landmarks)
    if len(pose_rows) == graph.n_poses and len(landmark_rows) == graph.n_landmarks:
        every = {name: np.arange(len(table)) for name, table in graph.tables().items()}
        return Subgraph(graph, pose_rows, landmark_rows, every)
    new_pose = np.full(graph.n_poses + 1, -1, dtype=np.int64)
    new_pose[pose_rows] = np.arange(len(pose_rows))
    new_landmark = np.full(graph.n_landmarks + 1, -1, dtype=np.int64)
    new_landmark[landmark_rows] = np.arange(len(landmark_rows))

    def renumber(endpoint: Index) -> tuple[Index, Mask]:
        far = endpoint < 0
        pose = new_pose[np.where(far, -1, endpoint)]
        landmark = new_landmark[np.where(far, ~endpoint, -1)]
        return np.where(far, ~landmark, pose), np.where(far, landmark, pose) >= 0

    tables: dict[str, Table] = {}
    rows: dict[str, Index] = {}
    for name, table in graph.tables().items():
        keep = np.ones(len(table), dtype=bool)
        columns = {}
        for column in table.endpoints():
            columns[column], known = renumber(getattr(table, column))
            keep &= known
        rows[name] = np.flatnonzero(keep)
        tables[name] = table.replaced(**columns).take(rows[name])
    old = graph.landmarks
    chosen = graph.replaced(
        poses=graph.poses.take(pose_rows),
        landmarks=Landmarks(
            tuple(old.names[k] for k in landmark_rows), old.position[landmark_rows],
            old.fixed[landmark_rows]),
        **tables,
    )
    return Subgraph(chosen, pose_rows, landmark_rows, rows)
