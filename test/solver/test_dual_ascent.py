"""Better multipliers than those of a point that is not quite an optimum."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.certificate import Certifier
from sparser_ros.solver.dual_ascent import bundle_step, pair_products, sharpened
from sparser_ros.solver.manifold import Manifold
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule, minimise


def relaxed(seed, iterations):  # type: ignore[no-untyped-def]
    graph = world(seed, robots=2, length=12, ranges=30, noise=1.0)
    schur = SchurOperator(QuadraticProblem(graph))
    manifold = schur.problem.manifold
    start = manifold.random_point(5, np.random.default_rng(seed))
    rule = StoppingRule(
        cost_tolerance=0, gradient_tolerance=1e-16, max_iterations=iterations)
    return schur, minimise(schur, manifold, start, RegularisedQ(schur), rule)


@pytest.mark.parametrize('seed', range(3))
def test_the_bound_gets_close_to_the_optimum_and_stays_below_it(seed):
    schur, best = relaxed(seed, 300)
    certifier = Certifier(schur)
    for iterations in range(1, 40):
        run = relaxed(seed, iterations)[1]
        if run.cost <= best.cost * (1 + 1e-3):
            break
    plain = certifier.test(run.y)
    assert not plain.certified
    sharp = sharpened(certifier, run.y, plain, wanted=0.0)
    assert sharp.lower_bound <= best.cost * (1 + 1e-9)
    assert sharp.gap < 0.5 * plain.gap


def test_a_gap_that_will_do_ends_the_rounds():
    schur, run = relaxed(0, 12)
    certifier = Certifier(schur)
    plain = certifier.test(run.y)
    best = sharpened(certifier, run.y, plain, wanted=0.0)
    wanted = np.sqrt(best.gap * plain.gap)
    enough = sharpened(certifier, run.y, plain, wanted=wanted)
    assert best.gap <= enough.gap <= max(wanted, enough.tolerance * 1.001)


def test_a_step_makes_the_model_positive_semidefinite_at_least_trace():
    """One rotation and one bearing, one vector: min tr D + |D|^2 / (2 t), v^T D v >= -value."""
    v = np.array([0.6, 0.0, 0.8])
    step = bundle_step(Manifold(2, 1, 1), v[:, None], np.array([-1.0]), length=0.5)
    D = np.diag([0.0, 0.0, step.scalars[0]])
    D[:2, :2] = step.blocks[0]
    assert v @ D @ v == pytest.approx(1.0, abs=1e-5)
    # Stationary: D = t (w blkdiag(v v^T) - I), w >= 0.
    w = (D[0, 0] / 0.5 + 1) / 0.36
    assert w > 0
    assert D[2, 2] == pytest.approx(0.5 * (w * 0.64 - 1))
    assert D[1, 1] == pytest.approx(-0.5)


def test_products_of_pairs_are_those_of_the_symmetric_matrices():
    rng = np.random.default_rng(3)
    n, d, k, q = 700, 3, 600, 4
    turns, bearings = rng.normal(size=(n, d, q)), rng.normal(size=(k, q))
    i, j = upper = np.triu_indices(q)
    scale = np.where(i == j, 1.0, np.sqrt(2))
    pairs = np.einsum('nam,ncm->nacm', turns[:, :, i], turns[:, :, j])
    pairs = 0.5 * scale * (pairs + np.swapaxes(pairs, 1, 2))
    rows = np.concatenate([
        pairs.reshape(n * d * d, -1), scale * bearings[:, i] * bearings[:, j]])
    unit = np.concatenate([np.tile(np.eye(d).ravel(), n), np.ones(k)])
    gram, linear = pair_products(turns, bearings, upper, scale)
    np.testing.assert_allclose(gram, rows.T @ rows, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(linear, rows.T @ unit, rtol=1e-10, atol=1e-8)
