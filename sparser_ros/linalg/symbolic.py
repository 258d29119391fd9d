"""Which entries a sparse Cholesky factor has: permuted patterns and elimination trees."""

from __future__ import annotations

import numpy as np

from .compiled import compiled


@compiled()
def permuted_pattern(indptr, indices, order, rank):  # type: ignore[no-untyped-def]
    """Symmetric CSC pattern, rows sorted: column j is column order[j], row i row rank[i].

    Zeros that a product left out on one side only are harmless: the transpose's are taken.
    """
    m = len(order)
    starts = np.zeros(m + 1, dtype=np.int32)
    for e in range(indptr[m]):
        starts[rank[indices[e]] + 1] += 1
    for j in range(m):
        starts[j + 1] += starts[j]
    at = starts[:-1].copy()
    rows = np.empty(starts[m], dtype=np.int32)
    # By symmetry column j lists the rows that column j appears in, here in ascending order.
    for j in range(m):
        for e in range(indptr[order[j]], indptr[order[j] + 1]):
            i = rank[indices[e]]
            rows[at[i]] = j
            at[i] += 1
    return starts, rows


@compiled()
def lower_triangle(starts, rows):  # type: ignore[no-untyped-def]
    """A CSC pattern, rows sorted, without what lies above its diagonal, but with all of that."""
    m = len(starts) - 1
    kept = np.zeros_like(starts)
    below = np.empty(len(rows) + m, dtype=rows.dtype)
    at = 0
    for j in range(m):
        below[at] = j
        at += 1
        for e in range(starts[j], starts[j + 1]):
            if rows[e] > j:
                below[at] = rows[e]
                at += 1
        kept[j + 1] = at
    return kept, below[:at].copy()


@compiled()
def elimination_tree(starts, rows):  # type: ignore[no-untyped-def]
    """Parent (-1 = root) and entries, the diagonal included, of each column of the factor.

    Both (m,), for a symmetric CSC pattern.
    """
    m = len(starts) - 1
    parent = np.full(m, -1, dtype=np.int64)
    counts = np.ones(m, dtype=np.int64)
    mark = np.full(m, -1, dtype=np.int64)
    # Row j of the factor is a subtree, climbed from the entries of row j up to where j begins.
    for j in range(m):
        mark[j] = j
        for e in range(starts[j], starts[j + 1]):
            i = rows[e]
            while i < j and mark[i] != j:
                if parent[i] == -1:
                    parent[i] = j
                counts[i] += 1
                mark[i] = j
                i = parent[i]
    return parent, counts


@compiled()
def factor_pattern(starts, rows, parent, counts):  # type: ignore[no-untyped-def]
    """CSC pattern of the factor below its diagonal, rows sorted."""
    m = len(starts) - 1
    indptr = np.zeros(m + 1, dtype=np.int64)
    for j in range(m):
        indptr[j + 1] = indptr[j] + counts[j] - 1
    indices = np.empty(indptr[m], dtype=np.int32)
    at = indptr[:-1].copy()
    mark = np.full(m, -1, dtype=np.int64)
    for j in range(m):
        mark[j] = j
        for e in range(starts[j], starts[j + 1]):
            i = rows[e]
            while i < j and mark[i] != j:
                indices[at[i]] = j
                at[i] += 1
                mark[i] = j
                i = parent[i]
    return indptr, indices
