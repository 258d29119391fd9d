"""What a process that solves asks of its libraries: BLAS on one thread, freed memory kept."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController

RETURNED_FROM_BYTES = 2**28
"""Size of a freed piece of memory that is returned to the system."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt, from malloc.h."""
_TRIM_NEVER = 2**31 - 1
"""Bytes at the top of the heap above which malloc would trim it; the largest value."""


def single_threaded_blas() -> AbstractContextManager[object]:
    """Context in which BLAS uses the calling thread only.

    Thread teams wake up for dot products of 10 us and cost milliseconds (on a loaded machine
    solves take ten times as long).
    """
    return _controller().limit(limits=1, user_api='blas')


def keep_blas_on_one_thread() -> None:
    """Limit this process for good: idle threads of BLAS spin, and take a core from others."""
    # The limit of a context that is never left.
    _controller().limit(limits=1, user_api='blas')


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries of a process takes milliseconds, so it is done once."""
    # Each comes with a BLAS of its own, which is found only where it is loaded already.
    import scipy.linalg

    from . import ordering

    assert scipy.linalg and ordering
    return ThreadpoolController()


def keep_freed_memory() -> bool:
    """Keep freed memory of this process for its next arrays; False where malloc has no such option.

    glibc's malloc returns large pieces to the system at once, which has to clear them again for
    the next solve: 2000 to 10 000 page faults, a tenth of the time of a live tick. The process
    then stays as large as it once was. This is meant for processes that do nothing but solve.
    """
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    if mallopt is None:
        return False
    options = {_TRIM_THRESHOLD: _TRIM_NEVER, _MMAP_THRESHOLD: RETURNED_FROM_BYTES}
    taken = [mallopt(option, value) for option, value in options.items()]
    return all(taken)
