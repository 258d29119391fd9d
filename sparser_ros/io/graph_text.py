"""Graphs in line records: what `.pyfg` and `.g2o` files have in common, read and written.

A line is one keyword and a fixed number of fields. Fields are converted a whole column at a time;
only when that fails are lines looked at one by one, to name the first faulty line and field. A
format says what its keywords are, how it names variables, and whether it states noise as covariance
or information.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from ..array_types import Array, Index, Mask
from ..config import FormatError, GraphError
from ..graph import (
    Graph,
    Heights,
    PointPriors,
    PosePriors,
    Ranges,
    RelativePoses,
    Sightings,
    Verticals,
    concatenated,
    empty,
)
from ..graph.precision import (
    kappa_from_covariance,
    rotation_variance,
    tau_from_covariance,
    translation_variance,
)
from ..graph.table import MOST_LENGTH_M, Table
from ..linalg.rotations import angle_to_matrix, matrix_to_angle, matrix_to_quat, quat_to_matrix
from .stamp_text import format_stamps

T = TypeVar('T', bound=Table)
LONGEST_M = MOST_LENGTH_M / 10
"""Lengths in a file lie below this: what two of them make is none that a graph refuses."""
LARGEST = MOST_LENGTH_M**2
"""Weights, variances and information in a file lie below this, and weights above its inverse."""
COMMENT = re.compile(r'(?<!\S)#.*')
"""From a # at the start of a line or after a space: a name may hold one."""
POSE = {2: 'VERTEX_SE2', 3: 'VERTEX_SE3:QUAT'}
"""Keywords of poses by dimension."""
LEVERS = (('lever_x', 'lever'), ('lever_A_x', 'lever_source'), ('lever_B_x', 'lever_target'))
"""Fields that begin a lever arm, and the columns that hold it."""


@dataclass(frozen=True)
class Block:
    """All records of one keyword, in file order."""

    path: Path
    fields: tuple[str, ...]
    """Names of the fields; the first is the keyword itself."""
    lines: list[int]
    """Line number of every record, from 1."""
    tokens: list[str]
    """Fields of all records, one after the other."""
    without_information: tuple[int, ...] = ()
    """Line numbers of the records that lack an information matrix: the identity stands for it."""

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def tag(self) -> str:
        return self.fields[0]

    def place(self, *names: str) -> int:
        """Number of the field with one of these names."""
        return next(k for k, name in enumerate(self.fields) if name in names)

    def words(self, field: int) -> list[str]:
        """One text field of every record."""
        return self.tokens[field :: len(self.fields)]

    def numbers(self, first: int, count: int, most: float = LONGEST_M) -> Array:
        """(n, count): numbers below `most` of adjacent fields; FormatError at the first bad."""
        values = np.empty((len(self), count))
        for k in range(count):
            values[:, k] = self.converted(float, first + k, 'a number')
        good = np.abs(values) < most
        if not np.all(good):
            row, k = np.argwhere(~good)[0]
            what = f'a number below {most:g}' if np.isfinite(values[row, k]) else (
                'a finite number')
            self.expected(what, int(row), first + int(k))
        return values

    def integers(self, field: int) -> Index:
        """(n,): one field of non-negative integers."""
        values = self.converted(int, field, 'an integer')
        if min(values) < 0:
            self.expected('an integer >= 0', values.index(min(values)), field)
        if max(values) >= 2**63:
            self.expected('an integer below 2^63', values.index(max(values)), field)
        return np.array(values, dtype=np.int64)

    def converted(self, kind: Callable[[str], Any], field: int, what: str) -> list[Any]:
        """One field of every record; FormatError at the first that `kind` refuses."""
        words = self.words(field)
        try:
            return list(map(kind, words))
        except ValueError:
            for row, word in enumerate(words):
                try:
                    kind(word)
                except ValueError:
                    self.expected(what, row, field)
            raise

    def weights(self, values: Array) -> Array:
        """The weights (n,) as they are; FormatError at the first that no noise can have."""
        self.require(
            (values > 1 / LARGEST) & (values < LARGEST),
            f'expected standard deviations from {LARGEST**-0.5:g} to {LARGEST**0.5:g}')
        return values

    def expected(self, what: str, row: int, field: int) -> NoReturn:
        """Raise FormatError: the field of a record is not what it must be."""
        got = self.tokens[row * len(self.fields) + field]
        self.fail(row, f'expected {what} for {self.fields[field]}, got {got!r}')

    def fail(self, row: int, message: str) -> NoReturn:
        """Raise FormatError at a record's line."""
        raise FormatError(self.path, self.lines[row], f'{self.tag}: {message}')

    def require(self, good: Mask, message: str) -> None:
        """Raise FormatError at the first record for which `good` is false."""
        if not np.all(good):
            self.fail(int(np.argmin(good)), message)


@dataclass
class Lines:
    """The lines of one keyword, not yet taken apart."""

    numbers: list[int]
    texts: list[str]


def read_records(path: Path) -> dict[str, Lines]:
    """The lines of a file by keyword, without blank lines and comments."""
    records: dict[str, Lines] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if '#' in line:
            line = COMMENT.sub('', line)
        head = line.split(None, 1)
        if not head:
            continue
        lines = records.get(head[0])
        if lines is None:
            lines = records[head[0]] = Lines([], [])
        lines.numbers.append(number)
        lines.texts.append(line)
    return records


def as_blocks(
    path: Path, records: Mapping[str, Lines], grammar: Mapping[str, str]
) -> dict[str, Block]:
    """The fields of all records; `grammar` maps a keyword to its line in words.

    Fields in brackets at the end are an information matrix, which a line may lack as a whole.
    Raises FormatError for an unknown keyword or a wrong number of fields.
    """
    unknown = [tag for tag in records if tag not in grammar]
    if unknown:
        tag = min(unknown, key=lambda t: records[t].numbers[0])
        raise FormatError(
            path, records[tag].numbers[0],
            f'expected one of {", ".join(sorted(grammar))}; got {tag[:40]!r}')
    return {tag: _block(path, grammar[tag], lines) for tag, lines in records.items()}


def _block(path: Path, usage: str, lines: Lines) -> Block:
    required, _, information = usage.rstrip(']').partition('[')
    fields = (*required.split(), *information.split())
    width, least = len(fields), len(required.split())
    identity = ['1' if name[1] == name[2] else '0' for name in fields[least:]]
    tokens: list[str] = []
    short: list[int] = []
    for number, text in zip(lines.numbers, lines.texts, strict=True):
        words = text.split()
        if len(words) == least < width:
            short.append(number)
            words += identity
        if len(words) != width:
            raise FormatError(
                path, number,
                f'{fields[0]}: expected {width} fields ({usage}), got {len(words)}')
        tokens += words
    return Block(path, fields, lines.numbers, tokens, tuple(short))


def read_lines(path: Path) -> list[str]:
    """The lines of a text file without their ends; FormatError when it cannot be read.

    Byte order marks are dropped. Bytes that are no UTF-8 (comments of old editors) are Latin-1.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FormatError(path, None, f'cannot be read: {error.strerror or error}') from None
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode('utf-16' if wide else 'utf-8-sig')
    except UnicodeDecodeError:
        text = data.decode('latin-1')
    lines = text.replace('\r\n', '\n').replace('\r', '\n').split('\n')
    if '\0' in text:
        row = next(k for k, line in enumerate(lines) if '\0' in line)
        raise FormatError(path, row + 1, 'is not a text file: a byte of value 0')
    return lines if lines[-1] else lines[:-1]


class GraphReader(ABC):
    """One file on its way to a graph: tables of the records of a keyword."""

    END: int
    """Field of the first end of a measurement."""
    UNKNOWN, OTHER = 'the id of a {}', 'the id of a {}'
    """What is expected where an end is unknown, and where it is of another kind."""
    POINT: Mapping[int, str]
    """Keywords of landmarks by dimension."""

    def __init__(self, path: Path, dimension: int, blocks: Mapping[str, Block]) -> None:
        self.path, self.dimension, self.blocks = path, dimension, blocks
        self.endpoint: dict[Any, int] = {}
        """Variables by their names in the file, filled by `graph`."""

    @abstractmethod
    def graph(self) -> Graph:
        """The graph; FormatError with file and line for anything that is not as it must be."""

    def key(self, word: str) -> Any:
        """The name of a variable, from its field of a vertex line."""
        return word

    def keys(self, block: Block, field: int) -> list[Any]:
        """Names of variables in a field."""
        return block.words(field)

    @abstractmethod
    def covariance(self, block: Block, noise: Array, what: str) -> Array:
        """Covariances (k, s, s) of diagonal blocks of the matrices that state the noise."""

    def stamps(self, block: Block) -> Index:
        """(k,) int nanoseconds."""
        return np.zeros(len(block), dtype=np.int64)

    def some(self, *tags: str) -> list[Block]:
        """The records of the keywords that the file has."""
        return [self.blocks[tag] for tag in tags if tag in self.blocks]

    def table(self, kind: type[T], read: Callable[[Block], T], *tags: str) -> T:
        """One table of all records of some keywords."""
        return concatenated([empty(kind, self.dimension), *map(read, self.some(*tags))])

    def ends(self, block: Block, number: int, kind: str = '') -> Index:
        """(k,) endpoints; `number` 0 or 1, `kind` pose, landmark or any."""
        field = self.END + number
        ends = [self.endpoint.get(key) for key in self.keys(block, field)]
        if None in ends:
            block.expected(self.UNKNOWN.format(kind or 'variable'), ends.index(None), field)
        endpoint = np.array(ends, dtype=np.int64)
        good = endpoint >= 0 if kind == 'pose' else endpoint < 0
        if kind and not np.all(good):
            block.expected(self.OTHER.format(kind), int(np.argmin(good)), field)
        return endpoint

    def two_ends(self, block: Block, kinds: Sequence[str] = ('', '')) -> tuple[Index, Index]:
        """Both ends of the measurements between two variables."""
        i, j = self.ends(block, 0, kinds[0]), self.ends(block, 1, kinds[1])
        what = 'poses' if tuple(kinds) == ('pose', 'pose') else 'variables'
        block.require(i != j, f'expected two different {what}')
        return i, j

    def relative_poses(self, block: Block, *, odometry: bool) -> RelativePoses:
        i, j = self.two_ends(block, ('pose', 'pose'))
        return RelativePoses(
            i, j, *self.values(block), *self.pose_weights(block), np.full(len(i), odometry),
            self.stamps(block))

    def sightings(self, block: Block, kind: str = '') -> Sightings:
        i, point = self.two_ends(block, ('pose', kind))
        return Sightings(i, point, self.position(block), self.point_weights(block),
                         self.stamps(block))

    def ranges(self, block: Block, kinds: Sequence[str] = ('', '')) -> Ranges:
        """Ranges between antennas; the field after the range is a variance or information."""
        source, target = self.two_ends(block, kinds)
        distance = block.numbers(block.place('range'), 1)[:, 0]
        block.require(distance > 0, 'expected a range > 0 m')
        return Ranges(
            source, target, self.lever(block, 'lever_A_x', source),
            self.lever(block, 'lever_B_x', target), distance, _precision(block), self.stamps(block))

    def pose_priors(self, block: Block) -> PosePriors:
        return PosePriors(self.ends(block, 0, 'pose'), *self.values(block),
                          *self.pose_weights(block), self.stamps(block))

    def point_priors(self, block: Block, kind: str) -> PointPriors:
        """Positions of landmarks, or of antennas of poses."""
        point = self.ends(block, 0, kind)
        return PointPriors(point, self.lever(block, 'lever_x', point), self.position(block),
                           self.point_weights(block), self.stamps(block))

    def verticals(self, block: Block) -> Verticals:
        """Directions of any length but 0."""
        up = block.numbers(block.place('ux'), self.dimension)
        length = np.linalg.norm(up, axis=1, keepdims=True)
        block.require(length[:, 0] > 1e-6, 'expected a direction of norm 1, got one of norm 0')
        return Verticals(
            self.ends(block, 0, 'pose'), up / length, _precision(block), self.stamps(block))

    def heights(self, block: Block, kind: str) -> Heights:
        """Heights of landmarks, or of sensors of poses."""
        point = self.ends(block, 0, kind)
        return Heights(point, self.lever(block, 'lever_x', point),
                       block.numbers(block.place('height'), 1)[:, 0], _precision(block),
                       self.stamps(block))

    def lever(self, block: Block, first: str, end: Index) -> Array:
        """(k, d) metres: lever arms at the ends, zero where the lines lack the field `first`."""
        if first not in block.fields:
            return np.zeros((len(block), self.dimension))
        lever = block.numbers(block.place(first), self.dimension)
        block.require((end >= 0) | ~np.any(lever, axis=1), 'a landmark has no lever arm')
        return lever

    def position(self, block: Block) -> Array:
        """(k, d) metres."""
        return block.numbers(block.place('x', 'dx'), self.dimension)

    def values(self, block: Block) -> tuple[Array, Array]:
        """Rotations (k, d, d) and translations (k, d)."""
        first = block.place('x', 'dx')
        values = block.numbers(first, 3)
        if self.dimension == 2:
            return angle_to_matrix(values[:, 2]), values[:, :2].copy()
        quaternion = block.numbers(first + 3, 4)
        block.require(np.linalg.norm(quaternion, axis=1) > 1e-6,
                      'expected a quaternion x y z w of norm 1, got one of norm 0')
        return quat_to_matrix(quaternion), values

    def pose_weights(self, block: Block) -> tuple[Array, Array]:
        """Weights (k,) of rotations and translations."""
        d = self.dimension
        noise = _matrices(block, 3 * (d - 1))
        return (
            block.weights(kappa_from_covariance(
                self.covariance(block, noise[:, d:, d:], 'rotation'))),
            block.weights(tau_from_covariance(
                self.covariance(block, noise[:, :d, :d], 'translation'))))

    def point_weights(self, block: Block) -> Array:
        """Weights (k,) of positions."""
        noise = _matrices(block, self.dimension)
        return block.weights(tau_from_covariance(self.covariance(block, noise, 'position')))

    def rewritten(self, graph: Graph) -> str:
        """The text of the file with the values of `graph`, solved, in its vertex lines.

        Vertices that the file lacks are put before its first line.
        """
        original = self.graph()
        if (original.n_poses, original.n_landmarks) != (graph.n_poses, graph.n_landmarks):
            raise GraphError(
                f'the graph to write was not read from {self.path}: it has other variables')
        poses, landmarks = vertex_values(graph)
        missing = dict(self.endpoint)
        lines = []
        for line in read_lines(self.path):
            words = line.split()
            if words and words[0] in (POSE[graph.dimension], self.POINT[graph.dimension]):
                name = self.END if words[0] == POSE[graph.dimension] else 1
                end = self.endpoint[self.key(words[name])]
                missing.pop(self.key(words[name]), None)
                value = poses[end] if end >= 0 else landmarks[~end]
                line = ' '.join([*words[:name + 1], value, *COMMENT.findall(line)])
            lines.append(line)
        first = [
            f'{POSE[graph.dimension]} {key} {poses[end]}' if end >= 0
            else f'{self.POINT[graph.dimension]} {key} {landmarks[~end]}'
            for key, end in missing.items()]
        return '\n'.join([*first, *lines]) + '\n'


def upper_triangle(letter: str, size: int) -> str:
    """Names of the fields of a symmetric matrix, row by row: `c11 c12 c22`."""
    return ' '.join(f'{letter}{r}{c}' for r in range(1, size + 1) for c in range(r, size + 1))


def dimension_of(
    path: Path, records: Mapping[str, Lines], grammar: Mapping[int, Mapping[str, str]],
    nothing: str,
) -> int:
    """The dimension that the keywords of a file agree on; FormatError saying `nothing`."""
    first = {}
    for d, other in ((2, 3), (3, 2)):
        own = [records[tag].numbers[0] for tag in records
               if tag in grammar[d] and tag not in grammar[other]]
        if own:
            first[d] = min(own)
    if len(first) == 2:
        raise FormatError(
            path, max(first.values()), 'expected one dimension, got 2D and 3D records in one file')
    if not first:
        line = min((lines.numbers[0] for lines in records.values()), default=None)
        raise FormatError(path, line, nothing)
    return next(iter(first))


class GraphWriter:
    """One graph on its way to lines, as the grammar of a format has them."""

    def __init__(
        self, graph: Graph, grammar: Mapping[str, str], poses: Sequence[object],
        landmarks: Sequence[object],
    ) -> None:
        """`poses`, `landmarks`: their names in the file."""
        self.graph, self.grammar = graph, grammar
        self.poses, self.landmarks = poses, landmarks
        self.offsets: list[tuple[float, ...]] = []
        """Distinct lever arms of the lines written so far that name them by number."""

    def names(self, endpoint: Index) -> list[object]:
        return [self.poses[e] if e >= 0 else self.landmarks[~e] for e in endpoint.tolist()]

    def vertices(self, point: str) -> Iterator[str]:
        """Poses, then landmarks with the keyword `point`."""
        pose = POSE[self.graph.dimension]
        poses, landmarks = vertex_values(self.graph)
        yield from record_lines(
            pose, *self._stamps(pose, self.graph.poses.stamp_ns), self.poses, poses)
        yield from record_lines(point, self.landmarks, landmarks)

    def lines(self, tag: str, table: Table) -> Iterator[str]:
        """A line with the keyword `tag` for each measurement of a table."""
        fields = self._fields(tag)
        columns: list[Sequence[object]] = [
            *self._stamps(tag, table.stamp_ns),  # type: ignore[attr-defined]
            *(self.names(getattr(table, end)) for end in table.endpoints())]
        if 'paramId' in fields:
            columns.append(self._offsets(table))
        if isinstance(table, RelativePoses | PosePriors):
            columns += [pose_texts(table.rotation, table.translation),
                        self._pose_noise(tag, table.kappa, table.tau)]
        elif isinstance(table, Ranges):
            noise = table.precision if 'I11' in fields else 1 / table.precision
            columns.append(number_texts(np.column_stack([table.distance_m, noise])))
        elif isinstance(table, Verticals | Heights):
            value = table.up if isinstance(table, Verticals) else table.height_m
            columns.append(number_texts(np.column_stack([value, 1 / table.precision])))
        elif isinstance(table, Sightings):
            columns += [number_texts(table.translation), self._point_noise(tag, table.tau)]
        elif isinstance(table, PointPriors):
            columns += [number_texts(table.position), self._point_noise(tag, table.precision)]
        columns += [number_texts(getattr(table, name)) for field, name in LEVERS if field in fields]
        yield from record_lines(tag, *columns)

    def _fields(self, tag: str) -> list[str]:
        return self.grammar[tag].replace('[', '').replace(']', '').split()

    def _stamps(self, tag: str, stamp_ns: Index) -> list[list[str]]:
        """The column of stamps, in formats that have one."""
        return [format_stamps(stamp_ns)] if 'ts' in self._fields(tag) else []

    def _offsets(self, table: Table) -> list[int]:
        """Numbers of the lever arms of measurements; sensors of other tables are at the origin."""
        lever = table.lever if isinstance(table, PointPriors) else np.zeros(
            (len(table), self.graph.dimension))
        rows = list(map(tuple, lever.tolist()))
        self.offsets += [row for row in dict.fromkeys(rows) if row not in self.offsets]
        return [self.offsets.index(row) for row in rows]

    def _pose_noise(self, tag: str, kappa: Array, tau: Array) -> list[str]:
        if np.any(kappa <= 0):
            raise GraphError(
                f'row {int(np.argmax(kappa <= 0))} of a table with rotations has kappa = 0, which '
                'graph files cannot hold; use a sighting or a position fix')
        d = self.graph.dimension
        turn = rotation_variance(kappa, d)[:, None].repeat(1 if d == 2 else 3, axis=1)
        move = translation_variance(tau)[:, None].repeat(d, axis=1)
        return self._upper_triangles(tag, np.column_stack([move, turn]))

    def _point_noise(self, tag: str, precision: Array) -> list[str]:
        return self._upper_triangles(
            tag, translation_variance(precision)[:, None].repeat(self.graph.dimension, axis=1))

    def _upper_triangles(self, tag: str, variance: Array) -> list[str]:
        """Covariance or information, as the format has it, of variances (k, s) per axis."""
        row, column = np.triu_indices(variance.shape[1])
        diagonal = 1 / variance if 'I11' in self._fields(tag) else variance
        return number_texts(np.where(row == column, diagonal[:, row], 0.0))


def vertex_values(graph: Graph) -> tuple[list[str], list[str]]:
    """Values of all poses and of all landmarks as the fields of their vertex lines."""
    return (pose_texts(graph.poses.rotation, graph.poses.translation),
            number_texts(graph.landmarks.position))


def pose_texts(rotation: Array, translation: Array) -> list[str]:
    """x y theta, or x y z qx qy qz qw."""
    turn = matrix_to_angle if translation.shape[1] == 2 else matrix_to_quat
    return number_texts(np.column_stack([translation, turn(rotation)]))


def number_texts(values: Array) -> list[str]:
    """Rows of numbers, each the shortest text that reads back as the same float."""
    return [' '.join(map(repr, row)) for row in values.tolist()]


def record_lines(tag: str, *columns: Sequence[object]) -> Iterator[str]:
    """A line for each row of the columns, behind its keyword."""
    for fields in zip(*columns, strict=True):
        yield ' '.join((tag, *map(str, fields)))


def _precision(block: Block) -> Array:
    """(k,) weights of single values, from their variance or information."""
    variance = 'variance' in block.fields
    noise = block.numbers(block.place('variance', 'I11'), 1, LARGEST)[:, 0]
    if variance:
        block.require(noise > 1 / LARGEST, 'expected a variance > 0')
    return block.weights(1 / noise if variance else noise)


def _matrices(block: Block, size: int) -> Array:
    """(k, size, size) of the upper triangles, row by row, that state the noise."""
    row, column = np.triu_indices(size)
    matrix = np.empty((len(block), size, size))
    upper = block.numbers(block.place('c11', 'I11'), len(row), LARGEST)
    matrix[:, row, column] = upper
    matrix[:, column, row] = upper
    return matrix
