"""One step of truncated CG in four compiled parts; its scalars live in a small array, the state.

The same step runs where the arrays are on a GPU (linalg/gpu/kernels.cu): there nobody waits for
a scalar, and steps after the end change nothing.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from .compiled import fast


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
