"""What may be believed of the map of a tick: who is located, how surely, and what denies it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Mask
from ...graph import Estimate
from ...graph.odometry_segments import find_segments
from ...solver.result import SolveStats
from . import trust
from .covariances import Covariances, JointCovariance, covariances
from .frame import pinned, pins_of
from .graph_store import GraphStore
from .hidden_risk import driven_on, without_the_doubtful
from .newest_evidence import since_audit
from .placed_map import PlacedMap
from .protection import Protection
from .protection_frame import free_network, scene_of
from .protection_levels import protection_levels
from .solution import Location, RobotLocation
from .suspicions import Suspicions
from .unconfirmed import failed_ranges, unconfirmed
from .verdict import Verdict

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

FrameKey = tuple[bool, str | None]
"""Whether absolute data fix the frame of map, and else the robot that does."""


@dataclass(frozen=True)
class TickPlaces:
    """The estimate of a tick in map, and what of it may be published."""

    estimate: Estimate
    robots: tuple[RobotLocation, ...]
    landmark_located: Mask
    """(m,)."""
    contradictions: dict[str, str]
    """Robots whose data since the newest audit deny its map, and why."""
    covariances: Covariances | None
    protection: Protection | None


def tick_places(
    store: GraphStore, current: PlacedMap, stats: SolveStats, verdict: Verdict | None,
    frame: FrameKey, suspicions: Suspicions, config: SparserConfig,
) -> TickPlaces:
    """What the newest verdict and the data since say of a map that has just been solved."""
    graph, estimate, anchored = store.graph, current.estimate(), frame[0]
    segments = find_segments(graph)
    contradictions: dict[str, str] = {}
    news = False
    fit: dict[str, float] = {}
    located = np.zeros(graph.n_landmarks, dtype=bool)
    if verdict is not None:
        since = since_audit(
            graph, segments, estimate, verdict, current.rows(), current.squares(), stats.weights,
            store.rows_until(verdict.sequence), config)
        contradictions = suspicions.lost(
            trust.adrift(since, verdict, graph.robots, config), verdict.sequence
        ) | trust.contradictions(since, verdict, graph.robots, config)
        news = bool(np.any(since.audited > 0))
        fit = dict(zip(graph.robots, since.fit.tolist(), strict=True))
        if config.backend.integrity.gate:
            contradictions = unconfirmed(
                store, failed_ranges(
                    store, estimate, current.rows()['ranges'], current.squares()['ranges']),
                {robot: trust.usual_share(verdict, robot) for robot in graph.robots},
            ) | contradictions
        if not verdict.withheld:
            located[:len(verdict.landmark_located)] = verdict.landmark_located
    shift = None if anchored else pinned(graph, estimate, located, config)
    if shift is not None:
        estimate = estimate.moved(np.eye(config.dimension), shift)
    audited = trust.locations(graph, segments, verdict, {}, store.newest_stamp_ns, config, news)
    robots = trust.locations(
        graph, segments, verdict, contradictions | _waiting(
            suspicions, contradictions, audited, fit, verdict, store.newest_stamp_ns, config),
        store.newest_stamp_ns, config, news)
    known, protection = None, None
    if config.backend.covariance != 'off':
        joint = current.covariance(graph)
        if joint is not None:
            known = _covariances(joint, store, located, estimate, frame, config)
            scene = scene_of(graph, estimate, robots, located, joint)
            hidden = None if verdict is None or verdict.undetected is None else driven_on(
                verdict.undetected, graph, estimate)
            robots = without_the_doubtful(scene, known, hidden, config.backend)
            protection = protection_levels(
                replace(scene, robots=robots), known, verdict, config.backend.integrity)
    return TickPlaces(
        estimate, robots, located | (graph.landmarks.fixed & anchored), contradictions, known,
        protection)


def _waiting(
    suspicions: Suspicions, contradictions: dict[str, str], audited: Sequence[RobotLocation],
    fit: dict[str, float], verdict: Verdict | None, newest_stamp_ns: int, config: SparserConfig,
) -> dict[str, str]:
    """Robots that data denied a moment ago although the audit had located them, and why."""
    if verdict is None or not config.backend.integrity.gate:
        return {}
    found = {name for one in verdict.findings for name in one.subject.split(' and ')}
    placed = {one.robot for one in audited if one.location is Location.LOCATED}
    return suspicions.held(
        {name: text for name, text in contradictions.items() if name in placed}, found, fit,
        newest_stamp_ns)


def _covariances(
    joint: JointCovariance, store: GraphStore, located: Mask, estimate: Estimate, frame: FrameKey,
    config: SparserConfig,
) -> Covariances:
    graph, (anchored, gauge) = store.graph, frame
    pins = [] if anchored else [
        row for row in pins_of(graph, located, config) if joint.landmarks[row] >= 0]
    found = covariances(
        joint, graph, None if anchored else gauge, np.array(pins, dtype=np.int64))
    if not anchored:
        found = replace(found, network=free_network(joint, estimate.landmarks, located))
    return found.scaled() if config.backend.covariance == 'found' else found
