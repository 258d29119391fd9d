"""The dense fronts of a sparse Cholesky factor: columns that are eliminated together.

Columns with the same rows below them form a front: a dense lower triangle of its own columns and
of the Schur complement that their elimination adds to the fronts above. Where factors fill in,
nearly all multiplications happen in large fronts, at the speed of dense algebra. In small ones the
bookkeeping would dominate; their columns are subtracted from those above one by one
(`front_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..array_types import Array, Index, Mask
from .compiled import compiled, fast, inlined

DENSE_ROWS = 120
"""Rows of scalars from which a group of columns is eliminated as a dense front; below, bookkeeping
costs more than dense arithmetic saves."""

_CHUNK_COLUMNS = 48
"""Scalar columns of a front that are applied to all others while they stay in the second-level
cache: 48 of 650 rows take 250 kB."""


class Fronts(NamedTuple):
    """Groups of columns first[k] to first[k] + width[k], children before parents."""

    first: Index
    width: Index
    parent: Index
    """(groups,): -1 = root."""
    dense: Mask
    """(groups,): fronts; with one, all its ancestors are."""
    room: int
    """Most blocks of Schur complements that are stored at the same time."""
    largest: int
    """Rows of blocks of the largest dense front."""


def fronts(parent: Index, counts: Index, b: int) -> Fronts:
    """Fronts of a factor of b x b blocks with this elimination tree and entries in its columns."""
    first, width, above = _ordered(*_grouped(parent, counts))
    dense, room, largest = _sized(
        first, width, above, counts, DENSE_ROWS // b)
    return Fronts(first, width, above, dense, int(room), int(largest))


@compiled()
def _grouped(parent, counts):  # type: ignore[no-untyped-def]
    """First column, width and parent of each group, in the order of the columns."""
    m = len(parent)
    group = np.empty(m, dtype=np.int64)
    count = 0
    for j in range(m):
        if j == 0 or parent[j - 1] != j or counts[j - 1] != counts[j] + 1:
            count += 1
        group[j] = count - 1
    first, width = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for j in range(m - 1, -1, -1):
        first[group[j]] = j
        width[group[j]] += 1
    above = np.full(count, -1, dtype=np.int64)
    for k in range(count):
        p = parent[first[k] + width[k] - 1]
        if p >= 0:
            above[k] = group[p]
    return first, width, above


@compiled()
def _ordered(first, width, above):  # type: ignore[no-untyped-def]
    """The groups depth first, each after its children: what they leave can be kept on a stack."""
    count = len(first)
    child, sibling = np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    for k in range(count - 1, -1, -1):
        if above[k] >= 0:
            sibling[k] = child[above[k]]
            child[above[k]] = k
    order, place = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    waiting = np.empty(count, dtype=np.int64)
    done = 0
    for root in range(count):
        if above[root] >= 0:
            continue
        top = 0
        waiting[0] = root
        while top >= 0:
            k = waiting[top]
            if child[k] >= 0:
                top += 1
                waiting[top] = child[k]
                child[k] = sibling[child[k]]
            else:
                place[k] = done
                order[done] = k
                done += 1
                top -= 1
    moved = np.full(count, -1, dtype=np.int64)
    for k in range(count):
        if above[order[k]] >= 0:
            moved[k] = place[above[order[k]]]
    return first[order], width[order], moved


@compiled()
def _sized(first, width, above, counts, large):  # type: ignore[no-untyped-def]
    """Which groups are dense, blocks that wait at most, rows of the largest front."""
    dense = np.zeros(len(first), dtype=np.bool_)
    taken = np.zeros(len(first), dtype=np.int64)
    room = most = largest = 0
    for k in range(len(first)):
        rows = counts[first[k]]
        if rows >= large:
            dense[k] = True
        if not dense[k]:
            continue
        largest = max(largest, rows)
        left = (rows - width[k]) ** 2
        # Children's blocks are taken before the own ones are left.
        room += left - taken[k]
        most = max(most, room)
        if above[k] >= 0:
            dense[above[k]] = True
            taken[above[k]] += left
    return dense, most, largest


class LowerBlocks(NamedTuple):
    """The lower triangle of a matrix of b x b blocks, by columns (CSC), the diagonal included."""

    starts: NDArray[np.int32]
    """(m + 1,)"""
    rows: NDArray[np.int32]
    blocks: Array
    """(entries, b, b)"""


class FactorBlocks(NamedTuple):
    """L in blocks: those below the diagonal by columns (CSC), and what solves need of the rest."""

    indptr: Index
    """(m + 1,)"""
    indices: Index
    data: Array
    """(entries, b, b)"""
    inverse_diagonal: Array
    """(m, b, b): inverses of the blocks on the diagonal."""


@inlined
def _subtract_products(b, blocks, indices, first, last, turned, work):  # type: ignore[no-untyped-def]
    """work[indices[e]] -= blocks[e] turned for first <= e < last, all b x b.

    What multiplies every block stays in registers, which the compiler cannot arrange by itself:
    for all it knows `work` overlaps `turned`. Two to three times as fast as plain loops.
    """
    if b % 3 == 0:
        for x in range(0, b, 3):
            for c in range(0, b, 3):
                t00, t01, t02 = turned[x, c], turned[x, c + 1], turned[x, c + 2]
                t10, t11, t12 = turned[x + 1, c], turned[x + 1, c + 1], turned[x + 1, c + 2]
                t20, t21, t22 = turned[x + 2, c], turned[x + 2, c + 1], turned[x + 2, c + 2]
                for e in range(first, last):
                    i = indices[e]
                    for a in range(b):
                        u, v, w = blocks[e, a, x], blocks[e, a, x + 1], blocks[e, a, x + 2]
                        work[i, a, c] -= u * t00 + v * t10 + w * t20
                        work[i, a, c + 1] -= u * t01 + v * t11 + w * t21
                        work[i, a, c + 2] -= u * t02 + v * t12 + w * t22
    elif b % 4 == 0:
        for x in range(0, b, 4):
            for c in range(b):
                t0, t1, t2, t3 = turned[x, c], turned[x + 1, c], turned[x + 2, c], turned[x + 3, c]
                for e in range(first, last):
                    i = indices[e]
                    for a in range(b):
                        work[i, a, c] -= (
                            blocks[e, a, x] * t0 + blocks[e, a, x + 1] * t1
                            + blocks[e, a, x + 2] * t2 + blocks[e, a, x + 3] * t3)
    elif b == 2:
        s00, s01, s10, s11 = turned[0, 0], turned[0, 1], turned[1, 0], turned[1, 1]
        for e in range(first, last):
            i = indices[e]
            for a in range(b):
                u, v = blocks[e, a, 0], blocks[e, a, 1]
                work[i, a, 0] -= u * s00 + v * s10
                work[i, a, 1] -= u * s01 + v * s11
    else:
        for e in range(first, last):
            i = indices[e]
            for a in range(b):
                for x in range(b):
                    f = blocks[e, a, x]
                    for c in range(b):
                        work[i, a, c] -= f * turned[x, c]


@inlined
def _apply(b, F, D, low, high, begin, end):  # type: ignore[no-untyped-def]
    """Subtract columns low to high of a front, times their rows, from columns begin to end.

    Of each group of columns the rows from its first on. Sums of negated products: loops that
    subtract are not vectorised.
    """
    if b % 3 == 0:
        for n in range(begin, end, 3):
            u, v = F[n * D + n:n * D + D], F[(n + 1) * D + n:(n + 1) * D + D]
            w = F[(n + 2) * D + n:(n + 2) * D + D]
            for k in range(low, high, 3):
                p, q, r = k * D + n, (k + 1) * D + n, (k + 2) * D + n
                x, y, z = F[p:p + D - n], F[q:q + D - n], F[r:r + D - n]
                _three(
                    x, y, z, -F[p], -F[q], -F[r], -F[p + 1], -F[q + 1], -F[r + 1],
                    -F[p + 2], -F[q + 2], -F[r + 2], u, v, w)
    elif b % 2 == 0:
        for n in range(begin, end, 2):
            u, v = F[n * D + n:n * D + D], F[(n + 1) * D + n:(n + 1) * D + D]
            for k in range(low, high, 2):
                p, q = k * D + n, (k + 1) * D + n
                _two(
                    F[p:p + D - n], F[q:q + D - n], -F[p], -F[q], -F[p + 1], -F[q + 1], u, v)
    else:
        for n in range(begin, end):
            u = F[n * D + n:n * D + D]
            for k in range(low, high):
                p = k * D + n
                _one(F[p:p + D - n], -F[p], u)


@inlined
def _one(x, x0, u):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        u[i] += x0 * x[i]


@inlined
def _two(x, y, x0, y0, x1, y1, u, v):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        u[i] += x0 * x[i] + y0 * y[i]
        v[i] += x1 * x[i] + y1 * y[i]


@inlined
def _three(x, y, z, x0, y0, z0, x1, y1, z1, x2, y2, z2, u, v, w):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        p, q, r = x[i], y[i], z[i]
        u[i] += x0 * p + y0 * q + z0 * r
        v[i] += x1 * p + y1 * q + z1 * r
        w[i] += x2 * p + y2 * q + z2 * r


@inlined
def _pivot(b, block, lower, inverse):  # type: ignore[no-untyped-def]
    """Cholesky factor of a block and the inverse of that; False if it has none."""
    for a in range(b):
        for c in range(a + 1):
            s = block[a, c]
            for x in range(c):
                s -= lower[a, x] * lower[c, x]
            if a > c:
                lower[a, c] = s / lower[c, c]
            elif s > 0:
                lower[a, a] = np.sqrt(s)
            else:
                return False
    for c in range(b):
        for a in range(c):
            inverse[a, c] = 0.0
        inverse[c, c] = 1 / lower[c, c]
        for a in range(c + 1, b):
            s = 0.0
            for x in range(c, a):
                s -= lower[a, x] * inverse[x, c]
            inverse[a, c] = s / lower[a, a]
    return True


@inlined
def _add_child(b, F, D, place, outer, left):  # type: ignore[no-untyped-def]
    """Add what a child left on its outer rows to a front."""
    n = len(outer)
    for x in range(n):
        to = place[outer[x]] * b
        for c in range(b):
            column, source = (to + c) * D, (x * b + c) * n * b
            for y in range(x, n):
                r, t = column + place[outer[y]] * b, source + y * b
                for a in range(b):
                    F[r + a] += left[t + a]


@inlined
def _eliminate(b, F, D, own, j, indptr, data, inverse, lower, block):  # type: ignore[no-untyped-def]
    """Eliminate the first `own` scalar columns of a front; False if a pivot is not positive."""
    chunk = b * max(1, _CHUNK_COLUMNS // b)
    for low in range(0, own, chunk):
        high = min(low + chunk, own)
        # Column by column of the chunk, then all that is right of it.
        for n in range(low, high + b, b):
            _apply(b, F, D, low, min(n, high), n, n + b if n < high else D)
            if n >= high:
                break
            for c in range(b):
                for a in range(b):
                    block[a, c] = F[(n + c) * D + n + a]
            t = j + n // b
            if not _pivot(b, block, lower, inverse[t]):
                return False
            for c in range(b - 1, -1, -1):
                v = F[(n + c) * D + n + b:(n + c) * D + D]
                f = inverse[t, c, c]
                for i in range(len(v)):
                    v[i] *= f
                for x in range(c):
                    g = inverse[t, c, x]
                    u = F[(n + x) * D + n + b:(n + x) * D + D]
                    for i in range(len(v)):
                        v[i] += g * u[i]
            r = n + b
            for e in range(indptr[t], indptr[t + 1]):
                for c in range(b):
                    for a in range(b):
                        data[e, a, c] = F[(n + c) * D + r + a]
                r += b
    return True


@cache
def front_kernel(b: int) -> Callable[..., Any]:
    """Factorisation of matrices of b x b blocks."""

    @fast
    def factorize(fronts, matrix, factor):  # type: ignore[no-untyped-def]
        """L L^T of `matrix` into the values of `factor`; False if a pivot is not positive.

        In one piece: only here b is known to the compiler, and single columns take half as long
        again without.
        """
        first, width, parent, dense, room, largest = fronts
        starts, rows, blocks = matrix
        indptr, indices, data, inverse = factor
        m = len(starts) - 1
        lower, turned, block = np.zeros((b, b)), np.empty((b, b)), np.empty((b, b))
        # The current column, at full length.
        work = np.zeros((m, b, b))
        # Columns whose next unused row is i form a list: head[i], then following[...].
        head = np.full(m, -1, dtype=np.int64)
        following = np.full(m, -1, dtype=np.int64)
        used = indptr[:-1].copy()
        # Dense fronts, and what they left to their parents: front and start on the stack.
        whole, stack = np.empty((largest * b) ** 2), np.empty(room * b * b)
        place = np.empty(m, dtype=np.int64)
        pending = np.empty((np.sum(dense) + 1, 2), dtype=np.int64)
        waiting = top = 0
        for g in range(len(first)):
            start, last = first[g], first[g] + width[g] - 1
            outer = indices[indptr[last]:indptr[last + 1]]
            own = width[g] * b
            D = own + len(outer) * b
            F = whole[:D * D] if dense[g] else whole[:0]
            if dense[g]:
                F[:] = 0.0
                for j in range(start, last + 1):
                    place[j] = j - start
                for e in range(len(outer)):
                    place[outer[e]] = width[g] + e
                while waiting and parent[pending[waiting - 1, 0]] == g:
                    waiting -= 1
                    child, top = pending[waiting]
                    at = first[child] + width[child] - 1
                    _add_child(b, F, D, place, indices[indptr[at]:indptr[at + 1]], stack[top:])
            for j in range(start, last + 1):
                for e in range(starts[j], starts[j + 1]):
                    i = rows[e]
                    for a in range(b):
                        for c in range(b):
                            work[i, a, c] = blocks[e, a, c]
                k = head[j]
                while k >= 0:
                    at = used[k]
                    for a in range(b):
                        for c in range(b):
                            turned[c, a] = data[at, a, c]
                    _subtract_products(b, data, indices, at, indptr[k + 1], turned, work)
                    after = following[k]
                    used[k] = at + 1
                    if at + 1 < indptr[k + 1]:
                        i = indices[at + 1]
                        following[k] = head[i]
                        head[i] = k
                    k = after
                if dense[g]:
                    column = (j - start) * b * D + (j - start) * b
                    for c in range(b):
                        for a in range(b):
                            F[column + c * D + a] += work[j, a, c]
                            work[j, a, c] = 0.0
                    for e in range(indptr[j], indptr[j + 1]):
                        i = indices[e]
                        column += b
                        for c in range(b):
                            for a in range(b):
                                F[column + c * D + a] += work[i, a, c]
                                work[i, a, c] = 0.0
                    continue
                if not _pivot(b, work[j], lower, inverse[j]):
                    return False
                for a in range(b):
                    for c in range(b):
                        work[j, a, c] = 0.0
                        turned[a, c] = inverse[j, c, a]
                for e in range(indptr[j], indptr[j + 1]):
                    i = indices[e]
                    for a in range(b):
                        for c in range(b):
                            s = 0.0
                            for x in range(c + 1):
                                s += work[i, a, x] * turned[x, c]
                            data[e, a, c] = s
                    for a in range(b):
                        for c in range(b):
                            work[i, a, c] = 0.0
                if indptr[j] < indptr[j + 1]:
                    i = indices[indptr[j]]
                    following[j] = head[i]
                    head[i] = j
            if not dense[g]:
                continue
            if not _eliminate(
                    b, F, D, own, start, indptr, data, inverse, lower, block):
                return False
            if own < D:
                height = D - own
                for c in range(height):
                    source = (own + c) * D + own
                    to = top + c * height
                    for i in range(c - c % b, height):
                        stack[to + i] = F[source + i]
                pending[waiting, 0], pending[waiting, 1] = g, top
                waiting += 1
                top += height * height
        return True

    kernel: Callable[..., Any] = factorize
    return kernel
