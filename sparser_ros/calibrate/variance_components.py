"""How far the residuals of odometry contradict its claimed variances: score and information.

The map follows single steps of odometry nearly altogether; what many ranges say of long stretches
is the rest. With whitened residuals r = R e, R = I - J (J^T J)^-1 J^T, and rows g of one source,
the sum of squares |r_g|^2 has the expectation tr R_gg (redundancy) where the claims are right. The
score of restricted maximum likelihood by the logarithm of the variance of g is half of the excess
|r_g|^2 - tr R_gg, its Fisher information half of tr R_gh R_hg (Patterson and Thompson 1971; the
same equations as Helmert's of 1907). Traces are estimated with random signs (Hutchinson).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..array_types import Array, Index
from ..graph import Estimate, Graph, RotationResidual
from ..graph.precision import chi_square_kappa

PROBES = 12
"""Random signs for each source; the redundancy is uncertain by 1 / sqrt(12) of what the sum of
squares is."""


@dataclass(frozen=True)
class VarianceComponents:
    """Of the sources of odometry: translations of all robots, then rotations."""

    excess: Array
    """(g,): sums of squared whitened residuals minus redundancies."""
    fisher: Array
    """(g, g): tr R_gh R_hg, what the unknown noise of the ranges takes subtracted."""
    with_ranges: Array
    """(g,): tr R_gr R_rg, by which errors of ranges reach the sums of squares."""
    with_others: Array
    """(g,): the same of all else in the graph: closures, sightings, fixes."""


def sources(graph: Graph) -> Index:
    """(e,): the robot whose odometry an edge is; -1 for closures."""
    rel = graph.relative_poses
    return np.asarray(np.where(rel.odometry, graph.poses.robot[rel.i], -1))


def variance_components(
    J: sp.csr_matrix, solve: Callable[[Array], Array], graph: Graph, estimate: Estimate,
    turns: slice, moves: slice, ranges: slice, free_ranges: float,
) -> VarianceComponents:
    """At an optimum of `graph`, headings counted as their noise says; `J` is its Jacobian.

    `solve` applies (J^T J)^-1; `turns`, `moves` and `ranges` are rows of `J`. `free_ranges` is the
    weight of all ranges less what the map follows of them.
    """
    robots = len(graph.robots)
    group = _groups(graph, J.shape[0], turns, moves)
    found = _squares(graph, estimate)
    random = np.random.default_rng(1)
    excess, with_ranges, with_others = np.zeros((3, 2 * robots))
    fisher = np.zeros((2 * robots, 2 * robots))
    inside = group >= 0
    for g in range(2 * robots):
        rows = np.flatnonzero(group == g)
        if not len(rows):
            continue
        signs = random.choice([-1.0, 1.0], (len(rows), PROBES))
        left = -(J @ solve(J[rows].T @ signs))
        left[rows] += signs
        squares = np.sum(left**2, axis=1) / PROBES
        excess[g] = found[g] - np.sum(signs * left[rows]) / PROBES
        fisher[g] = np.bincount(group[inside], squares[inside], 2 * robots)
        with_ranges[g] = np.sum(squares[ranges])
        with_others[g] = np.sum(squares[~inside]) - with_ranges[g]
    # R is a projection: tr R_rr = tr R_rr R_rr + sum over the other sources of tr R_rg R_gr.
    of_ranges = free_ranges - float(np.sum(with_ranges))
    if of_ranges > 0:
        fisher = fisher - np.outer(with_ranges, with_ranges) / of_ranges
    return VarianceComponents(excess, (fisher + fisher.T) / 2, with_ranges, with_others)


def _groups(graph: Graph, rows: int, turns: slice, moves: slice) -> Index:
    """(rows,): source of every row of the Jacobian, -1 = not odometry."""
    group = np.full(rows, -1, dtype=np.int64)
    robots, robot = len(graph.robots), sources(graph)
    for part, offset in ((moves, 0), (turns, robots)):
        each = np.where(robot >= 0, robot + offset, -1)
        group[part] = np.repeat(each, (part.stop - part.start) // max(len(each), 1))
    return group


def _squares(graph: Graph, estimate: Estimate) -> Array:
    """(2 robots,): sums of squared whitened residuals, translations and then rotations."""
    rel, robots = graph.relative_poses, len(graph.robots)
    robot, sums = sources(graph), []
    honest = rel.replaced(kappa=chi_square_kappa(rel.kappa, graph.dimension))
    (kind,) = [kind for kind, _ in graph.typed() if kind.name == 'relative_poses']
    parts = sorted(kind.residuals(honest), key=lambda part: isinstance(part, RotationResidual))
    for part in parts:
        squares = part.squares(estimate.points, estimate.rows)
        sums.append(np.bincount(robot[robot >= 0], squares[robot >= 0], robots))
    return np.concatenate(sums)
