"""Where trust regions run: the CPU, or a GPU with the CPU to fall back on."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import SolverConfig, SolverError
from ...graph import Graph
from ...linalg.arrays import HOST, Arrays
from ..manifold.manifold import Manifold
from .trust_region import Operator, Preconditioner, StoppingRule, TrustRegionRun, minimise

Array = NDArray[np.float64]
log = logging.getLogger(__name__)

WORTH = 2000
"""Poses and landmarks from where `auto` takes a GPU. A CG step queues 30 to 60 kernels there, some
100 us whatever the size; on the CPU it takes as long at 100 to 700 poses, and the partitioned
inverse is yet to be made. An estimate, not a measurement."""


class ComputeBackend:
    """The array backend of one solve; what fails on it is done again on the CPU."""

    def __init__(
        self, arrays: Arrays = HOST, reason: str = '', *, eager: bool = True,
        lost: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`eager`: everything that can runs there, not only what takes many CG steps."""
        self.arrays, self.reason, self.eager = arrays, reason, eager
        self._lost = lost
        self.ran = 'cpu'
        """Where the solve ran, `gpu` if any part of it ran there."""

    def minimise(
        self, operator: Operator, manifold: Manifold, y: Array, preconditioner: Preconditioner,
        rule: StoppingRule, observer: Callable[[int, float, Array], None] | None = None,
        radius: float = math.inf, *, long: bool = False,
    ) -> TrustRegionRun:
        """`trust_region.minimise` from and to arrays of the host.

        `long` tells that hundreds of CG steps are to be expected, which pays for placing the
        problem on a device.
        """
        arrays = self.arrays
        if self.takes(preconditioner, long=long):
            begin = time.perf_counter()
            try:
                with arrays.active():
                    run = minimise(
                        operator, manifold, arrays.put(y), preconditioner, rule, observer, radius)
                    run.y = arrays.get(run.y)
            except arrays.errors as error:
                self._fall_back(error, time.perf_counter() - begin)
            else:
                self.ran = arrays.name
                return run
        return minimise(operator, manifold, y, preconditioner, rule, observer, radius)

    def takes(self, preconditioner: Preconditioner, *, long: bool = False) -> bool:
        """Whether a run with this preconditioner goes to a device."""
        arrays = self.arrays
        return arrays is not HOST and preconditioner.portable and (
            long or self.eager or preconditioner.placed(arrays))

    def _fall_back(self, error: BaseException, after_s: float) -> None:
        what = f'{type(error).__name__}: {error}'
        log.warning('the GPU failed after %.2f s (%s); solving on the CPU', after_s, what)
        self.arrays, self.reason = HOST, f'the GPU failed: {what}'
        if self._lost is not None:
            self._lost(error)


class Device:
    """The CUDA device of this process, opened when it is first asked for."""

    def __init__(self) -> None:
        self._arrays: Any = None
        self._refusal: str | None = None

    def open(self) -> Arrays:
        """Its array backend; SolverError says why there is none."""
        if self._refusal is not None:
            raise SolverError(self._refusal)
        if self._arrays is None:
            from ...linalg.gpu.cupy_runtime import open_device
            from ...linalg.gpu.device_arrays import DeviceArrays

            try:
                self._arrays = DeviceArrays(open_device())
            except SolverError as error:
                self._refusal = str(error)
                raise
        return self._arrays

    def failed(self, error: BaseException) -> None:
        """Whether to try again: memory may suffice next time, a broken context stays broken."""
        if 'memory' in f'{type(error).__name__} {error}'.lower():
            self._arrays.runtime.free()
            return
        self._arrays, self._refusal = None, f'the GPU failed earlier: {error}'


DEVICE = Device()


def choose(config: SolverConfig, graph: Graph, device: Device = DEVICE) -> ComputeBackend:
    """The machine that the configuration asks for, or that suits the graph."""
    asked = config.backend
    if asked == 'cpu':
        return ComputeBackend(reason='as configured')
    refusal = _refusal(config, graph)
    if refusal is None:
        try:
            arrays = device.open()
        except SolverError as error:
            refusal = str(error)
        else:
            where = getattr(arrays, 'description', arrays.name)
            reason = f'as configured, on {where}' if asked == 'gpu' else (
                f'{where}; {_size(graph)} variables are {WORTH} or more')
            return ComputeBackend(arrays, reason, eager=asked == 'gpu', lost=device.failed)
    if asked == 'gpu':
        log.warning('backend gpu: %s; solving on the CPU', refusal)
    return ComputeBackend(reason=refusal)


def _size(graph: Graph) -> int:
    return graph.n_poses + graph.n_landmarks


def _refusal(config: SolverConfig, graph: Graph) -> str | None:
    """Why a GPU will not do, whatever the device."""
    if config.formulation != 'schur':
        return f'formulation {config.formulation} runs on the CPU only'
    if graph.free_scale:
        return 'poses of free scale run on the CPU only'
    if config.backend == 'auto' and _size(graph) < WORTH:
        return (f'{_size(graph)} variables are fewer than {WORTH}: launches would take longer '
                'than the work')
    return None
