"""When a robot is `located`: an audit says so, and nothing that came since contradicts it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtrc, chdtri

from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.odometry_segments import OdometrySegments
from .newest_evidence import SinceAudit
from .solution import Location, RobotLocation
from .unconfirmed import UNUSUAL
from .verdict import SegmentVerdict, Verdict

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


_ORDINARY_SHARE = 0.1
"""Share of rejected measurements that is taken for granted where the last audit saw fewer."""
_SIGMAS = 6.0
"""Deviations beyond so many standard deviations are no noise (two-sided normal: 2e-9)."""
_TAIL = 2e-9
"""Probability of the same size for a chi-square."""
_LEAST = 5
"""So many new measurements at least are needed to find the fit worse."""


def contradictions(
    since: SinceAudit, verdict: Verdict, robots: Sequence[str], config: SparserConfig
) -> dict[str, str]:
    """{robot: what came since the audit and does not fit it, in words}."""
    found, floor = {}, config.backend.integrity.variance_floor
    for number, robot in enumerate(robots):
        count, out = int(since.measurements[number]), int(since.rejected[number])
        usual = usual_share(verdict, robot)
        limit = config.backend.observability.position_sigma_m + (
            _SIGMAS * since.odometry_sigma_m[number])
        if out and bdtrc(out - 1, count, min(usual, 1.0)) < UNUSUAL:
            found[robot] = (
                f'{out} of {count} new measurements of {robot} contradict the map')
        elif count >= _LEAST and since.cost[number] > max(
                chdtri(since.degrees[number], UNUSUAL), floor * since.degrees[number]):
            # Of thousands of measurements chi-square alone would tell 1.1 times the noise.
            times = math.sqrt(float(since.cost[number] / since.degrees[number]))
            found[robot] = (
                f'the {count} new measurements of {robot} fit the map {times:.1f} times worse '
                'than those before')
        elif since.bent[number] > chdtri(max(since.bent_degrees[number], 1), _TAIL):
            times = math.sqrt(float(since.bent[number] / since.bent_degrees[number]))
            found[robot] = (
                f'the map bends the newest odometry of {robot} by {times:.1f} times its noise')
        elif since.moved_m[number] > limit:
            found[robot] = (
                f'the map has {robot} {since.moved_m[number]:.1f} m from where its odometry '
                'alone takes it')
    return found


def adrift(
    since: SinceAudit, verdict: Verdict, robots: Sequence[str], config: SparserConfig
) -> dict[str, str]:
    """{robot: why it is lost} of robots that have driven too far by odometry alone.

    That is where most of their uncertainty comes from it: robots that are located just so, between
    two ranges, are not meant.
    """
    found, limit = {}, config.backend.observability.position_sigma_m
    for number, robot in enumerate(robots):
        own = newest_of(verdict, robot)
        if own is None or not own.location.placed:
            continue
        if own.location is Location.POSITION_ONLY and since.audited[number]:
            # Without a heading every step is a drift, which the next range makes good.
            continue
        drift = math.hypot(
            since.alone_sigma_m[number], own.sigma_rad * since.alone_m[number])
        sigma = math.hypot(own.sigma_m, drift)
        if sigma >= limit and drift >= own.sigma_m:
            found[robot] = (
                f'no measurement of {robot} but odometry has counted for a while: its position has '
                f'become uncertain by {sigma:.1f} m')
    return found


def newest_of(verdict: Verdict, robot: str) -> SegmentVerdict | None:
    """What is said of the newest segment of a robot."""
    own = [one for one in verdict.segments if one.robot == robot]
    return own[-1] if own else None


def usual_share(verdict: Verdict, robot: str) -> float:
    """Share of a robot's measurements that may be rejected before that says anything."""
    own = newest_of(verdict, robot)
    return max(_ORDINARY_SHARE, own.rejected_share if own is not None else 0.0)


def locations(
    graph: Graph, segments: OdometrySegments, verdict: Verdict | None,
    contradicted: dict[str, str], newest_stamp_ns: int, config: SparserConfig,
    news: bool = True,
) -> tuple[RobotLocation, ...]:
    """State of every robot, the graph's first, then configured ones without data.

    `news`: measurements have come that the audit has not seen; without any it does not age. A robot
    is where its newest segment is.
    """
    known = {} if verdict is None else {one.first: one for one in verdict.segments}
    refused = '' if verdict is None else _refused(verdict, newest_stamp_ns, news, config)
    gate = {} if verdict is None else dict(verdict.gate_robots)
    result = []
    for number, robot in enumerate(graph.robots):
        newest = segments.newest(number)
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


def _refused(
    verdict: Verdict, newest_stamp_ns: int, news: bool, config: SparserConfig
) -> str:
    """Why no robot at all is located in this map, or ''."""
    if verdict.withheld:
        return verdict.withheld
    if verdict.gate_reasons:
        return '; '.join(verdict.gate_reasons)
    age_s = (newest_stamp_ns - verdict.newest_stamp_ns) * 1e-9
    if news and age_s > config.backend.audit.stale_s:
        return f'the newest audit of the map is {age_s:.0f} s old'
    return ''


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
