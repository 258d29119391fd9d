"""A robust trajectory: which start the graduated solve gets and how far it graduates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...config import RobustConfig
from ...graph import Estimate
from ..initialize.initialization import start_point
from ..manifold.rounding import round_to_rotations
from ..model.schur import SchurOperator
from ..optimize.compute_backend import ComputeBackend
from ..optimize.trust_region import StoppingRule, TrustRegionRun
from .gnc import Graduation, RobustRun
from .reweighting import Reweighting

Array = NDArray[np.float64]

_WARM_STRIDE = 4
"""A graduation from a given estimate takes so many steps of the schedule at once."""
_NEAR = 4.0
"""First kernel width, in c^2, from a start that was found robustly."""


@dataclass
class RobustTrajectory:
    """The robust solves of one problem from its several starts."""

    schur: SchurOperator
    config: RobustConfig
    rule: StoppingRule
    observer: Callable[[int, float, Array], None] | None
    machine: ComputeBackend = field(default_factory=ComputeBackend)

    def __post_init__(self) -> None:
        self.problem = self.schur.problem
        self.reweighting = Reweighting(self.schur, self.config)
        self.graduation = Graduation(
            self.reweighting, self.config, self.rule, self.observer, self.machine)
        self._mu = self.config.mu_start if self.config.gnc else 1.0

    def from_estimate(self, estimate: Estimate, *, robust: bool = False) -> RobustRun:
        """From an estimate and its residuals; `robust` says that outliers did not bend it."""
        mu = min(self._mu, _NEAR) if robust else self._mu
        return self.graduation.run(
            self.problem.pack(estimate), self.reweighting.squares_of(estimate), mu,
            self.config.mu_divisor**_WARM_STRIDE)

    def from_trusted(self, init: str, seed: int) -> RobustRun:
        """From a named start at rank d, with positions that only trusted measurements shape."""
        y = start_point(self.problem, init, self.problem.manifold.d, seed)
        if not self.config.gnc:
            return self.graduation.run(y, np.zeros(len(self.reweighting.c2)), 1.0, 1.0)
        self.reweighting.apply(np.where(self.reweighting.doubted, 0.0, 1.0))
        squares, y = self.reweighting.settle(y)
        return self.graduation.run(y, squares, self._mu, self.config.mu_divisor)

    def from_relaxation(self, relaxed: TrustRegionRun) -> RobustRun:
        """From a relaxed solution of unit weights: graduated there, rounded, and again at rank d.

        Rounding needs no robust start of its own: weights carry over through the residuals.
        """
        squares, y = self.reweighting.settle(relaxed.y)
        divisor = self.config.mu_divisor
        y, squares = self.graduation.descend(y, squares, self._mu, divisor, relaxed)
        squares, y = self.reweighting.settle(round_to_rotations(self.problem.manifold, y))
        return self.graduation.run(y, squares, min(self._mu, _NEAR), divisor)
