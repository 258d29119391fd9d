"""Compiled kernels of the solver's inner loop, specialised by block height d and columns p.

numpy's batched products cost about a microsecond per 3x5 block; these loops are fused, allocate
nothing and release the GIL. Arrays are C-ordered (rows, p). Layout of the rows of Y: n blocks of
d rows (rotations), k single rows (bearings), then rows that are held fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit
from numba.cpython.unsafe.tuple import tuple_setitem

_FAST = {'reassoc', 'contract', 'nsz', 'arcp'}
_REGISTERS = 15
"""Numbers that a loop keeps in registers: as a tuple, since an array would go through memory."""
_with_item: Callable[..., Any] = tuple_setitem
_compiled: Callable[..., Any] = njit(cache=True, nogil=True, fastmath=_FAST, error_model='numpy')


@cache
def kernels(d: int, p: int) -> SimpleNamespace:
    """The kernels for rotation blocks of d rows and matrices of p columns."""

    @_compiled
    def project(y, v, n, k, out):  # type: ignore[no-untyped-def]
        """Tangent projection: v - sym(v y^T) y on rotations, v - (v.y) y on bearings."""
        for b in range(n):
            r = b * d
            for i in range(d):
                for c in range(p):
                    out[r + i, c] = v[r + i, c]
            for i in range(d):
                for j in range(i + 1):
                    s = 0.0
                    for c in range(p):
                        s += v[r + i, c] * y[r + j, c] + v[r + j, c] * y[r + i, c]
                    s *= 0.5
                    for c in range(p):
                        out[r + i, c] -= s * y[r + j, c]
                    if i != j:
                        for c in range(p):
                            out[r + j, c] -= s * y[r + i, c]
        for r in range(n * d, n * d + k):
            s = 0.0
            for c in range(p):
                s += v[r, c] * y[r, c]
            for c in range(p):
                out[r, c] = v[r, c] - s * y[r, c]
        for r in range(n * d + k, out.shape[0]):
            for c in range(p):
                out[r, c] = 0.0

    @_compiled
    def multipliers(y, g, n, k, blocks, scalars):  # type: ignore[no-untyped-def]
        """Lagrange multipliers: sym(g y^T) per rotation (n, d, d) and g.y per bearing (k,)."""
        for b in range(n):
            r = b * d
            for i in range(d):
                for j in range(i + 1):
                    s = 0.0
                    for c in range(p):
                        s += g[r + i, c] * y[r + j, c] + g[r + j, c] * y[r + i, c]
                    s *= 0.5
                    blocks[b, i, j] = s
                    blocks[b, j, i] = s
        for q in range(k):
            r = n * d + q
            s = 0.0
            for c in range(p):
                s += g[r, c] * y[r, c]
            scalars[q] = s

    @_compiled
    def hessian(y, qv, v, n, k, blocks, scalars, out):  # type: ignore[no-untyped-def]
        """P_y(qv - Lambda v): the Riemannian Hessian product, written to out."""
        w = np.empty((d, p))
        for b in range(n):
            r = b * d
            for i in range(d):
                for c in range(p):
                    s = qv[r + i, c]
                    for j in range(d):
                        s -= blocks[b, i, j] * v[r + j, c]
                    w[i, c] = s
            for i in range(d):
                for c in range(p):
                    out[r + i, c] = w[i, c]
            for i in range(d):
                for j in range(i + 1):
                    s = 0.0
                    for c in range(p):
                        s += w[i, c] * y[r + j, c] + w[j, c] * y[r + i, c]
                    s *= 0.5
                    for c in range(p):
                        out[r + i, c] -= s * y[r + j, c]
                    if i != j:
                        for c in range(p):
                            out[r + j, c] -= s * y[r + i, c]
        for q in range(k):
            r = n * d + q
            s = 0.0
            lam = scalars[q]
            for c in range(p):
                s += (qv[r, c] - lam * v[r, c]) * y[r, c]
            for c in range(p):
                out[r, c] = qv[r, c] - lam * v[r, c] - s * y[r, c]
        for r in range(n * d + k, out.shape[0]):
            for c in range(p):
                out[r, c] = 0.0

    @_compiled
    def retract(y, v, n, k, out):  # type: ignore[no-untyped-def]
        """Polar retraction of rotations, normalisation of bearings; fixed rows are kept."""
        a = np.empty((d, p))
        for b in range(n):
            r = b * d
            for i in range(d):
                for c in range(p):
                    a[i, c] = y[r + i, c] + v[r + i, c]
            if d == 2:
                g00 = g01 = g11 = 0.0
                for c in range(p):
                    g00 += a[0, c] * a[0, c]
                    g01 += a[0, c] * a[1, c]
                    g11 += a[1, c] * a[1, c]
                # Inverse square root of a 2x2 matrix in closed form (Cayley-Hamilton).
                s = np.sqrt(g00 * g11 - g01 * g01)
                t = 1.0 / (s * np.sqrt(g00 + g11 + 2.0 * s))
                for c in range(p):
                    out[r, c] = t * ((g11 + s) * a[0, c] - g01 * a[1, c])
                    out[r + 1, c] = t * ((g00 + s) * a[1, c] - g01 * a[0, c])
            else:
                # Scaled Newton for the polar factor: a <- (g a + (a a^T)^-1 a / g) / 2. The Gram
                # matrix is taken anew each time, so that rounding errors do not accumulate.
                for _ in range(30):
                    h00 = h01 = h02 = h11 = h12 = h22 = 0.0
                    for c in range(p):
                        h00 += a[0, c] * a[0, c]
                        h01 += a[0, c] * a[1, c]
                        h02 += a[0, c] * a[2, c]
                        h11 += a[1, c] * a[1, c]
                        h12 += a[1, c] * a[2, c]
                        h22 += a[2, c] * a[2, c]
                    off = (
                        abs(h00 - 1.0) + abs(h11 - 1.0) + abs(h22 - 1.0)
                        + abs(h01) + abs(h02) + abs(h12)
                    )
                    if off < 2e-15:
                        break
                    c00 = h11 * h22 - h12 * h12
                    c01 = h02 * h12 - h01 * h22
                    c02 = h01 * h12 - h02 * h11
                    det = h00 * c00 + h01 * c01 + h02 * c02
                    c11 = h00 * h22 - h02 * h02
                    c12 = h01 * h02 - h00 * h12
                    c22 = h00 * h11 - h01 * h01
                    scale = det ** (-1.0 / 6.0)
                    ka = 0.5 * scale
                    kb = 0.5 / (scale * det)
                    for c in range(p):
                        a0, a1, a2 = a[0, c], a[1, c], a[2, c]
                        a[0, c] = ka * a0 + kb * (c00 * a0 + c01 * a1 + c02 * a2)
                        a[1, c] = ka * a1 + kb * (c01 * a0 + c11 * a1 + c12 * a2)
                        a[2, c] = ka * a2 + kb * (c02 * a0 + c12 * a1 + c22 * a2)
                    # Quadratic convergence: the step just taken squared what was left.
                    if off < 1e-8:
                        break
                for c in range(p):
                    for i in range(d):
                        out[r + i, c] = a[i, c]
        for r in range(n * d, n * d + k):
            s = 0.0
            for c in range(p):
                e = y[r, c] + v[r, c]
                s += e * e
            s = 1.0 / np.sqrt(s)
            for c in range(p):
                out[r, c] = s * (y[r, c] + v[r, c])
        for r in range(n * d + k, out.shape[0]):
            for c in range(p):
                out[r, c] = y[r, c]

    return SimpleNamespace(
        project=project, multipliers=multipliers, hessian=hessian, retract=retract
    )


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
def dot(a, b):  # type: ignore[no-untyped-def]
    """Sum of a * b of two contiguous arrays of equal size."""
    x = a.ravel()
    y = b.ravel()
    s = 0.0
    for i in range(x.size):
        s += x[i] * y[i]
    return s


@_compiled
def axpy(alpha, x, y):  # type: ignore[no-untyped-def]
    """y += alpha x, in place."""
    a = x.ravel()
    b = y.ravel()
    for i in range(a.size):
        b[i] += alpha * a[i]


@_compiled
def xpby(x, beta, y):  # type: ignore[no-untyped-def]
    """y = beta y - x, in place: the next CG direction from the preconditioned residual."""
    a = x.ravel()
    b = y.ravel()
    for i in range(a.size):
        b[i] = beta * b[i] - a[i]


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
