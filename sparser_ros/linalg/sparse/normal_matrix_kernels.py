"""Compiled: pattern of A^T W A for a diagonal W, and what each weight adds to each entry."""

from __future__ import annotations

import numpy as np

from ..compiled import compiled

_compiled = compiled()


@_compiled
def normal_pattern(indptr, indices, size):  # type: ignore[no-untyped-def]
    """CSR pattern (size, size) of A^T A, columns sorted, and A's entries by column.

    A has its entries in CSR, no column twice in a row. The entries of column i are
    entry[starts[i] : starts[i + 1]], in the rows row[...].
    """
    starts = np.zeros(size + 1, dtype=np.int64)
    for e in range(len(indices)):
        starts[indices[e] + 1] += 1
    for i in range(size):
        starts[i + 1] += starts[i]
    at = starts[:-1].copy()
    entry = np.empty(len(indices), dtype=np.int64)
    row = np.empty(len(indices), dtype=np.int64)
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            i = indices[e]
            entry[at[i]], row[at[i]] = e, r
            at[i] += 1
    mark = np.full(size, -1, dtype=np.int64)
    found = np.zeros(size + 1, dtype=np.int64)
    for i in range(size):
        for s in range(starts[i], starts[i + 1]):
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                j = indices[e]
                if mark[j] != i:
                    mark[j] = i
                    found[i + 1] += 1
    for i in range(size):
        found[i + 1] += found[i]
    columns = np.empty(found[size], dtype=np.int32)
    at = found[:-1].copy()
    mark[:] = -1
    # By symmetry row j lists the rows that list column j, here in ascending order.
    for i in range(size):
        for s in range(starts[i], starts[i + 1]):
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                j = indices[e]
                if mark[j] != i:
                    mark[j] = i
                    columns[at[j]] = i
                    at[j] += 1
    return found, columns, starts, entry, row


@_compiled
def normal_coefficients(matrix, found, columns, starts, entry, row):  # type: ignore[no-untyped-def]
    """CSR (entries of A^T A, rows of A): what each row of the CSR matrix A adds to each entry.

    The other arguments are what `normal_pattern` returns.
    """
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    size = len(starts) - 1
    slot = np.empty(size, dtype=np.int64)
    first = np.zeros(found[size] + 1, dtype=np.int64)
    for i in range(size):
        for f in range(found[i], found[i + 1]):
            slot[columns[f]] = f
        for s in range(starts[i], starts[i + 1]):
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                first[slot[indices[e]] + 1] += 1
    for f in range(found[size]):
        first[f + 1] += first[f]
    at = first[:-1].copy()
    rows = np.empty(first[-1], dtype=np.int32)
    values = np.empty(first[-1])
    for i in range(size):
        for f in range(found[i], found[i + 1]):
            slot[columns[f]] = f
        for s in range(starts[i], starts[i + 1]):
            own = data[entry[s]]
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                to = at[slot[indices[e]]]
                rows[to], values[to] = row[s], own * data[e]
                at[slot[indices[e]]] = to + 1
    return first, rows, values
