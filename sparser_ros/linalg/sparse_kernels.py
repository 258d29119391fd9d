"""Compiled kernels over sparse matrices: products, factors and triangular solves.

Specialised by columns p of the right-hand side, and by the height b of blocks; see kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit
from numba.cpython.unsafe.tuple import tuple_setitem

from .kernels import FAST

_REGISTERS = 15
"""Numbers that a loop keeps in registers: as a tuple, since an array would go through memory."""
_with_item: Callable[..., Any] = tuple_setitem
_compiled: Callable[..., Any] = njit(cache=True, nogil=True, fastmath=FAST, error_model='numpy')


@cache
def sparse_kernels(p: int) -> SimpleNamespace:
    """Sparse products and triangular solves on matrices of p columns."""
    width = max(1, min(p, _REGISTERS))
    zero = (0.0,) * width

    @_compiled
    def csr_product(indptr, indices, data, x, out):  # type: ignore[no-untyped-def]
        """out = A x for a CSR matrix A."""
        acc = np.empty(p)
        for r in range(out.shape[0]):
            for c in range(p):
                acc[c] = 0.0
            for e in range(indptr[r], indptr[r + 1]):
                a = data[e]
                j = indices[e]
                for c in range(p):
                    acc[c] += a * x[j, c]
            for c in range(p):
                out[r, c] = acc[c]

    @_compiled
    def csr_subtract(indptr, indices, data, x, out):  # type: ignore[no-untyped-def]
        """out -= A x for a CSR matrix A."""
        acc = np.empty(p)
        for r in range(out.shape[0]):
            for c in range(p):
                acc[c] = 0.0
            for e in range(indptr[r], indptr[r + 1]):
                a = data[e]
                j = indices[e]
                for c in range(p):
                    acc[c] += a * x[j, c]
            for c in range(p):
                out[r, c] -= acc[c]

    @_compiled
    def llt_solve(indptr, indices, data, inverse_diagonal, x):  # type: ignore[no-untyped-def]
        """x <- (L L^T)^-1 x in place; L is CSC, its diagonal first in each column."""
        n = x.shape[0]
        for first in range(0, p, width):
            for j in range(n):
                f = inverse_diagonal[j]
                z = zero
                for c in range(width):
                    if first + c < p:
                        z = _with_item(z, c, x[j, first + c] * f)
                for c in range(width):
                    if first + c < p:
                        x[j, first + c] = z[c]
                for e in range(indptr[j] + 1, indptr[j + 1]):
                    i = indices[e]
                    a = data[e]
                    for c in range(width):
                        if first + c < p:
                            x[i, first + c] -= a * z[c]
            for j in range(n - 1, -1, -1):
                z = zero
                for c in range(width):
                    if first + c < p:
                        z = _with_item(z, c, x[j, first + c])
                for e in range(indptr[j] + 1, indptr[j + 1]):
                    i = indices[e]
                    a = data[e]
                    for c in range(width):
                        if first + c < p:
                            z = _with_item(z, c, z[c] - a * x[i, first + c])
                f = inverse_diagonal[j]
                for c in range(width):
                    if first + c < p:
                        x[j, first + c] = z[c] * f

    @_compiled
    def gather(x, order, out):  # type: ignore[no-untyped-def]
        """out[i] = x[order[i]]."""
        for i in range(order.shape[0]):
            j = order[i]
            for c in range(p):
                out[i, c] = x[j, c]

    @_compiled
    def scatter(x, order, out):  # type: ignore[no-untyped-def]
        """out[order[i]] = x[i]."""
        for i in range(order.shape[0]):
            j = order[i]
            for c in range(p):
                out[j, c] = x[i, c]

    return SimpleNamespace(
        csr_product=csr_product,
        csr_subtract=csr_subtract,
        llt_solve=llt_solve,
        gather=gather,
        scatter=scatter,
    )


@_compiled
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


@cache
def block_kernels(b: int, p: int) -> SimpleNamespace:
    """Factors of b x b blocks, and solves with them for right-hand sides of p columns."""
    width = max(1, min(p, _REGISTERS // b))
    zero = (0.0,) * (b * width)

    @_compiled
    def factorize(starts, rows, blocks, indptr, indices, data, inverse):  # type: ignore[no-untyped-def]
        """Left-looking L L^T of a CSC lower triangle of blocks; False if a pivot is not positive.

        `indptr` and `indices` are the pattern of L below its diagonal, `data` its blocks,
        `inverse` (m, b, b) the inverses of those on the diagonal.
        """
        m = len(starts) - 1
        # The current column, at full length.
        work = np.zeros((m, b, b))
        # Columns whose next unused row is i form a list: head[i], then following[...].
        head = np.full(m, -1, dtype=np.int64)
        following = np.full(m, -1, dtype=np.int64)
        used = indptr[:-1].copy()
        turned, lower = np.empty((b, b)), np.zeros((b, b))
        for j in range(m):
            for e in range(starts[j], starts[j + 1]):
                i = rows[e]
                for a in range(b):
                    for c in range(b):
                        work[i, a, c] = blocks[e, a, c]
            k = head[j]
            while k >= 0:
                first = used[k]
                for a in range(b):
                    for c in range(b):
                        turned[c, a] = data[first, a, c]
                _subtract_products(b, data, indices, first, indptr[k + 1], turned, work)
                after = following[k]
                used[k] = first + 1
                if first + 1 < indptr[k + 1]:
                    i = indices[first + 1]
                    following[k] = head[i]
                    head[i] = k
                k = after
            for a in range(b):
                for c in range(a + 1):
                    s = work[j, a, c]
                    for x in range(c):
                        s -= lower[a, x] * lower[c, x]
                    if a > c:
                        lower[a, c] = s / lower[c, c]
                    elif s > 0:
                        lower[a, a] = np.sqrt(s)
                    else:
                        return False
            for a in range(b):
                for c in range(b):
                    work[j, a, c] = 0.0
                    turned[a, c] = 0.0
            for c in range(b):
                turned[c, c] = 1 / lower[c, c]
                for a in range(c + 1, b):
                    s = 0.0
                    for x in range(c, a):
                        s -= lower[a, x] * turned[c, x]
                    turned[c, a] = s / lower[a, a]
            for a in range(b):
                for c in range(b):
                    inverse[j, a, c] = turned[c, a]
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
        return True

    @_compiled
    def llt_solve(indptr, indices, blocks, inverse_diagonal, x):  # type: ignore[no-untyped-def]
        """x <- (L L^T)^-1 x in place; blocks (m, b, b) below the diagonal, column by column."""
        for first in range(0, p, width):
            for j in range(len(indptr) - 1):
                r = j * b
                z = zero
                for a in range(b):
                    for c in range(width):
                        if first + c < p:
                            s = 0.0
                            for k in range(a + 1):
                                s += inverse_diagonal[j, a, k] * x[r + k, first + c]
                            z = _with_item(z, a * width + c, s)
                for a in range(b):
                    for c in range(width):
                        if first + c < p:
                            x[r + a, first + c] = z[a * width + c]
                for e in range(indptr[j], indptr[j + 1]):
                    q = indices[e] * b
                    for a in range(b):
                        for c in range(width):
                            if first + c < p:
                                s = x[q + a, first + c]
                                for k in range(b):
                                    s -= blocks[e, a, k] * z[k * width + c]
                                x[q + a, first + c] = s
            for j in range(len(indptr) - 2, -1, -1):
                r = j * b
                z = zero
                for a in range(b):
                    for c in range(width):
                        if first + c < p:
                            z = _with_item(z, a * width + c, x[r + a, first + c])
                for e in range(indptr[j], indptr[j + 1]):
                    q = indices[e] * b
                    for a in range(b):
                        for c in range(width):
                            if first + c < p:
                                s = x[q + a, first + c]
                                for k in range(b):
                                    at = k * width + c
                                    z = _with_item(z, at, z[at] - blocks[e, a, k] * s)
                for a in range(b):
                    for c in range(width):
                        if first + c < p:
                            s = 0.0
                            for k in range(a, b):
                                s += inverse_diagonal[j, k, a] * z[k * width + c]
                            x[r + a, first + c] = s

    rows = sparse_kernels(p)
    return SimpleNamespace(
        factorize=factorize, llt_solve=llt_solve, gather=rows.gather, scatter=rows.scatter)


@_compiled
def add_diagonal(indptr, indices, shift, data):  # type: ignore[no-untyped-def]
    """Add shift (n,) to the diagonal of a CSC matrix; False if some entry of it is not stored."""
    for j in range(len(shift)):
        found = False
        for e in range(indptr[j], indptr[j + 1]):
            if indices[e] == j:
                data[e] += shift[j]
                found = True
                break
        if not found:
            return False
    return True
