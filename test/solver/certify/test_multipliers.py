"""Block-diagonal multipliers against their matrix."""

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.certify.certificate import multiplier_matrix
from sparser_ros.solver.certify.multipliers import Multipliers
from sparser_ros.solver.model.problem import QuadraticProblem
from sparser_ros.solver.model.schur import SchurOperator


@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('absolute', ['', 'pfk'])
def test_products_sums_and_traces_are_those_of_the_matrix(d, absolute):
    schur = SchurOperator(QuadraticProblem(world(3, d, noise=0.5, absolute=absolute)))
    manifold, random = schur.problem.manifold, np.random.default_rng(2)
    y, v = manifold.random_point(5, random), random.standard_normal((manifold.rows, 5))
    own = Multipliers.of(manifold, y, schur(y))
    matrix = multiplier_matrix(manifold, y, schur(y))
    np.testing.assert_allclose(own.times(v), matrix @ v, atol=1e-9 * abs(matrix).max())
    np.testing.assert_allclose((own.matrix() - matrix).toarray(), 0, atol=1e-12)
    both = own.plus(Multipliers.of(manifold, y, v))
    assert both.trace == pytest.approx(both.matrix().trace(), rel=1e-9)
    np.testing.assert_allclose(
        both.times(v), own.times(v) + Multipliers.of(manifold, y, v).times(v),
        atol=1e-9 * abs(matrix).max())
