"""Kernels that assemble the Hessian in tangent coordinates block by block, bearings eliminated.

A node is a pose (its rotation's q coordinates, then its position's p) or a landmark (p). Bearings
couple with at most two nodes and not with each other, and along the orthonormal directions of a
sphere their own Hessian is a multiple of the identity: eliminating them costs next to nothing and
fills nothing. What is assembled is T^T ((Q - Lambda) x I_p) T of
`solver/preconditioner.py`.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from ..array_types import Array, Index
from .compiled import fast


class Bearings(NamedTuple):
    """The k bearings at a point, and what their elimination takes."""

    nodes: Index
    """(k, 2): nodes that they couple with, -1 = none."""
    normal: Array
    """(k, p - 1, p): orthonormal tangents."""
    pivots: Array
    """(k,): their Hessians, multiples of the identity."""
    coupling: Array
    """(k, 2, p - 1, b): Hessian between a bearing and its nodes, filled in by `eliminate`."""


@fast
def bearing_nodes(indptr, indices, node, first, k):  # type: ignore[no-untyped-def]
    """(k, 2): nodes that bearing rows couple with, -1 = none; -2 in a row of more than two."""
    out = np.full((k, 2), -1, dtype=np.int64)
    for u in range(k):
        for e in range(indptr[first + u], indptr[first + u + 1]):
            i = node[indices[e]]
            if i < 0 or i == out[u, 0] or i == out[u, 1]:
                continue
            if out[u, 0] < 0:
                out[u, 0] = i
            elif out[u, 1] < 0:
                out[u, 1] = i
            else:
                out[u, 0] = -2
    return out


@fast
def pair_slots(starts, rows, nodes):  # type: ignore[no-untyped-def]
    """(k, 2, 2): block of each pair of nodes (k, 2) on or below the diagonal; -1 = none."""
    slots = np.full((len(nodes), 2, 2), -1, dtype=np.int64)
    for u in range(len(nodes)):
        for s in range(2):
            for t in range(2):
                i, j = nodes[u, s], nodes[u, t]
                if j < 0 or i < j:
                    continue
                low, high = starts[j], starts[j + 1]
                while low < high:
                    middle = (low + high) // 2
                    if rows[middle] < i:
                        low = middle + 1
                    else:
                        high = middle
                slots[u, s, t] = low
    return slots


@fast
def connect(slots, rotation, kappa, out):  # type: ignore[no-untyped-def]
    """Add relative rotations (m, d, d) of weights (m,) to blocks: kappa |x_j - R^T x_i|^2.

    `slots` (m, 2, 2) are those of the pairs i, j.
    """
    d = rotation.shape[1]
    for e in range(len(slots)):
        for a in range(d):
            out[slots[e, 0, 0], a, a] += kappa[e]
            out[slots[e, 1, 1], a, a] += kappa[e]
            for c in range(d):
                if slots[e, 0, 1] >= 0:
                    out[slots[e, 0, 1], a, c] -= kappa[e] * rotation[e, a, c]
                else:
                    out[slots[e, 1, 0], a, c] -= kappa[e] * rotation[e, c, a]


@fast
def complements(bearings, out):  # type: ignore[no-untyped-def]
    """(k, p - 1, p): orthonormal rows orthogonal to unit rows (k, p), by one reflection each."""
    p = bearings.shape[1]
    w = np.empty(p)
    for u in range(len(bearings)):
        sign = 1.0 if bearings[u, 0] >= 0 else -1.0
        for c in range(p):
            w[c] = bearings[u, c]
        w[0] += sign
        # |w|^2 = 2 + 2 |first entry|: never small.
        scale = 2.0 / (2.0 + 2.0 * abs(bearings[u, 0]))
        for a in range(1, p):
            for c in range(p):
                out[u, a - 1, c] = -scale * w[a] * w[c]
            out[u, a - 1, a] += 1.0


@cache
def tangent_kernels(d: int, p: int, q: int) -> SimpleNamespace:
    """Kernels for rotation blocks of d rows, p columns and q tangent coordinates a rotation."""
    b = q + p

    @fast
    def assemble(matrix, turns, slots, out):  # type: ignore[no-untyped-def]
        """out[slot] += T_s^T Q_sr T_r for all entries of the CSR matrix Q that have a slot."""
        indptr, indices, data, n = matrix.indptr, matrix.indices, matrix.data, len(turns)
        for r in range(len(indptr) - 1):
            rotation = r < n * d
            i, a = r // d, r % d
            for e in range(indptr[r], indptr[r + 1]):
                slot = slots[e]
                if slot < 0:
                    continue
                s, value = indices[e], data[e]
                j, c = s // d, s % d
                if s < n * d and rotation:
                    for y in range(q):
                        for x in range(q):
                            t = 0.0
                            for z in range(p):
                                t += turns[j, c, z, y] * turns[i, a, z, x]
                            out[slot, y, x] += value * t
                elif rotation:
                    for z in range(p):
                        for x in range(q):
                            out[slot, q + z, x] += value * turns[i, a, z, x]
                elif s < n * d:
                    for y in range(q):
                        for z in range(p):
                            out[slot, y, q + z] += value * turns[j, c, z, y]
                else:
                    for z in range(p):
                        out[slot, q + z, q + z] += value

    @fast
    def subtract_curvature(multipliers, turns, slots, out):  # type: ignore[no-untyped-def]
        """out[slots[i]] -= T_i^T Lambda_i T_i for the rotations i."""
        turned = np.empty((d, p))
        for i in range(len(turns)):
            for y in range(q):
                for a in range(d):
                    for z in range(p):
                        s = 0.0
                        for c in range(d):
                            s += multipliers[i, a, c] * turns[i, c, z, y]
                        turned[a, z] = s
                for x in range(q):
                    s = 0.0
                    for a in range(d):
                        for z in range(p):
                            s += turns[i, a, z, x] * turned[a, z]
                    out[slots[i], x, y] -= s

    @fast
    def eliminate(matrix, node, turns, bearings, pairs, out):  # type: ignore[no-untyped-def]
        """Subtract what each bearing's elimination leaves: out -= H_iu H_uj / pivot."""
        indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
        nodes, normal, pivots, coupling = bearings
        n, k = len(turns), len(pivots)
        for u in range(k):
            for s in range(2):
                for x in range(p - 1):
                    for y in range(b):
                        coupling[u, s, x, y] = 0.0
            for e in range(indptr[n * d + u], indptr[n * d + u + 1]):
                r = indices[e]
                i = node[r]
                if i < 0:
                    continue
                s = 0 if i == nodes[u, 0] else 1
                value = data[e]
                if r < n * d:
                    j, a = r // d, r % d
                    for x in range(p - 1):
                        for y in range(q):
                            t = 0.0
                            for z in range(p):
                                t += normal[u, x, z] * turns[j, a, z, y]
                            coupling[u, s, x, y] += value * t
                else:
                    for x in range(p - 1):
                        for z in range(p):
                            coupling[u, s, x, q + z] += value * normal[u, x, z]
            f = 1.0 / pivots[u]
            for s in range(2):
                for t in range(2):
                    slot = pairs[u, s, t]
                    if slot < 0:
                        continue
                    for y in range(b):
                        for z in range(b):
                            v = 0.0
                            for x in range(p - 1):
                                v += coupling[u, s, x, y] * coupling[u, t, x, z]
                            out[slot, y, z] -= f * v

    @fast
    def coordinates(v, turns, bearings, x, z):  # type: ignore[no-untyped-def]
        """Tangent coordinates of an ambient v, bearings' z (k, p - 1) eliminated from x."""
        nodes, normal, pivots, coupling = bearings
        n, k = len(turns), len(pivots)
        for i in range(n):
            for a in range(b):
                x[i * b + a] = 0.0
            for a in range(d):
                for c in range(p):
                    f = v[i * d + a, c]
                    for y in range(q):
                        x[i * b + y] += turns[i, a, c, y] * f
        for r in range(n * b, len(x)):
            x[r] = 0.0
        for u in range(k):
            f = 1.0 / pivots[u]
            for a in range(p - 1):
                t = 0.0
                for c in range(p):
                    t += normal[u, a, c] * v[n * d + u, c]
                z[u, a] = t
                for s in range(2):
                    i = nodes[u, s]
                    if i >= 0:
                        for y in range(b):
                            x[i * b + y] -= f * t * coupling[u, s, a, y]

    @fast
    def ambient(x, z, turns, bearings, out):  # type: ignore[no-untyped-def]
        """The ambient vector of tangent coordinates x; z still holds right-hand sides."""
        nodes, normal, pivots, coupling = bearings
        n, k = len(turns), len(pivots)
        for i in range(n):
            for a in range(d):
                for c in range(p):
                    t = 0.0
                    for y in range(q):
                        t += turns[i, a, c, y] * x[i * b + y]
                    out[i * d + a, c] = t
        for u in range(k):
            for c in range(p):
                out[n * d + u, c] = 0.0
            for a in range(p - 1):
                t = z[u, a]
                for s in range(2):
                    i = nodes[u, s]
                    if i >= 0:
                        for y in range(b):
                            t -= coupling[u, s, a, y] * x[i * b + y]
                t /= pivots[u]
                for c in range(p):
                    out[n * d + u, c] += normal[u, a, c] * t
        for r in range(n * d + k, out.shape[0]):
            for c in range(p):
                out[r, c] = 0.0

    return SimpleNamespace(
        assemble=assemble, subtract_curvature=subtract_curvature, eliminate=eliminate,
        coordinates=coordinates, ambient=ambient)
