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
    concatenated,
    empty,
)
from ..graph.graph import counted
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
    read_lines,
    read_records,
    record_lines,
    replace_values,
    symmetric,
    upper_diagonal,
    value_texts,
)

_I2 = '[I11 I12 I22]'
_I3 = '[I11 I12 I13 I22 I23 I33]'
_I6 = f'[{" ".join(f"I{r}{c}" for r in range(1, 7) for c in range(r, 7))}]'
_QUAT = 'x y z qx qy qz qw'
_STEP = 'dx dy dz qx qy qz qw'

# Beside g2o's own: ranges of several authors, RTAB-Map's tags (EDGE_SE3), hdl_graph_slam's position
# fixes (EDGE_SE3_PRIORXYZ), Vertigo's switchable loop closures.
USAGE = {
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
GRAMMAR = {d: {usage.split()[0]: usage for usage in USAGE[d]} for d in USAGE}
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
    if np.any(graph.sightings.point >= 0):
        raise GraphError('a .g2o file cannot hold sightings of poses; write a .pyfg file')
    atomic.write_text(path, '\n'.join(_G2oWriter(graph).records()) + '\n')


def rewrite_vertices(source: Path | str, target: Path | str, graph: Graph) -> None:
    """Copy a file with the values of `graph`, read from it and solved, in its vertex lines.

    Vertices that the file lacks are put before its first line.
    """
    reader = _G2oReader(Path(source))
    original = reader.graph()
    if (original.n_poses, original.n_landmarks) != (graph.n_poses, graph.n_landmarks):
        raise GraphError(f'the graph to write was not read from {source}: it has other variables')
    poses, landmarks = value_texts(graph)
    pose_tag, point_tag = (USAGE[graph.dimension][k].split()[0] for k in (0, 1))
    value, missing = {}, set(reader.endpoint)
    for words in map(str.split, read_lines(Path(source))):
        if words and words[0] in (pose_tag, point_tag):
            # Ids may be written in several ways, such as 007.
            end = reader.endpoint[int(words[1])]
            value[words[1]] = poses[end] if end >= 0 else landmarks[~end]
            missing.discard(int(words[1]))
    lines = [
        f'{pose_tag} {k} {poses[end]}' if end >= 0 else f'{point_tag} {k} {landmarks[~end]}'
        for k, end in reader.endpoint.items() if k in missing]
    lines += replace_values(source, {pose_tag: (1, 2), point_tag: (1, 2)}, value)
    atomic.write_text(target, '\n'.join(lines) + '\n')


class _G2oReader:
    """One file on its way to a graph."""

    def __init__(self, path: Path) -> None:
        self.path = path
        records = read_records(path)
        self.fixed = records.pop('FIX', Lines([], []))
        self.dimension = _dimension(path, records)
        grammar = GRAMMAR[self.dimension]
        self.unused = {tag: records.pop(tag) for tag in list(records) if tag not in grammar}
        self.blocks = as_blocks(path, records, grammar)
        self.endpoint: dict[int, int] = {}
        """Variables by their ids, filled by `graph`."""

    def graph(self) -> Graph:
        """The graph; FormatError with file and line for anything that is not as it must be."""
        d = self.dimension
        robots, poses = self._poses()
        landmarks = self._landmarks()
        with np.errstate(all='ignore'):  # weights of extreme information are judged afterwards
            graph = Graph(
                d, robots, poses, landmarks,
                relative_poses=self._relative_poses(poses),
                sightings=self._sightings(),
                ranges=self._ranges(),
                pose_priors=self._pose_priors(),
                point_priors=self._point_priors(),
                name=self.path.stem,
                remarks=tuple(self._remarks()),
            )
        return self._with_fixed(graph)

    def _remarks(self) -> Iterator[str]:
        """Sentences on what was left out or assumed, one per keyword."""
        for tag, lines in self.unused.items():
            yield (f'{_told(lines.numbers, tag[:40])} left out: sparser has no such variable '
                   'or measurement')
        vertices = self.blocks.get(USAGE[self.dimension][1].split()[0], ())
        missing = sum(end < 0 for end in self.endpoint.values()) - len(vertices)
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
        tag = USAGE[d][0].split()[0]
        vertices = self.blocks.get(tag)
        ids = [np.zeros(0, dtype=np.int64)]
        if vertices is not None:
            ids.append(vertices.integers(1))
            self._once(vertices)
        for edges in self._some(*RELATIVE[d]):
            ids += [edges.integers(1), edges.integers(2)]
        index = np.unique(np.concatenate(ids))
        if not len(index):
            raise FormatError(self.path, None, f'expected a pose graph, with {tag} lines')
        robots, robot, number, order = _owners(index, np.isin(index, self._tags()))
        index = index[order]
        n = len(index)
        rotation, translation = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
        self.endpoint.update(zip(index.tolist(), range(n), strict=True))
        if vertices is not None:
            row = self._endpoints(vertices, 1, 'pose')
            rotation[row], translation[row] = self._values(vertices, 2)
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
        d = self.dimension
        block = self.blocks.get(USAGE[d][1].split()[0])
        ids: list[int] = []
        position = np.zeros((0, d))
        if block is not None:
            ids, position = block.integers(1).tolist(), block.numbers(2, d)
            self._once(block)
            for row, k in enumerate(ids):
                if self.endpoint.setdefault(k, ~row) != ~row:
                    block.fail(row, f'expected every id once, got {k} for a pose and a landmark')
        for block in self._some(*ENDS):
            for field, kind in enumerate(ENDS[block.tag], start=1):
                named = [] if kind == 'pose' else np.unique(block.integers(field)).tolist()
                for k in named:
                    if k not in self.endpoint:
                        self.endpoint[k] = ~len(ids)
                        ids.append(k)
        position = np.concatenate([position, np.zeros((len(ids) - len(position), d))])
        names = tuple(
            f'{_letters(k >> LETTER_SHIFT)}{k & (1 << LETTER_SHIFT) - 1}'
            if _letters(k >> LETTER_SHIFT) else f'L{k}' for k in ids)
        if len(set(names)) < len(names):
            names = tuple(f'L{k}' for k in ids)
        return Landmarks(names, position, np.zeros(len(ids), dtype=bool))

    # -- measurements ------------------------------------------------------------------------

    def _relative_poses(self, poses: Poses) -> RelativePoses:
        """Steps between a robot's neighbours are odometry, in whichever direction."""
        d = self.dimension
        tables = [empty(RelativePoses, d)]
        for block in self._some(*RELATIVE[d]):
            i, j = self._endpoints(block, 1, 'pose'), self._endpoints(block, 2, 'pose')
            block.require(i != j, 'expected two different poses')
            first = 4 if 'switch' in block.fields else 3
            rotation, translation = self._values(block, first)
            kappa, tau = self._weights(block, first + (3 if d == 2 else 7))
            tables.append(RelativePoses(
                i, j, rotation, translation, kappa, tau, np.full(len(i), first == 3),
                np.zeros(len(i), dtype=np.int64)))
        table = concatenated(tables)
        forward, back = steps(poses, np.arange(len(poses)), table.i, table.j)
        back &= table.odometry
        return turned(table.replaced(odometry=table.odometry & (forward | back)), back)

    def _sightings(self) -> Sightings:
        d = self.dimension
        block = self.blocks.get('EDGE_SE2_XY' if d == 2 else 'EDGE_SE3_TRACKXYZ')
        if block is None:
            return empty(Sightings, d)
        first = 3 if d == 2 else 4
        seen = block.numbers(first, d)
        if d == 3:
            turn, move = self._offsets(block, 3)
            seen = np.einsum('kij,kj->ki', turn, seen) + move
        return Sightings(
            self._endpoints(block, 1, 'pose'), self._endpoints(block, 2, 'landmark'), seen,
            self._point_weights(block, first + d), np.zeros(len(block), dtype=np.int64))

    def _ranges(self) -> Ranges:
        d = self.dimension
        tables = [empty(Ranges, d)]
        for block in self._some(*RANGES):
            source, target = (
                self._endpoints(block, field, kind)
                for field, kind in enumerate(ENDS.get(block.tag, ('pose', 'pose')), start=1))
            block.require(source != target, 'expected two different variables')
            distance, information = block.numbers(3, 1)[:, 0], block.numbers(4, 1, LARGEST)[:, 0]
            block.require(distance > 0, 'expected a range > 0 m')
            lever = np.zeros((len(block), d))
            tables.append(Ranges(
                source, target, lever, lever, distance, block.weights(information),
                np.zeros(len(block), dtype=np.int64)))
        return concatenated(tables)

    def _pose_priors(self) -> PosePriors:
        d = self.dimension
        block = self.blocks.get('EDGE_PRIOR_SE2' if d == 2 else 'EDGE_SE3_PRIOR')
        if block is None:
            return empty(PosePriors, d)
        first = 2 if d == 2 else 3
        rotation, translation = self._values(block, first)
        kappa, tau = self._weights(block, first + (3 if d == 2 else 7))
        if d == 3:
            # The prior is on the sensor: T_map_body = T_map_sensor * inverse(T_body_sensor).
            turn, move = self._offsets(block, 2)
            rotation = rotation @ np.swapaxes(turn, 1, 2)
            translation = translation - np.einsum('kij,kj->ki', rotation, move)
        return PosePriors(
            self._endpoints(block, 1, 'pose'), rotation, translation, kappa, tau,
            np.zeros(len(block), dtype=np.int64))

    def _point_priors(self) -> PointPriors:
        d = self.dimension
        tables = [empty(PointPriors, d)]
        for block in self._some(*POINT_PRIORS[d]):
            first, lever = 2, np.zeros((len(block), d))
            if 'paramId' in block.fields:
                first, lever = 3, self._offsets(block, 2)[1]
            tables.append(PointPriors(
                self._endpoints(block, 1, ENDS.get(block.tag, ('pose',))[0]), lever,
                block.numbers(first, d), self._point_weights(block, first + d),
                np.zeros(len(block), dtype=np.int64)))
        return concatenated(tables)

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
        marks = graph.landmarks
        graph = graph.replaced(landmarks=Landmarks(marks.names, marks.position, fixed))
        if len({endpoint for _, endpoint in held}) > 1 or (held and graph.anchored):
            raise FormatError(
                self.path, held[-1][0],
                'FIX: expected at most one fixed pose, and none beside priors or fixed '
                'landmarks; give poses that are known a prior (EDGE_PRIOR_SE2, EDGE_SE3_PRIOR)')
        return graph

    # -- fields ------------------------------------------------------------------------------

    def _once(self, block: Block) -> None:
        ids, count = np.unique(block.integers(1), return_counts=True)
        if np.any(count > 1):
            again = ids[np.argmax(count > 1)]
            row = int(np.flatnonzero(block.integers(1) == again)[1])
            block.fail(row, f'expected every id once, got {again} again')

    def _some(self, *tags: str) -> list[Block]:
        """The records of the keywords that the file has."""
        return [self.blocks[tag] for tag in tags if tag in self.blocks]

    def _endpoints(self, block: Block, field: int, kind: str) -> Index:
        ids = block.integers(field).tolist()
        endpoint = [self.endpoint.get(k) for k in ids]
        for row, value in enumerate(endpoint):
            if value is None or (kind and (value >= 0) != (kind == 'pose')):
                block.expected(f'the id of a {kind or "variable"}', row, field)
        return np.array(endpoint, dtype=np.int64)

    def _offsets(self, block: Block, field: int) -> tuple[Array, Array]:
        """T_body_sensor of the records' parameter ids."""
        params = self.blocks.get('PARAMS_SE3OFFSET')
        known = {} if params is None else {k: r for r, k in enumerate(params.integers(1).tolist())}
        rows = np.array([known.get(k, -1) for k in block.integers(field).tolist()])
        if params is None or np.any(rows < 0):
            block.expected('the id of a PARAMS_SE3OFFSET line', int(np.argmin(rows)), field)
        rotation, translation = self._values(params, 2)
        return rotation[rows], translation[rows]

    def _values(self, block: Block, first: int) -> tuple[Array, Array]:
        """Rotations and translations that start at a field."""
        values = block.numbers(first, 3)
        if self.dimension == 2:
            return angle_to_matrix(values[:, 2]), values[:, :2].copy()
        return quat_to_matrix(block.quaternions(first + 3)), values

    def _weights(self, block: Block, first: int) -> tuple[Array, Array]:
        """Rotation and translation weights of information matrices that start at a field."""
        d = self.dimension
        size = 3 * (d - 1)
        information = symmetric(block.numbers(first, size * (size + 1) // 2, LARGEST), size)
        return (
            block.weights(kappa_from_covariance(
                self._inverse(block, information[:, d:, d:], 'rotation'))),
            block.weights(tau_from_covariance(
                self._inverse(block, information[:, :d, :d], 'translation'))),
        )

    def _point_weights(self, block: Block, first: int) -> Array:
        d = self.dimension
        information = symmetric(block.numbers(first, d * (d + 1) // 2, LARGEST), d)
        return block.weights(tau_from_covariance(self._inverse(block, information, 'position')))

    @staticmethod
    def _inverse(block: Block, information: Array, what: str) -> Array:
        # A determinant of 0 beside eigenvalues above 0 is their rounding.
        block.require(
            (np.linalg.eigvalsh(information)[:, 0] > 0) & (np.linalg.det(information) != 0),
            f'expected a positive definite {what} block in the information matrix')
        return np.asarray(np.linalg.inv(information))


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


def _dimension(path: Path, records: dict[str, Lines]) -> int:
    """The dimension that the keywords of a file agree on."""
    first = {}
    for d, other in ((2, 3), (3, 2)):
        own = [records[tag].numbers[0] for tag in records
               if tag in GRAMMAR[d] and tag not in GRAMMAR[other] and tag != 'PARAMS_SE3OFFSET']
        if own:
            first[d] = min(own)
    if len(first) == 2:
        raise FormatError(
            path, max(first.values()), 'expected one dimension, got 2D and 3D records in one file')
    if not first:
        if records:
            as_blocks(path, records, {**GRAMMAR[2], **GRAMMAR[3]})
        raise FormatError(path, None, 'expected a pose graph, with VERTEX and EDGE lines')
    return next(iter(first))


class _G2oWriter:
    """One graph on its way to lines."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.plane = graph.dimension == 2
        keys = np.array([0] if graph.robots == ('A',) else list(map(_key, graph.robots)))
        self.poses = (keys[graph.poses.robot] + graph.poses.index).tolist()
        self.landmarks = _landmark_ids(
            graph.landmarks.names, self.poses, _KEYED if np.any(keys) else _NUMBERED)
        self.offsets: list[tuple[float, ...]] = []

    def records(self) -> Iterator[str]:
        graph, plane = self.graph, self.plane
        poses, landmarks = value_texts(graph)
        yield from record_lines('VERTEX_SE2' if plane else 'VERTEX_SE3:QUAT', self.poses, poses)
        yield from record_lines(
            'VERTEX_XY' if plane else 'VERTEX_TRACKXYZ', self.landmarks, landmarks)
        fixed = np.flatnonzero(graph.landmarks.fixed)
        yield from record_lines('FIX', [self.landmarks[k] for k in fixed])
        edges = list(self._edges())
        for number, offset in enumerate(self.offsets):
            values = ' '.join(map(repr, offset))
            yield f'PARAMS_SE3OFFSET {number} {values} 0.0 0.0 0.0 1.0'
        yield from edges

    def _edges(self) -> Iterator[str]:
        graph, plane, d = self.graph, self.plane, self.graph.dimension
        rel, see, ranges = graph.relative_poses, graph.sightings, graph.ranges
        pose, point = graph.pose_priors, graph.point_priors
        body = self._offset(np.zeros((max(len(see), len(pose)), d)))
        yield from record_lines(
            'EDGE_SE2' if plane else 'EDGE_SE3:QUAT', self._names(rel.i), self._names(rel.j),
            number_texts(pose_values(rel.rotation, rel.translation)),
            self._pose_information(rel.kappa, rel.tau))
        yield from record_lines(
            'EDGE_SE2_XY' if plane else 'EDGE_SE3_TRACKXYZ', self._names(see.i),
            self._names(see.point), *([] if plane else [body[: len(see)]]),
            number_texts(see.translation), self._point_information(see.tau))
        yield from record_lines(
            'EDGE_RANGE', self._names(ranges.source), self._names(ranges.target),
            number_texts(np.column_stack([ranges.distance_m, ranges.precision])))
        yield from record_lines(
            'EDGE_PRIOR_SE2' if plane else 'EDGE_SE3_PRIOR', self._names(pose.i),
            *([] if plane else [body[: len(pose)]]),
            number_texts(pose_values(pose.rotation, pose.translation)),
            self._pose_information(pose.kappa, pose.tau))
        on_pose = point.point >= 0
        fix, mark = point.take(on_pose), point.take(~on_pose)
        if plane and np.any(fix.lever):
            raise GraphError('a 2D .g2o file cannot hold antennas; write a .pyfg file')
        yield from record_lines(
            'EDGE_PRIOR_SE2_XY' if plane else 'EDGE_SE3_XYZ_PRIOR', self._names(fix.point),
            *([] if plane else [self._offset(fix.lever)]),
            number_texts(fix.position), self._point_information(fix.precision))
        yield from record_lines(
            'EDGE_PRIOR_XY' if plane else 'EDGE_POINTXYZ_PRIOR', self._names(mark.point),
            number_texts(mark.position), self._point_information(mark.precision))

    def _offset(self, lever: Array) -> list[int]:
        """Ids of PARAMS_SE3OFFSET lines, one per distinct lever arm; the plane has none."""
        numbers: list[int] = []
        if self.plane:
            return numbers
        for row in map(tuple, lever.tolist()):
            if row not in self.offsets:
                self.offsets.append(row)
            numbers.append(self.offsets.index(row))
        return numbers

    def _names(self, endpoint: Index) -> list[int]:
        return [self.poses[e] if e >= 0 else self.landmarks[~e] for e in endpoint.tolist()]

    def _pose_information(self, kappa: Array, tau: Array) -> list[str]:
        if np.any(kappa <= 0):
            raise GraphError('a .g2o file cannot hold kappa = 0; use a position prior')
        d = self.graph.dimension
        turn = (1 / rotation_variance(kappa, d))[:, None].repeat(1 if d == 2 else 3, axis=1)
        move = (1 / translation_variance(tau))[:, None].repeat(d, axis=1)
        return number_texts(upper_diagonal(np.column_stack([move, turn])))

    def _point_information(self, precision: Array) -> list[str]:
        move = (1 / translation_variance(precision))[:, None].repeat(self.graph.dimension, axis=1)
        return number_texts(upper_diagonal(move))


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
