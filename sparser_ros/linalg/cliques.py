"""The cliques of a sparse Cholesky factor: unknowns that are eliminated together, in order.

A clique is a set of nodes that are eliminated at once (its inner nodes) and the nodes that this
ties together (its outer ones). Small cliques are merged into their parents where that fills few
zeros: dense arithmetic is cheaper than bookkeeping.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..array_types import Index
from .cholesky import OrderingUnavailableError, fill_reducing_order
from .compiled import compiled
from .linalg_numbers import linalg_numbers


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
    are many: minimum degree may eliminate a chain from one end to the other, and then a change at
    one end changes every clique up to the other.
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
    numbers = linalg_numbers()
    limits = _MergeLimits(
        numbers.merged_nodes_at_most, numbers.merged_nodes_always, numbers.merged_zero_share)
    top, at, rows = _cliques_of(
        m, _Lists(above.indptr, above.indices), _Lists(starts, flat), element_at, limits)
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
    if pattern.shape[0] > linalg_numbers().nested_dissection_nodes:
        with suppress(OrderingUnavailableError):
            return fill_reducing_order(pattern, 'metis')
    return fill_reducing_order(pattern)


class _Lists(NamedTuple):
    """_Lists of nodes one after the other: list k is items[starts[k] : starts[k + 1]]."""

    starts: NDArray[Any]
    items: NDArray[Any]


class _MergeLimits(NamedTuple):
    """Up to which size a clique is merged into its parent."""

    most_nodes: int
    """With the share of zeros below."""
    any_zeros_nodes: int
    """With any share of zeros."""
    zero_share: float


@compiled()
def _listed(nodes, k, mark, listed, count):  # type: ignore[no-untyped-def]
    """Append the nodes that are not marked k yet, and mark them; returns how many are listed."""
    for i in nodes:
        if mark[i] != k:
            mark[i] = k
            listed[count] = i
            count += 1
    return count


@compiled()
def _cliques_of(m, above, elements, element_at, limits):  # type: ignore[no-untyped-def]
    """(top node of each node's clique, at, rows): rows[at[k]:at[k + 1]] lie beyond node k.

    Nodes are numbered as they are eliminated. `above` lists the neighbours of each node that come
    later; the `elements` whose first node is k are element_at[k] to element_at[k + 1].
    """
    indptr, indices = above
    starts, flat = elements
    most, few, zeros = limits
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
