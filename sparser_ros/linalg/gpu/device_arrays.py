"""Arrays on a device: everything of a solve's inner loop runs there, nothing is brought back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...array_types import Array
from ..arrays import Arrays, register
from ..cholesky import SymbolicCholesky
from ..ordering import flattest
from .device import Runtime
from .partitioned_inverse import InversePlan, PartitionedInverse

LONG_ROW = 24
"""Mean entries of a row from where a whole warp shares it."""

_ANY = 2
"""Block height of kernels that have nothing to do with blocks."""


class DeviceArrays(Arrays):
    """The array backend `gpu` on a CUDA runtime."""

    name = 'gpu'
    look_every = 8
    """CG steps that are queued before the host waits for their outcome; those after the end of CG
    change nothing."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.errors = runtime.errors
        self.description = runtime.description
        self._kernels = cache(partial(ManifoldKernels, runtime))
        register(runtime.array_type, self)
        self._sums = runtime.threads(1 << 15)
        """Threads of a sum; their number decides the order of summation."""
        self._partial: Any = None

    def active(self) -> AbstractContextManager[Any]:
        return self.runtime.active()

    def put(self, host: Array) -> Any:
        return self.runtime.put(host)

    def get(self, x: Any) -> Array:
        return self.runtime.get(x)

    def empty(self, shape: tuple[int, ...]) -> Any:
        return self.runtime.empty(shape)

    def manifold(self, d: int, p: int) -> ManifoldKernels:
        return self._kernels(d, p)

    def matrix(self, matrix: sp.csr_matrix) -> DeviceMatrix:
        return DeviceMatrix(self.runtime, matrix.indptr, matrix.indices, matrix.data)

    def symbolic(self, matrix: sp.csc_matrix) -> DeviceSymbolic:
        return DeviceSymbolic(self.runtime, matrix)

    def _launch(self, kernel: str, p: int, threads: int, *arguments: Any) -> None:
        self.runtime.launch(_ANY, p, kernel, threads, *arguments)

    def _sum(self, a: Any, b: Any) -> tuple[int, Any]:
        """Partial sums of a * b: how many, and where."""
        count = self._sums // self.runtime.warp
        if self._partial is None:
            self._partial = self.runtime.empty((count,))
        self._launch('dot', 2, self._sums, a.size, a, b, self._partial)
        return count, self._partial

    def dot(self, a: Any, b: Any) -> float:
        count, partial = self._sum(a, b)
        return float(np.sum(self.runtime.get(partial)[:count]))

    def advance(self, state: Any, direction: Any, hp: Any) -> None:
        count, partial = self._sum(direction, hp)
        self._launch('cg_advance', 2, self.runtime.warp, count, partial, state)

    def move(self, state: Any, direction: Any, hp: Any, s: Any, r: Any) -> None:
        size = s.size
        self._launch('cg_move', 2, self.runtime.threads(size), size, state, direction, hp, s, r)

    def turn(self, state: Any, r: Any, z: Any) -> None:
        count, partial = self._sum(r, z)
        self._launch('cg_turn', 2, self.runtime.warp, count, partial, state)

    def redirect(self, state: Any, z: Any, direction: Any) -> None:
        size = z.size
        self._launch('cg_redirect', 2, self.runtime.threads(size), size, state, z, direction)

    def repeated(self, step: Callable[[], None]) -> Callable[[], None]:
        return self.runtime.repeated(step)


@dataclass(frozen=True)
class ManifoldKernels:
    """project, multipliers, hessian, retract: signatures of `linalg/trust_region_kernels.py`."""

    runtime: Runtime
    d: int
    p: int

    def _launch(self, kernel: str, items: int, *arguments: Any) -> None:
        if items:
            self.runtime.launch(self.d, self.p, kernel, self.runtime.threads(items), *arguments)

    def _items(self, y: Any, n: int) -> int:
        return n + int(y.shape[0]) - n * self.d

    def project(self, y: Any, v: Any, n: int, k: int, out: Any) -> None:
        self._launch('project', self._items(y, n), y, v, n, k, y.shape[0], out)

    def multipliers(self, y: Any, g: Any, n: int, k: int, blocks: Any, scalars: Any) -> None:
        self._launch('multipliers', n + k, y, g, n, k, blocks, scalars)

    def hessian(
        self, y: Any, qv: Any, v: Any, n: int, k: int, blocks: Any, scalars: Any, out: Any
    ) -> None:
        self._launch(
            'hessian', self._items(y, n), y, qv, v, n, k, y.shape[0], blocks, scalars, out)

    def retract(self, y: Any, v: Any, n: int, k: int, out: Any) -> None:
        self._launch('retract', self._items(y, n), y, v, n, k, y.shape[0], out)


class DeviceMatrix:
    """A CSR matrix on the device, int32 indices."""

    def __init__(
        self, runtime: Runtime, indptr: NDArray[Any], indices: NDArray[Any], data: Array
    ) -> None:
        self.runtime, self.rows = runtime, len(indptr) - 1
        self.starts = np.asarray(indptr)
        self._parts = (
            runtime.put(self.starts.astype(np.int32)),
            runtime.put(np.asarray(indices).astype(np.int32)), runtime.put(data))

    def product(self, x: Any, out: Any) -> None:
        """out = A x for x (columns, p)."""
        self.rows_of(0, self.rows, x, out, False, 1.0, out)

    def subtract(self, x: Any, out: Any) -> None:
        """out -= A x."""
        self.rows_of(0, self.rows, x, out, True, -1.0, out)

    def rows_of(
        self, first: int, last: int, x: Any, base: Any, keep: bool, sign: float, out: Any
    ) -> None:
        """out = (base if keep) + sign A x in rows first to last."""
        if first == last:
            return
        entries = int(self.starts[last] - self.starts[first])
        long = entries > LONG_ROW * (last - first)
        warp = self.runtime.warp
        lanes = warp if long else (warp + 3) // 4
        threads = self.runtime.threads((last - first) * lanes)
        self.runtime.launch(
            _ANY, int(x.shape[1]), 'csr_long' if long else 'csr_short', threads, first, last,
            *self._parts, x, base, int(keep), sign, out)

    def empty_between(self, first: int, last: int) -> bool:
        """Whether rows first to last have no entries."""
        return bool(self.starts[first] == self.starts[last])


class DeviceSymbolic:
    """Ordering, elimination tree and grouping on the host, made once for a pattern.

    The ordering is by nested dissection, which keeps the tree flat: on SLAM graphs METIS gives a
    tenth of AMD's height at about the same number of entries.
    """

    def __init__(self, runtime: Runtime, matrix: sp.csc_matrix) -> None:
        self.runtime = runtime
        self.symbolic = SymbolicCholesky(matrix, flattest(matrix))
        self.plan: InversePlan | None = None
        self._analysed = self.symbolic.blocks

    def factorize(self, matrix: sp.csc_matrix, shift: Array | None = None) -> DeviceFactor:
        """Factorised and inverted on the host; NotPositiveDefiniteError if it is not PD."""
        factor = self.symbolic.factorize(matrix, shift)
        if self.plan is None or self._analysed is not self.symbolic.blocks:
            self.plan, self._analysed = InversePlan(factor), self.symbolic.blocks
        return DeviceFactor(self.runtime, PartitionedInverse(factor, self.plan))


class DeviceFactor:
    """(L L^T)^-1 as sparse products on the device."""

    def __init__(self, runtime: Runtime, inverse: PartitionedInverse) -> None:
        self.runtime, self.n = runtime, inverse.n
        self._order = runtime.put(inverse.order)
        F, F_T, G, G_T = (
            DeviceMatrix(runtime, *matrix)
            for matrix in (inverse.F, inverse.F_T, inverse.G, inverse.G_T))
        self._there = F, G, inverse.groups
        self._back = F_T, G_T, inverse.groups[::-1]
        self._work: dict[int, tuple[Any, Any]] = {}

    def solve(self, rhs: Any, out: Any) -> Any:
        """out = A^-1 rhs for rhs (n, p) on the device; `out` may be rhs itself."""
        p = int(rhs.shape[1])
        if p not in self._work:
            self._work[p] = self.runtime.empty((self.n, p)), self.runtime.empty((self.n, p))
        a, b = self._work[p]
        if not self.n:
            return out
        threads = self.runtime.threads(self.n)
        self.runtime.launch(_ANY, p, 'gather', threads, self.n, rhs, self._order, a)
        # Each group reads what is final from one array and leaves its own part in it.
        for (across, within, groups), rest, x in ((self._there, a, b), (self._back, b, a)):
            for first, last in groups:
                if not across.empty_between(first, last):
                    across.rows_of(first, last, x, rest, True, -1.0, rest)
                within.rows_of(first, last, rest, rest, False, 1.0, x)
        self.runtime.launch(_ANY, p, 'scatter', threads, self.n, a, self._order, out)
        return out
