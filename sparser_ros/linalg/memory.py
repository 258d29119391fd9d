"""Memory of processes that solve again and again."""

from __future__ import annotations

import ctypes

from .linalg_numbers import linalg_numbers

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt, from malloc.h."""
_TRIM_NEVER = 2**31 - 1
"""Bytes at the top of the heap above which malloc would trim it; the largest value."""


def keep_freed_memory() -> bool:
    """Keep freed memory of this process for its next arrays; False where malloc has no such option.

    glibc's malloc returns large pieces to the system at once, which has to clear them again for
    the next solve: 2000 to 10 000 page faults, a tenth of the time of a live tick. The process
    then stays as large as it once was. This is meant for processes that do nothing but solve.
    """
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    if mallopt is None:
        return False
    options = {_TRIM_THRESHOLD: _TRIM_NEVER, _MMAP_THRESHOLD: linalg_numbers().returned_from_bytes}
    taken = [mallopt(option, value) for option, value in options.items()]
    return all(taken)
