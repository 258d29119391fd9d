"""Writing `.g2o` files: one robot's poses and landmarks, information matrices, full digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..array_types import Array, Index
from ..config import GraphError
from ..graph import Graph
from ..graph.precision import rotation_variance, translation_variance
from . import atomic
from .line_records import upper_diagonal
from .pyfg_writer import pose_values, value_texts

__all__ = ['value_texts', 'write']


def write(path: Path | str, graph: Graph) -> None:
    """Write a graph of one robot without ranges; others need a `.pyfg` file (GraphError)."""
    graph.validate()
    if len(graph.ranges):
        raise GraphError('a .g2o file cannot hold ranges; write a .pyfg file')
    if len(graph.robots) > 1:
        raise GraphError('a .g2o file cannot hold several robots; write a .pyfg file')
    if np.any(graph.sightings.point >= 0):
        raise GraphError('a .g2o file cannot hold sightings of poses; write a .pyfg file')
    atomic.write_text(path, '\n'.join(_G2oWriter(graph).records()) + '\n')


class _G2oWriter:
    """One graph on its way to lines."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.plane = graph.dimension == 2
        self.poses = graph.poses.index.tolist()
        self.landmarks = _landmark_ids(graph)
        self.offsets: list[tuple[float, ...]] = []

    def records(self) -> Iterator[str]:
        graph, plane = self.graph, self.plane
        poses, landmarks = value_texts(graph)
        yield from _lines('VERTEX_SE2' if plane else 'VERTEX_SE3:QUAT', self.poses, poses)
        yield from _lines('VERTEX_XY' if plane else 'VERTEX_TRACKXYZ', self.landmarks, landmarks)
        fixed = np.flatnonzero(graph.landmarks.fixed)
        yield from _lines('FIX', [self.landmarks[k] for k in fixed])
        edges = list(self._edges())
        for number, offset in enumerate(self.offsets):
            values = ' '.join(map(repr, offset))
            yield f'PARAMS_SE3OFFSET {number} {values} 0.0 0.0 0.0 1.0'
        yield from edges

    def _edges(self) -> Iterator[str]:
        graph, plane, d = self.graph, self.plane, self.graph.dimension
        rel, see = graph.relative_poses, graph.sightings
        pose, point = graph.pose_priors, graph.point_priors
        body = self._offset(np.zeros((max(len(see), len(pose)), d)))
        yield from _lines(
            'EDGE_SE2' if plane else 'EDGE_SE3:QUAT', self._names(rel.i), self._names(rel.j),
            _numbers(pose_values(rel.rotation, rel.translation)),
            self._pose_information(rel.kappa, rel.tau))
        yield from _lines(
            'EDGE_SE2_XY' if plane else 'EDGE_SE3_TRACKXYZ', self._names(see.i),
            self._names(see.point), *([] if plane else [body[: len(see)]]),
            _numbers(see.translation), self._point_information(see.tau))
        yield from _lines(
            'EDGE_PRIOR_SE2' if plane else 'EDGE_SE3_PRIOR', self._names(pose.i),
            *([] if plane else [body[: len(pose)]]),
            _numbers(pose_values(pose.rotation, pose.translation)),
            self._pose_information(pose.kappa, pose.tau))
        on_pose = point.point >= 0
        fix, mark = point.take(on_pose), point.take(~on_pose)
        if plane and np.any(fix.lever):
            raise GraphError('a 2D .g2o file cannot hold antennas; write a .pyfg file')
        yield from _lines(
            'EDGE_PRIOR_SE2_XY' if plane else 'EDGE_SE3_XYZ_PRIOR', self._names(fix.point),
            *([] if plane else [self._offset(fix.lever)]),
            _numbers(fix.position), self._point_information(fix.precision))
        yield from _lines(
            'EDGE_PRIOR_XY' if plane else 'EDGE_POINTXYZ_PRIOR', self._names(mark.point),
            _numbers(mark.position), self._point_information(mark.precision))

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
        return _numbers(upper_diagonal(np.column_stack([move, turn])))

    def _point_information(self, precision: Array) -> list[str]:
        move = (1 / translation_variance(precision))[:, None].repeat(self.graph.dimension, axis=1)
        return _numbers(upper_diagonal(move))


def _landmark_ids(graph: Graph) -> list[int]:
    """The numbers in the landmarks' names, or new ones where those are taken."""
    names, used = graph.landmarks.names, set(graph.poses.index.tolist())
    if all(name[:1] == 'L' and name[1:].isdecimal() for name in names):
        ids = [int(name[1:]) for name in names]
        if len(set(ids)) == len(ids) and used.isdisjoint(ids):
            return ids
    first = max(used, default=-1) + 1
    return list(range(first, first + len(names)))


def _numbers(values: Array) -> list[str]:
    return [' '.join(map(repr, row)) for row in values.tolist()]


def _lines(tag: str, *columns: Sequence[object]) -> Iterator[str]:
    for fields in zip(*columns, strict=True):
        yield ' '.join((tag, *map(str, fields)))
