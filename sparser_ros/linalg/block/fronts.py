"""The dense fronts of a sparse Cholesky factor: columns that are eliminated together.

Columns with the same rows below them form a front: a dense lower triangle of its own columns and
of the Schur complement that their elimination adds to the fronts above. Where factors fill in,
nearly all multiplications happen in large fronts, at the speed of dense algebra. In small ones the
bookkeeping would dominate; their columns are subtracted from those above one by one
(front_kernels.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...array_types import Index, Mask
from ..compiled import compiled
from ..linalg_numbers import linalg_numbers

_compiled = compiled()


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
        first, width, above, counts, linalg_numbers().dense_front_rows // b)
    return Fronts(first, width, above, dense, int(room), int(largest))


@_compiled
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


@_compiled
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


@_compiled
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
