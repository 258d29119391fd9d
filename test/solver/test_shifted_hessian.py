"""The factor of the shifted Hessian against products with the Hessian itself."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.preconditioner import ShiftedHessian
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator


@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('absolute', ['', 'pfk'])
def test_solutions_fulfil_the_shifted_newton_equation(d, absolute):
    schur = SchurOperator(QuadraticProblem(world(4, d, noise=0.5, absolute=absolute)))
    manifold, random = schur.problem.manifold, np.random.default_rng(0)
    y = manifold.random_point(5, random)
    gradient = schur(y)
    shift = 10 * np.abs(schur.Q_cc.diagonal()).max()
    hessian = ShiftedHessian(schur)
    hessian.at(y, *manifold.multipliers(y, gradient))
    assert hessian.factorize(shift)
    v = manifold.project(y, random.standard_normal(y.shape))
    x = hessian.solve(v)
    np.testing.assert_allclose(manifold.project(y, x), x, atol=1e-9 * np.abs(x).max())
    blocks, scalars = manifold.multipliers(y, gradient)
    back = manifold.hessian(y, schur(x), x, blocks, scalars, np.empty_like(x)) + shift * x
    np.testing.assert_allclose(back, v, atol=1e-6 * np.abs(v).max())
