"""A sparse Cholesky factor as a tree of cliques, of which parts can be replaced.

The system is H delta = r with a matrix of b x b blocks, one node per block row. Besides its columns
L of the factor every clique stores four sums over its subtree, on its outer nodes: the Schur
complement `schur` of the subtree's terms, `update`, the sum of L L^T, `passed`, the sum of -L z,
and the decrement `energy`, the sum of |z|^2, where z = L^-1 r. An ancestor can therefore be
eliminated again without visiting the subtrees below it, and when outer nodes are displaced by x
while the subtree is not updated,

    update stays,   passed -> passed + update x,   energy -> energy + 2 passed.x + x.update x

hold exactly for a fixed H. Hence the gain of updating a subtree after such a displacement is known
beforehand, in units of the cost, and subtrees whose gain is below a limit are not entered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...array_types import Array, Index
from ..linalg_numbers import linalg_numbers
from ..sparse.cholesky import NotPositiveDefiniteError
from ..sparse.elimination import Elimination, eliminate
from .clique_kernels import TreeArrays, descend, forward


class CliqueTree:
    """The factor; nodes are numbers from 0 on, those that it does not hold are constants.

    Cliques are numbers as well. Their nodes (inner, then outer) and the places of the outer ones
    in the parent's front lie in one array of integers, their matrices and vectors in one of
    floats, so that compiled loops run over the tree (clique_kernels.py).
    """

    def __init__(self, b: int) -> None:
        self.b = b
        self.roots: list[int] = []
        self.clique_of: Index = np.zeros(0, dtype=np.int64)
        """(nodes,): -1 = none."""
        self.place: Index = np.zeros(0, dtype=np.int64)
        """(nodes,): scratch, -1 but within calls."""
        self.moved: Array = np.zeros((0, b))
        """(nodes, b): sum of all displacements."""
        self._step: Array = np.zeros((0, b))
        """(nodes, b): scratch, 0 but within calls."""
        self.table: Index = np.zeros((0, 7), dtype=np.int64)
        """(cliques, 7): inner, outer, start of integers, start of floats, parent, first child,
        next sibling; counts are of nodes."""
        self.energy: Array = np.zeros(0)
        self._count = self._used = self._live = self._filled = 0
        self.integers: Index = np.zeros(0, dtype=np.int64)
        self.values: Array = np.zeros(0)

    def reserve(self, nodes: int) -> None:
        """Make room for nodes below this number."""
        known = len(self.clique_of)
        if nodes > known:
            self.clique_of = room(self.clique_of, nodes)
            self.place, self.moved = room(self.place, nodes), room(self.moved, nodes)
            self.clique_of[known:] = self.place[known:] = -1
            self._step = np.zeros_like(self.moved)

    @property
    def count(self) -> int:
        """Cliques numbered so far, those that have been replaced included."""
        return self._count

    @property
    def decrement(self) -> float:
        """What a step of the whole would gain."""
        return float(np.sum(self.energy[self.roots]))

    @property
    def wasted(self) -> bool:
        """Whether so much has been replaced that all is better laid out anew."""
        return self._filled > linalg_numbers().wasted_ratio * self._live

    def inner_nodes(self, cliques: Index) -> Index:
        """The inner nodes of cliques, one clique after the other."""
        counts, starts = self.table[cliques, 0], self.table[cliques, 2]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        return self.integers[np.repeat(starts, counts) + within]

    # -- structure

    def above(self, nodes: Index) -> Index:
        """The cliques of nodes and all their ancestors."""
        found: dict[int, None] = {}
        for node in nodes.tolist():
            clique = int(self.clique_of[node])
            while clique >= 0 and clique not in found:
                found[clique] = None
                clique = int(self.table[clique, 4])
        return np.array(list(found), dtype=np.int64)

    def everything(self) -> Index:
        """All cliques, children first."""
        found = list(self.roots)
        for clique in found:
            found.extend(self._children(clique))
        return np.array(found[::-1], dtype=np.int64)

    def _children(self, clique: int) -> list[int]:
        found, child = [], int(self.table[clique, 5])
        while child >= 0:
            found.append(child)
            child = int(self.table[child, 6])
        return found

    def restructure(
        self, removed: Index, new: Index, last: Index,
        neighbours: Callable[[Index, Index], Index],
    ) -> Index:
        """Order the nodes of `removed`, closed under ancestors, and new ones afresh.

        `neighbours(nodes, place)` are the pairs (k, 2), numbered by `place`, of those nodes that
        share a measurement. Nodes of `last` that are among them are eliminated last. The new
        cliques are returned, children before parents; they have no values yet.
        """
        gone = set(removed.tolist())
        orphans = [c for k in removed.tolist() for c in self._children(k) if c not in gone]
        self.roots = [root for root in self.roots if root not in gone]
        nodes = np.sort(np.concatenate([new, self.inner_nodes(removed)]))
        self._live -= int(np.sum(self._sizes(self.table[removed, 0], self.table[removed, 1])))
        if not self.roots and not orphans:
            self._count = self._used = self._filled = 0
        self.place[nodes] = np.arange(len(nodes))
        elements = [self.place[self._outer(orphan)] for orphan in orphans]
        held = self.place[last]
        found = eliminate(
            len(nodes), neighbours(nodes, self.place), elements, held[held >= 0])
        self.place[nodes] = -1
        first = self._append(found, nodes)
        for orphan, outer in zip(orphans, elements, strict=True):
            # All outer nodes lie on one path to the root; the parent is the clique furthest down.
            self._attach(orphan, first + int(np.min(found.clique_of[outer])))
        for clique in range(first, self._count):
            parent = int(found.parent[clique - first])
            if parent >= 0:
                self._attach(clique, first + parent)
            else:
                self.roots.append(clique)
        return np.arange(first, self._count)

    def _sizes(self, inner: Index, outer: Index) -> Index:
        """Floats that cliques take: factor, what it leaves on outer nodes, vectors."""
        n, m = inner * self.b, outer * self.b
        return n * n + m * n + 2 * m * m + n + 2 * m

    def _outer(self, clique: int) -> Index:
        inner, outer, at = self.table[clique, :3].tolist()
        return self.integers[at + inner:at + inner + outer]

    def _append(self, found: Elimination, nodes: Index) -> int:
        """Lay out new cliques; the number of the first is returned."""
        first, count = self._count, len(found.inner)
        self._count += count
        self.table = room(self.table, self._count)
        self.energy = room(self.energy, self._count)
        inner = np.array([len(one) for one in found.inner], dtype=np.int64)
        outer = np.array([len(one) for one in found.outer], dtype=np.int64)
        sizes, widths = self._sizes(inner, outer), inner + 2 * outer
        rows = self.table[first:self._count]
        rows[:, 0], rows[:, 1] = inner, outer
        rows[:, 2] = self._used + np.cumsum(widths) - widths
        rows[:, 3] = self._filled + np.cumsum(sizes) - sizes
        rows[:, 4:] = -1
        self._used += int(np.sum(widths))
        self._filled += int(np.sum(sizes))
        self._live += int(np.sum(sizes))
        self.integers = room(self.integers, self._used)
        self.values = room(self.values, self._filled)
        for k in range(count):
            at, n, m = int(rows[k, 2]), int(inner[k]), int(outer[k])
            self.integers[at:at + n] = nodes[found.inner[k]]
            self.integers[at + n:at + n + m] = nodes[found.outer[k]]
            self.clique_of[nodes[found.inner[k]]] = first + k
        return first

    def _attach(self, clique: int, parent: int) -> None:
        """Make a clique a child, and note where its outer nodes stand in the parent's front."""
        table = self.table
        table[clique, 4], table[clique, 6], table[parent, 5] = parent, table[parent, 5], clique
        inner, outer, at = table[clique, :3].tolist()
        above = self.integers[table[parent, 2]:][:table[parent, 0] + table[parent, 1]]
        self.place[above] = np.arange(len(above))
        self.integers[at + inner + outer:at + inner + 2 * outer] = self.place[
            self.integers[at + inner:at + inner + outer]]
        self.place[above] = -1

    # -- numbers

    @property
    def _arrays(self) -> TreeArrays:
        return TreeArrays(self.table, self.integers, self.values, self.place)

    def factorise(self, cliques: Index, form: Callable[..., bool], *terms: Any) -> None:
        """Columns of the factor, children first; those of children not among them are there.

        `form(cliques, arrays, *terms)` factors the fronts one by one.
        """
        if not form(cliques, self._arrays, *terms):
            raise NotPositiveDefiniteError('a pivot is not positive')

    def forward(self, cliques: Index, rhs: Array) -> None:
        """Eliminate right-hand sides (inner nodes of the cliques, b), children first."""
        forward(cliques, rhs, self._arrays, self.energy, self.moved, self.b)

    def descend(self, limit: float) -> tuple[Index, Index, Array]:
        """(cliques entered, parents first; their inner nodes; steps (nodes, b) of these).

        A subtree is left as it is where entering it would gain `limit` at most.
        """
        entered = descend(
            np.array(self.roots, dtype=np.int64), limit, self._arrays, self.energy, self.moved,
            self._step, self.b, self._count)
        nodes = self.inner_nodes(entered)
        steps = self._step[nodes]
        self._step[nodes] = 0
        return entered, nodes, steps


def room(array: NDArray, rows: int) -> NDArray:
    """The array, or a copy at least twice as long, with so many rows."""
    if rows <= len(array):
        return array
    grown = np.zeros((max(rows, 2 * len(array), 64), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
