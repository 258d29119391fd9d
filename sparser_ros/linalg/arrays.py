"""Array backends: the operations of the trust region on the CPU and on a GPU.

The trust region is written once, in terms of `Arrays`. `arrays_of(x)` finds the backend of an
array by its type.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ..array_types import Array
from . import cg_kernels
from .cholesky import SymbolicCholesky
from .manifold_kernels import dot, kernels
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

    def factorize(self, matrix: sp.csc_matrix) -> Factor:
        """Factor of a matrix with this pattern; NotPositiveDefiniteError if it is not PD."""
        ...


class Arrays(Protocol):
    """The operations that the solver needs on arrays of one device."""

    name: str
    """`cpu` or `gpu`."""
    look_every: int
    """CG steps from one look at the state to the next."""
    errors: tuple[type[BaseException], ...]
    """Failures of this backend that another one may not have."""

    def active(self) -> AbstractContextManager[Any]:
        """Context in which its operations must run."""
        ...

    def put(self, host: Array) -> Any:
        """A copy of a host array (the array itself where it lies on the host)."""
        ...

    def get(self, x: Any) -> Array:
        """The host's copy of an array (the array itself where it lies on the host)."""
        ...

    def empty(self, shape: tuple[int, ...]) -> Any:
        """An uninitialised array of doubles."""
        ...

    def manifold(self, d: int, p: int) -> Any:
        """The kernels project, multipliers, hessian and retract of
        `linalg/manifold_kernels.py`."""
        ...

    def matrix(self, matrix: sp.csr_matrix) -> Matrix:
        """The matrix in the memory of this backend."""
        ...

    def symbolic(self, matrix: sp.csc_matrix) -> Symbolic:
        """A symbolic analysis whose factors solve on arrays of this backend."""
        ...

    def dot(self, a: Any, b: Any) -> float:
        """Sum of a * b."""
        ...

    def advance(self, state: Any, direction: Any, hp: Any) -> None:
        """The four parts of a CG step, see `linalg/cg_kernels.py`."""
        ...

    def move(self, state: Any, direction: Any, hp: Any, s: Any, r: Any) -> None: ...

    def turn(self, state: Any, r: Any, z: Any) -> None: ...

    def redirect(self, state: Any, z: Any, direction: Any) -> None: ...

    def repeated(self, step: Callable[[], None]) -> Callable[[], None]:
        """The same step, prepared for many calls on the same arrays (recorded, on a GPU)."""
        ...


class HostArrays:
    """numpy arrays and compiled loops on the CPU."""

    name = 'cpu'
    look_every = 1
    errors: tuple[type[BaseException], ...] = ()
    advance = staticmethod(cg_kernels.advance)
    move = staticmethod(cg_kernels.move)
    turn = staticmethod(cg_kernels.turn)
    redirect = staticmethod(cg_kernels.redirect)
    dot = staticmethod(dot)
    manifold = staticmethod(kernels)
    symbolic = staticmethod(SymbolicCholesky)

    def active(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def put(self, host: Array) -> Array:
        return np.ascontiguousarray(host)

    def get(self, x: Array) -> Array:
        return x

    def empty(self, shape: tuple[int, ...]) -> Array:
        return np.empty(shape)

    def matrix(self, matrix: sp.csr_matrix) -> HostMatrix:
        return HostMatrix(matrix)

    def repeated(self, step: Callable[[], None]) -> Callable[[], None]:
        return step


class HostMatrix:
    """A CSR matrix for the compiled products."""

    def __init__(self, matrix: sp.csr_matrix) -> None:
        self._parts = matrix.indptr, matrix.indices, matrix.data

    def product(self, x: Array, out: Array) -> None:
        sparse_kernels(x.shape[1]).csr_product(*self._parts, x, out)

    def subtract(self, x: Array, out: Array) -> None:
        sparse_kernels(x.shape[1]).csr_subtract(*self._parts, x, out)


HOST = HostArrays()
_BY_TYPE: dict[type, Arrays] = {}


def arrays_of(x: Any) -> Arrays:
    """The backend of an array."""
    return _BY_TYPE.get(type(x), HOST)


def register(kind: type, arrays: Arrays) -> None:
    """Arrays of this type belong to that backend."""
    _BY_TYPE[kind] = arrays
