"""Memory of processes that solve again and again."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt, from malloc.h."""
_NEVER = 2**31 - 1
_LARGE = 2**28
"""Bytes; what is larger goes back all the same."""


def keep_freed_memory() -> bool:
    """Keep what arrays leave for the next ones, in this process; False where that is unknown.

    glibc's malloc hands large pieces back to the system at once, which has to clear them again
    for the next solve: 2000 to 10 000 page faults, a tenth of the time of a live tick. The
    process stays as large as it was at its largest. This is for processes that do nothing
    but solve, not for a library's import.
    """
    mallopt = getattr(ctypes.CDLL(None), 'mallopt', None)
    if mallopt is None:
        return False
    return all([mallopt(_TRIM_THRESHOLD, _NEVER), mallopt(_MMAP_THRESHOLD, _LARGE)])
