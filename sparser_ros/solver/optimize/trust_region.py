"""Riemannian trust region with preconditioned truncated CG on tr(Y^T Q_s Y) (paper, section VI).

Notation: the factor 2 of gradient and Hessian is dropped on both sides of the Newton equation, so
gradient = P_Y(Q Y), Hessian[V] = P_Y(Q V - Lambda V), and a step s changes the cost by
2 (<gradient, s> + <s, Hessian s> / 2) in the model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...linalg.arrays import Arrays, arrays_of
from ...linalg.dense import cg_kernels
from ...linalg.dense.cg_kernels import Outcome, State
from ..manifold.manifold import Manifold
from ..result import SolveStatus

Array = NDArray[np.float64]
Operator = Callable[[Array, Array], Array]


class Preconditioner(Protocol):
    """An approximate inverse of the Hessian, symmetric positive definite on tangent vectors."""

    portable: bool
    """Whether it works on device arrays."""

    def placed(self, arrays: Arrays) -> bool:
        """Whether it is ready for this backend."""
        ...

    def apply(self, v: Array, out: Array) -> Array:
        """out = P^-1 v before projection."""
        ...

    def refresh(self, y: Array, gradient: Array, cg_steps: int) -> None:
        """Called once per accepted point with the ambient gradient Q Y and the last CG count."""
        ...


@dataclass(frozen=True)
class StoppingRule:
    """When a trust-region run ends; costs without the factor 1/2."""

    max_iterations: int = 1000
    max_accepted: int = 1_000_000
    """Most accepted steps; rejected ones only shrink the region."""
    max_cg_steps: int = 2000
    gradient_tolerance: float = 1e-12
    """On |gradient|^2 in the norm of P^-1, an estimate of the cost to gain, over the cost."""
    cost_tolerance: float = 1e-6
    cost_floor: float = 0.0
    """Costs below it are rounding errors; tolerances are shares of the larger of it and the
    cost."""
    target_cost: float = -math.inf
    deadline: float = math.inf
    """time.perf_counter() value."""


@dataclass
class TrustRegionRun:
    """Outcome of one run."""

    y: Array
    cost: float
    status: SolveStatus
    iterations: int = 0
    cg_steps: int = 0
    trace: list[tuple[float, float]] = field(default_factory=list)
    radius: float = math.inf
    """At the end, in the norm of the preconditioner."""


_ACCEPT = 0.05
_SHRINK = 0.25
_FORCING = 0.1
_SURPLUS = 0.1
_SMALL_STEPS = 3
_CLOCK_PERIOD = 16
"""CG steps from one look at the clock to the next."""


def minimise(
    operator: Operator,
    manifold: Manifold,
    y: Array,
    preconditioner: Preconditioner,
    rule: StoppingRule,
    observer: Callable[[int, float, Array], None] | None = None,
    radius: float = math.inf,
) -> TrustRegionRun:
    """Minimise tr(Y^T Q Y) over the manifold from y (rows, p); the best iterate is returned.

    Everything happens where y lies (`linalg/arrays.py`), which the operator and the
    preconditioner must be able to work on.
    """
    start = time.perf_counter()
    arrays = arrays_of(y)
    dot = arrays.dot
    qy = operator(y, arrays.empty(y.shape))
    cost = dot(y, qy)
    gradient = manifold.project(y, qy)
    run = TrustRegionRun(y, cost, SolveStatus.MAX_ITERATIONS, trace=[(0.0, cost)])
    preconditioner.refresh(y, qy, 0)
    cg = TruncatedCG(operator, manifold, preconditioner, arrays, y)
    cg.stand_at(y, manifold.multipliers(y, qy))
    small_steps = 0
    while run.iterations < rule.max_iterations:
        if cost <= rule.target_cost:
            run.status = SolveStatus.TARGET_REACHED
            break
        if time.perf_counter() > rule.deadline:
            run.status = SolveStatus.TIME_LIMIT
            break

        enough = rule.gradient_tolerance * max(1e-12 + abs(cost), rule.cost_floor)
        step = cg.step(gradient, radius, rule, enough)
        run.iterations += 1
        run.cg_steps += step.cg_steps
        if step.decrement <= enough:
            run.status = SolveStatus.CONVERGED
            break
        candidate = manifold.retract(y, step.s)
        q_candidate = operator(candidate, arrays.empty(y.shape))
        # y and the candidate differ little: this form of the difference keeps the digits that
        # the difference of two large quadratic forms would cancel.
        change = dot(candidate - y, qy + q_candidate)
        predicted = 2 * step.model
        noise = 1e-14 * abs(cost)
        ratio = (change - noise) / (predicted - noise)
        if math.isinf(radius):
            radius = max(step.norm, 1e-300) * 2
        if ratio < _SHRINK or not math.isfinite(ratio):
            radius = _SHRINK * min(radius, step.norm)
        elif ratio > 0.75 and step.at_boundary:
            radius = 2.5 * radius
        accepted = ratio > _ACCEPT and change < 0
        if accepted:
            y, qy = candidate, q_candidate
            gained = -change / max(abs(cost), rule.cost_floor, 1e-300)
            cost = dot(y, qy)
            gradient = manifold.project(y, qy)
            cg.stand_at(y, manifold.multipliers(y, qy))
            if len(run.trace) < rule.max_accepted:
                preconditioner.refresh(y, qy, step.cg_steps)
            small_steps = small_steps + 1 if gained < rule.cost_tolerance else 0
            run.y, run.cost = y, cost
            run.trace.append((time.perf_counter() - start, cost))
            if observer is not None:
                observer(run.iterations, cost, y)
            scale = max(abs(cost), rule.cost_floor)
            interior = not step.at_boundary and step.decrement <= 1e-3 * scale
            if small_steps >= _SMALL_STEPS or (small_steps and interior):
                run.status = SolveStatus.CONVERGED
                break
            if len(run.trace) > rule.max_accepted:
                break
        elif abs(change) <= 1e-13 * abs(cost) and abs(predicted) <= 1e-13 * abs(cost):
            run.status = SolveStatus.CONVERGED
            break
        elif radius < 1e-14 * (1 + step.norm):
            run.status = SolveStatus.STALLED
            break
    run.radius = radius
    return run


@dataclass
class _Step:
    s: Array
    norm: float
    model: float
    decrement: float
    cg_steps: int
    at_boundary: bool


class _Iteration:
    """One iteration of CG in two halves, on arrays that stay the same from point to point."""

    def __init__(
        self, operator: Operator, manifold: Manifold, preconditioner: Preconditioner,
        arrays: Arrays, y: Array,
    ) -> None:
        self.operator, self.manifold = operator, manifold
        self.preconditioner, self.arrays = preconditioner, arrays
        self.y, self.qv, self.hp, self.r, self.z, self.direction, self.s = (
            arrays.empty(y.shape) for _ in range(7))
        self.blocks = arrays.empty((manifold.n, manifold.d, manifold.d))
        self.scalars = arrays.empty((manifold.k,))
        self.state = arrays.empty((cg_kernels.SIZE,))

    def reach(self) -> None:
        """Along the direction."""
        self.operator(self.direction, self.qv)
        self.manifold.hessian(
            self.y, self.qv, self.direction, self.blocks, self.scalars, self.hp)
        self.arrays.advance(self.state, self.direction, self.hp)
        self.arrays.move(self.state, self.direction, self.hp, self.s, self.r)

    def turn(self) -> None:
        """To the next direction."""
        self.precondition()
        self.arrays.turn(self.state, self.r, self.z)
        self.arrays.redirect(self.state, self.z, self.direction)

    def precondition(self) -> None:
        """The residual r, preconditioned, into z."""
        self.preconditioner.apply(self.r, self.z)
        self.manifold.project(self.y, self.z, self.z)

    def done(self) -> bool:
        """Whether the last half found an end."""
        return bool(self.arrays.get(self.state)[State.DONE])


class TruncatedCG:
    """Steihaug-Toint CG in the norm of the preconditioner.

    All arrays stay the same from step to step and from point to point: steps allocate nothing,
    and a device can record one and repeat it.
    """

    def __init__(
        self, operator: Operator, manifold: Manifold, preconditioner: Preconditioner,
        arrays: Arrays, y: Array,
    ) -> None:
        # What repeats the halves must not belong to what it repeats: in a cycle, all arrays of a
        # solve would live until the garbage collector comes by, and each solve would fault in
        # pages of its own, a third of its time on city10000.
        self.iteration = _Iteration(operator, manifold, preconditioner, arrays, y)
        self.reach = arrays.repeated(self.iteration.reach)
        self.turn = arrays.repeated(self.iteration.turn)

    def stand_at(self, y: Array, multipliers: tuple[Array, Array]) -> None:
        """Take Hessians at y from now on."""
        at = self.iteration
        at.y[...] = y
        at.blocks[...], at.scalars[...] = multipliers

    def step(self, gradient: Array, radius: float, rule: StoppingRule, enough: float) -> _Step:
        """The step from there; none if the decrement is `enough`."""
        at, arrays = self.iteration, self.iteration.arrays
        at.s[...] = 0.0
        at.r[...] = gradient
        at.precondition()
        at.direction[...] = -at.z
        decrement = arrays.dot(at.r, at.z)
        if not decrement > enough:
            return _Step(at.s, 0.0, 0.0, decrement, 0, False)
        state = np.zeros(cg_kernels.SIZE)
        state[State.MAX_STEPS] = rule.max_cg_steps
        state[State.RZ] = state[State.DD] = decrement
        state[State.TARGET] = max(decrement * _FORCING**2, _SURPLUS * enough)
        state[State.RADIUS] = radius
        at.state[...] = arrays.put(state)
        made = 0
        while True:
            self.reach()
            made += 1
            look = made % arrays.look_every == 0
            if look and at.done():
                break
            self.turn()
            if look and at.done():
                break
            if made % _CLOCK_PERIOD == 0 and time.perf_counter() > rule.deadline:
                break
        state = arrays.get(at.state)
        model = float(state[State.MODEL])
        boundary = state[State.DONE] == Outcome.BOUNDARY
        if boundary:
            tau = float(state[State.TAU])
            model += tau * arrays.dot(at.r, at.direction)
            model += 0.5 * tau * tau * float(state[State.CURVATURE])
        return _Step(
            at.s, math.sqrt(max(float(state[State.SS]), 0.0)), model, decrement,
            int(state[State.STEPS]), bool(boundary))
