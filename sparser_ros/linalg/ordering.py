"""Orders of elimination, by AMD or nested dissection, and the factors and cliques they give.

This is the only module that imports scikit-sparse, whose versions 0.4 (SuiteSparse 5 to 7) and
>= 0.5 (SuiteSparse >= 7.4) differ in every name: CHOLMOD orders, factors are our own (`cholesky`).
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..array_types import Index
from ..config import SolverError
from .compiled import compiled

try:
    from sksparse import cholmod
except ImportError:
    cholmod = None

log = logging.getLogger(__name__)


class OrderingUnavailableError(SolverError):
    """CHOLMOD cannot compute this ordering, usually because it was built without METIS."""


def cholmod_available() -> bool:
    """True when scikit-sparse is installed."""
    return cholmod is not None


def fill_reducing_order(pattern: sp.spmatrix, method: str = 'amd') -> Index:
    """(n,): the rows of a symmetric pattern in an order of elimination that fills little.

    `method` is `amd` (minimum degree), `metis` or `nesdis` (nested dissection);
    OrderingUnavailableError where CHOLMOD lacks it. scikit-sparse from 0.5 on, and SuperLU where
    there is none, tell only the order that they factorise in, whatever the method.
    """
    n = pattern.shape[0]
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    pattern = sp.csc_matrix(pattern, dtype=float)
    if hasattr(cholmod, 'analyze'):
        try:
            factor = cholmod.analyze(pattern, mode='simplicial', ordering_method=method)
        except cholmod.CholmodError as error:
            raise OrderingUnavailableError(
                f'CHOLMOD has no ordering {method}: {error}') from error
        return np.asarray(factor.P(), dtype=np.int64)
    ones = sp.csc_matrix((np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=(n, n))
    dominant = sp.csc_matrix(ones + ones.T + 2 * n * sp.eye(n))
    if cholmod is not None:
        return np.asarray(cholmod.cho_factor(dominant, lower=True).perm, dtype=np.int64)
    factor = sp.linalg.splu(
        dominant, permc_spec='MMD_AT_PLUS_A', diag_pivot_thresh=0.0,
        options={'SymmetricMode': True})
    return np.asarray(np.argsort(factor.perm_c))


def flattest(matrix: sp.spmatrix) -> Index:
    """(n,): an order with a flat elimination tree: nested dissection, as far as CHOLMOD has it."""
    for method in ('metis', 'nesdis'):
        try:
            return fill_reducing_order(matrix, method)
        except OrderingUnavailableError:
            log.warning(
                'CHOLMOD was built without the ordering %s: factors of large graphs will have '
                'more entries and deeper elimination trees', method)
    return fill_reducing_order(matrix)


def bucketed(key: Index, count: int) -> tuple[Index, Index]:
    """Starts (count + 1,) of the keys below `count`, and the stable order that sorts them."""
    by_key = sp.csr_matrix(
        (np.arange(len(key), dtype=np.int32), key, [0, len(key)]), shape=(1, count)).tocsc()
    return by_key.indptr, by_key.data


# -- which entries a factor has


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


# -- cliques: unknowns that are eliminated together


DISSECTION_NODES = 200
"""Nodes above which METIS orders a clique tree instead of minimum degree, as CHOLMOD's own nested
dissection does."""
MERGED_AT_MOST = 16
"""Inner nodes of a merged clique that may hold `MERGED_ZEROS`: 16 poses of the plane, 48 rows."""
MERGED_ALWAYS = 4
"""Inner nodes up to which cliques are merged whatever zeros this fills: walking over a clique costs
more than the arithmetic of so few rows."""
MERGED_ZEROS = 0.4
"""Largest share of zeros in a merged clique of more inner nodes."""


@dataclass(frozen=True)
class Elimination:
    """Cliques in an order in which children come before parents; nodes are numbers below m."""

    inner: Index
    """(m,): inner nodes, one clique after the other."""
    inner_counts: Index
    """(cliques,)"""
    outer: Index
    """Outer nodes, one clique after the other, each in the order of elimination."""
    outer_counts: Index
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
    i = np.concatenate([pairs[:, 0], *(np.repeat(element, len(element)) for element in elements)])
    j = np.concatenate([pairs[:, 1], *(np.tile(element, len(element)) for element in elements)])
    pattern = _symmetric(i, j, m)
    free = np.ones(m, dtype=bool)
    free[last] = False
    nodes, number = np.flatnonzero(free), np.cumsum(free) - 1
    kept = free[i] & free[j]
    order = np.concatenate([
        nodes[_order_of(_symmetric(number[i[kept]], number[j[kept]], len(nodes)))],
        last]).astype(np.int64)
    rank = np.empty(m, dtype=np.int64)
    rank[order] = np.arange(m)
    starts, rows = permuted_pattern(pattern.indptr, pattern.indices, order, rank)
    parent, counts = elimination_tree(starts, rows)
    _, below = factor_pattern(starts, rows, parent, counts)
    tops, clique = np.unique(_merged(parent, counts), return_inverse=True)
    above = parent[tops]
    clique_of = np.empty(m, dtype=np.int64)
    clique_of[order] = clique
    return Elimination(
        order[np.argsort(clique, kind='stable')], np.bincount(clique, minlength=len(tops)),
        order[below[np.repeat(np.isin(np.arange(m), tops), counts - 1)]], counts[tops] - 1,
        np.where(above >= 0, clique[above], -1), clique_of)


def _symmetric(i: Index, j: Index, m: int) -> sp.csc_matrix:
    """(m, m): a pattern with these entries, those across the diagonal, and the diagonal."""
    every = np.arange(m)
    rows, columns = np.concatenate([i, j, every]), np.concatenate([j, i, every])
    return sp.csc_matrix((np.ones(len(rows)), (rows, columns)), shape=(m, m))


def _order_of(pattern: sp.csc_matrix) -> Index:
    if pattern.shape[0] > DISSECTION_NODES:
        with suppress(OrderingUnavailableError):
            return fill_reducing_order(pattern, 'metis')
    return fill_reducing_order(pattern)


@compiled()
def _merged(parent, counts):  # type: ignore[no-untyped-def]
    """(m,): last node of each node's clique, from the elimination tree and entries of columns."""
    m = len(parent)
    youngest = np.full(m, -1, dtype=np.int64)
    sibling = np.full(m, -1, dtype=np.int64)
    top = np.arange(m)
    size = np.ones(m, dtype=np.int64)
    filled = np.zeros(m, dtype=np.int64)
    for k in range(m):
        child = youngest[k]
        while child >= 0:
            n = size[child] + size[k]
            zeros = size[child] * (size[k] + counts[k] - counts[child])
            zeros += filled[child] + filled[k]
            entries = n * (n + 1) // 2 + n * (counts[k] - 1)
            if n <= MERGED_ALWAYS or zeros == 0 or (
                    n <= MERGED_AT_MOST and zeros <= MERGED_ZEROS * entries):
                top[child] = k
                size[k] = n
                filled[k] = zeros
            child = sibling[child]
        if parent[k] >= 0:
            sibling[k] = youngest[parent[k]]
            youngest[parent[k]] = k
    for k in range(m - 1, -1, -1):
        top[k] = top[top[k]]
    return top
