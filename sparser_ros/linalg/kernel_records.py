"""Named tuples of arrays that belong together, as compiled kernels take them.

numba passes a named tuple like its members one by one; a call takes as long as one with a flat
list of arguments.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import scipy.sparse as sp
from numpy.typing import NDArray

from ..array_types import Array


class Csr(NamedTuple):
    """A sparse matrix by rows, or by columns where it is symmetric or said to be CSC."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: Array


def csr(matrix: sp.csr_matrix) -> Csr:
    """The arrays of a CSR matrix, shared with it."""
    return Csr(matrix.indptr, matrix.indices, matrix.data)
