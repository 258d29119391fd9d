"""When a solve from scratch is due: the rules of the session, apart from its bookkeeping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...config.backend import BackendConfig
from ...graph import Estimate, Graph, squared_residuals
from .odometry_segments import OdometrySegments, measured_pairs

Mask = NDArray[np.bool_]

RANGES_REFUSED = 0.5
"""Share of new ranges whose rejection is not taken for granted."""


@dataclass(frozen=True)
class GraphSummary:
    """What the graph looked like at a solve from scratch."""

    anchored: bool
    rows: int
    """Closures, sightings, ranges and absolute data in the part that was solved."""
    cost: float = 0.0
    """Of the solution, at unit weights."""


def picture(graph: Graph, segments: OdometrySegments, part: Mask, anchored: bool) -> GraphSummary:
    """The present picture, not solved yet; `part` (b + m,) masks what is to be solved."""
    pairs = measured_pairs(graph, segments)
    rows = int(np.sum(part[pairs[:, 0]] & part[pairs[:, 1]]))
    rows += int(np.sum(part[segments.variable(graph.absolute_endpoints())]))
    return GraphSummary(anchored, rows)


def full_solve_reason(
    last: GraphSummary | None, now: GraphSummary, *, determined: bool, newly_located: bool,
    idle: bool, config: BackendConfig,
) -> str:
    """Why a solve from scratch is due after a warm one, or ''.

    While nothing but the gauge is `determined`, every basin is as good as another, and a solve
    from scratch is slow for it: there is nothing to gain.
    """
    if now.rows == 0 or not determined:
        return ''
    if last is None:
        return 'first solve'
    if last.anchored != now.anchored:
        return 'the frame of map has changed'
    if newly_located:
        return 'a robot has become determined'
    if idle and now.rows >= config.idle_polish_growth * last.rows:
        return 'idle'
    if config.full_solve_growth > 0 and now.rows > config.full_solve_growth * last.rows:
        return 'the graph has grown'
    expected = last.cost * now.rows / max(last.rows, 1)
    if now.rows > 1.1 * last.rows and now.cost > config.cost_growth * expected + 10:
        return 'the cost has grown out of proportion'
    return ''


def astray(
    graph: Graph, estimate: Estimate, since_ns_rows: tuple[int, int],
    weights: dict[str, NDArray[np.float64]], config: BackendConfig,
) -> bool:
    """Whether the newest ranges and closures contradict an estimate more than noise does.

    `since_ns_rows` counts the ranges and relative poses that were in the solve before.
    Measurements that the robust kernel rejects do not count.
    """
    squares = squared_residuals(graph, estimate)
    new, old = [], []
    closure = ~graph.relative_poses.odometry
    for name, before, chosen in (
        ('ranges', since_ns_rows[0], np.ones(len(graph.ranges), dtype=bool)),
        ('relative_poses', since_ns_rows[1], closure),
    ):
        good = chosen & (weights.get(name, np.ones(len(chosen))) >= config.rejected_weight)
        rows = np.arange(len(good))
        new.append(squares[name][good & (rows >= before)])
        old.append(squares[name][good & (rows < before)])
    newest, older = np.concatenate(new), np.concatenate(old)
    if not len(newest):
        return False
    base = float(np.sqrt(np.mean(older))) if len(older) else 0.0
    return contradicts(float(np.sqrt(np.mean(newest))), base, len(newest), config)


def refused(
    graph: Graph, estimate: Estimate, before: tuple[int, int],
    weights: dict[str, NDArray[np.float64]], config: BackendConfig,
) -> float:
    """Largest squared residual of a new measurement that a robust kernel rejected without a trial.

    `before` counts the ranges and relative poses that were in the solve before. A closure after
    a long drift is as far off as a false one; so is most of what a robot measures that comes
    back after a long drift. 0 where no closure and less than half of the ranges are rejected:
    single ranges say little, and some are always false.
    """
    squares = squared_residuals(graph, estimate)
    worst = 0.0
    for name, first, chosen, share in (
        ('ranges', before[0], np.ones(len(graph.ranges), dtype=bool), RANGES_REFUSED),
        ('relative_poses', before[1], ~graph.relative_poses.odometry, 0.0),
    ):
        new = chosen & (np.arange(len(chosen)) >= first)
        out = new & (weights.get(name, np.ones(len(chosen))) < config.rejected_weight)
        if np.any(out) and np.count_nonzero(out) >= share * np.count_nonzero(new):
            worst = max(worst, float(np.max(squares[name][out])))
    return worst


def contradicts(newest: float, older: float, count: int, config: BackendConfig) -> bool:
    """Whether the rms residual of `count` newest measurements is out of proportion."""
    return count >= 3 and (
        newest > config.cost_jump_sigma and newest > config.cost_jump_ratio * older)
