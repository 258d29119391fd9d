"""BLAS on one thread: thread teams wake up for 10 us dot products and cost milliseconds."""

from __future__ import annotations

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits


def single_threaded_blas() -> AbstractContextManager[object]:
    """Context in which BLAS uses the calling thread only (a loaded machine: 10x faster solves)."""
    return threadpool_limits(limits=1, user_api='blas')
