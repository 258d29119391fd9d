"""Rotations, scaled rotations and bearings: the compiled kernels compute the formulas."""

from types import SimpleNamespace

import formulas
import numpy as np
import pytest

from benchmark.generators import scene
from sparser_ros.config import GraphError, SolverConfig, SolverError
from sparser_ros.graph import Estimate, cost, estimate_of
from sparser_ros.linalg.rotations import aligned_errors
from sparser_ros.solver import solve
from sparser_ros.solver.manifold import Manifold, ScaledManifold
from sparser_ros.solver.problem import QuadraticProblem

N, K = 5, 4
RANKS = [(d, p) for d in (2, 3) for p in (d, 5)]
"""Square and lifted, as the solver has them: kernels of others are compiled for a test alone."""
CASES = [
    (d, p, k, homogenised)
    for d, p in RANKS for k in (0, K) for homogenised in (False, True)]
EXACT = {'rtol': 1e-12, 'atol': 1e-12}
FREE = {'rank': 5, 'init': 'random', 'cost_tolerance': 1e-9}


def cut(manifold: Manifold, *arrays: np.ndarray) -> list[SimpleNamespace]:
    """The rotation blocks (n, d, p), bearings (k, p) and held rows of arrays (rows, p)."""
    d, n, k = manifold.d, manifold.n, manifold.k
    return [
        SimpleNamespace(
            rotations=a[: n * d].reshape(n, d, -1), bearings=a[n * d : n * d + k],
            held=a[n * d + k :]) for a in arrays]


@pytest.mark.parametrize('d, p, k, homogenised', CASES)
def test_projection_multipliers_hessian_and_retraction(d, p, k, homogenised):
    manifold = Manifold(d, N, k, homogenised)
    random = np.random.default_rng(p)
    y = manifold.random_point(p, random)
    v, g = random.normal(size=(2, manifold.rows, p))
    Y, V, G = cut(manifold, y, v, g)
    (projected,) = cut(manifold, manifold.project(y, v))
    assert np.allclose(
        projected.rotations, formulas.project_rotations(Y.rotations, V.rotations), **EXACT)
    assert np.allclose(
        projected.bearings, formulas.project_bearings(Y.bearings, V.bearings), **EXACT)
    assert np.all(projected.held == 0)

    blocks, scalars = manifold.multipliers(y, g)
    assert np.allclose(
        blocks, formulas.rotation_multipliers(Y.rotations, G.rotations), **EXACT)
    assert np.allclose(
        scalars, formulas.bearing_multipliers(Y.bearings, G.bearings), **EXACT)

    (hessian,) = cut(manifold, manifold.hessian(y, g, v, blocks, scalars, np.empty_like(y)))
    assert np.allclose(
        hessian.rotations,
        formulas.rotation_hessian(Y.rotations, G.rotations, V.rotations, blocks), **EXACT)
    assert np.allclose(
        hessian.bearings,
        formulas.bearing_hessian(Y.bearings, G.bearings, V.bearings, scalars), **EXACT)
    assert np.all(hessian.held == 0)

    tangent = manifold.project(y, v)
    V, moved = cut(manifold, tangent, manifold.retract(y, tangent))
    # Newton's iteration for the polar factor ends at 1e-8 squared.
    assert np.allclose(
        moved.rotations, formulas.retract_rotations(Y.rotations, V.rotations), atol=1e-11)
    assert np.allclose(
        moved.bearings, formulas.retract_bearings(Y.bearings, V.bearings), **EXACT)
    assert np.array_equal(moved.held, Y.held)


@pytest.mark.parametrize('d, p', RANKS)
def test_projection_is_orthogonal_and_has_the_dimension_of_the_space(d, p):
    manifold = ScaledManifold(d, 4, 3, homogenised=False, scaled=(1, 3))
    y = manifold.random_point(p, np.random.default_rng(0))
    basis = np.eye(y.size).reshape(y.size, *y.shape)
    matrix = np.array([manifold.project(y, v).ravel() for v in basis])
    assert np.allclose(matrix, matrix.T, atol=1e-12)
    assert np.allclose(matrix @ matrix, matrix, atol=1e-12)
    assert np.linalg.matrix_rank(matrix) == manifold.dimension(p)


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
