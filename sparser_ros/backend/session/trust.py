"""When a robot is `located`: an audit says so, and nothing that came since contradicts it.

What measurements and odometry since the audit say is asked robot by robot, and remembered for a
while where nothing has told more since. Where all newest ranges of a robot fail at once, the fault
may be that of its odometry: wheels that slip, or a source that repeats its last pose. Nothing is
left that could tell. Where one length explains the ranges, that is taken off and they fit again;
where a part of them fits as it is, that part confirms the odometry.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtrc, chdtrc, chdtri

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph, range_residuals
from ...graph.finding import Finding
from ...graph.odometry_segments import OdometrySegments
from ...graph.precision import chi_square_kappa
from ...graph.range_ends import range_ends
from ..integrity.doubts import FAR_SIGMA
from ..integrity.noise import ODOMETRY
from .graph_store import GraphStore
from .solution import Location, RobotLocation, SegmentVerdict, Verdict

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
        np.sum(counts * column, axis=0)
        for column in (tally.measurements, tally.rejected, tally.cost, tally.degrees))
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
                np.bincount(cell, column, minlength=3 * count).reshape(3, count)
                for column in (None, value[own], weight[own] < rejected_weight))
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


_FITS, _FITS_AT_ONCE = 0.25, 0.01
"""Probability that honest data fit worse from which on a contradiction is over: once there are
newer data, and for the same data in another map, which is then the better one."""


class Suspicions:
    """Memory of contradictions, for LOOK_BACK_S or until the data fit well.

    A map that has bent to a fault fits better again, some metres off.
    """

    def __init__(self) -> None:
        self._last_ns: dict[str, int] = {}
        self._lost: dict[str, str] = {}
        self._audited = -1

    def lost(self, adrift: Mapping[str, str], audited: int) -> dict[str, str]:
        """{robot: why} of robots that are adrift, or were since the newest audit, of a sequence.

        The first ranges after that tell one direction; whether they tell enough is for an audit.
        """
        if audited != self._audited:
            self._lost, self._audited = {}, audited
        self._lost.update(adrift)
        return dict(self._lost)

    def held(
        self, contradictions: Mapping[str, str], explained: Collection[str],
        fit: Mapping[str, float], newest_stamp_ns: int,
    ) -> dict[str, str]:
        """{robot: why it must wait} of robots that nothing contradicts now.

        `explained` names robots that a fault has been found of; `fit` is, by robot, the probability
        that honest data fit worse than the newest.
        """
        for robot in contradictions:
            self._last_ns[robot] = newest_stamp_ns
        waiting = {}
        for robot, last_ns in list(self._last_ns.items()):
            age_s = (newest_stamp_ns - last_ns) * 1e-9
            if robot in contradictions:
                continue
            fits = fit.get(robot, 0.0) > (_FITS if age_s > 0 else _FITS_AT_ONCE)
            if robot in explained or fits or not 0 <= age_s < LOOK_BACK_S:
                del self._last_ns[robot]
            else:
                waiting[robot] = (
                    f'measurements of {robot} contradicted the map {age_s:.0f} s ago, and nothing '
                    'has explained that')
        return waiting


UNUSUAL = 1e-4
"""Probability of so many faulty measurements by chance: an alarm costs the seconds until the next
audit."""
_FITS_BY_CHANCE = 0.1
"""Share of faulty ranges that seem to fit."""
_CHANCE = 0.01
"""Probability from which on ranges that fit may do so by chance."""
_MOST = 200
"""So many of the newest ranges of a robot are looked at: the rest says nothing of now."""


def failed_ranges(store: GraphStore, estimate: Estimate, rows: Index, squares: Array) -> Mask:
    """(k,) of the sum of all increments: ranges that do not fit an estimate, left out or not.

    `rows` of the store's graph were solved, and have these squared residuals.
    """
    whole, out = store.whole, store.now.left_out('ranges')
    failed = np.zeros(len(whole.ranges), dtype=bool)
    apart = whole.ranges.take(out)
    error = range_residuals(whole.replaced(ranges=apart), estimate)
    failed[out] = apart.precision * error**2 > FAR_SIGMA**2
    failed[store.original('ranges', rows)] = squares > FAR_SIGMA**2
    return failed


def unconfirmed(store: GraphStore, failed: Mask, usual: Mapping[str, float]) -> dict[str, str]:
    """{robot: why its newest place is not confirmed}; `failed` as `failed_ranges` has it.

    `usual` is the share of a robot's ranges that fails at other times.
    """
    ends, found = range_ends(store.whole), {}
    for number, robot in enumerate(store.whole.robots):
        newest = failed[ends.at(number)][:-_MOST - 1:-1]
        count = int(_longest(newest, usual[robot]))
        if count:
            found[robot] = (
                f'{int(newest[:count].sum())} of the {count} newest ranges of {robot} do not fit: '
                'they or its odometry are wrong')
    return found


def _longest(newest: Mask, usual: float) -> int:
    """So many of the newest ranges have failed, but for what fits by chance; 0 = not even few.

    Fits beyond chance among the very newest end what was before.
    """
    count = np.arange(1, len(newest) + 1)
    out = np.cumsum(newest)
    unusual = bdtrc(out - 1, count, min(usual, 1.0)) < UNUSUAL
    fits = count - out
    by_chance = (fits == 0) | (bdtrc(fits - 1, count, _FITS_BY_CHANCE) > _CHANCE)
    return int(np.max(count[unusual & np.minimum.accumulate(by_chance)], initial=0))


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
