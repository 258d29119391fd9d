"""Down to a minimum of the relaxation by damped Newton steps (Levenberg and Marquardt).

The shift of the Hessian is a price on moves of unit rows, in units of the cost: a shift of
f / rows forbids what gains less than about the whole cost, one of 1e-6 of that lets everything
move that a certificate can see. It falls tenfold with every step that does what the model says.
Source: Nocedal and Wright, Numerical Optimization, 2006, sections 3.4 and 10.3.

A relaxation of ranges moves like a linkage: what a straight step changes of lengths to second order
is priced by stiff measurements. Newton's equation of the optimality conditions, (Q - Lambda) z = 0
and unit rows, is therefore solved once more from where a long step ends, with its own multipliers
and the matrix of the point where it began; z leaves the manifold in between. Source: section 18.3
there (second-order correction); Deuflhard, Newton Methods for Nonlinear Problems, 2011, section 2.1
(simplified Newton).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from ..array_types import Array
from .certificate import ROUNDING, Multipliers
from .manifold import Manifold
from .preconditioner import ShiftedHessian
from .result import SolveStatus
from .schur import SchurOperator
from .trust_region import (
    ACCEPTED_RATIO,
    GOOD_RATIO,
    POOR_RATIO,
    RATIO_NOISE,
    Observer,
    TrustRegionRun,
)

SHIFT_GROWTH = 4.0
"""Shift after a failed factorisation or a poor step, over the last one."""
SHIFT_DECREASE = 0.1
"""Shift after a good step, over the last one."""
ESCAPE_BEGUN = 1e-2
"""Step along softest directions in new columns, of a unit row."""


@dataclass(frozen=True)
class Ambient:
    """A point near the manifold with multipliers."""

    z: Array
    """(rows, p)"""
    multipliers: Multipliers
    moved: float
    """Norm of the tangential part of the last step."""


def excess_times(manifold: Manifold, z: Array, y: Array) -> Array:
    """(Z_b Z_b^T - I) Y_b of every block b; zero on the homogenising rows."""
    d, n, k = manifold.d, manifold.n, manifold.k
    turns, bearings = z[: n * d].reshape(n, d, -1), z[n * d : n * d + k]
    return Multipliers(
        manifold, turns @ np.swapaxes(turns, 1, 2) - np.eye(d), np.sum(bearings**2, axis=1) - 1,
        np.zeros((d, d))).times(y)


@dataclass(frozen=True)
class _Step:
    """Where a step leads."""

    y: Array
    qy: Array
    predicted: float
    """Change of the cost that the model foretold."""
    change: float
    ratio: float
    """Change over what the model foretold."""
    multipliers: Multipliers
    """Lambda there, to first order."""
    contraction: float = 0.0
    """Length of the first correction over that of the step; 0 where none was made."""


_CONTRACTION = 0.7
"""Length of a correction over the last one, above which it is not made: the motion bends more than
one factor can tell."""


class NewtonDescent:
    """Runs at points of one problem; symbolic analysis and shift are kept from run to run."""

    def __init__(self, schur: SchurOperator, observer: Observer | None = None) -> None:
        self._schur, self._observer = schur, observer
        self._manifold: Manifold = schur.problem.manifold
        self._hessian = ShiftedHessian(schur)
        self._shift = 0.0
        """Of the next factor, units of the weights; 0 = not known."""
        self._refused = 0.0
        """Least shift to be tried, from one that left the Hessian indefinite; it falls with every
        step since."""
        self.iterations = 0
        """Steps in all, refused ones included."""
        self.multipliers: Multipliers | None = None
        """Lambda as the last Newton equation has it; None before the first step that is taken."""

    def restart(self, shift: float) -> None:
        """Begin the next run with that shift: the last one was for another point."""
        self._shift, self._refused = shift, 0.0

    def run(
        self, y: Array, *, gain: float, most: int, deadline: float = math.inf,
        rough: bool = False,
    ) -> TrustRegionRun:
        """Down from y (rows, p) until two steps gain less than that share of the cost each.

        `most` limits the steps, refused ones included. From a `rough` point the first step is one
        of Gauss and Newton: the point's own multipliers would make the Hessian indefinite.
        """
        if rough and self.multipliers is None:
            self.multipliers = Multipliers.zero(self._manifold)
        start, made, small = time.perf_counter(), 0, 0
        qy = self._schur(y)
        cost = float(np.sum(y * qy))
        trace = [(0.0, cost)]
        status, fresh = SolveStatus.MAX_ITERATIONS, True
        while made < most:
            if time.perf_counter() > deadline:
                status = SolveStatus.TIME_LIMIT
                break
            if fresh:
                at_y = self.multipliers or Multipliers.of(self._manifold, y, qy)
                self._hessian.at(y, at_y.blocks, at_y.scalars)
            if not self._factorized(cost):
                status = SolveStatus.STALLED
                break
            made += 1
            step = self._step(y, qy, at_y)
            fresh = self._judge(step)
            if not fresh and -step.predicted <= RATIO_NOISE * abs(cost):
                # Nothing is left but rounding errors.
                status = SolveStatus.CONVERGED
                break
            if not fresh:
                continue
            y, qy, before, self.multipliers = step.y, step.qy, cost, step.multipliers
            cost = float(np.sum(y * qy))
            trace.append((time.perf_counter() - start, cost))
            if self._observer is not None:
                self._observer(made, cost, y)
            small = small + 1 if -step.change <= gain * abs(before) else 0
            if small > 1:
                status = SolveStatus.CONVERGED
                break
        self.iterations += made
        return TrustRegionRun(y, cost, status, made, 0, trace)

    def opened(self, y: Array, rank: int) -> Array:
        """y (rows, p) at a higher rank, with a little of its softest directions in new columns.

        In new columns the Hessian is S: a few solves with its shifted factor turn random columns
        into directions of escape, where there are any. Others die out in the steps that follow,
        which is cheaper than to look for eigenvectors. y itself where no shift will do.
        """
        manifold, p = self._manifold, y.shape[1]
        y = manifold.lift(y, rank)
        qy = self._schur(y)
        cost = float(np.sum(y * qy))
        at_y = self.multipliers or Multipliers.of(manifold, y, qy)
        self._hessian.at(y, at_y.blocks, at_y.scalars)
        # Such as gain more than a hundredth of the cost stand out.
        self.restart(1e-2 * self._unit(cost))
        if not self._factorized(cost):
            return y
        step = np.zeros_like(y)
        step[:, p:] = np.random.default_rng(0).standard_normal((len(y), rank - p))
        step = manifold.project(y, step)
        for _ in range(3):
            step = self._hessian.solve(step)
            step /= max(float(np.abs(step).max(initial=0.0)), 1e-300)
        return manifold.retract(y, ESCAPE_BEGUN * step)

    def _factorized(self, cost: float) -> bool:
        """Whether a shift at or above the present one makes the Hessian positive definite."""
        unit = self._unit(cost)
        known = self._shift > 0
        growth = SHIFT_GROWTH if known else 1 / SHIFT_DECREASE
        first = self._shift if known else unit
        self._shift = max(first, 1e-7 * unit)
        while self._shift < 1e12 * unit:
            if self._hessian.factorize(self._shift):
                return True
            self._refused = 2 * self._shift
            self._shift *= growth
        return False

    def _unit(self, cost: float) -> float:
        """The shift that outweighs the whole cost, or rounding errors of it."""
        rounding = ROUNDING * float(self._schur.Q_cc.diagonal().sum())
        return max(abs(cost), rounding, 1e-300) / max(self._manifold.rows, 1)

    def _step(self, y: Array, qy: Array, at_y: Multipliers) -> _Step:
        """Where Newton's equation leads from y, corrected where that is not what it foretold."""
        gradient = self._manifold.project(y, qy)
        s = -self._hessian.solve(gradient)
        # (H + shift) s = -g: the model's change of the cost without the shift.
        predicted = float(np.sum(gradient * s)) - self._shift * float(np.sum(s * s))
        residual = qy - at_y.times(y) + self._linear(s, at_y)
        end = Ambient(
            y + s, at_y.plus(Multipliers.of(self._manifold, y, residual)),
            float(np.linalg.norm(s)))
        step = self._reached(y, qy, end, predicted)
        if step.ratio > GOOD_RATIO:
            return step
        end, contraction = self._corrected(y, at_y, end)
        other = self._reached(y, qy, end, predicted)
        return replace(
            other if other.change < step.change else step, contraction=contraction)

    def _linear(self, s: Array, at_y: Multipliers) -> Array:
        """(Q_s - Lambda + shift) s."""
        return self._schur(s) - at_y.times(s) + self._shift * s

    def _corrected(
        self, y: Array, at_y: Multipliers, end: Ambient
    ) -> tuple[Ambient, float]:
        """The end of a step after as many corrections as get shorter, and how much the first is.

        Each is a step of the simplified Newton method: the optimality conditions at `end`, the
        matrix of y. What takes the residual's normal part away changes the multipliers.
        """
        manifold, length, first = self._manifold, end.moved, 0.0
        for _ in range(4):
            z = end.z
            residual = self._schur(z) - end.multipliers.times(z) + self._shift * (z - y)
            normal = -0.5 * excess_times(manifold, z, y)
            residual += self._linear(normal, at_y)
            tangent = -self._hessian.solve(manifold.project(y, residual))
            residual += self._linear(tangent, at_y)
            further = Ambient(
                z + normal + tangent,
                end.multipliers.plus(Multipliers.of(manifold, y, residual)),
                float(np.linalg.norm(tangent)))
            first = first or further.moved / length
            if further.moved > _CONTRACTION * end.moved:
                break
            end = further
            if end.moved < 0.03 * length:
                break
        return end, first

    def _reached(self, y: Array, qy: Array, end: Ambient, predicted: float) -> _Step:
        """Where a step ends on the manifold, bearings along their antennas."""
        manifold = self._manifold
        there = self._bent(manifold.retract(end.z, np.zeros_like(y)))
        q_there = self._schur(there)
        # Keeps the digits that a difference of two costs would cancel.
        change = float(np.sum((there - y) * (qy + q_there)))
        noise = RATIO_NOISE * abs(float(np.sum(y * qy)))
        ratio = (change - noise) / (predicted - noise)
        return _Step(there, q_there, predicted, change, ratio, end.multipliers)

    def _bent(self, y: Array) -> Array:
        """y with every bearing along its antennas, positions being the best ones for y.

        Bearings are stiff: what a straight step misses to second order would cost more than soft
        steps gain.
        """
        manifold, p = self._manifold, y.shape[1]
        if not manifold.k:
            return y
        rows = y[: manifold.n * manifold.d].reshape(manifold.n, manifold.d, p)
        return self._schur.problem.compose(rows, self._schur.points(y))

    def _judge(self, step: _Step) -> bool:
        """Whether the step is taken; the shift of the next one follows."""
        taken = step.ratio > ACCEPTED_RATIO and step.change < 0
        if not taken or step.ratio < POOR_RATIO:
            self._shift *= SHIFT_GROWTH
        elif step.ratio > GOOD_RATIO:
            # The eigenvalue that was in the way will still be there at the next point.
            less = SHIFT_DECREASE
            if step.contraction:
                # A longer step bends more.
                less = max(less, step.contraction / (_CONTRACTION / 2))
            self._shift = max(self._shift * less, self._refused)
            self._refused *= SHIFT_DECREASE
        return taken
