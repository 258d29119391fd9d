"""The preconditioner of pose graphs, and when it changes."""

import numpy as np
import pytest
from helpers import world
from test_newton import tangent_basis

from sparser_ros.linalg.rotations import angle_to_matrix, rotvec_to_matrix
from sparser_ros.solver.newton import NewtonPreconditioner
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.switching import RigidMotions, Switching
from sparser_ros.solver.trust_region import StoppingRule, minimise


def posed(d, seed=0, noise=0.0, absolute='', **options):
    """Operator and true point of a graph without ranges."""
    graph = world(seed, d, ranges=0, noise=noise, absolute=absolute, **options)
    problem = QuadraticProblem(graph)
    rows = np.swapaxes(graph.poses.rotation, 1, 2)
    points = np.concatenate([graph.poses.translation, graph.landmarks.position])
    return SchurOperator(problem), problem.compose(rows, points)


@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('absolute', ['', 'pf'])
def test_inverts_q_on_tangents(d, absolute):
    schur, y = posed(d, absolute=absolute)
    rigid = RigidMotions(schur)
    rigid.refresh(y, schur(y), 0)
    manifold = schur.problem.manifold
    basis = tangent_basis(manifold, y, 0).toarray()
    matrix = basis.T @ np.kron(schur(np.eye(manifold.rows)), np.eye(d)) @ basis
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
    kept, fresh = RigidMotions(schur), RigidMotions(schur)
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


def test_switches_after_a_long_step_and_not_before():
    schur, y = posed(3, noise=1.0)
    switching = Switching(RegularisedQ(schur), schur)
    patience = switching.patience
    for steps in (0, patience - 1):
        switching.refresh(y, schur(y), steps)
        assert switching.rigid is None
    switching.refresh(y, schur(y), patience)
    assert isinstance(switching.rigid, NewtonPreconditioner)
    v = schur.problem.manifold.project(y, np.random.default_rng(0).normal(size=y.shape))
    np.testing.assert_array_equal(
        switching.apply(v, np.empty_like(v)), switching.rigid.apply(v, np.empty_like(v)))


def test_saves_cg_steps_where_weights_are_uneven():
    schur, y = posed(3, seed=4, noise=0.3, robots=1, length=60, landmarks=0, closures=90)
    schur.problem.omega[::3] *= 1e3
    schur = SchurOperator(schur.problem)
    manifold = schur.problem.manifold
    rule = StoppingRule(cost_tolerance=1e-12)
    plain = minimise(schur, manifold, y, RegularisedQ(schur), rule)
    switching = Switching(RegularisedQ(schur), schur)
    switching.patience = 3
    switched = minimise(schur, manifold, y, switching, rule)
    assert switched.cost == pytest.approx(plain.cost, rel=1e-9)
    assert switched.cg_steps < plain.cg_steps
