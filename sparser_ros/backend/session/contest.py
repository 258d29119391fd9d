"""Several solves of one graph from different starts, compared by their robust cost.

A failure of the solver is a result, never an exception. Maps of the tracker and of audits are
compared by what they cost by the same measurements.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array
from ...graph import Estimate, Graph, cost, squared_residuals
from ...graph.estimate import at_origin
from ...graph.parts import measured
from ...solver import solve
from ...solver.result import SolveResult, SolveStats, SolveStatus
from ...solver.robust import KERNELS, squared_threshold, thresholds
from .continuation import continued, joined_up
from .frame import Frame
from .graph_store import FAILURES
from .solution import TrackedMap
from .treatment import Treated

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig
    from ..integrity.examine import Examination
    from ..integrity.faults import Fault

SAME_COST = 1e-3
"""Share of the cost within which two solves count as the same answer."""
_SAME_MAP = 1e-4
"""Share of the cost that a map from another start must gain, or the present one stays."""
WIDEST = 1e6
"""Kernel width, in c^2, up to which something new is believed at first."""
_RANGES_REFUSED = 0.5
"""Share of new ranges whose rejection is not taken for granted."""
SAME_CHI_SQUARE = 1.0
"""Chi-square by which a map may fit worse: less than one standard deviation."""
RowsUntil = Callable[[int], Mapping[str, int]]
"""Rows by table that a graph had at an increment."""


def run(graph: Graph, config: SparserConfig, guess: Estimate) -> SolveResult:
    """A warm start at rank d from a guess."""
    return _call(graph, config, guess, config.solver.seed, config.solver.time_limit_s)


def run_from_scratch(
    graph: Graph, config: SparserConfig, trial: int, limit_s: float = 0.0
) -> SolveResult:
    """A low-rank solve without an initial guess; within `limit_s` of wall time, 0 = no limit.

    `trial` counts starts: each has a seed of its own.
    """
    limits = [limit for limit in (config.solver.time_limit_s, limit_s) if limit > 0]
    return _call(graph, config, None, config.solver.seed + trial, min(limits, default=0.0))


def _call(
    graph: Graph, config: SparserConfig, initial: Estimate | None, seed: int,
    time_limit_s: float,
) -> SolveResult:
    if initial is not None and odometry_only(graph):
        stats = SolveStats(
            graph.dimension, 'odometry', 'none', 'cpu', 'none', cost_final=cost(graph, initial))
        return SolveResult(initial, SolveStatus.CONVERGED, 'odometry alone', stats)
    try:
        solver = replace(config.solver, seed=seed, time_limit_s=time_limit_s)
        return solve(graph, solver, initial=initial)
    except FAILURES as error:
        stats = SolveStats(graph.dimension, 'none', config.solver.formulation, 'cpu', 'none')
        return SolveResult(
            initial, SolveStatus.FAILED, f'{type(error).__name__}: {error}', stats)


def value_of(result: SolveResult) -> float:
    """The cost that results are compared by; infinite for failures."""
    if result.estimate is None or result.status is SolveStatus.FAILED:
        return float('inf')
    stats = result.stats
    value = stats.cost_robust if stats.cost_robust is not None else stats.cost_final
    return float(value) if value is not None and math.isfinite(value) else float('inf')


def odometry_only(graph: Graph) -> bool:
    """True where composing the odometry is the optimum, of cost zero."""
    return graph.n_measurements == int(np.sum(graph.relative_poses.odometry))


def robust_cost(graph: Graph, estimate: Estimate, config: SparserConfig) -> float:
    """The cost that robust solves minimise: sum of rho over all measurements."""
    robust = config.solver.robust
    kernel, total = KERNELS[robust.kernel], 0.0
    c2 = thresholds(graph, robust, graph.dimension)
    for name, squares in squared_residuals(graph, estimate).items():
        doubted = np.isfinite(c2[name]) & (robust.kernel != 'none')
        total += float(np.sum(squares[~doubted]))
        total += float(np.sum(kernel.rho(squares[doubted], c2[name][doubted])))
    return total


def costs_of(
    frame: Frame, placed: Sequence[int], estimates: Iterable[Estimate], config: SparserConfig,
    until: Mapping[str, int] | None = None,
) -> list[float]:
    """Robust costs of estimates of the whole graph, by the measurements among what is placed.

    `until` counts rows by table: only those count then.
    """
    known = frame.restricted(frame.among(placed))
    graph = known.graph
    if until is not None:
        graph = graph.replaced(**{
            name: table.take(known.rows[name] < until[name])
            for name, table in graph.tables().items()})
    return [robust_cost(graph, known.of(estimate), config) for estimate in estimates]


@unique
class SearchEnd(Enum):
    """Why there are no more starts from scratch."""

    AGREED = 'agreed'
    """Two maps, one of them from scratch, have the same least cost."""
    TRIED = 'tried'
    """All that may be tried were, and the least cost has been found once."""
    FAR_BETTER = 'far better'
    """The last one excludes all maps before it, and nothing has confirmed it yet."""
    LIMIT = 'limit'
    """Out of time."""
    FAILED = 'failed'
    """No start has given a map: nothing has been compared."""


@dataclass(frozen=True)
class Candidate:
    """One solve: a map of the whole graph and its robust cost."""

    start: str
    """present, wide, scratch k, or a hypothesis in words."""
    result: SolveResult
    whole: Estimate
    """In map: the solved subgraph moved to the gauge, the rest as guessed."""
    value: float
    """Robust cost; without a kernel the cost; infinite where the solve failed."""


class Contest:
    """The candidates for one frame so far."""

    def __init__(
        self, frame: Frame, guess: Estimate, pose: tuple[Array, Array], config: SparserConfig,
        data: Treated, unexcluded: Sequence[tuple[str, Estimate]] = (),
    ) -> None:
        self.frame, self.guess, self.pose, self.config = frame, guess, pose, config
        self.data = data
        """The graph that the frame is of, and the treatment that made it."""
        self.unexcluded = unexcluded
        """Maps, in words, that fitted about as well at the audit before: further starts."""
        self.candidates: list[Candidate] = []
        self.examinations: dict[tuple[int, tuple[Fault, ...]], Examination] = {}
        """What monitors say (judgement.py), by `id` of a candidate and the faults that it is solved
        with."""

    def under(self, data: Treated) -> Contest:
        """The same candidates as the start of what follows under another treatment."""
        other = copy(self)
        other.data = data
        return other

    @property
    def best(self) -> Candidate:
        """The least robust cost; the first candidate, the present map, where it is as good."""
        first = self.candidates[0]
        least = min(self.candidates, key=lambda candidate: candidate.value)
        return least if least.value < (1 - _SAME_MAP) * first.value - 1e-9 else first

    def add(self, start: str, result: SolveResult) -> Candidate:
        """Enter a solve of the frame's subgraph."""
        whole = self.guess
        if result.estimate is not None:
            own = result.estimate
            if self.frame.gauge is not None:
                own = at_origin(
                    own, self.frame.gauge_row, self.pose, self.frame.subgraph.graph)
            whole = joined_up(self.frame, self.frame.subgraph.into(self.guess, own))
        candidate = Candidate(start, result, whole, value_of(result))
        self.candidates.append(candidate)
        return candidate

    def from_present(self, before: tuple[int, int]) -> None:
        """From the guess; where that rejects what is new, also with a kernel that believes it.

        `before` counts the ranges and relative poses of the graph that an earlier audit knew.
        """
        subgraph, config = self.frame.subgraph, self.config
        own = subgraph.of(self.guess)
        warm = self.add('present', run(subgraph.graph, config, own))
        robust = config.solver.robust
        if robust.kernel == 'none' or not robust.gnc or warm.result.estimate is None:
            return
        rows = subgraph.rows
        since = (int(np.searchsorted(rows['ranges'], before[0])),
                 int(np.searchsorted(rows['relative_poses'], before[1])))
        worst = refused(
            subgraph.graph, warm.result.estimate, since, warm.result.stats.weights,
            config.backend.rejected_weight)
        mu = min(worst / squared_threshold(robust, 1), WIDEST)
        if mu > robust.mu_start:
            wide = replace(config.solver, robust=replace(robust, mu_start=mu))
            self.add('wide', run(subgraph.graph, replace(config, solver=wide), own))

    @property
    def can_start_from_scratch(self) -> bool:
        """False where nothing but odometry places anybody: composing it is the only solution."""
        return measured(self.frame.subgraph.graph)

    def from_scratch(self, starts: int, first_trial: int, limit_s: float) -> SearchEnd:
        """Low-rank solves without a guess, until two agree on the least cost.

        `limit_s` of wall time bounds all of them together; infinite = no limit. With a limit a map
        that excludes all others so far ends the search, to be handed over at once.
        """
        limited = math.isfinite(limit_s)
        graph, deadline = self.frame.subgraph.graph, time.monotonic() + limit_s
        margin, first = self.config.backend.observability.flip_cost, len(self.candidates)
        for trial in range(first_trial, first_trial + starts):
            left = max(deadline - time.monotonic(), 0.0)
            if limited and trial > first_trial and left < limit_s / 4:
                # The last start took most of the time: another one would be cut off.
                return SearchEnd.LIMIT
            least = self.best.value
            result = run_from_scratch(graph, self.config, trial, left if limited else 0.0)
            cut = result.status is SolveStatus.TIME_LIMIT
            if (result.estimate is not None and not result.status.solved
                    and value_of(result) < float('inf')):
                # What is left to do from its iterate is a warm start's work.
                result = run(graph, self.config, result.estimate)
            value = self.add(f'scratch {trial}', result).value
            if abs(value - least) <= SAME_COST * min(least, value):
                return SearchEnd.AGREED
            if limited and least - value > margin:
                return SearchEnd.FAR_BETTER
            if limited and cut:
                return SearchEnd.LIMIT
        if all(candidate.value == float('inf') for candidate in self.candidates[first:]):
            return SearchEnd.FAILED
        return SearchEnd.TRIED

    def from_hypothesis(self, name: str, whole: Estimate) -> None:
        """From another placement of robots or landmarks."""
        subgraph = self.frame.subgraph
        self.add(name, run(subgraph.graph, self.config, subgraph.of(whole)))

    def rivals(self, margin: float) -> list[Candidate]:
        """Candidates whose cost is within `margin` (chi-square units) of the best."""
        best = self.best
        return [candidate for candidate in self.candidates
                if candidate is not best and candidate.value - best.value < margin]


def refused(
    graph: Graph, estimate: Estimate, before: tuple[int, int], weights: dict[str, Array],
    threshold: float,
) -> float:
    """Largest squared residual of a new measurement that a robust kernel rejected without a trial.

    `before` counts the ranges and relative poses that were known earlier. A closure after a long
    drift is as far off as a false one; so is most of what a robot measures that comes back after
    a long drift. 0 where no closure and less than half of the ranges are rejected: single ranges
    say little, and some are always false.
    """
    squares = squared_residuals(graph, estimate)
    worst = 0.0
    for name, first, chosen, share in (
        ('ranges', before[0], np.ones(len(graph.ranges), dtype=bool), _RANGES_REFUSED),
        ('relative_poses', before[1], ~graph.relative_poses.odometry, 0.0),
    ):
        new = chosen & (np.arange(len(chosen)) >= first)
        out = new & (weights.get(name, np.ones(len(chosen))) < threshold)
        if np.any(out) and np.count_nonzero(out) >= share * np.count_nonzero(new):
            worst = max(worst, float(np.max(squares[name][out])))
    return worst


def is_worse(
    frame: Frame, tracked: TrackedMap | None, best: Estimate, rows_until: RowsUntil,
    config: SparserConfig,
) -> bool:
    """Whether the tracker's map fits its own data worse than the best candidate does.

    The tracker's data alone are compared: what came since moves the best candidate, and will
    move the tracker's map.
    """
    if tracked is None or tracked.anchored != frame.anchored:
        return True
    mine, least = _costs(frame, tracked, tracked.estimate, best, rows_until, config)
    return not mine <= least + max(SAME_COST * least, SAME_CHI_SQUARE)


def has_left(
    frame: Frame, tracked: TrackedMap, audited: TrackedMap | None, rows_until: RowsUntil,
    config: SparserConfig,
) -> bool:
    """Whether the tracker's map fits the data of the last audit much worse than its map did.

    It has left that map: a better one came too late for the newest data, or these pulled it
    away. Data that came since move the optimum of the older ones by less.
    """
    if audited is None or audited.anchored != tracked.anchored:
        return False
    older = audited if audited.sequence <= tracked.sequence else tracked
    mine, least = _costs(frame, older, tracked.estimate, audited.estimate, rows_until, config)
    return mine - least > config.backend.observability.flip_cost


def _costs(
    frame: Frame, known: TrackedMap, first: Estimate, second: Estimate, rows_until: RowsUntil,
    config: SparserConfig,
) -> tuple[float, float]:
    """Robust costs of two estimates of what `known` has placed, by the data that it knew."""
    poses, landmarks = len(known.estimate.translation), len(known.estimate.landmarks)
    mine, other = costs_of(frame, known.placed, (
        continued(frame.graph, frame.segments, Estimate(
            estimate.rotation[:poses], estimate.translation[:poses],
            estimate.landmarks[:landmarks]))
        for estimate in (first, second)), config, rows_until(known.sequence))
    return mine, other
