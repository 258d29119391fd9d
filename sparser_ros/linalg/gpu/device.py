"""A CUDA device: memory, kernels, and steps that are recorded.

Importing cupy and touching the device happens in `open_device`, in the process that solves and
nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import SolverError

THREADS_PER_BLOCK = 256
"""A multiple of the warp, few enough for every device."""
BLOCKS_PER_PROCESSOR = 8
"""Of a launch at most, for each multiprocessor; loops stride over the rest."""

log = logging.getLogger(__name__)
SOURCE = Path(__file__).parent / 'kernels.cu'
"""D and P are defined when it is compiled."""


class Runtime:
    """Memory and kernels of the current CUDA device, on a stream of its own, through cupy.

    test/support/emulator.py has the same without a device.
    """

    warp = 32
    """Threads that add up their sums together."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        runtime = cupy.cuda.runtime
        properties = runtime.getDeviceProperties(runtime.getDevice())
        self.description = properties['name'].decode()
        self.memory_bytes = int(properties['totalGlobalMem'])
        self._block = THREADS_PER_BLOCK
        self._most = BLOCKS_PER_PROCESSOR * int(properties['multiProcessorCount'])
        self.array_type: type = cupy.ndarray
        self.errors: tuple[type[BaseException], ...] = (
            cupy.cuda.memory.OutOfMemoryError, runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError, cupy.cuda.compiler.CompileException)
        # Nothing can be recorded on the default stream.
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._kernel = cache(self._load)
        self._module = cache(self._compile)

    def active(self) -> AbstractContextManager[Any]:
        """Context of every operation."""
        return self.stream

    def empty(self, shape: tuple[int, ...], kind: type = np.float64) -> Any:
        """Uninitialised memory."""
        return self._cupy.empty(shape, dtype=kind)

    def put(self, host: NDArray[Any]) -> Any:
        """A copy of a host array, C-ordered."""
        return self._cupy.asarray(np.ascontiguousarray(host))

    def get(self, x: Any) -> NDArray[Any]:
        """A copy on the host; waits for everything before it."""
        return self._cupy.asnumpy(x)

    def threads(self, wanted: int) -> int:
        """Threads of a launch for so many items: at most what fills the device, whole blocks."""
        return self._block * max(1, min(-(-wanted // self._block), self._most))

    def launch(self, d: int, p: int, kernel: str, threads: int, *arguments: Any) -> None:
        """Queue a kernel compiled for blocks of d rows and p columns.

        int arguments are passed as 32-bit integers, float as doubles, arrays by address.
        """
        block = min(threads, self._block)
        self._kernel(d, p, kernel)((threads // block,), (block,), tuple(map(_argument, arguments)))

    def _load(self, d: int, p: int, kernel: str) -> Any:
        return self._module(d, p).get_function(kernel)

    def _compile(self, d: int, p: int) -> Any:
        return self._cupy.RawModule(
            code=SOURCE.read_text(), options=('-std=c++17', f'-DD={d}', f'-DP={p}'))

    def free(self) -> None:
        """Return unused memory to the device."""
        self._cupy.get_default_memory_pool().free_all_blocks()

    def repeated(self, step: Callable[[], None]) -> Callable[[], None]:
        """The step, recorded where that saves launches."""
        return _Recorded(step, self.stream, self.errors)


def _argument(value: Any) -> Any:
    """Scalars with the width that the kernels declare; Python's own are passed as 64 bits."""
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, (int, np.integer)):
        return np.int32(value)
    return value


class _Recorded:
    """A step that is made once, then recorded as a CUDA graph and launched as one."""

    def __init__(
        self, step: Callable[[], None], stream: Any, errors: tuple[type[BaseException], ...]
    ) -> None:
        self._step, self._stream, self._errors = step, stream, errors
        self._graph: Any = None
        self._made = 0

    def __call__(self) -> None:
        if self._made == 1:
            self._record()
        self._made += 1
        if self._graph is not None:
            self._graph.launch(self._stream)
        else:
            # The first time kernels are compiled and workspaces allocated.
            self._step()

    def _record(self) -> None:
        try:
            self._stream.begin_capture()
            try:
                self._step()
            finally:
                self._graph = self._stream.end_capture()
        except self._errors as error:
            self._graph = None
            log.warning('a CG step cannot be recorded as a CUDA graph, its kernels are launched '
                        'one by one: %s', error)


def open_device() -> Runtime:
    """The current CUDA device; SolverError says why there is none that can be used."""
    try:
        import cupy
    except ImportError as error:
        raise SolverError(
            'cupy is not installed: pip install cupy-cuda12x or cupy-cuda13x, by the version of '
            f'CUDA that the driver supports ({error})') from error
    try:
        runtime = Runtime(cupy)
        with runtime.active():
            _try(runtime)
    except Exception as error:
        # Drivers, libraries and compilers that do not fit raise errors of many kinds.
        raise SolverError(
            f'no CUDA device can be used: {type(error).__name__}: {error}') from error
    log.info('CUDA device %s, %.1f GiB', runtime.description, runtime.memory_bytes / 2**30)
    return runtime


def _try(runtime: Runtime) -> None:
    """Compile and launch: where a device that is there but unusable says so."""
    source = np.arange(8.0).reshape(4, 2)
    order, out = np.arange(3, -1, -1, dtype=np.int32), runtime.empty((4, 2))
    runtime.launch(2, 2, 'gather', runtime.threads(4), 4, runtime.put(source),
                   runtime.put(order), out)
    if not np.array_equal(runtime.get(out), source[order]):
        raise SolverError('a kernel returned something else than it was asked for')
