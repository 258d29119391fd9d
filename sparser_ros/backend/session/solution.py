"""What the back-end hands out after a solve: an immutable picture of everything it knows.

And the parts of it that may be shown in `map`, and that an audit starts from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from ...array_types import Array, Mask
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.subgraph import Subgraph, extract
from ...solver.result import SolveStats, SolveStatus
from ..observability.datum import Location
from .covariances import Covariances


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
    placed: tuple[str, ...] = ()
    """Names of the segments and landmarks that are solved (`frame.Frame.name`)."""
    quarantined: tuple[tuple[int, int], ...] = ()
    """(sequence, level) of increments left out because no solve succeeds with them."""
    covariances: Covariances | None = None
    """None where no factor gives them: before the first map, in whole solves, or switched off."""
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

    @property
    def laid(self) -> tuple[str, ...]:
        """Robots whose whole path is shown in `map`: those with a fix, once two are placed.

        Before that the path of the first one is all there is of a map, and how the paths of the
        others lie beside it is what their covariances tell: a turn, or the mirror image, may be
        open. They have a pose. What was shown once stays with who listens: so it is always the
        first, and not the surest of the moment.
        """
        fixes = self.fixes
        stated = [robot for robot, fix in fixes.items() if fix is not Fix.NONE]
        if self.anchored or sum(state.location.placed for state in self.robots) > 1:
            return tuple(stated)
        return tuple(robot for number, robot in enumerate(fixes)
                     if fixes[robot] is Fix.FIXED or (number == 0 and robot in stated))


def withdrawn(solution: Solution, reason: str) -> Solution:
    """The last solution with nothing located any more, because the newest solve failed."""
    return replace(
        solution, status=SolveStatus.FAILED, message=reason, full=False,
        robots=tuple(
            replace(one, location=Location.UNLOCATED, missing=reason) for one in solution.robots),
        landmark_located=np.zeros(len(solution.landmark_located), dtype=bool), covariances=None,
        protection=None)


def located_part(graph: Graph, solution: Solution) -> tuple[Graph, Estimate]:
    """The graph of what has a position in map, and its estimate."""
    part = located(graph, solution)
    return part.graph, part.of(solution.estimate)


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
    placed: tuple[str, ...]
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
