"""L^-1 as a product of a few sparse factors: triangular solves without long chains.

A triangular solve follows the elimination tree, whose height on SLAM graphs is hundreds of
columns: on a GPU each level is a launch with next to nothing to do. Here neighbouring levels are
inverted together, subtree by subtree, as long as that does not fill too much (Alvarado, Pothen,
Schreiber: Highly parallel sparse triangular solution, 1993). A solve is then a few sparse
products, all rows of a group at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from ...array_types import Array, Index
from ..cholesky import CholeskyFactor
from ..compiled import Csr, compiled
from ..ordering import bucketed
from ..sparse_kernels import sparse_kernels
from ..symbolic import elimination_parents

GROWTHS = 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0
"""Bounds tried on the entries of a subtree's inverse over those of its part of L."""
PRODUCT_ENTRIES = 250_000
"""Entries that one more product is worth: what a GPU streams while a kernel is launched, 2 us."""
DENSE_ROWS = 48
"""Rows, and share of entries that are there, from where a subtree is inverted as a dense matrix."""
DENSE_SHARE = 0.25


@dataclass(frozen=True)
class Grouping:
    """Which rows are solved together, in which order, and what that costs."""

    order: Index
    """(n,): row of L at each place; groups, and subtrees within, are contiguous."""
    bounds: Index
    """(groups + 1,): places where groups begin."""
    tops: Index
    """(n,): last place of the subtree that each place belongs to."""
    entries: int
    """Of all factors together, one way."""

    @property
    def groups(self) -> int:
        return len(self.bounds) - 1

    @property
    def cost(self) -> float:
        """Of one solve, in entries: two products a group, there and back."""
        return 2 * self.entries + 4 * self.groups * PRODUCT_ENTRIES


def lower_of(factor: CholeskyFactor) -> Csr:
    """L of a factor of single numbers (b = 1) by columns, the diagonal first in each."""
    every, first = np.arange(factor.n), factor.indptr[:-1]
    return Csr(
        factor.indptr + np.arange(factor.n + 1),
        np.insert(factor.indices, first, every),
        np.insert(factor.data.ravel(), first, 1 / factor.inverse_diagonal.ravel()))


class InversePlan:
    """Grouping and patterns for one pattern of L; the values follow each factorisation."""

    def __init__(self, factor: CholeskyFactor, growth: float | None = None) -> None:
        """`growth` bounds fill; by default the cheapest of `gpu_inverse_growth` is taken."""
        n = self.n = factor.n
        indptr, indices, data = lower_of(factor)
        by_row = sp.csc_matrix((data, indices, indptr), shape=(n, n)).tocsr()
        parent = elimination_parents(by_row.indptr, by_row.indices)
        tries = GROWTHS if growth is None else (growth,)
        self.grouping = min(
            (grouped(parent, by_row.indptr, by_row.indices, bound) for bound in tries),
            key=lambda grouping: grouping.cost)
        grouping = self.grouping
        place = np.empty(n, dtype=np.int64)
        place[grouping.order] = np.arange(n)
        row, column = place[indices], place[np.repeat(np.arange(n), np.diff(indptr))]
        group = np.repeat(np.arange(grouping.groups), np.diff(grouping.bounds))
        inner = group[row] == group[column]
        self.across = _Pattern(row[~inner], column[~inner], np.flatnonzero(~inner), n)
        self._inner = _Pattern(row[inner], column[inner], np.flatnonzero(inner), n)
        parent = elimination_parents(self._inner.row_starts, self._inner.row_columns)
        starts, rows = _paths(parent)
        self.inverse = _Pattern(
            rows, np.repeat(np.arange(n), np.diff(starts)), np.arange(len(rows)), n)
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
    """A lower triangular pattern by rows and by columns, and where its values come from."""

    def __init__(self, row: Index, column: Index, source: Index, n: int) -> None:
        # Sorted by rows, then stably by columns: rows ascend within columns, and the reverse.
        _, first = bucketed(row, n)
        self.column_starts, second = bucketed(column[first], n)
        by_column = first[second]
        self.entry = source[by_column]
        """Source of each value, column by column."""
        row, column = row[by_column], column[by_column]
        self.column_rows = row.astype(np.int32)
        self.row_starts, self.by_row = bucketed(row, n)
        """Order of the values row by row."""
        self.row_columns = column[self.by_row].astype(np.int32)


class PartitionedInverse:
    """(L L^T)^-1 of one factorisation as products with sparse matrices.

    For each group of rows g, in order: x_g <- G_g (x_g - F_g x); then, from the last group back,
    x_g <- G_g^T (x_g - F_g^T x). F holds L between groups, G the inverses within.
    """

    def __init__(self, factor: CholeskyFactor, plan: InversePlan) -> None:
        self.n, self.plan = factor.n, plan
        self.bounds = plan.grouping.bounds
        self.order = np.argsort(factor.at)[plan.grouping.order].astype(np.int32)
        """(n,): row of A at each place."""
        across, inverse = plan.across, plan.inverse
        lower = lower_of(factor).data
        off, values = lower[across.entry], plan.values(lower)
        self.F = Csr(across.row_starts, across.row_columns, off[across.by_row])
        self.F_T = Csr(across.column_starts, across.column_rows, off)
        self.G = Csr(inverse.row_starts, inverse.row_columns, values[inverse.by_row])
        self.G_T = Csr(inverse.column_starts, inverse.column_rows, values)

    def there(self) -> list[tuple[Csr, Csr, int, int]]:
        """(across, within, first, last) of every group in the order of L^-1."""
        return [(self.F, self.G, first, last) for first, last in self._ranges()]

    def back(self) -> list[tuple[Csr, Csr, int, int]]:
        """The same in the order of L^-T."""
        return [(self.F_T, self.G_T, first, last) for first, last in reversed(self._ranges())]

    def _ranges(self) -> list[tuple[int, int]]:
        return list(zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True))

    def solve(self, rhs: Array) -> Array:
        """A^-1 rhs for rhs (n, p), by the same products that a GPU makes."""
        kernel = sparse_kernels(rhs.shape[1])
        a = np.ascontiguousarray(rhs[self.order])
        b = np.empty_like(a)
        for steps, rest, x in ((self.there(), a, b), (self.back(), b, a)):
            for across, within, first, last in steps:
                kernel.csr_product(
                    across.indptr[first : last + 1], across.indices, across.data, x, True,
                    rest[first:last])
                kernel.csr_product(
                    within.indptr[first : last + 1], within.indices, within.data, rest, False,
                    x[first:last])
        out = np.empty_like(a)
        out[self.order] = a
        return out


def grouped(
    parent: Index, row_starts: NDArray[Any], row_columns: NDArray[Any], growth: float
) -> Grouping:
    """Groups of a lower triangular pattern by rows, at one bound on fill."""
    group, entries = _groups(parent, row_starts, row_columns, growth)
    top = _tops(parent, group)
    order = np.lexsort((np.arange(len(group)), top, group))
    bounds = np.concatenate([[0], np.cumsum(np.bincount(group))]) if len(group) else np.zeros(1)
    last = np.flatnonzero(np.diff(top[order], append=-1))
    tops = np.repeat(last, np.diff(last, prepend=-1))
    across = np.count_nonzero(group[row_columns] != np.repeat(group, np.diff(row_starts)))
    return Grouping(order, bounds.astype(np.int64), tops, int(entries + across))


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


_compiled = compiled()


@_compiled
def _groups(parent, row_starts, row_columns, growth):  # type: ignore[no-untyped-def]
    """Group of each row, and the entries of all inverses.

    A row joins the last group below it while the subtree's inverse has at most `growth` times
    the entries of its part of L.
    """
    n = len(parent)
    group = np.zeros(n, dtype=np.int64)
    below = np.full(n, -1, dtype=np.int64)
    size = np.zeros(n, dtype=np.int64)
    inverse = np.zeros(n, dtype=np.int64)
    lower = np.zeros(n, dtype=np.int64)
    total = 0
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
        total += size[j]
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
