"""Seeded graphs of any size: walks on a lattice, with loop closures or with ranges to beacons.

Below them the parts that every generator of this folder makes its graphs of.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from sparser_ros.array_types import Array, Index, Mask
from sparser_ros.graph import (
    Graph,
    Landmarks,
    Poses,
    Ranges,
    RelativePoses,
    empty_graph,
)
from sparser_ros.linalg.rotations import angle_to_matrix, rotvec_to_matrix

SIGMA_M, SIGMA_RAD = 0.05, 0.01
RANGE_SIGMA_M = 0.2
_TURN_SHARE = 0.2
"""Probability of a turn by 90 degrees at a step."""
_CLOSURE_GAP = 10
"""Steps that a closure must span at least."""
_STEPS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])


def walk(n: int, side: int, rng: np.random.Generator) -> tuple[Index, Array]:
    """Lattice cells (n, 2) of a walk reflected at the walls, and headings (n,) in radians."""
    turn = rng.choice([0, 1, -1], size=n, p=[1 - _TURN_SHARE, _TURN_SHARE / 2, _TURN_SHARE / 2])
    steps = _STEPS[np.cumsum(turn) % 4]
    free = rng.integers(0, 2 * side, 2) + np.cumsum(steps, axis=0)
    # Reflection by a triangle wave: neighbouring cells of the free walk stay neighbours.
    cells = side - np.abs(free % (2 * side) - side)
    ahead = np.diff(cells, axis=0, append=cells[-1:] + steps[-1:])
    return cells, np.arctan2(ahead[:, 1], ahead[:, 0])


def pose_graph(n: int, *, dimension: int = 2, closures: float = 0.4, seed: int = 0) -> Graph:
    """One robot of n poses; `closures` is the share of returns to a cell that are closures."""
    rng = np.random.default_rng(seed)
    side = max(2, int(np.sqrt(n / 2)))
    cells, heading = walk(n, side, rng)
    rotation, translation = _poses(cells, heading, dimension, rng)
    order = np.argsort(cells[:, 0] * (side + 1) + cells[:, 1], kind='stable')
    same = np.all(cells[order[1:]] == cells[order[:-1]], axis=1)
    i, j = order[:-1][same], order[1:][same]
    chosen = (j - i > _CLOSURE_GAP) & (rng.random(len(i)) < closures)
    steps = np.arange(n - 1)
    edges = _edges(
        np.concatenate([steps, i[chosen]]), np.concatenate([steps + 1, j[chosen]]), n - 1,
        rotation, translation, rng)
    return _graph(('A',), np.zeros(n, dtype=np.int64), rotation, translation, dimension).replaced(
        relative_poses=edges, name=f'lattice{n}')


def space_lattice(n: int, edges: int, *, seed: int = 0) -> Graph:
    """Poses in space on a square of n lattice cells that measure their neighbours.

    Noise is isotropic, and a relative pose points from a cell of even parity, at most sqrt(2) m
    away. Nothing points from an odd cell, so its rotation block in Q is a multiple of the
    identity, while that of S = Q - Lambda is full. The sweep through all cells is kept, other
    pairs are drawn at random up to `edges`; ValueError where there are too few.
    """
    rng = np.random.default_rng(seed)
    cells = _swept(n)
    odd = (np.sum(cells, axis=1) % 2).astype(bool)
    rotation = rotvec_to_matrix(rng.normal(0, 1, (n, 3)))
    near = cKDTree(cells).query_pairs(1.5, output_type='ndarray')
    near = near[(near[:, 1] - near[:, 0] > 1) & ~np.all(odd[near], axis=1)]
    if edges - (n - 1) > len(near):
        raise ValueError(f'{n} cells have {len(near)} pairs of neighbours off the sweep')
    steps = np.arange(n - 1)
    pairs = np.concatenate([
        np.stack([steps, steps + 1], axis=1),
        near[rng.choice(len(near), edges - (n - 1), replace=False)]])
    pairs = np.where(odd[pairs[:, :1]], pairs[:, ::-1], pairs)
    relative = _edges(pairs[:, 0], pairs[:, 1], 0, rotation, cells, rng)
    return _graph(('A',), np.zeros(n, dtype=np.int64), rotation, cells, 3).replaced(
        relative_poses=relative, name=f'space{n}')


def _swept(n: int) -> Array:
    """(n, 3): cells in metres, row by row, each one next to the last."""
    side = int(np.ceil(np.sqrt(n) - 1e-9))
    row, column = np.divmod(np.arange(n), side)
    column = np.where(row % 2, side - 1 - column, column)
    return np.stack([column, row, 0 * row], axis=1).astype(float)


def range_graph(
    n: int, *, robots: int = 4, dimension: int = 2, ranging: float = 0.4, seed: int = 0
) -> Graph:
    """Robots of n poses in all; a share of poses range the beacon of their block of the lattice.

    Beacons are unknown, one per 20 x 20 cells; every tenth ranging pose ranges the nearest in
    time pose of another robot as well.
    """
    rng = np.random.default_rng(seed)
    per = n // robots
    side = max(4, int(np.sqrt(n / 2)))
    walks = [walk(per, side, rng) for _ in range(robots)]
    cells = np.concatenate([w[0] for w in walks])
    heading = np.concatenate([w[1] for w in walks])
    n = per * robots
    rotation, translation = _poses(cells, heading, dimension, rng)
    blocks = max(2, -(-side // 20))
    width = (side + 1) / blocks
    beacons = (np.stack(np.divmod(np.arange(blocks**2), blocks), axis=1) + 0.5) * width
    beacons = beacons + rng.uniform(-0.3, 0.3, beacons.shape) * width
    if dimension == 3:
        beacons = np.column_stack([beacons, rng.uniform(2, 5, len(beacons))])
    robot = np.repeat(np.arange(robots), per)
    inside = np.arange(n) % per
    i = np.flatnonzero(inside < per - 1)
    pose = np.flatnonzero(rng.random(n) < ranging)
    shift = rng.integers(0, 2, (len(pose), 2))
    block = np.clip((cells[pose] // width).astype(np.int64) + shift, 0, blocks - 1)
    source, target = pose, ~(block[:, 0] * blocks + block[:, 1])
    some = pose[::10]
    source = np.concatenate([source, some])
    target = np.concatenate([target, (some + per) % n])
    distance = distances(translation, beacons, source, target)
    noisy = np.maximum(distance + rng.normal(0, RANGE_SIGMA_M, len(distance)), 0.05)
    kept = (distance > 0.5) & (source != target)
    ranges = plain_ranges(
        dimension, source[kept], target[kept], noisy[kept], RANGE_SIGMA_M**-2.0)
    names = tuple(chr(ord('A') + r) for r in range(robots))
    return _graph(names, robot, rotation, translation, dimension).replaced(
        relative_poses=_edges(i, i + 1, len(i), rotation, translation, rng),
        landmarks=marks(beacons), ranges=ranges, name=f'ranging{n}')


def _poses(
    cells: Index, heading: Array, dimension: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    if dimension == 2:
        return angle_to_matrix(heading), cells.astype(float)
    tilt = rng.normal(0, 0.1, (len(cells), 2))
    height = rng.normal(0, 0.1, len(cells))
    return (rotvec_to_matrix(np.column_stack([tilt, heading])),
            np.column_stack([cells, height]))


def _edges(
    i: Index, j: Index, n_odometry: int, rotation: Array, translation: Array,
    rng: np.random.Generator,
) -> RelativePoses:
    """Noisy relative poses; the first n_odometry are odometry."""
    m, d = len(i), translation.shape[1]
    turn = rng.normal(0, SIGMA_RAD, m if d == 2 else (m, 3))
    return noisy_edges(
        i, j, rotation, translation, turn, rng.normal(0, SIGMA_M, (m, d)),
        kappa_of(SIGMA_RAD, d), SIGMA_M**-2.0, np.arange(m) < n_odometry)


def _graph(
    names: tuple[str, ...], robot: Index, rotation: Array, translation: Array, dimension: int
) -> Graph:
    n = len(robot)
    first = np.searchsorted(robot, robot)
    return empty_graph(dimension, names).replaced(
        poses=Poses(robot, np.arange(n) - first, np.zeros(n, dtype=np.int64), rotation,
                    translation))


def small_world(seed: int, dimension: int, n_ranges: int, n: int = 6, landmarks: int = 2) -> Graph:
    """A random walk of few poses with closures and ranges, noisy enough for wrong minima.

    The noise is 0 to 2 times one metre and one radian at unit weights, by seed.
    """
    rng = np.random.default_rng(seed)
    noise = 0.5 * (seed // 4 % 5)
    rotation = rotations(rng.normal(0, 2.0, n if dimension == 2 else (n, 3)))
    translation, beacons = (rng.uniform(-5, 5, (m, dimension)) for m in (n, landmarks))
    i = np.concatenate([np.arange(n - 1), rng.integers(0, n // 2, 3)])
    j = np.concatenate([np.arange(1, n), rng.integers(n // 2, n, 3)])
    m = len(i)
    turn = 0.3 * noise * rng.normal(size=m if dimension == 2 else (m, 3))
    edges = noisy_edges(
        i, j, rotation, translation, turn, noise * rng.normal(size=(m, dimension)),
        rng.uniform(0.5, 20.0, m), rng.uniform(0.5, 20.0, m), np.arange(m) < n - 1)
    graph = _graph(('A',), np.zeros(n, dtype=np.int64), rotation, translation, dimension).replaced(
        relative_poses=edges)
    if not n_ranges:
        return graph
    at, to = rng.integers(0, n, n_ranges), rng.integers(0, landmarks, n_ranges)
    distance = distances(translation, beacons, at, ~to)
    measured = np.maximum(distance + noise * rng.normal(size=n_ranges), 0.05)
    return graph.replaced(landmarks=marks(beacons), ranges=plain_ranges(
        dimension, at, ~to, measured, rng.uniform(0.5, 20.0, n_ranges)))


def rotations(vectors: Array) -> Array:
    """(k, d, d) of angles (k,) in the plane or rotation vectors (k, 3) in space, radians."""
    return angle_to_matrix(vectors) if vectors.ndim == 1 else rotvec_to_matrix(vectors)


def kappa_of(sigma_rad: Array | float, dimension: int) -> Array | float:
    """Weight of a rotation: the cost counts an angle of the plane half as often as its weight."""
    return sigma_rad**-2.0 if dimension == 2 else 0.5 * sigma_rad**-2.0


def noisy_edges(
    i: Index, j: Index, rotation: Array, translation: Array, turn: Array, move: Array,
    kappa: Array | float, tau: Array | float, odometry: Mask,
) -> RelativePoses:
    """Relative poses of true ones and noise: `turn` as in `rotations`, `move` (k, d) metres."""
    back = np.swapaxes(rotation[i], 1, 2)
    true = np.einsum('kij,kj->ki', back, translation[j] - translation[i])
    k = len(i)
    return RelativePoses(
        i, j, back @ rotation[j] @ rotations(turn), true + move, np.full(k, kappa),
        np.full(k, tau), odometry, np.zeros(k, dtype=np.int64))


def distances(translation: Array, beacons: Array, source: Index, target: Index) -> Array:
    """(k,): true lengths of ranges of poses; a target is a pose, or ~number of a beacon."""
    points = np.concatenate([translation, beacons])
    return np.asarray(np.linalg.norm(
        points[np.where(target >= 0, target, len(translation) + ~target)] - points[source],
        axis=1))


def plain_ranges(
    dimension: int, source: Index, target: Index, distance: Array, precision: Array | float,
    stamp_ns: Index | int = 0,
) -> Ranges:
    """Ranges between antennas at the origins of their robots."""
    k = len(source)
    return Ranges(
        source, target, np.zeros((k, dimension)), np.zeros((k, dimension)), distance,
        np.full(k, precision), np.full(k, stamp_ns, dtype=np.int64))


def marks(beacons: Array, fixed: Mask | None = None) -> Landmarks:
    """Landmarks L0, L1, … at these places, known where `fixed`."""
    count = len(beacons)
    return Landmarks(tuple(f'L{k}' for k in range(count)), beacons,
                     np.zeros(count, dtype=bool) if fixed is None else fixed)


def first_poses(graph: Graph, count: int) -> Graph:
    """The graph of the first poses and of what is measured between these."""
    return graph.replaced(poses=graph.poses.take(np.arange(count)), **{
        name: table.take(np.all([getattr(table, end) < count for end in table.endpoints()], axis=0))
        for name, table in graph.tables().items()})
