"""Q = A^T Omega A with the sparsity worked out once: new weights are one sparse product.

Entry (i, j) of Q is sum_r omega_r a_ri a_rj, linear in the weights. The coefficients form a fixed
sparse matrix (entries of Q, rows of A); its product with the weights refreshes all values in
place (paper, section 6.2: patterns of M, B and Q_cc do not depend on the weights).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ...array_types import Array
from ...linalg.kernel_records import csr
from ...linalg.sparse.normal_matrix_kernels import normal_coefficients, normal_pattern


class WeightedNormalMatrix:
    """The blocks Q_cc, B, B^T, M of [A C]^T Omega [A C], their patterns fixed."""

    def __init__(self, A: sp.csr_matrix, C: sp.csr_matrix) -> None:
        joined = sp.hstack([A, C], format='csr')
        joined.sum_duplicates()
        m, size = joined.shape
        indptr, columns, *by_column = normal_pattern(joined.indptr, joined.indices, size)
        first, rows, values = normal_coefficients(
            csr(joined), indptr, columns, *by_column)
        self._coefficients = sp.csr_matrix((values, rows, first), shape=(len(columns), m))
        self.full = sp.csr_matrix(
            (np.zeros(len(columns)), columns, indptr), shape=(size, size))
        i = np.repeat(np.arange(size), np.diff(indptr))
        n_c = A.shape[1]
        top, left = i < n_c, columns < n_c
        cut = (slice(0, n_c), slice(n_c, size))
        self._blocks = [
            (np.flatnonzero((top == (r == 0)) & (left == (c == 0))), self._pattern(cut[r], cut[c]))
            for r in (0, 1) for c in (0, 1)
        ]

    def _pattern(self, rows: slice, columns: slice) -> sp.csr_matrix:
        """A block of the pattern; explicit zeros survive slicing."""
        return self.full[rows][:, columns].tocsr()

    def refresh(
        self, omega: Array
    ) -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
        """Q_cc, B, B^T and M at the weights omega (rows,); `full` follows."""
        self.full.data = self._coefficients @ omega
        for at, block in self._blocks:
            block.data = self.full.data[at]
        Q_cc, B, B_T, M = (block for _, block in self._blocks)
        return Q_cc, B, B_T, M
