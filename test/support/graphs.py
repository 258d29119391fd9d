"""Small random graphs with every kind of variable and measurement."""

import numpy as np

from sparser_ros.graph import (
    Graph,
    Landmarks,
    PointPriors,
    PosePriors,
    Poses,
    Ranges,
    RelativePoses,
    Sightings,
)
from sparser_ros.linalg.rotations import angle_to_matrix, rotvec_to_matrix

SECOND = 10**9


def exponential(w: np.ndarray) -> np.ndarray:
    """Rotation matrices of rotation vectors, (..., 1) or (..., 3)."""
    return angle_to_matrix(w[..., 0]) if w.shape[-1] == 1 else rotvec_to_matrix(w)


def rotations(random: np.random.Generator, n: int, d: int) -> np.ndarray:
    if d == 2:
        return angle_to_matrix(random.uniform(-np.pi, np.pi, n))
    return rotvec_to_matrix(random.normal(size=(n, 3)))


def random_graph(
    seed: int, d: int = 2, robots: tuple[str, ...] = ('A', 'B'), length: int = 5,
    landmarks: int = 3, levers: bool = True, absolute: bool = True, closures: int = 3,
    ranges: int = 8, sightings: int = 4,
) -> Graph:
    """Poses of each robot in order with odometry between them; the rest at random."""
    random = np.random.default_rng(seed)
    r, n = len(robots), len(robots) * length
    robot, index = np.repeat(np.arange(r), length), np.tile(np.arange(length), r)
    poses = Poses(
        robot, index, SECOND * (1 + index) + 7 * robot + 123456789,
        rotations(random, n, d), random.normal(size=(n, d)) * 10)
    follow = np.flatnonzero(index > 0)
    i = np.concatenate([follow - 1, random.integers(n, size=closures)])
    j = np.concatenate([follow, random.integers(n, size=closures)])
    odometry = np.arange(len(i)) < len(follow)
    keep = (i != j) & (odometry | (robot[i] != robot[j]) | (index[j] != index[i] + 1))
    i, j, odometry = i[keep], j[keep], odometry[keep]

    def weight(count: int) -> np.ndarray:
        return 10 ** random.uniform(-3, 6, count)

    k = len(i)
    ends = random.integers(-landmarks, n, size=(2, ranges))
    ends = ends[:, ends[0] != ends[1]]
    arms = random.normal(size=(2, ends.shape[1], d)) if levers else np.zeros(
        (2, ends.shape[1], d))
    arms[ends < 0] = 0
    stamps = random.integers(1, 10**18, size=10**4)
    relative = RelativePoses(
        i, j, rotations(random, k, d), random.normal(size=(k, d)), weight(k), weight(k), odometry,
        stamps[:k])
    seen = ~random.integers(landmarks, size=sightings) if landmarks else np.zeros(0, dtype=int)
    sight = Sightings(
        random.integers(n, size=len(seen)), seen, random.normal(size=(len(seen), d)),
        weight(len(seen)), stamps[:len(seen)])
    range_ = Ranges(
        ends[0], ends[1], arms[0], arms[1], random.uniform(0.1, 300, ends.shape[1]),
        weight(ends.shape[1]), stamps[:ends.shape[1]])
    p = 2 if absolute else 0
    pose_priors = PosePriors(
        random.integers(n, size=p), rotations(random, p, d), random.normal(size=(p, d)),
        weight(p), weight(p), stamps[:p])
    point = np.array([0, n - 1, -1])[: 3 if absolute and landmarks else p]
    lever = random.normal(size=(len(point), d)) * (point >= 0)[:, None] * levers
    point_priors = PointPriors(
        point, lever, random.normal(size=(len(point), d)), weight(len(point)), stamps[:len(point)])
    return Graph(
        d, robots, poses,
        Landmarks(
            tuple(f'L{2 * m + 3}' for m in range(landmarks)),
            random.normal(size=(landmarks, d)) * 30,
            (np.arange(landmarks) == landmarks - 1) & absolute),
        relative, sight, range_, pose_priors, point_priors).validate()
