"""PyFG text files (`.pyfg`): the factor graphs of range-aided SLAM.

The grammar is PyFactorGraph's and CORA's, read tolerantly: any spacing, blank and # lines,
stamps in seconds or nanoseconds, 0 = no time (a range without time takes that of its pose), any
names. Covariances become scalar weights (`graph/precision.py`). A file without poses, landmarks
with ranges between them, is a sensor network.

Records of our own, written only where the standard ones cannot say it:

    EDGE_RANGE:OFFSET ts A B range variance leverA leverB    antennas off the body origin
    VERTEX_XY:FIX NAME x y            VERTEX_XYZ:FIX NAME x y z      beacon at a known position
    VERTEX_SE2:POSITION ts NAME x y c11 c12 c22 lever                position fix of a pose
    VERTEX_XYZ:HEIGHT ts NAME height variance                        height of a beacon
    VERTEX_SE3:QUAT:HEIGHT ts NAME height variance lever             height of a sensor of a pose
    VERTEX_SE3:QUAT:VERTICAL ts NAME ux uy uz variance               vertical as a pose sees it
    EDGE_SE2:ODOMETRY, EDGE_SE2:LOOP  (and EDGE_SE3:QUAT:…)          where the numbers of the poses
                                      would suggest the other kind
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from ..array_types import Array, Index
from ..config import FormatError, GraphError
from ..graph import (
    Graph,
    Heights,
    Landmarks,
    PointPriors,
    PosePriors,
    Poses,
    Ranges,
    RelativePoses,
    Sightings,
    Verticals,
    empty,
)
from . import atomic
from .chain import steps, turned
from .graph_text import (
    LARGEST,
    POSE,
    Block,
    GraphReader,
    GraphWriter,
    as_blocks,
    dimension_of,
    number_texts,
    read_records,
    record_lines,
    upper_triangle,
)
from .stamp_text import parse_stamp

POINT = {2: 'VERTEX_XY', 3: 'VERTEX_XYZ'}
RELATIVE = {2: 'EDGE_SE2', 3: 'EDGE_SE3:QUAT'}
SIGHTING = {2: 'EDGE_SE2_XY', 3: 'EDGE_SE3_XYZ'}
RANGE, OFFSET_RANGE = 'EDGE_RANGE', 'EDGE_RANGE:OFFSET'
PRIOR, FIX, POSITION, ODOMETRY, LOOP = ':PRIOR', ':FIX', ':POSITION', ':ODOMETRY', ':LOOP'
HEIGHT, VERTICAL = ':HEIGHT', ':VERTICAL'
"""Added to the keyword of a vertex or of a relative pose."""
ROUNDED = 1e-6
"""Share of the largest variance by which rounded digits may make another one negative."""


def read(path: Path | str) -> Graph:
    """Read a graph; FormatError with file and line for anything that is not as it must be."""
    return _PyfgReader(Path(path)).graph()


def write(path: Path | str, graph: Graph) -> None:
    """Write a graph; its cost at its own vertices survives to rounding.

    Robots whose names are no single letter get letters, landmarks not named L<number> get such
    names; the long names then go to `<path>.names.json`, which reading takes into account. Poses
    are numbered anew where odometry skips numbers. Raises FormatError when the file cannot be
    written, GraphError for a graph that the format cannot hold.
    """
    robots, landmarks = _short_robots(graph.robots), _short_landmarks(graph.landmarks.names)
    text = '\n'.join(_records(graph.validate(), robots, landmarks)) + '\n'
    atomic.write_text(path, text)
    _write_names(path, {
        'robots': {s: n for s, n in zip(robots, graph.robots, strict=True) if s != n},
        'landmarks': {
            s: n for s, n in zip(landmarks, graph.landmarks.names, strict=True) if s != n}})


def rewrite_vertices(source: Path | str, target: Path | str, graph: Graph) -> None:
    """Copy a file with the values of `graph`, read from it and solved, in its vertex lines."""
    text = _PyfgReader(Path(source)).rewritten(graph)
    names = _long_names(Path(source))
    atomic.write_text(target, text)
    _write_names(target, names)


@cache
def grammar(dimension: int) -> dict[str, str]:
    """Every keyword of a dimension with its line in words."""
    axes, turn, spin = ('xy', 'theta', 'dtheta') if dimension == 2 else (
        'xyz', 'qx qy qz qw', 'qx qy qz qw')
    xyz, step = ' '.join(axes), ' '.join(f'd{axis}' for axis in axes)
    pose_noise = upper_triangle('c', 3 * (dimension - 1))
    point_noise = upper_triangle('c', dimension)
    lever = ' '.join(f'lever_{axis}' for axis in axes)
    levers = ' '.join(f'lever_{end}_{axis}' for end in 'AB' for axis in axes)
    pose, point, relative = POSE[dimension], POINT[dimension], RELATIVE[dimension]
    fields = {
        pose: f'ts NAME {xyz} {turn}',
        point: f'NAME {xyz}',
        pose + PRIOR: f'ts NAME {xyz} {turn} {pose_noise}',
        point + PRIOR: f'ts NAME {xyz} {point_noise}',
        point + FIX: f'NAME {xyz}',
        pose + POSITION: f'ts NAME {xyz} {point_noise} {lever}',
        pose + HEIGHT: f'ts NAME height variance {lever}',
        point + HEIGHT: 'ts NAME height variance',
        pose + VERTICAL: f'ts NAME {" ".join(f"u{axis}" for axis in axes)} variance',
        SIGHTING[dimension]: f'ts POSE LMK {step} {point_noise}',
        RANGE: 'ts A B range variance',
        OFFSET_RANGE: f'ts A B range variance {levers}',
        **dict.fromkeys((relative, relative + ODOMETRY, relative + LOOP),
                        f'ts FROM TO {step} {spin} {pose_noise}')}
    return {tag: f'{tag} {words}' for tag, words in fields.items()}


class _PyfgReader(GraphReader):
    """One file on its way to a graph."""

    END, POINT = 2, POINT
    UNKNOWN, OTHER = 'a variable that has a VERTEX line', 'a {}'

    def __init__(self, path: Path) -> None:
        records = read_records(path)
        d = dimension_of(path, records, {2: grammar(2), 3: grammar(3)},
                         'expected a graph, with VERTEX_ lines of poses or landmarks')
        super().__init__(path, d, as_blocks(path, records, grammar(d)))
        self.prefixes: list[str] = []

    def graph(self) -> Graph:
        d = self.dimension
        poses, landmarks = self._poses(), self._landmarks()
        if not len(poses) and not len(landmarks):
            raise FormatError(
                self.path, None, f'expected at least one {POSE[d]} or {POINT[d]} line')
        names = _long_names(self.path)
        return Graph(
            d, tuple(names['robots'].get(p, p) for p in self.prefixes), poses,
            replace(landmarks, names=tuple(
                names['landmarks'].get(n, n) for n in landmarks.names)),
            relative_poses=self._steps_and_closures(poses),
            sightings=self.table(Sightings, self.sightings, SIGHTING[d]),
            ranges=self.table(
                Ranges, lambda block: self._ranges(block, poses), RANGE, OFFSET_RANGE),
            pose_priors=self.table(PosePriors, self.pose_priors, POSE[d] + PRIOR),
            point_priors=self.table(
                PointPriors, self._positions, POINT[d] + PRIOR, POSE[d] + POSITION),
            verticals=self.table(Verticals, self.verticals, POSE[d] + VERTICAL),
            heights=self.table(Heights, self._heights, POINT[d] + HEIGHT, POSE[d] + HEIGHT),
            name=self.path.stem)

    def stamps(self, block: Block) -> Index:
        # Equal texts, such as the zeros of files without times, are parsed once.
        return np.array(block.converted(cache(parse_stamp), 1, 'a time in seconds'), dtype=np.int64)

    def covariance(self, block: Block, noise: Array, what: str) -> Array:
        diagonal = np.diagonal(noise, axis1=1, axis2=2)
        block.require(
            np.all(diagonal >= 0, axis=1) & (np.sum(diagonal, axis=1) > 1 / LARGEST),
            f'expected variances > 0 on the diagonal of the {what} covariance')
        tied = np.count_nonzero(noise, axis=(1, 2)) > np.count_nonzero(diagonal, axis=1)
        least = np.zeros(len(noise))
        least[tied] = np.linalg.eigvalsh(noise[tied])[:, 0]
        block.require(
            least >= -ROUNDED * np.max(diagonal, axis=1),
            f'expected a {what} covariance, got one with a negative variance in some direction')
        return noise

    def _poses(self) -> Poses:
        block = self.blocks.get(POSE[self.dimension])
        if block is None:
            return empty(Poses, self.dimension)
        names = block.words(2)
        prefix = [name.rstrip('0123456789') for name in names]
        self.prefixes = list(dict.fromkeys(prefix))
        number = {p: k for k, p in enumerate(self.prefixes)}
        index = []
        for row, (name, head) in enumerate(zip(names, prefix, strict=True)):
            digits = name[len(head):]
            if not head or not digits or len(digits) > 18:
                block.expected('a letter and a number, such as A17,', row, 2)
            index.append(int(digits))
        poses = Poses(
            np.array([number[p] for p in prefix], dtype=np.int64),
            np.array(index, dtype=np.int64), self.stamps(block), *self.values(block))
        order = poses.order
        if np.any(order[1:] < order[:-1]):
            poses = poses.take(order)
        again = (np.diff(poses.index) == 0) & (np.diff(poses.robot) == 0)
        if np.any(again):
            row = int(order[1:][np.argmax(again)])
            block.fail(row, f'expected every variable once, got {names[row]} again')
        self.endpoint.update((names[row], place) for place, row in enumerate(order.tolist()))
        return poses

    def _landmarks(self) -> Landmarks:
        names: list[str] = []
        position = np.zeros((0, self.dimension))
        for block in self.some(POINT[self.dimension]):
            names, position = block.words(1), self.position(block)
            for row, name in enumerate(names):
                if self.endpoint.setdefault(name, ~row) != ~row:
                    block.fail(row, f'expected every variable once, got {name} again')
        fixed = np.zeros(len(names), dtype=bool)
        for block in self.some(POINT[self.dimension] + FIX):
            rows = ~self.ends(block, -1, 'landmark')
            _, first = np.unique(rows, return_index=True)
            for row in np.setdiff1d(np.arange(len(rows)), first).tolist():
                block.fail(row, f'expected one known position, {names[rows[row]]} has another line')
            position[rows] = self.position(block)
            fixed[rows] = True
        return Landmarks(tuple(names), position, fixed)

    def _steps_and_closures(self, poses: Poses) -> RelativePoses:
        """Without a keyword that says it, a step between neighbours is odometry."""
        tag = RELATIVE[self.dimension]
        table = self.table(RelativePoses, lambda block: self.relative_poses(
            block, odometry=block.tag == tag + ODOMETRY), tag, tag + ODOMETRY, tag + LOOP)
        forward, back = steps(poses, poses.index, table.i, table.j)
        plain = np.arange(len(table)) < len(self.blocks.get(tag, ()))
        return turned(
            table.replaced(odometry=np.where(plain, forward | back, table.odometry)), plain & back)

    def _ranges(self, block: Block, poses: Poses) -> Ranges:
        """Those without a time have that of their newest pose."""
        table, pose_stamp = self.ranges(block), np.append(poses.stamp_ns, 0)
        newest = np.maximum(*(pose_stamp[np.maximum(end, -1)] for end in (
            table.source, table.target)))
        return table.replaced(stamp_ns=np.where(table.stamp_ns == 0, newest, table.stamp_ns))

    def _positions(self, block: Block) -> PointPriors:
        return self.point_priors(block, self._kind(block))

    def _heights(self, block: Block) -> Heights:
        return self.heights(block, self._kind(block))

    def _kind(self, block: Block) -> str:
        """What the records of a keyword are about."""
        return 'landmark' if block.tag.startswith(POINT[self.dimension] + ':') else 'pose'


def _records(graph: Graph, robots: Sequence[str], landmarks: Sequence[str]) -> Iterator[str]:
    """All lines of a graph, with these short names."""
    index, d = _pose_numbers(graph), graph.dimension
    names = [f'{robots[robot]}{k}' for robot, k in zip(
        graph.poses.robot.tolist(), index.tolist(), strict=True)]
    writer = GraphWriter(graph, grammar(d), names, landmarks)
    yield from writer.vertices(POINT[d])
    fixed = np.flatnonzero(graph.landmarks.fixed)
    yield from record_lines(
        POINT[d] + FIX, writer.names(~fixed), number_texts(graph.landmarks.position[fixed]))
    priors, points = graph.pose_priors, graph.point_priors
    # A prior without a heading is a position fix at the body origin.
    bare = priors.take(priors.kappa <= 0)
    yield from writer.lines(POSE[d] + PRIOR, priors.take(priors.kappa > 0))
    yield from writer.lines(POSE[d] + POSITION, PointPriors(
        bare.i, np.zeros_like(bare.translation), bare.translation, bare.tau, bare.stamp_ns))
    yield from writer.lines(POINT[d] + PRIOR, points.take(points.point < 0))
    yield from writer.lines(POSE[d] + POSITION, points.take(points.point >= 0))
    yield from writer.lines(POSE[d] + VERTICAL, graph.verticals)
    yield from writer.lines(POINT[d] + HEIGHT, graph.heights.take(graph.heights.point < 0))
    yield from writer.lines(POSE[d] + HEIGHT, graph.heights.take(graph.heights.point >= 0))
    # Odometry first; a keyword of its own where the numbers would be read otherwise.
    edges = graph.relative_poses
    forward, back = steps(graph.poses, index, edges.i, edges.j)
    plain = np.where(edges.odometry, forward, ~(forward | back))
    for suffix, rows in (
        ('', plain & edges.odometry), (ODOMETRY, ~plain & edges.odometry),
        ('', plain & ~edges.odometry), (LOOP, ~plain & ~edges.odometry),
    ):
        yield from writer.lines(RELATIVE[d] + suffix, edges.take(rows))
    yield from writer.lines(SIGHTING[d], graph.sightings)
    ranges = graph.ranges
    offset = np.any(ranges.lever_source, axis=1) | np.any(ranges.lever_target, axis=1)
    yield from writer.lines(RANGE, ranges.take(~offset))
    yield from writer.lines(OFFSET_RANGE, ranges.take(offset))


def _pose_numbers(graph: Graph) -> Index:
    """Pose numbers; counted anew within each robot where odometry skips one."""
    poses, table = graph.poses, graph.relative_poses
    i, j = table.i[table.odometry], table.j[table.odometry]
    same = poses.robot[i] == poses.robot[j]
    if np.all(poses.index[j][same] == poses.index[i][same] + 1):
        return poses.index
    return poses.numbered


# -- names that PyFG cannot hold, in a file beside it -------------------------------------------


def sidecar_path(path: Path | str) -> Path:
    """Path of the file with the long names."""
    path = Path(path)
    return path.with_name(path.name + '.names.json')


def _short_robots(robots: Sequence[str]) -> list[str]:
    """One letter per robot; L is for landmarks."""
    letters = [c for c in string.ascii_uppercase + string.ascii_lowercase if c not in 'Ll']
    if len(set(robots)) == len(robots) and all(name in letters for name in robots):
        return list(robots)
    if len(robots) > len(letters):
        raise GraphError(f'a .pyfg file holds at most {len(letters)} robots, not {len(robots)}')
    return letters[: len(robots)]


def _short_landmarks(names: Sequence[str]) -> list[str]:
    """L and a number per landmark."""
    if len(set(names)) == len(names) and all(
            name[:1] == 'L' and name[1:].isascii() and name[1:].isdigit() for name in names):
        return list(names)
    return [f'L{k}' for k in range(len(names))]


def _write_names(path: Path | str, names: Mapping[str, Mapping[str, str]]) -> None:
    """Write long names beside a file; a sidecar of another graph goes."""
    if any(names.values()):
        atomic.write_text(sidecar_path(path), json.dumps(names, indent=2) + '\n')
    else:
        sidecar_path(path).unlink(missing_ok=True)


def _long_names(path: Path) -> dict[str, dict[str, str]]:
    """Long names of robots and landmarks, from the side-car file where there is one."""
    sidecar = sidecar_path(path)
    names: dict[str, dict[str, str]] = {'robots': {}, 'landmarks': {}}
    if sidecar.exists():
        try:
            loaded = json.loads(sidecar.read_text(encoding='utf-8'))
            names |= {key: {str(k): v for k, v in loaded.get(key, {}).items()} for key in names}
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise FormatError(sidecar, None, f'expected names as JSON: {error}') from None
        if not all(isinstance(v, str) and v for key in names for v in names[key].values()):
            raise FormatError(sidecar, None, 'expected names of robots and landmarks as texts')
    return names
