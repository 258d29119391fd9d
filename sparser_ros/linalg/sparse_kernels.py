"""Compiled kernels over sparse matrices: products, factors and triangular solves.

Specialised by columns p of the right-hand side, and by the height b of blocks, so that loops over
them have constant bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.cpython.unsafe.tuple import tuple_setitem

from .compiled import fast

_REGISTERS = 15
"""Numbers that a loop keeps in registers, of the 16 vector registers of x86-64 all but one: as a
tuple, since an array would go through memory."""
_with_item: Callable[..., Any] = tuple_setitem


@cache
def sparse_kernels(p: int) -> SimpleNamespace:
    """Sparse products and moved rows of matrices of p columns."""

    @fast
    def csr_product(indptr, indices, data, x, subtract, out):  # type: ignore[no-untyped-def]
        """out = A x for a CSR matrix A, or out -= A x."""
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
                out[r, c] = out[r, c] - acc[c] if subtract else acc[c]

    @fast
    def gather(x, order, out):  # type: ignore[no-untyped-def]
        """out[i] = x[order[i]]."""
        for i in range(order.shape[0]):
            j = order[i]
            for c in range(p):
                out[i, c] = x[j, c]

    @fast
    def scatter(x, order, out):  # type: ignore[no-untyped-def]
        """out[order[i]] = x[i]."""
        for i in range(order.shape[0]):
            j = order[i]
            for c in range(p):
                out[j, c] = x[i, c]

    return SimpleNamespace(csr_product=csr_product, gather=gather, scatter=scatter)


@cache
def single_solve(b: int) -> Callable[..., Any]:
    """Solves with factors of b x b blocks for one right-hand side, one column of x.

    Numbers in registers would leave the loops over a block's rows scalar; in a small array they
    are vectorised, twice as fast for blocks of 12 rows. Inverses are taken whole for the same
    reason: above their diagonal they are zero.
    """

    @fast
    def llt_solve(indptr, indices, blocks, inverse_diagonal, x):  # type: ignore[no-untyped-def]
        """x <- (L L^T)^-1 x in place; blocks (m, b, b) below the diagonal, column by column."""
        z = np.empty(b)
        for j in range(len(indptr) - 1):
            r = j * b
            for a in range(b):
                s = 0.0
                for k in range(b):
                    s += inverse_diagonal[j, a, k] * x[r + k, 0]
                z[a] = s
            for a in range(b):
                x[r + a, 0] = z[a]
            for e in range(indptr[j], indptr[j + 1]):
                q = indices[e] * b
                for a in range(b):
                    s = 0.0
                    for k in range(b):
                        s += blocks[e, a, k] * z[k]
                    x[q + a, 0] -= s
        for j in range(len(indptr) - 2, -1, -1):
            r = j * b
            for a in range(b):
                z[a] = x[r + a, 0]
                x[r + a, 0] = 0.0
            for e in range(indptr[j], indptr[j + 1]):
                q = indices[e] * b
                for a in range(b):
                    s = x[q + a, 0]
                    for k in range(b):
                        z[k] -= blocks[e, a, k] * s
            for a in range(b):
                s = z[a]
                for k in range(b):
                    x[r + k, 0] += inverse_diagonal[j, a, k] * s

    kernel: Callable[..., Any] = llt_solve
    return kernel


@cache
def block_solve(b: int, p: int) -> Callable[..., Any]:
    """Solves with factors of b x b blocks for right-hand sides of p columns."""
    if p == 1:
        return single_solve(b)
    width = max(1, min(p, _REGISTERS // b))
    zero = (0.0,) * (b * width)

    @fast
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

    kernel: Callable[..., Any] = llt_solve
    return kernel

