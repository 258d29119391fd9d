"""When a robot is `located`: an audit says so, and its newest measurements fit the map.

What came since the audit is tested with what it knew (integrity/gate.py). Ranges that are left out
count as well: where all newest ranges of a robot fail at once, its odometry may be at fault, and
nothing is left that could tell.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc, ndtri

from ...array_types import Array, Index
from ...graph import (
    Estimate,
    Graph,
    Kind,
    Table,
    chi_square_residuals,
    range_directions,
    range_residuals,
)
from ...graph.ends import owners, owners_of, stamps_of
from ...graph.finding import Finding
from ...graph.parts import OdometrySegments
from ..integrity.faults import FAILED
from ..integrity.gate import MOST, astray, denying, misfit_words
from .graph_store import GraphStore
from .solution import Location, RobotLocation, SegmentVerdict, Verdict

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_LEAST_S = 0.1
"""Steps of odometry that take less say nothing of the speed of a robot."""
_DENYING = 'relative_poses', 'sightings'
"""Tables of which measurements can deny a map, beside ranges."""


@dataclass(frozen=True)
class Denial:
    """That the newest measurements of a robot deny its place in a map."""

    words: str
    since_ns: int | None = None
    """Stamp of the oldest of them; None where they fit one by one, and as if its odometry had not
    held."""
    off_m: float = np.inf
    """Root mean square of the residuals of its newest ranges, metres: each sees how far off the
    robot is along its direction, and so as much as each coordinate on average. inf = no ranges."""


def contradictions(
    store: GraphStore, estimate: Estimate, rows: dict[str, Index], verdict: Verdict,
    config: SparserConfig,
) -> dict[str, Denial]:
    """By robot: what of its newest measurements denies an estimate.

    `rows` of the store's graph were solved, by table.
    """
    graph, whole = store.graph, store.whole
    # Of what no odometry carries nothing tells where it was measured.
    placed = replace(store.treatment, faults=store.treatment.of(FAILED))
    left = store.now.left_out('ranges')
    left = left[placed.counts(whole, 'ranges', whole.ranges)[left]]
    ranges = graph.ranges.take(rows['ranges']).append(whole.ranges.take(left))
    measured = whole.replaced(ranges=ranges)
    residual_m = range_residuals(measured, estimate)
    error = np.sqrt(ranges.precision) * residual_m
    with np.errstate(over='ignore'):
        parts = [_measured(whole, ranges, error**2, 1)]
    for kind, table in graph.typed():
        if kind.name not in _DENYING:
            continue
        chosen = rows[kind.name]
        few = table.take(chosen[kind.kinds(table)[chosen] != Kind.ODOMETRY])
        squares = chi_square_residuals(graph.replaced(measurements={kind.name: few}), estimate)
        parts.append(_measured(
            graph, few, squares[kind.name], kind.degrees_of_freedom(graph.dimension)))
    stamp_ns, size, ends = (
        np.concatenate(column, axis=-1) for column in zip(*parts, strict=True))
    order = np.argsort(-stamp_ns, kind='stable')
    contradicted = {}
    for number, robot in enumerate(whole.robots):
        own = order[np.any(ends[:, order] == number, axis=0)]
        usual = usual_share(verdict, robot)
        misfit = denying(size[own], usual)
        if len(misfit):
            newest = own[:len(misfit)]
            contradicted[robot] = Denial(
                misfit_words(robot, misfit), int(stamp_ns[newest[-1]]),
                _root_mean_square(residual_m[newest[newest < len(error)]]))
            continue
        own = own[np.isfinite(size[own]) & (ends[0, own] != ends[1, own])]
        own = own[own < len(error)][:MOST]
        if len(own) and (words := _astray(
                robot, measured.replaced(ranges=ranges.take(own)), estimate, error[own], usual,
                config)):
            contradicted[robot] = Denial(words, off_m=_root_mean_square(residual_m[own]))
    return contradicted


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else np.inf


def _astray(
    robot: str, graph: Graph, estimate: Estimate, error: Array, usual: float, config: SparserConfig
) -> str:
    """Where the odometry of a robot may not hold, and have left it too far off: that, in words.

    `error` are the whitened residuals of the ranges of the graph, the robot's newest, newest first.
    """
    ranges, rel, poses = graph.ranges, graph.relative_poses, graph.poses
    number, stamps = graph.robots.index(robot), stamps_of(graph, ranges)
    towards = np.where(owners(graph, ranges.target) == number, 1.0, -1.0)
    slope = (towards * np.sqrt(ranges.precision))[:, None] * range_directions(graph, estimate)
    steps = np.flatnonzero(rel.odometry & (poses.robot[rel.i] == number))
    seconds = (poses.stamp_ns[rel.j[steps]] - poses.stamp_ns[rel.i[steps]]) * 1e-9
    metres = np.linalg.norm(rel.translation[steps], axis=1)
    accepted = config.backend.observability
    displaced = astray(
        error, slope, (stamps[0] - stamps) * 1e-9,
        float(np.max(metres / np.maximum(seconds, _LEAST_S), initial=0.0)), usual,
        accepted.alert_limit_m, config.backend.integrity.fault_probability)
    if displaced.risk <= accepted.integrity_risk:
        return ''
    return (f'with a probability of {100 * displaced.probability:.0f} % the odometry of {robot} '
            f'has not held for {displaced.seconds:.0f} s, and it is {displaced.metres:.1f} m away '
            'then')


def _measured(
    graph: Graph, table: Table, squares: Array, freedom: int
) -> tuple[Index, Array, Index]:
    """Stamps, sizes of residuals in standard deviations, and owners (2, k) of measurements.

    The size of several coordinates is that of one which is as unlikely.
    """
    ends = owners_of(graph, table)
    size = np.sqrt(squares)
    if freedom > 1:
        size = -ndtri(np.maximum(chdtrc(freedom, squares), np.finfo(float).tiny) / 2)
    return stamps_of(graph, table), size, ends[[0, -1]]


def newest_of(verdict: Verdict, robot: str) -> SegmentVerdict | None:
    """What is said of the newest segment of a robot."""
    own = [segment for segment in verdict.segments if segment.robot == robot]
    return own[-1] if own else None


def usual_share(verdict: Verdict, robot: str) -> float:
    """Share of a robot's measurements that an audit has rejected."""
    own = newest_of(verdict, robot)
    return 0.0 if own is None else own.rejected_share


def locations(
    graph: Graph, segments: OdometrySegments, verdict: Verdict | None,
    contradicted: dict[str, str], newest_stamp_ns: int, config: SparserConfig,
    news: bool = True,
) -> tuple[RobotLocation, ...]:
    """State of every robot, the graph's first, then configured ones without data.

    `news`: measurements have come that the audit has not seen, or how far odometry has drifted is
    not known; else the audit does not age. A robot is where its newest segment is.
    """
    known = {} if verdict is None else {segment.first: segment for segment in verdict.segments}
    refused = '' if verdict is None else _refused(verdict, newest_stamp_ns, news, config)
    unclear = {} if verdict is None else dict(verdict.unclear)
    result = []
    for number, robot in enumerate(graph.robots):
        newest = segments.newest(number)
        if newest < 0:
            result.append(RobotLocation(robot, Location.UNLOCATED, 'no odometry yet'))
            continue
        audited = known.get(int(segments.first[newest]))
        reason = refused or unclear.get(robot, '') or contradicted.get(robot, '')
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
    if whole := [why for robot, why in verdict.unclear if not robot]:
        return '; '.join(whole)
    age_s = (newest_stamp_ns - verdict.newest_stamp_ns) * 1e-9
    if news and age_s > config.backend.audit.stale_s:
        return f'the newest audit of the map is {age_s:.0f} s old'
    return ''


def announcements(
    graph: Graph, before: Estimate, after: Estimate, located: Collection[str], limit_m: float
) -> tuple[Finding, ...]:
    """Located robots that a better map moves farther than the stated bound."""
    findings = []
    for number, robot in enumerate(graph.robots):
        rows = np.flatnonzero(graph.poses.robot == number)
        rows = rows[rows < len(before.translation)]
        if not len(rows) or robot not in located:
            continue
        moved = float(np.linalg.norm(after.translation[rows[-1]] - before.translation[rows[-1]]))
        if moved > limit_m:
            findings.append(Finding(
                'map_changed', robot, f'the map has changed: {robot} was {moved:.1f} m away from '
                'where a better map has it', moved, 'm'))
    return tuple(findings)
