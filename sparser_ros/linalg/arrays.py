"""Array backends: the operations of the trust region on the CPU, and on a GPU.

The trust region is written once, in terms of `Arrays`, of which `gpu/device_arrays.py` has another
kind. `arrays_of(x)` finds the backend of an array by its type.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ..array_types import Array
from . import trust_region_kernels
from .cholesky import SymbolicCholesky
from .sparse_kernels import sparse_kernels


class Matrix(Protocol):
    """A sparse matrix in the memory of its backend."""

    def product(self, x: Any, out: Any) -> None:
        """out = A x for x (columns, p)."""
        ...

    def subtract(self, x: Any, out: Any) -> None:
        """out -= A x."""
        ...


class Factor(Protocol):
    """A factorised symmetric positive definite matrix."""

    def solve(self, rhs: Any, out: Any) -> Any:
        """out = A^-1 rhs for rhs (n, p); `out` may be rhs itself."""
        ...


class Symbolic(Protocol):
    """Ordering and pattern of a factor."""

    def factorize(self, matrix: sp.csc_matrix, shift: Array | None = None) -> Factor:
        """Factor of a matrix of this pattern with `shift` (n,) on its diagonal.

        NotPositiveDefiniteError if it is not positive definite.
        """
        ...


class Arrays:
    """The operations that the solver needs on arrays of one device: here numpy's, on the CPU."""

    name = 'cpu'
    look_every = 1
    """CG steps from one look at the state to the next."""
    errors: tuple[type[BaseException], ...] = ()
    """Failures of this backend that another one may not have."""
    dot: Callable[..., Any] = staticmethod(trust_region_kernels.dot)
    manifold: Callable[..., Any] = staticmethod(trust_region_kernels.kernels)
    """(d, p): the kernels project, multipliers, hessian and retract of
    `linalg/trust_region_kernels.py`."""
    # The four parts of a CG step.
    advance: Callable[..., Any] = staticmethod(trust_region_kernels.advance)
    move: Callable[..., Any] = staticmethod(trust_region_kernels.move)
    turn: Callable[..., Any] = staticmethod(trust_region_kernels.turn)
    redirect: Callable[..., Any] = staticmethod(trust_region_kernels.redirect)

    def active(self) -> AbstractContextManager[Any]:
        """Context in which its operations must run."""
        return nullcontext()

    def put(self, host: Array) -> Any:
        """A copy of a host array (the array itself where it lies on the host)."""
        return np.ascontiguousarray(host)

    def get(self, x: Any) -> Array:
        """The host's copy of an array (the array itself where it lies on the host)."""
        return np.asarray(x)

    def empty(self, shape: tuple[int, ...]) -> Any:
        """An uninitialised array of doubles."""
        return np.empty(shape)

    def matrix(self, matrix: sp.csr_matrix) -> Matrix:
        """The matrix in the memory of this backend."""
        return HostMatrix(matrix)

    def symbolic(self, matrix: sp.csc_matrix) -> Symbolic:
        """A symbolic analysis whose factors solve on arrays of this backend."""
        return SymbolicCholesky(matrix)

    def repeated(self, step: Callable[[], None]) -> Callable[[], None]:
        """The same step, prepared for many calls on the same arrays (recorded, on a GPU)."""
        return step


class HostMatrix:
    """A CSR matrix for the compiled products."""

    def __init__(self, matrix: sp.csr_matrix) -> None:
        self._parts = matrix.indptr, matrix.indices, matrix.data

    def product(self, x: Array, out: Array) -> None:
        sparse_kernels(x.shape[1]).csr_product(*self._parts, x, False, out)

    def subtract(self, x: Array, out: Array) -> None:
        sparse_kernels(x.shape[1]).csr_product(*self._parts, x, True, out)


HOST = Arrays()
_BY_TYPE: dict[type, Arrays] = {}


def arrays_of(x: Any) -> Arrays:
    """The backend of an array."""
    return _BY_TYPE.get(type(x), HOST)


def register(kind: type, arrays: Arrays) -> None:
    """Arrays of this type belong to that backend."""
    _BY_TYPE[kind] = arrays
