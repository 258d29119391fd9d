"""Newton steps down to a minimum of the relaxation."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.newton_descent import NewtonDescent
from sparser_ros.solver.preconditioner import RegularisedQ
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.result import SolveStatus
from sparser_ros.solver.schur import SchurOperator
from sparser_ros.solver.trust_region import StoppingRule, minimise


def problem(seed, d=2, absolute=''):  # type: ignore[no-untyped-def]
    graph = world(seed, d, robots=2, length=12, ranges=30, noise=1.0, absolute=absolute)
    schur = SchurOperator(QuadraticProblem(graph))
    manifold = schur.problem.manifold
    return schur, manifold, manifold.random_point(5, np.random.default_rng(seed))


@pytest.mark.parametrize('absolute', ['', 'pfk'])
@pytest.mark.parametrize('seed', range(3))
def test_it_ends_where_the_trust_region_ends(seed, absolute):
    schur, manifold, start = problem(seed, absolute=absolute)
    costs = []
    newton = NewtonDescent(schur, lambda _, cost, __: costs.append(cost))
    run = newton.run(start, gain=1e-9, most=100)
    best = minimise(
        schur, manifold, start, RegularisedQ(schur),
        StoppingRule(cost_tolerance=0, gradient_tolerance=1e-16))
    assert run.status is SolveStatus.CONVERGED and run.iterations <= 60
    assert np.all(np.diff(costs) < 1e-12 * costs[-1])
    assert run.cost == pytest.approx(best.cost, rel=1e-6)
    np.testing.assert_allclose(manifold.nearest_point(run.y), run.y, atol=1e-9)


def test_a_limit_of_steps_holds_and_the_next_run_goes_on():
    schur, _, start = problem(0)
    whole = NewtonDescent(schur).run(start, gain=1e-9, most=100)
    newton = NewtonDescent(schur)
    y = start
    for _ in range(whole.iterations):
        run = newton.run(y, gain=1e-9, most=1)
        assert run.iterations == 1
        y = run.y
    assert newton.iterations == whole.iterations
    assert run.cost == pytest.approx(whole.cost, rel=1e-12)


def test_a_deadline_ends_it_at_once():
    schur, _, start = problem(0)
    run = NewtonDescent(schur).run(start, gain=0.0, most=10, deadline=-np.inf)
    assert run.status is SolveStatus.TIME_LIMIT and run.y is start
