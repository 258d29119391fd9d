"""Weighted products by a fixed pattern are those of dense algebra, at any weights."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparser_ros.solver.schur import WeightedNormalMatrix


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 12), st.integers(0, 6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_blocks_of_weighted_products(rows, first, second, seed):
    rng = np.random.default_rng(seed)
    A, C = (sp.random(rows, size, 0.4, format='csr', random_state=rng) for size in (first, second))
    weighted = WeightedNormalMatrix(A, C)
    whole = np.hstack([A.toarray(), C.toarray()])
    for _ in range(2):
        omega = rng.uniform(0.1, 10, rows)
        blocks = weighted.refresh(omega)
        expected = whole.T @ (omega[:, None] * whole)
        cut = (slice(0, first), slice(first, None))
        for block, (r, c) in zip(blocks, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True):
            assert np.allclose(block.toarray(), expected[cut[r], cut[c]], rtol=1e-12, atol=1e-12)
            assert block.has_sorted_indices and block.has_canonical_format
        assert np.allclose(weighted.full.toarray(), expected, rtol=1e-12, atol=1e-12)
