"""The four formulations meet at one optimum."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from helpers import world
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.generators import scene
from sparser_ros.config import SolverConfig, SolverError
from sparser_ros.graph import estimate_of
from sparser_ros.solver import formulations, solve
from sparser_ros.solver.formulations import FORMULATIONS, formulate
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator

EXACT = SolverConfig(cost_tolerance=0.0, gradient_tolerance=1e-18)
NAMES = sorted(FORMULATIONS)
CLASSES = {
    'pose graph': {'ranges': 0},
    'ranges and lever arms': {},
    'anchored': {'absolute': 'pfk'},
    'landmarks': {'ranges': 0, 'sightings': 12, 'landmarks': 4},
}


def operator(name, **options):  # type: ignore[no-untyped-def]
    schur = SchurOperator(QuadraticProblem(world(1, noise=1.0, **options)))
    return schur, formulate(name, schur)


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('kind', CLASSES)
def test_cost_at_the_best_positions_is_the_reduced_cost(name, kind):
    schur, space = operator(name, **CLASSES[kind])
    y = schur.problem.manifold.random_point(5, np.random.default_rng(0))
    z = space.enter(y)
    assert z.shape[0] == space.manifold.rows
    assert np.sum(z * space(z, np.empty_like(z))) == pytest.approx(np.sum(y * schur(y)), rel=1e-9)
    assert np.array_equal(space.leave(z), y)


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('graph', [
    world(1, noise=1.0), world(1, 3, noise=1.0), world(1, noise=1.0, absolute='pfk'),
    scene(6, 30, scales=True)], ids=['plane', 'space', 'anchored', 'scales'])
def test_gradient_and_hessian_by_finite_differences(name, graph):
    schur = SchurOperator(QuadraticProblem(graph))
    space, random = formulate(name, schur), np.random.default_rng(0)
    manifold = space.manifold
    y = space.enter(schur.problem.manifold.random_point(5, random))
    v = manifold.project(y, random.normal(size=y.shape))

    def apply(z):  # type: ignore[no-untyped-def]
        return space(z, np.empty_like(z))

    def gradient(t):  # type: ignore[no-untyped-def]
        z = manifold.retract(y, t * v)
        return manifold.project(z, apply(z))

    def cost(t):  # type: ignore[no-untyped-def]
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
        assert result.stats.cost_final == pytest.approx(best, rel=1e-8, abs=1e-10)


def test_dense_refuses_what_does_not_fit():
    with patch.object(formulations, 'DENSE_LIMIT_BYTES', 1000), \
            pytest.raises(SolverError, match='use formulation schur'):
        operator('dense')
