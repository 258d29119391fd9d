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
    RegularisedQ,
    patience,
    pays_at_once,
)
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule, minimise


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


def test_is_factorised_again_after_a_long_step():
    schur, y = posed(2, noise=1.0)
    rigid = GaussNewtonPreconditioner(schur)
    rigid.refresh(y, schur(y), 0)
    factor = rigid.factor
    rigid.refresh(y, schur(y), rigid.patience - 1)
    assert rigid.factor is factor
    rigid.refresh(y, schur(y), rigid.patience)
    assert rigid.factor is not factor


def test_serves_after_a_long_step_and_not_before():
    schur, y = posed(3, noise=1.0)
    plain = RegularisedQ(schur)
    waiting = GaussNewtonPreconditioner(schur, plain)
    v = schur.problem.manifold.project(y, np.random.default_rng(0).normal(size=y.shape))
    for steps in (0, waiting.patience - 1):
        waiting.refresh(y, schur(y), steps)
        np.testing.assert_array_equal(
            waiting.apply(v, np.empty_like(v)), plain.apply(v, np.empty_like(v)))
    waiting.refresh(y, schur(y), waiting.patience)
    at_once = GaussNewtonPreconditioner(schur)
    at_once.refresh(y, schur(y), 0)
    np.testing.assert_array_equal(
        waiting.apply(v, np.empty_like(v)), at_once.apply(v, np.empty_like(v)))


def test_saves_cg_steps_where_weights_are_uneven():
    schur, y = posed(3, seed=4, noise=0.3, robots=1, length=60, landmarks=0, closures=90)
    schur.problem.omega[::3] *= 1e3
    schur = SchurOperator(schur.problem)
    manifold = schur.problem.manifold
    rule = StoppingRule(cost_tolerance=1e-12)
    plain = minimise(schur, manifold, y, RegularisedQ(schur), rule)
    waiting = GaussNewtonPreconditioner(schur, RegularisedQ(schur))
    waiting.patience = 3
    switched = minimise(schur, manifold, y, waiting, rule)
    assert switched.cost == pytest.approx(plain.cost, rel=1e-9)
    assert switched.cg_steps < plain.cg_steps


def grid(d):
    """Operator of a pose graph whose factor fills in."""
    return SchurOperator(QuadraticProblem(pose_graph(2000, dimension=d)))


def test_pays_at_once_in_the_plane_and_where_factors_are_thin():
    plane, space = grid(2), grid(3)
    assert pays_at_once(plane)
    assert not pays_at_once(space)
    assert patience(space) > 6
    assert pays_at_once(posed(3)[0])


def test_what_nothing_is_known_of_never_pays():
    schur = grid(2)
    schur.symbolic.counts = None
    assert not pays_at_once(schur)
    assert patience(schur) > 1e9


def test_many_landmarks_are_not_padded_to_poses():
    schur = posed(2, landmarks=60, robots=1, length=10)[0]
    assert schur.problem.n_points > 2 * schur.problem.manifold.n
    assert not pays_at_once(schur)


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
    monkeypatch.setattr(plan, 'pays_at_once', lambda schur: False)
    other = solve(graph, SolverConfig()).stats.cost_final
    # With this noise rigid motions end in a neighbouring minimum.
    assert alone > 1.01 * other
    assert found == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize('init', ['odometry', 'chordal', 'file'])
def test_other_starts_are_refined_as_before(init, monkeypatch):
    graph = noisy(300, 0.05, 1)
    found = solve(graph, SolverConfig(init=init)).stats
    monkeypatch.setattr(plan, 'pays_at_once', lambda schur: False)
    assert solve(graph, SolverConfig(init=init)).stats.cg_steps == found.cg_steps


@pytest.mark.parametrize('dimension', [2, 3])
def test_the_optimum_is_that_of_the_other_preconditioner(dimension, monkeypatch):
    graph = pose_graph(400, dimension=dimension)
    config = SolverConfig(cost_tolerance=1e-9)
    costs = []
    for pays in (True, False):
        monkeypatch.setattr(plan, 'pays_at_once', lambda schur, pays=pays: pays)
        costs.append(solve(graph, config).stats.cost_final)
    assert costs[0] == pytest.approx(costs[1], rel=1e-9)
