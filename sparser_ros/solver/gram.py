"""Q = A^T Omega A with the sparsity worked out once: new weights are one sparse product.

Entry (i, j) of Q is sum_r omega_r a_ri a_rj, linear in the weights. The coefficients form a fixed
sparse matrix (entries of Q, rows of A); its product with the weights refreshes all values in
place (paper, section V-B: patterns of M, B and Q_cc do not depend on the weights).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]


class WeightedGram:
    """The blocks Q_cc, B, B^T, M of [A C]^T Omega [A C], their patterns fixed."""

    def __init__(self, A: sp.csr_matrix, C: sp.csr_matrix) -> None:
        joined = sp.hstack([A, C], format='csr')
        size, m = joined.shape[1], joined.shape[0]
        count = np.diff(joined.indptr).astype(np.int64)
        pairs = count**2
        row = np.repeat(np.arange(m), pairs)
        within = np.arange(len(row)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        first, second = np.divmod(within, count[row])
        start = joined.indptr[row].astype(np.int64)
        first, second = first + start, second + start
        key = joined.indices[first].astype(np.int64) * size + joined.indices[second]
        entries, slot = np.unique(key, return_inverse=True)
        self._coefficients = sp.csr_matrix(
            (joined.data[first] * joined.data[second], (slot.ravel(), row)),
            shape=(len(entries), m))
        i, j = np.divmod(entries, size)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=size))])
        self.full = sp.csr_matrix((np.zeros(len(entries)), j, indptr), shape=(size, size))
        n_c = A.shape[1]
        top, left = i < n_c, j < n_c
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
