"""Writing `.g2o` files: poses and landmarks, information matrices, full digits.

The ids of a robot A are its poses' numbers. Other robots need a letter as name, and get GTSAM's
keys: the letter in the top byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..array_types import Array, Index
from ..config import GraphError
from ..graph import Graph
from ..graph.precision import rotation_variance, translation_variance
from . import atomic
from .g2o_reader import LETTER_SHIFT
from .line_records import upper_diagonal
from .pyfg_writer import pose_values, value_texts

_KEY_LETTERS = re.compile(r'[A-Za-z][A-Za-z0-9]?')
_NUMBERED = re.compile(r'(L)([0-9]{1,14})')
_KEYED = re.compile(r'([A-Za-z]{1,2})([0-9]{1,14})')

__all__ = ['value_texts', 'write']


def write(path: Path | str, graph: Graph) -> None:
    """Write a graph; what the format cannot hold needs a `.pyfg` file (GraphError)."""
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
        rel, see, ranges = graph.relative_poses, graph.sightings, graph.ranges
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
            'EDGE_RANGE', self._names(ranges.source), self._names(ranges.target),
            _numbers(np.column_stack([ranges.distance_m, ranges.precision])))
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


def _numbers(values: Array) -> list[str]:
    return [' '.join(map(repr, row)) for row in values.tolist()]


def _lines(tag: str, *columns: Sequence[object]) -> Iterator[str]:
    for fields in zip(*columns, strict=True):
        yield ' '.join((tag, *map(str, fields)))
