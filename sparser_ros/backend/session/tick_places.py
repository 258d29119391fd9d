"""What may be believed of the map of a tick: who is located, how surely, and what denies it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Mask
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.odometry_segments import find_segments
from ...solver.result import SolveStats
from ..integrity.undetected import HiddenFaults
from ..observability.observability import UNDETERMINED_M
from . import trust
from .covariances import KNOWN_POSITIONS, NETWORK, Covariances
from .frame import pinned
from .graph_store import GraphStore
from .hidden_risk import audited_rows, driven_on, without_the_doubtful
from .maps import PlacedMap
from .protection_frame import Scene, landmarks_beside_each_other, scene_of, view_of
from .protection_levels import protection_levels
from .solution import Location, Protection, RobotLocation
from .trust import Suspicions, failed_ranges, since_audit, unconfirmed
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
    cautions: tuple[Finding, ...]
    """Robots that are placed at a risk which is accepted and not small."""


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
    cautions: tuple[Finding, ...] = ()
    if config.backend.covariance != 'off':
        hidden = None if verdict is None else verdict.undetected
        keyframes = before = np.zeros(0, dtype=np.int64)
        if hidden is not None:
            before = audited_rows(hidden, graph)
            keyframes = keyframes if anchored else hidden.keyframes
        joint = current.covariance(graph, np.concatenate([keyframes, np.maximum(before, 0)]))
        if joint is not None:
            joint, places = joint.parted(len(keyframes))
            if hidden is not None:
                hidden = driven_on(hidden, graph, estimate, joint, before, places)
            scene = scene_of(graph, estimate, robots, located, joint, keyframes, anchored,
                             {} if verdict is None else verdict.variance)
            scene, cautions = without_the_doubtful(scene, hidden, config.backend)
            robots = tuple(scene.robots)
            if verdict is not None and not verdict.withheld:
                known = _covariances(scene, hidden, graph, verdict)
            protection = protection_levels(scene, verdict, config.backend.integrity)
    return TickPlaces(
        estimate, robots, located | (graph.landmarks.fixed & anchored), contradictions, known,
        protection, cautions)


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
    scene: Scene, hidden: HiddenFaults | None, graph: Graph, verdict: Verdict
) -> Covariances:
    """What the solution states of newest poses and landmarks.

    A robot with another place that fits about as well is here or there with equal probability:
    half of the square of their distance is in the covariance. Of a robot that the audit finds
    undetermined nothing is stated, since nobody has looked for other places.
    """
    size, d = scene.size, graph.dimension
    unknown, poses = np.diag(np.full(size, np.inf)), []
    states = {state.robot: state.location for state in scene.robots}
    for name in graph.robots:
        view, own = view_of(name, scene, hidden), trust.newest_of(verdict, name)
        if view is None or own is None or own.sigma_m >= UNDETERMINED_M:
            poses.append(unknown)
            continue
        pose = view.pose.copy()
        if hidden is not None and not np.any(view.rows < 0):
            # Errors that sound sources have: the data are read as if there were none.
            small = np.hstack([view.of(hidden.common), view.of(hidden.shift)[:, :1]])
            pose[:d, :d] += small @ small.T
        if not states[name].placed:
            pose[:d, :d] += own.apart_m**2 / 2 * np.eye(d)
        poses.append(pose)
    return Covariances(
        graph.robots, np.array(poses).reshape(-1, size, size),
        landmarks_beside_each_other(scene, graph.n_landmarks),
        KNOWN_POSITIONS if scene.anchored else NETWORK,
        float(np.median([scene.variance.get(name, 1.0) for name in graph.robots])))
