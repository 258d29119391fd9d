"""Compiled loops over a tree of cliques (clique_tree.py says what its tables hold).

The floats of a clique of n inner and m outer rows, one after the other: `lower` (n, n), `below`
(m, n), `update` (m, m), `schur` (m, m), `z` (n,), `passed` (m,), `seen` (m,), where its outer nodes
were when its right-hand side was formed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...array_types import Array, Index
from ..compiled import REORDERED, compiled
from ..dense.manifold_kernels import inlined

_compiled = compiled(fastmath=REORDERED, error_model='numpy')


class TreeArrays(NamedTuple):
    """The arrays of a `CliqueTree`."""

    table: Index
    """(cliques, 7)"""
    integers: Index
    values: Array
    place: Index
    """(nodes,): scratch, -1 between calls."""


@inlined
def eliminate_front(clique, tree, b, front):  # type: ignore[no-untyped-def]
    """Factor of a front, whose lower triangle holds the clique's own terms; False if not PD."""
    table, integers, values = tree.table, tree.integers, tree.values
    n, m = table[clique, 0] * b, table[clique, 1] * b
    child = table[clique, 5]
    while child >= 0:
        kn, km = table[child, 0] * b, table[child, 1] * b
        at = table[child, 2] + table[child, 0] + table[child, 1]
        schur = table[child, 3] + kn * kn + km * kn + km * km
        for i in range(km):
            r = integers[at + i // b] * b + i % b
            for j in range(km):
                c = integers[at + j // b] * b + j % b
                if c <= r:
                    front[r, c] += values[schur + i * km + j]
        child = table[child, 6]
    for j in range(n):
        s = front[j, j]
        for k in range(j):
            s -= front[j, k] * front[j, k]
        if not s > 0:
            return False
        pivot = np.sqrt(s)
        front[j, j] = pivot
        for i in range(j + 1, n + m):
            s = front[i, j]
            for k in range(j):
                s -= front[i, k] * front[j, k]
            front[i, j] = s / pivot
    start = table[clique, 3]
    for i in range(n):
        for j in range(n):
            values[start + i * n + j] = front[i, j] if j <= i else 0.0
    start += n * n
    for i in range(m):
        for j in range(n):
            values[start + i * n + j] = front[n + i, j]
    start += m * n
    for i in range(m):
        for j in range(i + 1):
            s = 0.0
            for k in range(n):
                s += front[n + i, k] * front[n + j, k]
            left = front[n + i, n + j] - s
            values[start + i * m + j] = values[start + j * m + i] = s
            values[start + m * m + i * m + j] = values[start + m * m + j * m + i] = left
    child = table[clique, 5]
    while child >= 0:
        kn, km = table[child, 0] * b, table[child, 1] * b
        at = table[child, 2] + table[child, 0] + table[child, 1]
        update = table[child, 3] + kn * kn + km * kn
        for i in range(km):
            r = integers[at + i // b] * b + i % b - n
            if r < 0:
                continue
            for j in range(km):
                c = integers[at + j // b] * b + j % b - n
                if c >= 0:
                    values[start + r * m + c] += values[update + i * km + j]
        child = table[child, 6]
    return True


@_compiled
def forward(cliques, rhs, tree, energy, moved, b):  # type: ignore[no-untyped-def]
    """z, passed and energy of cliques, children first, from rhs of their inner nodes."""
    table, integers, values = tree.table, tree.integers, tree.values
    most = 0
    for clique in cliques:
        most = max(most, (table[clique, 0] + table[clique, 1]) * b)
        child = table[clique, 5]
        while child >= 0:
            most = max(most, table[child, 1] * b)
            child = table[child, 6]
    whole, x = np.empty(most), np.empty(most)
    row = 0
    for clique in cliques:
        n, m = table[clique, 0] * b, table[clique, 1] * b
        for i in range(n):
            whole[i] = rhs[row + i // b, i % b]
        row += table[clique, 0]
        for i in range(n, n + m):
            whole[i] = 0.0
        gained = 0.0
        child = table[clique, 5]
        while child >= 0:
            kn, km = table[child, 0] * b, table[child, 1] * b
            nodes = table[child, 2] + table[child, 0]
            at = nodes + table[child, 1]
            update = table[child, 3] + kn * kn + km * kn
            passed = update + 2 * km * km + kn
            displaced = False
            for i in range(km):
                x[i] = moved[integers[nodes + i // b], i % b] - values[passed + km + i]
                displaced |= x[i] != 0.0
            gained += energy[child]
            for i in range(km):
                pulled = 0.0
                if displaced:
                    # Never where the child itself has come just before, as most have.
                    for j in range(km):
                        pulled += values[update + i * km + j] * x[j]
                gained += x[i] * (2 * values[passed + i] + pulled)
                whole[integers[at + i // b] * b + i % b] += values[passed + i] + pulled
            child = table[child, 6]
        gained = max(gained, 0.0)
        lower = table[clique, 3]
        below = lower + n * n
        z = below + m * n + 2 * m * m
        for i in range(n):
            s = whole[i]
            for j in range(i):
                s -= values[lower + i * n + j] * values[z + j]
            s /= values[lower + i * n + i]
            values[z + i] = s
            gained += s * s
        nodes = table[clique, 2] + table[clique, 0]
        for i in range(m):
            s = whole[n + i]
            for j in range(n):
                s -= values[below + i * n + j] * values[z + j]
            values[z + n + i] = s
            values[z + n + m + i] = moved[integers[nodes + i // b], i % b]
        energy[clique] = gained


@_compiled
def descend(roots, limit, tree, energy, moved, step, b, count):  # type: ignore[no-untyped-def]
    """Cliques entered, parents first; the steps of their inner nodes are left in `step`."""
    table, integers, values = tree.table, tree.integers, tree.values
    most = 0
    for clique in range(count):
        most = max(most, max(table[clique, 0], table[clique, 1]) * b)
    x, pull = np.empty(most), np.empty(most)
    waiting, entered = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    top, found = len(roots), 0
    waiting[:top] = roots
    while top:
        top -= 1
        clique = waiting[top]
        entered[found] = clique
        found += 1
        n, m = table[clique, 0] * b, table[clique, 1] * b
        lower = table[clique, 3]
        below = lower + n * n
        z = below + m * n + 2 * m * m
        inner = table[clique, 2]
        nodes = inner + table[clique, 0]
        for i in range(n):
            pull[i] = values[z + i]
        for i in range(m):
            node = integers[nodes + i // b]
            away = moved[node, i % b] - values[z + n + m + i] + step[node, i % b]
            for j in range(n):
                pull[j] -= values[below + i * n + j] * away
        for i in range(n - 1, -1, -1):
            s = pull[i] / values[lower + i * n + i]
            step[integers[inner + i // b], i % b] = s
            for j in range(i):
                pull[j] -= values[lower + i * n + j] * s
        child = table[clique, 5]
        while child >= 0:
            kn, km = table[child, 0] * b, table[child, 1] * b
            nodes = table[child, 2] + table[child, 0]
            update = table[child, 3] + kn * kn + km * kn
            passed = update + 2 * km * km + kn
            for i in range(km):
                node = integers[nodes + i // b]
                x[i] = moved[node, i % b] - values[passed + km + i] + step[node, i % b]
            gain = energy[child]
            for i in range(km):
                pulled = 0.0
                for j in range(km):
                    pulled += values[update + i * km + j] * x[j]
                gain += x[i] * (2 * values[passed + i] + pulled)
            if gain > limit:
                waiting[top] = child
                top += 1
            child = table[child, 6]
    return entered[:found].copy()
