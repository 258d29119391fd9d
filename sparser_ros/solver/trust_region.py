"""Riemannian trust region with truncated CG on tr(Y^T Q_s Y) (paper, section 7.1).

Truncated CG (Steihaug 1983, Toint 1981; on manifolds: Absil, Baker and Gallivan 2007) minimises the
model m(s) = <gradient, s> + <s, Hessian s> / 2 within |s|_P <= radius, and stops at the boundary,
at a direction of negative curvature, or as soon as the residual is small enough.

Notation: the factor 2 of gradient and Hessian is dropped on both sides of the Newton equation, so
gradient = P_Y(Q Y), Hessian[V] = P_Y(Q V - Lambda V), and a step s changes the cost by
2 (<gradient, s> + <s, Hessian s> / 2) in the model. P, Lambda and the retraction are those of
`manifold.py`.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import Protocol

import numpy as np

from ..array_types import Array
from ..linalg.arrays import Arrays, arrays_of
from ..linalg.trust_region_kernels import SIZE, Outcome, State
from .manifold import Manifold
from .result import SolveStatus

ACCEPTED_RATIO = 0.05
"""Actual over predicted change from which a step is taken; any value below 1/4 keeps the proof of
convergence (Absil, Baker and Gallivan 2007)."""
POOR_RATIO = 0.25
"""Below it the region shrinks, above `GOOD_RATIO` it grows where it limited the step (Nocedal and
Wright 2006, algorithm 4.1)."""
GOOD_RATIO = 0.75
RADIUS_SHRINK = 0.25
RADIUS_GROWTH = 2.5
RATIO_NOISE = 1e-14
"""Share of the cost that is taken off both changes, so that a ratio of two rounding errors counts
as agreement (Conn, Gould and Toint 2000, section 17.4.2)."""
NEGLIGIBLE_DECREMENT = 1e-12
"""Cost to gain, in chi-square, that ends a run however small the cost is, unless a finer tolerance
is asked for: without noise the cost vanishes, and rounding errors have no share of it."""
SMALL_GAINS = 3
"""Accepted steps of small gain in a row that end a run."""
INTERIOR_DECREMENT = 1e-3
"""Decrement, over the cost, below which one step of small gain ends a run, provided that CG did not
stop at the boundary: Newton's method is then in its region of fast convergence."""
CG_FORCING = 0.1
"""Residual, over the gradient, at which CG stops, both in the norm of P^-1: the outer
iterations converge linearly at this rate (Dembo, Eisenstat and Steihaug 1982)."""

Operator = Callable[[Array, Array], Array]
"""operator(x, out): out = Q x for x (rows, p); returns out."""
Observer = Callable[[int, float, Array], None]
"""observer(iteration, cost, y), called at every accepted step."""


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
    """Of one iteration."""
    cg_budget: int = 1_000_000_000
    """CG steps of the whole run from which on it makes no further iteration."""
    gradient_tolerance: float = 1e-12
    """On |gradient|^2 in the norm of P^-1, an estimate of the cost to gain, over the cost."""
    cost_tolerance: float = 1e-6
    """Relative gain of a step that counts as small."""
    cost_floor: float = 0.0
    """Costs below it are rounding errors; tolerances are shares of the larger of it and the
    cost."""
    target_cost: float = -math.inf
    deadline: float = math.inf
    """time.perf_counter() value."""


@unique
class CGStop(Enum):
    """Why CG stopped; the report counts each."""

    NOT_NEEDED = 'not_needed'
    """The gradient was within the tolerance of the trust region."""
    FORCING = 'forcing'
    """The residual fell below the forcing term, or below the share of the tolerance."""
    BOUNDARY = 'boundary'
    """The step left the trust region; it ends on the boundary."""
    NEGATIVE_CURVATURE = 'negative_curvature'
    """The Hessian is not positive along the direction; the step follows it to the boundary."""
    MAX_STEPS = 'max_steps'
    DEADLINE = 'deadline'

    @property
    def at_boundary(self) -> bool:
        return self in (CGStop.BOUNDARY, CGStop.NEGATIVE_CURVATURE)


@dataclass(frozen=True)
class CGStep:
    """A step of the trust region."""

    s: Array
    """(rows, p), tangent; the next step overwrites it."""
    norm: float
    """|s|_P"""
    model: float
    """m(s), negative."""
    decrement: float
    """Squared gradient in the norm of P^-1."""
    cg_steps: int
    stop: CGStop


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
        self.state = arrays.empty((SIZE,))

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
        # The repeated halves belong to `iteration`, not to this object: in a reference cycle all
        # arrays of a solve would live until the garbage collector runs, and each solve would
        # fault in new pages, a third of its time on city10000.
        self.iteration = _Iteration(operator, manifold, preconditioner, arrays, y)
        self.reach = arrays.repeated(self.iteration.reach)
        self.turn = arrays.repeated(self.iteration.turn)

    def stand_at(self, y: Array, multipliers: tuple[Array, Array]) -> None:
        """Take Hessians at y from now on."""
        at = self.iteration
        at.y[...] = y
        at.blocks[...], at.scalars[...] = multipliers

    def step(self, gradient: Array, radius: float, rule: StoppingRule, enough: float) -> CGStep:
        """The step from there; s = 0 if the decrement is `enough`."""
        at, arrays = self.iteration, self.iteration.arrays
        at.s[...] = 0.0
        at.r[...] = gradient
        at.precondition()
        at.direction[...] = -at.z
        decrement = arrays.dot(at.r, at.z)
        if not decrement > enough:
            return CGStep(at.s, 0.0, 0.0, decrement, 0, CGStop.NOT_NEEDED)
        state = np.zeros(SIZE)
        state[State.MAX_STEPS] = rule.max_cg_steps
        state[State.RZ] = state[State.DD] = decrement
        # What is below a tenth of the tolerance changes the answer by less than that.
        state[State.TARGET] = max(decrement * CG_FORCING**2, 0.1 * enough)
        state[State.RADIUS] = radius
        at.state[...] = arrays.put(state)
        self._iterate(rule.deadline)
        return self._result(decrement)

    def _iterate(self, deadline: float) -> None:
        at, look_every = self.iteration, self.iteration.arrays.look_every
        made = 0
        while True:
            self.reach()
            made += 1
            look = made % look_every == 0
            if look and at.done():
                return
            self.turn()
            if look and at.done():
                return
            # Reading the clock takes 0.1 us, a CG step 10 us and more.
            if made % 16 == 0 and time.perf_counter() > deadline:
                return

    def _result(self, decrement: float) -> CGStep:
        at, arrays = self.iteration, self.iteration.arrays
        state = arrays.get(at.state)
        stop = _stop(state)
        model = float(state[State.MODEL])
        if stop.at_boundary:
            tau = float(state[State.TAU])
            model += tau * arrays.dot(at.r, at.direction)
            model += 0.5 * tau * tau * float(state[State.CURVATURE])
        norm = math.sqrt(max(float(state[State.SS]), 0.0))
        return CGStep(at.s, norm, model, decrement, int(state[State.STEPS]), stop)


def _stop(state: Array) -> CGStop:
    """The reason that the state of a run tells."""
    if state[State.DONE] == Outcome.BOUNDARY and not state[State.CURVATURE] > 0:
        return CGStop.NEGATIVE_CURVATURE
    return {
        Outcome.RUNNING: CGStop.DEADLINE,
        Outcome.CONVERGED: CGStop.FORCING,
        Outcome.BOUNDARY: CGStop.BOUNDARY,
        Outcome.EXHAUSTED: CGStop.MAX_STEPS,
    }[Outcome(int(state[State.DONE]))]


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

    def followed_by(self, rest: TrustRegionRun, since: float) -> TrustRegionRun:
        """This run and one that went on from its end `since` seconds after its start, as one."""
        return replace(
            rest, iterations=self.iterations + rest.iterations,
            cg_steps=self.cg_steps + rest.cg_steps, cg_stops=self.cg_stops + rest.cg_stops,
            trace=self.trace + [(since + seconds, cost) for seconds, cost in rest.trace[1:]])


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
    start, arrays = time.perf_counter(), arrays_of(y)
    qy = operator(y, arrays.empty(y.shape))
    cost, gradient = arrays.dot(y, qy), manifold.project(y, qy)
    preconditioner.refresh(y, qy, 0)
    cg = TruncatedCG(operator, manifold, preconditioner, arrays, y)
    cg.stand_at(y, manifold.multipliers(y, qy))
    trace, stops = [(0.0, cost)], Counter[CGStop]()
    iterations = cg_steps = small_gains = 0
    while True:
        limit = _limit_reached(rule, cost, iterations, cg_steps)
        if limit is not None:
            status = limit
            break
        enough = max(rule.gradient_tolerance * max(abs(cost), rule.cost_floor),
                     min(rule.gradient_tolerance, NEGLIGIBLE_DECREMENT))
        step = cg.step(gradient, radius, rule, enough)
        iterations += 1
        cg_steps += step.cg_steps
        stops[step.stop] += 1
        if step.decrement <= enough:
            status = SolveStatus.CONVERGED
            break
        y_new = manifold.retract(y, step.s)
        qy_new = operator(y_new, arrays.empty(y.shape))
        # tr(Y'^T Q Y') - tr(Y^T Q Y), without the cancellation between two large costs.
        change, predicted = arrays.dot(y_new - y, qy + qy_new), 2 * step.model
        ratio = (change - RATIO_NOISE * abs(cost)) / (predicted - RATIO_NOISE * abs(cost))
        radius = _next_radius(radius, step, ratio)
        if not (ratio > ACCEPTED_RATIO and change < 0):
            if max(abs(change), abs(predicted)) <= 1e-13 * abs(cost):
                status = SolveStatus.CONVERGED
                break
            if radius < 1e-14 * (1 + step.norm):
                status = SolveStatus.STALLED
                break
            continue
        gained = -change / max(abs(cost), rule.cost_floor, 1e-300)
        y, qy = y_new, qy_new
        cost, gradient = arrays.dot(y, qy), manifold.project(y, qy)
        cg.stand_at(y, manifold.multipliers(y, qy))
        if len(trace) < rule.max_accepted:
            preconditioner.refresh(y, qy, step.cg_steps)
        trace.append((time.perf_counter() - start, cost))
        if observer is not None:
            observer(iterations, cost, y)
        small_gains = small_gains + 1 if gained < rule.cost_tolerance else 0
        interior = not step.stop.at_boundary and (
            step.decrement <= INTERIOR_DECREMENT * max(abs(cost), rule.cost_floor))
        if small_gains >= SMALL_GAINS or (small_gains and interior):
            status = SolveStatus.CONVERGED
            break
        if len(trace) > rule.max_accepted:
            status = SolveStatus.MAX_ITERATIONS
            break
    return TrustRegionRun(y, cost, status, iterations, cg_steps, trace, radius, stops)


def _limit_reached(
    rule: StoppingRule, cost: float, iterations: int, cg_steps: int
) -> SolveStatus | None:
    """Why no further iteration is made, None if one is."""
    if iterations >= rule.max_iterations or cg_steps >= rule.cg_budget:
        return SolveStatus.MAX_ITERATIONS
    if cost <= rule.target_cost:
        return SolveStatus.TARGET_REACHED
    return SolveStatus.TIME_LIMIT if time.perf_counter() > rule.deadline else None


def _next_radius(radius: float, step: CGStep, ratio: float) -> float:
    """The radius after a step (Nocedal and Wright 2006, algorithm 4.1); the first step sets it."""
    if math.isinf(radius):
        radius = max(step.norm, 1e-300) * 2
    if ratio < POOR_RATIO or not math.isfinite(ratio):
        return RADIUS_SHRINK * min(radius, step.norm)
    if ratio > GOOD_RATIO and step.stop.at_boundary:
        return RADIUS_GROWTH * radius
    return radius
