"""Reading `.pyfg` files: records to arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..array_types import Array, Index
from ..config import FormatError
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
from ..graph.precision import kappa_from_covariance, tau_from_covariance
from ..linalg.dense.rotations import angle_to_matrix, quat_to_matrix
from .chain import steps, turned
from .line_records import LARGEST, Block, Lines, as_blocks, read_records, symmetric
from .pyfg_grammar import grammar_of, sidecar_path
from .stamp_text import parse_stamps


class PyfgReader:
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
        names = long_names(self.path)
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


def long_names(path: Path) -> dict[str, dict[str, str]]:
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
