"""The factor of T^T Q T: what it inverts, how long it serves, and where it pays at once."""

from unittest.mock import patch

import numpy as np
import pytest
from dense import posed, product_with_identity
from tangents import tangent_basis

from benchmark.synthetic import pose_graph
from sparser_ros.config import SolverConfig
from sparser_ros.linalg.rotations import angle_to_matrix, rotvec_to_matrix
from sparser_ros.solver import plan, solve, stages
from sparser_ros.solver.preconditioner import (
    GaussNewtonPreconditioner,
    gauss_newton_pays,
)
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator


@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('absolute', ['', 'pf'])
def test_inverts_q_on_tangents(d, absolute):
    schur, y = posed(d, absolute=absolute)
    rigid = GaussNewtonPreconditioner(schur)
    rigid.refresh(y, schur(y), 0)
    manifold = schur.problem.manifold
    basis = tangent_basis(manifold, y, 0).toarray()
    matrix = basis.T @ np.kron(product_with_identity(schur), np.eye(d)) @ basis
    values, vectors = np.linalg.eigh(matrix)
    # Gauge directions have no stiffness; the damping alone bounds the inverse there.
    seen = values > 1e-6 * values.max()
    v = vectors[:, seen] @ np.random.default_rng(1).normal(size=int(seen.sum()))
    image = rigid.apply((basis @ v).reshape(y.shape), np.empty_like(y))
    got = vectors[:, seen].T @ (basis.T @ image.ravel())
    expected = (vectors[:, seen].T @ v) / values[seen]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize('d', [2, 3])
def test_one_factor_serves_all_frames(d):
    """Turning the whole map turns the preconditioner, with the factor of the first point."""
    schur, y = posed(d)
    turn = angle_to_matrix(np.array(1.0)) if d == 2 else rotvec_to_matrix(np.ones(3))
    kept, fresh = GaussNewtonPreconditioner(schur), GaussNewtonPreconditioner(schur)
    kept.refresh(y, schur(y), 0)
    factor = kept.factor
    kept.refresh(y @ turn, schur(y @ turn), 0)
    assert kept.factor is factor
    fresh.refresh(y @ turn, schur(y @ turn), 0)
    manifold = schur.problem.manifold
    v = manifold.project(y @ turn, np.random.default_rng(2).normal(size=y.shape))
    # Gauge directions are rounding errors over the damping.
    v = schur(v)
    v = manifold.project(y @ turn, v)
    a, b = (p.apply(v, np.empty_like(v)) for p in (kept, fresh))
    a, b = (manifold.project(y @ turn, schur(x)) for x in (a, b))
    np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max())


def grid(d):
    """Operator of a pose graph whose factor fills in."""
    return SchurOperator(QuadraticProblem(pose_graph(2000, dimension=d)))


def test_pays_in_the_plane_and_where_factors_are_thin():
    plane, space = grid(2), grid(3)
    assert gauss_newton_pays(plane) and gauss_newton_pays(posed(3)[0])
    assert not gauss_newton_pays(space)
    plane.symbolic.counts = None
    assert not gauss_newton_pays(plane)
    # Many landmarks are not padded to poses.
    marked = posed(2, landmarks=60, robots=1, length=10)[0]
    assert marked.problem.n_points > 2 * marked.problem.manifold.n
    assert not gauss_newton_pays(marked)


def noisy(n, sigma, seed):
    graph = pose_graph(n)
    rel = graph.relative_poses
    turn = angle_to_matrix(sigma * np.random.default_rng(seed).standard_normal(len(rel)))
    return graph.replaced(relative_poses=rel.replaced(rotation=rel.rotation @ turn))


def test_a_poor_start_is_refined_with_rotations_that_stretch_as_well(monkeypatch):
    graph = noisy(1000, 0.3, 7)
    found = solve(graph, SolverConfig()).stats.cost_final
    with patch.object(stages, 'POOR_START', np.inf):
        alone = solve(graph, SolverConfig()).stats.cost_final
    monkeypatch.setattr(plan, 'gauss_newton_pays', lambda schur: False)
    other = solve(graph, SolverConfig()).stats.cost_final
    # With this noise rigid motions end in a neighbouring minimum.
    assert alone > 1.01 * other
    assert found == pytest.approx(other, rel=1e-6)
