"""The preconditioner of pose graphs, and when it changes."""

import numpy as np
import pytest
from dense import posed

from sparser_ros.solver.model.schur import SchurOperator
from sparser_ros.solver.optimize.trust_region import StoppingRule, minimise
from sparser_ros.solver.precondition.adaptive import AdaptivePreconditioner
from sparser_ros.solver.precondition.newton import NewtonPreconditioner
from sparser_ros.solver.precondition.regularised_q import RegularisedQ


def test_switches_after_a_long_step_and_not_before():
    schur, y = posed(3, noise=1.0)
    adaptive = AdaptivePreconditioner(RegularisedQ(schur), schur)
    patience = adaptive.patience
    for steps in (0, patience - 1):
        adaptive.refresh(y, schur(y), steps)
        assert adaptive.frozen is None
    adaptive.refresh(y, schur(y), patience)
    assert isinstance(adaptive.frozen, NewtonPreconditioner)
    v = schur.problem.manifold.project(y, np.random.default_rng(0).normal(size=y.shape))
    np.testing.assert_array_equal(
        adaptive.apply(v, np.empty_like(v)), adaptive.frozen.apply(v, np.empty_like(v)))


def test_saves_cg_steps_where_weights_are_uneven():
    schur, y = posed(3, seed=4, noise=0.3, robots=1, length=60, landmarks=0, closures=90)
    schur.problem.omega[::3] *= 1e3
    schur = SchurOperator(schur.problem)
    manifold = schur.problem.manifold
    rule = StoppingRule(cost_tolerance=1e-12)
    plain = minimise(schur, manifold, y, RegularisedQ(schur), rule)
    adaptive = AdaptivePreconditioner(RegularisedQ(schur), schur, 3)
    switched = minimise(schur, manifold, y, adaptive, rule)
    assert switched.cost == pytest.approx(plain.cost, rel=1e-9)
    assert switched.cg_steps < plain.cg_steps
