"""Calls of the solver; a failure is a result, never an exception."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ...graph import Estimate, Graph, cost
from ...solver import solve
from ...solver.result import SolveResult, SolveStats, SolveStatus
from .quarantine import FAILURES

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


def run(graph: Graph, config: SparserConfig, guess: Estimate) -> SolveResult:
    """A warm start at rank d from a guess."""
    return _call(graph, config, guess, config.solver.seed, config.solver.time_limit_s)


def run_from_scratch(
    graph: Graph, config: SparserConfig, trial: int, limit_s: float = 0.0
) -> SolveResult:
    """A low-rank solve without an initial guess; within `limit_s` of wall time, 0 = no limit.

    `trial` counts starts: each has a seed of its own.
    """
    limits = [one for one in (config.solver.time_limit_s, limit_s) if one > 0]
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
    tied = len(graph.ranges) + len(graph.sightings) + len(graph.pose_priors)
    return tied + len(graph.point_priors) + int((~graph.relative_poses.odometry).sum()) == 0
