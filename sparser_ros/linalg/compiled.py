"""`compiled`: numba's `njit` for kernels that are kept on disk and quick to load.

Before numba loads a kept kernel it reads its tables of types and implementations: 0.12 s of
processor time in each process. Only compiling needs them, and reads them by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import scipy.sparse as sp
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numpy.typing import NDArray

from ..array_types import Array

REORDERED = {'reassoc', 'contract', 'nsz', 'arcp'}
"""`fastmath` of kernels whose sums may be taken in any order; NaN and infinity stay as they are."""
_KNOWN = all(hasattr(FunctionCache, name) for name in (
    'load_overload', '_load_overload', '_guard_against_spurious_io_errors'))
"""Whether this version of numba loads kernels as below; with another one it takes longer."""


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator like `numba.njit(cache=True, nogil=True, **options)`."""

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(cache=True, nogil=True, **options)(function)
        # NUMBA_DISABLE_JIT=1 returns the function itself.
        if kernel is not function and _KNOWN:
            kernel._cache = _KernelCache(function)
        return kernel

    return decorate


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's own, files and keys included, but for the tables."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kept kernel of a signature, or None."""
        # Kernels that make arrays call numba's allocator; the tables would have named it to LLVM.
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


fast = compiled(fastmath=REORDERED, error_model='numpy')
"""For kernels of sums and products."""
inlined = compiled(fastmath=REORDERED, error_model='numpy', forceinline=True)
"""For functions that these call. Sums may be reordered, so the last bits depend on how a function
was optimised. Each kernel carries a copy of what it calls, and any of the copies may run: another
one in a process that compiles kernels than in one that loads them from numba's cache."""


class Csr(NamedTuple):
    """A sparse matrix by rows, or by columns where it is symmetric or said to be CSC.

    numba passes a named tuple like its members one by one; a call takes as long as one with a flat
    list of arguments.
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: Array


def csr(matrix: sp.csr_matrix) -> Csr:
    """The arrays of a CSR matrix, shared with it."""
    return Csr(matrix.indptr, matrix.indices, matrix.data)
