"""Covariances of the incremental solver: the dense inverse, and honest under renewal in parts."""

from unittest.mock import patch

import numpy as np
import pytest
from helpers import world

from sparser_ros.config import RobustConfig
from sparser_ros.graph import Estimate, Graph, estimate_of
from sparser_ros.solver import incremental
from sparser_ros.solver.covariance import Linearised, in_map
from sparser_ros.solver.incremental import IncrementalSolver, Kind, terms_of

KERNEL = RobustConfig(kernel='gm', threshold=3.0, weight_floor=1e-12)


def built(graph: Graph, values: Estimate, robust: RobustConfig) -> IncrementalSolver:
    """A solver with everything of a graph; without absolute data the first pose is held."""
    d = graph.dimension
    solver = IncrementalSolver(d, robust)
    free = np.ones(graph.n_poses, dtype=bool)
    free[0] = graph.anchored
    solver.add_bodies(values.rotation, values.translation, False, free)
    solver.add_bodies(
        np.tile(np.eye(d), (graph.n_landmarks, 1, 1)), values.landmarks, True,
        ~graph.landmarks.fixed)
    solver.add_terms(terms_of(graph, d, graph.points, robust))
    return solver


def dense(graph: Graph, solver: IncrementalSolver, bodies: np.ndarray) -> np.ndarray:
    """The same from the dense inverse of the information at the solver's estimate."""
    n, m = graph.n_poses, graph.n_landmarks
    estimate = Estimate(
        solver.rotation[:n].copy(), solver.position[:n].copy(), solver.position[n:n + m].copy())
    every = range(solver.n_terms)
    weights = {
        name: solver.weights(solver.measurements(kinds, 0, len(every)))
        for name, kinds in (
            ('relative_poses', (Kind.ODOMETRY, Kind.CLOSURE)), ('ranges', (Kind.RANGE,)),
            ('sightings', (Kind.SIGHTING,)), ('pose_priors', (Kind.POSE_FIX,)),
            ('point_priors', (Kind.PRIOR, Kind.POSITION_FIX)))}
    linear = Linearised(graph, estimate, weights)
    free = linear.free(None)
    whole = np.zeros((linear.size, linear.size))
    whole[np.ix_(free, free)] = np.linalg.inv(linear.information().toarray()[free][:, free])
    size, d = linear.step, graph.dimension
    columns = np.concatenate([
        np.arange(size) + body * size if body < n else np.concatenate([
            np.arange(d) + n * size + (body - n) * d, np.full(size - d, -1)])
        for body in bodies.tolist()])
    out = whole[np.ix_(columns, columns)]
    out[columns < 0], out[:, columns < 0] = 0, 0
    return out


def found(graph: Graph, solver: IncrementalSolver, bodies: np.ndarray) -> np.ndarray:
    covariance = solver.covariance(bodies)
    assert covariance is not None
    return in_map(covariance, solver.rotation[bodies], bodies >= graph.n_poses)


@pytest.mark.parametrize('robust', [RobustConfig(), KERNEL], ids=['trusted', 'kernel'])
@pytest.mark.parametrize('absolute', ['', 'pfk'])
@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('seed', range(3))
def test_covariances_are_blocks_of_the_dense_inverse(seed, d, absolute, robust):
    graph = world(seed, d, absolute=absolute, ranges=60, noise=0.3)
    solver = built(graph, estimate_of(graph), robust)
    bodies = np.array([graph.n_poses - 1, 7, graph.n_poses + 1, 0])
    solver.update(bodies[:2], 1e-6)
    expected = dense(graph, solver, bodies)
    actual = found(graph, solver, bodies)
    assert np.abs(actual - expected).max() < 1e-8 * np.abs(expected).max()
    if not absolute:
        size = 3 if d == 2 else 6
        assert not np.any(actual[-size:])


def test_changes_that_wait_are_taken_up_by_later_calls():
    graph = world(6, 2, length=60, closures=20, ranges=80, noise=0.3)
    early = graph.replaced(ranges=graph.ranges.take(slice(0, 50)))
    solver = built(early, estimate_of(graph), KERNEL)
    bodies = np.array([graph.n_poses - 1])
    solver.update(bodies, 1e-6)
    solver.covariance(bodies)
    assert not solver._marginals.waiting
    late = graph.replaced(
        relative_poses=graph.relative_poses.take(slice(0)),
        sightings=graph.sightings.take(slice(0)), ranges=graph.ranges.take(slice(50, 52)))
    solver.add_terms(terms_of(late, 2, graph.points, KERNEL))
    solver.update(bodies, 1e-6)
    with patch.object(incremental, 'RENEWED_CLIQUES', 1):
        solver.covariance(bodies)
        waiting = solver._marginals.waiting
        assert waiting > 3
        for _ in range(waiting):
            actual = found(graph, solver, bodies)
    assert not solver._marginals.waiting
    joined = graph.replaced(ranges=graph.ranges.take(slice(0, 52)))
    expected = dense(joined, solver, bodies)
    assert np.abs(actual - expected).max() < 1e-8 * np.abs(expected).max()


def test_what_is_not_determined_has_no_covariance():
    graph = world(3, 2, ranges=0, sightings=0, landmarks=0)
    odometry = graph.relative_poses.take(graph.relative_poses.odometry)
    solver = built(graph.replaced(relative_poses=odometry), estimate_of(graph), RobustConfig())
    last = np.array([graph.n_poses - 1])
    # Nothing ties the second robot to the first, whose start is held.
    assert solver.covariance(last) is None
    solver.update(last, 1e-3)
    covariance = solver.covariance(last)
    assert covariance is None or np.max(np.diag(covariance)) > 1e8


@pytest.mark.parametrize('factor', [1.0, 4.0])
def test_the_variance_factor_is_that_of_the_noise(factor):
    """Measurements that claim `factor` times less variance than their noise has."""
    noise = 0.1
    graph = world(8, 2, length=100, ranges=300, noise=noise)
    sharper = factor / noise**2
    rel, see, ranges = graph.relative_poses, graph.sightings, graph.ranges
    graph = graph.replaced(
        relative_poses=rel.replaced(
            kappa=np.full(len(rel), 20 * sharper), tau=sharper * rel.tau),
        sightings=see.replaced(tau=sharper * see.tau),
        ranges=ranges.replaced(precision=sharper * ranges.precision))
    solver = built(graph, estimate_of(graph), RobustConfig())
    solver.update(np.array([graph.n_poses - 1]), 1e-4)
    assert solver.variance_factor() == pytest.approx(factor, rel=0.2)
