"""Riemannian trust region with preconditioned truncated CG on tr(Y^T Q_s Y) (paper, section 7.1).

Notation: the factor 2 of gradient and Hessian is dropped on both sides of the Newton equation, so
gradient = P_Y(Q Y), Hessian[V] = P_Y(Q V - Lambda V), and a step s changes the cost by
2 (<gradient, s> + <s, Hessian s> / 2) in the model. The formulas of P, Lambda and the retraction
are in `manifold/formulas.py`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field

from ...array_types import Array
from ...linalg.arrays import Arrays, arrays_of
from .. import thresholds
from ..manifold.manifold import Manifold
from ..result import SolveStatus
from .interfaces import Observer, Operator, Preconditioner, StoppingRule
from .truncated_cg import CGStep, CGStop, TruncatedCG

__all__ = [
    'CGStop', 'Operator', 'Preconditioner', 'StoppingRule', 'TruncatedCG', 'TrustRegionRun',
    'minimise']


@dataclass(frozen=True)
class TrustRegionRun:
    """Outcome of one run."""

    y: Array
    cost: float
    status: SolveStatus
    iterations: int = 0
    cg_steps: int = 0
    trace: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, cost) of every accepted point, the start included."""
    radius: float = math.inf
    """At the end, in the norm of the preconditioner."""
    cg_stops: Counter[CGStop] = field(default_factory=Counter)
    """How often CG stopped for which reason."""


@dataclass(frozen=True)
class _Point:
    """A point and what is known there."""

    y: Array
    qy: Array
    """Q Y"""
    cost: float
    gradient: Array


@dataclass(frozen=True)
class _Trial:
    """Where a step leads."""

    y: Array
    qy: Array
    change: float
    """Of the cost."""
    predicted: float
    """Of the model."""
    ratio: float
    """Actual over predicted change."""
    accepted: bool


def minimise(
    operator: Operator,
    manifold: Manifold,
    y: Array,
    preconditioner: Preconditioner,
    rule: StoppingRule,
    observer: Observer | None = None,
    radius: float = math.inf,
) -> TrustRegionRun:
    """Minimise tr(Y^T Q Y) over the manifold from y (rows, p); the best iterate is returned.

    Everything happens where y lies (`linalg/arrays.py`), which the operator and the
    preconditioner must be able to work on.
    """
    start = time.perf_counter()
    arrays = arrays_of(y)
    at = _point(manifold, arrays, y, operator(y, arrays.empty(y.shape)))
    preconditioner.refresh(y, at.qy, 0)
    cg = TruncatedCG(operator, manifold, preconditioner, arrays, y)
    cg.stand_at(y, manifold.multipliers(y, at.qy))
    trace, stops = [(0.0, at.cost)], Counter[CGStop]()
    iterations = cg_steps = small_gains = 0
    status = None
    while status is None:
        status = _limit_reached(rule, at.cost, iterations)
        if status is not None:
            break
        enough = rule.gradient_tolerance * max(1e-12 + abs(at.cost), rule.cost_floor)
        step = cg.step(at.gradient, radius, rule, enough)
        iterations += 1
        cg_steps += step.cg_steps
        stops[step.stop] += 1
        if step.decrement <= enough:
            status = SolveStatus.CONVERGED
            break
        trial = _attempt(operator, manifold, arrays, at, step)
        radius = _next_radius(radius, step, trial.ratio)
        if not trial.accepted:
            status = _no_progress(trial, step, at.cost, radius)
            continue
        gained = -trial.change / max(abs(at.cost), rule.cost_floor, 1e-300)
        at = _point(manifold, arrays, trial.y, trial.qy)
        cg.stand_at(at.y, manifold.multipliers(at.y, at.qy))
        if len(trace) < rule.max_accepted:
            preconditioner.refresh(at.y, at.qy, step.cg_steps)
        trace.append((time.perf_counter() - start, at.cost))
        if observer is not None:
            observer(iterations, at.cost, at.y)
        small_gains = small_gains + 1 if gained < rule.cost_tolerance else 0
        status = _accepted_status(rule, step, at.cost, small_gains, len(trace) - 1)
    return TrustRegionRun(
        at.y, at.cost, status, iterations, cg_steps, trace, radius, stops)


def _point(manifold: Manifold, arrays: Arrays, y: Array, qy: Array) -> _Point:
    return _Point(y, qy, arrays.dot(y, qy), manifold.project(y, qy))


def _limit_reached(rule: StoppingRule, cost: float, iterations: int) -> SolveStatus | None:
    """Why no further iteration is made, None if one is."""
    if iterations >= rule.max_iterations:
        return SolveStatus.MAX_ITERATIONS
    if cost <= rule.target_cost:
        return SolveStatus.TARGET_REACHED
    if time.perf_counter() > rule.deadline:
        return SolveStatus.TIME_LIMIT
    return None


def _attempt(
    operator: Operator, manifold: Manifold, arrays: Arrays, at: _Point, step: CGStep
) -> _Trial:
    """The point that a step leads to, and how well the model foretold its cost."""
    y = manifold.retract(at.y, step.s)
    qy = operator(y, arrays.empty(y.shape))
    # formulas.cost_change: keeps the digits that a difference of two large costs would cancel.
    change = arrays.dot(y - at.y, at.qy + qy)
    numbers = thresholds.current()
    predicted, noise = 2 * step.model, numbers.ratio_noise * abs(at.cost)
    ratio = (change - noise) / (predicted - noise)
    accepted = ratio > numbers.accepted_ratio and change < 0
    return _Trial(y, qy, change, predicted, ratio, accepted)


def _next_radius(radius: float, step: CGStep, ratio: float) -> float:
    """The radius after a step (Nocedal and Wright 2006, algorithm 4.1); the first step sets it."""
    numbers = thresholds.current()
    if math.isinf(radius):
        radius = max(step.norm, 1e-300) * 2
    if ratio < numbers.poor_ratio or not math.isfinite(ratio):
        return numbers.radius_shrink * min(radius, step.norm)
    if ratio > numbers.good_ratio and step.at_boundary:
        return numbers.radius_growth * radius
    return radius


def _no_progress(
    trial: _Trial, step: CGStep, cost: float, radius: float
) -> SolveStatus | None:
    """Why a run ends at a rejected step, None if a shorter step may do."""
    numbers = thresholds.current()
    noise = numbers.change_noise * abs(cost)
    if abs(trial.change) <= noise and abs(trial.predicted) <= noise:
        return SolveStatus.CONVERGED
    if radius < numbers.least_radius * (1 + step.norm):
        return SolveStatus.STALLED
    return None


def _accepted_status(
    rule: StoppingRule, step: CGStep, cost: float, small_gains: int, accepted: int
) -> SolveStatus | None:
    """Why a run ends at an accepted step, None if it goes on."""
    numbers, scale = thresholds.current(), max(abs(cost), rule.cost_floor)
    interior = not step.at_boundary and step.decrement <= numbers.interior_decrement * scale
    if small_gains >= numbers.small_gains or (small_gains and interior):
        return SolveStatus.CONVERGED
    if accepted >= rule.max_accepted:
        return SolveStatus.MAX_ITERATIONS
    return None
