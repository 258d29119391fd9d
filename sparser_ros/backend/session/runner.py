"""Calls of the solver on a frame's part; a failure is a result, never an exception."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...config import SparserError
from ...graph import Estimate, Graph, cost
from ...solver import solve
from ...solver.result import SolveResult, SolveStats, SolveStatus
from ...solver.solve_context import Progress
from .frame import Frame
from .interlude import SHARE

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


class Runner:
    """Runs the solver; every start from scratch takes the next seed."""

    def __init__(self, bounded: bool) -> None:
        self._bounded = bounded
        self._trials = 0
        self.cost_relaxed: float | None = None
        """Of the last solve from scratch; None where it solved no relaxation of the whole."""

    def run(self, frame: Frame, config: SparserConfig, guess: Estimate) -> SolveResult:
        """A warm start at rank d from a guess of the whole graph."""
        return self._call(
            frame, config, frame.part.of(guess), config.solver.seed, config.solver.time_limit_s)

    def run_from_scratch(
        self, frame: Frame, config: SparserConfig, progress: Progress | None = None
    ) -> SolveResult:
        """A low-rank solve without any initial guess; in time, where the runner is bounded."""
        limits = [config.solver.time_limit_s]
        if self._bounded:
            limits.append(config.backend.full_solve_limit_s)
        limit = min((one for one in limits if one > 0), default=0.0)
        if progress is not None:
            # What is solved in between is not this solve's time.
            limit /= 1 - SHARE
        result = self._call(frame, config, None, config.solver.seed + self._trials, limit,
                            progress)
        self._trials += 1
        # What ran out of time is no bound.
        self.cost_relaxed = result.stats.cost_relaxed if result.status.solved else None
        return result

    def _call(
        self, frame: Frame, config: SparserConfig, initial: Estimate | None, seed: int,
        time_limit_s: float, progress: Progress | None = None,
    ) -> SolveResult:
        graph = frame.part.graph
        if initial is not None and odometry_only(graph):
            stats = SolveStats(
                graph.dimension, 'odometry', 'none', 'cpu', 'none',
                cost_final=cost(graph, initial))
            return SolveResult(initial, SolveStatus.CONVERGED, 'odometry alone', stats)
        try:
            solver = replace(config.solver, seed=seed, time_limit_s=time_limit_s)
            return solve(graph, solver, initial=initial, progress=progress)
        except (SparserError, np.linalg.LinAlgError, ValueError) as error:
            stats = SolveStats(graph.dimension, 'none', config.solver.formulation, 'cpu', 'none')
            return SolveResult(initial, SolveStatus.FAILED, str(error), stats)


def value_of(result: SolveResult) -> float:
    """The cost that results are compared by; infinite for failures."""
    if result.estimate is None or result.status is SolveStatus.FAILED:
        return float('inf')
    stats = result.stats
    value = stats.cost_robust if stats.cost_robust is not None else stats.cost_final
    return float('inf') if value is None else float(value)


def odometry_only(graph: Graph) -> bool:
    """True where composing the odometry is the optimum, of cost zero."""
    return graph.n_measurements == int(np.sum(graph.relative_poses.odometry))
