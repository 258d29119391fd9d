"""Reading `.g2o` files: records to arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..array_types import Array, Index
from ..config import FormatError
from ..graph import (
    Graph,
    Landmarks,
    PointPriors,
    PosePriors,
    Poses,
    RelativePoses,
    Sightings,
    empty,
)
from ..graph.precision import kappa_from_covariance, tau_from_covariance
from ..linalg.dense.rotations import angle_to_matrix, quat_to_matrix
from .line_records import Block, Lines, as_blocks, read_records, symmetric

_I2 = 'I11 I12 I22'
_I3 = 'I11 I12 I13 I22 I23 I33'
_I6 = ' '.join(f'I{r}{c}' for r in range(1, 7) for c in range(r, 7))
_QUAT = 'x y z qx qy qz qw'

USAGE = {
    2: (
        'VERTEX_SE2 id x y theta',
        'VERTEX_XY id x y',
        f'EDGE_SE2 i j dx dy dtheta {_I3}',
        f'EDGE_SE2_XY i j dx dy {_I2}',
        f'EDGE_PRIOR_SE2 i x y theta {_I3}',
        f'EDGE_PRIOR_SE2_XY i x y {_I2}',
        f'EDGE_PRIOR_XY i x y {_I2}',
    ),
    3: (
        f'VERTEX_SE3:QUAT id {_QUAT}',
        'VERTEX_TRACKXYZ id x y z',
        f'PARAMS_SE3OFFSET id {_QUAT}',
        f'EDGE_SE3:QUAT i j dx dy dz qx qy qz qw {_I6}',
        f'EDGE_SE3_TRACKXYZ i j paramId dx dy dz {_I3}',
        f'EDGE_SE3_PRIOR i paramId {_QUAT} {_I6}',
        f'EDGE_SE3_XYZ_PRIOR i paramId x y z {_I3}',
        f'EDGE_POINTXYZ_PRIOR i x y z {_I3}',
    ),
}
GRAMMAR = {d: {usage.split()[0]: usage for usage in USAGE[d]} for d in USAGE}


class G2oReader:
    """One file on its way to a graph."""

    def __init__(self, path: Path) -> None:
        self.path = path
        records = read_records(path)
        self.fixed = records.pop('FIX', Lines([], []))
        self.dimension = _dimension(path, records)
        self.blocks = as_blocks(path, records, GRAMMAR[self.dimension])
        self.endpoint: dict[int, int] = {}
        """Variables by their ids, filled by `graph`."""

    def graph(self) -> Graph:
        """The graph; FormatError with file and line for anything that is not as it must be."""
        d = self.dimension
        poses = self._poses()
        landmarks = self._landmarks()
        graph = Graph(
            d, ('A',), poses, landmarks,
            relative_poses=self._relative_poses(),
            sightings=self._sightings(),
            pose_priors=self._pose_priors(),
            point_priors=self._point_priors(),
            name=self.path.stem,
        )
        return self._with_fixed(graph)

    # -- variables ---------------------------------------------------------------------------

    def _poses(self) -> Poses:
        """Poses in the order of their ids; those that only edges name start at the identity."""
        d = self.dimension
        tag = USAGE[d][0].split()[0]
        vertices, edges = self.blocks.get(tag), self.blocks.get('EDGE_SE2' if d == 2 else
                                                                'EDGE_SE3:QUAT')
        ids = [np.zeros(0, dtype=np.int64)]
        if vertices is not None:
            ids.append(vertices.integers(1))
            self._once(vertices)
        if edges is not None:
            ids += [edges.integers(1), edges.integers(2)]
        index = np.unique(np.concatenate(ids))
        if not len(index):
            raise FormatError(self.path, None, f'expected a pose graph, with {tag} lines')
        n = len(index)
        rotation, translation = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
        if vertices is not None:
            row = np.searchsorted(index, vertices.integers(1))
            rotation[row], translation[row] = self._values(vertices, 2)
        self.endpoint.update(zip(index.tolist(), range(n), strict=True))
        zero = np.zeros(n, dtype=np.int64)
        return Poses(zero, index, zero, rotation, translation)

    def _landmarks(self) -> Landmarks:
        block = self.blocks.get(USAGE[self.dimension][1].split()[0])
        if block is None:
            return Landmarks((), np.zeros((0, self.dimension)), np.zeros(0, dtype=bool))
        ids = block.integers(1).tolist()
        self._once(block)
        for row, k in enumerate(ids):
            if self.endpoint.setdefault(k, ~row) != ~row:
                block.fail(row, f'expected every id once, got {k} for a pose and a landmark')
        return Landmarks(
            tuple(f'L{k}' for k in ids), block.numbers(2, self.dimension),
            np.zeros(len(ids), dtype=bool))

    # -- measurements ------------------------------------------------------------------------

    def _relative_poses(self) -> RelativePoses:
        d = self.dimension
        block = self.blocks.get('EDGE_SE2' if d == 2 else 'EDGE_SE3:QUAT')
        if block is None:
            return empty(RelativePoses, d)
        i, j = self._endpoints(block, 1, 'pose'), self._endpoints(block, 2, 'pose')
        block.require(i != j, 'expected two different poses')
        rotation, translation = self._values(block, 3)
        kappa, tau = self._weights(block, 6 if d == 2 else 10)
        return RelativePoses(
            i, j, rotation, translation, kappa, tau, j == i + 1, np.zeros(len(i), dtype=np.int64))

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

        def table(tag: str, kind: str) -> PointPriors:
            block = self.blocks.get(tag)
            if block is None:
                return empty(PointPriors, d)
            first, lever = 2, np.zeros((len(block), d))
            if tag == 'EDGE_SE3_XYZ_PRIOR':
                first, lever = 3, self._offsets(block, 2)[1]
            return PointPriors(
                self._endpoints(block, 1, kind), lever, block.numbers(first, d),
                self._point_weights(block, first + d), np.zeros(len(block), dtype=np.int64))

        if d == 2:
            return table('EDGE_PRIOR_SE2_XY', 'pose').append(table('EDGE_PRIOR_XY', 'landmark'))
        return table('EDGE_SE3_XYZ_PRIOR', 'pose').append(table('EDGE_POINTXYZ_PRIOR', 'landmark'))

    def _with_fixed(self, graph: Graph) -> Graph:
        """Apply FIX: landmarks become known; one pose alone is a choice of frame."""
        fixed, held = graph.landmarks.fixed.copy(), []
        for number, text in zip(self.fixed.numbers, self.fixed.texts, strict=True):
            for word in text.split()[1:]:
                endpoint = self.endpoint.get(int(word)) if word.isdecimal() else None
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

    def _endpoints(self, block: Block, field: int, kind: str) -> Index:
        ids = block.integers(field).tolist()
        endpoint = [self.endpoint.get(k) for k in ids]
        for row, value in enumerate(endpoint):
            if value is None or (value >= 0) != (kind == 'pose'):
                block.expected(f'the id of a {kind}', row, field)
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
        values = block.numbers(first, 3 if self.dimension == 2 else 7)
        if self.dimension == 2:
            return angle_to_matrix(values[:, 2]), values[:, :2].copy()
        norm = np.linalg.norm(values[:, 3:], axis=1)
        block.require(norm > 1e-6, 'expected a quaternion x y z w of norm 1, got one of norm 0')
        return quat_to_matrix(values[:, 3:]), values[:, :3].copy()

    def _weights(self, block: Block, first: int) -> tuple[Array, Array]:
        """Rotation and translation weights of information matrices that start at a field."""
        d = self.dimension
        size = 3 * (d - 1)
        information = symmetric(block.numbers(first, size * (size + 1) // 2), size)
        return (
            kappa_from_covariance(self._inverse(block, information[:, d:, d:], 'rotation')),
            tau_from_covariance(self._inverse(block, information[:, :d, :d], 'translation')),
        )

    def _point_weights(self, block: Block, first: int) -> Array:
        d = self.dimension
        information = symmetric(block.numbers(first, d * (d + 1) // 2), d)
        return tau_from_covariance(self._inverse(block, information, 'position'))

    @staticmethod
    def _inverse(block: Block, information: Array, what: str) -> Array:
        block.require(
            np.linalg.eigvalsh(information)[:, 0] > 0,
            f'expected a positive definite {what} block in the information matrix')
        return np.asarray(np.linalg.inv(information))


def _dimension(path: Path, records: dict[str, Lines]) -> int:
    """The dimension that the keywords of a file agree on."""
    first = {
        d: min(records[tag].numbers[0] for tag in records if tag in grammar)
        for d, grammar in GRAMMAR.items() if not grammar.keys().isdisjoint(records)
    }
    if len(first) == 2:
        raise FormatError(
            path, max(first.values()), 'expected one dimension, got 2D and 3D records in one file')
    if not first:
        if records:
            as_blocks(path, records, {**GRAMMAR[2], **GRAMMAR[3]})
        raise FormatError(path, None, 'expected a pose graph, with VERTEX and EDGE lines')
    return next(iter(first))
