"""Odometry that fails for a while without a sign of its own: wheels that slip, a frozen source.

Ranges deny it, and robust kernels doubt ranges. So the graph is also solved with odometry doubted:
where that map is far better than any that believes the odometry, what it rejects is left out. The
stretch after that is placed by its ranges, as after a restart. What was measured in between is left
out too: nothing ties the poses there to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Index, Mask
from ...graph import Estimate, Graph, range_residuals, squared_residuals
from ...graph.finding import Finding
from ...graph.range_ends import range_ends
from ...graph.thinning import RELATIVE, Renumbering
from ...solver.robust import KERNELS, squared_threshold
from ..integrity.doubts import FAR_SIGMA, TOLERATED_SHARE, exceeds, in_stretch, upper_share
from .contest import WIDEST, Contest
from .map_costs import robust_cost
from .range_doubts import of_sources
from .runner import run

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_CHANCE = 0.01
"""Probability, of ranges that fit as others do, of being taken for ranges that do not."""
TOGETHER_S = 10.0
"""What fails again within this time has failed all the while."""


@dataclass(frozen=True)
class OdometryFailure:
    """A stretch of one robot's odometry that is left out."""

    finding: Finding
    edges: Index
    """In the sum of all increments, ascending."""
    ranges: Index
    """Of the poses between the first and the last of these edges."""
    begin_s: float
    """Time of the pose before it since the first pose."""
    end_s: float
    """Time of its end."""

    def thinned(self, to: Renumbering) -> OdometryFailure:
        """The same in a thinned graph."""
        return replace(
            self, edges=to.odometry(self.edges),
            ranges=np.sort(to.measurements('ranges', self.ranges)))


@dataclass(frozen=True)
class LooseMap:
    """A map of the solved subgraph in which odometry is doubted like everything else."""

    estimate: Estimate
    broken: Mask
    """(k,): odometry that it rejects, among the relative poses of the subgraph."""


def loose(config: SparserConfig, mu_start: float = 1.0) -> SparserConfig:
    """The configuration with odometry doubted; the kernels begin `mu_start` times as wide."""
    robust = config.solver.robust
    return replace(config, solver=replace(config.solver, robust=replace(
        robust, odometry=True, gnc=True, mu_start=max(mu_start, robust.mu_start))))


def loose_map(contest: Contest, start: Estimate, config: SparserConfig) -> LooseMap | None:
    """Solve a contest's subgraph anew; None where that fails or believes all odometry."""
    subgraph = contest.frame.subgraph
    graph, own = subgraph.graph, subgraph.of(start)
    worst = float(np.max(squared_residuals(graph, own)['ranges'], initial=0.0))
    width = squared_threshold(config.solver.robust, 1)
    result = run(graph, loose(config, min(worst / width, WIDEST)), own)
    weights = result.stats.weights.get(RELATIVE)
    if not result.status.solved or result.estimate is None or weights is None:
        return None
    broken = graph.relative_poses.odometry & (weights < config.backend.rejected_weight)
    return LooseMap(result.estimate, broken) if np.any(broken) else None


def loose_cost(contest: Contest, estimate: Estimate, config: SparserConfig) -> float:
    """Robust cost of an estimate of a contest's subgraph, odometry doubted.

    To reject an edge costs as much as to reject a range for each of its degrees of freedom: a pose
    that is freed fits as many ranges as it has coordinates, right or wrong, and gains nothing.
    """
    graph, robust = contest.frame.subgraph.graph, config.solver.robust
    odometry = graph.relative_poses.odometry
    edges = graph.relative_poses.take(np.flatnonzero(odometry))
    rest = graph.replaced(relative_poses=graph.relative_poses.take(np.flatnonzero(~odometry)))
    squares = squared_residuals(graph.replaced(relative_poses=edges), estimate)[RELATIVE]
    freedom = next(
        kind.degrees_of_freedom(graph.dimension) for kind, _ in graph.typed()
        if kind.name == RELATIVE)
    width = np.full(len(squares), freedom * squared_threshold(robust, 1))
    return robust_cost(rest, estimate, config) + float(
        np.sum(KERNELS[robust.kernel].rho(squares, width)))


def failures(graph: Graph, edges: Index) -> list[OdometryFailure]:
    """Where these odometry `edges` of a whole graph are broken, robot by robot.

    What follows within TOGETHER_S is one failure.
    """
    found, robot = [], graph.poses.robot[graph.relative_poses.i[edges]]
    stamps = graph.poses.stamp_ns[graph.relative_poses.j[edges]]
    for number in range(len(graph.robots)):
        own = np.flatnonzero(robot == number)
        own = own[np.argsort(stamps[own], kind='stable')]
        cuts = np.flatnonzero(np.diff(stamps[own]) > int(TOGETHER_S * 1e9)) + 1
        found += [_failure(graph, number, np.sort(edges[part]))
                  for part in np.split(own, cuts) if len(part)]
    return found


def _failure(graph: Graph, robot: int, edges: Index) -> OdometryFailure:
    rel, poses, name = graph.relative_poses, graph.poses, graph.robots[robot]
    first, last = int(rel.i[edges].min()), int(rel.j[edges].max())
    begin, end = ((poses.stamp_ns[[first, last]] - poses.stamp_ns.min()) * 1e-9).tolist()
    ends = np.stack([graph.ranges.source, graph.ranges.target])
    pose = np.maximum(ends, 0)
    within = (ends >= 0) & (poses.robot[pose] == robot) & (pose > first) & (pose < last)
    text = f'the odometry of {name} does not hold{in_stretch(begin, end)}; it is left out there'
    return OdometryFailure(
        Finding('odometry_failed', name, text), edges, np.flatnonzero(within.any(axis=0)), begin,
        end)


def measured_since(one: OdometryFailure, graph: Graph, lasts: bool) -> Index:
    """Ranges of a robot since its odometry failed; until the end of that unless it `lasts`."""
    rows = of_sources(graph, (one.finding.subject,), 0)
    seconds = range_ends(graph).seconds[rows]
    return rows[(seconds > one.begin_s) & (lasts | (seconds < one.end_s))]


def fits_since(one: OdometryFailure, graph: Graph, estimate: Estimate) -> bool:
    """Whether the ranges since a failure fit a map of the whole graph as others do."""
    far = np.abs(range_residuals(graph, estimate)) * np.sqrt(
        graph.ranges.precision) > FAR_SIGMA
    own = np.zeros(len(far), dtype=bool)
    own[measured_since(one, graph, True)] = True
    usual = upper_share(int(far[~own].sum()), int(np.sum(~own)), _CHANCE)
    return not exceeds(
        int(far[own].sum()), int(own.sum()), max(usual, TOLERATED_SHARE), _CHANCE)
