"""Where trust regions run: the CPU, or a GPU with the CPU to fall back on."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import SolverConfig, SolverError
from ..graph import Graph
from ..linalg.arrays import HOST, Arrays
from .manifold import Manifold
from .result import SolveStatus
from .trust_region import (
    Observer,
    Operator,
    Preconditioner,
    StoppingRule,
    TruncatedCG,
    TrustRegionRun,
    minimise,
)

LEAST_VARIABLES = 2000
"""Poses, landmarks and ranges from where `auto` tries a GPU: a CG step queues 30 to 60 kernels
there, some 100 us whatever the size."""
AGREEMENT = {'retraction': 1e-8, 'operator': 1e-8, 'Hessian product': 1e-8, 'step': 1e-6}
"""Largest difference of what `auto` compares, over the largest entry; differences grow from CG step
to CG step."""
COMPARED_STEPS = 3
"""CG steps; a device makes the first kernel by kernel and repeats the others from a recording."""
PLACING_CG_STEPS = 64
"""CG steps on the CPU in whose time a problem is placed on a device: 60 to 130 on an H100 and its
host, whatever the graph."""
TIME_SHARE = 0.8
"""Most of the CPU's time that a CG step may take on a GPU for `auto` to stay."""
RETRY_GROWTH = 2.0
"""How much larger a graph must be for `auto` to try a GPU again that it left."""

log = logging.getLogger(__name__)


class ComputeBackend:
    """The array backend of one solve; what fails on it is done again on the CPU."""

    def __init__(
        self, arrays: Arrays = HOST, reason: str = '', *, eager: bool = True,
        lost: Callable[[BaseException], None] | None = None,
        left: Callable[[str], None] | None = None,
    ) -> None:
        """`eager`: everything that can runs there, untried. Otherwise a run begins on the CPU, and
        goes there once it has taken as long as placing it there takes: it then lasts at most
        twice as long as on the better of both. A trial has to show that the device computes the
        same as the CPU, and sooner.

        `lost` is told what failed, `left` why a trial spoke against the device.
        """
        self.arrays, self.reason, self.eager = arrays, reason, eager
        self._lost, self._left = lost, left
        self._tried: set[int] = set()
        """Ranks at which a trial went well; kernels are compiled for each."""
        self.ran = 'cpu'
        """Where the solve ran, `gpu` if any part of it ran there."""

    def minimise(
        self, operator: Operator, manifold: Manifold, y: Array, preconditioner: Preconditioner,
        rule: StoppingRule, observer: Observer | None = None, radius: float = math.inf,
    ) -> TrustRegionRun:
        """`trust_region.minimise` from and to arrays of the host."""
        if self.arrays is HOST or not preconditioner.portable:
            return minimise(operator, manifold, y, preconditioner, rule, observer, radius)
        if self.takes(preconditioner):
            return self._there(operator, manifold, y, preconditioner, rule, observer, radius)
        begin = time.perf_counter()
        first = minimise(
            operator, manifold, y, preconditioner,
            replace(rule, cg_budget=PLACING_CG_STEPS), observer, radius)
        rest = replace(
            rule, max_iterations=rule.max_iterations - first.iterations,
            max_accepted=rule.max_accepted - len(first.trace) + 1)
        ended = first.cg_steps < PLACING_CG_STEPS or not rest.max_iterations or (
            not rest.max_accepted)
        if first.status is not SolveStatus.MAX_ITERATIONS or ended:
            return first
        go_on = self._there if self._proves(operator, manifold, first.y, preconditioner) else (
            minimise)
        since = time.perf_counter() - begin
        return first.followed_by(go_on(
            operator, manifold, first.y, preconditioner, rest, observer, first.radius), since)

    def takes(self, preconditioner: Preconditioner) -> bool:
        """Whether a run with this preconditioner begins on a device."""
        arrays = self.arrays
        return arrays is not HOST and preconditioner.portable and (
            self.eager or preconditioner.placed(arrays))

    def _there(
        self, operator: Operator, manifold: Manifold, y: Array, preconditioner: Preconditioner,
        rule: StoppingRule, observer: Observer | None, radius: float,
    ) -> TrustRegionRun:
        """On the device, or on the CPU where the device fails."""
        arrays, begin = self.arrays, time.perf_counter()
        try:
            with arrays.active():
                run = minimise(
                    operator, manifold, arrays.put(y), preconditioner, rule, observer, radius)
                run = replace(run, y=arrays.get(run.y))
        except arrays.errors as error:
            self._fall_back(error, time.perf_counter() - begin)
            return minimise(operator, manifold, y, preconditioner, rule, observer, radius)
        self.ran = arrays.name
        return run

    def _proves(
        self, operator: Operator, manifold: Manifold, y: Array, preconditioner: Preconditioner
    ) -> bool:
        """Whether the device has shown on this problem that it serves at the rank of y."""
        arrays, begin = self.arrays, time.perf_counter()
        if y.shape[1] in self._tried:
            return True
        timed = not self._tried
        try:
            (there, there_s), (here, here_s) = (
                _sample(operator, manifold, y, preconditioner, where, timed)
                for where in (arrays, HOST))
        except arrays.errors as error:
            self._fall_back(error, time.perf_counter() - begin, logging.DEBUG)
            return False
        against = _difference(there, here)
        steps = (f'a CG step takes {1e3 * there_s:.2g} ms on the GPU, '
                 f'{1e3 * here_s:.2g} ms on the CPU')
        if against is None and timed and there_s > TIME_SHARE * here_s:
            against = steps
        if against is None:
            self._tried.add(y.shape[1])
            self.reason += f'; {steps}' if timed else ''
            return True
        log.debug('backend auto: %s; solving on the CPU', against)
        self.arrays, self.reason = HOST, against
        if self._left is not None:
            self._left(against)
        return False

    def _fall_back(
        self, error: BaseException, after_s: float, level: int = logging.WARNING
    ) -> None:
        what = f'{type(error).__name__}: {error}'
        log.log(level, 'the GPU failed after %.2f s (%s); solving on the CPU', after_s, what)
        self.arrays, self.reason = HOST, f'the GPU failed: {what}'
        if self._lost is not None:
            self._lost(error)


def _sample(
    operator: Operator, manifold: Manifold, y: Array, preconditioner: Preconditioner,
    arrays: Arrays, timed: bool,
) -> tuple[dict[str, Array], float]:
    """What one backend makes of a problem, and the seconds of a CG step (0 where not `timed`).

    A point near y, Q and Hessian there, and steps of CG, in which everything else takes part.
    """
    away = np.random.default_rng(0).standard_normal(y.shape)
    with arrays.active():
        point = manifold.retract(arrays.put(y), arrays.put(0.1 * away))
        qy = operator(point, arrays.empty(y.shape))
        gradient, multipliers = manifold.project(point, qy), manifold.multipliers(point, qy)
        product = manifold.hessian(
            point, operator(gradient, arrays.empty(y.shape)), gradient, *multipliers,
            arrays.empty(y.shape))
        cg = TruncatedCG(operator, manifold, preconditioner, arrays, point)
        cg.stand_at(point, multipliers)
        # Far from a minimum the Hessian is indefinite, and CG would end before it turns.
        cg.iteration.blocks[...] = cg.iteration.scalars[...] = 0.0
        step = cg.step(gradient, math.inf, StoppingRule(max_cg_steps=COMPARED_STEPS), 0.0)
        values = {name: arrays.get(x) for name, x in (
            ('retraction', point), ('operator', qy), ('Hessian product', product),
            ('step', step.s))}
        return values, step_seconds(cg, arrays) if timed else 0.0


def step_seconds(cg: TruncatedCG, arrays: Arrays) -> float:
    """Of one CG step that has been made before; as many are queued as a solve queues."""
    taken: list[float] = []
    while len(taken) < 4 and sum(taken) < 0.05:
        begin = time.perf_counter()
        for _ in range(arrays.look_every):
            cg.reach()
            cg.turn()
        cg.iteration.done()
        taken.append(time.perf_counter() - begin)
    return min(taken) / arrays.look_every


def _difference(there: dict[str, Array], here: dict[str, Array]) -> str | None:
    """Where the device is off the CPU."""
    for name, expected in here.items():
        difference, size = np.abs(there[name] - expected).max(), np.abs(expected).max()
        # Not a number is no agreement.
        if not difference <= AGREEMENT[name] * size:
            return f'{name}: the GPU is off the CPU by {difference:.1e} of {size:.1e}'
    return None


class Device:
    """The CUDA device of this process, opened when it is first asked for."""

    def __init__(self) -> None:
        self._arrays: Any = None
        self._refusal: str | None = None
        self._left: tuple[int, str] | None = None

    def open(self) -> Arrays:
        """Its array backend; SolverError says why there is none."""
        if self._refusal is not None:
            raise SolverError(self._refusal)
        if self._arrays is None:
            from ..linalg.gpu.device import open_device
            from ..linalg.gpu.device_arrays import DeviceArrays

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

    def left(self, size: int, reason: str) -> None:
        """A trial on a graph of this size spoke against it."""
        self._left = size, reason

    def objection(self, size: int) -> str | None:
        """Why a graph of this size need not try it: a trial costs factors on both sides."""
        if self._left is None or size >= RETRY_GROWTH * self._left[0]:
            return None
        return f'earlier, with {self._left[0]} variables: {self._left[1]}'


DEVICE = Device()


def choose(config: SolverConfig, graph: Graph, device: Device = DEVICE) -> ComputeBackend:
    """The machine that the configuration asks for, or that suits the graph."""
    asked, size = config.backend, _size(graph)
    if asked == 'cpu':
        return ComputeBackend(reason='as configured')
    refusal = _refusal(config, graph)
    if refusal is None and asked == 'auto':
        refusal = device.objection(size)
    if refusal is None:
        try:
            arrays = device.open()
        except SolverError as error:
            refusal = str(error)
        else:
            where = getattr(arrays, 'description', arrays.name)
            reason = f'as configured, on {where}' if asked == 'gpu' else (
                f'{where}; {size} variables are {LEAST_VARIABLES} or more')
            return ComputeBackend(arrays, reason, eager=asked == 'gpu', lost=device.failed,
                           left=partial(device.left, size))
    log.log(logging.WARNING if asked == 'gpu' else logging.DEBUG,
            'backend %s: %s; solving on the CPU', asked, refusal)
    return ComputeBackend(reason=refusal)


def _size(graph: Graph) -> int:
    return graph.n_poses + graph.n_landmarks + graph.n_bearings


def _refusal(config: SolverConfig, graph: Graph) -> str | None:
    """Why a GPU will not do, whatever the device."""
    if config.formulation != 'schur':
        return f'formulation {config.formulation} runs on the CPU only'
    if graph.free_scale:
        return 'poses of free scale run on the CPU only'
    if len(graph.heights):
        return 'graphs with heights run on the CPU only'
    if config.backend == 'auto' and _size(graph) < LEAST_VARIABLES:
        return (f'{_size(graph)} variables are fewer than {LEAST_VARIABLES}: launches '
                'would take longer than the work')
    return None
