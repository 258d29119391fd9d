"""Writing `.pyfg` files: every number with the digits that give it back exactly."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..array_types import Array, Index
from ..config import GraphError
from ..graph import Graph, RelativePoses
from ..graph.precision import rotation_variance, translation_variance
from ..linalg.dense.rotations import matrix_to_angle, matrix_to_quat
from . import atomic
from .chain import steps
from .line_records import upper_diagonal
from .pyfg_grammar import Grammar, grammar_of, sidecar_path
from .stamp_text import format_stamp


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
    if any(names.values()):
        atomic.write_text(sidecar_path(path), json.dumps(names, indent=2) + '\n')
    else:
        sidecar_path(path).unlink(missing_ok=True)


def value_texts(graph: Graph) -> tuple[list[str], list[str]]:
    """Values of all poses and of all landmarks as the fields of their vertex lines."""
    return (
        _numbers(pose_values(graph.poses.rotation, graph.poses.translation)),
        _numbers(graph.landmarks.position),
    )


def pose_values(rotation: Array, translation: Array) -> Array:
    """(k, 3): x y theta, or (k, 7): x y z qx qy qz qw."""
    if translation.shape[1] == 2:
        return np.column_stack([translation, matrix_to_angle(rotation)])
    return np.column_stack([translation, matrix_to_quat(rotation)])


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
        yield from _lines(words.pose, _stamps(graph.poses.stamp_ns), self.poses, poses)
        yield from _lines(words.point, self.landmarks, landmarks)
        fixed = np.flatnonzero(graph.landmarks.fixed)
        yield from _lines(
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
        yield from _lines(
            tag, _stamps(table.stamp_ns), self._names(table.i), self._names(table.j),
            _numbers(pose_values(table.rotation, table.translation)),
            self._pose_covariances(table.kappa, table.tau),
        )

    def _sightings(self) -> Iterator[str]:
        table = self.graph.sightings
        yield from _lines(
            self.words.sighting, _stamps(table.stamp_ns), self._names(table.i),
            self._names(table.point), _numbers(table.translation),
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
            yield from _lines(
                tag, _stamps(part.stamp_ns), self._names(part.source), self._names(part.target),
                _numbers(np.column_stack(columns)),
            )

    def _pose_priors(self) -> Iterator[str]:
        """A prior without a heading is a position fix at the body origin."""
        heading = self.graph.pose_priors.kappa > 0
        table = self.graph.pose_priors.take(heading)
        yield from _lines(
            self.words.pose_prior, _stamps(table.stamp_ns), self._names(table.i),
            _numbers(pose_values(table.rotation, table.translation)),
            self._pose_covariances(table.kappa, table.tau),
        )
        table = self.graph.pose_priors.take(~heading)
        yield from self._positions(
            table.stamp_ns, table.i, table.translation, table.tau, 0 * table.translation)

    def _point_priors(self) -> Iterator[str]:
        pose = self.graph.point_priors.point >= 0
        table = self.graph.point_priors.take(~pose)
        yield from _lines(
            self.words.point_prior, _stamps(table.stamp_ns), self._names(table.point),
            _numbers(table.position), self._point_covariances(table.precision),
        )
        table = self.graph.point_priors.take(pose)
        yield from self._positions(
            table.stamp_ns, table.point, table.position, table.precision, table.lever)

    def _positions(
        self, stamp_ns: Index, point: Index, position: Array, precision: Array, lever: Array
    ) -> Iterator[str]:
        yield from _lines(
            self.words.position, _stamps(stamp_ns), self._names(point), _numbers(position),
            self._point_covariances(precision), _numbers(lever),
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
        return _numbers(upper_diagonal(np.column_stack([move, turn])))

    def _point_covariances(self, precision: Array) -> list[str]:
        move = translation_variance(precision)[:, None].repeat(self.graph.dimension, axis=1)
        return _numbers(upper_diagonal(move))


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


def _numbers(values: Array) -> list[str]:
    """Rows of numbers, each the shortest text that reads back as the same float."""
    return [' '.join(map(repr, row)) for row in values.tolist()]


def _lines(tag: str, *columns: Sequence[str]) -> Iterator[str]:
    for fields in zip(*columns, strict=True):
        yield ' '.join((tag, *fields))
