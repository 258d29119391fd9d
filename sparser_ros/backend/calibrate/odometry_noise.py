"""Variances of odometry against what it claims: a factor for translations and one for rotations.

Each robot's odometry is one source. The map follows single steps of it nearly altogether; what many
ranges say of long stretches is the rest. With whitened residuals r = R e,
R = I - J (J^T J)^-1 J^T, and rows g of one source, the sum of squares |r_g|^2 has the expectation
tr R_gg (redundancy) where the claims are right. The score of restricted maximum likelihood by the
logarithm of the variance of g is half of the excess |r_g|^2 - tr R_gg, its Fisher information half
of tr R_gh R_hg (Patterson and Thompson 1971; the same equations as Helmert's of 1907). Traces are
estimated with random signs (Hutchinson). A factor is used where claims that are right would give
such residuals with a probability below one in a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from ...array_types import Array, Index, Mask
from ...graph import Graph
from ..integrity.linear_model import LinearModel

_WRONG_SIGMA = 5.0
"""Claimed sigmas are wrong by up to this factor either way, uniform in the logarithm. As a prior it
counts where the data say little."""
_PRIOR_VARIANCE = float((2 * np.log(_WRONG_SIGMA)) ** 2 / 3)
"""Of the logarithm of the factor on a variance."""
_CHANCE = 0.001
"""Claims that are right are contradicted so rarely."""
_SURE = float(-ndtri(_CHANCE / 2))
_LARGEST_STEP = 2.0
"""Of the logarithm of a variance in a turn; the model is that of the weights before."""
PROBES = 12
"""Random signs for each source; the redundancy is uncertain by 1 / sqrt(12) of what the sum of
squares is."""


@dataclass(frozen=True)
class OdometryNoise:
    """Factors on the variances of odometry: translations of all robots, then rotations."""

    log_factor: Array
    """(2 robots,): natural logarithm; zero where the claim is not contradicted."""
    log_sigma: Array
    """(2 robots,): its standard deviation; infinite before anything is known."""
    step: Array
    """(2 robots,): the last change of `log_factor`."""

    @property
    def used(self) -> Mask:
        """(2 robots,): the claim is contradicted."""
        return np.asarray(self.log_factor != 0.0)

    @property
    def sigma_factor(self) -> Array:
        """(2 robots,): found over claimed standard deviation."""
        return np.asarray(np.exp(self.log_factor / 2))

    def change(self, before: OdometryNoise) -> float:
        """Largest ratio, at least 1, of standard deviations to those of `before`."""
        moved = np.abs(self.log_factor - before.log_factor)
        return float(np.exp(np.max(moved, initial=0.0) / 2))

    def applied(self, graph: Graph) -> Graph:
        """The graph with these variances of its odometry."""
        rel, robot = graph.relative_poses, sources(graph)
        if not np.any(self.used):
            return graph
        factor = np.exp(self.log_factor).reshape(2, -1)
        moves, turns = np.where(robot >= 0, factor[:, np.maximum(robot, 0)], 1.0)
        return graph.replaced(relative_poses=rel.replaced(
            tau=rel.tau / moves, kappa=rel.kappa / turns))

    def significant(self) -> OdometryNoise:
        """Only what contradicts the claims also at the end."""
        keep = np.abs(self.log_factor) > _SURE * self.log_sigma
        return replace(self, log_factor=np.where(keep, self.log_factor, 0.0))


def as_claimed(robots: int) -> OdometryNoise:
    """Nothing is known but the claims."""
    none = np.zeros(2 * robots)
    return OdometryNoise(none, np.full(2 * robots, np.inf), none)


def odometry_noise(
    components: VarianceComponents, before: OdometryNoise, shared: float
) -> OdometryNoise:
    """A step of Fisher scoring from the factors `before`, at which the components were taken.

    Ranges that share errors (`shared` of them tell as much as one, `sharing`) push the map, and the
    odometry's residuals with it, by up to (shared - 1) tr R_gr R_rg: an excess below that is no
    fault of the odometry. Neither is one that other measurements explain, whose noise nobody
    confirms, by having none or twice their variance. A source that was used stays so; others begin
    where their score is significant.
    """
    fisher, others = components.fisher, components.with_others
    own = np.maximum(np.diagonal(fisher), 1e-12)
    push = (shared - 1) * components.with_ranges + others
    score = components.excess - np.clip(components.excess, -others, push)
    # Random signs add a twelfth to the variance of the excess.
    begins = score**2 > _SURE**2 * 2 * own * (1 + 1 / PROBES)
    used = np.flatnonzero(before.used | begins)
    log_factor, log_sigma = np.zeros(len(own)), np.full(len(own), np.inf)
    moved = np.zeros(len(own))
    if len(used):
        prior = 2 / _PRIOR_VARIANCE
        bend = fisher[np.ix_(used, used)] + prior * np.eye(len(used))
        step = np.linalg.solve(bend, score[used] - prior * before.log_factor[used])
        # The excess is linear in the variance and not in its logarithm.
        step = np.where(step > 0, np.log1p(np.maximum(step, 0.0)), step)
        step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        # The information is that of claims that hold: steps may go to and fro about the optimum.
        moved[used] = np.where(step * before.step[used] < 0, step / 2, step)
        log_factor[used] = before.log_factor[used] + moved[used]
        log_sigma[used] = np.sqrt(2 * (1 + 1 / PROBES) * np.diagonal(np.linalg.inv(bend)))
    return OdometryNoise(log_factor, log_sigma, moved)


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
    model: LinearModel, graph: Graph, free_ranges: float
) -> VarianceComponents:
    """Of a model at an optimum of `graph`, headings counted as their noise says.

    `free_ranges` is the weight of all ranges less what the map follows of them.
    """
    robots, J = len(graph.robots), model.jacobian
    group = _groups(graph, model)
    inside = group >= 0
    found = np.bincount(group[inside], model.residual[inside] ** 2, 2 * robots)
    random = np.random.default_rng(1)
    excess, with_ranges, with_others = np.zeros((3, 2 * robots))
    fisher = np.zeros((2 * robots, 2 * robots))
    for g in range(2 * robots):
        rows = np.flatnonzero(group == g)
        if not len(rows):
            continue
        signs = random.choice([-1.0, 1.0], (len(rows), PROBES))
        left = -(J @ model.solve(J[rows].T @ signs))
        left[rows] += signs
        squares = np.sum(left**2, axis=1) / PROBES
        excess[g] = found[g] - np.sum(signs * left[rows]) / PROBES
        fisher[g] = np.bincount(group[inside], squares[inside], 2 * robots)
        with_ranges[g] = np.sum(squares[model.rows('ranges')])
        with_others[g] = np.sum(squares[~inside]) - with_ranges[g]
    # R is a projection: tr R_rr = tr R_rr R_rr + sum over the other sources of tr R_rg R_gr.
    of_ranges = free_ranges - float(np.sum(with_ranges))
    if of_ranges > 0:
        fisher = fisher - np.outer(with_ranges, with_ranges) / of_ranges
    return VarianceComponents(excess, (fisher + fisher.T) / 2, with_ranges, with_others)


def _groups(graph: Graph, model: LinearModel) -> Index:
    """(rows,): source of every row of the model, -1 = not odometry."""
    group = np.full(len(model.residual), -1, dtype=np.int64)
    robots, robot = len(graph.robots), sources(graph)
    for part, offset in (('moves', 0), ('turns', robots)):
        rows = model.rows(part)
        each = np.where(robot >= 0, robot + offset, -1)
        group[rows] = np.repeat(each, (rows.stop - rows.start) // max(len(each), 1))
    return group
