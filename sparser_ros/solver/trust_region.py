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

from ..linalg.kernels import axpy, dot, xpby
from .manifold import Manifold
from .result import SolveStatus

Array = NDArray[np.float64]
Operator = Callable[[Array, Array], Array]


class Preconditioner(Protocol):
    """An approximate inverse of the Hessian, symmetric positive definite on tangent vectors."""

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
_SMALL_STEPS = 3
_CLOCK_PERIOD = 16


def minimise(
    operator: Operator,
    manifold: Manifold,
    y: Array,
    preconditioner: Preconditioner,
    rule: StoppingRule,
    observer: Callable[[int, float, Array], None] | None = None,
    radius: float = math.inf,
) -> TrustRegionRun:
    """Minimise tr(Y^T Q Y) over the manifold from y (rows, p); the best iterate is returned."""
    start = time.perf_counter()
    y = np.ascontiguousarray(y)
    qy = operator(y, np.empty_like(y))
    cost = dot(y, qy)
    gradient = manifold.project(y, qy)
    run = TrustRegionRun(y, cost, SolveStatus.MAX_ITERATIONS, trace=[(0.0, cost)])
    blocks, scalars = manifold.multipliers(y, qy)
    preconditioner.refresh(y, qy, 0)
    work = _Workspace(y.shape)
    small_steps = 0
    while run.iterations < rule.max_iterations:
        if cost <= rule.target_cost:
            run.status = SolveStatus.TARGET_REACHED
            break
        if time.perf_counter() > rule.deadline:
            run.status = SolveStatus.TIME_LIMIT
            break

        def hessian(v: Array, out: Array, y=y, blocks=blocks, scalars=scalars) -> Array:  # type: ignore[no-untyped-def]
            operator(v, work.qv)
            return manifold.hessian(y, work.qv, v, blocks, scalars, out)

        enough = rule.gradient_tolerance * (1e-12 + abs(cost))
        step = _truncated_cg(
            hessian, manifold, y, gradient, preconditioner, radius, rule, enough, work)
        run.iterations += 1
        run.cg_steps += step.cg_steps
        if step.decrement <= enough:
            run.status = SolveStatus.CONVERGED
            break
        candidate = manifold.retract(y, step.s)
        q_candidate = operator(candidate, np.empty_like(y))
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
            gained = -change / max(abs(cost), 1e-300)
            cost = dot(y, qy)
            gradient = manifold.project(y, qy)
            blocks, scalars = manifold.multipliers(y, qy)
            if len(run.trace) < rule.max_accepted:
                preconditioner.refresh(y, qy, step.cg_steps)
            small_steps = small_steps + 1 if gained < rule.cost_tolerance else 0
            run.y, run.cost = y, cost
            run.trace.append((time.perf_counter() - start, cost))
            if observer is not None:
                observer(run.iterations, cost, y)
            interior = not step.at_boundary and step.decrement <= 1e-3 * abs(cost)
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


class _Workspace:
    """Arrays of one run, so that CG steps allocate nothing."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.qv, self.hp, self.r, self.z, self.direction = (np.empty(shape) for _ in range(5))


def _truncated_cg(
    hessian: Operator,
    manifold: Manifold,
    y: Array,
    gradient: Array,
    preconditioner: Preconditioner,
    radius: float,
    rule: StoppingRule,
    enough: float,
    work: _Workspace,
) -> _Step:
    """Steihaug-Toint CG in the norm of the preconditioner; none if the decrement is `enough`."""
    s = np.zeros_like(y)
    r, z, direction, hp = work.r, work.z, work.direction, work.hp
    r[...] = gradient
    preconditioner.apply(r, z)
    manifold.project(y, z, z)
    np.negative(z, out=direction)
    rz = dot(r, z)
    decrement = rz
    target = rz * _FORCING**2
    ss, sd, dd = 0.0, 0.0, rz
    model = 0.0
    steps = 0
    boundary = False
    while steps < rule.max_cg_steps and rz > target and decrement > enough:
        hessian(direction, hp)
        steps += 1
        if steps % _CLOCK_PERIOD == 0 and time.perf_counter() > rule.deadline:
            break
        curvature = dot(direction, hp)
        alpha = rz / curvature if curvature > 0 else math.inf
        ahead = ss + 2 * alpha * sd + alpha * alpha * dd if curvature > 0 else math.inf
        if curvature <= 0 or ahead >= radius * radius:
            limit = radius if math.isfinite(radius) else math.sqrt(max(ss, dd))
            tau = (-sd + math.sqrt(max(sd * sd + dd * (limit * limit - ss), 0.0))) / dd
            axpy(tau, direction, s)
            model += tau * dot(r, direction) + 0.5 * tau * tau * curvature
            ss = limit * limit
            boundary = True
            break
        axpy(alpha, direction, s)
        model += -0.5 * alpha * rz
        ss = ahead
        axpy(alpha, hp, r)
        preconditioner.apply(r, z)
        manifold.project(y, z, z)
        previous, rz = rz, dot(r, z)
        beta = rz / previous
        xpby(z, beta, direction)
        sd = beta * (sd + alpha * dd)
        dd = rz + beta * beta * dd
    return _Step(s, math.sqrt(max(ss, 0.0)), model, decrement, steps, boundary)
