"""Seeded problems of the paper's classes (pose graphs, sensor networks, scenes of cameras), with
the truth in their vertices, and false measurements, which a robust kernel should reject."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from sparser_ros.array_types import Array, Index, Mask
from sparser_ros.graph import Graph, Landmarks, Poses, RelativePoses, Sightings, empty_graph
from sparser_ros.linalg.rotations import angle_to_matrix

from .synthetic import plain_ranges

RADIUS_M, LAP = 100.0, 50
SIGMA_M, SIGMA_QUATERNION = 0.01, 0.005
_SHORTEST_M = 1e-6
"""Ranges of two sensors at one place are left out, noisy ones are at least this long."""
_FIELD_OF_VIEW = 0.6
"""Tangent of half the opening angle."""


def sphere(laps: int = 50, seed: int = 0) -> Graph:
    """laps * 50 poses that spiral from pole to pole, each seen from three of the next lap.

    Noise is that of create_sphere: 0.01 m per axis, 0.005 per imaginary part of the quaternion.
    """
    random = np.random.default_rng(seed)
    n = laps * LAP
    pose = np.arange(n)
    longitude = -np.pi + 2 * np.pi * (pose % LAP) / LAP
    latitude = -np.pi / 2 + np.pi * pose / n
    rotation = Rotation.from_euler('ZY', np.column_stack([longitude, latitude])).as_matrix()
    translation = RADIUS_M * rotation[:, :, 0]
    lap, place, side = (
        a.ravel() for a in np.meshgrid(
            np.arange(1, laps), np.arange(LAP), (-1, 0, 1), indexing='ij'))
    inside = (place + side >= 0) & (place + side < LAP) & ~((lap == laps - 1) & (side == 1))
    i = np.concatenate([pose[:-1], ((lap - 1) * LAP + place)[inside]])
    j = np.concatenate([pose[1:], (lap * LAP + place + side)[inside]])
    m = len(i)
    vector = random.normal(0, SIGMA_QUATERNION, (m, 3))
    scalar = np.maximum(1 - np.linalg.norm(vector, axis=1), 0)
    turn = np.swapaxes(rotation[i], 1, 2) @ rotation[j]
    move = np.einsum('kji,kj->ki', rotation[i], translation[j] - translation[i])
    move += np.einsum('kij,kj->ki', turn, random.normal(0, SIGMA_M, (m, 3)))
    zero = np.zeros(n, dtype=np.int64)
    return empty_graph(3, ('A',)).replaced(
        poses=Poses(zero, pose, zero, rotation, translation),
        relative_poses=RelativePoses(
            i, j, turn @ Rotation.from_quat(np.column_stack([vector, scalar])).as_matrix(), move,
            np.full(m, 1 / (2 * SIGMA_QUATERNION**2)), np.full(m, SIGMA_M**-2),
            np.arange(m) < n - 1, np.zeros(m, dtype=np.int64)),
        name=f'sphere{n}')


def sensor_network(
    sensors: int = 200, anchors: int = 0, *, dimension: int = 2, side_m: float = 10.0,
    radius_m: float = 2.0, sigma_m: float = 0.05, seed: int = 0,
) -> Graph:
    """Sensors uniform in a box, ranging all others within a radius; anchors are known points."""
    random = np.random.default_rng(seed)
    points = random.uniform(0, side_m, (sensors + anchors, dimension))
    i, j = cKDTree(points).query_pairs(radius_m, output_type='ndarray').T.astype(np.int64)
    useful = i < sensors
    i, j = i[useful], j[useful]
    distance = np.linalg.norm(points[j] - points[i], axis=1)
    noisy = np.maximum(distance + random.normal(0, sigma_m, len(i)), _SHORTEST_M)
    names = tuple(f'S{k}' for k in range(sensors)) + tuple(f'K{k}' for k in range(anchors))
    return _network(
        points, np.arange(sensors + anchors) >= sensors, names, i, j, noisy,
        sigma_m**-2.0, f'network{sensors}')


def network_of(graph: Graph) -> Graph:
    """The sensor network of a pose graph: a point per pose, a distance per relative pose.

    The distance is the length of the measured translation and keeps its weight (paper, standard
    benchmarks); lengths of zero are left out.
    """
    edges = graph.relative_poses
    distance = np.linalg.norm(edges.translation, axis=1)
    kept = (distance > _SHORTEST_M) & (edges.i != edges.j)
    n = graph.n_poses
    return _network(
        graph.poses.translation, np.zeros(n, dtype=bool), tuple(f'S{k}' for k in range(n)),
        edges.i[kept], edges.j[kept], distance[kept], edges.tau[kept], f'{graph.name}-network')


def _network(
    points: Array, fixed: Mask, names: tuple[str, ...], i: Index, j: Index,
    distance: Array, precision: Array | float, name: str,
) -> Graph:
    return empty_graph(points.shape[1]).replaced(
        landmarks=Landmarks(names, points, fixed),
        ranges=plain_ranges(points.shape[1], ~i, ~j, distance, precision), name=name)


def scene(
    cameras: int = 30, points: int = 600, *, views: int = 6, sigma_share: float = 0.01,
    scales: bool = False, seed: int = 0,
) -> Graph:
    """Cameras on a dome of 10 m look at points in a cube of 6 m (z is the optical axis).

    Every point is seen by up to `views` cameras; the noise of a sight line is a share of its
    length per axis, as pixels and relative depth have it. Points seen once are left out, and so
    are cameras that see fewer than three. With `scales` the depths of every camera but the first
    are right up to a factor of its own only, between 1/2 and 2.
    """
    random = np.random.default_rng(seed)
    azimuth, height = random.uniform(0, 2 * np.pi, cameras), random.uniform(0.1, 0.8, cameras)
    flat = np.sqrt(1 - height**2)
    centre = 10 * np.column_stack([flat * np.cos(azimuth), flat * np.sin(azimuth), height])
    rotation = _towards(random.normal(0, 0.5, (cameras, 3)) - centre)
    position = random.uniform(-3, 3, (points, 3))
    inside = np.einsum('cji,cpj->cpi', rotation, position[None] - centre[:, None])
    seen = np.all(np.abs(inside[..., :2]) < _FIELD_OF_VIEW * inside[..., 2:], axis=-1)
    # Of the cameras that see a point, a random few.
    rank = np.argsort(np.argsort(np.where(seen, random.random(seen.shape), 2), axis=0), axis=0)
    seen &= rank < views
    for _ in range(3):
        seen[:, seen.sum(axis=0) < 2] = False
        seen[seen.sum(axis=1) < 3] = False
    camera, point = (
        np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0)))
    seen, inside = seen[camera][:, point], inside[camera][:, point]
    i, p = np.nonzero(seen)
    view = inside[i, p]
    sigma = sigma_share * np.linalg.norm(view, axis=1)
    view = view + sigma[:, None] * random.normal(size=view.shape)
    if scales:
        factor = np.r_[1, 2 ** random.uniform(-1, 1, len(camera) - 1)]
        view = view / factor[i, None]
    n, zero = len(camera), np.zeros(len(camera), dtype=np.int64)
    return empty_graph(3, ('A',)).replaced(
        poses=Poses(zero, np.arange(n), zero, rotation[camera], centre[camera]),
        landmarks=Landmarks(
            tuple(f'P{k}' for k in range(len(point))), position[point],
            np.zeros(len(point), dtype=bool)),
        sightings=Sightings(i, ~p, view, sigma**-2, np.zeros(len(i), dtype=np.int64)),
        name=f'scene{n}x{len(point)}', free_scale=tuple(range(1, n)) if scales else ())


def _towards(axis: Array) -> Array:
    """(n, 3, 3): rotations whose z axis points along `axis`, x axis level."""
    z = axis / np.linalg.norm(axis, axis=1, keepdims=True)
    x = np.cross(z, [0.0, 0.0, 1.0])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=2)


def with_false_closures(graph: Graph, share: float, seed: int) -> tuple[Graph, Index]:
    """The graph with false loop closures added, and their rows in `relative_poses`.

    `share` is relative to the true closures. Endpoints are uniform over pairs of poses that are
    not neighbours, rotations uniform on SO(d), translations uniform in a box as large as the
    stored trajectory; weights are those of true closures drawn at random.
    """
    random = np.random.default_rng(seed)
    table, n, d = graph.relative_poses, graph.n_poses, graph.dimension
    true = np.flatnonzero(~table.odometry)
    count = round(share * len(true))
    i, j = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    while len(i) < count:
        pair = random.integers(n, size=(2, count))
        pair = pair[:, np.abs(pair[0] - pair[1]) > 1]
        i, j = np.concatenate([i, pair[0]])[:count], np.concatenate([j, pair[1]])[:count]
    if d == 2:
        rotation = angle_to_matrix(random.uniform(-np.pi, np.pi, count))
    else:
        rotation = Rotation.from_quat(random.normal(size=(count, 4))).as_matrix()
    extent = np.ptp(graph.poses.translation, axis=0) if n else np.zeros(d)
    like = random.choice(true, count) if count else true[:0]
    false = RelativePoses(
        i, j, rotation, random.uniform(-0.5, 0.5, (count, d)) * extent, table.kappa[like],
        table.tau[like], np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64))
    rows = len(table) + np.arange(count)
    return graph.replaced(relative_poses=table.append(false)), rows


def with_long_ranges(
    graph: Graph, share: float, seed: int, shortest_m: float = 5.0, longest_m: float = 50.0
) -> tuple[Graph, Index]:
    """The graph with a share of its ranges lengthened, as blocked lines of sight do; their rows.

    Each chosen range becomes its measured value plus a uniform excess between the two bounds.
    """
    random = np.random.default_rng(seed)
    ranges = graph.ranges
    rows = np.sort(random.choice(len(ranges), round(share * len(ranges)), replace=False))
    distance = ranges.distance_m.copy()
    distance[rows] += random.uniform(shortest_m, longest_m, len(rows))
    return graph.replaced(ranges=ranges.replaced(distance_m=distance)), rows
