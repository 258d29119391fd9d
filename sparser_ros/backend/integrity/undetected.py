"""What faults that the tests miss may do to the newest positions: minimum detectable biases.

A fault of size theta along G moves the estimate by M theta, M being rows of (J^T J)^-1 J^T G, and
is found where its score passes the threshold T of its test (selection.py). Along a unit vector u
that fails with probability p at most for |theta| >= floor + (sqrt T + z) / sqrt(u^T A u), with
A = G^T P G and z the normal quantile of p. So what goes unseen moves a position by less than

    floor |M| + (sqrt T + z) |M A^(-1/2)|,

spectral norms (reliability of Baarda 1968; slopes of receiver autonomous integrity monitoring).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtri

from ...array_types import Array, Index
from ...config.integrity import IntegrityConfig
from ...graph import Estimate, Graph
from ...linalg.dense.rotations import hat
from .hypotheses import Hypothesis
from .linear_model import Scores
from .selection import DETERMINED

TESTED = frozenset({'range_bias', 'beacon_misplaced', 'odometry_scale', 'odometry_turn'})
"""Faults that go on. A jump or a burst is tested where a residual shows it, and has no size below
which it always hides."""


@dataclass(frozen=True)
class Undetected:
    """Largest error of one robot's newest position by one fault that the tests miss."""

    horizontal_m: float
    vertical_m: float
    """0 in the plane."""
    cause: str
    """The fault that may do most, in words."""


def tail_probability(config: IntegrityConfig) -> float:
    """Probability of a missed fault, and of noise beyond a protection level beside it.

    Half of the integrity risk is that of noise without a fault, half that of faults.
    """
    return min(0.5, 0.5 * config.risk / config.fault_probability)


def undetected_errors(
    graph: Graph, estimate: Estimate, scores: Scores, hypotheses: Sequence[Hypothesis],
    gauge: int | None, false_alarm: float, config: IntegrityConfig,
) -> dict[str, Undetected]:
    """By robot. `gauge` is the pose that map is relative to, None where absolute data fix map."""
    newest = _newest(graph)
    if not newest:
        return {}
    rows = np.array(list(newest.values()), dtype=np.int64)
    moved = _moved(graph, estimate, scores.step, rows, gauge)
    missed = float(-ndtri(tail_probability(config)))
    worst = {robot: Undetected(0.0, 0.0, '') for robot in newest}
    end = 0
    for one in hypotheses:
        begin, end = end, end + one.columns.shape[1]
        if one.kind not in TESTED:
            continue
        A = scores.information[begin:end, begin:end]
        threshold = float(chdtri(end - begin, false_alarm / one.tests))
        hidden = _inverse_root(A, scores.bare[begin:end]) * (np.sqrt(threshold) + missed)
        for number, robot in enumerate(newest):
            M = moved[number][:, begin:end]
            flat, up = (_reach(part, hidden, one.floor) for part in (M[:2], M[2:]))
            before = worst[robot]
            worst[robot] = Undetected(
                max(flat, before.horizontal_m), max(up, before.vertical_m),
                f'{one.kind} of {one.subject}' if flat > before.horizontal_m else before.cause)
    return worst


def _newest(graph: Graph) -> dict[str, int]:
    """Row of each robot's newest pose."""
    order = np.lexsort((graph.poses.index, graph.poses.robot))
    robot = graph.poses.robot[order]
    last = np.flatnonzero(np.append(robot[1:] != robot[:-1], True)[: len(order)])
    return {graph.robots[int(robot[k])]: int(order[k]) for k in last}


def _moved(
    graph: Graph, estimate: Estimate, step: Array, rows: Index,
    gauge: int | None,
) -> Array:
    """(r, d, k): how far positions move by each parameter, the gauge pose being at rest."""
    d = graph.dimension
    turns = 1 if d == 2 else 3
    size = d + turns
    blocks = step[: graph.n_poses * size].reshape(graph.n_poses, size, -1)
    moved = blocks[rows, :d]
    if gauge is None:
        return moved
    arm = estimate.translation[rows] - estimate.translation[gauge]
    spin = np.stack([-arm[:, 1], arm[:, 0]], axis=1)[:, :, None] if d == 2 else -hat(arm)
    return np.asarray(moved - blocks[gauge, :d] - spin @ blocks[gauge, d:])


def _inverse_root(A: Array, bare: Array) -> Array:
    """A^(-1/2); zero along what the data cannot show at all, which is taken as absent."""
    values, vectors = np.linalg.eigh(A)
    shown = values > DETERMINED * bare.min()
    root = np.where(shown, 1 / np.sqrt(np.where(shown, values, 1.0)), 0.0)
    return np.asarray((vectors * root) @ vectors.T)


def _reach(M: Array, hidden: Array, floor: float) -> float:
    """Largest |M theta| of faults that may hide."""
    if not len(M):
        return 0.0
    return float(floor * np.linalg.norm(M, 2) + np.linalg.norm(M @ hidden, 2))
