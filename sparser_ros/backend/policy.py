"""When a solve from scratch is due: the rules of the session, apart from its bookkeeping."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..config.backend import BackendConfig
from ..graph import Estimate, Graph, squared_residuals
from .bodies import Bodies, measured_pairs

Index = NDArray[np.int64]


@dataclass
class Picture:
    """What the graph looked like at the last solve from scratch."""

    anchored: bool = False
    rows: int = 0
    """Closures, sightings and ranges in the part that was solved."""
    rows_of: dict[int, int] = field(default_factory=dict)
    """The same per body of that part."""


def picture(graph: Graph, bodies: Bodies, part: NDArray[np.bool_], anchored: bool) -> Picture:
    """The present picture: rows per body of the solved part (bodies and landmarks masked)."""
    pairs = measured_pairs(graph, bodies)
    inside = part[pairs[:, 0]] & part[pairs[:, 1]] & (pairs[:, 0] != pairs[:, 1])
    count = np.bincount(pairs[inside].ravel(), minlength=len(part))
    return Picture(
        anchored, int(np.sum(inside)),
        {body: int(count[body]) for body in np.flatnonzero(part[:len(bodies)]).tolist()})


def full_solve_reason(
    last: Picture | None, now: Picture, unlocated: set[int], config: BackendConfig,
    dimension: int,
) -> str:
    """Why a solve from scratch is due before anything is solved, or ''."""
    if last is None:
        return 'first solve'
    if last.anchored != now.anchored:
        return 'absolute data now fix the frame' if now.anchored else 'absolute data are gone'
    least = 3 if dimension == 2 else 6
    for body, rows in now.rows_of.items():
        before = last.rows_of.get(body, 0)
        if body not in last.rows_of and rows >= least:
            return 'newly connected'
        if body in unlocated and before < least <= rows:
            return 'newly connected'
        if body in unlocated and rows > max(1.5, config.full_solve_growth ** 0.5) * before:
            return 'more data of what is not located yet'
    if config.full_solve_growth > 0 and now.rows > config.full_solve_growth * max(last.rows, least):
        return 'the graph has grown'
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
    if len(newest) < 3:
        return False
    rms = float(np.sqrt(np.mean(newest)))
    base = float(np.sqrt(np.mean(older))) if len(older) else 0.0
    return rms > config.cost_jump_sigma and rms > config.cost_jump_ratio * base
