"""Gradient, Hessian, the trust region, why its CG stops; the four formulations."""

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from dense import reduced
from graphs import world
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.generators import scene
from sparser_ros.config import SolverConfig, SolverError
from sparser_ros.graph import estimate_of
from sparser_ros.linalg.arrays import HOST
from sparser_ros.solver import formulations, solve, trust_region
from sparser_ros.solver.formulations import FORMULATIONS
from sparser_ros.solver.manifold import Manifold
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.result import SolveStatus
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import CGStop, StoppingRule, TruncatedCG, minimise

NEAR_BEST, NEAR_WORST = 1e-3, -1e-3
EXACT = SolverConfig(cost_tolerance=0.0, gradient_tolerance=1e-18)
NAMES = sorted(FORMULATIONS)


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from(((2, 2), (2, 5), (3, 3), (3, 5))),
    st.sampled_from(('', 'p', 'k', 'pfk')))
def test_descends_to_a_stationary_point(seed, sizes, absolute):
    d, rank = sizes
    schur, manifold, y = reduced(world(seed, d, absolute=absolute, noise=1.0), rank, seed)
    rule = StoppingRule(cost_tolerance=0, gradient_tolerance=1e-14)
    run = minimise(schur, manifold, y, RegularisedQ(schur), rule)
    costs = [cost for _, cost in run.trace]
    assert run.status in (SolveStatus.CONVERGED, SolveStatus.STALLED)
    assert np.all(np.diff(costs) <= 1e-12 * np.abs(costs[:-1]))
    assert run.cost == pytest.approx(np.sum(run.y * schur(run.y)), rel=1e-9)
    gradient = manifold.project(run.y, schur(run.y))
    assert np.linalg.norm(gradient) < 1e-5 * np.linalg.norm(schur.Q_cc.diagonal())


class Identity:
    portable = True

    def placed(self, arrays):
        return True

    def apply(self, v, out):
        out[...] = v
        return out

    def refresh(self, y, gradient, cg_steps):
        pass


def step_at(offset: float, radius: float, rule: StoppingRule, enough: float = 0.0):
    """On a sphere, `offset` away from the best point e_0 of a quadratic, or from the worst, e_4."""
    manifold = Manifold(2, 0, 1)
    q = np.diag(np.arange(5.0))
    # One bearing of five columns, whose cost is u Q u^T: Q acts from the right.
    top = np.zeros((1, 5))
    top[0, 4 if offset < 0 else 0] = 1
    away = np.random.default_rng(0).standard_normal((1, 5))
    y = manifold.nearest_point(top + abs(offset) * away)

    def operator(x: np.ndarray, out: np.ndarray) -> np.ndarray:
        return np.matmul(x, q, out=out)

    qy = y @ q
    cg = TruncatedCG(operator, manifold, Identity(), HOST, y)
    cg.stand_at(y, manifold.multipliers(y, qy))
    return cg.step(manifold.project(y, qy), radius, rule, enough)


@pytest.mark.parametrize('offset, radius, rule, enough, reason', [
    (NEAR_BEST, math.inf, StoppingRule(), 1e6, CGStop.NOT_NEEDED),
    (NEAR_BEST, math.inf, StoppingRule(), 0.0, CGStop.FORCING),
    (NEAR_BEST, 1e-5, StoppingRule(), 0.0, CGStop.BOUNDARY),
    (NEAR_WORST, 1.0, StoppingRule(), 0.0, CGStop.NEGATIVE_CURVATURE),
    (NEAR_BEST, math.inf, StoppingRule(max_cg_steps=1), 0.0, CGStop.MAX_STEPS),
])
def test_each_reason(offset, radius, rule, enough, reason):
    step = step_at(offset, radius, rule, enough)
    assert step.stop is reason
    assert step.stop.at_boundary == (reason in (CGStop.BOUNDARY, CGStop.NEGATIVE_CURVATURE))
    assert (step.model < 0) == (reason is not CGStop.NOT_NEEDED)
    assert step.norm == pytest.approx(np.linalg.norm(step.s), rel=1e-9)
    if step.stop.at_boundary:
        assert step.norm == pytest.approx(radius)


def test_a_deadline_stops_cg():
    schur, manifold, y = reduced(world(0, noise=1.0))
    gradient = schur(y)
    cg = TruncatedCG(schur, manifold, Identity(), HOST, y)
    blocks, scalars = manifold.multipliers(y, gradient)
    # Without multipliers the Hessian is positive semidefinite: no negative curvature.
    cg.stand_at(y, (0 * blocks, 0 * scalars))
    # So that CG has more to do than it does between two looks at the clock.
    with patch.object(trust_region, 'CG_FORCING', 1e-9):
        step = cg.step(
            manifold.project(y, gradient), math.inf, StoppingRule(deadline=0.0), 0.0)
    assert step.stop is CGStop.DEADLINE
    assert 0 < step.cg_steps <= 16


CLASSES = {
    'pose graph': {'ranges': 0},
    'ranges and lever arms': {},
    'anchored': {'absolute': 'pfk'},
    'landmarks': {'ranges': 0, 'sightings': 12, 'landmarks': 4},
}


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('lifted', [False, True])
@pytest.mark.parametrize('graph', [
    world(1, noise=1.0), world(1, 3, noise=1.0), world(1, noise=1.0, absolute='pfk'),
    scene(6, 30, scales=True)], ids=['plane', 'space', 'anchored', 'scales'])
def test_gradient_and_hessian_by_finite_differences(name, graph, lifted):
    """Square and lifted, as the solver has them: other kernels are compiled for a test alone."""
    schur = SchurOperator(QuadraticProblem(graph))
    space, random = FORMULATIONS[name](schur), np.random.default_rng(0)
    manifold = space.manifold
    y = space.enter(schur.problem.manifold.random_point(5 if lifted else graph.dimension, random))
    v = manifold.project(y, random.normal(size=y.shape))

    def apply(z):
        return space(z, np.empty_like(z))

    def gradient(t):
        z = manifold.retract(y, t * v)
        return manifold.project(z, apply(z))

    def cost(t):
        z = manifold.retract(y, t * v)
        return np.sum(z * apply(z))

    step = 1e-5
    slope = 2 * np.sum(gradient(0) * v)
    assert (cost(step) - cost(-step)) / (2 * step) == pytest.approx(slope, rel=1e-6)
    if name == 'original-varpro':
        # Its retraction leaves the direction v to follow the best positions.
        assert np.abs(gradient(0.1)[-manifold.points :]).max() < 1e-8
        return
    derivative = manifold.project(y, (gradient(step) - gradient(-step)) / (2 * step))
    blocks, scalars = manifold.multipliers(y, apply(y))
    hessian = manifold.hessian(y, apply(v), v, blocks, scalars, np.empty_like(v))
    assert np.abs(derivative - hessian).max() < 1e-6 * (1 + np.abs(hessian).max())


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from((2, 3)), st.sampled_from(sorted(CLASSES)))
def test_same_optimum_from_the_same_start(seed, d, kind):
    graph = world(seed, d, noise=0.3, **CLASSES[kind])
    costs = [
        solve(graph, replace(EXACT, formulation=name), initial=estimate_of(graph))
        for name in NAMES]
    best = min(result.stats.cost_final for result in costs)
    for name, result in zip(NAMES, costs, strict=True):
        assert result.stats.formulation == name
        assert set(result.stats.cg_stops) == {reason.value for reason in CGStop}
        assert sum(result.stats.cg_stops.values()) == result.stats.iterations
        assert result.stats.cost_final == pytest.approx(best, rel=1e-8, abs=1e-10)


def test_dense_refuses_what_does_not_fit():
    schur = SchurOperator(QuadraticProblem(world(1, noise=1.0)))
    with patch.object(formulations, 'DENSE_LIMIT_BYTES', 1000), \
            pytest.raises(SolverError, match='use formulation schur'):
        FORMULATIONS['dense'](schur)
