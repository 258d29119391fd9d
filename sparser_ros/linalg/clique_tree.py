"""A sparse Cholesky factor as a tree of cliques, of which parts can be replaced; marginals from it.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ..array_types import Array, Index
from .cholesky import NotPositiveDefiniteError
from .compiled import fast, inlined
from .ordering import Elimination, eliminate

WASTED_RATIO = 1.5
"""Floats stored, those of replaced cliques included, over floats in use, above which everything is
ordered and laid out again; it bounds the memory."""


class TreeArrays(NamedTuple):
    """The arrays of a `CliqueTree`."""

    table: Index
    """(cliques, 7)"""
    integers: Index
    values: Array
    place: Index
    """(nodes,): scratch, -1 between calls."""


class CliqueTree:
    """The factor; nodes are numbers from 0 on, those that it does not hold are constants.

    Cliques are numbers as well. Their nodes (inner, then outer) and the places of the outer ones
    in the parent's front lie in one array of integers, their matrices and vectors in one of
    floats, so that compiled loops run over the tree. The floats of a clique of n inner and m outer
    rows, one after the other: `lower` (n, n), `below` (m, n), `update` (m, m), `schur` (m, m),
    `z` (n,), `passed` (m,), `seen` (m,), where its outer nodes were when its right-hand side was
    formed.
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
        return self._filled > WASTED_RATIO * self._live

    def inner_nodes(self, cliques: Index) -> Index:
        """The inner nodes of cliques, one clique after the other."""
        return self.integers[_ranges(self.table[cliques, 2], self.table[cliques, 0])]

    # -- structure

    def above(self, nodes: Index) -> Index:
        """The cliques of nodes and all their ancestors."""
        path: dict[int, None] = {}
        for node in nodes.tolist():
            clique = int(self.clique_of[node])
            while clique >= 0 and clique not in path:
                path[clique] = None
                clique = int(self.table[clique, 4])
        return np.array(list(path), dtype=np.int64)

    def everything(self) -> Index:
        """All cliques, children first."""
        cliques = list(self.roots)
        for clique in cliques:
            cliques.extend(self._children(clique))
        return np.array(cliques[::-1], dtype=np.int64)

    def _children(self, clique: int) -> list[int]:
        children, child = [], int(self.table[clique, 5])
        while child >= 0:
            children.append(child)
            child = int(self.table[child, 6])
        return children

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
        newest = self.place[last]
        elimination = eliminate(
            len(nodes), neighbours(nodes, self.place), elements, newest[newest >= 0])
        self.place[nodes] = -1
        first = self._append(elimination, nodes)
        for orphan, outer in zip(orphans, elements, strict=True):
            # All outer nodes lie on one path to the root; the parent is the clique furthest down.
            self._attach(orphan, first + int(np.min(elimination.clique_of[outer])))
        for clique in range(first, self._count):
            parent = int(elimination.parent[clique - first])
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

    def _append(self, elimination: Elimination, nodes: Index) -> int:
        """Lay out new cliques; the number of the first is returned."""
        first, inner, outer = self._count, elimination.inner_counts, elimination.outer_counts
        self._count += len(inner)
        self.table = room(self.table, self._count)
        self.energy = room(self.energy, self._count)
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
        self.integers[_ranges(rows[:, 2], inner)] = nodes[elimination.inner]
        self.integers[_ranges(rows[:, 2] + inner, outer)] = nodes[elimination.outer]
        self.clique_of[nodes] = first + elimination.clique_of
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
        _forward(cliques, rhs, self._arrays, self.energy, self.moved, self.b)

    def descend(self, limit: float) -> tuple[Index, Index, Array]:
        """(cliques entered, parents first; their inner nodes; steps (nodes, b) of these).

        A subtree is left as it is where entering it would gain `limit` at most.
        """
        entered = _descend(
            np.array(self.roots, dtype=np.int64), limit, self._arrays, self.energy, self.moved,
            self._step, self.b, self._count)
        nodes = self.inner_nodes(entered)
        steps = self._step[nodes]
        self._step[nodes] = 0
        return entered, nodes, steps


def _ranges(starts: Index, counts: Index) -> Index:
    """start, start + 1, ..., start + count - 1 for each start, one range after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)


def room(array: NDArray, rows: int) -> NDArray:
    """The array, or a copy at least twice as long, with so many rows."""
    if rows <= len(array):
        return array
    grown = np.zeros((max(rows, 2 * len(array), 64), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


_CURRENT, _UNFORMED = -1, 0


class MarginalFactor:
    """Marginal covariances: a second matrix on the cliques, renewed where something changed.

    Steps and covariances need different matrices: steps the convex part of the Hessian, at
    whatever point still gives good steps; covariances the Fisher information at the estimate. Both
    have the same pattern, so the second factor shares the cliques and has values of its own.

    With H = L L^T and E the columns of the identity that belong to the chosen nodes, the marginal
    is E^T H^-1 E = Z^T Z, Z = L^-1 E. In Z only rows of the chosen cliques and of their ancestors
    differ from zero: the work is that of the paths to the root, whatever the size of the tree
    (Kaess and Dellaert, Covariance recovery from a square root information matrix, 2009).
    """

    def __init__(self, tree: CliqueTree) -> None:
        self._tree = tree
        self._values: Array = np.zeros(0)
        self._since: Index = np.zeros(0, dtype=np.int64)
        """(cliques,): number of the change that is not in the values yet, or one of the above."""
        self._changes = _UNFORMED

    def replaced(self, removed: Index, formed: Index) -> None:
        """Note that cliques have gone and others have come, which have no values yet."""
        self._since = room(self._since, int(np.max(formed, initial=-1)) + 1)
        self._since[removed] = _CURRENT
        self._since[formed] = _UNFORMED

    def changed(self, cliques: Index) -> None:
        """Note that bodies or weights of cliques have changed."""
        self._changes += 1
        self._since[cliques[self._since[cliques] == _CURRENT]] = self._changes

    def renew(self, form: Callable[..., bool], *terms: Any, most: int) -> bool:
        """Factorise new cliques and `most` of those that changed, the oldest changes first.

        Ancestors come with them. `form(cliques, arrays, *terms)` factors fronts one by one; False
        where one is not positive definite, and then there are no covariances.
        """
        tree = self._tree
        self._values = room(self._values, len(tree.values))
        since = self._since[:tree.count]
        changed = np.flatnonzero(since > _UNFORMED)
        chosen = since == _UNFORMED
        chosen[changed[np.argsort(since[changed], kind='stable')[:most]]] = True
        level = np.flatnonzero(chosen)
        while len(level):
            above = tree.table[level, 4]
            level = np.unique(above[above >= 0])
            level = level[~chosen[level]]
            chosen[level] = True
        # Cliques are made children first, and later ones are never below older ones.
        cliques = np.flatnonzero(chosen)
        arrays = TreeArrays(tree.table, tree.integers, self._values, tree.place)
        if len(cliques) and not form(cliques, arrays, *terms):
            return False
        since[cliques] = _CURRENT
        return True

    def covariance(self, nodes: Index) -> Array:
        """(k b, k b): joint covariance of nodes; zero for those that the tree does not hold."""
        tree, b = self._tree, self._tree.b
        cliques = np.sort(tree.above(nodes[tree.clique_of[nodes] >= 0]))
        inner = tree.inner_nodes(cliques)
        tree.place[inner] = np.arange(len(inner))
        rows = np.where(tree.clique_of[nodes] >= 0, tree.place[nodes], -1)
        z = np.zeros((len(inner) * b, len(nodes) * b))
        for k, row in enumerate(rows.tolist()):
            if row >= 0:
                z[row * b:(row + 1) * b, k * b:(k + 1) * b] = np.eye(b)
        begin = 0
        for clique in cliques.tolist():
            begin = self._eliminate(clique, begin, z)
        tree.place[inner] = -1
        return np.asarray(z.T @ z)

    def _eliminate(self, clique: int, begin: int, z: Array) -> int:
        """Solve the rows of one clique and take them out of those above; the next first row."""
        tree, b = self._tree, self._tree.b
        inner, outer, integers, floats = tree.table[clique, :4].tolist()
        n, m = inner * b, outer * b
        lower = self._values[floats:floats + n * n].reshape(n, n)
        below = self._values[floats + n * n:floats + n * n + m * n].reshape(m, n)
        solved = solve_triangular(lower, z[begin:begin + n], lower=True, check_finite=False)
        z[begin:begin + n] = solved
        at = tree.place[tree.integers[integers + inner:integers + inner + outer]]
        z[(at[:, None] * b + np.arange(b)).ravel()] -= below @ solved
        return begin + n


# -- loops over the cliques


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


@fast
def _forward(cliques, rhs, tree, energy, moved, b):  # type: ignore[no-untyped-def]
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


@fast
def _descend(roots, limit, tree, energy, moved, step, b, count):  # type: ignore[no-untyped-def]
    """Cliques entered, parents first; the steps of their inner nodes are left in `step`."""
    table, integers, values = tree.table, tree.integers, tree.values
    most = 0
    for clique in range(count):
        most = max(most, max(table[clique, 0], table[clique, 1]) * b)
    x, pull = np.empty(most), np.empty(most)
    waiting, entered = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    top, visited = len(roots), 0
    waiting[:top] = roots
    while top:
        top -= 1
        clique = waiting[top]
        entered[visited] = clique
        visited += 1
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
    return entered[:visited].copy()
