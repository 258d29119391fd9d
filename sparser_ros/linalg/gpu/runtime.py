"""What the device backend needs of a device: memory, kernels, and steps that are recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SOURCE = Path(__file__).parent / 'kernels.cu'
"""One text for all runtimes; D and P are defined when it is compiled."""


class Runtime(Protocol):
    """A CUDA device (`cupy_runtime`) or its emulator."""

    description: str
    array_type: type
    warp: int
    """Threads that add up their sums together."""
    errors: tuple[type[BaseException], ...]

    def active(self) -> AbstractContextManager[Any]:
        """Context of every operation."""
        ...

    def empty(self, shape: tuple[int, ...], kind: type = np.float64) -> Any:
        """Uninitialised memory."""
        ...

    def put(self, host: NDArray[Any]) -> Any:
        """A copy of a host array, C-ordered."""
        ...

    def get(self, x: Any) -> NDArray[Any]:
        """A copy on the host; waits for everything before it."""
        ...

    def threads(self, wanted: int) -> int:
        """Threads of a launch for so many items: at most what fills the device, whole blocks."""
        ...

    def launch(self, d: int, p: int, kernel: str, threads: int, *arguments: Any) -> None:
        """Queue a kernel compiled for blocks of d rows and p columns.

        int arguments are passed as 32-bit integers, float as doubles, arrays by address.
        """
        ...

    def free(self) -> None:
        """Return unused memory to the device."""
        ...

    def repeated(self, step: Callable[[], None]) -> Callable[[], None]:
        """The step, recorded where that saves launches."""
        ...
