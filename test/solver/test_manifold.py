"""Rotations, scaled rotations and bearings: the compiled kernels compute the formulas.

These are the standard conversions of gradient and Hessian from the Euclidean ones (Boumal 2023;
Absil, Mahony and Sepulchre 2008, chapters 3 to 5). Y (n, d, p) are rotation blocks with
Y_i Y_i^T = I_d, u (k, p) bearings of unit length, G = Q Y, Lambda the multipliers. The common
factor 2 of gradient and Hessian is left out.
"""

from types import SimpleNamespace

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


def rotation_multipliers(y, g):
    """Lambda_i = sym(G_i Y_i^T), (n, d, d), from Y and G (n, d, p)."""
    product = g @ np.swapaxes(y, 1, 2)
    return (product + np.swapaxes(product, 1, 2)) / 2


def project_rotations(y, v):
    """P_Y(V) = V - sym(V Y^T) Y: the part of V (n, d, p) that is tangent at Y."""
    return v - rotation_multipliers(y, v) @ y


def bearing_multipliers(u, g):
    """lambda_k = <g_k, u_k>, (k,), from u and G (k, p)."""
    return np.sum(g * u, axis=1)


def project_bearings(u, v):
    """P_u(v) = v - <v, u> u, (k, p)."""
    return v - bearing_multipliers(u, v)[:, None] * u


@pytest.mark.parametrize('d, p, k, homogenised', CASES)
def test_projection_multipliers_hessian_and_retraction(d, p, k, homogenised):
    manifold = Manifold(d, N, k, homogenised)
    random = np.random.default_rng(p)
    y = manifold.random_point(p, random)
    v, g = random.normal(size=(2, manifold.rows, p))
    Y, V, G = cut(manifold, y, v, g)
    (projected,) = cut(manifold, manifold.project(y, v))
    assert np.allclose(projected.rotations, project_rotations(Y.rotations, V.rotations), **EXACT)
    assert np.allclose(projected.bearings, project_bearings(Y.bearings, V.bearings), **EXACT)
    assert np.all(projected.held == 0)

    blocks, scalars = manifold.multipliers(y, g)
    assert np.allclose(blocks, rotation_multipliers(Y.rotations, G.rotations), **EXACT)
    assert np.allclose(scalars, bearing_multipliers(Y.bearings, G.bearings), **EXACT)

    # Hess[V] = P(Q V - Lambda V); here Q V is G.
    (hessian,) = cut(manifold, manifold.hessian(y, g, v, blocks, scalars, np.empty_like(y)))
    assert np.allclose(hessian.rotations, project_rotations(
        Y.rotations, G.rotations - blocks @ V.rotations), **EXACT)
    assert np.allclose(hessian.bearings, project_bearings(
        Y.bearings, G.bearings - scalars[:, None] * V.bearings), **EXACT)
    assert np.all(hessian.held == 0)

    tangent = manifold.project(y, v)
    V, moved = cut(manifold, tangent, manifold.retract(y, tangent))
    # The polar retraction; Newton's iteration for the polar factor ends at 1e-8 squared.
    left, _, right = np.linalg.svd(Y.rotations + V.rotations, full_matrices=False)
    assert np.allclose(moved.rotations, left @ right, atol=1e-11)
    added = Y.bearings + V.bearings
    assert np.allclose(
        moved.bearings, added / np.linalg.norm(added, axis=1, keepdims=True), **EXACT)
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
