"""L^-1 as a product of sparse factors: the same solutions, whatever the grouping."""

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from matrices import graph_matrix

from sparser_ros.linalg.cholesky import SymbolicCholesky, factorize
from sparser_ros.linalg.gpu import partitioned_inverse
from sparser_ros.linalg.gpu.device_arrays import DeviceFactor
from sparser_ros.linalg.gpu.partitioned_inverse import GROWTHS, InversePlan, PartitionedInverse
from sparser_ros.linalg.ordering import fill_reducing_order


def solved(emulated, factor, rhs):
    inverse = PartitionedInverse(factor, InversePlan(factor))
    there = emulated.put(rhs)
    DeviceFactor(emulated.runtime, inverse).solve(there, there)
    return emulated.get(there)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 120), st.floats(0, 1.5),
       st.sampled_from((*GROWTHS, 1e9)),
       st.sampled_from(('amd', 'metis', 'natural')))
def test_solves_like_the_factor(emulated, seed, n, density, growth, ordering):
    matrix = graph_matrix(seed, n, density)
    order = np.arange(n) if ordering == 'natural' else fill_reducing_order(matrix, ordering)
    factor = SymbolicCholesky(matrix, order).factorize(matrix)
    rhs = np.random.default_rng(seed).normal(size=(n, 3))
    with patch.object(partitioned_inverse, 'GROWTHS', (growth,)):
        found = solved(emulated, factor, rhs)
    assert found == pytest.approx(factor.solve(rhs), rel=1e-10, abs=1e-12)


def test_an_empty_matrix(emulated):
    assert solved(emulated, factorize(sp.csc_matrix((0, 0))), np.zeros((0, 3))).shape == (0, 3)
