"""Better multipliers than those of a point that is not quite an optimum."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.certificate import Certifier
from sparser_ros.solver.dual_ascent import sharpened
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
