"""Factors of T^T Q T and of the Hessian in tangent coordinates, and Newton steps by them."""

from unittest.mock import patch

import numpy as np
import pytest
from dense import dense_certificate, ended, reduced, tangent_basis
from graphs import world

from benchmark.synthetic import pose_graph
from sparser_ros.config import SolverConfig
from sparser_ros.graph import estimate_of
from sparser_ros.linalg.rotations import angle_to_matrix
from sparser_ros.solver import plan, solve, stages
from sparser_ros.solver.newton_descent import NewtonDescent
from sparser_ros.solver.preconditioner import GaussNewtonPreconditioner, NewtonPreconditioner
from sparser_ros.solver.result import SolveStatus


def test_a_poor_start_is_refined_with_rotations_that_stretch_as_well(monkeypatch):
    graph = pose_graph(1000)
    rel = graph.relative_poses
    turn = angle_to_matrix(0.3 * np.random.default_rng(7).standard_normal(len(rel)))
    graph = graph.replaced(relative_poses=rel.replaced(rotation=rel.rotation @ turn))
    found = solve(graph, SolverConfig()).stats.cost_final
    with patch.object(stages, 'POOR_START', np.inf):
        alone = solve(graph, SolverConfig()).stats.cost_final
    monkeypatch.setattr(plan, 'gauss_newton_pays', lambda schur: False)
    other = solve(graph, SolverConfig()).stats.cost_final
    # With this noise rigid motions end in a neighbouring minimum.
    assert alone > 1.01 * other
    assert found == pytest.approx(other, rel=1e-6)


# A rank above d has tangent spaces of rotations of its own. 5 is that of relaxations and climbs:
# blocks of another size are compiled for this test alone, for 20 s each.
CASES = [
    *((NewtonPreconditioner, d, p, absolute)
      for d in (2, 3) for p in (d, 5) for absolute in ('', 'pfk')),
    *((GaussNewtonPreconditioner, d, d, absolute) for d in (2, 3) for absolute in ('', 'pf'))]


@pytest.mark.parametrize('kind, d, p, absolute', CASES)
def test_inverse_of_the_dense_tangent_hessian(kind, d, p, absolute):
    """At a minimum, apply() inverts the Riemannian Hessian of the reduced problem."""
    if kind is GaussNewtonPreconditioner:
        # It takes poses for rigid, without ranges, and residuals for none.
        graph = world(0, d, ranges=0, absolute=absolute)
        schur, *_ = reduced(graph)
        y = schur.problem.pack(estimate_of(graph))
    else:
        schur, _, start = reduced(world(5, d, absolute=absolute, noise=0.5), p)
        y = ended(schur, start, gradient_tolerance=1e-18).y
    manifold, gradient = schur.problem.manifold, schur(y)
    inverse = kind(schur)
    inverse.refresh(y, gradient, 0)
    assert not getattr(inverse, 'gauss_newton', False)

    basis = tangent_basis(manifold, y)
    hessian = basis.T @ np.kron(dense_certificate(schur, y), np.eye(p)) @ basis
    values, vectors = np.linalg.eigh(hessian)
    # Gauge directions have no curvature; the damping alone bounds the inverse there.
    seen = values > 1e-4 * values.max()
    v = basis @ (vectors[:, seen] @ np.random.default_rng(1).normal(size=int(seen.sum())))
    image = inverse.apply(v.reshape(y.shape).copy(), np.empty_like(y))
    expected = vectors[:, seen] @ ((vectors[:, seen].T @ (basis.T @ v)) / values[seen])
    got = vectors[:, seen] @ (vectors[:, seen].T @ (basis.T @ image.ravel()))
    assert np.abs(got - expected).max() < 1e-4 * np.abs(expected).max()


def starting(seed, d=2, absolute=''):
    return reduced(world(
        seed, d, robots=2, length=12, ranges=30, noise=1.0, absolute=absolute), seed=seed)


@pytest.mark.parametrize('absolute', ['', 'pfk'])
@pytest.mark.parametrize('seed', range(3))
def test_it_ends_where_the_trust_region_ends(seed, d, absolute):
    schur, manifold, start = starting(seed, d, absolute)
    costs = []
    newton = NewtonDescent(schur, lambda _, cost, __: costs.append(cost))
    run = newton.run(start, gain=1e-9, most=100)
    best = ended(schur, start)
    assert run.status is SolveStatus.CONVERGED and run.iterations <= 60
    assert np.all(np.diff(costs) < 1e-12 * costs[-1])
    assert run.cost == pytest.approx(best.cost, rel=1e-6)
    np.testing.assert_allclose(manifold.nearest_point(run.y), run.y, atol=1e-9)


def test_a_deadline_ends_it_at_once():
    schur, _, start = starting(0)
    run = NewtonDescent(schur).run(start, gain=0.0, most=10, deadline=-np.inf)
    assert run.status is SolveStatus.TIME_LIMIT and run.y is start
