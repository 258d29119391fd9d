"""The order of elimination that takes fewest multiplications: AMD, or nested dissection."""

from __future__ import annotations

import logging

import numpy as np
import scipy.sparse as sp

from ...array_types import Index
from ..linalg_numbers import linalg_numbers
from .cholesky import OrderingUnavailableError, SymbolicCholesky
from .ordering_kernels import CHAIN_ENTRIES, chains_of, independent_stars

log = logging.getLogger(__name__)



def sparsest(matrix: sp.csc_matrix, b: int = 1) -> SymbolicCholesky:
    """Analysis of a symmetric matrix in the order of fewest multiplications.

    AMD takes a tenth of the time of METIS and is the better one on chains with few closures; on
    large graphs that close everywhere METIS wins more than it costs. `b` is the size of the
    dense blocks of another matrix of this pattern that will be factorised in the same order.
    """
    numbers = linalg_numbers()
    busy = int(np.count_nonzero(np.diff(matrix.indptr) > CHAIN_ENTRIES))
    reduced = Reduced(matrix) if busy >= numbers.reduced_from_nodes else None
    tried = SymbolicCholesky(matrix if reduced is None else reduced.core)
    if tried.counts is None or tried.order is None:
        return SymbolicCholesky(matrix)
    if b**3 * np.sum(tried.counts**2.0) / 2 > numbers.metis_from_multiplications * busy:
        return dissected(matrix, reduced)
    return tried if reduced is None else reduced.ordered(tried.order)


def dissected(matrix: sp.csc_matrix, reduced: Reduced | None = None) -> SymbolicCholesky:
    """Analysis by nested dissection of the core that chains and small stars leave."""
    reduced = reduced or Reduced(matrix)
    return reduced.ordered(flattest(reduced.core).order)


class Reduced:
    """A matrix without its chains and stars: `core`, a pattern whose values do not matter.

    A chain between two closures leaves one entry for the pair of its ends, in whichever order it
    is eliminated, and a node with three neighbours leaves a triangle for a star. Three of four
    poses of a pose graph go that way, and ordering the rest takes a third of the time.
    """

    def __init__(self, matrix: sp.csc_matrix) -> None:
        self.matrix = matrix
        chains, left, pairs = chains_of(matrix.indptr, matrix.indices)
        self._before = [chains]
        core = sp.csc_matrix(matrix[:, left][left])
        rank = np.empty(matrix.shape[0], dtype=np.int64)
        rank[left] = np.arange(len(left))
        i, j = rank[pairs[:, 0]], rank[pairs[:, 1]]
        ends = sp.coo_matrix((np.ones(len(pairs)), (i, j)), shape=core.shape)
        core = sp.csc_matrix(abs(core) + ends + ends.T)
        for _ in range(linalg_numbers().star_rounds):
            centres = independent_stars(core.indptr, core.indices)
            star, rest = np.flatnonzero(centres), np.flatnonzero(~centres)
            rays = core[:, star][rest]
            self._before.append(left[star])
            left, core = left[rest], sp.csc_matrix(core[:, rest][rest] + rays @ rays.T)
        self._left, self.core = left, core

    def ordered(self, order: Index | None) -> SymbolicCholesky:
        """Analysis of the matrix with the core in this order, after everything else."""
        last = self._left if order is None else self._left[order]
        return SymbolicCholesky(self.matrix, order=np.concatenate([*self._before, last]))


def flattest(matrix: sp.csc_matrix) -> SymbolicCholesky:
    """Analysis for a flat elimination tree: nested dissection, as far as CHOLMOD has it."""
    for ordering in ('metis', 'nesdis'):
        try:
            return SymbolicCholesky(matrix, ordering)
        except OrderingUnavailableError:
            log.warning(
                'CHOLMOD was built without the ordering %s: factors of large graphs will have '
                'more entries and deeper elimination trees', ordering)
    return SymbolicCholesky(matrix)
