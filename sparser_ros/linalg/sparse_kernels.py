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

from .compiled import compiled, fast, inlined

_REGISTERS = 15
"""Numbers that a loop keeps in registers, of the 16 vector registers of x86-64 all but one: as a
tuple, since an array would go through memory."""
_with_item: Callable[..., Any] = tuple_setitem


@cache
def sparse_kernels(p: int) -> SimpleNamespace:
    """Sparse products and triangular solves on matrices of p columns."""
    width = max(1, min(p, _REGISTERS))
    zero = (0.0,) * width

    @fast
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

    @fast
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

    @fast
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

    return SimpleNamespace(
        csr_product=csr_product,
        csr_subtract=csr_subtract,
        llt_solve=llt_solve,
        gather=gather,
        scatter=scatter,
    )


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
def block_kernels(b: int, p: int) -> SimpleNamespace:
    """Solves with factors of b x b blocks for right-hand sides of p columns."""
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

    rows = sparse_kernels(p)
    return SimpleNamespace(
        llt_solve=single_solve(b) if p == 1 else llt_solve, gather=rows.gather,
        scatter=rows.scatter)


@fast
def add_diagonal(indptr, indices, shift, data):  # type: ignore[no-untyped-def]
    """Add shift (n,) to the diagonal of a CSC matrix; False if some entry of it is not stored."""
    for j in range(len(shift)):
        stored = False
        for e in range(indptr[j], indptr[j + 1]):
            if indices[e] == j:
                data[e] += shift[j]
                stored = True
                break
        if not stored:
            return False
    return True


@fast
def bordered(A, B, C, D):  # type: ignore[no-untyped-def]
    """The CSR matrix [[A, B], [C, D]] of CSR matrices (`Csr`), A square."""
    n, m = len(A.indptr) - 1, len(D.indptr) - 1
    indptr = np.zeros(n + m + 1, dtype=A.indptr.dtype)
    entries = len(A.indices) + len(B.indices) + len(C.indices) + len(D.indices)
    indices = np.empty(entries, dtype=A.indices.dtype)
    data = np.empty(entries)
    at = 0
    for r in range(n + m):
        if r < n:
            at = _append(A, r, 0, indices, data, at)
            at = _append(B, r, n, indices, data, at)
        else:
            at = _append(C, r - n, 0, indices, data, at)
            at = _append(D, r - n, n, indices, data, at)
        indptr[r + 1] = at
    return indptr, indices, data


@inlined
def _append(matrix, row, shift, indices, data, at):  # type: ignore[no-untyped-def]
    """Copy a row's entries to place `at`, their columns shifted; the place after them."""
    for e in range(matrix.indptr[row], matrix.indptr[row + 1]):
        indices[at], data[at] = shift + matrix.indices[e], matrix.data[e]
        at += 1
    return at


@compiled()
def normal_pattern(indptr, indices, size):  # type: ignore[no-untyped-def]
    """CSR pattern (size, size) of A^T A, columns sorted, and A's entries by column.

    A has its entries in CSR, no column twice in a row. The entries of column i are
    entry[starts[i] : starts[i + 1]], in the rows row[...].
    """
    starts = np.zeros(size + 1, dtype=np.int64)
    for e in range(len(indices)):
        starts[indices[e] + 1] += 1
    for i in range(size):
        starts[i + 1] += starts[i]
    at = starts[:-1].copy()
    entry = np.empty(len(indices), dtype=np.int64)
    row = np.empty(len(indices), dtype=np.int64)
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            i = indices[e]
            entry[at[i]], row[at[i]] = e, r
            at[i] += 1
    mark = np.full(size, -1, dtype=np.int64)
    row_starts = np.zeros(size + 1, dtype=np.int64)
    for i in range(size):
        for s in range(starts[i], starts[i + 1]):
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                j = indices[e]
                if mark[j] != i:
                    mark[j] = i
                    row_starts[i + 1] += 1
    for i in range(size):
        row_starts[i + 1] += row_starts[i]
    columns = np.empty(row_starts[size], dtype=np.int32)
    at = row_starts[:-1].copy()
    mark[:] = -1
    # By symmetry row j lists the rows that list column j, here in ascending order.
    for i in range(size):
        for s in range(starts[i], starts[i + 1]):
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                j = indices[e]
                if mark[j] != i:
                    mark[j] = i
                    columns[at[j]] = i
                    at[j] += 1
    return row_starts, columns, starts, entry, row


@compiled()
def normal_coefficients(matrix, row_starts, columns, starts, entry, row):  # type: ignore[no-untyped-def]
    """CSR (entries of A^T A, rows of A): what each row of the CSR matrix A adds to each entry.

    The other arguments are what `normal_pattern` returns.
    """
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    size = len(starts) - 1
    slot = np.empty(size, dtype=np.int64)
    first = np.zeros(row_starts[size] + 1, dtype=np.int64)
    for i in range(size):
        for f in range(row_starts[i], row_starts[i + 1]):
            slot[columns[f]] = f
        for s in range(starts[i], starts[i + 1]):
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                first[slot[indices[e]] + 1] += 1
    for f in range(row_starts[size]):
        first[f + 1] += first[f]
    at = first[:-1].copy()
    rows = np.empty(first[-1], dtype=np.int32)
    values = np.empty(first[-1])
    for i in range(size):
        for f in range(row_starts[i], row_starts[i + 1]):
            slot[columns[f]] = f
        for s in range(starts[i], starts[i + 1]):
            own = data[entry[s]]
            for e in range(indptr[row[s]], indptr[row[s] + 1]):
                to = at[slot[indices[e]]]
                rows[to], values[to] = row[s], own * data[e]
                at[slot[indices[e]]] = to + 1
    return first, rows, values
