"""Compiled: the chains and small stars of a symmetric pattern."""

from __future__ import annotations

import numpy as np

from ..compiled import compiled

CHAIN_ENTRIES = 3
"""Entries in the column of a node with two neighbours, its diagonal included."""


@compiled()
def independent_stars(indptr, indices):  # type: ignore[no-untyped-def]
    """(n,): nodes with at most three neighbours, no two of them next to each other."""
    n = len(indptr) - 1
    chosen, beside = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    for j in range(n):
        if not beside[j] and indptr[j + 1] - indptr[j] <= CHAIN_ENTRIES + 1:
            chosen[j] = True
            for e in range(indptr[j], indptr[j + 1]):
                beside[indices[e]] = True
    return chosen


@compiled()
def chains_of(indptr, indices):  # type: ignore[no-untyped-def]
    """Nodes with at most two neighbours, chain by chain; the others; pairs of those at ends.

    From the pattern of a symmetric matrix with its diagonal. Of a ring one node is left.
    """
    n = len(indptr) - 1
    core = np.empty(n, dtype=np.bool_)
    for j in range(n):
        core[j] = indptr[j + 1] - indptr[j] > CHAIN_ENTRIES
    order = np.empty(n, dtype=np.int64)
    seen = core.copy()
    pairs = np.empty((n, 2), dtype=np.int64)
    count, paired = 0, 0
    # Chains with a loose end, then those between two others, then rings.
    for turn in range(3):
        for s in range(n):
            if turn == 0 and (core[s] or seen[s] or indptr[s + 1] - indptr[s] == CHAIN_ENTRIES):
                continue
            if turn == 1 and not core[s]:
                continue
            if turn == 2:
                if seen[s]:
                    continue
                core[s] = seen[s] = True
            for first in range(indptr[s], indptr[s + 1]) if turn else range(1):
                previous, at = s, (indices[first] if turn else s)
                while not seen[at]:
                    seen[at] = True
                    order[count] = at
                    count += 1
                    following = at
                    for e in range(indptr[at], indptr[at + 1]):
                        if indices[e] != at and indices[e] != previous:
                            following = indices[e]
                    previous, at = at, following
                if turn and previous != s and at != s and core[at]:
                    pairs[paired, 0], pairs[paired, 1] = s, at
                    paired += 1
    return order[:count].copy(), np.flatnonzero(core), pairs[:paired].copy()
