"""What an audit found: the best map it knows, what is located in it, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique

from ...array_types import Mask
from ...graph import Estimate
from ...graph.finding import Finding
from ...solver.result import SolveStats, SolveStatus
from ..integrity.noise import Noise
from ..integrity.undetected import HiddenFaults
from .solution import Location
from .treatment import Treatment


@unique
class VerdictKind(Enum):
    """The outcome of an audit in one word."""

    AGREE = 'agree'
    """No better map than the tracker's was found."""
    BETTER_MAP = 'better_map'
    """Solves of another start end at a lower robust cost: the tracker should adopt that map."""
    AMBIGUOUS = 'ambiguous'
    """The best map is known, but some robots have a second placement that fits about as well."""
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
    sigma_rad: float = 0.0
    """That of its newest heading."""


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
    placed: tuple[str, ...]
    """Names of the segments and landmarks that were solved."""
    segments: tuple[SegmentVerdict, ...]
    landmark_located: Mask
    status: SolveStatus
    message: str
    stats: SolveStats
    withheld: str = ''
    """Why nothing may be published in map yet, whatever is located; '' = it may."""
    findings: tuple[Finding, ...] = ()
    gate_reasons: tuple[str, ...] = ()
    """Why the data as a whole do not pass the gate before publishing; () = they do."""
    gate_robots: tuple[tuple[str, str], ...] = ()
    """(robot, reason): robots that alone do not pass it."""
    undetected: HiddenFaults | None = None
    """What faults that nobody has found may do to newest positions."""
    odometry_factors: dict[str, float] = field(default_factory=dict)
    """Found over claimed variance of a robot's odometry, at least 1."""
    treatment: Treatment = field(default_factory=Treatment)
    """What its map is made with: the faults that are known, and what the operator has said as far
    as the audit knew."""
    noise: Noise = field(default_factory=Noise)
    """Factors on the variances that measurements claim, as residuals show them."""
    variance: dict[str, float] = field(default_factory=dict)
    """By robot and landmark: variance of its place by the noise as it is, over that by the claimed
    noise."""
    final: bool = True
    """False while a start from scratch of the same data is to follow."""
    seconds: float = 0.0

    @property
    def tells(self) -> bool:
        """Whether it says anything about the map."""
        return self.kind is not VerdictKind.CANNOT_TELL
