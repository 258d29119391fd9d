"""`compiled`: numba's `njit` for kernels that are kept on disk and quick to load.

Before numba loads a kept kernel it reads its tables of types and implementations: 0.12 s of
processor time in each process. Only compiling needs them, and reads them by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

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
