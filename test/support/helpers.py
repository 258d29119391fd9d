"""Synthetic worlds: seeded graphs whose measurements agree with a known truth."""

import numpy as np
from graphs import exponential, rotations

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
from sparser_ros.linalg.rotations import align
from sparser_ros.solver.incremental import IncrementalSolver


def turn(random: np.random.Generator, n: int, d: int, sigma: float) -> np.ndarray:
    """(n, d, d) small random rotations."""
    return exponential(sigma * random.normal(size=(n, 1 if d == 2 else 3)))


def world(
    seed: int, d: int = 2, *, robots: int = 2, length: int = 8, landmarks: int = 2,
    closures: int = 6, ranges: int = 24, sightings: int = 4, levers: bool = True,
    absolute: str = '', noise: float = 0.0, weights: bool = True,
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
        return random.uniform(low, high, count) if weights else np.ones(count)

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


def permuted(graph: Graph, seed: int) -> tuple[Graph, np.ndarray]:
    """The same problem with poses and edges in another order, and the old index of each pose."""
    random = np.random.default_rng(seed)
    old = random.permutation(graph.n_poses)
    new = np.argsort(old)

    def mapped(endpoint: np.ndarray) -> np.ndarray:
        return np.where(endpoint >= 0, new[np.maximum(endpoint, 0)], endpoint)

    def shuffled(table):
        named = {
            name: mapped(values) for name, values in vars(table).items()
            if name in ('i', 'j', 'point', 'source', 'target')}
        return table.replaced(**named).take(random.permutation(len(table)))

    return graph.replaced(
        poses=graph.poses.take(old),
        **{name: shuffled(table) for name, table in graph.tables().items()}), old


def moved(graph: Graph, rotation: np.ndarray, translation: np.ndarray) -> Graph:
    """The same world seen from another map frame."""
    truth = estimate_of(graph).moved(rotation, translation)
    prior, fix = graph.pose_priors, graph.point_priors
    return graph.replaced(
        poses=graph.poses.replaced(rotation=truth.rotation, translation=truth.translation),
        landmarks=Landmarks(graph.landmarks.names, truth.landmarks, graph.landmarks.fixed),
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


def values_of(solver: IncrementalSolver, graph: Graph) -> Estimate:
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
