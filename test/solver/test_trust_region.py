"""Gradient, Hessian and the trust region itself."""

import math
import time

import numpy as np
import pytest
from helpers import world
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.linalg.manifold_kernels import kernels
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.result import SolveStatus
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule, minimise

CASES = st.tuples(
    st.integers(0, 10**6), st.sampled_from(((2, 2), (2, 5), (3, 3), (3, 5))),
    st.sampled_from(('', 'p', 'k', 'pfk')))


def setting(case):  # type: ignore[no-untyped-def]
    seed, (d, p), absolute = case
    problem = QuadraticProblem(world(seed, d, absolute=absolute, noise=1.0))
    schur = SchurOperator(problem)
    random = np.random.default_rng(seed)
    y = problem.manifold.random_point(p, random)
    v = problem.manifold.project(y, random.normal(size=y.shape))
    return problem.manifold, schur, y, v / np.linalg.norm(v)


def hessian(manifold, schur, y, v):  # type: ignore[no-untyped-def]
    blocks, scalars = manifold.multipliers(y, schur(y))
    out = np.empty_like(v)
    kernels(manifold.d, y.shape[1]).hessian(
        y, schur(v), v, manifold.n, manifold.k, blocks, scalars, out)
    return out


@settings(max_examples=30, deadline=None)
@given(CASES)
def test_gradient_by_finite_differences_along_retractions(case):
    manifold, schur, y, v = setting(case)

    def cost(t):  # type: ignore[no-untyped-def]
        z = manifold.retract(y, t * v)
        return np.sum(z * schur(z))

    step = 1e-5
    slope = 2 * np.sum(manifold.project(y, schur(y)) * v)
    scale = abs(slope) + 1e-3 * np.linalg.norm(schur(y))
    assert abs((cost(step) - cost(-step)) / (2 * step) - slope) < 1e-5 * scale


@settings(max_examples=30, deadline=None)
@given(CASES)
def test_hessian_by_finite_differences_of_the_gradient(case):
    """The projected derivative of the gradient field along a retraction is the Hessian."""
    manifold, schur, y, v = setting(case)

    def gradient(t):  # type: ignore[no-untyped-def]
        z = manifold.retract(y, t * v)
        return manifold.project(z, schur(z))

    step = 1e-5
    derivative = manifold.project(y, (gradient(step) - gradient(-step)) / (2 * step))
    expected = hessian(manifold, schur, y, v)
    assert np.abs(derivative - expected).max() < 1e-6 * (1 + np.abs(schur(y)).max())


@settings(max_examples=10, deadline=None)
@given(CASES)
def test_descends_to_a_stationary_point(case):
    manifold, schur, y, _ = setting(case)
    rule = StoppingRule(cost_tolerance=0, gradient_tolerance=1e-14)
    run = minimise(schur, manifold, y, RegularisedQ(schur), rule)
    costs = [cost for _, cost in run.trace]
    assert run.status in (SolveStatus.CONVERGED, SolveStatus.STALLED)
    assert np.all(np.diff(costs) <= 1e-12 * np.abs(costs[:-1]))
    assert run.cost == pytest.approx(np.sum(run.y * schur(run.y)), rel=1e-9)
    gradient = manifold.project(run.y, schur(run.y))
    assert np.linalg.norm(gradient) < 1e-5 * np.linalg.norm(schur.Q_cc.diagonal())


def test_stops_at_target_and_deadline_and_iterations():
    problem = QuadraticProblem(world(7, noise=1.0))
    schur = SchurOperator(problem)
    y = problem.manifold.random_point(5, np.random.default_rng(0))
    start = float(np.sum(y * schur(y)))

    def run(**rule):  # type: ignore[no-untyped-def]
        return minimise(schur, problem.manifold, y, RegularisedQ(schur), StoppingRule(**rule))

    half = run(target_cost=start / 2)
    assert half.status is SolveStatus.TARGET_REACHED
    assert half.cost <= start / 2
    late = run(deadline=time.perf_counter() - 1)
    assert late.status is SolveStatus.TIME_LIMIT
    assert late.cost == pytest.approx(start)
    short = run(max_iterations=2)
    assert short.status is SolveStatus.MAX_ITERATIONS
    assert short.iterations == 2
    assert math.isfinite(short.cost)
