"""A runtime without a device: the same kernels, built by a C++ compiler, thread after thread.

Its arrays refuse to meet numpy arrays, as those of a device do.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparser_ros.config import SolverError
from sparser_ros.linalg.gpu.device import SOURCE

_THREADS = 3
"""Of a launch: enough that their shares can be mixed up."""


class EmulatedArray:
    """Memory of the emulated device; only what the solver asks of device arrays."""

    __array_ufunc__ = None

    def __init__(self, memory: NDArray[Any]) -> None:
        self.memory = memory

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise TypeError('implicit conversion of a device array to a host array')

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape

    @property
    def size(self) -> int:
        return self.memory.size

    def __getitem__(self, at: slice) -> EmulatedArray:
        return EmulatedArray(self.memory[at])

    def __setitem__(self, at: Any, value: EmulatedArray | float) -> None:
        self.memory[at] = _memory(value)

    def __add__(self, other: EmulatedArray | float) -> EmulatedArray:
        return EmulatedArray(self.memory + _memory(other))

    def __sub__(self, other: EmulatedArray | float) -> EmulatedArray:
        return EmulatedArray(self.memory - _memory(other))

    def __neg__(self) -> EmulatedArray:
        return EmulatedArray(-self.memory)


def _memory(value: EmulatedArray | float) -> NDArray[Any] | float:
    if isinstance(value, EmulatedArray):
        return value.memory
    if isinstance(value, (int, float)):
        return value
    raise TypeError(f'a device array meets {type(value).__name__}')


class Emulator:
    """Runs kernels on the CPU; builds them on first use, into a temporary folder."""

    description = 'emulator'
    array_type = EmulatedArray
    warp = 1
    errors: tuple[type[BaseException], ...] = (MemoryError,)

    def __init__(self) -> None:
        found = filter(None, map(shutil.which, ('c++', 'g++', 'clang++')))
        self._compiler = next(found, '')
        if not self._compiler:
            raise SolverError('the emulator of the GPU kernels needs a C++ compiler: install g++')
        self._folder = tempfile.TemporaryDirectory(prefix='sparser_kernels_')
        self._built: dict[tuple[int, int], ctypes.CDLL] = {}
        self.launches = 0

    def active(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def empty(self, shape: tuple[int, ...], kind: type = np.float64) -> EmulatedArray:
        memory: NDArray[Any] = np.empty(shape, dtype=kind)
        # What was never written must not look like zeros by luck.
        memory.fill(np.nan if kind is np.float64 else -1)
        return EmulatedArray(memory)

    def put(self, host: NDArray[Any]) -> EmulatedArray:
        return EmulatedArray(np.array(host, order='C', copy=True))

    def get(self, x: EmulatedArray) -> NDArray[Any]:
        return x.memory.copy()

    def threads(self, wanted: int) -> int:
        return max(1, min(wanted, _THREADS))

    def launch(self, d: int, p: int, kernel: str, threads: int, *arguments: Any) -> None:
        library = self._built.get((d, p)) or self._build(d, p)
        values = [_argument(value) for value in arguments]
        function = library[kernel]
        self.launches += 1
        for thread in range(threads):
            library.enter(thread, threads)
            function(*values)

    def free(self) -> None:
        """Memory is the host's."""

    def repeated(self, step: Callable[[], None]) -> Callable[[], None]:
        return step

    def sources(self) -> list[str]:
        """What is compiled, and how, on the command line of the compiler."""
        return ['-O2', '-DSPARSER_HOST', '-x', 'c++', str(SOURCE)]

    def _build(self, d: int, p: int) -> ctypes.CDLL:
        target = Path(self._folder.name) / f'kernels_{d}_{p}.so'
        made = subprocess.run(
            [self._compiler, '-std=c++17', '-shared', '-fPIC', f'-DD={d}', f'-DP={p}',
             '-o', str(target), *self.sources()],
            capture_output=True, text=True, check=False)
        if made.returncode:
            raise SolverError(f'{SOURCE.name} does not compile:\n{made.stderr}')
        self._built[d, p] = ctypes.CDLL(str(target))
        return self._built[d, p]


def _argument(value: Any) -> Any:
    if isinstance(value, EmulatedArray):
        if not value.memory.flags.c_contiguous:
            raise ValueError('a kernel takes contiguous arrays')
        return ctypes.c_void_p(value.memory.ctypes.data)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_int(int(value))
