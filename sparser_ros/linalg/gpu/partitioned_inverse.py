"""L^-1 as a product of a few sparse factors: triangular solves without long chains.

A triangular solve follows the elimination tree, whose height on SLAM graphs is hundreds of
columns: on a GPU each level is a launch with next to nothing to do. Here neighbouring levels are
inverted together, subtree by subtree, as long as that does not fill too much (Alvarado, Pothen,
Schreiber: Highly parallel sparse triangular solution, 1993). A solve is then a few sparse
products, all rows of a group at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from ...array_types import Array, Index
from ..cholesky import CholeskyFactor
from ..compiled import Csr, compiled
from ..ordering import bucketed

GROWTHS = 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0
"""Bounds tried on the entries of a subtree's inverse over those of its part of L."""
PRODUCT_ENTRIES = 250_000
"""Entries that one more product is worth: what a GPU streams while a kernel is launched, 2 us."""
DENSE_ROWS = 48
"""Rows, and share of entries that are there, from where a subtree is inverted as a dense matrix."""
DENSE_SHARE = 0.25


@dataclass(frozen=True)
class Grouping:
    """Which rows are solved together, and in which order."""

    order: Index
    """(n,): row of L at each place; groups, and subtrees within, are contiguous."""
    bounds: Index
    """(groups + 1,): places where groups begin."""
    tops: Index
    """(n,): last place of the subtree that each place belongs to."""


def lower_of(factor: CholeskyFactor) -> Csr:
    """L of a factor of single numbers (b = 1) by columns, the diagonal first in each."""
    every, first = np.arange(factor.n), factor.indptr[:-1]
    return Csr(
        factor.indptr + np.arange(factor.n + 1),
        np.insert(factor.indices, first, every),
        np.insert(factor.data.ravel(), first, 1 / factor.inverse_diagonal.ravel()))


class InversePlan:
    """Grouping and patterns for one pattern of L; the values follow each factorisation."""

    def __init__(self, factor: CholeskyFactor) -> None:
        n = self.n = factor.n
        indptr, indices, _ = lower_of(factor)
        row_starts, row_columns, entry = _transposed(indptr, indices, n)
        parent = _parents(indptr, indices)
        self.grouping = grouping = grouped(parent, row_starts, row_columns)
        inner, across = _split(
            row_starts, row_columns, entry, grouping.order,
            np.repeat(np.arange(len(grouping.bounds) - 1), np.diff(grouping.bounds)))
        self._inner, self.across = _Pattern(*inner), _Pattern(*across)
        starts, rows = _paths(_parents(*inner[:2]))
        self.inverse = _Pattern(starts, rows, np.arange(len(rows)))
        self._starts, self._rows = starts, rows

    def values(self, lower: Array) -> Array:
        """Entries of the groups' inverses, column by column, in the order of `inverse`.

        `lower` are the values of L, as in `lower_of`.
        """
        lower = lower[self._inner.entry]
        starts, rows = self._inner.column_starts, self._inner.column_rows
        data = np.zeros(len(self._rows))
        dense = _dense_subtrees(self.grouping.tops, self._starts, starts)
        for first, last in dense:
            size = last - first
            block = np.zeros((size, size))
            at = slice(starts[first], starts[last])
            column = np.repeat(np.arange(size), np.diff(starts[first : last + 1]))
            block[rows[at] - first, column] = lower[at]
            inverse, info = dtrtri(block, lower=1)
            if info:
                raise AssertionError('a pivot of a positive definite matrix is zero')
            at = slice(self._starts[first], self._starts[last])
            column = np.repeat(np.arange(size), np.diff(self._starts[first : last + 1]))
            data[at] = inverse[self._rows[at] - first, column]
        done = np.zeros(self.n, dtype=bool)
        for first, last in dense:
            done[first:last] = True
        _invert(starts, rows, lower, self._starts, self._rows, done, data)
        return data


class _Pattern:
    """A lower triangular pattern by columns and by rows, and where its values come from."""

    def __init__(self, starts: Index, rows: Index, entry: Index) -> None:
        """By columns, rows ascending; `entry` is the source of each value."""
        self.column_starts, self.column_rows, self.entry = starts, rows, entry
        self.row_starts, self.row_columns, self.by_row = _transposed(
            starts, rows, len(starts) - 1)
        """`by_row`: order of the values row by row."""


class PartitionedInverse:
    """(L L^T)^-1 of one factorisation as products with sparse matrices.

    For each group of rows g, in order: x_g <- G_g (x_g - F_g x); then, from the last group back,
    x_g <- G_g^T (x_g - F_g^T x). F holds L between groups, G the inverses within.
    """

    def __init__(self, factor: CholeskyFactor, plan: InversePlan) -> None:
        self.n = factor.n
        bounds = plan.grouping.bounds.tolist()
        self.groups = list(pairwise(bounds))
        """(first, last) place of each group."""
        self.order = np.argsort(factor.at)[plan.grouping.order].astype(np.int32)
        """(n,): row of A at each place."""
        across, inverse = plan.across, plan.inverse
        lower = lower_of(factor).data
        off, values = lower[across.entry], plan.values(lower)
        self.F = Csr(across.row_starts, across.row_columns, off[across.by_row])
        self.F_T = Csr(across.column_starts, across.column_rows, off)
        self.G = Csr(inverse.row_starts, inverse.row_columns, values[inverse.by_row])
        self.G_T = Csr(inverse.column_starts, inverse.column_rows, values)


def grouped(parent: Index, row_starts: Index, row_columns: Index) -> Grouping:
    """The cheapest groups of a lower triangular pattern by rows, of those bounds on fill."""
    n, least = len(parent), math.inf
    group = np.zeros(n, dtype=np.int64)
    for growth in GROWTHS:
        tried, filled = _groups(parent, row_starts, row_columns, growth)
        # Of one solve, in entries: two products a group, there and back.
        cost = 2 * filled + 4 * (tried.max(initial=0) + 1) * PRODUCT_ENTRIES
        if cost >= least:
            # A looser bound fills more, and fewer groups no longer make up for it.
            break
        group, least = tried, cost
    top = _tops(parent, group)
    order = np.lexsort((np.arange(n), top, group))
    bounds = np.append(0, np.cumsum(np.bincount(group)))
    last = np.flatnonzero(np.diff(top[order], append=-1))
    return Grouping(order, bounds, np.repeat(last, np.diff(last, prepend=-1)))


def _dense_subtrees(
    tops: Index, inverse: NDArray[Any], lower: NDArray[Any]
) -> list[tuple[int, int]]:
    """(first, last + 1) of the subtrees that are large and fairly full triangles."""
    last = np.unique(tops)
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    size = last + 1 - first
    full = size * (size + 1) // 2
    filled = lower[last + 1] - lower[first]
    chosen = (
        (size >= DENSE_ROWS)
        & (filled > DENSE_SHARE * full)
        & (inverse[last + 1] - inverse[first] > 0))
    return [(int(a), int(b) + 1) for a, b in zip(first[chosen], last[chosen], strict=True)]


def _transposed(starts: Index, rows: Index, n: int) -> tuple[Index, Index, Index]:
    """A pattern by columns, by rows: starts, columns in ascending order, and the entry of each."""
    row_starts, entry = bucketed(rows, n)
    columns: Index = np.repeat(np.arange(len(starts) - 1), np.diff(starts)).astype(np.int32)
    return row_starts, columns[entry], entry


_compiled = compiled()


@_compiled
def _parents(starts, rows):  # type: ignore[no-untyped-def]
    """(n,): the row below the diagonal, which comes first, of each column; -1 at roots."""
    parent = np.full(len(starts) - 1, -1, dtype=np.int64)
    for j in range(len(parent)):
        if starts[j + 1] > starts[j] + 1:
            parent[j] = rows[starts[j] + 1]
    return parent


@_compiled
def _split(row_starts, row_columns, entry, order, group):  # type: ignore[no-untyped-def]
    """L within groups and across them, each by columns: starts, rows, entries of L.

    `order` and `group` are the row of L, and the group, at each place; the result is in places.
    """
    n = len(order)
    place = np.empty(n, dtype=np.int64)
    for k in range(n):
        place[order[k]] = k
    count = np.zeros((2, n + 1), dtype=np.int64)
    for i in range(n):
        for e in range(row_starts[i], row_starts[i + 1]):
            j = place[row_columns[e]]
            count[int(group[j] != group[place[i]]), j + 1] += 1
    for j in range(n):
        count[:, j + 1] += count[:, j]
    at = count[:, :-1].copy()
    rows = np.empty(len(entry), dtype=np.int32)
    entries = np.empty(len(entry), dtype=np.int32)
    inner = count[0, n]
    at[1] += inner
    # Row after row, so that rows ascend within columns.
    for k in range(n):
        for e in range(row_starts[order[k]], row_starts[order[k] + 1]):
            j = place[row_columns[e]]
            side = int(group[j] != group[k])
            rows[at[side, j]] = k
            entries[at[side, j]] = entry[e]
            at[side, j] += 1
    return ((count[0], rows[:inner], entries[:inner]), (count[1], rows[inner:], entries[inner:]))


@_compiled
def _groups(parent, row_starts, row_columns, growth):  # type: ignore[no-untyped-def]
    """Group of each row, and the entries of all inverses and of L between groups.

    A row joins the last group below it while the subtree's inverse has at most `growth` times
    the entries of its part of L.
    """
    n = len(parent)
    group = np.zeros(n, dtype=np.int64)
    below = np.full(n, -1, dtype=np.int64)
    size = np.zeros(n, dtype=np.int64)
    inverse = np.zeros(n, dtype=np.int64)
    lower = np.zeros(n, dtype=np.int64)
    total = len(row_columns)
    for j in range(n):
        g = max(below[j], 0)
        own = 0
        for e in range(row_starts[j], row_starts[j + 1]):
            if group[row_columns[e]] == g or row_columns[e] == j:
                own += 1
        if below[j] >= 0 and inverse[j] + size[j] + 1 > growth * (lower[j] + own):
            g += 1
            size[j] = inverse[j] = lower[j] = 0
            own = 1
        group[j] = g
        size[j] += 1
        total += size[j] - own
        inverse[j] += size[j]
        lower[j] += own
        up = parent[j]
        if up >= 0:
            if g > below[up]:
                below[up] = g
                size[up] = inverse[up] = lower[up] = 0
            if g == below[up]:
                size[up] += size[j]
                inverse[up] += inverse[j]
                lower[up] += lower[j]
    return group, total


@_compiled
def _tops(parent, group):  # type: ignore[no-untyped-def]
    """(n,): highest ancestor in the same group."""
    top = np.arange(len(parent))
    for j in range(len(parent) - 1, -1, -1):
        if parent[j] >= 0 and group[parent[j]] == group[j]:
            top[j] = top[parent[j]]
    return top


@_compiled
def _paths(parent):  # type: ignore[no-untyped-def]
    """Pattern of the inverse by columns: every ancestor within the group."""
    n = len(parent)
    depth = np.ones(n, dtype=np.int64)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            depth[j] = depth[parent[j]] + 1
    starts = np.zeros(n + 1, dtype=np.int64)
    for j in range(n):
        starts[j + 1] = starts[j] + depth[j]
    rows = np.empty(starts[n], dtype=np.int64)
    for j in range(n):
        at = starts[j]
        i = j
        while i >= 0:
            rows[at] = i
            at += 1
            i = parent[i]
    return starts, rows


@_compiled
def _invert(indptr, indices, data, starts, rows, done, out):  # type: ignore[no-untyped-def]
    """Columns of the inverses by forward substitution along their paths."""
    n = len(indptr) - 1
    column = np.zeros(n)
    for j in range(n):
        if done[j]:
            continue
        column[j] = 1.0
        for e in range(starts[j], starts[j + 1]):
            b = rows[e]
            x = column[b] / data[indptr[b]]
            column[b] = 0.0
            out[e] = x
            if x != 0.0:
                for s in range(indptr[b] + 1, indptr[b + 1]):
                    column[indices[s]] -= data[s] * x
