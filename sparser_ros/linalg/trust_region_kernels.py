"""Compiled loops of the trust region: on the manifold, and one step of truncated CG.

Those of the manifold are specialised by block height d and columns p. They compute what
`solver/manifold.py` says of project, multipliers, hessian and retract. numpy's batched products
cost about a microsecond per 3x5 block; these loops are fused, allocate nothing and release the GIL.
Arrays are C-ordered (rows, p). Layout of the rows of Y: n blocks of d rows (rotations), k single
rows (bearings), then rows that are held fixed.

A step of CG is in four parts; its scalars live in a small array, the state. All of this runs also
where the arrays are on a GPU (linalg/gpu/kernels.cu): there nobody waits for a scalar, and steps
after the end change nothing.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from types import SimpleNamespace

import numpy as np

from .compiled import fast

_MOST_NEWTON_STEPS = 30
"""A bound on an iteration that converges quadratically."""
_ORTHONORMAL, _NEARLY_ORTHONORMAL = 2e-15, 1e-8
"""Sums of deviations of a Gram matrix from the identity: the rounding error of six entries, and
its square root, from which one more step of quadratic convergence reaches it."""


@cache
def kernels(d: int, p: int) -> SimpleNamespace:
    """The kernels for rotation blocks of d rows and matrices of p columns."""

    @fast
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

    @fast
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

    @fast
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

    @fast
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
                for _ in range(_MOST_NEWTON_STEPS):
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
                    if off < _ORTHONORMAL:
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
                    if off < _NEARLY_ORTHONORMAL:
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


@fast
def dot(a, b):  # type: ignore[no-untyped-def]
    """Sum of a * b of two contiguous arrays of equal size."""
    x = a.ravel()
    y = b.ravel()
    s = 0.0
    for i in range(x.size):
        s += x[i] * y[i]
    return s


# -- truncated CG


class State(IntEnum):
    """Places in the state (size,) of a run of CG."""

    DONE = 0
    """How it ended (`Outcome`)."""
    STEPS = 1
    MAX_STEPS = 2
    RZ = 3
    """<r, z>: the squared residual in the norm of the preconditioner's inverse."""
    TARGET = 4
    """<r, z> at or below which CG has converged."""
    SS = 5
    """<s, P s>, <s, P direction>, <direction, P direction> by recurrence."""
    SD = 6
    DD = 7
    RADIUS = 8
    MODEL = 9
    """Change of the model so far, the last step to the boundary excluded."""
    CURVATURE = 10
    ALPHA = 11
    """Share of the direction that r moves by; 0 at the boundary."""
    STEP = 12
    """Share of the direction that s moves by."""
    BETA = 13
    TAU = 14
    """The last step, to the boundary, as a share of the direction."""


class Outcome(IntEnum):
    """Values of State.DONE; BOUNDARY: of the trust region, or negative curvature; EXHAUSTED:
    MAX_STEPS were made."""

    RUNNING = 0
    CONVERGED = 1
    BOUNDARY = 2
    EXHAUSTED = 3


SIZE = len(State)
# Compiled code takes plain integers.
(_DONE, _STEPS, _MAX_STEPS, _RZ, _TARGET, _SS, _SD, _DD, _RADIUS, _MODEL, _CURVATURE, _ALPHA, _STEP,
 _BETA, _TAU) = map(int, State)
_RUNNING, _CONVERGED, _BOUNDARY, _EXHAUSTED = map(int, Outcome)


@fast
def advance(state, direction, hp):  # type: ignore[no-untyped-def]
    """From <direction, H direction>: how far to go along it."""
    a = direction.ravel()
    b = hp.ravel()
    curvature = 0.0
    for i in range(a.size):
        curvature += a[i] * b[i]
    state[_ALPHA] = 0.0
    state[_STEP] = 0.0
    if state[_DONE] != 0.0:
        return
    state[_STEPS] += 1
    state[_CURVATURE] = curvature
    rz, ss, sd, dd = state[_RZ], state[_SS], state[_SD], state[_DD]
    radius = state[_RADIUS]
    alpha = rz / curvature if curvature > 0 else np.inf
    ahead = ss + 2 * alpha * sd + alpha * alpha * dd if curvature > 0 else np.inf
    if not curvature > 0 or ahead >= radius * radius:
        limit = radius if np.isfinite(radius) else np.sqrt(max(ss, dd))
        room = sd * sd + dd * (limit * limit - ss)
        state[_TAU] = (-sd + np.sqrt(max(room, 0.0))) / dd
        state[_STEP] = state[_TAU]
        state[_SS] = limit * limit
        state[_DONE] = _BOUNDARY
        return
    state[_ALPHA] = alpha
    state[_STEP] = alpha
    state[_MODEL] -= 0.5 * alpha * rz
    state[_SS] = ahead


@fast
def move(state, direction, hp, s, r):  # type: ignore[no-untyped-def]
    """s += step direction, r += alpha H direction."""
    step, alpha = state[_STEP], state[_ALPHA]
    if step == 0.0:
        return
    a, b, c, d = direction.ravel(), hp.ravel(), s.ravel(), r.ravel()
    for i in range(a.size):
        c[i] += step * a[i]
        d[i] += alpha * b[i]


@fast
def turn(state, r, z):  # type: ignore[no-untyped-def]
    """From <r, z>: whether to go on, and how to turn."""
    if state[_DONE] != 0.0:
        return
    a = r.ravel()
    b = z.ravel()
    rz = 0.0
    for i in range(a.size):
        rz += a[i] * b[i]
    beta = rz / state[_RZ]
    state[_BETA] = beta
    state[_RZ] = rz
    state[_SD] = beta * (state[_SD] + state[_ALPHA] * state[_DD])
    state[_DD] = rz + beta * beta * state[_DD]
    if not rz > state[_TARGET]:
        state[_DONE] = _CONVERGED
    elif state[_STEPS] >= state[_MAX_STEPS]:
        state[_DONE] = _EXHAUSTED


@fast
def redirect(state, z, direction):  # type: ignore[no-untyped-def]
    """direction = beta direction - z, unless CG has ended."""
    if state[_DONE] != 0.0:
        return
    beta = state[_BETA]
    a = z.ravel()
    b = direction.ravel()
    for i in range(a.size):
        b[i] = beta * b[i] - a[i]
