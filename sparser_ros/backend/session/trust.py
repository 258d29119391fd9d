"""When a robot is `located`: an audit says so, and nothing that came since contradicts it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from ...array_types import Array, Index
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.odometry_segments import OdometrySegments
from ...graph.precision import chi_square_kappa
from ...solver.robust.kernels import KERNELS, thresholds
from .solution import Location, RobotLocation
from .verdict import SegmentVerdict, Verdict

if TYPE_CHECKING:
    from ...config import RobustConfig
    from ...config.sparser import SparserConfig


_ORDINARY_SHARE = 0.1
"""Share of rejected measurements that is taken for granted where the last audit saw fewer."""
_SIGMAS = 6.0
"""Deviations beyond so many standard deviations are no noise (two-sided normal: 2e-9)."""
_TAIL = 2e-9
"""Probability of the same size for a chi-square."""
_LEAST = 5
"""So many new measurements at least are needed to contradict an audit."""


@dataclass(frozen=True)
class SinceAudit:
    """What came after the newest audit, robot by robot (r,)."""

    measurements: Index
    """Ranges, closures and sightings."""
    rejected: Index
    """Those below the rejected weight."""
    cost: Array
    """Their robust cost, over what measurements of the robot cost before by degree of freedom."""
    degrees: Index
    """Their degrees of freedom."""
    moved_m: Array
    """Distance between where the newest pose is estimated and where odometry alone has it."""
    odometry_sigma_m: Array
    """Standard deviation of the latter, relative to the pose at the audit."""
    distance_m: Array
    """Between the newest pose and that at the audit."""


def since_audit(
    graph: Graph, segments: OdometrySegments, estimate: Estimate, verdict: Verdict,
    rows: dict[str, Index], squares: dict[str, Array], weights: dict[str, Array],
    before: dict[str, int], config: SparserConfig,
) -> SinceAudit:
    """Evidence of the rows from `before` on; `rows`, `squares`, `weights` by table as solved."""
    count = len(graph.robots)
    total, out = np.zeros(count), np.zeros(count)
    cost, degrees = np.zeros((2, count)), np.zeros((2, count))
    ends = {
        'relative_poses': (graph.relative_poses.i, graph.relative_poses.j),
        'sightings': (graph.sightings.i, graph.sightings.i),
        'ranges': (graph.ranges.source, graph.ranges.target)}
    robust, freedom = config.solver.robust, {
        kind.name: kind.degrees_of_freedom(graph.dimension) for kind, _ in graph.typed()}
    widths = thresholds(graph, robust, graph.dimension)
    for name, (first, second) in ends.items():
        used = ~graph.relative_poses.odometry[rows[name]] if name == 'relative_poses' else (
            np.ones(len(rows[name]), dtype=bool))
        chosen = rows[name][used]
        weight = weights[name][used] if name in weights else np.ones(len(chosen))
        value = _robust(squares[name][used], widths[name][chosen], robust)
        new = chosen >= before[name]
        # Both ends have it; a range within one robot counts once.
        # Landmarks are negative ends; there may be more of them than poses.
        robots = [np.where(end[chosen] >= 0, graph.poses.robot[np.maximum(end[chosen], 0)], -1)
                  for end in (first, second)]
        robots[1] = np.where(robots[1] == robots[0], -1, robots[1])
        for robot in robots:
            for late in (False, True):
                own = (robot >= 0) & (new == late)
                cost[int(late)] += np.bincount(robot[own], value[own], minlength=count)
                degrees[int(late)] += freedom[name] * np.bincount(robot[own], minlength=count)
            total += np.bincount(robot[own], minlength=count)
            out += np.bincount(
                robot[own], weight[own] < config.backend.rejected_weight, minlength=count)
    usual = np.maximum(cost[0] / np.maximum(degrees[0], 1), 1.0)
    moved, sigma, distance = _against_odometry(
        graph, segments, estimate, len(verdict.estimate.rotation))
    return SinceAudit(
        total.astype(np.int64), out.astype(np.int64), cost[1] / usual,
        degrees[1].astype(np.int64), moved, sigma, distance)


def _robust(squares: Array, widths: Array, config: RobustConfig) -> Array:
    """Robust cost of squared residuals; `widths` are c^2, infinite for trusted ones."""
    doubted = np.isfinite(widths) & (config.kernel != 'none')
    return np.where(
        doubted, KERNELS[config.kernel].rho(squares, np.where(doubted, widths, 1.0)), squares)


def _against_odometry(
    graph: Graph, segments: OdometrySegments, estimate: Estimate, known: int
) -> tuple[Array, Array, Array]:
    """How far robots have moved, since an audit of `known` poses, otherwise than odometry says.

    With the standard deviation of odometry since then, and the distance from the pose then.
    """
    count, poses = len(graph.robots), graph.poses
    moved, sigma, distance = np.zeros((3, count))
    table = graph.relative_poses
    recent = np.flatnonzero(table.odometry & (table.j >= known))
    kappa = chi_square_kappa(table.kappa[recent], graph.dimension)
    for robot in range(count):
        newest = _newest_segment(segments, robot)
        if newest < 0 or segments.first[newest] >= known:
            continue
        own = np.flatnonzero(segments.of_pose == newest)
        since, last = own[own < known][-1], own[-1]
        by_odometry = poses.rotation[since].T @ (
            poses.translation[last] - poses.translation[since])
        estimated = estimate.rotation[since].T @ (
            estimate.translation[last] - estimate.translation[since])
        moved[robot] = np.linalg.norm(estimated - by_odometry)
        distance[robot] = np.linalg.norm(by_odometry)
        edges = segments.of_pose[table.j[recent]] == newest
        way = float(np.sum(np.linalg.norm(table.translation[recent][edges], axis=1)))
        variance = np.sum(1 / table.tau[recent][edges]) * graph.dimension
        turn = np.sum(1 / kappa[edges])
        sigma[robot] = math.sqrt(float(variance + way**2 * turn))
    return moved, sigma, distance


def contradictions(
    since: SinceAudit, verdict: Verdict, robots: Sequence[str], config: SparserConfig
) -> dict[str, str]:
    """{robot: what came since the audit and does not fit it, in words}."""
    found, floor = {}, config.backend.integrity.variance_floor
    for number, robot in enumerate(robots):
        count, out = int(since.measurements[number]), int(since.rejected[number])
        own = [one for one in verdict.segments if one.robot == robot]
        usual = max(_ORDINARY_SHARE, own[-1].rejected_share if own else 0.0)
        by_odometry = math.hypot(
            since.odometry_sigma_m[number], *((
                own[-1].sigma_m, own[-1].sigma_rad * since.distance_m[number]) if own else ()))
        most = count * usual + _SIGMAS * math.sqrt(max(count * usual * (1 - min(usual, 1)), 0)) + 1
        limit = config.backend.observability.position_sigma_m + (
            _SIGMAS * since.odometry_sigma_m[number])
        if count >= _LEAST and out > most:
            found[robot] = (
                f'{out} of {count} new measurements of {robot} contradict the map')
        elif count >= _LEAST and since.cost[number] > max(
                chdtri(since.degrees[number], _TAIL), floor * since.degrees[number]):
            # Of thousands of measurements chi-square alone would tell 1.1 times the noise.
            times = math.sqrt(float(since.cost[number] / since.degrees[number]))
            found[robot] = (
                f'the {count} new measurements of {robot} fit the map {times:.1f} times worse '
                'than those before')
        elif since.moved_m[number] > limit:
            found[robot] = (
                f'the map has {robot} {since.moved_m[number]:.1f} m from where its odometry '
                'alone takes it')
        elif not count and by_odometry >= config.backend.observability.position_sigma_m:
            found[robot] = (
                f'no measurement of {robot} but odometry has counted since the newest audit: its '
                f'position has become uncertain by {by_odometry:.1f} m')
    return found


def locations(
    graph: Graph, segments: OdometrySegments, verdict: Verdict | None,
    contradicted: dict[str, str], newest_stamp_ns: int, config: SparserConfig,
) -> tuple[RobotLocation, ...]:
    """State of every robot, the graph's first, then configured ones without data.

    A robot is where its newest segment is.
    """
    known = {} if verdict is None else {one.first: one for one in verdict.segments}
    refused = '' if verdict is None else _refused(verdict, newest_stamp_ns, config)
    gate = {} if verdict is None else dict(verdict.gate_robots)
    result = []
    for number, robot in enumerate(graph.robots):
        newest = _newest_segment(segments, number)
        if newest < 0:
            result.append(RobotLocation(robot, Location.UNLOCATED, 'no odometry yet'))
            continue
        audited = known.get(int(segments.first[newest]))
        reason = refused or gate.get(robot, '') or contradicted.get(robot, '')
        result.append(_location(robot, audited, reason, bool(np.sum(segments.robot == number) > 1)))
    seen = set(graph.robots)
    result.extend(
        RobotLocation(robot, Location.UNLOCATED, 'no odometry yet')
        for robot in config.robots if robot not in seen)
    return tuple(result)


def _location(
    robot: str, audited: SegmentVerdict | None, reason: str, broken: bool
) -> RobotLocation:
    if audited is None:
        return RobotLocation(robot, Location.UNLOCATED, (
            'its odometry has begun anew, and no audit has placed it since' if broken
            else 'no audit has placed it in map yet'))
    if reason and audited.location in (Location.LOCATED, Location.POSITION_ONLY):
        return RobotLocation(robot, Location.UNLOCATED, reason)
    return RobotLocation(robot, audited.location, audited.missing)


def _refused(verdict: Verdict, newest_stamp_ns: int, config: SparserConfig) -> str:
    """Why no robot at all is located in this map, or ''."""
    if verdict.withheld:
        return verdict.withheld
    if verdict.gate_reasons:
        return '; '.join(verdict.gate_reasons)
    age_s = (newest_stamp_ns - verdict.newest_stamp_ns) * 1e-9
    if age_s > config.backend.audit.stale_s:
        return f'the newest audit of the map is {age_s:.0f} s old'
    return ''


def _newest_segment(segments: OdometrySegments, robot: int) -> int:
    """Number of the segment that holds a robot's newest pose; -1 without poses."""
    own = np.flatnonzero(segments.robot == robot)
    return int(own[np.argmax(segments.last[own])]) if len(own) else -1


def announcements(
    graph: Graph, before: Estimate, after: Estimate, located: Collection[str], limit_m: float
) -> tuple[Finding, ...]:
    """Located robots that a better map moves farther than the stated bound."""
    found = []
    for number, robot in enumerate(graph.robots):
        rows = np.flatnonzero(graph.poses.robot == number)
        rows = rows[rows < len(before.translation)]
        if not len(rows) or robot not in located:
            continue
        moved = float(np.linalg.norm(after.translation[rows[-1]] - before.translation[rows[-1]]))
        if moved > limit_m:
            found.append(Finding(
                'map_changed', robot, f'the map has changed: {robot} was {moved:.1f} m away from '
                'where a better map has it', moved, 'm'))
    return tuple(found)
