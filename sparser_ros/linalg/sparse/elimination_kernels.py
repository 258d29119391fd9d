"""Compiled: symbolic elimination of a graph, merged into cliques."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled

_compiled = compiled()


class Lists(NamedTuple):
    """Lists of nodes one after the other: list k is items[starts[k] : starts[k + 1]]."""

    starts: NDArray[Any]
    items: NDArray[Any]


class MergeLimits(NamedTuple):
    """Up to which size a clique is merged into its parent."""

    most_nodes: int
    """With the share of zeros below."""
    any_zeros_nodes: int
    """With any share of zeros."""
    zero_share: float


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
def cliques_of(m, above, elements, element_at, limits):  # type: ignore[no-untyped-def]
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
