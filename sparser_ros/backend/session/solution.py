"""What the back-end hands out after a solve, and what an audit found.

A solution is an immutable picture of everything that is known. Its covariances have the coordinates
of geometry_msgs/PoseWithCovariance: position, then rotation about the axes of map. They are
marginals under the robust weights of the tick, relative to the datum of the map (scene.py): what
noise of the size that residuals show does to the estimate, and what the sizes of faults add which
the map is solved with. A wrong minimum or a fault that no residual shows is not in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, unique
from typing import Any

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph, chi_square_residuals
from ...graph.ends import owners_of, stamps_of
from ...graph.finding import Finding
from ...graph.parts import Subgraph, extract
from ...io import report
from ...solver.result import SolveStats, SolveStatus
from ..integrity.noise import Noise
from ..integrity.undetected import HiddenFaults
from ..observability.datum import Location
from .rulings import Rulings
from .treatment import Treatment

KNOWN_POSITIONS, NETWORK = 'known positions', 'the located beacons and the other robots'


@dataclass(frozen=True)
class Covariances:
    """Metres and radians; infinite variances, without correlations, where nothing is known."""

    robots: tuple[str, ...]
    poses: Array
    """(r, 3, 3) in the order x y theta, or (r, 6, 6) in x y z rx ry rz: newest poses."""
    landmarks: Array
    """(m, d, d)."""
    gauge: str
    """The datum that they are relative to: `KNOWN_POSITIONS` or `NETWORK`."""
    variance_factor: float
    """Found over claimed variance of the residuals, which is in them already."""

    def of(self, robot: str) -> Array | None:
        """Covariance of the newest pose of a robot; None where it is not known."""
        if robot not in self.robots:
            return None
        covariance = self.poses[self.robots.index(robot)]
        return covariance if np.all(np.isfinite(covariance)) else None


def covariance_fields(graph: Graph, known: Covariances) -> dict[str, Any]:
    """The fields of a report or of a saved map."""
    return report.covariance_fields(
        known.gauge, known.variance_factor, {robot: known.of(robot) for robot in known.robots},
        dict(zip(graph.landmarks.names, known.landmarks, strict=True)))


@dataclass(frozen=True)
class Protection:
    """Bounds on the errors of the newest positions, metres; infinite where none can be stated."""

    robots: tuple[str, ...]
    horizontal_m: Array
    """(r,)"""
    vertical_m: Array
    """(r,): NaN in the plane."""

    def of(self, robot: str) -> tuple[float, float]:
        """(horizontal, vertical) of a robot; infinite, and NaN, where it is not known."""
        if robot not in self.robots:
            return math.inf, math.nan
        row = self.robots.index(robot)
        return float(self.horizontal_m[row]), float(self.vertical_m[row])


class Fix(IntEnum):
    """What a robot's pose is good for."""

    NONE = 0
    """There is no pose in `map`, or nothing is known of its error."""
    FLOAT = 1
    """A pose with an honest covariance, of a robot that is not located."""
    FIXED = 2
    """The robot is located."""


@dataclass(frozen=True)
class RobotLocation:
    """State of one robot in `map`, and what is missing in words."""

    robot: str
    location: Location
    missing: str = ''

    @property
    def remark(self) -> str:
        """What a file says of a trajectory of this robot while it is not located."""
        return f'not trusted: {self.robot} is {self.location.value} in map' + (
            f' ({self.missing})' if self.missing else '')


@dataclass(frozen=True)
class Rejected:
    """One doubted measurement (robust weight below 0.1)."""

    index: int
    """Row in its table."""
    type: str
    """Table name: relative_poses, sightings, ranges."""
    source: str
    target: str
    weight: float
    whitened_residual: float

    def __reduce__(self) -> tuple[Any, ...]:
        # Thousands cross the pipe with a solution: three times as fast as by names.
        return Rejected, tuple(vars(self).values())


@dataclass(frozen=True)
class Solution:
    """One finished solve, in the map frame."""

    sequence: int
    """Newest increment included; -1 = none."""
    estimate: Estimate
    robots: tuple[RobotLocation, ...]
    landmark_located: Mask
    """(m,): true where the position is determined in map."""
    status: SolveStatus
    message: str
    stats: SolveStats
    full: bool
    """True where an audit, with its solves from scratch, has just confirmed or found this map."""
    rejected: tuple[Rejected, ...] = ()
    newest_stamp_ns: int = 0
    seconds: float = 0.0
    noise: dict[str, float] = field(default_factory=dict)
    """By source: standard deviation of its measurements as residuals show it, over the claimed one
    (integrity/noise.py)."""
    epoch: int = 0
    """Counts frames of `map`: rises whenever `map` becomes another frame."""
    findings: tuple[Finding, ...] = ()
    """What the back-end has to say about the data and the map."""
    audited_sequence: int = -1
    """Newest increment that an audit has confirmed; -1 = none."""
    ruled: int = 0
    """Revision of the operator's rulings that the map follows (rulings.py)."""
    doubt: str = ''
    """Why the map should be audited soon, or ''."""
    anchored: bool = False
    """Whether absolute data fix the frame of map."""
    placed: tuple[int, ...] = ()
    """Endpoints of the segments, by their first poses, and landmarks that are solved."""
    quarantined: tuple[tuple[int, int], ...] = ()
    """(sequence, level) of increments left out because no solve succeeds with them."""
    covariances: Covariances | None = None
    """None where no factor gives them: before the first map, and in whole solves."""
    protection: Protection | None = None
    """None where nothing is placed."""

    @property
    def fixes(self) -> dict[str, Fix]:
        """By robot."""
        known = self.covariances
        return {state.robot: (
            Fix.FIXED if state.location is Location.LOCATED else
            Fix.FLOAT if known is not None and known.of(state.robot) is not None else Fix.NONE)
            for state in self.robots}

    def laid(self, before: Collection[str] = ()) -> tuple[str, ...]:
        """Robots whose whole path is shown in `map`: those with a fix that are located, or were
        `before`; with known positions all that have a fix.

        How the path of another one lies beside these is what its covariance tells: a turn, or the
        mirror image, may be open. It has a pose. While there is no such robot, the path of the
        first one is all there is of a map; so that paths do not come and go it is always the first,
        and not the surest of the moment.
        """
        fixes = self.fixes
        stated = tuple(robot for robot, fix in fixes.items() if fix is not Fix.NONE)
        if self.anchored:
            return stated
        known = tuple(robot for robot in stated if fixes[robot] is Fix.FIXED or robot in before)
        return known or tuple(robot for robot in list(fixes)[:1] if robot in stated)


def withdrawn(solution: Solution, reason: str) -> Solution:
    """The last solution with nothing located any more, because the newest solve failed."""
    return replace(
        solution, status=SolveStatus.FAILED, message=reason, full=False,
        robots=tuple(
            replace(state, location=Location.UNLOCATED, missing=reason)
            for state in solution.robots),
        landmark_located=np.zeros(len(solution.landmark_located), dtype=bool), covariances=None,
        protection=None)


def located(graph: Graph, solution: Solution) -> Subgraph:
    """What has a position in map.

    `graph` is the one that the solution is of. Unplaced stretches of a located robot's odometry
    cannot be told apart here and are included.
    """
    where = {robot.robot: robot.location for robot in solution.robots}
    shown = np.array([
        where.get(name, Location.UNLOCATED).placed for name in graph.robots],
        dtype=bool)
    return extract(graph, shown[graph.poses.robot], solution.landmark_located)


@dataclass(frozen=True)
class TrackedMap:
    """What the tracker knows: the start of one candidate, and what is to be judged."""

    sequence: int
    estimate: Estimate
    placed: tuple[int, ...]
    anchored: bool
    doubt: str = ''
    quarantined: tuple[tuple[int, int], ...] = ()


def tracked_map(solution: Solution) -> TrackedMap | None:
    """What an audit needs of a solution; None while nothing is placed."""
    if not solution.placed:
        return None
    return TrackedMap(
        solution.sequence, solution.estimate, solution.placed, solution.anchored, solution.doubt,
        solution.quarantined)


@unique
class VerdictKind(Enum):
    """The outcome of an audit in one word."""

    AGREE = 'agree'
    """No better map than the tracker's was found."""
    BETTER_MAP = 'better_map'
    """Solves of another start end at a lower robust cost: the tracker should adopt that map."""
    CANNOT_TELL = 'cannot_tell'
    """There is nothing to audit yet, or no solve succeeded: `message` says why."""


@dataclass(frozen=True)
class SegmentVerdict:
    """How far the measurements determine one odometry segment."""

    first: int
    """Row of its first pose: its name while the graph grows."""
    robot: str
    location: Location
    missing: str
    rejected_share: float
    """Of its ranges, closures and sightings, those below the rejected weight; 0 where none."""
    apart_m: float = 0.0
    """Distance to the farthest other placement that fits about as well; 0 = there is none."""
    sigma_m: float = 0.0
    """Standard deviation of its newest position, in the worst direction."""
    heading_open: bool = False
    """Whether its newest heading may be off by a quarter turn: what a tick makes of it later is to
    be audited."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one audit, of the graph up to `sequence`."""

    kind: VerdictKind
    sequence: int
    request: int
    """The request that it answers; -1 = it came by itself."""
    newest_stamp_ns: int
    anchored: bool
    """Whether absolute data fix the frame of map; else the gauge robot does."""
    gauge_name: str | None
    estimate: Estimate
    placed: tuple[int, ...]
    """Endpoints of the segments, by their first poses, and landmarks that were solved."""
    segments: tuple[SegmentVerdict, ...]
    landmark_located: Mask
    status: SolveStatus
    message: str
    stats: SolveStats
    withheld: str = ''
    """Why nothing may be published in map yet, whatever is located; '' = it may."""
    findings: tuple[Finding, ...] = ()
    unclear: tuple[tuple[str, str], ...] = ()
    """(robot, why) of robots that are withdrawn since causes could not be told apart; '' = all."""
    undetected: HiddenFaults | None = None
    """What faults that nobody has found may do to newest positions."""
    treatment: Treatment = field(default_factory=Treatment)
    """What its map is made with: the faults that are known, and what the operator has said as far
    as the audit knew."""
    noise: Noise = field(default_factory=Noise)
    """What residuals show, in factors on the variances that measurements claim."""
    variance: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By robot and landmark: variances of its place and of its rotation by that noise, over those
    by the one which measurements are weighted by."""
    final: bool = True
    """False while a start from scratch of the same data is to follow."""
    seconds: float = 0.0

    @property
    def tells(self) -> bool:
        """Whether it says anything about the map."""
        return self.kind is not VerdictKind.CANNOT_TELL


def rejected_of(
    graph: Graph, estimate: Estimate, rows: dict[str, Index], weights: dict[str, Array],
    threshold: float, original: Callable[[str, Index], Index],
) -> tuple[Rejected, ...]:
    """Measurements whose robust weight is below the threshold, by what `original` makes of their
    rows.

    `weights` by table are those of `rows` of the graph.
    """
    result: list[Rejected] = []
    ends = {
        name: [getattr(table, column) for column in table.endpoints()]
        for name, table in graph.tables().items()}
    out = {name: column < threshold for name, column in weights.items() if name in ends}
    # Residuals of these alone: there are few.
    few = graph.replaced(**{
        name: table.take(rows[name][out[name]] if name in out else np.zeros(0, dtype=np.int64))
        for name, table in graph.tables().items()})
    squares = chi_square_residuals(few, estimate)
    for name, chosen in out.items():
        own = rows[name][chosen]
        for row, index, weight, square in zip(
                own.tolist(), original(name, own).tolist(), weights[name][chosen].tolist(),
                squares[name].tolist(), strict=True):
            source, target = [
                *(graph.endpoint_name(int(end[row])) for end in ends[name]), 'map'][:2]
            result.append(Rejected(index, name, source, target, weight, float(np.sqrt(square))))
    return tuple(result)


@dataclass(frozen=True)
class Unused:
    """A measurement that a map does not use, or hardly, for an operator."""

    kind: str
    """range, closure, odometry, sighting, fix, height or vertical."""
    source: str
    """Robot or beacon."""
    target: str
    """Robot or beacon; `map` for absolute data."""
    stamp_ns: int
    residual_m: float
    """Estimated minus measured distance of a range, or height; else between measured and estimated
    position; NaN of a vertical, and where one end has no place in map."""
    sigmas: float
    """The whole residual in standard deviations, as claimed; NaN where an end has no place."""
    weight: float
    """Robust weight; 0 = left out."""
    reason: str


_KINDS = {'ranges': 'range', 'sightings': 'sighting', 'pose_priors': 'fix', 'point_priors': 'fix',
          'heights': 'height', 'verticals': 'vertical'}
_KERNEL, _FAULT = 'robust kernel', 'a fault of its source'
_OPERATOR = 'ignored by the operator'


def unused_of(
    graph: Graph, solution: Solution, faulty: Index, rulings: Rulings, name: str = ''
) -> list[Unused]:
    """What the map of a solution does not use, the largest residuals first.

    `graph` is the sum of all increments up to the solution; `faulty` are rows of its ranges that
    are left out as a group. `name` chooses what a robot or beacon takes part in.
    """
    reasons: list[Unused] = []
    for table_name, table in graph.tables().items():
        weight: dict[int, tuple[float, str]] = {
            rejected.index: (rejected.weight, _KERNEL) for rejected in solution.rejected
            if rejected.type == table_name}
        if table_name == 'ranges':
            weight |= {row: (0.0, _FAULT) for row in faulty.tolist() if row < len(table)}
        ignored = np.flatnonzero(rulings.ignored(graph, table_name, table))
        weight |= dict.fromkeys(ignored.tolist(), (0.0, _OPERATOR))
        if weight:
            reasons += _described(graph, solution, table_name, weight)
    chosen = [unused for unused in reasons if name in ('', unused.source, unused.target)]
    return sorted(chosen, key=lambda unused: -1.0 if np.isnan(unused.sigmas) else unused.sigmas,
                  reverse=True)


def _described(
    graph: Graph, solution: Solution, name: str, weight: dict[int, tuple[float, str]]
) -> list[Unused]:
    """Rows of one table, with their weights and reasons."""
    rows = np.array(sorted(weight), dtype=np.int64)
    table = getattr(graph, name).take(rows)
    few = graph.replaced(measurements={name: table})
    sigmas = np.sqrt(chi_square_residuals(few, solution.estimate)[name])
    residual = np.full(len(rows), np.nan)
    for part in few.residuals():
        if part.point:
            apart = part.vectors(solution.estimate.points, solution.estimate.rows)[:, 0]
            residual = apart[:, -1] if part.height else np.linalg.norm(apart, axis=1) - (
                0.0 if part.distance is None else part.distance)
    placed = _placed(graph, solution)
    names = (*graph.robots, *graph.landmarks.names)
    ends = owners_of(graph, table)
    known = np.all(placed[ends], axis=0)
    residual, sigmas = np.where(known, residual, np.nan), np.where(known, sigmas, np.nan)
    stamps = stamps_of(graph, table)
    odometry = getattr(table, 'odometry', np.zeros(len(rows), dtype=bool))
    return [
        Unused(
            'odometry' if odometry[k] else _KINDS.get(name, 'closure'), names[ends[0][k]],
            names[ends[1][k]] if len(ends) > 1 else 'map', int(stamps[k]), float(residual[k]),
            float(sigmas[k]), *weight[row])
        for k, row in enumerate(rows.tolist())]


def _placed(graph: Graph, solution: Solution) -> Mask:
    """(robots + landmarks,): true where something has a place in map."""
    robots = {state.robot for state in solution.robots
              if state.location in (Location.LOCATED, Location.POSITION_ONLY)}
    landmarks = np.zeros(graph.n_landmarks, dtype=bool)
    landmarks[:len(solution.landmark_located)] = solution.landmark_located
    return np.concatenate([
        np.array([name in robots for name in graph.robots], dtype=bool),
        landmarks | graph.landmarks.fixed])
