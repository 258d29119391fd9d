"""Orders: of elimination with fewest multiplications, by AMD or nested dissection; of keys."""

from __future__ import annotations

import logging

import numpy as np
import scipy.sparse as sp

from ..array_types import Index
from .cholesky import OrderingUnavailableError, SymbolicCholesky
from .compiled import compiled

REDUCED_FROM_NODES = 20_000
"""Nodes with three neighbours or more, from which chains are eliminated before the rest is ordered;
AMD of the whole takes less time on smaller graphs."""
METIS_FROM = 40_000
"""Multiplications of a factorisation in AMD's order, for each node, from which METIS pays."""

log = logging.getLogger(__name__)
_CHAIN_ENTRIES = 3
"""Entries in the column of a node with two neighbours, its diagonal included."""


def sparsest(matrix: sp.csc_matrix, b: int = 1) -> SymbolicCholesky:
    """Analysis of a symmetric matrix in the order of fewest multiplications.

    AMD takes a tenth of the time of METIS and is the better one on chains with few closures; on
    large graphs that close everywhere METIS wins more than it costs. A chain between two closures
    leaves one entry for the pair of its ends, in whichever order it is eliminated: large graphs
    lose theirs first. `b` is the size of the dense blocks of another matrix of this pattern that
    will be factorised in the same order.
    """
    busy = int(np.count_nonzero(np.diff(matrix.indptr) > _CHAIN_ENTRIES))
    large = busy >= REDUCED_FROM_NODES
    chains, left, core = _without_chains(matrix) if large else (None, None, matrix)
    tried = SymbolicCholesky(core)
    if tried.counts is None:
        return SymbolicCholesky(matrix) if large else tried
    if b**3 * np.sum(tried.counts**2.0) / 2 > METIS_FROM * busy:
        if not large:
            chains, left, core = _without_chains(matrix)
        tried = flattest(core)
    if left is None:
        return tried
    last = left if tried.order is None else left[tried.order]
    return SymbolicCholesky(matrix, order=np.concatenate([chains, last]))


def _without_chains(matrix: sp.csc_matrix) -> tuple[Index, Index, sp.csc_matrix]:
    """Nodes of chains in order, the others, and the pattern among these that the chains leave."""
    chains, left, pairs = _chains_of(matrix.indptr, matrix.indices)
    core = sp.csc_matrix(matrix[:, left][left])
    rank = np.empty(matrix.shape[0], dtype=np.int64)
    rank[left] = np.arange(len(left))
    i, j = rank[pairs[:, 0]], rank[pairs[:, 1]]
    ends = sp.coo_matrix((np.ones(len(pairs)), (i, j)), shape=core.shape)
    return chains, left, sp.csc_matrix(abs(core) + ends + ends.T)


def flattest(matrix: sp.csc_matrix) -> SymbolicCholesky:
    """Analysis for a flat elimination tree: nested dissection, as far as CHOLMOD has it."""
    for ordering in ('metis', 'nesdis'):
        try:
            return SymbolicCholesky(matrix, ordering)
        except OrderingUnavailableError:
            log.warning(
                'CHOLMOD was built without the ordering %s: factors of large graphs will have '
                'more entries and deeper elimination trees', ordering)
    return SymbolicCholesky(matrix)


def bucketed(key: Index, count: int) -> tuple[Index, Index]:
    """Starts (count + 1,) of the keys below `count`, and the stable order that sorts them."""
    by_key = sp.csr_matrix((np.arange(len(key)), key, [0, len(key)]), shape=(1, count)).tocsc()
    return by_key.indptr, by_key.data


@compiled()
def _chains_of(indptr, indices):  # type: ignore[no-untyped-def]
    """Nodes with at most two neighbours, chain by chain; the others; pairs of those at ends.

    From the pattern of a symmetric matrix with its diagonal. Of a ring one node is left.
    """
    n = len(indptr) - 1
    core = np.empty(n, dtype=np.bool_)
    for j in range(n):
        core[j] = indptr[j + 1] - indptr[j] > _CHAIN_ENTRIES
    order = np.empty(n, dtype=np.int64)
    seen = core.copy()
    pairs = np.empty((n, 2), dtype=np.int64)
    count, paired = 0, 0
    # Chains with a loose end, then those between two others, then rings.
    for turn in range(3):
        for s in range(n):
            if turn == 0 and (core[s] or seen[s] or indptr[s + 1] - indptr[s] == _CHAIN_ENTRIES):
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
