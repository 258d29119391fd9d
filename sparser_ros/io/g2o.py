"""g2o text files (`.g2o`): pose graphs with landmarks, priors and ranges.

The entries are information matrices; weights come from the inverses of their diagonal blocks
(SE-Sync's choice). The rotation entries are read as information of the rotation vector, as
SE-Sync and GTSAM do, although g2o itself means the vector part of a quaternion.

Ids with letters in their top bytes are keys of GTSAM (as Kimera, LAMP and JRL write them): each
letter is a robot. Poses are numbered in the order of their ids, and edges between a robot's
neighbours in that order are odometry, written forwards or backwards. Lines of kinds that are not
needed are left out, and a missing information matrix is the identity; `Graph.remarks` tells it.
A lone FIX of a pose only chooses the frame, so it is left out; a FIX of a landmark
makes it a known beacon.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..array_types import Array, Index, Mask
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
)
from ..graph.graph import counted
from . import atomic
from .chain import steps, turned
from .graph_text import (
    POSE,
    Block,
    GraphReader,
    GraphWriter,
    Lines,
    as_blocks,
    dimension_of,
    read_records,
    record_lines,
    upper_triangle,
)

_I2, _I3, _I6 = (f'[{upper_triangle("I", size)}]' for size in (2, 3, 6))
_QUAT = 'x y z qx qy qz qw'
_STEP = 'dx dy dz qx qy qz qw'

# Beside g2o's own: ranges of several authors, RTAB-Map's tags (EDGE_SE3), hdl_graph_slam's position
# fixes (EDGE_SE3_PRIORXYZ), Vertigo's switchable loop closures.
_USAGE = {
    2: (
        'VERTEX_SE2 id x y theta',
        'VERTEX_XY id x y',
        f'EDGE_SE2 i j dx dy dtheta {_I3}',
        f'EDGE_SE2_SWITCHABLE i j switch dx dy dtheta {_I3}',
        f'EDGE_SE2_XY i j dx dy {_I2}',
        f'EDGE_PRIOR_SE2 i x y theta {_I3}',
        f'EDGE_PRIOR_SE2_XY i x y {_I2}',
        f'EDGE_PRIOR_XY i x y {_I2}',
        'EDGE_RANGE i j range [I11]',
        'EDGE_RANGE_SE2 i j range [I11]',
        'EDGE_RANGE_SE2_XY i j range [I11]',
    ),
    3: (
        f'VERTEX_SE3:QUAT id {_QUAT}',
        'VERTEX_TRACKXYZ id x y z',
        f'PARAMS_SE3OFFSET id {_QUAT}',
        f'EDGE_SE3:QUAT i j {_STEP} {_I6}',
        f'EDGE_SE3_SWITCHABLE i j switch {_STEP} {_I6}',
        f'EDGE_SE3 i j {_STEP} {_I6}',
        f'EDGE_SE3_TRACKXYZ i j paramId dx dy dz {_I3}',
        f'EDGE_SE3_PRIOR i paramId {_QUAT} {_I6}',
        f'EDGE_SE3_XYZ_PRIOR i paramId x y z {_I3}',
        f'EDGE_SE3_PRIORXYZ i x y z {_I3}',
        f'EDGE_POINTXYZ_PRIOR i x y z {_I3}',
        'EDGE_RANGE i j range [I11]',
        'EDGE_RANGE_SE3 i j range [I11]',
        'EDGE_RANGE_SE3_XYZ i j range [I11]',
    ),
}
GRAMMAR = {d: {usage.split()[0]: usage for usage in _USAGE[d]} for d in _USAGE}
POINT = {2: 'VERTEX_XY', 3: 'VERTEX_TRACKXYZ'}
SIGHTING = {2: 'EDGE_SE2_XY', 3: 'EDGE_SE3_TRACKXYZ'}
POSE_PRIOR = {2: 'EDGE_PRIOR_SE2', 3: 'EDGE_SE3_PRIOR'}
RELATIVE = {
    2: ('EDGE_SE2', 'EDGE_SE2_SWITCHABLE'), 3: ('EDGE_SE3:QUAT', 'EDGE_SE3_SWITCHABLE', 'EDGE_SE3')}
POINT_PRIORS = {
    2: ('EDGE_PRIOR_SE2_XY', 'EDGE_PRIOR_XY'),
    3: ('EDGE_SE3_XYZ_PRIOR', 'EDGE_SE3_PRIORXYZ', 'EDGE_POINTXYZ_PRIOR')}
RANGES = ('EDGE_RANGE', 'EDGE_RANGE_SE2', 'EDGE_RANGE_SE3', 'EDGE_RANGE_SE2_XY',
          'EDGE_RANGE_SE3_XYZ')
ENDS = {
    **dict.fromkeys(('EDGE_SE2_XY', 'EDGE_SE3_TRACKXYZ', *RANGES[3:]), ('pose', 'landmark')),
    'EDGE_PRIOR_XY': ('',), 'EDGE_POINTXYZ_PRIOR': ('',), 'EDGE_RANGE': ('', '')}
"""Kinds of the ids of a line that may be no poses; '' = either. Ids that no line of a pose
names are landmarks."""
TAGS = 'tag'
"""The owner of poses that only EDGE_SE3 lines measure: RTAB-Map's landmarks with a heading."""
LETTER_SHIFT = 48
"""Bits of a key's number; letters are above: one in GTSAM's Symbol, two in its LabeledSymbol."""

_ID = re.compile(r'[0-9]{1,19}')
_KEY_LETTERS = re.compile(r'[A-Za-z][A-Za-z0-9]?')
_NUMBERED = re.compile(r'(L)([0-9]{1,14})')
_KEYED = re.compile(r'([A-Za-z]{1,2})([0-9]{1,14})')


def read(path: Path | str) -> Graph:
    """Read a graph; FormatError with file and line for anything that is not as it must be."""
    return _G2oReader(Path(path)).graph()


def write(path: Path | str, graph: Graph) -> None:
    """Write a graph; what the format cannot hold needs a `.pyfg` file (GraphError).

    The ids of a robot A are the numbers of its poses. Other robots need a letter as name, and get
    keys of GTSAM: the letter in the top byte.
    """
    graph.validate()
    if np.any(graph.ranges.lever_source) or np.any(graph.ranges.lever_target):
        raise GraphError(
            'a .g2o file cannot hold ranges of antennas off the body origin; write a .pyfg file')
    if len(graph.robots) > 1 and not (
            all(map(_KEY_LETTERS.fullmatch, graph.robots))
            and graph.poses.index.max(initial=0) < 1 << LETTER_SHIFT):
        raise GraphError(
            'a .g2o file names robots by letters and numbers poses below 2^48, unlike those of '
            f'{", ".join(graph.robots[:5])}; write a .pyfg file')
    if graph.levelled:
        raise GraphError('a .g2o file cannot hold verticals and heights; write a .pyfg file')
    if np.any(graph.sightings.point >= 0):
        raise GraphError('a .g2o file cannot hold sightings of poses; write a .pyfg file')
    if graph.dimension == 2 and np.any(graph.point_priors.lever[graph.point_priors.point >= 0]):
        raise GraphError('a 2D .g2o file cannot hold antennas; write a .pyfg file')
    atomic.write_text(path, '\n'.join(_records(graph)) + '\n')


def rewrite_vertices(source: Path | str, target: Path | str, graph: Graph) -> None:
    """Copy a file with the values of `graph`, read from it and solved, in its vertex lines.

    Vertices that the file lacks are put before its first line.
    """
    atomic.write_text(target, _G2oReader(Path(source)).rewritten(graph))


class _G2oReader(GraphReader):
    """One file on its way to a graph."""

    END, POINT = 1, POINT

    def __init__(self, path: Path) -> None:
        records = read_records(path)
        self.fixed = records.pop('FIX', Lines([], []))
        # Offsets and plain ranges stand in files of either dimension.
        own = {d: {tag: usage for tag, usage in GRAMMAR[d].items() if tag != 'PARAMS_SE3OFFSET'}
               for d in GRAMMAR}
        d = dimension_of(path, records, own, 'expected a pose graph, with VERTEX and EDGE lines')
        self.unused = {tag: records.pop(tag) for tag in list(records) if tag not in GRAMMAR[d]}
        super().__init__(path, d, as_blocks(path, records, GRAMMAR[d]))

    def graph(self) -> Graph:
        d = self.dimension
        robots, poses = self._poses()
        landmarks = self._landmarks()
        with np.errstate(all='ignore'):  # weights of extreme information are judged afterwards
            graph = Graph(
                d, robots, poses, landmarks,
                relative_poses=self._steps_and_closures(poses),
                sightings=self.table(Sightings, self._sightings, SIGHTING[d]),
                ranges=self.table(Ranges, self._ranges, *RANGES),
                pose_priors=self.table(PosePriors, self._pose_priors, POSE_PRIOR[d]),
                point_priors=self.table(PointPriors, self._point_priors, *POINT_PRIORS[d]),
                name=self.path.stem,
                remarks=tuple(self._remarks()),
            )
        return self._with_fixed(graph)

    def key(self, word: str) -> int:
        # Ids may be written in several ways, such as 007.
        return int(word)

    def keys(self, block: Block, field: int) -> list[int]:
        return block.integers(field).tolist()

    def covariance(self, block: Block, noise: Array, what: str) -> Array:
        # A determinant of 0 beside eigenvalues above 0 is their rounding.
        block.require(
            (np.linalg.eigvalsh(noise)[:, 0] > 0) & (np.linalg.det(noise) != 0),
            f'expected a positive definite {what} block in the information matrix')
        return np.asarray(np.linalg.inv(noise))

    def _remarks(self) -> Iterator[str]:
        """Sentences on what was left out or assumed, one per keyword."""
        for tag, lines in self.unused.items():
            yield (f'{_told(lines.numbers, tag[:40])} left out: sparser has no such variable '
                   'or measurement')
        missing = sum(end < 0 for end in self.endpoint.values()) - len(
            self.blocks.get(POINT[self.dimension], ()))
        if missing:
            yield f'{counted(missing, "landmark")} without a VERTEX line, known from measurements'
        for tag, block in self.blocks.items():
            if block.without_information:
                turns = not {'theta', 'dtheta', 'qw'}.isdisjoint(block.fields)
                yield (f'{_told(block.without_information, tag)} without an information matrix: '
                       f'the identity is taken, a standard deviation of 1 m{" and 1 rad" * turns}')

    # -- variables ---------------------------------------------------------------------------

    def _poses(self) -> tuple[tuple[str, ...], Poses]:
        """Robots and poses in the order of ids; poses that only edges name start at identity."""
        d = self.dimension
        vertices = self.some(POSE[d])
        ids = [np.zeros(0, dtype=np.int64), *map(self._once, vertices)]
        for edges in self.some(*RELATIVE[d]):
            ids += [edges.integers(1), edges.integers(2)]
        index = np.unique(np.concatenate(ids))
        if not len(index):
            raise FormatError(self.path, None, f'expected a pose graph, with {POSE[d]} lines')
        robots, robot, number, order = _owners(index, np.isin(index, self._tags()))
        n = len(index)
        rotation, translation = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
        self.endpoint.update(zip(index[order].tolist(), range(n), strict=True))
        for block in vertices:
            row = self.ends(block, 0, 'pose')
            rotation[row], translation[row] = self.values(block)
        return robots, Poses(robot, number, np.zeros(n, dtype=np.int64), rotation, translation)

    def _tags(self) -> Index:
        """Ids that EDGE_SE3 lines name, and no line of odometry or loop closures."""
        blocks = [self.blocks.get(tag) for tag in ('EDGE_SE3', 'EDGE_SE3:QUAT')]
        if blocks[0] is None or blocks[1] is None:
            return np.zeros(0, dtype=np.int64)
        seen, driven = (np.concatenate([b.integers(1), b.integers(2)]) for b in blocks if b)
        return np.setdiff1d(seen, driven)

    def _landmarks(self) -> Landmarks:
        """Landmarks in the order of the file; those that only measurements name start at 0."""
        ids: list[int] = []
        position = np.zeros((0, self.dimension))
        for block in self.some(POINT[self.dimension]):
            ids, position = self._once(block).tolist(), self.position(block)
            for row, k in enumerate(ids):
                if self.endpoint.setdefault(k, ~row) != ~row:
                    block.fail(row, f'expected every id once, got {k} for a pose and a landmark')
        for block in self.some(*ENDS):
            for field, kind in enumerate(ENDS[block.tag], start=1):
                named = [] if kind == 'pose' else np.unique(block.integers(field)).tolist()
                for k in named:
                    if k not in self.endpoint:
                        self.endpoint[k] = ~len(ids)
                        ids.append(k)
        position = np.concatenate([position, np.zeros((len(ids) - len(position), self.dimension))])
        names = tuple(
            f'{letters}{k & (1 << LETTER_SHIFT) - 1}'
            if (letters := _letters(k >> LETTER_SHIFT)) else f'L{k}' for k in ids)
        if len(set(names)) < len(names):
            names = tuple(f'L{k}' for k in ids)
        return Landmarks(names, position, np.zeros(len(ids), dtype=bool))

    def _once(self, block: Block) -> Index:
        """Ids of vertices."""
        ids = block.integers(1)
        different, count = np.unique(ids, return_counts=True)
        if np.any(count > 1):
            twice = different[np.argmax(count > 1)]
            block.fail(int(np.flatnonzero(ids == twice)[1]),
                       f'expected every id once, got {twice} again')
        return ids

    # -- measurements ------------------------------------------------------------------------

    def _steps_and_closures(self, poses: Poses) -> RelativePoses:
        """Steps between a robot's neighbours are odometry, in whichever direction."""
        table = self.table(RelativePoses, lambda block: self.relative_poses(
            block, odometry='switch' not in block.fields), *RELATIVE[self.dimension])
        forward, back = steps(poses, np.arange(len(poses)), table.i, table.j)
        back &= table.odometry
        return turned(table.replaced(odometry=table.odometry & (forward | back)), back)

    def _sightings(self, block: Block) -> Sightings:
        table = self.sightings(block, 'landmark')
        if self.dimension == 2:
            return table
        turn, move = self._offsets(block)
        return table.replaced(
            translation=np.einsum('kij,kj->ki', turn, table.translation) + move)

    def _ranges(self, block: Block) -> Ranges:
        return self.ranges(block, ENDS.get(block.tag, ('pose', 'pose')))

    def _pose_priors(self, block: Block) -> PosePriors:
        table = self.pose_priors(block)
        if self.dimension == 2:
            return table
        # The prior is on the sensor: T_map_body = T_map_sensor * inverse(T_body_sensor).
        turn, move = self._offsets(block)
        rotation = table.rotation @ np.swapaxes(turn, 1, 2)
        return table.replaced(rotation=rotation, translation=table.translation - np.einsum(
            'kij,kj->ki', rotation, move))

    def _point_priors(self, block: Block) -> PointPriors:
        table = self.point_priors(block, ENDS.get(block.tag, ('pose',))[0])
        if 'paramId' not in block.fields:
            return table
        return table.replaced(lever=self._offsets(block)[1])

    def _offsets(self, block: Block) -> tuple[Array, Array]:
        """T_body_sensor of the records' parameter ids."""
        field, params = block.place('paramId'), self.blocks.get('PARAMS_SE3OFFSET')
        known = {} if params is None else {k: r for r, k in enumerate(params.integers(1).tolist())}
        rows = np.array([known.get(k, -1) for k in block.integers(field).tolist()])
        if params is None or np.any(rows < 0):
            block.expected('the id of a PARAMS_SE3OFFSET line', int(np.argmin(rows)), field)
        rotation, translation = self.values(params)
        return rotation[rows], translation[rows]

    def _with_fixed(self, graph: Graph) -> Graph:
        """Apply FIX: landmarks become known; one pose alone is a choice of frame."""
        fixed, held = graph.landmarks.fixed.copy(), []
        unused = {
            text.split()[1] for tag, lines in self.unused.items() if tag.startswith('VERTEX')
            for text in lines.texts if len(text.split()) > 1}
        for number, text in zip(self.fixed.numbers, self.fixed.texts, strict=True):
            for word in text.split()[1:]:
                endpoint = self.endpoint.get(int(word)) if _ID.fullmatch(word) else None
                if endpoint is None and word in unused:
                    continue
                if endpoint is None:
                    raise FormatError(
                        self.path, number, f'FIX: expected ids of vertices, got {word!r}')
                if endpoint < 0:
                    fixed[~endpoint] = True
                else:
                    held.append((number, endpoint))
        graph = graph.replaced(landmarks=replace(graph.landmarks, fixed=fixed))
        if len({endpoint for _, endpoint in held}) > 1 or (held and graph.anchored):
            raise FormatError(
                self.path, held[-1][0],
                'FIX: expected at most one fixed pose, and none beside priors or fixed '
                'landmarks; give poses that are known a prior (EDGE_PRIOR_SE2, EDGE_SE3_PRIOR)')
        return graph


def _owners(ids: Index, tags: Mask) -> tuple[tuple[str, ...], Index, Index, Index]:
    """Robots, and for the poses in their order: robot, number, and place in `ids` (increasing).

    Ids with letters in their top bytes are keys of GTSAM, a robot per letter; others are plain
    numbers of robot A.
    """
    top, row = np.unique(ids >> LETTER_SHIFT, return_inverse=True)
    letters = np.array([_letters(word) for word in top.tolist()])[row]
    number = np.where(letters == '', ids, ids & (1 << LETTER_SHIFT) - 1)
    order = np.argsort(tags, kind='stable')
    owner = np.where(tags, TAGS, letters)[order].tolist()
    robots = {name: k for k, name in enumerate(dict.fromkeys(owner))}
    plain = next(c for c in string.ascii_uppercase if c not in robots)
    return (
        tuple(name or plain for name in robots), np.array([robots[name] for name in owner]),
        number[order], order)


def _letters(top: int) -> str:
    """The one or two letters in the top 16 bits of a key; '' for those of a plain number."""
    first, second = map(chr, divmod(top, 256))
    word = (first + second).rstrip('\0')
    return word if word.isascii() and word.isalnum() and first.isalpha() else ''


def _told(numbers: Sequence[int], tag: str) -> str:
    """`3 lines FIX (first: line 12) are`, for a sentence."""
    if len(numbers) == 1:
        return f'line {numbers[0]}, {tag}, is'
    return f'{len(numbers)} lines {tag} (first: line {numbers[0]}) are'


def _records(graph: Graph) -> Iterator[str]:
    """All lines of a graph."""
    d, point = graph.dimension, graph.point_priors
    keys = np.array([0] if graph.robots == ('A',) else list(map(_key, graph.robots)))
    poses = (keys[graph.poses.robot] + graph.poses.index).tolist()
    landmarks = _landmark_ids(graph.landmarks.names, poses, _KEYED if np.any(keys) else _NUMBERED)
    writer = GraphWriter(graph, GRAMMAR[d], poses, landmarks)
    yield from writer.vertices(POINT[d])
    yield from record_lines('FIX', writer.names(~np.flatnonzero(graph.landmarks.fixed)))
    edges = [line for tag, table in (
        (RELATIVE[d][0], graph.relative_poses),
        (SIGHTING[d], graph.sightings),
        ('EDGE_RANGE', graph.ranges),
        (POSE_PRIOR[d], graph.pose_priors),
        (POINT_PRIORS[d][0], point.take(point.point >= 0)),
        (POINT_PRIORS[d][-1], point.take(point.point < 0)),
    ) for line in writer.lines(tag, table)]
    for number, offset in enumerate(writer.offsets):
        yield f'PARAMS_SE3OFFSET {number} {" ".join(map(repr, offset))} 0.0 0.0 0.0 1.0'
    yield from edges


def _key(letters: str) -> int:
    """The key number 0 of a robot or landmark; 0 where the name is no letter."""
    if not _KEY_LETTERS.fullmatch(letters):
        return 0
    return int.from_bytes(letters.encode().ljust(2, b'\0'), 'big') << LETTER_SHIFT


def _landmark_ids(
    names: Sequence[str], poses: Sequence[int], form: re.Pattern[str]
) -> list[int]:
    """The numbers or keys in the landmarks' names, or new numbers where those are taken."""
    parts = [form.fullmatch(name) for name in names]
    ids = [int(part[2]) + (0 if part[1] == 'L' else _key(part[1])) for part in parts if part]
    if len(set(ids)) == len(names) and set(ids).isdisjoint(poses):
        return ids
    first = max(poses, default=-1) + 1
    return list(range(first, first + len(names)))
