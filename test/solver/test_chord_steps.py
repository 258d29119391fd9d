"""Corrections of a Newton step by the factor that it was made with."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.certificate import Multipliers
from sparser_ros.solver.newton_descent import (
    Ambient,
    Conditions,
    NewtonDescent,
    corrected,
    excess_times,
)
from sparser_ros.solver.preconditioner import ShiftedHessian
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator


def near_an_optimum(seed, d, absolute):  # type: ignore[no-untyped-def]
    """An operator, a point a little way off an optimum of rank 5, and its multipliers."""
    graph = world(seed, d, robots=2, length=10, ranges=20, noise=0.5, absolute=absolute)
    schur = SchurOperator(QuadraticProblem(graph))
    manifold, random = schur.problem.manifold, np.random.default_rng(seed)
    best = NewtonDescent(schur).run(manifold.random_point(5, random), gain=1e-12, most=200).y
    y = manifold.retract(
        best, 0.02 * manifold.project(best, random.standard_normal(best.shape)))
    return schur, y, Multipliers.of(manifold, y, schur(y))


@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('absolute', ['', 'pfk'])
def test_corrections_get_shorter_and_solve_the_shifted_conditions(d, absolute):
    schur, y, own = near_an_optimum(5, d, absolute)
    manifold, shift = schur.problem.manifold, 0.3 * np.abs(schur.Q_cc.diagonal()).max()
    hessian = ShiftedHessian(schur)
    hessian.at(y, own.blocks, own.scalars)
    assert hessian.factorize(shift)
    at = Conditions(schur, hessian, shift, y, own)
    s = -hessian.solve(manifold.project(y, schur(y)))
    residual = schur(y) - own.times(y) + at.linear(s)
    end = Ambient(y + s, own.plus(at.of(residual)), float(np.linalg.norm(s)))
    lengths = [end.moved]
    for _ in range(12):
        end = corrected(at, end)
        lengths.append(end.moved)
    assert lengths[1] < 0.5 * lengths[0] and lengths[-1] < 1e-3 * lengths[1]
    # On the spheres, and a stationary point of the cost with the shift's spring.
    assert np.abs(excess_times(manifold, end.z, y)).max() < 1e-4 * np.abs(s).max()
    rest = schur(end.z) - end.multipliers.times(end.z) + shift * (end.z - y)
    before = schur(y + s) - own.times(y + s) + shift * s
    moving = slice(0, manifold.d * manifold.n + manifold.k)
    assert np.abs(rest[moving]).max() < 1e-2 * np.abs(before[moving]).max()
