"""Block-diagonal multipliers against dense algebra."""

from itertools import pairwise

import numpy as np
import pytest
from helpers import world

from sparser_ros.solver.certificate import Multipliers
from sparser_ros.solver.problem import QuadraticProblem
from sparser_ros.solver.schur import SchurOperator


def dense_multipliers(manifold, y, gradient):
    """Lambda = blockdiag sym(G_b Y_b^T), block by block."""
    matrix = np.zeros((manifold.rows, manifold.rows))
    ends = np.cumsum([0, *[manifold.d] * manifold.n, *[1] * manifold.k])
    ends = [*ends, manifold.rows] if manifold.homogenised else ends
    for first, last in pairwise(ends):
        block = gradient[first:last] @ y[first:last].T
        matrix[first:last, first:last] = (block + block.T) / 2
    return matrix


@pytest.mark.parametrize('d', [2, 3])
@pytest.mark.parametrize('absolute', ['', 'pfk'])
def test_products_sums_and_traces_are_those_of_the_matrix(d, absolute):
    schur = SchurOperator(QuadraticProblem(world(3, d, noise=0.5, absolute=absolute)))
    manifold, random = schur.problem.manifold, np.random.default_rng(2)
    y, v = manifold.random_point(5, random), random.standard_normal((manifold.rows, 5))
    own = Multipliers.of(manifold, y, schur(y))
    matrix = dense_multipliers(manifold, y, schur(y))
    np.testing.assert_allclose(own.times(v), matrix @ v, atol=1e-9 * abs(matrix).max())
    np.testing.assert_allclose(own.matrix().toarray(), matrix, atol=1e-12 * abs(matrix).max())
    both = own.plus(Multipliers.of(manifold, y, v))
    assert both.trace == pytest.approx(both.matrix().trace(), rel=1e-9)
    np.testing.assert_allclose(
        both.times(v), own.times(v) + Multipliers.of(manifold, y, v).times(v),
        atol=1e-9 * abs(matrix).max())
