"""C, a basis of the column space of A_f by choice of columns: A_f = C R (paper, section 5.1).

Where every row holds one free variable or the difference of two, A_f is the incidence matrix of a
graph and its components say which columns to leave out. Any other A_f goes through a sparse QR
factorisation that reveals the rank (the paper's CR route).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ...array_types import Index, Mask
from ...linalg.compiled import compiled
from ...linalg.sparse.cholesky import factorize
from .. import thresholds


def column_basis(A_f: sp.csr_matrix, fixed: Mask) -> Index:
    """Sorted columns of A_f (rows, points) that span its range; `fixed` points have no column."""
    A_f = sp.csr_matrix(A_f, copy=True)
    A_f.sum_duplicates()
    A_f.eliminate_zeros()
    if incidence_like(A_f):
        return incidence_basis(A_f, fixed)
    used = np.flatnonzero(~fixed)
    return used[independent_columns(A_f[:, used])]


def incidence_like(A_f: sp.csr_matrix) -> bool:
    """True where every row is empty, a lone entry, or a pair of entries that add up to zero."""
    per_row = np.diff(A_f.indptr)
    pair = A_f.indptr[:-1][per_row == 2]
    first, second = A_f.data[pair], A_f.data[pair + 1]
    return bool(np.all(per_row <= 2) and np.all(np.abs(first + second) <= 1e-12 * np.abs(first)))


def incidence_basis(A_f: sp.csr_matrix, fixed: Mask) -> Index:
    """Columns that span the range of an incidence matrix (paper, section 5.2 and appendix C).

    Points are joined by the rows that hold two of them. A component that some row grounds (a lone
    entry) keeps every column; any other loses its first, the translation gauge.
    """
    points = A_f.shape[1]
    per_row = np.diff(A_f.indptr)
    pair = A_f.indptr[:-1][per_row == 2]
    first, second = A_f.indices[pair], A_f.indices[pair + 1]
    links = sp.coo_matrix((np.ones(len(pair)), (first, second)), shape=(points, points))
    n_components, label = connected_components(links, directed=False)
    grounded = np.zeros(n_components, dtype=bool)
    grounded[label[A_f.indices[A_f.indptr[:-1][per_row == 1]]]] = True
    keep = ~fixed
    label = np.where(fixed, -1, label)
    _, representative = np.unique(label[keep], return_index=True)
    candidates = np.flatnonzero(keep)[representative]
    keep[candidates[~grounded[label[candidates]]]] = False
    return np.flatnonzero(keep)


def independent_columns(A: sp.csr_matrix) -> Index:
    """Sorted columns of A that form a basis of its range, by rank-revealing sparse QR.

    Rows are rotated one by one into an upper triangular R (George and Heath 1980) in an order of
    columns that keeps R sparse; a column whose diagonal entry stays empty depends on those before
    it (Heath 1982). No normal equations: the condition number is not squared.
    """
    m, n = A.shape
    if not m or not n:
        return np.zeros(0, dtype=np.int64)
    length = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    scaled = sp.diags(1 / np.where(length > 0, length, 1.0)) @ A
    normal = (scaled.T @ scaled).tocsc()
    order = np.asarray(factorize(normal + sp.identity(n, format='csc')).order)
    permuted = sp.csr_matrix(scaled.tocsc()[:, order])
    permuted.sort_indices()
    independent = _triangular_diagonal(
        permuted.indptr, permuted.indices, permuted.data, n,
        thresholds.current().dependent_column_share)
    return np.sort(order[independent]).astype(np.int64)


@compiled()
def _triangular_diagonal(indptr: Any, indices: Any, data: Any, n: int, small: float) -> Any:
    """(n,) mask: columns with a diagonal entry in R of the sparse QR of a CSR matrix."""
    filled = np.zeros(n, dtype=np.bool_)
    stored = [(np.zeros(0, dtype=np.int64), np.zeros(0)) for _ in range(n)]
    row, partner = np.zeros(n), np.zeros(n)
    marked = np.zeros(n, dtype=np.bool_)
    pattern = np.zeros(n, dtype=np.int64)
    for r in range(len(indptr) - 1):
        count = 0
        for e in range(indptr[r], indptr[r + 1]):
            row[indices[e]] = data[e]
            marked[indices[e]] = True
            pattern[count] = indices[e]
            count += 1
        for k in range(n):
            if abs(row[k]) <= small:
                row[k] = 0.0
                continue
            if not filled[k]:
                kept = np.sort(pattern[:count])
                kept = kept[row[kept] != 0.0]
                stored[k] = (kept, row[kept])
                filled[k] = True
                break
            # Rotate the row into R_k so that its entry k vanishes.
            at, values = stored[k]
            radius = np.hypot(values[0], row[k])
            c, s = values[0] / radius, row[k] / radius
            for e in range(len(at)):
                j = at[e]
                partner[j] = values[e]
                if not marked[j]:
                    marked[j] = True
                    pattern[count] = j
                    count += 1
            kept = np.sort(pattern[:count])
            kept = kept[kept >= k]
            top = s * row[kept] + c * partner[kept]
            row[kept] = c * row[kept] - s * partner[kept]
            row[k] = 0.0
            partner[at] = 0.0
            stored[k] = (kept, top)
        for e in range(count):
            row[pattern[e]] = 0.0
            marked[pattern[e]] = False
    return filled
