"""Marginal covariances from a tree of cliques: a second factor, and back substitution on paths.

Steps and covariances need different matrices: steps the convex part of the Hessian, at whatever
point still gives good steps; covariances the Fisher information at the estimate. Both have
the same pattern, so the second factor shares the cliques and has values of its own.

With H = L L^T and E the columns of the identity that belong to the chosen nodes, the marginal is
E^T H^-1 E = Z^T Z, Z = L^-1 E. In Z only rows of the chosen cliques and of their ancestors differ
from zero: the work is that of the paths to the root, whatever the size of the tree (Kaess and
Dellaert, Covariance recovery from a square root information matrix, 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ...array_types import Array, Index
from .clique_kernels import TreeArrays
from .clique_tree import CliqueTree, room

_CURRENT, _UNFORMED = -1, 0


class MarginalFactor:
    """Values of a second matrix on the cliques of a tree, renewed where something changed."""

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

    @property
    def waiting(self) -> int:
        """Cliques whose changes are not in the values yet."""
        return int(np.count_nonzero(self._since[:self._tree.count] != _CURRENT))

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
