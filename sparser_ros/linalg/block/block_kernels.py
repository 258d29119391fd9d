"""Compiled: patterns of blocks, and where the entries of a matrix lie in them."""

from __future__ import annotations

import numpy as np

from ..compiled import compiled

_compiled = compiled()


@_compiled
def pattern_of_blocks(indptr, indices, node, m, pairs):  # type: ignore[no-untyped-def]
    """Starts and rows of the columns of `block_pattern`; rows are not sorted."""
    # Rows of the matrix by block, and partners by block: member[first[j] : first[j + 1]].
    first = np.zeros(m + 1, dtype=np.int64)
    partners = np.zeros(m + 1, dtype=np.int64)
    room = m
    for r in range(len(node)):
        if node[r] >= 0:
            first[node[r] + 1] += 1
            room += indptr[r + 1] - indptr[r]
    for u in range(len(pairs)):
        if pairs[u, 0] >= 0 and pairs[u, 1] >= 0:
            partners[pairs[u, 0] + 1] += 1
            partners[pairs[u, 1] + 1] += 1
            room += 2
    for j in range(m):
        first[j + 1] += first[j]
        partners[j + 1] += partners[j]
    member = np.empty(first[m], dtype=np.int64)
    partner = np.empty(partners[m], dtype=np.int64)
    at, to = first[:-1].copy(), partners[:-1].copy()
    for r in range(len(node)):
        if node[r] >= 0:
            member[at[node[r]]] = r
            at[node[r]] += 1
    for u in range(len(pairs)):
        i, j = pairs[u, 0], pairs[u, 1]
        if i >= 0 and j >= 0:
            partner[to[i]] = j
            to[i] += 1
            partner[to[j]] = i
            to[j] += 1
    starts = np.zeros(m + 1, dtype=np.int32)
    seen = np.full(m, -1, dtype=np.int64)
    rows = np.empty(room, dtype=np.int32)
    count = 0
    for j in range(m):
        seen[j] = j
        rows[count] = j
        count += 1
        for r in member[first[j] : first[j + 1]]:
            for e in range(indptr[r], indptr[r + 1]):
                i = node[indices[e]]
                if i >= 0 and seen[i] != j:
                    seen[i] = j
                    rows[count] = i
                    count += 1
        for i in partner[partners[j] : partners[j + 1]]:
            if seen[i] != j:
                seen[i] = j
                rows[count] = i
                count += 1
        starts[j + 1] = count
    return starts, rows[:count].copy()


@_compiled
def expanded_pattern(starts, rows, b):  # type: ignore[no-untyped-def]
    """CSC pattern (int32) of dense b x b blocks from that of the blocks."""
    m = len(starts) - 1
    indptr = np.empty(m * b + 1, dtype=np.int32)
    indices = np.empty(len(rows) * b * b, dtype=np.int32)
    at = 0
    for j in range(m):
        for k in range(b):
            indptr[j * b + k] = at
            for e in range(starts[j], starts[j + 1]):
                for a in range(b):
                    indices[at] = rows[e] * b + a
                    at += 1
    indptr[m * b] = at
    return indptr, indices


@_compiled
def column_major(starts, blocks):  # type: ignore[no-untyped-def]
    """Entries of the expanded pattern from blocks (entries, b, b)."""
    b = blocks.shape[1]
    data = np.empty(blocks.size)
    at = 0
    for j in range(len(starts) - 1):
        for k in range(b):
            for e in range(starts[j], starts[j + 1]):
                for a in range(b):
                    data[at] = blocks[e, a, k]
                    at += 1
    return data


@_compiled
def entry_slots(starts, rows, b, at, indptr, indices):  # type: ignore[no-untyped-def]
    """Where the entries of a CSC matrix, row r moved to at[r], lie among (entries, b, b).

    -1 = in a block above the diagonal, which is not stored. Then (count, row, column): entries in
    blocks on or below the diagonal that the pattern lacks, and the first of them.
    """
    where = np.full(len(starts) - 1, -1, dtype=np.int64)
    slots = np.empty(len(indices), dtype=np.int64)
    count, row, missing_column = 0, -1, -1
    for column in range(len(indptr) - 1):
        j, k = at[column] // b, at[column] % b
        for e in range(starts[j], starts[j + 1]):
            where[rows[e]] = e
        for e in range(indptr[column], indptr[column + 1]):
            i = at[indices[e]]
            slots[e] = -1
            if i // b < j:
                continue
            if not starts[j] <= where[i // b] < starts[j + 1]:
                # The place found is one of another column.
                if count == 0:
                    row, missing_column = indices[e], column
                count += 1
                continue
            slots[e] = (where[i // b] * b + i % b) * b + k
    return slots, count, row, missing_column


@_compiled
def fill_slots(slots, data, out):  # type: ignore[no-untyped-def]
    """out[slots] = data where there is a slot."""
    for e in range(len(slots)):
        if slots[e] >= 0:
            out[slots[e]] = data[e]
