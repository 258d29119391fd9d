"""The factor graph: poses of robots, landmarks and the measurements between them; increments.

Increments are append-only: endpoints number poses and landmarks in the order in which all
increments so far introduced them, so the graph is their concatenation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..array_types import Index, Mask
from ..config import GraphError
from .builder import GraphBuilder
from .measurements import MeasurementTables, complete
from .table import MOST_LENGTH_M, Column, Landmarks, Poses, Table, concatenated, empty, point_index


@dataclass(frozen=True, init=False, repr=False)
class Graph(MeasurementTables):
    """All variables and measurements of one problem; tables are given in any order, or by name."""

    dimension: int
    robots: tuple[str, ...]
    poses: Poses
    landmarks: Landmarks
    name: str = field(default='', compare=False)
    free_scale: tuple[int, ...] = ()
    """Poses whose sightings are right up to one unknown factor per pose (paper, table 1, row 3)."""
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """Sentences on what the reader of its file left out or assumed."""
    measurements: Mapping[str, Table] = field(default_factory=dict)
    """Tables by name; those that are not given are empty."""

    def __init__(
        self, dimension: int, robots: tuple[str, ...], poses: Poses, landmarks: Landmarks,
        *tables: Table, name: str = '', free_scale: tuple[int, ...] = (),
        remarks: tuple[str, ...] = (), measurements: Mapping[str, Table] | None = None,
        **named: Table,
    ) -> None:
        vars(self).update(
            dimension=dimension, robots=robots, poses=poses, landmarks=landmarks, name=name,
            free_scale=free_scale, remarks=remarks,
            measurements=complete(dimension, measurements, tables, named))

    def __repr__(self) -> str:
        return f'<Graph{f" {self.name}" if self.name else ""}: {self}>'

    def __str__(self) -> str:
        parts = [f'{self.dimension}D', counted(self.n_poses, 'pose')]
        odometry = self.relative_poses.translation[self.relative_poses.odometry]
        if len(odometry):
            parts.append(f'{np.sum(np.linalg.norm(odometry, axis=1)):.0f} m')
        parts += [
            counted(count, noun) for count, noun in (
                (len(self.robots), 'robot'), (self.n_landmarks, 'landmark')) if count]
        for name, table in self.tables().items():
            closures = np.sum(self.relative_poses.odometry) if name == 'relative_poses' else 0
            if len(table) > closures:
                noun = 'loop closures' if name == 'relative_poses' else name.replace('_', ' ')
                parts.append(counted(len(table) - int(closures), noun.removesuffix('s')))
        return ', '.join(parts)

    @staticmethod
    def builder(dimension: int = 2, name: str = '') -> GraphBuilder[Graph]:
        """A graph to be filled by `add_odometry`, `add_range`, `add_closure` and `add_prior`."""
        def make(*parts: Any, **named: Any) -> Graph:
            return Graph(*parts, **named).validate()

        return GraphBuilder(make, dimension, name)

    @property
    def n_poses(self) -> int:
        return len(self.poses)

    @property
    def n_landmarks(self) -> int:
        return len(self.landmarks)

    @property
    def anchored(self) -> bool:
        """True when something absolute fixes the map frame."""
        return bool(self.n_absolute or np.any(self.landmarks.fixed))

    @property
    def gauge_freedom(self) -> int:
        """Degrees of freedom of a rigid motion that no measurement minds."""
        if self.anchored:
            return 0
        d = self.dimension
        free = d + d * (d - 1) // 2
        return free - 2 * bool(len(self.verticals)) - bool(len(self.heights))

    @property
    def n_determined(self) -> int:
        """Scalar unknowns of poses and landmarks, less what no measurement minds."""
        d = self.dimension
        return self.n_poses * (d + d * (d - 1) // 2) - self.gauge_freedom + d * int(
            np.count_nonzero(~self.landmarks.fixed))

    def replaced(self, **parts: object) -> Graph:
        """A copy with some parts replaced."""
        return replace(self, **parts)  # type: ignore[arg-type]

    def validate(self) -> Graph:
        """Return self, or raise GraphError naming table, row and column of the first fault."""
        for name, table in {'poses': self.poses, **self.tables()}.items():
            for column, declared in table.columns().items():
                values = getattr(table, column)
                for wrong, fault in self._faults(values, declared):
                    if np.any(wrong):
                        row = int(np.argwhere(wrong)[0, 0])
                        raise GraphError(f'{name}[{row}].{column} {fault.format(values[row])}')
        lost = self.landmarks.fixed & ~np.isfinite(self.landmarks.position).all(axis=1)
        if np.any(lost):
            name = self.landmarks.names[int(np.argmax(lost))]
            raise GraphError(f'landmark {name} has a known position that is not finite')
        if self.levelled and self.dimension == 2:
            raise GraphError('verticals and heights need dimension 3: the plane has none')
        self._validate_scales()
        return self

    def _faults(self, values: Any, declared: Column) -> Iterator[tuple[Mask, str]]:
        """Where the values of a column are not as declared, and what to say of the first."""
        if values.dtype.kind == 'f':
            yield ~np.isfinite(values), 'is not finite'
            most = MOST_LENGTH_M if declared.unit == 'm' else MOST_LENGTH_M**2
            yield np.abs(values) > most, f'= {{}} is beyond {most:g} {declared.unit}'
        if declared.positive:
            yield values <= 0, '= {} is not positive'
        if not declared.negative:
            yield values < 0, '= {} is negative'
        if declared.endpoint:
            low = -self.n_landmarks if declared.endpoint == 'point' else 0
            yield (values < low) | (values >= self.n_poses), 'names no variable'

    def _validate_scales(self) -> None:
        free = np.asarray(self.free_scale, dtype=np.int64)
        if not len(free):
            return
        if free.min() < 0 or free.max() >= self.n_poses or len(np.unique(free)) == self.n_poses:
            raise GraphError(
                'free_scale names no pose, or all of them: one pose at least must give the scale')
        for kind, table in self.typed():
            poses = [getattr(table, column) for column in kind.table.endpoints()]
            if not kind.free_scale and np.any(np.isin(np.concatenate(poses), free)):
                raise GraphError(
                    f'{kind.name}: a pose of free_scale can have sightings only, its rotation is '
                    'known up to that factor')

    def points(self, endpoint: Index) -> Index:
        """Rows of endpoints in the stacked positions [pose translations; landmarks]."""
        return point_index(endpoint, self.n_poses)

    def pose_rows(self, robot: int) -> Index:
        """Rows of the poses of a robot (its number), in their order."""
        rows = np.flatnonzero(self.poses.robot == robot)
        return rows[np.argsort(self.poses.index[rows], kind='stable')]

    def endpoint_name(self, endpoint: int) -> str:
        """Human name of an endpoint: robot and pose number, or landmark name."""
        if endpoint < 0:
            return self.landmarks.names[~endpoint]
        return f'{self.robots[self.poses.robot[endpoint]]}{self.poses.index[endpoint]}'


@dataclass(frozen=True, init=False)
class Increment(MeasurementTables):
    """New rows of every table; arrays only, so it crosses a process boundary cheaply.

    Measurement tables are given in any order, or by name, as in `Graph`.
    """

    sequence: int
    """0, 1, 2, …: position in the stream; the graph after it is the sum of 0..sequence."""
    robots: tuple[str, ...]
    """Names of all robots so far (grows at the end)."""
    poses: Poses
    """New keyframes; their values are T_odom_base of the robot's own odometry frame."""
    landmarks: Landmarks
    """New landmarks; position is a guess (NaN = unknown) or, where fixed, exact."""
    newest_stamp_ns: int = 0
    """Stamp of the newest sensor data included."""
    unlevelled: tuple[str, ...] = ()
    """Robots whose verticals, those of earlier increments as well, are found to be wrong."""
    measurements: Mapping[str, Table] = field(default_factory=dict)

    def __init__(
        self, sequence: int, robots: tuple[str, ...], poses: Poses, landmarks: Landmarks,
        *tables: Table, newest_stamp_ns: int = 0, unlevelled: tuple[str, ...] = (),
        measurements: Mapping[str, Table] | None = None, **named: Table,
    ) -> None:
        dimension = poses.translation.shape[1]
        vars(self).update(
            sequence=sequence, robots=robots, poses=poses, landmarks=landmarks,
            newest_stamp_ns=newest_stamp_ns, unlevelled=unlevelled,
            measurements=complete(dimension, measurements, tables, named))

    def replaced(self, **parts: Any) -> Increment:
        """A copy with some parts replaced."""
        return replace(self, **parts)


def extended(graph: Graph, *increments: Increment) -> Graph:
    """The graph after some increments."""
    return graph.replaced(robots=increments[-1].robots, **joined([graph, *increments]))


def joined(parts: Sequence[Graph | Increment]) -> dict[str, Any]:
    """Poses, landmarks and measurement tables of all parts, by name, one after the other."""
    poses: Poses = concatenated([part.poses for part in parts])
    return {
        'poses': poses, 'landmarks': Landmarks.joined([part.landmarks for part in parts]),
        **{name: concatenated([getattr(part, name) for part in parts])
           for name in parts[0].tables()}}


def empty_graph(dimension: int, robots: tuple[str, ...] = ()) -> Graph:
    """A graph without variables or measurements."""
    d = dimension
    if d not in (2, 3):
        raise GraphError(f'dimension must be 2 or 3, not {d}')
    return Graph(
        d, robots, empty(Poses, d),
        Landmarks((), np.zeros((0, d)), np.zeros(0, dtype=bool)))


def counted(count: int, noun: str) -> str:
    """`1 pose`, `2 poses`, `2 fixes`."""
    plural = 'es' if noun.endswith('x') else 's'
    return f'{count} {noun}' if count == 1 else f'{count} {noun}{plural}'
