"""Sparse Cholesky of matrices made of small dense blocks, solved block by block.

The rows of one pose (rotation and translation) share their neighbours, so poses are ordered
rather than rows, which takes a fraction of the time, and each entry of the factor is a dense
block: one index and one load of the right-hand side per block make triangular solves of 2 columns
twice as fast as entry by entry.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array_types import Array, Index
from .cholesky import (
    NotPositiveDefiniteError,
    SymbolicCholesky,
    UncoveredPatternError,
    fill_reducing_order,
    uncovered_text,
)
from .compiled import compiled
from .fronts import FactorBlocks, LowerBlocks, front_kernel, fronts
from .sparse_kernels import block_kernels
from .symbolic import elimination_tree, factor_pattern, lower_triangle, permuted_pattern


class BlockCholesky:
    """Ordering and elimination tree of symmetric matrices of m x m blocks, b x b each.

    `pattern` (m, m) has an entry for every block, the diagonal included. Blocks are handed over
    as (entries, b, b) in the order of `starts` and `rows`: column by column of the lower triangle
    of the permuted pattern, where block i is number `rank[i]`. Column j of the factor has
    `counts[j]` blocks, the diagonal included. `order` (m,) lists the blocks in a known good order
    of elimination; None = one is sought.
    """

    def __init__(self, pattern: sp.spmatrix, b: int, order: Index | None = None) -> None:
        SymbolicCholesky.count += 1
        pattern = sp.csc_matrix(pattern)
        m = self.m = pattern.shape[0]
        if order is None:
            order = fill_reducing_order(pattern)
        self.rank = np.empty(m, dtype=np.int64)
        self.rank[order] = np.arange(m)
        starts, rows = permuted_pattern(pattern.indptr, pattern.indices, order, self.rank)
        self.starts, self.rows = lower_triangle(starts, rows)
        self._parent, self.counts = elimination_tree(starts, rows)
        self._below = factor_pattern(starts, rows, self._parent, self.counts)
        self.b = b
        self._fronts = fronts(self._parent, self.counts, b)

    def sized(self, b: int) -> BlockCholesky:
        """The same pattern in the same order for blocks of another size."""
        other = copy.copy(self)
        other.b = b
        other._fronts = fronts(self._parent, self.counts, b)
        return other

    def factorize(self, blocks: Array, place: Index) -> BlockFactor:
        """Factor of blocks (entries, b, b); NotPositiveDefiniteError if the matrix is not PD.

        Its right-hand sides have the rows that `place` (n,) lists: block times b plus the row.
        """
        m, b = self.m, self.b
        at = self.rank[place // b] * b + place % b
        indptr, indices = self._below
        factor = FactorBlocks(
            indptr, indices, np.empty((len(indices), b, b)), np.empty((m, b, b)))
        matrix = LowerBlocks(self.starts, self.rows, blocks)
        if not front_kernel(b)(self._fronts, matrix, factor):
            raise NotPositiveDefiniteError('a pivot is not positive')
        return BlockFactor(*factor, at)


class RowBlockCholesky:
    """BlockCholesky of a sparse matrix whose rows are scattered over the blocks.

    `place` (n,) says where each row belongs: block times b plus the row within. Places that no
    row takes are padded with ones on the diagonal. `order` is that of the blocks, if known.
    """

    def __init__(
        self, matrix: sp.spmatrix, place: Index, b: int, order: Index | None = None
    ) -> None:
        matrix = sp.csc_matrix(matrix)
        self.place, self.b = place, b
        m = int(place.max(initial=-1)) // b + 1
        pattern = block_pattern(
            matrix.indptr, matrix.indices, place // b, m, np.zeros((0, 2), dtype=np.int64))
        self.blocks = BlockCholesky(pattern, b, order)
        taken = np.zeros(m * b, dtype=bool)
        taken[place] = True
        rows = taken.reshape(m, b)
        self._taken = rows[:, :, None] & rows[:, None, :]
        free = np.flatnonzero(~taken)
        free = self.blocks.rank[free // b] * b + free % b
        self._at = self.blocks.rank[place // b] * b + place % b
        each = np.arange(len(free) + 1)
        self._padding = self._slots(free, each, each[:-1])
        self._pattern = self._slots_of(matrix)

    def _slots(self, at: Index, indptr: Any, indices: Any) -> Index:
        slots, count, row, column = _entry_slots(
            self.blocks.starts, self.blocks.rows, self.b, at, indptr, indices)
        if count:
            raise UncoveredPatternError(uncovered_text(count, row, column))
        return np.asarray(slots)

    def _slots_of(self, matrix: sp.csc_matrix) -> tuple[Any, Any, Index]:
        """A matrix's pattern, and where its entries lie among those of the blocks, -1 = nowhere."""
        slots = self._slots(self._at, matrix.indptr, matrix.indices)
        return matrix.indptr, matrix.indices, slots

    def factorize(
        self, matrix: sp.csc_matrix, more: Array | None = None
    ) -> BlockFactor:
        """Factor of a matrix whose entries all lie in the analysed blocks.

        `more` (m, b, b), symmetric, is added to its diagonal blocks; what it has at places that no
        row takes is left out. Raises NotPositiveDefiniteError if the matrix is not positive
        definite and UncoveredPatternError if it has entries in other blocks.
        """
        indptr, indices, _ = self._pattern
        if not (np.array_equal(matrix.indptr, indptr) and np.array_equal(matrix.indices, indices)):
            # Zeros may come and go within the blocks.
            self._pattern = self._slots_of(matrix)
        values = np.zeros((len(self.blocks.rows), self.b, self.b))
        flat = values.ravel()
        _fill_slots(self._pattern[2], matrix.data, flat)
        if more is not None:
            # The diagonal block is the first of its column.
            values[self.blocks.starts[self.blocks.rank]] += np.where(self._taken, more, 0.0)
        flat[self._padding] = 1
        return self.blocks.factorize(values, self.place)


class BlockFactor:
    """L of P A P^T = L L^T in blocks; solves for several right-hand sides without the GIL."""

    def __init__(
        self, indptr: Index, indices: Index, data: Array, inverse_diagonal: Array, place: Index
    ) -> None:
        """Blocks below the diagonal by columns (CSC) and inverses (m, b, b) of those on it."""
        b = self.b = inverse_diagonal.shape[1]
        self.n, self.place = len(place), place
        self.indptr, self.indices, self.data = indptr, indices, data
        self.inverse_diagonal = inverse_diagonal
        self.nnz = data.size + len(inverse_diagonal) * b * (b + 1) // 2
        pivots = np.einsum('mii->mi', inverse_diagonal)
        if not np.all(pivots > 0) or not np.all(np.isfinite(pivots)):
            raise NotPositiveDefiniteError('a pivot is not positive')
        self._work: dict[int, Array] = {}

    def solve(self, rhs: Array, out: Array | None = None) -> Array:
        """A^-1 rhs for rhs of shape (n,) or (n, p); `out` may be rhs itself."""
        if rhs.ndim == 1:
            return self.solve(rhs[:, None]).ravel()
        p = rhs.shape[1]
        kernel = block_kernels(self.b, p)
        if p not in self._work:
            # Padded rows are solved for zero and stay so.
            self._work[p] = np.zeros((len(self.inverse_diagonal) * self.b, p))
        work = self._work[p]
        out = np.empty_like(rhs) if out is None else out
        kernel.scatter(rhs, self.place, work)
        kernel.llt_solve(self.indptr, self.indices, self.data, self.inverse_diagonal, work)
        kernel.gather(work, self.place, out)
        return out


def block_pattern(
    indptr: Index, indices: Index, node: Index, m: int, pairs: Index
) -> sp.csc_matrix:
    """(m, m) pattern of the blocks that entries of a symmetric CSR or CSC matrix fall into.

    Row r belongs to block node[r], -1 = to none; `pairs` (k, 2) of blocks are coupled as well,
    -1 = with none. The diagonal is included.
    """
    starts, rows = _pattern_of_blocks(indptr, indices, node, m, pairs)
    return sp.csc_matrix((np.ones(len(rows), dtype=bool), rows, starts), shape=(m, m))


@compiled()
def _pattern_of_blocks(indptr, indices, node, m, pairs):  # type: ignore[no-untyped-def]
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


@compiled()
def _entry_slots(starts, rows, b, at, indptr, indices):  # type: ignore[no-untyped-def]
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


@compiled()
def _fill_slots(slots, data, out):  # type: ignore[no-untyped-def]
    """out[slots] = data where there is a slot."""
    for e in range(len(slots)):
        if slots[e] >= 0:
            out[slots[e]] = data[e]
