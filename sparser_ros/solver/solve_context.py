"""The stages a solve is made of: relaxation, rounding, refinement, on one clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..config import SolverConfig
from ..graph import Graph
from ..linalg.arrays import HOST
from .initialize.connection_laplacian import ConnectionLaplacian
from .initialize.initialization import spectral_start
from .manifold.rounding import reduce_rank, round_to_rotations
from .model.problem import QuadraticProblem
from .model.schur import SchurOperator
from .optimize.compute_backend import choose
from .optimize.formulations import formulate
from .optimize.trust_region import Preconditioner, StoppingRule, TrustRegionRun
from .precondition.adaptive import AdaptivePreconditioner
from .precondition.frozen_gauss_newton import FrozenGaussNewtonPreconditioner, pays_at_once
from .precondition.newton import NewtonPreconditioner
from .precondition.regularised_q import RegularisedQ

Array = NDArray[np.float64]
Progress = Callable[[str, int, float], None]

ROUGH, EARLY, LATER, REFINED, TO_TARGET = 1000.0, 100.0, 10.0, 1e-3, 1e-4
"""Multiples of the configured cost tolerance: a thinned start, early rounding and a second one,
refinement, a given target."""
ROUNDING_GAP = 1.5
"""Refined over relaxed cost beyond which rounding has gone astray."""
_POLISHED = 1e-16
"""Gradient tolerance of polishing, which the certificate needs."""
_RELAX_SHARE = 0.6
_SHORT = 0.1
"""T^T Q T is stiffer than the Hessian: the gain that it expects of an iteration falls short, by up
to a factor of six (city10000)."""
_POOR = 1.25
"""Cost of a start over that of its end."""


@dataclass
class Tally:
    """Figures that add up over the stages of a solve."""

    iterations: int = 0
    cg_steps: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def count(self, run: TrustRegionRun) -> TrustRegionRun:
        self.iterations += run.iterations
        self.cg_steps += run.cg_steps
        return run


class SolveContext:
    """One graph's problem, and what can be done with it; figures add up in `tally`."""

    def __init__(self, graph: Graph, config: SolverConfig, progress: Progress | None) -> None:
        self.start = time.perf_counter()
        self.graph, self.config, self.progress = graph, config, progress
        self.deadline = (
            self.start + config.time_limit_s if config.time_limit_s > 0 else math.inf)
        self.relax_until = math.inf
        if config.target_cost is None and config.time_limit_s > 0:
            # An unrounded relaxation is no trajectory: keep time for the refinement.
            self.relax_until = self.start + _RELAX_SHARE * config.time_limit_s
        self.tally = Tally()
        self.relaxed_for = 0.0
        """Seconds that the relaxation took so far, thinned graph included."""
        self._preconditioner: RegularisedQ | None = None
        self._rigid: FrozenGaussNewtonPreconditioner | None = None
        self._switching: AdaptivePreconditioner | None = None
        self.machine = choose(config, graph)
        self.problem = QuadraticProblem(graph)
        self.schur = SchurOperator(self.problem)
        self.space = formulate(config.formulation, self.schur)
        self.clock('setup', self.start)

    def relax(self, y: Array, looser: float, radius: float = math.inf) -> TrustRegionRun:
        """Low-rank relaxation by the matrix-free trust region (paper, section VI).

        A run that is taken up again starts with the radius that it ended with.
        """
        t = time.perf_counter()
        preconditioner = self.regularised()
        self.clock('setup', t)
        t = time.perf_counter()
        run = self.space.minimise(
            y, preconditioner,
            self.rule(looser, self.config.target_cost, self.relax_until), self.observer('relax'),
            self.machine, radius=radius, long=True)
        self.clock('solve', t)
        run.trace = [(seconds + self.relaxed_for, cost) for seconds, cost in run.trace]
        self.relaxed_for += time.perf_counter() - t
        return self.tally.count(run)

    def descend(self, relaxed: TrustRegionRun) -> TrustRegionRun:
        """Rounding to rank d and refinement; one rank at a time where the jump costs too much."""
        manifold, d = self.problem.manifold, self.graph.dimension
        best = self.refine(round_to_rotations(manifold, relaxed.y))
        if best.cost > ROUNDING_GAP * relaxed.cost + 1e-9 and relaxed.y.shape[1] > d + 1:
            y = relaxed.y
            for rank in range(y.shape[1] - 1, d, -1):
                y = self.refine(reduce_rank(manifold, y, rank), newton=rank == d + 1).y
            other = self.refine(round_to_rotations(manifold, y))
            best = min(best, other, key=lambda run: run.cost)
        return best

    def polish(self, y: Array) -> TrustRegionRun:
        """Refinement until rounding errors stop it."""
        return self.refine(y, looser=0.0)

    def refine(
        self, y: Array, newton: bool = True, looser: float = REFINED, at_most: int = 0
    ) -> TrustRegionRun:
        """Trust region at the rank of y, with the preconditioner that suits the graph.

        Ranges are stiff along one direction that the columns of Y share, so only the coupled
        Hessian sees them: its factor pays (tiers: 3 steps instead of thousands of CG steps).
        Without ranges Q itself is near the Hessian, and its factor is far sparser.
        """
        t = time.perf_counter()
        newton = newton and len(self.graph.ranges) > 0 and not self.graph.free_scale
        rule = self.rule(looser)
        rigid = self._rigid if y.shape[1] == self.graph.dimension else None
        preconditioner: Preconditioner
        if newton:
            preconditioner = NewtonPreconditioner(self.schur)
        elif rigid is not None:
            preconditioner = rigid
        elif y.shape[1] == self.graph.dimension and self._switches():
            preconditioner = self._switching = self._switching or AdaptivePreconditioner(
                self.regularised(), self.schur)
            rule = replace(
                rule, max_cg_steps=min(rule.max_cg_steps, preconditioner.patience))
        else:
            preconditioner = self.regularised()
        if looser and not newton and not self.config.certify:
            # What an iteration more would gain is known before it is made. A certificate needs
            # every digit.
            share = 1.0 if rigid is None else _SHORT
            rule = replace(rule, gradient_tolerance=max(
                rule.gradient_tolerance, share * self.config.cost_tolerance))
        if at_most:
            rule = replace(rule, max_iterations=min(at_most, rule.max_iterations))
        run = self.space.minimise(
            y, preconditioner, rule, self.observer('refine'), self.machine)
        self.clock('refine', t)
        return self.tally.count(run)

    def _switches(self) -> bool:
        """Whether refinements may change their preconditioner: those of poses, on the CPU."""
        if len(self.graph.ranges) or self.graph.free_scale:
            return False
        return self.machine.arrays is HOST or not self.machine.takes(self.regularised())

    def spectral(self, rigid: bool = True) -> Array | None:
        """Rank-d start of a pose graph by eigenvectors, None where they do not tell rotations.

        With `rigid`, where the preconditioner of rigid motions pays from the first step on, those
        of the connection Laplacian, and refinements from there use that preconditioner.
        """
        t = time.perf_counter()
        self._rigid = None
        inverse: ConnectionLaplacian | RegularisedQ
        if rigid and pays_at_once(self.schur) and self._switches():
            self._rigid = FrozenGaussNewtonPreconditioner(self.schur)
            inverse = ConnectionLaplacian(self.graph, self._rigid.prepare())
        else:
            inverse = self.regularised()
        y = spectral_start(self.problem.manifold, inverse.apply)
        self.clock('setup', t)
        return y

    def compared(self, refined: TrustRegionRun, started: Array) -> TrustRegionRun:
        """A refinement of rigid motions from `started`, or a better one where that was poor.

        From there it ends in neighbouring minima more often than with rotations that may stretch
        (MIT with 0.1 rad more noise: one of eight). Where it did, the start had cost 1.38 times
        the end or more; without noise added, 1.13 times at most.
        """
        if self._rigid is None or refined.trace[0][1] <= _POOR * refined.cost:
            return refined
        y = self.spectral(rigid=False)
        other = self.refine(started if y is None else y)
        return min(refined, other, key=lambda run: run.cost)

    def regularised(self) -> RegularisedQ:
        if self._preconditioner is None:
            self._preconditioner = RegularisedQ(self.schur)
            if self.machine.arrays is HOST:
                self._preconditioner.factor(HOST)
        return self._preconditioner

    def rule(
        self, looser: float, target: float | None = None, until: float = math.inf
    ) -> StoppingRule:
        config = self.config
        return StoppingRule(
            max_iterations=config.max_iterations,
            max_cg_steps=config.max_cg_steps,
            gradient_tolerance=config.gradient_tolerance if looser else _POLISHED,
            cost_tolerance=config.cost_tolerance * looser,
            target_cost=-math.inf if target is None else target,
            deadline=min(self.deadline, until),
        )

    def observer(self, stage: str) -> Callable[[int, float, Array], None] | None:
        progress = self.progress
        if progress is None:
            return None
        return lambda iteration, cost, _: progress(stage, iteration, cost)

    def clock(self, stage: str, since: float) -> None:
        seconds = self.tally.seconds
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - since
