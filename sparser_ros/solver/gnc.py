"""Graduated non-convexity: reweighted solves while the kernel narrows (paper, section 6).

Iteratively reweighted least squares (algorithm 2) at kernel widths mu c^2, mu falling to 1: at
first almost every measurement has full weight, at the end inliers alone. Inner solves start from
the last one and take few steps until mu = 1, where reweighting goes on until the robust cost
changes no more. A graduation starts from an estimate, from trusted measurements, or from a
relaxation.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from ..array_types import Array, Mask
from ..graph import Estimate
from .manifold import round_to_rotations
from .preconditioner import NewtonPreconditioner, RegularisedQ
from .result import SolveStatus
from .robust import Reweighting
from .stages import NEGLIGIBLE_COST, REFINEMENT, SolveContext
from .start import start_point
from .trust_region import StoppingRule, TrustRegionRun

INLIER_WEIGHT = 0.1
"""Robust weight above which a measurement is in the factor; below, it counts as rejected."""
SLOWDOWN = 1.5
"""CG steps of an iteration over those after the last factorisation above which another is made."""
FEW_CG_STEPS = 4
"""CG steps of an iteration that count as few whatever the factor."""
OVERFITTED_SQUARE = 0.1
"""Mean squared residual of inliers, in sigma^2, below which the stated noise is far too large."""
OVERFITTED_REJECTED = 0.4
"""Most rejected of the doubted measurements of such a graph."""
NARROW_WIDTHS = 0.25, 0.1, 0.1, 0.3
"""Kernel widths below c^2 after a graduation: false measurements that a piece of trajectory was
bent to fit do not survive them, true ones do."""
WARM_SCHEDULE_POWER = 4
"""Steps of the schedule taken at once from a given estimate."""

FIXES = ('pose_priors', 'point_priors')
"""Tables of absolute positions and poses."""


class InlierFactor:
    """A RegularisedQ of the inliers, refactorised when they change or CG slows down.

    False closures join poses at random, which fills the factor, although their weights are nearly
    zero. Only their diagonal enters the matrix; truncated CG corrects for the rest.
    """

    def __init__(self, reweighting: Reweighting) -> None:
        self.reweighting = reweighting
        problem = reweighting.problem
        self._rows = sp.hstack([problem.A, problem.C], format='csr')
        self._squares = self._rows.multiply(self._rows).tocsr()
        self._inliers: Mask = np.zeros(0, dtype=bool)
        self._regularised: RegularisedQ | None = None
        self._steps = self._steps_when_new = 0

    def prepared(self) -> RegularisedQ:
        """Adopt the weights of the reweighting; factorise if inliers or CG steps ask for it."""
        weights, doubted = self.reweighting.weights, self.reweighting.doubted
        inliers = ~doubted | (weights >= INLIER_WEIGHT)
        if self._regularised is None or np.any(inliers & ~self._inliers):
            self._inliers = inliers
            self._regularised = RegularisedQ(
                self.reweighting.schur, self._matrix(inliers, weights))
        elif self._steps > SLOWDOWN * self._steps_when_new:
            self._regularised.refactorise(self._matrix(self._inliers, weights))
        else:
            return self._regularised
        self._steps_when_new = 0
        return self._regularised

    def _matrix(self, inliers: Mask, weights: Array) -> sp.csr_matrix:
        # Rows of heights come last and act on one column only: they are no part of this matrix.
        measurement = self.reweighting.measurement[:len(self.reweighting.problem.omega)]
        omega = self.reweighting.problem.omega * weights[measurement]
        inside = inliers[measurement]
        rows = self._rows[inside]
        outside = self._squares.T @ np.where(inside, 0.0, omega)
        return (rows.T @ rows.multiply(omega[inside][:, None]) + sp.diags(outside)).tocsr()

    def report(self, iterations: int, cg_steps: int) -> None:
        """Take the CG steps of the last inner solve, which tell how well the factor still fits."""
        self._steps = cg_steps // max(iterations, 1)
        self._steps_when_new = self._steps_when_new or max(self._steps, FEW_CG_STEPS)


@dataclass(frozen=True)
class Point:
    """A point and what decides its weights."""

    y: Array
    """(rows, rank)"""
    squares: Array
    """(m,): squared whitened residuals of all measurements."""


_ROBUST_START_WIDTH = 4.0
"""First mu from a start that outliers did not bend."""


class Graduation:
    """Reweighted solves of one problem, which share preconditioners and trust radius."""

    def __init__(self, context: SolveContext) -> None:
        config = self.config = context.config.robust
        self.context, self.reweighting = context, Reweighting(context.schur, config)
        self.observer, self.rule = context.observer('robust'), context.rule(REFINEMENT)
        self._mu = config.mu_start if config.gnc else 1.0
        self.reweightings = 0
        self._inner_rule = replace(
            self.rule, max_iterations=8, max_accepted=1, cost_tolerance=1e-3)
        self._last = SolveStatus.MAX_ITERATIONS
        """How the last inner solve ended; TIME_LIMIT where the deadline left it out."""
        self._cost = math.inf
        self._radius = math.inf
        self._inlier: InlierFactor | None = None
        self._newton: NewtonPreconditioner | None = None

    # -- starts

    def from_estimate(self, estimate: Estimate, *, robust: bool = False) -> TrustRegionRun:
        """From an estimate and its residuals; `robust` says that outliers did not bend it."""
        reweighting = self.reweighting
        start = Point(reweighting.problem.pack(estimate), reweighting.squares_of(estimate))
        mu = min(self._mu, _ROBUST_START_WIDTH) if robust else self._wide(start)
        divisor = self.config.mu_divisor**WARM_SCHEDULE_POWER
        return self.run(start, mu, divisor)

    def from_trusted(self, init: str, seed: int) -> TrustRegionRun:
        """From a named start at rank d, positions fitted to the trusted measurements alone."""
        y = start_point(self.reweighting.problem, init, self.reweighting.problem.manifold.d, seed)
        if not self.config.gnc:
            return self.run(Point(y, np.zeros(len(self.reweighting.c2))), 1.0, 1.0)
        self.reweighting.apply(np.where(self.reweighting.doubted, 0.0, 1.0))
        start = self._point(y)
        return self.run(start, self._wide(start), self.config.mu_divisor)

    def from_relaxation(self, relaxed: TrustRegionRun) -> TrustRegionRun:
        """From a relaxed solution of unit weights: graduated there, rounded, and again at rank d.

        Weights carry over from the relaxation to its rounding through the residuals.
        """
        divisor = self.config.mu_divisor
        start = self._point(relaxed.y)
        lifted = self.descend(start, self._wide(start), divisor)
        rounded = round_to_rotations(self.reweighting.problem.manifold, lifted.y)
        mu = min(self._mu, _ROBUST_START_WIDTH)
        return self.run(self._point(rounded), mu, divisor)

    def _point(self, y: Array) -> Point:
        """`y` with its bearings at their optimum, and its residuals."""
        squares, y = self.reweighting.settle(y)
        return Point(y, squares)

    def _wide(self, start: Point) -> float:
        """First mu: at least the half of the position fixes that fit best are within the kernel.

        One fix that is false by 1000 km takes a start among 100 true ones 10 km away from these.
        Within a kernel of 64 c^2 nothing pulls there then.
        """
        rows = np.concatenate([
            np.arange(len(start.squares))[self.reweighting.slices[name]] for name in FIXES])
        rows = rows[self.reweighting.doubted[rows]]
        if self._mu <= 1 or not len(rows):
            return self._mu
        return max(self._mu, float(np.median(start.squares[rows] / self.reweighting.c2[rows])))

    # -- reweighting

    def run(self, point: Point, mu: float, divisor: float) -> TrustRegionRun:
        """Graduate from kernel width mu c^2 to c^2, dividing mu by `divisor` each time.

        A graduation in small steps then goes below c^2 and back (`NARROW_WIDTHS`). One in large
        steps from an estimate is compared with reweighting at c^2 alone, since wide kernels may
        leave the basin of a good estimate. The result of lower robust cost is kept.
        """
        thorough = mu > 1 and divisor <= self.config.mu_divisor
        tolerance = 1e-5 if thorough else 1e-4
        rival = None
        if mu > 1:
            rival = point
            for _ in range(2):
                rival = self._step(rival, 1.0, self._inner_rule)
        if rival and self._overfitted(rival.squares):
            end = self._step(self._narrowed(rival), 1.0, self.rule)
            return TrustRegionRun(end.y, self._cost, self._last)
        end = self.descend(point, mu, divisor)
        if thorough:
            rival, end = end, self._narrowed(end)
        end, status = self._settle(end, tolerance)
        cost = self.reweighting.cost
        if rival and cost(end.squares) > cost(rival.squares):
            end, status = self._settle(rival, tolerance)
        return TrustRegionRun(end.y, self._cost, status)

    def descend(self, point: Point, mu: float, divisor: float) -> Point:
        """Single steps from kernel width mu c^2 to c^2."""
        while mu > 1 and not self._late():
            point = self._step(point, mu, self._inner_rule)
            mu /= divisor
        return self._step(point, 1.0, self._inner_rule)

    def _overfitted(self, squares: Array) -> bool:
        """Whether inliers at c^2 have nearly no residual: stated sigmas are far too large.

        Then rejecting a measurement costs little, and wider kernels, or more reweightings at c^2,
        bend the map towards false measurements. A narrow kernel and one reweighting decide.
        """
        weights, doubted = self.reweighting.weights_at(squares), self.reweighting.doubted
        inliers = weights >= INLIER_WEIGHT
        mean = float(np.mean(squares[inliers])) if np.any(inliers) else math.inf
        rejected = np.count_nonzero(weights[doubted] < INLIER_WEIGHT)
        few = rejected <= OVERFITTED_REJECTED * np.count_nonzero(doubted)
        return bool(few and mean <= OVERFITTED_SQUARE)

    def _narrowed(self, point: Point) -> Point:
        """Single steps at kernel widths below c^2."""
        for width in NARROW_WIDTHS:
            point = self._step(point, width, self._inner_rule)
        return point

    def _settle(self, point: Point, tolerance: float) -> tuple[Point, SolveStatus]:
        """Reweight at mu = 1 until the robust cost changes no more, then solve tightly.

        Converged is what both the reweighting and the last solve have: a last solve that ended at
        its limit says so.
        """
        status = SolveStatus.MAX_ITERATIONS
        cost = self.reweighting.cost(point.squares)
        for _ in range(self.config.max_outer_iterations):
            point = self._step(point, 1.0, self._inner_rule)
            before, cost = cost, self.reweighting.cost(point.squares)
            if abs(before - cost) <= tolerance * cost + NEGLIGIBLE_COST:
                status = SolveStatus.CONVERGED
                break
            if self._late():
                break
        point = self._step(point, 1.0, self.rule)
        return point, status if self._last is SolveStatus.CONVERGED else self._last

    def _late(self) -> bool:
        return time.perf_counter() > self.rule.deadline

    def _step(self, point: Point, mu: float, rule: StoppingRule) -> Point:
        """One reweighting and the inner solve that follows it; none after the deadline.

        The first one is made whatever the time: its weights belong to the problem.
        """
        if self.reweightings and self._late():
            self._last = SolveStatus.TIME_LIMIT
            return point
        self.reweighting.apply(self.reweighting.weights_at(point.squares, mu))
        self.reweightings += 1
        run = self.context.count(self._minimise(point.y, rule))
        self._cost, self._last = run.cost, run.status
        point = self._point(run.y)
        if self.observer is not None:
            self.observer(self.reweightings, self.reweighting.cost(point.squares, mu), point.y)
        return point

    def _minimise(self, y: Array, rule: StoppingRule) -> TrustRegionRun:
        schur, manifold = self.reweighting.schur, self.reweighting.problem.manifold
        backend = self.context.backend
        if manifold.k and y.shape[1] <= manifold.d + 1:
            if self._newton is None:
                self._newton = NewtonPreconditioner(schur)
            self._newton.full = schur.full()
            return backend.minimise(schur, manifold, y, self._newton, rule)
        if self._inlier is None:
            self._inlier = InlierFactor(self.reweighting)
        run = backend.minimise(
            schur, manifold, y, self._inlier.prepared(), rule, radius=self._radius)
        self._radius = 4 * run.radius
        self._inlier.report(run.iterations, run.cg_steps)
        return run
