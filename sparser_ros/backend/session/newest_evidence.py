"""What the newest data say of the map: measurements and odometry, robot by robot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc, chdtri

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...graph.odometry_segments import OdometrySegments
from ...graph.precision import chi_square_kappa
from ..integrity.noise import ODOMETRY
from .verdict import Verdict

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_CLIPPED = 0.001
"""Squares beyond the quantile of this probability count as that: some measurements are always
false, and how much they are says nothing."""
LOOK_BACK_S = 10.0
"""What is younger counts as new, audited or not: audits follow each other within a second or two,
and each alone has seen too little to tell."""


@dataclass(frozen=True)
class SinceAudit:
    """What came after the newest audit or a moment ago, robot by robot (r,)."""

    audited: Index
    """Ranges, closures and sightings that came after the audit."""
    measurements: Index
    """Those, and what came in the last seconds before the audit."""
    rejected: Index
    """Those below the rejected weight."""
    cost: Array
    """Their squares, clipped, over those of the robot before by degree of freedom."""
    degrees: Index
    """Their degrees of freedom."""
    bent: Array
    """Squares of the newest odometry, over those of the robot before by degree of freedom."""
    bent_degrees: Index
    moved_m: Array
    """Distance between where the newest pose is estimated and where odometry alone has it."""
    odometry_sigma_m: Array
    """Standard deviation of the latter, relative to the pose at the audit."""
    alone_sigma_m: Array
    """Standard deviation of the odometry since the last measurement that has counted, or since the
    audit if that was later."""
    alone_m: Array
    """Distance between the newest pose and that one."""

    @property
    def fit(self) -> Array:
        """(r,): probability that honest measurements fit worse than the new ones."""
        return np.asarray(chdtrc(np.maximum(self.degrees, 1), self.cost))


def since_audit(
    graph: Graph, segments: OdometrySegments, estimate: Estimate, verdict: Verdict,
    rows: dict[str, Index], squares: dict[str, Array], weights: dict[str, Array],
    before: dict[str, int], config: SparserConfig,
) -> SinceAudit:
    """Evidence of the rows from `before` on; `rows`, `squares`, `weights` by table as solved."""
    stamps = graph.poses.stamp_ns
    look_back_ns = int(LOOK_BACK_S * 1e9) if config.backend.integrity.gate else -1
    recent = stamps >= stamps.max(initial=0) - look_back_ns
    count = len(graph.robots)
    tally = _tally(graph, rows, squares, weights, before, recent, config.backend.rejected_weight)
    # At the beginning nothing older tells what is usual.
    counts = np.array([np.zeros(count), tally.degrees[0] >= tally.degrees[1], np.ones(count)])
    usual = np.maximum(np.sum((1 - counts) * tally.cost, axis=0) / np.maximum(
        np.sum((1 - counts) * tally.degrees, axis=0), 1), 1.0)
    total, out, cost, degrees = (
        np.sum(counts * one, axis=0)
        for one in (tally.measurements, tally.rejected, tally.cost, tally.degrees))
    known = len(verdict.estimate.rotation)
    edges = rows['relative_poses']
    bent, bent_degrees = _bent(
        graph, edges, squares['relative_poses'], recent | (np.arange(len(stamps)) >= known),
        _freedom(graph)['relative_poses'])
    return SinceAudit(
        tally.measurements[2].astype(np.int64), total.astype(np.int64), out.astype(np.int64),
        cost / usual, degrees.astype(np.int64), bent, bent_degrees,
        *_against_odometry(graph, segments, estimate, known, tally.last, np.sqrt([
            verdict.noise.factor(ODOMETRY, robot) for robot in graph.robots])))


@dataclass(frozen=True)
class _Tally:
    """Of three times (3, r): long ago, a moment before the audit, since the audit."""

    measurements: Array
    rejected: Array
    cost: Array
    """Sum of their squares, clipped."""
    degrees: Array
    last: Index
    """(r,): newest pose of a measurement that counts, -1 = there is none."""


def _freedom(graph: Graph) -> dict[str, int]:
    return {kind.name: kind.degrees_of_freedom(graph.dimension) for kind, _ in graph.typed()}


def _tally(
    graph: Graph, rows: dict[str, Index], squares: dict[str, Array], weights: dict[str, Array],
    before: dict[str, int], recent: Mask, rejected_weight: float,
) -> _Tally:
    """Count ranges, closures and sightings by robot; `recent` (n,) marks the newest poses."""
    count, freedom = len(graph.robots), _freedom(graph)
    total, out, cost, degrees = np.zeros((4, 3, count))
    last = np.full(count, -1)
    ends = {
        'relative_poses': (graph.relative_poses.i, graph.relative_poses.j),
        'sightings': (graph.sightings.i, graph.sightings.i),
        'ranges': (graph.ranges.source, graph.ranges.target)}
    for name, (first, second) in ends.items():
        used = ~graph.relative_poses.odometry[rows[name]] if name == 'relative_poses' else (
            np.ones(len(rows[name]), dtype=bool))
        chosen = rows[name][used]
        weight = weights[name][used] if name in weights else np.ones(len(chosen))
        value = np.minimum(squares[name][used], chdtri(freedom[name], _CLIPPED))
        new = np.any([(end[chosen] >= 0) & recent[np.maximum(end[chosen], 0)]
                      for end in (first, second)], axis=0)
        time = np.where(chosen >= before[name], 2, new.astype(np.int64))
        # Both ends have it; a range within one robot counts once.
        # Landmarks are negative ends; there may be more of them than poses.
        robots = [np.where(end[chosen] >= 0, graph.poses.robot[np.maximum(end[chosen], 0)], -1)
                  for end in (first, second)]
        robots[1] = np.where(robots[1] == robots[0], -1, robots[1])
        for robot, end in zip(robots, (first, second), strict=True):
            own = robot >= 0
            good = own & (weight >= rejected_weight)
            np.maximum.at(last, robot[good], end[chosen][good])
            cell = time[own] * count + robot[own]
            many, costs, refused = (
                np.bincount(cell, one, minlength=3 * count).reshape(3, count)
                for one in (None, value[own], weight[own] < rejected_weight))
            total, out, cost = total + many, out + refused, cost + costs
            degrees = degrees + freedom[name] * many
    return _Tally(total, out, cost, degrees, last)


def _bent(
    graph: Graph, rows: Index, squares: Array, newest: Mask, freedom: int
) -> tuple[Array, Index]:
    """Squares of odometry `rows` to the newest poses (n,), over the usual, and their degrees."""
    rel, count = graph.relative_poses.take(rows), len(graph.robots)
    robot, sums, number = graph.poses.robot[rel.i], [], []
    for part in (rel.odometry & ~newest[rel.j], rel.odometry & newest[rel.j]):
        sums.append(np.bincount(robot[part], squares[part], minlength=count))
        number.append(freedom * np.bincount(robot[part], minlength=count))
    usual = np.maximum(sums[0] / np.maximum(number[0], 1), 1.0)
    return sums[1] / usual, number[1]


def _against_odometry(
    graph: Graph, segments: OdometrySegments, estimate: Estimate, known: int, measured: Index,
    spread: Array,
) -> tuple[Array, Array, Array, Array]:
    """How far robots have moved, since an audit of `known` poses, otherwise than odometry says.

    With the standard deviation of odometry since then. The same, and the distance, since the last
    pose that was `measured` (r,), if that is newer. `spread` (r,) is the standard deviation of each
    odometry over the claimed one.
    """
    count, poses = len(graph.robots), graph.poses
    moved, sigma, alone, distance = np.zeros((4, count))
    table = graph.relative_poses
    recent = np.flatnonzero(table.odometry & (table.j >= known))
    for robot in range(count):
        newest = segments.newest(robot)
        if newest < 0 or segments.first[newest] >= known:
            continue
        own = np.flatnonzero(segments.of_pose == newest)
        since, last = own[own < known][-1], own[-1]
        by_odometry = poses.rotation[since].T @ (
            poses.translation[last] - poses.translation[since])
        estimated = estimate.rotation[since].T @ (
            estimate.translation[last] - estimate.translation[since])
        moved[robot] = np.linalg.norm(estimated - by_odometry)
        edges = recent[segments.of_pose[table.j[recent]] == newest]
        sigma[robot] = _sigma(graph, edges)
        begin = max(since, int(measured[robot]))
        alone[robot] = _sigma(graph, edges[table.j[edges] > begin])
        distance[robot] = np.linalg.norm(poses.translation[last] - poses.translation[begin])
    return moved, spread * sigma, spread * alone, distance


def _sigma(graph: Graph, edges: Index) -> float:
    """Standard deviation of the way along these edges of odometry, m, heading error included."""
    table = graph.relative_poses.take(edges)
    way = float(np.sum(np.linalg.norm(table.translation, axis=1)))
    turn = np.sum(1 / chi_square_kappa(table.kappa, graph.dimension))
    return math.sqrt(float(np.sum(1 / table.tau) * graph.dimension + way**2 * turn))
