"""Scaled rotations; what gradient and Hessian are is in test_trust_region.py."""

import numpy as np
import pytest

from benchmark.generators import scene
from sparser_ros.config import GraphError, SolverConfig, SolverError
from sparser_ros.graph import Estimate, cost, estimate_of
from sparser_ros.linalg.rotations import aligned_errors
from sparser_ros.solver import solve
from sparser_ros.solver.manifold import ScaledManifold
from sparser_ros.solver.problem import QuadraticProblem

RANKS = [(d, p) for d in (2, 3) for p in (d, 5)]
"""Square and lifted, as the solver has them: kernels of others are compiled for a test alone."""
FREE = {'rank': 5, 'init': 'random', 'cost_tolerance': 1e-9}


@pytest.mark.parametrize('d, p', RANKS)
def test_projection_is_orthogonal_and_has_the_dimension_of_the_space(d, p):
    manifold = ScaledManifold(d, 4, 3, homogenised=False, scaled=(1, 3))
    y = manifold.random_point(p, np.random.default_rng(0))
    basis = np.eye(y.size).reshape(y.size, *y.shape)
    matrix = np.array([manifold.project(y, v).ravel() for v in basis])
    assert np.allclose(matrix, matrix.T, atol=1e-12)
    assert np.allclose(matrix @ matrix, matrix, atol=1e-12)
    # Of each rotation, each bearing, and the two scales.
    assert np.linalg.matrix_rank(matrix) == 4 * (d * p - d * (d + 1) // 2) + 3 * (p - 1) + 2


@pytest.mark.parametrize('seed', range(3))
def test_scales_are_found_from_a_random_start(seed):
    graph = scene(10, 120, sigma_share=0.003, scales=True, seed=seed).validate()
    known = scene(10, 120, sigma_share=0.003, seed=seed)
    result = solve(graph, SolverConfig(**FREE, seed=seed))
    reference = solve(known, SolverConfig(**FREE, seed=seed))
    # The true factors make the costs of both problems equal; more freedom costs no more.
    assert result.stats.cost_final <= reference.stats.cost_final * (1 + 1e-6)
    assert result.stats.cost_final == pytest.approx(cost(graph, result.estimate), rel=1e-12)
    truth = estimate_of(graph)
    factor = np.linalg.norm(known.sightings.translation, axis=1) / np.linalg.norm(
        graph.sightings.translation, axis=1)
    found = result.estimate.scale[graph.sightings.i]
    assert np.all(np.abs(found / factor - 1) < 0.05)
    assert aligned_errors(result.estimate.points, truth.points).max() < 0.5
    assert aligned_errors(result.estimate.points, truth.points).mean() < 0.1


def test_cost_of_an_estimate_with_scales():
    graph = scene(6, 30, scales=True, seed=4)
    truth = estimate_of(graph)
    random = np.random.default_rng(0)
    scaled = Estimate(
        truth.rotation.copy(), truth.translation.copy(), truth.landmarks.copy(),
        random.uniform(0.5, 2, graph.n_poses))
    problem = QuadraticProblem(graph)
    y = problem.pack(scaled)
    # The deleted column stands for the first point: shift all to have it at the origin.
    residual = problem.A @ y + problem.C @ (scaled.points - scaled.points[0])[problem.kept]
    total = np.sum(problem.omega * np.sum(residual**2, axis=1))
    assert total == pytest.approx(cost(graph, scaled), rel=1e-9)


def test_what_a_free_scale_cannot_have():
    graph = scene(6, 30, scales=True)
    with pytest.raises(GraphError, match='one pose at least'):
        graph.replaced(free_scale=tuple(range(graph.n_poses))).validate()
    with pytest.raises(SolverError, match='no certificate'):
        solve(graph, SolverConfig(certify=True))
