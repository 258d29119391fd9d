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

from ...array_types import Array, Index
from ..sparse.cholesky import (
    CholeskyFactor,
    NotPositiveDefiniteError,
    SymbolicCholesky,
    UncoveredPatternError,
    fill_reducing_order,
    supports_external_ordering,
    uncovered_text,
)
from ..sparse.sparse_kernels import block_kernels
from ..sparse.symbolic import elimination_tree, factor_pattern, lower_triangle, permuted_pattern
from .block_kernels import (
    column_major,
    entry_slots,
    expanded_pattern,
    fill_slots,
    pattern_of_blocks,
)
from .front_kernels import FactorBlocks, LowerBlocks, front_kernel
from .fronts import fronts


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
            order = np.arange(m)
            if supports_external_ordering() and m > 0:
                order = fill_reducing_order(pattern)
        self.rank = np.empty(m, dtype=np.int64)
        self.rank[order] = np.arange(m)
        starts, rows = permuted_pattern(pattern.indptr, pattern.indices, order, self.rank)
        self.starts, self.rows = lower_triangle(starts, rows)
        parent, self.counts = elimination_tree(starts, rows)
        self._tree = starts, rows, parent, self.counts
        self._below: tuple[Index, Index] | None = None
        self._settle(b)

    def sized(self, b: int) -> BlockCholesky:
        """The same pattern in the same order for blocks of another size."""
        other = copy.copy(self)
        other._settle(b)
        return other

    def _settle(self, b: int) -> None:
        """How blocks of this size are factorised."""
        self.b = b
        self._symbolic: SymbolicCholesky | None = None
        if supports_external_ordering():
            self._below = self._below or factor_pattern(*self._tree)
            self._fronts = fronts(self._tree[2], self.counts, b)
            return
        self._indptr, self._indices = expanded_pattern(self.starts, self.rows, b)
        # Ones, since sums of sparse matrices drop zeros.
        self._symbolic = SymbolicCholesky(
            _symmetric(self._matrix(np.ones((len(self.rows), b, b)))))

    def _matrix(self, blocks: Array) -> sp.csc_matrix:
        size = self.m * self.b
        data = column_major(self.starts, blocks)
        made = sp.csc_matrix((data, self._indices, self._indptr), shape=(size, size))
        made.has_sorted_indices = True
        return made

    def factorize(self, blocks: Array, place: Index) -> BlockFactor | ScalarFactor:
        """Factor of blocks (entries, b, b); NotPositiveDefiniteError if the matrix is not PD.

        Its right-hand sides have the rows that `place` (n,) lists: block times b plus the row.
        """
        m, b = self.m, self.b
        at = self.rank[place // b] * b + place % b
        if self._symbolic is not None:
            return ScalarFactor(self._symbolic.factorize(_symmetric(self._matrix(blocks))), at)
        assert self._below is not None
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
        slots, count, row, column = entry_slots(
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
    ) -> BlockFactor | ScalarFactor:
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
        fill_slots(self._pattern[2], matrix.data, flat)
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


class ScalarFactor:
    """The same where CHOLMOD cannot be told an ordering, or is missing."""

    def __init__(self, factor: CholeskyFactor, place: Index) -> None:
        self.factor, self.place = factor, place
        self.n, self.nnz = len(place), factor.nnz

    def solve(self, rhs: Array, out: Array | None = None) -> Array:
        """A^-1 rhs for rhs of shape (n,) or (n, p); `out` may be rhs itself."""
        padded = np.zeros((self.factor.n, *rhs.shape[1:]))
        padded[self.place] = rhs
        out = np.empty_like(rhs) if out is None else out
        out[...] = self.factor.solve(padded)[self.place]
        return out


def _symmetric(lower: sp.csc_matrix) -> sp.csc_matrix:
    """Both triangles of a matrix of which the upper one is not all stored."""
    below = sp.tril(lower, -1)
    return sp.csc_matrix(below + below.T + sp.diags(lower.diagonal()))


def block_pattern(
    indptr: Index, indices: Index, node: Index, m: int, pairs: Index
) -> sp.csc_matrix:
    """(m, m) pattern of the blocks that entries of a symmetric CSR or CSC matrix fall into.

    Row r belongs to block node[r], -1 = to none; `pairs` (k, 2) of blocks are coupled as well,
    -1 = with none. The diagonal is included.
    """
    starts, rows = pattern_of_blocks(indptr, indices, node, m, pairs)
    return sp.csc_matrix((np.ones(len(rows), dtype=bool), rows, starts), shape=(m, m))
