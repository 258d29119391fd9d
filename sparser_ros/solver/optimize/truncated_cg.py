"""Truncated conjugate gradients for the trust-region step, preconditioned (Steihaug 1983, Toint
1981; on manifolds: Absil, Baker and Gallivan 2007).

Minimises the model m(s) = <gradient, s> + <s, Hessian s> / 2 within |s|_P <= radius, and stops at
the boundary, at a direction of negative curvature, or as soon as the residual is small enough.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import Enum, unique

import numpy as np

from ...array_types import Array
from ...linalg.arrays import Arrays
from ...linalg.dense import cg_kernels
from ...linalg.dense.cg_kernels import Outcome, State
from .. import thresholds
from ..manifold.manifold import Manifold
from .interfaces import Operator, Preconditioner, StoppingRule


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

    @property
    def at_boundary(self) -> bool:
        return self.stop.at_boundary


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
        numbers, state = thresholds.current(), np.zeros(cg_kernels.SIZE)
        state[State.MAX_STEPS] = rule.max_cg_steps
        state[State.RZ] = state[State.DD] = decrement
        state[State.TARGET] = max(
            decrement * numbers.cg_forcing**2, numbers.cg_tolerance_share * enough)
        state[State.RADIUS] = radius
        at.state[...] = arrays.put(state)
        self._iterate(rule.deadline, numbers.cg_clock_period)
        return self._result(decrement)

    def _iterate(self, deadline: float, clock_period: int) -> None:
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
            if made % clock_period == 0 and time.perf_counter() > deadline:
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
