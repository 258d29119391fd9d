"""Several solves of one graph from different starts, compared by their robust cost."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array
from ...graph import Estimate, Graph, squared_residuals
from ...solver.result import SolveResult
from ...solver.robust import squared_threshold
from .frame import Frame
from .gauge import at_origin
from .runner import odometry_only, run, run_from_scratch, value_of
from .treatment import Treated

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

SAME_COST = 1e-3
"""Share of the cost within which two solves count as the same answer."""
_SAME_MAP = 1e-4
"""Share of the cost that a map from another start must gain, or the present one stays."""
WIDEST = 1e6
"""Kernel width, in c^2, up to which something new is believed at first."""
_RANGES_REFUSED = 0.5
"""Share of new ranges whose rejection is not taken for granted."""


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
        data: Treated,
    ) -> None:
        self.frame, self.guess, self.pose, self.config = frame, guess, pose, config
        self.data = data
        """The graph that the frame is of, and the treatment that made it."""
        self.candidates: list[Candidate] = []

    def under(self, data: Treated) -> Contest:
        """The same candidates as the start of what follows under another treatment."""
        other = copy(self)
        other.data = data
        return other

    @property
    def best(self) -> Candidate:
        """The least robust cost; the first candidate, the present map, where it is as good."""
        first = self.candidates[0]
        least = min(self.candidates, key=lambda one: one.value)
        if not least.value < first.value - _SAME_MAP * abs(first.value) - 1e-9:
            return first
        return least

    def add(self, start: str, result: SolveResult) -> Candidate:
        """Enter a solve of the frame's subgraph."""
        whole = self.guess
        if result.estimate is not None:
            own = result.estimate
            if self.frame.gauge is not None:
                own = at_origin(
                    own, self.frame.gauge_row, self.pose, self.frame.subgraph.graph)
            whole = self.frame.subgraph.into(self.guess, own)
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
        """False where composing the odometry is the only solution."""
        return not odometry_only(self.frame.subgraph.graph)

    def from_scratch(self, starts: int, first_trial: int, limit_s: float) -> SearchEnd:
        """Low-rank solves without a guess, until two agree on the least cost.

        `limit_s` of wall time bounds all of them together; 0 = no limit. With a limit a map that
        excludes all others so far ends the search, to be handed over at once.
        """
        graph, deadline = self.frame.subgraph.graph, time.monotonic() + limit_s
        margin = self.config.backend.observability.flip_cost
        for trial in range(first_trial, first_trial + starts):
            left = max(deadline - time.monotonic(), 0.0)
            if limit_s and trial > first_trial and left < limit_s / 4:
                # The last start took most of the time: another one would be cut off.
                return SearchEnd.LIMIT
            least = self.best.value
            result = run_from_scratch(graph, self.config, trial, left if limit_s else 0.0)
            cut = not result.status.solved
            if cut and result.estimate is not None and value_of(result) < float('inf'):
                # Out of time: what is left to do from its iterate is a warm start's work.
                result = run(graph, self.config, result.estimate)
            value = self.add(f'scratch {trial}', result).value
            if abs(value - least) <= SAME_COST * min(least, value):
                return SearchEnd.AGREED
            if limit_s and least - value > margin:
                return SearchEnd.FAR_BETTER
            if limit_s and cut:
                return SearchEnd.LIMIT
        return SearchEnd.TRIED

    def from_hypothesis(self, name: str, whole: Estimate) -> None:
        """From another placement of robots or landmarks."""
        subgraph = self.frame.subgraph
        self.add(name, run(subgraph.graph, self.config, subgraph.of(whole)))

    def rivals(self, margin: float) -> list[Candidate]:
        """Candidates whose cost is within `margin` (chi-square units) of the best."""
        best = self.best
        return [one for one in self.candidates
                if one is not best and one.value - best.value < margin]


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
