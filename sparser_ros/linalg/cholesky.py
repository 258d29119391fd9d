"""Sparse Cholesky factors of matrices made of small dense blocks, or of single numbers (b = 1).

The rows of one pose (rotation and translation) share their neighbours, so poses are ordered rather
than rows, which takes a fraction of the time, and each entry of the factor is a dense block: one
index and one load of the right-hand side per block make triangular solves of 2 columns twice as
fast as entry by entry.
"""

from __future__ import annotations

import copy

import numpy as np
import scipy.sparse as sp

from ..array_types import Array, Index
from ..config import SolverError
from .compiled import compiled
from .fronts import FactorBlocks, LowerBlocks, front_kernel, fronts
from .ordering import (
    elimination_tree,
    factor_pattern,
    fill_reducing_order,
    flattest,
    lower_triangle,
    permuted_pattern,
)
from .sparse_kernels import block_solve, sparse_kernels

METIS_FROM = 200_000
"""Multiplications of a factorisation in AMD's order, a node, from which METIS pays: in space,
where poses close with others all around."""
_COLUMNS_AT_ONCE = 5
"""Of right-hand sides: the usual rank of relaxations, for which kernels are there already."""


class NotPositiveDefiniteError(SolverError):
    """The matrix has a non-positive pivot."""


class BlockCholesky:
    """Ordering and elimination tree of symmetric matrices of m x m blocks, b x b each.

    `pattern` (m, m) has an entry for every block, the diagonal included. Blocks are handed over
    as (entries, b, b) in the order of `starts` and `rows`: column by column of the lower triangle
    of the permuted pattern, where block i is number `rank[i]`. Column j of the factor has
    `counts[j]` blocks, the diagonal included. `order` (m,) lists the blocks in a known good order
    of elimination; None = one is sought.
    """

    def __init__(self, pattern: sp.spmatrix, b: int, order: Index | None = None) -> None:
        pattern = sp.csc_matrix(pattern)
        m = self.m = pattern.shape[0]
        self.order = fill_reducing_order(pattern) if order is None else order
        self.rank = np.empty(m, dtype=np.int64)
        self.rank[self.order] = np.arange(m)
        starts, rows = permuted_pattern(pattern.indptr, pattern.indices, self.order, self.rank)
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

    def rows_at(self, place: Index) -> Index:
        """Rows of the factor that places have become: block times b plus the row within."""
        return self.rank[place // self.b] * self.b + place % self.b

    def factorize(self, blocks: Array, at: Index) -> CholeskyFactor:
        """Factor of blocks (entries, b, b); NotPositiveDefiniteError if the matrix is not PD.

        Its right-hand sides have the rows `at` (n,) of the factor, as `rows_at` has them.
        """
        m, b = self.m, self.b
        indptr, indices = self._below
        factor = FactorBlocks(
            indptr, indices, np.empty((len(indices), b, b)), np.empty((m, b, b)))
        matrix = LowerBlocks(self.starts, self.rows, blocks)
        if not front_kernel(b)(self._fronts, matrix, factor):
            raise NotPositiveDefiniteError('a pivot is not positive')
        return CholeskyFactor(*factor, at)


class SymbolicCholesky:
    """BlockCholesky of a sparse matrix whose rows are scattered over the blocks.

    `place` (n,) says where each row belongs: block times b plus the row within; by default every
    row is a block of its own. Places that no row takes are padded with ones on the diagonal.
    `order` is that of the blocks, if known. Values do not matter, only which entries are stored.
    """

    def __init__(
        self, matrix: sp.spmatrix, order: Index | None = None, *, place: Index | None = None,
        b: int = 1,
    ) -> None:
        matrix = sp.csc_matrix(matrix)
        self.place = place
        self.b, self._order = b, order
        self._analyse(matrix)

    def _analyse(self, matrix: sp.csc_matrix) -> None:
        b, place, pattern = self.b, self.place, matrix
        if place is None:
            place = np.arange(matrix.shape[0])
        else:
            m = int(place.max(initial=-1)) // b + 1
            pattern = block_pattern(
                matrix.indptr, matrix.indices, place // b, m, np.zeros((0, 2), dtype=np.int64))
        self.blocks = BlockCholesky(pattern, b, self._order)
        taken = np.zeros(self.blocks.m * b, dtype=bool)
        taken[place] = True
        self._at = self.blocks.rows_at(place)
        # The block on the diagonal is the first of its column.
        free = self.blocks.rows_at(np.flatnonzero(~taken))
        self._padding, self._diagonal = (
            (self.blocks.starts[at // b] * b + at % b) * b + at % b for at in (free, self._at))
        if not self._take_slots(matrix):
            # A sparse product leaves out what cancels to zero, which rounding decides on either
            # side of the diagonal.
            ones = sp.csc_matrix(
                (np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
            self._analyse(sp.csc_matrix(ones + ones.T))

    def _take_slots(self, matrix: sp.csc_matrix) -> bool:
        """Find where a matrix's entries lie among those of the blocks; False where one does not."""
        blocks = self.blocks
        self._slots, covered = entry_slots(
            blocks.starts, blocks.rows, self.b, self._at // self.b, self._at % self.b,
            matrix.indptr, matrix.indices)
        # Copies: the caller may sort its matrix in place.
        self._pattern = np.array(matrix.indptr), np.array(matrix.indices)
        return bool(covered)

    def factorize(self, matrix: sp.spmatrix, shift: Array | None = None) -> CholeskyFactor:
        """Factor of a matrix; NotPositiveDefiniteError if it is not positive definite.

        Where it has entries outside the analysed blocks it is analysed anew. `shift` (n,) is added
        to its diagonal.
        """
        matrix = sp.csc_matrix(matrix)
        if not all(map(np.array_equal, self._pattern, (matrix.indptr, matrix.indices))) and (
                not self._take_slots(matrix)):
            self._analyse(matrix)
        values = np.zeros((len(self.blocks.rows), self.b, self.b))
        flat = values.ravel()
        _fill_slots(self._slots, matrix.data, flat)
        if shift is not None:
            flat[self._diagonal] += shift
        flat[self._padding] = 1
        return self.blocks.factorize(values, self._at)


def sparsest(matrix: sp.csc_matrix, b: int = 1) -> SymbolicCholesky:
    """Analysis of a symmetric matrix in the order of fewest multiplications.

    AMD takes a tenth of the time of METIS, which wins where factors fill in. `b` is the size of the
    dense blocks of another matrix of this pattern that will be factorised in the same order.
    """
    tried = SymbolicCholesky(matrix)
    if b**3 * np.sum(tried.blocks.counts**2.0) / 2 <= METIS_FROM * matrix.shape[0]:
        return tried
    return SymbolicCholesky(matrix, flattest(matrix))


def factorize(matrix: sp.spmatrix) -> CholeskyFactor:
    """Analyse and factorise in one go."""
    return SymbolicCholesky(matrix).factorize(matrix)


class CholeskyFactor:
    """L of P A P^T = L L^T in blocks; solves for several right-hand sides without the GIL."""

    def __init__(
        self, indptr: Index, indices: Index, data: Array, inverse_diagonal: Array, at: Index
    ) -> None:
        """Blocks below the diagonal by columns (CSC) and inverses (m, b, b) of those on it.

        `at` (n,) is the row of L that each row of A has become.
        """
        self.b = inverse_diagonal.shape[1]
        self.n, self.at = len(at), at
        self.indptr, self.indices, self.data = indptr, indices, data
        self.inverse_diagonal = inverse_diagonal
        pivots = np.einsum('mii->mi', inverse_diagonal)
        if not np.all(pivots > 0) or not np.all(np.isfinite(pivots)):
            raise NotPositiveDefiniteError('a pivot is not positive')
        self._work: dict[int, Array] = {}

    def solve(self, rhs: Array, out: Array | None = None) -> Array:
        """A^-1 rhs for rhs of shape (n,) or (n, p); `out` may be rhs itself."""
        if rhs.ndim == 1:
            return self.solve(rhs[:, None]).ravel()
        p = rhs.shape[1]
        rows = sparse_kernels(p)
        if p not in self._work:
            # Padded rows are solved for zero and stay so.
            self._work[p] = np.zeros((len(self.inverse_diagonal) * self.b, p))
        work = self._work[p]
        out = np.empty_like(rhs) if out is None else out
        rows.scatter(rhs, self.at, work)
        block_solve(self.b, p)(
            self.indptr, self.indices, self.data, self.inverse_diagonal, work)
        rows.gather(work, self.at, out)
        return out

    def solve_any(self, rhs: Array, at_once: int = _COLUMNS_AT_ONCE) -> Array:
        """A^-1 rhs for rhs of shape (n, q), q as the data have it: a few columns at a time.

        `solve` is compiled for each number of columns, which takes seconds. It is the better one
        where few numbers occur, such as ranks.
        """
        out = np.empty_like(rhs)
        some = np.zeros((self.n, at_once))
        for first in range(0, rhs.shape[1], at_once):
            count = min(at_once, rhs.shape[1] - first)
            some[:, :count] = rhs[:, first:first + count]
            out[:, first:first + count] = self.solve(some)[:, :count]
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
def entry_slots(starts, rows, b, block, within, indptr, indices):  # type: ignore[no-untyped-def]
    """Where the entries of a CSC matrix lie among (entries, b, b), row r being in block[r].

    -1 = in a block above the diagonal, which is not stored, or in none (block -1). Then whether the
    pattern has all other blocks.
    """
    where = np.full(len(starts) - 1, -1, dtype=np.int64)
    slots = np.full(len(indices), -1, dtype=np.int64)
    covered = True
    for column in range(len(indptr) - 1):
        j, k = block[column], within[column]
        if j < 0:
            continue
        for e in range(starts[j], starts[j + 1]):
            where[rows[e]] = e
        for e in range(indptr[column], indptr[column + 1]):
            i = block[indices[e]]
            if i < j:
                continue
            # Elsewhere the place found is one of another column.
            if starts[j] <= where[i] < starts[j + 1]:
                slots[e] = (where[i] * b + within[indices[e]]) * b + k
            else:
                covered = False
    return slots, covered


@compiled()
def _fill_slots(slots, data, out):  # type: ignore[no-untyped-def]
    """out[slots] = data where there is a slot."""
    for e in range(len(slots)):
        if slots[e] >= 0:
            out[slots[e]] = data[e]
