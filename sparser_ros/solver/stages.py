"""The stages of a solve: relax, refine, round and refine; and what they share."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from ..array_types import Array
from ..config import SolverConfig
from ..graph import Graph
from ..linalg.arrays import HOST
from .compute_backend import choose
from .formulations import FORMULATIONS
from .manifold import reduce_rank, round_to_rotations
from .plan import Plan
from .preconditioner import GaussNewtonPreconditioner, NewtonPreconditioner, RegularisedQ
from .problem import QuadraticProblem
from .schur import SchurOperator
from .start import CoarseGraph, ConnectionLaplacian, coarsen, spectral_start
from .trust_region import CGStop, Observer, StoppingRule, TrustRegionRun

EARLY_ROUNDING = 100.0
"""Multiple of the cost tolerance of a relaxation that is rounded early: refinement by the exact
Hessian finds the same trajectory from a cost good to 1e-3, in a third of the time."""
REFINEMENT = 1e-3
"""Multiple of the cost tolerance of a refinement at rank d."""
FROZEN_GAIN_SHARE = 0.1
"""The gain that T^T Q T predicts falls short of the true one: it is stiffer than the Hessian."""
ROUNDING_GAP = 1.5
"""Refined over relaxed cost above which rounding ended in a bad minimum."""
POOR_START = 1.25
"""Cost of a start over that of its refinement above which another refinement is tried."""
NEGLIGIBLE_COST = 1e-9
"""Difference of costs that decides nothing: no measurement is off by more than 3e-5 sigma."""

EPS = float(np.finfo(float).eps)
Progress = Callable[[str, int, float], None]
"""progress(stage, iteration, cost)"""


@dataclass(frozen=True)
class Deadlines:
    """When a solve and its relaxation end, as values of time.perf_counter(); inf = no limit."""

    relaxation: float = math.inf
    """Earlier than the end: an unrounded relaxation is no trajectory."""
    end: float = math.inf

    @classmethod
    def of(cls, config: SolverConfig) -> Deadlines:
        """Limits of a solve that starts now."""
        limit = config.time_limit_s
        if limit <= 0:
            return cls()
        now = time.perf_counter()
        to_target = config.target_cost is not None
        share = 1.0 if to_target else 0.6
        return cls(now + share * limit, now + limit)


@dataclass
class Tally:
    """Figures that add up over the stages of a solve."""

    iterations: int = 0
    cg_steps: int = 0
    cg_stops: Counter[CGStop] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    ran: str = 'cpu'
    """`gpu` if any part ran there."""
    relaxed_s: float = 0.0
    """Seconds that the relaxation took so far, that of a thinned graph included."""

    def add(
        self, iterations: int, cg_steps: int, cg_stops: Counter[CGStop], ran: str = 'cpu'
    ) -> None:
        """Count work that ran on a backend."""
        self.iterations += iterations
        self.cg_steps += cg_steps
        self.cg_stops += cg_stops
        if ran != 'cpu':
            self.ran = ran

    @contextmanager
    def clocked(self, stage: str) -> Iterator[None]:
        """Add the time that passes inside to a stage, but for that of stages within."""
        begin, within = time.perf_counter(), sum(self.seconds.values())
        yield
        within = sum(self.seconds.values()) - within
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begin - within

    def relaxing(self, since: float) -> None:
        """Add the time since `since` to the relaxation."""
        self.relaxed_s += time.perf_counter() - since


class SolveContext:
    """One graph's problem and the means to solve it; figures add up in `tally`."""

    def __init__(
        self, graph: Graph, config: SolverConfig, deadlines: Deadlines | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.graph, self.config, self.progress = graph, config, progress
        self.deadlines = deadlines or Deadlines.of(config)
        self.tally = Tally()
        with self.tally.clocked('setup'):
            self.backend = choose(config, graph)
            self.problem = QuadraticProblem(graph)
            self.schur = SchurOperator(self.problem)
            self.formulation = FORMULATIONS[config.formulation](self.schur)
        self._regularised: RegularisedQ | None = None
        self.frozen: GaussNewtonPreconditioner | None = None
        """That of a pose graph's refinements where it pays, its factor kept from run to run."""

    @contextmanager
    def thinned(
        self, factor: int, ranges_per_pose: float = math.inf, *, offset_noise: bool = False
    ) -> Iterator[tuple[CoarseGraph, SolveContext]]:
        """A thinned graph and its context, with the same limits; what happens inside is counted.

        With `ranges_per_pose` the context has every k-th range, so that there are at most about so
        many a pose.
        """
        with self.tally.clocked('solve'):
            coarse = coarsen(self.graph, factor, offset_noise=offset_noise)
            graph = coarse.graph
            stride = int(len(graph.ranges) / (ranges_per_pose * max(graph.n_poses, 1))) + 1
            if stride > 1:
                graph = graph.replaced(
                    ranges=graph.ranges.take(np.arange(0, len(graph.ranges), stride)))
            config = replace(self.config, certify=False, target_cost=None)
            inner = SolveContext(graph, config, self.deadlines, self.progress)
            yield coarse, inner
        tally = inner.tally
        self.tally.add(tally.iterations, tally.cg_steps, tally.cg_stops, tally.ran)

    def regularised(self) -> RegularisedQ:
        """(Q + shift)^-1, factorised where it is needed on the CPU."""
        if self._regularised is None:
            self._regularised = RegularisedQ(self.schur)
            if self.backend.arrays is HOST:
                self._regularised.factor(HOST)
        return self._regularised

    def forget_factors(self) -> None:
        """The weights of the problem have changed."""
        self._regularised = self.frozen = None

    def count(self, run: TrustRegionRun) -> TrustRegionRun:
        """Count a run and hand it on."""
        self.tally.add(run.iterations, run.cg_steps, run.cg_stops, self.backend.ran)
        return run

    @property
    def cost_floor(self) -> float:
        """Rounding error of any cost tr(Y^T Q Y): eps tr(Q_cc), whose rows of Y have norm 1."""
        return EPS * float(self.schur.Q_cc.diagonal().sum())

    @property
    def cost_slack(self) -> float:
        """Difference of two costs that tells nothing: negligible, or rounding error."""
        return max(NEGLIGIBLE_COST, self.cost_floor)

    def cost_noise(self, y: Array) -> float:
        """Rounding error of the cost of one point, its positions included.

        Every product in Y^T (Q_cc Y + B X_f) is rounded to eps of its size, so the error of the
        sum is at most about eps sum |Y|^T (|Q_cc| |Y| + |B| |X_f|): positions far from the origin
        add to it.
        """
        free = np.abs(self.schur.points(y)[self.problem.kept])
        size = abs(self.schur.Q_cc) @ np.abs(y) + abs(self.schur.B) @ free
        return EPS * float(np.sum(np.abs(y) * size))

    def rule(
        self, tolerance: float, target: float | None = None, *, relaxing: bool = False
    ) -> StoppingRule:
        """Stopping rule with a multiple of the configured cost tolerance."""
        config = self.config
        return StoppingRule(
            max_iterations=config.max_iterations,
            max_cg_steps=config.max_cg_steps,
            gradient_tolerance=config.gradient_tolerance,
            cost_tolerance=config.cost_tolerance * tolerance,
            cost_floor=self.cost_floor,
            target_cost=-math.inf if target is None else target,
            deadline=self.deadlines.relaxation if relaxing else self.deadlines.end,
        )

    def observer(self, stage: str) -> Observer | None:
        """What the trust region calls at every accepted step of that stage."""
        progress = self.progress
        if progress is None:
            return None
        return lambda iteration, cost, _: progress(stage, iteration, cost)


def spectral(context: SolveContext, *, frozen: bool) -> Array | None:
    """Rotations (n d, d) of a pose graph by the lowest eigenvectors of Q_s, None where they fade.

    With `frozen`, those of the connection Laplacian, which shares its symbolic analysis with the
    preconditioner of the refinements.
    """
    inverse: ConnectionLaplacian | RegularisedQ
    with context.tally.clocked('setup'):
        if frozen:
            context.frozen = GaussNewtonPreconditioner(context.schur)
            inverse = ConnectionLaplacian(context.graph, context.frozen.prepare())
        else:
            inverse = context.regularised()
        return spectral_start(context.problem.manifold, inverse.apply)


def relax(
    context: SolveContext, y: Array, tolerance: float, radius: float = math.inf
) -> TrustRegionRun:
    """Low-rank relaxation by the matrix-free trust region (paper, section 7.1).

    `tolerance` multiplies the configured cost tolerance. A relaxation that is continued starts
    with the trust radius of its last run.
    """
    tally = context.tally
    with tally.clocked('setup'):
        preconditioner = context.regularised()
    begin = time.perf_counter()
    with tally.clocked('solve'):
        run = context.formulation.minimise(
            y, preconditioner, context.rule(tolerance, context.config.target_cost, relaxing=True),
            context.observer('relax'), context.backend, radius=radius)
    run = replace(run, trace=[(seconds + tally.relaxed_s, cost) for seconds, cost in run.trace])
    tally.relaxing(begin)
    return context.count(run)


def refine(
    context: SolveContext, plan: Plan, y: Array, *, newton: bool = True
) -> TrustRegionRun:
    """Trust region at the rank of y, with the preconditioner of the plan.

    Ranges are stiff along one direction that the columns of Y share, so only the coupled Hessian
    sees them. Without ranges Q itself is near the Hessian, and its factor is far sparser.
    `newton` = False uses the factor of Q all the same.
    """
    rule = context.rule(REFINEMENT)
    with context.tally.clocked('refine'):
        preconditioner = _refining(context, plan, y.shape[1], newton)
        exact = type(preconditioner) is NewtonPreconditioner
        share = FROZEN_GAIN_SHARE if preconditioner is context.frozen else 1.0
        if not exact and not context.config.certify:
            # Near the end the predicted gain of an iteration tells whether to make it. A
            # certificate needs every digit.
            rule = replace(rule, gradient_tolerance=max(
                rule.gradient_tolerance, share * context.config.cost_tolerance))
        return context.count(context.formulation.minimise(
            y, preconditioner, rule, context.observer('refine'), context.backend))


def _refining(
    context: SolveContext, plan: Plan, rank: int, newton: bool
) -> NewtonPreconditioner | RegularisedQ:
    """The planned preconditioner, or Q's factor at another rank or where a device holds it."""
    if plan.preconditioner == 'newton' and newton:
        return NewtonPreconditioner(context.schur)
    backend = context.backend
    if plan.preconditioner == 'frozen' and rank == context.graph.dimension and (
            backend.arrays is HOST or not backend.takes(context.regularised())):
        context.frozen = context.frozen or GaussNewtonPreconditioner(context.schur)
        return context.frozen
    return context.regularised()


def refine_from_start(context: SolveContext, plan: Plan, y: Array) -> TrustRegionRun:
    """Refinement without a relaxation.

    With a frozen preconditioner it ends in neighbouring minima more often than with rotations
    that may stretch. Where the start was that poor, the better of both is kept.
    """
    refined = refine(context, plan, y)
    if context.frozen is None or refined.trace[0][1] <= POOR_START * refined.cost:
        return refined
    context.frozen = None
    other_start = spectral(context, frozen=False) if plan.init == 'spectral' else None
    other = refine(
        context, replace(plan, preconditioner='regularised'),
        y if other_start is None else other_start)
    return min(refined, other, key=lambda run: run.cost)


def round_and_refine(
    context: SolveContext, plan: Plan, relaxed: TrustRegionRun
) -> TrustRegionRun:
    """Rounding to rank d and refinement; one rank at a time where the jump costs too much."""
    manifold, d = context.problem.manifold, context.graph.dimension
    best = refine(context, plan, round_to_rotations(manifold, relaxed.y))
    if rounding_failed(context, best, relaxed) and relaxed.y.shape[1] > d + 1:
        y = relaxed.y
        for rank in range(y.shape[1] - 1, d, -1):
            y = refine(
                context, plan, reduce_rank(manifold, y, rank), newton=rank == d + 1).y
        other = refine(context, plan, round_to_rotations(manifold, y))
        best = min(best, other, key=lambda run: run.cost)
    return best


def rounding_failed(
    context: SolveContext, refined: TrustRegionRun, relaxed: TrustRegionRun
) -> bool:
    """Whether a trajectory costs so much more than its relaxation that rounding went wrong.

    Where both costs are zero but for rounding errors their ratio tells nothing.
    """
    if refined.cost <= ROUNDING_GAP * relaxed.cost + NEGLIGIBLE_COST:
        return False
    return refined.cost > context.cost_noise(refined.y)
