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
    """A CSC pattern without what lies above its diagonal."""
    kept = np.zeros_like(starts)
    below = np.empty_like(rows)
    at = 0
    for j in range(len(starts) - 1):
        for e in range(starts[j], starts[j + 1]):
            if rows[e] >= j:
                below[at] = rows[e]
                at += 1
        kept[j + 1] = at
    return kept, below[:at].copy()


@compiled()
def first_uncovered(indptr, indices, known_indptr, known_indices):  # type: ignore[no-untyped-def]
    """(count, row, column): entries of a lower triangle that a known one lacks, and the first.

    Both are square CSC patterns of the same size; what lies above the diagonals is passed over.
    """
    stored_in = np.full(len(indptr) - 1, -1, dtype=np.int64)
    count, row, column = 0, -1, -1
    for j in range(len(indptr) - 1):
        for e in range(known_indptr[j], known_indptr[j + 1]):
            stored_in[known_indices[e]] = j
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            if i >= j and stored_in[i] != j:
                if count == 0:
                    row, column = i, j
                count += 1
    return count, row, column


@compiled()
def elimination_parents(starts, rows):  # type: ignore[no-untyped-def]
    """(m,): parent of each column in the elimination tree, -1 at roots.

    Of a symmetric CSC pattern, or of a factor's by rows, whose entries need not all be there:
    SuperLU leaves out what cancels.
    """
    m = len(starts) - 1
    parent = np.full(m, -1, dtype=np.int64)
    ancestor = np.full(m, -1, dtype=np.int64)
    for j in range(m):
        for e in range(starts[j], starts[j + 1]):
            i = np.int64(rows[e])
            while i != -1 and i < j:
                following = ancestor[i]
                ancestor[i] = j
                if following == -1:
                    parent[i] = j
                i = following
    return parent


@compiled()
def elimination_tree(starts, rows):  # type: ignore[no-untyped-def]
    """Parent (-1 = root) and entries, the diagonal included, of each column of the factor.

    Both (m,), for a symmetric CSC pattern.
    """
    m = len(starts) - 1
    parent = elimination_parents(starts, rows)
    counts = np.ones(m, dtype=np.int64)
    mark = np.full(m, -1, dtype=np.int64)
    for j in range(m):
        mark[j] = j
        for e in range(starts[j], starts[j + 1]):
            i = rows[e]
            while i < j and mark[i] != j:
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
    # Row j of the factor is a subtree of the elimination tree, climbed from the entries of row j.
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
