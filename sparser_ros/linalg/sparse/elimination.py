"""Which unknowns are eliminated together, and in what order: cliques of a sparse Cholesky factor.

A clique is a set of nodes that are eliminated at once (its inner nodes) and the nodes that this
ties together (its outer ones). Small cliques are merged into their parents where that fills few
zeros: dense arithmetic is cheaper than bookkeeping.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from .cholesky import (
    OrderingUnavailableError,
    fill_reducing_order,
    supports_external_ordering,
)

Index = NDArray[np.int64]

_MERGED_NODES_AT_MOST = 16
"""Inner nodes of a merged clique that may hold `_MERGED_ZERO_SHARE` of zeros. A clique of 16 poses
in the plane has 48 rows, which fit the first-level cache as a dense triangle (9 kB)."""
_MERGED_NODES_ALWAYS = 4
"""Inner nodes up to which cliques are merged whatever zeros this fills: walking over a clique
costs more than the arithmetic of so few rows."""
_MERGED_ZERO_SHARE = 0.4
"""Largest share of zeros in a merged clique of more inner nodes than that."""

_NESTED_DISSECTION_NODES = 200
"""Nodes above which METIS orders them instead of minimum degree. Below, METIS stops dissecting
(its leaves hold about 200 nodes) and both give the same depth."""

_compiled = njit(cache=True, nogil=True)


@dataclass(frozen=True)
class Elimination:
    """Cliques in an order in which children come before parents; nodes are numbers below m."""

    inner: list[Index]
    outer: list[Index]
    """In the order of elimination."""
    parent: Index
    """(cliques,): -1 = none."""
    clique_of: Index
    """(m,)."""


def eliminate(m: int, pairs: Index, elements: list[Index], last: Index) -> Elimination:
    """Cliques of a graph of m nodes whose edges are `pairs` (k, 2) and all pairs of each element.

    Nodes `last` are eliminated last, in this order, the others by nested dissection where they
    are many: minimum degree may eat a chain from one end to the other, and then what happens at
    one end concerns every clique up to the other one.
    """
    order = _ordered(m, pairs, elements, last)
    rank = np.empty(m, dtype=np.int64)
    rank[order] = np.arange(m)
    low, high = np.sort(rank[pairs], axis=1).T if len(pairs) else np.zeros((2, 0), dtype=np.int64)
    above = sp.csr_matrix((np.ones(len(low), dtype=np.int8), (low, high)), shape=(m, m))
    ranked = [np.sort(rank[one]) for one in elements]
    first = np.array([one[0] for one in ranked], dtype=np.int64)
    by_first = np.argsort(first, kind='stable')
    ranked = [ranked[k] for k in by_first]
    element_at = np.searchsorted(first[by_first], np.arange(m + 1))
    starts = np.cumsum([0] + [len(one) for one in ranked])
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *ranked])
    top, at, rows = _cliques(
        m, above.indptr, above.indices, element_at, starts, flat, _MERGED_NODES_AT_MOST,
        _MERGED_NODES_ALWAYS, _MERGED_ZERO_SHARE)
    tops, clique_of_rank = np.unique(top, return_inverse=True)
    members = np.argsort(clique_of_rank, kind='stable')
    bounds = np.searchsorted(clique_of_rank[members], np.arange(len(tops) + 1))
    inner = [order[members[a:z]] for a, z in pairwise(bounds.tolist())]
    parent = np.full(len(tops), -1, dtype=np.int64)
    outer = []
    for number, k in enumerate(tops):
        beyond = rows[at[k]:at[k + 1]]
        if len(beyond):
            parent[number] = clique_of_rank[beyond[0]]
        outer.append(order[beyond])
    clique_of = np.empty(m, dtype=np.int64)
    clique_of[order] = clique_of_rank
    return Elimination(inner, outer, parent, clique_of)


def _ordered(m: int, pairs: Index, elements: list[Index], last: Index) -> Index:
    """(m,): nodes in the order of elimination."""
    free = np.ones(m, dtype=bool)
    free[last] = False
    number = np.cumsum(free) - 1
    nodes = np.flatnonzero(free)
    i = np.concatenate([pairs[:, 0], *(np.repeat(one, len(one)) for one in elements)])
    j = np.concatenate([pairs[:, 1], *(np.tile(one, len(one)) for one in elements)])
    kept = free[i] & free[j]
    i, j, every = number[i[kept]], number[j[kept]], np.arange(len(nodes))
    rows, columns = np.concatenate([i, j, every]), np.concatenate([j, i, every])
    pattern = sp.csc_matrix(
        (np.ones(len(rows)), (rows, columns)), shape=(len(nodes), len(nodes)))
    return np.concatenate([nodes[_order_of(pattern)], last]).astype(np.int64)


def _order_of(pattern: sp.csc_matrix) -> Index:
    m = pattern.shape[0]
    if not m or not supports_external_ordering():
        return np.arange(m)
    if m > _NESTED_DISSECTION_NODES:
        with suppress(OrderingUnavailableError):
            return fill_reducing_order(pattern, 'metis')
    return fill_reducing_order(pattern)


@_compiled
def _listed(nodes, k, mark, listed, count):  # type: ignore[no-untyped-def]
    """Append the nodes that are not marked k yet, and mark them; returns how many are listed."""
    for i in nodes:
        if mark[i] != k:
            mark[i] = k
            listed[count] = i
            count += 1
    return count


@_compiled
def _cliques(m, indptr, indices, element_at, starts, flat, most, few, zeros):  # type: ignore[no-untyped-def]
    """(top node of each node's clique, at, rows): rows[at[k]:at[k + 1]] lie beyond node k.

    Nodes are numbered as they are eliminated.
    """
    at = np.zeros(m + 1, dtype=np.int64)
    rows = np.empty(8 * m + 64, dtype=np.int64)
    youngest = np.full(m, -1, dtype=np.int64)
    sibling = np.full(m, -1, dtype=np.int64)
    into = np.full(m, -1, dtype=np.int64)
    size = np.ones(m, dtype=np.int64)
    filled = np.zeros(m, dtype=np.int64)
    mark = np.full(m, -1, dtype=np.int64)
    listed = np.empty(m, dtype=np.int64)
    for k in range(m):
        mark[k] = k
        count = 0
        count = _listed(indices[indptr[k] : indptr[k + 1]], k, mark, listed, count)
        for t in range(element_at[k], element_at[k + 1]):
            count = _listed(flat[starts[t] : starts[t + 1]], k, mark, listed, count)
        child = youngest[k]
        while child >= 0:
            count = _listed(rows[at[child] : at[child + 1]], k, mark, listed, count)
            child = sibling[child]
        if at[k] + count > len(rows):
            more = np.empty(2 * len(rows) + count, dtype=np.int64)
            more[: at[k]] = rows[: at[k]]
            rows = more
        own = np.sort(listed[:count])
        rows[at[k] : at[k] + count] = own
        at[k + 1] = at[k] + count
        if count:
            parent = own[0]
            sibling[k] = youngest[parent]
            youngest[parent] = k
        child = youngest[k]
        while child >= 0:
            n = size[child] + size[k]
            extra = size[child] * (size[k] + count - (at[child + 1] - at[child]))
            extra += filled[child] + filled[k]
            entries = n * (n + 1) // 2 + n * count
            if n <= few or extra == 0 or (n <= most and extra <= zeros * entries):
                into[child] = k
                size[k] = n
                filled[k] = extra
            child = sibling[child]
    top = np.empty(m, dtype=np.int64)
    for k in range(m - 1, -1, -1):
        top[k] = k if into[k] < 0 else top[into[k]]
    return top, at, rows
