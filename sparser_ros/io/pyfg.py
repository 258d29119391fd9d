"""PyFG text files (`.pyfg`): the factor graphs of range-aided SLAM.

The grammar is PyFactorGraph's and CORA's, read tolerantly: any spacing, blank and # lines,
stamps in seconds or nanoseconds, 0 = no time (a range without time takes that of its pose), any
names. Covariances become scalar weights (`graph/precision.py`). A file without poses, landmarks
with ranges between them, is a sensor network.

Records of our own, written only where the standard ones cannot say it:

    EDGE_RANGE:OFFSET ts A B range variance leverA leverB    antennas off the body origin
    VERTEX_XY:FIX NAME x y            VERTEX_XYZ:FIX NAME x y z      beacon at a known position
    VERTEX_SE2:POSITION ts NAME x y c11 c12 c22 lever                position fix of a pose
    EDGE_SE2:ODOMETRY, EDGE_SE2:LOOP  (and EDGE_SE3:QUAT:…)          where the numbers of the poses
                                      would suggest the other kind
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Index
from ..config import FormatError, GraphError
from ..graph import (
    Graph,
    Landmarks,
    PointPriors,
    PosePriors,
    Poses,
    Ranges,
    RelativePoses,
    Sightings,
    empty,
)
from ..graph.precision import (
    kappa_from_covariance,
    rotation_variance,
    tau_from_covariance,
    translation_variance,
)
from ..linalg.rotations import angle_to_matrix, quat_to_matrix
from . import atomic
from .chain import steps, turned
from .line_records import (
    LARGEST,
    Block,
    Lines,
    as_blocks,
    number_texts,
    pose_values,
    read_records,
    record_lines,
    replace_values,
    symmetric,
    upper_diagonal,
    value_texts,
)
from .stamp_text import format_stamp, parse_stamps


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
    text = '\n'.join(_PyfgWriter(graph.validate(), robots, landmarks).records()) + '\n'
    atomic.write_text(path, text)
    names = {
        'robots': {s: n for s, n in zip(robots, graph.robots, strict=True) if s != n},
        'landmarks': {
            s: n for s, n in zip(landmarks, graph.landmarks.names, strict=True) if s != n},
    }
    _write_names(path, names)


def rewrite_vertices(source: Path | str, target: Path | str, graph: Graph) -> None:
    """Copy a file with the values of `graph`, read from it and solved, in its vertex lines."""
    reader = _PyfgReader(Path(source))
    original = reader.graph()
    if (original.n_poses, original.n_landmarks) != (graph.n_poses, graph.n_landmarks):
        raise GraphError(f'the graph to write was not read from {source}: it has other variables')
    words = grammar_of(graph.dimension)
    poses, landmarks = value_texts(graph)
    value = {
        name: poses[end] if end >= 0 else landmarks[~end]
        for name, end in reader.endpoint.items()
    }
    tags = {words.pose: (2, 3), words.point: (1, 2)}
    text = '\n'.join(replace_values(source, tags, value)) + '\n'
    names = _long_names(Path(source))
    atomic.write_text(target, text)
    _write_names(target, names)


def _write_names(path: Path | str, names: Mapping[str, Mapping[str, str]]) -> None:
    """Write long names beside a file; a sidecar of another graph goes."""
    if any(names.values()):
        atomic.write_text(sidecar_path(path), json.dumps(names, indent=2) + '\n')
    else:
        sidecar_path(path).unlink(missing_ok=True)


def _upper(size: int) -> str:
    return ' '.join(f'c{r}{c}' for r in range(1, size + 1) for c in range(r, size + 1))


@dataclass(frozen=True)
class Grammar:
    """Keywords of one dimension."""

    dimension: int
    pose: str
    point: str
    relative: str
    sighting: str
    range: str = 'EDGE_RANGE'
    offset_range: str = 'EDGE_RANGE:OFFSET'

    @property
    def pose_prior(self) -> str:
        return f'{self.pose}:PRIOR'

    @property
    def point_prior(self) -> str:
        return f'{self.point}:PRIOR'

    @property
    def fix(self) -> str:
        return f'{self.point}:FIX'

    @property
    def position(self) -> str:
        return f'{self.pose}:POSITION'

    @property
    def odometry(self) -> str:
        return f'{self.relative}:ODOMETRY'

    @property
    def loop(self) -> str:
        return f'{self.relative}:LOOP'

    @property
    def pose_covariance(self) -> int:
        """Entries of the upper triangle of a pose covariance."""
        return 6 if self.dimension == 2 else 21

    @property
    def lines(self) -> dict[str, str]:
        """Every keyword with its line in words."""
        xyz = 'x y' if self.dimension == 2 else 'x y z'
        turn = 'theta' if self.dimension == 2 else 'qx qy qz qw'
        step = ' '.join(f'd{axis}' for axis in xyz.split())
        spin = 'dtheta' if self.dimension == 2 else turn
        pose_cov, point_cov = _upper(3 * (self.dimension - 1)), _upper(self.dimension)
        lever = ' '.join(f'lever_{axis}' for axis in xyz.split())
        levers = ' '.join(f'lever_{end}_{axis}' for end in 'AB' for axis in xyz.split())
        fields = {
            self.pose: f'ts NAME {xyz} {turn}',
            self.point: f'NAME {xyz}',
            self.pose_prior: f'ts NAME {xyz} {turn} {pose_cov}',
            self.point_prior: f'ts NAME {xyz} {point_cov}',
            self.fix: f'NAME {xyz}',
            self.position: f'ts NAME {xyz} {point_cov} {lever}',
            self.sighting: f'ts POSE LMK {step} {point_cov}',
            self.range: 'ts A B range variance',
            self.offset_range: f'ts A B range variance {levers}',
        }
        edge = f'ts FROM TO {step} {spin} {pose_cov}'
        fields |= dict.fromkeys((self.relative, self.odometry, self.loop), edge)
        return {tag: f'{tag} {words}' for tag, words in fields.items()}

    @property
    def own(self) -> frozenset[str]:
        """Keywords that occur in this dimension only."""
        return frozenset(self.lines) - {self.range, self.offset_range}


PLANE = Grammar(2, 'VERTEX_SE2', 'VERTEX_XY', 'EDGE_SE2', 'EDGE_SE2_XY')
SPACE = Grammar(3, 'VERTEX_SE3:QUAT', 'VERTEX_XYZ', 'EDGE_SE3:QUAT', 'EDGE_SE3_XYZ')


def grammar_of(dimension: int) -> Grammar:
    """The keywords of a dimension."""
    return PLANE if dimension == 2 else SPACE


def sidecar_path(path: Path | str) -> Path:
    """Path of the file beside a .pyfg file that keeps names which PyFG cannot hold."""
    path = Path(path)
    return path.with_name(path.name + '.names.json')


class _PyfgReader:
    """One file on its way to a graph."""

    def __init__(self, path: Path) -> None:
        self.path = path
        records = read_records(path)
        self.dimension = _dimension(path, records)
        self.words = grammar_of(self.dimension)
        self.blocks = as_blocks(path, records, self.words.lines)
        self.endpoint: dict[str, int] = {}
        """Variables by their names in the file, filled by `graph`."""
        self.prefixes: list[str] = []

    def graph(self) -> Graph:
        """The graph; FormatError with file and line for anything that is not as it must be."""
        poses = self._poses()
        landmarks = self._landmarks()
        if not len(poses) and not len(landmarks):
            raise FormatError(
                self.path, None,
                f'expected at least one {self.words.pose} or {self.words.point} line')
        names = _long_names(self.path)
        return Graph(
            self.dimension,
            tuple(names['robots'].get(p, p) for p in self.prefixes),
            poses,
            Landmarks(
                tuple(names['landmarks'].get(n, n) for n in landmarks.names),
                landmarks.position, landmarks.fixed,
            ),
            relative_poses=self._relative_poses(poses),
            sightings=self._sightings(),
            ranges=self._ranges(poses),
            pose_priors=self._pose_priors(),
            point_priors=self._point_priors(),
            name=self.path.stem,
        )

    # -- variables ---------------------------------------------------------------------------

    def _poses(self) -> Poses:
        block = self.blocks.get(self.words.pose)
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
        rotation, translation = self._values(block, 3)
        poses = Poses(
            np.array([number[p] for p in prefix], dtype=np.int64),
            np.array(index, dtype=np.int64), self._stamps(block), rotation, translation,
        )
        order = np.lexsort((poses.index, poses.robot))
        if np.any(order[1:] < order[:-1]):
            poses = poses.take(order)
        again = (np.diff(poses.index) == 0) & (np.diff(poses.robot) == 0)
        if np.any(again):
            row = int(order[1:][np.argmax(again)])
            block.fail(row, f'expected every variable once, got {names[row]} again')
        self.endpoint.update((names[row], place) for place, row in enumerate(order.tolist()))
        return poses

    def _landmarks(self) -> Landmarks:
        d, names = self.dimension, []
        position = np.zeros((0, d))
        block = self.blocks.get(self.words.point)
        if block is not None:
            names = block.words(1)
            position = block.numbers(2, d)
            for row, name in enumerate(names):
                if self.endpoint.setdefault(name, ~row) != ~row:
                    block.fail(row, f'expected every variable once, got {name} again')
        fixed = np.zeros(len(names), dtype=bool)
        block = self.blocks.get(self.words.fix)
        if block is not None:
            rows = ~self._endpoints(block, 1, 'landmark')
            position[rows] = block.numbers(2, d)
            fixed[rows] = True
        return Landmarks(tuple(names), position, fixed)

    # -- measurements ------------------------------------------------------------------------

    def _relative_poses(self, poses: Poses) -> RelativePoses:
        """Without a keyword that says it, a step between neighbours is odometry."""
        words, tables = self.words, {}
        for tag in (words.relative, words.odometry, words.loop):
            block = self.blocks.get(tag)
            if block is None:
                continue
            i, j = self._endpoints(block, 2, 'pose'), self._endpoints(block, 3, 'pose')
            block.require(i != j, 'expected two different poses')
            rotation, translation = self._values(block, 4)
            kappa, tau = self._weights(block, len(block.fields) - words.pose_covariance)
            tables[tag] = RelativePoses(
                i, j, rotation, translation, kappa, tau, np.full(len(i), tag == words.odometry),
                self._stamps(block))
        table: RelativePoses = self._joined(RelativePoses, list(tables.values()))
        forward, back = steps(poses, poses.index, table.i, table.j)
        plain = np.arange(len(table)) < len(tables.get(words.relative, ()))
        return turned(
            table.replaced(odometry=np.where(plain, forward | back, table.odometry)), plain & back)

    def _sightings(self) -> Sightings:
        block = self.blocks.get(self.words.sighting)
        if block is None:
            return empty(Sightings, self.dimension)
        d = self.dimension
        i, point = self._endpoints(block, 2, 'pose'), self._endpoints(block, 3)
        block.require(i != point, 'expected two different variables')
        return Sightings(
            i, point, block.numbers(4, d), self._point_weights(block, 4 + d), self._stamps(block))

    def _ranges(self, poses: Poses) -> Ranges:
        d = self.dimension

        def table(tag: str) -> Ranges | None:
            block = self.blocks.get(tag)
            if block is None:
                return None
            source, target = self._endpoints(block, 2), self._endpoints(block, 3)
            block.require(source != target, 'expected two different variables')
            distance, variance = block.numbers(4, 1)[:, 0], block.numbers(5, 1, LARGEST)[:, 0]
            block.require(distance > 0, 'expected a range > 0 m')
            block.require(variance > 1 / LARGEST, 'expected a variance > 0 m^2')
            lever = np.zeros((len(block), 2 * d))
            if tag == self.words.offset_range:
                lever = block.numbers(6, 2 * d)
            for k, endpoint in enumerate((source, target)):
                part = lever[:, k * d:(k + 1) * d]
                block.require(
                    (endpoint >= 0) | ~np.any(part, axis=1), 'a landmark has no lever arm')
            stamp = self._stamps(block)
            pose_stamp = np.append(poses.stamp_ns, 0)
            ends = [np.where(e >= 0, pose_stamp[np.maximum(e, -1)], 0) for e in (source, target)]
            stamp = np.where(stamp == 0, np.maximum(*ends), stamp)
            return Ranges(
                source, target, lever[:, :d], lever[:, d:], distance,
                block.weights(1 / variance), stamp)

        return self._joined(
            Ranges, [table(t) for t in (self.words.range, self.words.offset_range)])

    def _pose_priors(self) -> PosePriors:
        block = self.blocks.get(self.words.pose_prior)
        if block is None:
            return empty(PosePriors, self.dimension)
        rotation, translation = self._values(block, 3)
        kappa, tau = self._weights(block, len(block.fields) - self.words.pose_covariance)
        return PosePriors(
            self._endpoints(block, 2, 'pose'), rotation, translation, kappa, tau,
            self._stamps(block))

    def _point_priors(self) -> PointPriors:
        d = self.dimension

        def table(tag: str, kind: str) -> PointPriors | None:
            block = self.blocks.get(tag)
            if block is None:
                return None
            lever = np.zeros((len(block), d))
            if kind == 'pose':
                lever = block.numbers(len(block.fields) - d, d)
            return PointPriors(
                self._endpoints(block, 2, kind), lever, block.numbers(3, d),
                self._point_weights(block, 3 + d), self._stamps(block))

        return self._joined(PointPriors, [
            table(self.words.point_prior, 'landmark'), table(self.words.position, 'pose')])

    # -- fields ------------------------------------------------------------------------------

    def _joined(self, kind: Any, tables: list[Any]) -> Any:
        table = empty(kind, self.dimension)
        for part in tables:
            if part is not None:
                table = table.append(part) if len(table) else part
        return table

    def _endpoints(self, block: Block, field: int, kind: str = '') -> Index:
        names = block.words(field)
        try:
            endpoint = np.array([self.endpoint[name] for name in names], dtype=np.int64)
        except KeyError:
            row = next(r for r, name in enumerate(names) if name not in self.endpoint)
            block.expected('a variable that has a VERTEX line', row, field)
        if kind:
            good = endpoint >= 0 if kind == 'pose' else endpoint < 0
            if not np.all(good):
                block.expected(f'a {kind}', int(np.argmin(good)), field)
        return endpoint

    def _stamps(self, block: Block) -> Index:
        words = block.words(1)
        try:
            return np.array(parse_stamps(words), dtype=np.int64)
        except (ValueError, OverflowError):
            for row, word in enumerate(words):
                try:
                    np.array(parse_stamps([word]), dtype=np.int64)
                except (ValueError, OverflowError):
                    block.expected('a time in seconds', row, 1)
            raise

    def _values(self, block: Block, first: int) -> tuple[Array, Array]:
        """Rotations and translations that start at a field."""
        d = self.dimension
        values = block.numbers(first, 3)
        if d == 2:
            return angle_to_matrix(values[:, 2]), values[:, :2].copy()
        return quat_to_matrix(block.quaternions(first + 3)), values

    def _weights(self, block: Block, first: int) -> tuple[Array, Array]:
        """Rotation and translation weights of pose covariances that start at a field."""
        d = self.dimension
        size = 3 * (d - 1)
        covariance = symmetric(block.numbers(first, size * (size + 1) // 2, LARGEST), size)
        self._check_covariance(block, covariance[:, :d, :d], 'translation')
        self._check_covariance(block, covariance[:, d:, d:], 'rotation')
        return (
            block.weights(kappa_from_covariance(covariance[:, d:, d:])),
            block.weights(tau_from_covariance(covariance[:, :d, :d])),
        )

    def _point_weights(self, block: Block, first: int) -> Array:
        d = self.dimension
        covariance = symmetric(block.numbers(first, d * (d + 1) // 2, LARGEST), d)
        self._check_covariance(block, covariance, 'position')
        return block.weights(tau_from_covariance(covariance))

    @staticmethod
    def _check_covariance(block: Block, covariance: Array, what: str) -> None:
        diagonal = np.diagonal(covariance, axis1=1, axis2=2)
        block.require(
            np.all(diagonal >= 0, axis=1) & (np.sum(diagonal, axis=1) > 1 / LARGEST),
            f'expected variances > 0 on the diagonal of the {what} covariance',
        )


def _dimension(path: Path, records: dict[str, Lines]) -> int:
    """The dimension that the keywords of a file agree on."""
    first = {
        d: min(records[tag].numbers[0] for tag in records if tag in grammar_of(d).own)
        for d in (2, 3) if not grammar_of(d).own.isdisjoint(records)
    }
    if not first:
        raise FormatError(
            path, None, 'expected a graph, with VERTEX_ lines of poses or landmarks')
    if len(first) == 2:
        raise FormatError(
            path, max(first.values()), 'expected one dimension, got 2D and 3D records in one file')
    return next(iter(first))


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


class _PyfgWriter:
    """One graph on its way to lines."""

    def __init__(self, graph: Graph, robots: Sequence[str], landmarks: Sequence[str]) -> None:
        self.graph, self.landmarks = graph, list(landmarks)
        self.words: Grammar = grammar_of(graph.dimension)
        self.index = _pose_numbers(graph)
        self.poses = [
            f'{robots[r]}{k}'
            for r, k in zip(graph.poses.robot.tolist(), self.index.tolist(), strict=True)
        ]

    def records(self) -> Iterator[str]:
        graph, words = self.graph, self.words
        poses, landmarks = value_texts(graph)
        yield from record_lines(words.pose, _stamps(graph.poses.stamp_ns), self.poses, poses)
        yield from record_lines(words.point, self.landmarks, landmarks)
        fixed = np.flatnonzero(graph.landmarks.fixed)
        yield from record_lines(
            words.fix, [self.landmarks[k] for k in fixed], [landmarks[k] for k in fixed])
        yield from self._pose_priors()
        yield from self._point_priors()
        yield from self._relative_poses()
        yield from self._sightings()
        yield from self._ranges()

    def _relative_poses(self) -> Iterator[str]:
        """Odometry first; a keyword of its own where the numbers would be read otherwise."""
        poses, table = self.graph.poses, self.graph.relative_poses
        forward, back = steps(poses, self.index, table.i, table.j)
        plain = np.where(table.odometry, forward, ~(forward | back))
        for tag, rows in (
            (self.words.relative, plain & table.odometry),
            (self.words.odometry, ~plain & table.odometry),
            (self.words.relative, plain & ~table.odometry),
            (self.words.loop, ~plain & ~table.odometry),
        ):
            yield from self._edges(tag, table.take(rows))

    def _edges(self, tag: str, table: RelativePoses) -> Iterator[str]:
        yield from record_lines(
            tag, _stamps(table.stamp_ns), self._names(table.i), self._names(table.j),
            number_texts(pose_values(table.rotation, table.translation)),
            self._pose_covariances(table.kappa, table.tau),
        )

    def _sightings(self) -> Iterator[str]:
        table = self.graph.sightings
        yield from record_lines(
            self.words.sighting, _stamps(table.stamp_ns), self._names(table.i),
            self._names(table.point), number_texts(table.translation),
            self._point_covariances(table.tau),
        )

    def _ranges(self) -> Iterator[str]:
        table = self.graph.ranges
        levers = np.column_stack([table.lever_source, table.lever_target])
        offset = np.any(levers != 0, axis=1)
        for tag, rows in ((self.words.range, ~offset), (self.words.offset_range, offset)):
            part = table.take(rows)
            columns = [part.distance_m, 1 / part.precision]
            if tag == self.words.offset_range:
                columns.append(levers[rows])
            yield from record_lines(
                tag, _stamps(part.stamp_ns), self._names(part.source), self._names(part.target),
                number_texts(np.column_stack(columns)),
            )

    def _pose_priors(self) -> Iterator[str]:
        """A prior without a heading is a position fix at the body origin."""
        heading = self.graph.pose_priors.kappa > 0
        table = self.graph.pose_priors.take(heading)
        yield from record_lines(
            self.words.pose_prior, _stamps(table.stamp_ns), self._names(table.i),
            number_texts(pose_values(table.rotation, table.translation)),
            self._pose_covariances(table.kappa, table.tau),
        )
        table = self.graph.pose_priors.take(~heading)
        yield from self._positions(
            table.stamp_ns, table.i, table.translation, table.tau, 0 * table.translation)

    def _point_priors(self) -> Iterator[str]:
        pose = self.graph.point_priors.point >= 0
        table = self.graph.point_priors.take(~pose)
        yield from record_lines(
            self.words.point_prior, _stamps(table.stamp_ns), self._names(table.point),
            number_texts(table.position), self._point_covariances(table.precision),
        )
        table = self.graph.point_priors.take(pose)
        yield from self._positions(
            table.stamp_ns, table.point, table.position, table.precision, table.lever)

    def _positions(
        self, stamp_ns: Index, point: Index, position: Array, precision: Array, lever: Array
    ) -> Iterator[str]:
        yield from record_lines(
            self.words.position, _stamps(stamp_ns), self._names(point), number_texts(position),
            self._point_covariances(precision), number_texts(lever),
        )

    def _names(self, endpoint: Index) -> list[str]:
        return [self.poses[e] if e >= 0 else self.landmarks[~e] for e in endpoint.tolist()]

    def _pose_covariances(self, kappa: Array, tau: Array) -> list[str]:
        if np.any(kappa <= 0):
            raise GraphError(
                f'row {int(np.argmax(kappa <= 0))} of a table with rotations has kappa = 0, which '
                'a .pyfg file cannot hold; use a sighting or a position fix')
        d = self.graph.dimension
        turn = rotation_variance(kappa, d)[:, None].repeat(1 if d == 2 else 3, axis=1)
        move = translation_variance(tau)[:, None].repeat(d, axis=1)
        return number_texts(upper_diagonal(np.column_stack([move, turn])))

    def _point_covariances(self, precision: Array) -> list[str]:
        move = translation_variance(precision)[:, None].repeat(self.graph.dimension, axis=1)
        return number_texts(upper_diagonal(move))


def _pose_numbers(graph: Graph) -> Index:
    """Pose numbers; counted anew within each robot where odometry skips one."""
    poses, table = graph.poses, graph.relative_poses
    i, j = table.i[table.odometry], table.j[table.odometry]
    same = poses.robot[i] == poses.robot[j]
    if np.all(poses.index[j][same] == poses.index[i][same] + 1):
        return poses.index
    order = np.lexsort((poses.index, poses.robot))
    robot = poses.robot[order]
    start = np.searchsorted(robot, robot)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order)) - start
    return number


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
        name[:1] == 'L' and name[1:].isascii() and name[1:].isdigit() for name in names
    ):
        return list(names)
    return [f'L{k}' for k in range(len(names))]


def _stamps(stamp_ns: Index) -> list[str]:
    return [format_stamp(stamp) for stamp in stamp_ns.tolist()]
