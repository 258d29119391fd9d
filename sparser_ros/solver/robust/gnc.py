"""Graduated non-convexity: reweighted solves while the kernel narrows (paper, section V).

Iteratively reweighted least squares (algorithm 2) at kernel widths mu c^2 with mu falling to 1:
first everything counts almost fully, at last only what fits. Inner solves are warm and few steps
long until mu = 1, where weights are iterated until the robust cost stands still.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...config import RobustConfig
from ..optimize.compute_backend import ComputeBackend
from ..optimize.trust_region import StoppingRule, TrustRegionRun
from ..precondition.inlier import InlierPreconditioner
from ..precondition.newton import NewtonPreconditioner
from ..result import SolveStatus
from .reweighting import Reweighting

Array = NDArray[np.float64]

_COARSE_STEPS = 1
_COARSE_TRIALS = 8
"""Accepted steps, and all steps, of an inner solve before the last."""
_COARSE_TOLERANCE = 1e-3
_REGROWTH = 4.0
"""A trust region starts this much wider than the one before ended."""
_NEAR_STEPS = 2
_FAR_TOO_WELL = 0.1
"""Mean squared residual, in sigmas, of measurements whose stated noise is far too large."""
_REJECTED, _MOST_REJECTED = 0.1, 0.4
_NARROW = (0.25, 0.1, 0.1, 0.3)
_STANDS_STILL, _CREEPS = 1e-5, 1e-4
"""Relative change of the robust cost below which the reweighting at mu = 1 ends: thorough runs,
and those from a given estimate."""


@dataclass
class RobustRun:
    """Outcome of a graduated solve."""

    run: TrustRegionRun
    """The last inner solve; iterations and CG steps are those of all of them."""
    squares: Array
    """(m,): squared whitened residuals of all measurements at the end."""
    weights: Array
    """(m,): rho'(s) there, without the floor."""
    cost: float
    """sum rho(s)."""
    reweightings: int


class Graduation:
    """Reweighted solves of one problem; preconditioners live as long as this."""

    def __init__(
        self, reweighting: Reweighting, config: RobustConfig, rule: StoppingRule,
        observer: Callable[[int, float, Array], None] | None = None,
        machine: ComputeBackend | None = None,
    ) -> None:
        self.reweighting, self.config, self.rule = reweighting, config, rule
        self.observer = observer
        self.machine = machine or ComputeBackend()
        self.reweightings = 0
        self._coarse = replace(
            rule, max_iterations=_COARSE_TRIALS, max_accepted=_COARSE_STEPS,
            cost_tolerance=_COARSE_TOLERANCE)
        self._radius = math.inf
        self._inlier: InlierPreconditioner | None = None
        self._newton: NewtonPreconditioner | None = None

    def run(self, y: Array, squares: Array, mu: float, divisor: float) -> RobustRun:
        """Graduate from kernel width mu c^2 down to c^2, from y with those residuals.

        A graduation in small steps ends beyond c^2 and comes back: false measurements that a
        piece of trajectory has been bent to fit do not survive that, true ones fit well. One in
        great strides, from an estimate, is weighed against reweighting at c^2 alone: wide kernels
        may leave a good basin. The better result is kept.
        """
        total = TrustRegionRun(y, math.inf, SolveStatus.MAX_ITERATIONS)
        thorough = mu > 1 and divisor <= self.config.mu_divisor
        still = _STANDS_STILL if thorough else _CREEPS
        other = None
        if mu > 1:
            other = y, squares
            for _ in range(_NEAR_STEPS):
                other = self._step(*other, 1.0, self._coarse, total)
        if other and self._fits_far_too_well(other[1]):
            for narrow in _NARROW:
                other = self._step(*other, narrow, self._coarse, total)
            y, squares = self._step(*other, 1.0, self.rule, total)
            other, total.status = None, SolveStatus.CONVERGED
        else:
            y, squares = self.descend(y, squares, mu, divisor, total)
            if thorough:
                other = y, squares
                for narrow in _NARROW:
                    y, squares = self._step(y, squares, narrow, self._coarse, total)
            y, squares = self._settle(y, squares, total, still)
        if other and self.reweighting.cost(squares) > self.reweighting.cost(other[1]):
            y, squares = self._settle(*other, total, still)
        total.y = y
        return RobustRun(
            total, squares, self.reweighting.weights_at(squares),
            self.reweighting.cost(squares), self.reweightings)

    def _fits_far_too_well(self, squares: Array) -> bool:
        """Whether what is believed at c^2 leaves next to no residual: sigmas are far too large.

        Then c^2 is a low price: wider kernels, and even weights iterated at c^2, only bend the
        map towards false measurements (parking-garage: from 921 of 923 rejected to 885, at a
        robust cost 3 % lower). A narrow kernel and one reweighting settle it.
        """
        weights, doubted = self.reweighting.weights_at(squares), self.reweighting.doubted
        believed = weights >= _REJECTED
        strain = float(np.mean(squares[believed])) if np.any(believed) else math.inf
        rejected = np.count_nonzero(weights[doubted] < _REJECTED)
        few = rejected <= _MOST_REJECTED * np.count_nonzero(doubted)
        return bool(few and strain <= _FAR_TOO_WELL)

    def descend(
        self, y: Array, squares: Array, mu: float, divisor: float, total: TrustRegionRun
    ) -> tuple[Array, Array]:
        """Coarse steps from kernel width mu c^2 to c^2: (y, squares)."""
        while mu > 1 and time.perf_counter() <= self.rule.deadline:
            y, squares = self._step(y, squares, mu, self._coarse, total)
            mu /= divisor
        return self._step(y, squares, 1.0, self._coarse, total)

    def _settle(
        self, y: Array, squares: Array, total: TrustRegionRun, still: float
    ) -> tuple[Array, Array]:
        """Reweight at mu = 1 until the robust cost stands still, then solve tightly."""
        total.status = SolveStatus.MAX_ITERATIONS
        cost = self.reweighting.cost(squares)
        for _ in range(self.config.max_outer_iterations):
            y, squares = self._step(y, squares, 1.0, self._coarse, total)
            before, cost = cost, self.reweighting.cost(squares)
            if abs(before - cost) <= still * cost:
                total.status = SolveStatus.CONVERGED
                break
            if time.perf_counter() > self.rule.deadline:
                total.status = SolveStatus.TIME_LIMIT
                break
        return self._step(y, squares, 1.0, self.rule, total)

    def _step(
        self, y: Array, squares: Array, mu: float, rule: StoppingRule, total: TrustRegionRun
    ) -> tuple[Array, Array]:
        """One reweighting and the inner solve that follows it: (y, squares)."""
        self.reweighting.apply(self.reweighting.weights_at(squares, mu))
        self.reweightings += 1
        run = self._minimise(y, rule)
        total.iterations += run.iterations
        total.cg_steps += run.cg_steps
        squares, y = self.reweighting.settle(run.y)
        total.cost = run.cost
        if self.observer is not None:
            self.observer(self.reweightings, self.reweighting.cost(squares, mu), y)
        return y, squares

    def _minimise(self, y: Array, rule: StoppingRule) -> TrustRegionRun:
        schur, manifold = self.reweighting.schur, self.reweighting.problem.manifold
        if manifold.k and y.shape[1] <= manifold.d + 1:
            if self._newton is None:
                self._newton = NewtonPreconditioner(schur)
            self._newton.full = schur.full()
            return self.machine.minimise(schur, manifold, y, self._newton, rule)
        if self._inlier is None:
            self._inlier = InlierPreconditioner(self.reweighting)
        self._inlier.prepare()
        run = self.machine.minimise(
            schur, manifold, y, self._inlier, rule, radius=self._radius, long=True)
        self._radius = _REGROWTH * run.radius
        self._inlier.report(run.iterations, run.cg_steps)
        return run
