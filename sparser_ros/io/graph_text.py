"""Graphs in line records: what `.pyfg` and `.g2o` files have in common, read and written.

A format says what its keywords are, how it names variables, and whether it states noise as
covariance or information.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..array_types import Array, Index
from ..config import FormatError, GraphError
from ..graph import (
    Graph,
    PointPriors,
    PosePriors,
    Ranges,
    RelativePoses,
    Sightings,
    concatenated,
    empty,
)
from ..graph.precision import (
    kappa_from_covariance,
    rotation_variance,
    tau_from_covariance,
    translation_variance,
)
from ..graph.table import Table
from ..linalg.rotations import angle_to_matrix, matrix_to_angle, matrix_to_quat, quat_to_matrix
from .line_records import COMMENT, LARGEST, Block, Lines, read_lines

T = TypeVar('T', bound=Table)


class GraphReader(ABC):
    """One file on its way to a graph: tables of the records of a keyword."""

    END: int
    """Field of the first end of a measurement."""
    UNKNOWN, OTHER = 'the id of a {}', 'the id of a {}'
    """What is expected where an end is unknown, and where it is of another kind."""
    POSE: Mapping[int, str]
    POINT: Mapping[int, str]
    """Keywords of vertices by dimension."""

    def __init__(self, path: Path, dimension: int, blocks: Mapping[str, Block]) -> None:
        self.path, self.dimension, self.blocks = path, dimension, blocks
        self.endpoint: dict[Any, int] = {}
        """Variables by their names in the file, filled by `graph`."""

    @abstractmethod
    def graph(self) -> Graph:
        """The graph; FormatError with file and line for anything that is not as it must be."""

    @abstractmethod
    def key(self, word: str) -> Any:
        """The name of a variable in the file, from its field of a vertex line."""

    @abstractmethod
    def keys(self, block: Block, field: int) -> list[Any]:
        """Names of variables in a field."""

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
        """Ranges between body origins, with the last field as precision."""
        source, target = self.two_ends(block, kinds)
        distance = block.numbers(block.place('range'), 1)[:, 0]
        block.require(distance > 0, 'expected a range > 0 m')
        precision = block.numbers(block.place('range') + 1, 1, LARGEST)[:, 0]
        lever = np.zeros((len(block), self.dimension))
        return Ranges(source, target, lever, lever, distance, precision, self.stamps(block))

    def pose_priors(self, block: Block) -> PosePriors:
        return PosePriors(self.ends(block, 0, 'pose'), *self.values(block),
                          *self.pose_weights(block), self.stamps(block))

    def point_priors(self, block: Block, kind: str) -> PointPriors:
        """Positions of landmarks, or of the body origins of poses."""
        position = self.position(block)
        return PointPriors(self.ends(block, 0, kind), np.zeros_like(position), position,
                           self.point_weights(block), self.stamps(block))

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
            if words and words[0] in (self.POSE[graph.dimension], self.POINT[graph.dimension]):
                name = self.END if words[0] == self.POSE[graph.dimension] else 1
                end = self.endpoint[self.key(words[name])]
                missing.pop(self.key(words[name]), None)
                value = poses[end] if end >= 0 else landmarks[~end]
                line = ' '.join([*words[:name + 1], value, *COMMENT.findall(line)])
            lines.append(line)
        first = [
            f'{self.POSE[graph.dimension]} {key} {poses[end]}' if end >= 0
            else f'{self.POINT[graph.dimension]} {key} {landmarks[~end]}'
            for key, end in missing.items()]
        return '\n'.join([*first, *lines]) + '\n'


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
    """One graph on its way to lines."""

    def __init__(
        self, graph: Graph, poses: Sequence[object], landmarks: Sequence[object], *,
        information: bool,
    ) -> None:
        """`poses`, `landmarks`: their names in the file."""
        self.graph, self.poses, self.landmarks = graph, poses, landmarks
        self._information = information

    def names(self, endpoint: Index) -> list[object]:
        return [self.poses[e] if e >= 0 else self.landmarks[~e] for e in endpoint.tolist()]

    def pose_noise(self, kappa: Array, tau: Array) -> list[str]:
        """Upper triangles of covariance or information of poses."""
        if np.any(kappa <= 0):
            raise GraphError(
                f'row {int(np.argmax(kappa <= 0))} of a table with rotations has kappa = 0, which '
                'graph files cannot hold; use a sighting or a position fix')
        d = self.graph.dimension
        turn = rotation_variance(kappa, d)[:, None].repeat(1 if d == 2 else 3, axis=1)
        move = translation_variance(tau)[:, None].repeat(d, axis=1)
        return self._upper_diagonal(np.column_stack([move, turn]))

    def point_noise(self, precision: Array) -> list[str]:
        """The same of positions."""
        return self._upper_diagonal(
            translation_variance(precision)[:, None].repeat(self.graph.dimension, axis=1))

    def _upper_diagonal(self, variance: Array) -> list[str]:
        row, column = np.triu_indices(variance.shape[1])
        diagonal = 1 / variance if self._information else variance
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


def _matrices(block: Block, size: int) -> Array:
    """(k, size, size) of the upper triangles, row by row, that state the noise."""
    row, column = np.triu_indices(size)
    matrix = np.empty((len(block), size, size))
    upper = block.numbers(block.place('c11', 'I11'), len(row), LARGEST)
    matrix[:, row, column] = upper
    matrix[:, column, row] = upper
    return matrix
