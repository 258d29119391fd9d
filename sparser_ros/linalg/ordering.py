"""Which order of elimination suits a matrix: AMD, or nested dissection."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .cholesky import SymbolicCholesky, cholmod
from .symbolic import elimination_tree, permuted_pattern

log = logging.getLogger(__name__)

_MANY, _FILLED = 50_000, 15
"""Rows, and entries of the factor per row with AMD, from where METIS pays for its analysis."""


def sparsest(matrix: sp.csc_matrix) -> SymbolicCholesky:
    """Analysis of a symmetric matrix for few entries in its factor.

    AMD takes a sixth of the time of METIS and is the better one on chains with few closures; on
    large graphs that close everywhere METIS wins more than it costs (a lattice of 10^5 poses 2.65
    -> 2.23 s of the whole solve, 10^6 poses 83 -> 50 s).
    """
    symbolic = SymbolicCholesky(matrix)
    n, order = symbolic.n, symbolic.order
    if n < _MANY or order is None or entries(matrix, order) <= _FILLED * n:
        return symbolic
    return flattest(matrix)


def flattest(matrix: sp.csc_matrix) -> SymbolicCholesky:
    """Analysis for a flat elimination tree: nested dissection, as far as CHOLMOD has it."""
    for ordering in ('metis', 'nesdis'):
        try:
            return SymbolicCholesky(matrix, ordering)
        except cholmod.CholmodError:
            log.warning(
                'CHOLMOD was built without the ordering %s: factors of large graphs will have '
                'more entries and deeper elimination trees', ordering)
    return SymbolicCholesky(matrix)


def entries(matrix: sp.csc_matrix, order: NDArray[Any]) -> int:
    """Entries of the Cholesky factor of a symmetric matrix in an order of elimination (n,)."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    _, counts = elimination_tree(*permuted_pattern(matrix.indptr, matrix.indices, order, rank))
    return int(np.sum(counts))
