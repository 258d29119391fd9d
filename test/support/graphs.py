"""Seeded graphs with every kind of variable and measurement: true to a known world, or wild."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sparser_ros.graph import (
    Estimate,
    Graph,
    Landmarks,
    PointPriors,
    PosePriors,
    Poses,
    Ranges,
    RelativePoses,
    Sightings,
    estimate_of,
    range_vectors,
)
from sparser_ros.linalg.rotations import align, angle_to_matrix, rotvec_to_matrix

SECOND = 10**9


def exponential(w: np.ndarray) -> np.ndarray:
    """Rotation matrices of rotation vectors, (..., 1) or (..., 3)."""
    return angle_to_matrix(w[..., 0]) if w.shape[-1] == 1 else rotvec_to_matrix(w)


def rotations(random: np.random.Generator, n: int, d: int) -> np.ndarray:
    if d == 2:
        return angle_to_matrix(random.uniform(-np.pi, np.pi, n))
    return rotvec_to_matrix(random.normal(size=(n, 3)))


def with_landmarks(data, **changes):
    """A graph or increment whose landmarks have other names, positions or are known."""
    return data.replaced(landmarks=replace(data.landmarks, **changes))


def turn(random: np.random.Generator, n: int, d: int, sigma: float) -> np.ndarray:
    """(n, d, d) small random rotations."""
    return exponential(sigma * random.normal(size=(n, 1 if d == 2 else 3)))


def world(
    seed: int, d: int = 2, *, robots: int = 2, length: int = 8, landmarks: int = 2,
    closures: int = 6, ranges: int = 24, sightings: int = 4, levers: bool = True,
    absolute: str = '', noise: float = 0.0,
) -> Graph:
    """A graph whose vertices are the truth and whose measurements are it plus `noise` sigmas.

    absolute: any of 'p' (pose prior), 'f' (position fix with a lever arm), 'k' (known landmark).
    """
    random = np.random.default_rng(seed)
    n = robots * length
    robot, index = np.repeat(np.arange(robots), length), np.tile(np.arange(length), robots)
    rotation, translation = rotations(random, n, d), random.uniform(-5, 5, (n, d))
    position = random.uniform(-8, 8, (landmarks, d))
    poses = Poses(robot, index, 10**9 * index, rotation, translation)
    fixed = np.zeros(landmarks, dtype=bool)
    if 'k' in absolute:
        fixed[0] = True
    truth = Estimate(rotation.copy(), translation.copy(), position.copy())

    def weight(count: int, low: float = 0.5, high: float = 20.0) -> np.ndarray:
        return random.uniform(low, high, count)

    def blur(array: np.ndarray, precision: np.ndarray) -> np.ndarray:
        scale = np.sqrt(precision).reshape((-1,) + (1,) * (array.ndim - 1))
        return array + noise * random.normal(size=array.shape) / scale

    follow = np.flatnonzero(index > 0)
    pairs = np.array(
        [random.choice(n, 2, replace=False) for _ in range(closures)], dtype=int).reshape(-1, 2)
    if robots > 1 and closures:
        pairs[0] = 0, length
    i, j = np.r_[follow - 1, pairs[:, 0]], np.r_[follow, pairs[:, 1]]
    k = len(i)
    kappa, tau = weight(k, 10, 200), weight(k)
    moves = np.einsum('kji,kj->ki', rotation[i], translation[j] - translation[i])
    turns = np.swapaxes(rotation[i], 1, 2) @ rotation[j]
    turns = turns @ turn(random, k, d, noise / np.sqrt(20))
    relative = RelativePoses(
        i, j, turns, blur(moves, tau), kappa, tau, np.arange(k) < len(follow),
        np.zeros(k, dtype=int))
    seen = np.arange(sightings) % landmarks if landmarks else np.zeros(0, dtype=int)
    by = random.integers(n, size=len(seen))
    tau = weight(len(seen))
    views = np.einsum('kji,kj->ki', rotation[by], position[seen] - translation[by])
    sight = Sightings(by, ~seen, blur(views, tau), tau, np.zeros(len(seen), dtype=int))
    ends = random.integers(-landmarks, n, size=(2, ranges))
    ends = ends[:, ends[0] != ends[1]]
    k = ends.shape[1]
    arms = random.normal(size=(2, k, d)) * 0.3 * levers
    arms[ends < 0] = 0
    precision = weight(k, 4, 100)
    range_ = Ranges(
        ends[0], ends[1], arms[0], arms[1], np.ones(k), precision, np.zeros(k, dtype=int))
    p, f = int('p' in absolute), 2 * ('f' in absolute)
    at = random.choice(n, p, replace=False)
    kappa, tau = weight(p, 10, 100), weight(p)
    pose_priors = PosePriors(
        at, rotation[at] @ turn(random, p, d, noise / 5), blur(translation[at], tau), kappa, tau,
        np.zeros(p, dtype=int))
    at = random.choice(n, f, replace=False)
    lever = random.normal(size=(f, d)) * 0.3 * levers
    fix_precision = weight(f)
    fixes = translation[at] + np.einsum('kij,kj->ki', rotation[at], lever)
    point_priors = PointPriors(
        at, lever, blur(fixes, fix_precision), fix_precision, np.zeros(f, dtype=int))
    graph = Graph(
        d, tuple(f'r{r}' for r in range(robots)), poses,
        Landmarks(tuple(f'L{m}' for m in range(landmarks)), position, fixed),
        relative, sight, range_, pose_priors, point_priors)
    distance = np.linalg.norm(range_vectors(graph, truth), axis=1)
    far = distance > 0.1
    distance = np.maximum(blur(distance, precision), 0.05)
    return graph.replaced(ranges=range_.replaced(distance_m=distance).take(far)).validate()


def random_graph(
    seed: int, d: int = 2, robots: tuple[str, ...] = ('A', 'B'), length: int = 5,
    landmarks: int = 3, levers: bool = True, absolute: bool = True, closures: int = 3,
    ranges: int = 8, sightings: int = 4,
) -> Graph:
    """Short steps of odometry and all else of a world, with weights and stamps of any size."""
    graph = world(
        seed, d, robots=len(robots), length=length, landmarks=landmarks, closures=closures,
        ranges=ranges, sightings=sightings, levers=levers, absolute='pf' * absolute, noise=3.0)
    random, rel, poses = np.random.default_rng(seed), graph.relative_poses, graph.poses
    if absolute and landmarks:
        graph = graph.replaced(point_priors=graph.point_priors.append(PointPriors(
            np.array([-1]), np.zeros((1, d)), random.normal(size=(1, d)), np.ones(1),
            np.zeros(1, dtype=int))))
    # A closure that follows an odometry edge would be read as one.
    steps = (poses.robot[rel.i] == poses.robot[rel.j]) & (rel.j == rel.i + 1)
    graph = graph.replaced(relative_poses=rel.replaced(
        translation=random.normal(size=rel.translation.shape)).take(rel.odometry | ~steps))

    def scattered(table):
        weights = [name for name in ('kappa', 'tau', 'precision') if hasattr(table, name)]
        return table.replaced(
            stamp_ns=random.integers(1, 10**18, len(table)),
            **{name: 10 ** random.uniform(-3, 6, len(table)) for name in weights})

    return graph.replaced(
        robots=robots, poses=poses.replaced(
            stamp_ns=SECOND * (1 + poses.index) + 7 * poses.robot + 123456789),
        landmarks=Landmarks(
            tuple(f'L{2 * m + 3}' for m in range(landmarks)), graph.landmarks.position,
            (np.arange(landmarks) == landmarks - 1) & absolute),
        **{name: scattered(table) for name, table in graph.tables().items()}).validate()


def permuted(graph: Graph, seed: int) -> tuple[Graph, np.ndarray]:
    """The same problem with poses and edges in another order, and the old index of each pose."""
    random = np.random.default_rng(seed)
    old = random.permutation(graph.n_poses)
    new = np.argsort(old)

    def shuffled(table):
        ends = {name: getattr(table, name) for name in table.endpoints()}
        return table.replaced(**{
            name: np.where(end >= 0, new[np.maximum(end, 0)], end) for name, end in ends.items()
        }).take(random.permutation(len(table)))

    return graph.replaced(
        poses=graph.poses.take(old),
        **{name: shuffled(table) for name, table in graph.tables().items()}), old


def moved(graph: Graph, rotation: np.ndarray, translation: np.ndarray) -> Graph:
    """The same world seen from another map frame."""
    truth = estimate_of(graph).moved(rotation, translation)
    prior, fix = graph.pose_priors, graph.point_priors
    return with_landmarks(graph, position=truth.landmarks).replaced(
        poses=graph.poses.replaced(rotation=truth.rotation, translation=truth.translation),
        pose_priors=prior.replaced(
            rotation=rotation @ prior.rotation,
            translation=prior.translation @ rotation.T + translation),
        point_priors=fix.replaced(position=fix.position @ rotation.T + translation))


def stepped(estimate: Estimate, step: np.ndarray) -> Estimate:
    """After small motions in map axes: translation, then rotation of poses, then landmarks."""
    n, d = estimate.translation.shape
    size = 3 if d == 2 else 6
    of_poses, of_points = step[: n * size].reshape(n, size), step[n * size :].reshape(-1, d)
    return Estimate(
        exponential(of_poses[:, d:]) @ estimate.rotation,
        estimate.translation + of_poses[:, :d], estimate.landmarks + of_points)


def values_of(solver, graph: Graph) -> Estimate:
    """Where an incremental solver has the variables of a graph."""
    n, m = graph.n_poses, graph.n_landmarks
    return Estimate(
        solver.rotation[:n].copy(), solver.position[:n].copy(), solver.position[n:n + m].copy())


def pose_errors(estimate: Estimate, truth: Estimate, *, aligned: bool) -> float:
    """Largest deviation of any entry of any pose or landmark, after alignment if asked."""
    if aligned:
        estimate = estimate.moved(*align(estimate.points, truth.points))
    return float(max(
        np.abs(estimate.rotation - truth.rotation).max(),
        np.abs(estimate.points - truth.points).max()))


def flying_graph(
    seed=0, robots=2, steps=12, beacons=3, *, noise=1.0, verticals=True, heights=True,
    known=False, kappa_sigma=0.01,
):
    """(graph, truth) of robots that fly among beacons and say where up is and how high they are."""
    rng = np.random.default_rng(seed)
    builder = Graph.builder(3)
    tracks = []
    for robot in range(robots):
        # True rotations (n, 3, 3), with some roll and pitch, and translations (n, 3).
        start, yaw = rng.uniform([-5, -5, 0], [5, 5, 8]), rng.uniform(-3, 3)
        own = np.random.default_rng(seed + 10 * robot)
        heading = yaw + np.cumsum(0.3 * own.normal(size=steps))
        turn = rotvec_to_matrix(np.stack([0 * heading, 0 * heading, heading], axis=1))
        rotation = turn @ rotvec_to_matrix(0.1 * own.normal(size=(steps, 3)) * [1, 1, 0])
        move = rotation[:-1] @ np.array([1.0, 0.0, 0.0])
        move[:, 2] += 0.5 * own.normal(size=steps - 1)
        tracks.append((rotation, start + np.vstack([np.zeros(3), np.cumsum(move, axis=0)])))
    marks = rng.uniform(-10, 10, (beacons, 3)) * np.array([1, 1, 0.3])
    lever = np.array([0.1, 0.0, 0.2])
    names = 'AB' if robots == 2 else 'ABCDEFG'[:robots]
    for name, (rotation, translation) in zip(names, tracks, strict=True):
        step = np.einsum('kji,kj->ki', rotation[:-1], np.diff(translation, axis=0))
        turn = np.swapaxes(rotation[:-1], 1, 2) @ rotation[1:]
        turn = turn @ rotvec_to_matrix(noise * kappa_sigma * rng.normal(size=(steps - 1, 3)))
        builder.add_odometry(
            name, step + noise * 0.02 * rng.normal(size=step.shape), turn, sigma_m=0.02,
            sigma_rad=kappa_sigma)
    for robot, (rotation, translation) in enumerate(tracks):
        rows = np.arange(steps)
        antenna = translation + rotation @ lever
        for k, mark in enumerate(marks):
            distance = np.linalg.norm(antenna - mark, axis=1) + noise * 0.05 * rng.normal(
                size=steps)
            builder.add_range(
                (names[robot], rows), f'L{k}', distance, sigma_m=0.05, lever_source=lever)
        for other in range(robot):
            there = tracks[other][1] + tracks[other][0] @ lever
            distance = np.linalg.norm(antenna - there, axis=1)
            builder.add_range(
                (names[robot], rows), (names[other], rows), distance, sigma_m=0.05,
                lever_source=lever, lever_target=lever)
        if verticals:
            error = rotvec_to_matrix(noise * 0.01 * rng.normal(size=(steps, 3)))
            builder.add_vertical(
                (names[robot], rows), (error @ np.swapaxes(rotation, 1, 2))[:, :, 2],
                sigma_rad=0.01)
        if heights:
            low = translation + rotation @ np.array([0.0, 0.0, -0.1])
            builder.add_height(
                (names[robot], rows), low[:, 2] + noise * 0.1 * rng.normal(size=steps),
                sigma_m=0.1, lever=[0.0, 0.0, -0.1])
    if heights and beacons:
        builder.add_height('L0', marks[0, 2], sigma_m=0.1)
    if known:
        for k, mark in enumerate(marks):
            builder.add_prior(f'L{k}', mark)
    graph = builder.build()
    truth = Estimate(
        np.concatenate([r for r, _ in tracks]), np.concatenate([t for _, t in tracks]),
        marks.copy())
    return graph, truth


def graph_matrix(seed: int, n: int, density: float) -> sp.csc_matrix:
    """A chain with random closures: the Laplacian of a weighted graph, grounded."""
    random = np.random.default_rng(seed)
    extra = random.integers(0, n, (int(density * n), 2))
    i = np.concatenate([np.arange(n - 1), extra[:, 0]])
    j = np.concatenate([np.arange(1, n), extra[:, 1]])
    weight = random.uniform(0.1, 10, len(i)) * (i != j)
    A = sp.csr_matrix((np.ones(len(i)), (np.arange(len(i)), i)), shape=(len(i), n))
    A = A - sp.csr_matrix((np.ones(len(j)), (np.arange(len(j)), j)), shape=(len(j), n))
    return sp.csc_matrix(A.T @ sp.diags(weight) @ A + 0.1 * sp.eye(n))
