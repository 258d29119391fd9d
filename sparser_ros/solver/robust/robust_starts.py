"""Starts of a graduated solve: an estimate, trusted measurements, or a relaxation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...array_types import Array
from ...config import RobustConfig
from ...graph import Estimate
from .. import thresholds
from ..initialize.initialization import start_point
from ..manifold.rounding import round_to_rotations
from ..model.schur import SchurOperator
from ..optimize.compute_backend import ComputeBackend
from ..optimize.trust_region import StoppingRule, TrustRegionRun
from .gnc import Graduation, Point, RobustRun
from .reweighting import Reweighting

FIXES = ('pose_priors', 'point_priors')
"""Tables of absolute positions and poses."""


class RobustStarts:
    """The graduated solves of one problem, by the start that each begins from."""

    def __init__(
        self, schur: SchurOperator, config: RobustConfig, rule: StoppingRule,
        observer: Callable[[int, float, Array], None] | None, machine: ComputeBackend,
    ) -> None:
        self.problem, self.config = schur.problem, config
        self.reweighting = Reweighting(schur, config)
        self._graduation = Graduation(self.reweighting, config, rule, observer, machine)
        self._mu = config.mu_start if config.gnc else 1.0

    def from_estimate(self, estimate: Estimate, *, robust: bool = False) -> RobustRun:
        """From an estimate and its residuals; `robust` says that outliers did not bend it."""
        numbers = thresholds.current()
        start = Point(self.problem.pack(estimate), self.reweighting.squares_of(estimate))
        mu = min(self._mu, numbers.robust_start_width) if robust else self._wide(start)
        divisor = self.config.mu_divisor**numbers.warm_schedule_power
        return self._graduation.run(start, mu, divisor)

    def from_trusted(self, init: str, seed: int) -> RobustRun:
        """From a named start at rank d, positions fitted to the trusted measurements alone."""
        y = start_point(self.problem, init, self.problem.manifold.d, seed)
        if not self.config.gnc:
            return self._graduation.run(
                Point(y, np.zeros(len(self.reweighting.c2))), 1.0, 1.0)
        self.reweighting.apply(np.where(self.reweighting.doubted, 0.0, 1.0))
        squares, y = self.reweighting.settle(y)
        start = Point(y, squares)
        return self._graduation.run(start, self._wide(start), self.config.mu_divisor)

    def from_relaxation(self, relaxed: TrustRegionRun) -> RobustRun:
        """From a relaxed solution of unit weights: graduated there, rounded, and again at rank d.

        Weights carry over from the relaxation to its rounding through the residuals.
        """
        divisor = self.config.mu_divisor
        squares, y = self.reweighting.settle(relaxed.y)
        start = Point(y, squares)
        lifted = self._graduation.descend(start, self._wide(start), divisor)
        squares, y = self.reweighting.settle(
            round_to_rotations(self.problem.manifold, lifted.y))
        mu = min(self._mu, thresholds.current().robust_start_width)
        return self._graduation.run(Point(y, squares), mu, divisor)

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
