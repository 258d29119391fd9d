"""BLAS on one thread: thread teams wake up for 10 us dot products and cost milliseconds."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def single_threaded_blas() -> AbstractContextManager[object]:
    """Context in which BLAS uses the calling thread only (a loaded machine: 10x faster solves)."""
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

    from .sparse import cholesky

    assert scipy.linalg and cholesky
    return ThreadpoolController()
