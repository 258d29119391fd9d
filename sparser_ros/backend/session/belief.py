"""What may be believed of the map of a tick: who is located, how surely, and what denies it.

A robot is placed while the risk that it is off by more than the alert limit is accepted. A fault is
named once false alarms are rarer than stated, which may take a minute in which it bends the map.
Before that it is one of h + 1 hypotheses: no source errs, or one of them does, each with the prior
probability P (`integrity.fault_probability`). With the evidence B_i of the newest audit
(integrity/undetected.py), carried along the way since then,

    risk = sum over i of p_i Pr(|N(d_i, sigma_i^2)| > limit),   p_i = P B_i / (1 + sum P B_j),

d_i being the shift to the estimate that allows for fault i, sigma_i^2 its covariance. Noise alone
is the case of no fault. A fault that is likelier than none is a part of the map: hypotheses are
then further ones beside it, and that there is none, or another one, instead.

The protection level is the distance beyond which the robot is with the integrity risk p of
`integrity.risk`: by the same sum, with the errors that sound sources have,

    sum over i of p_i Pr(chi^2 > ((level - a - |d_i|) / sigma_i)^2) = p,

a being the distance to other placements that fit about as well.
Positions are relative to the datum of scene.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh
from scipy.special import chdtrc, chdtri, softmax

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.parts import find_segments
from ...graph.precision import rotation_variance, translation_variance
from ...linalg.rotations import rotation_jacobian
from ..integrity.gate import beyond
from ..integrity.undetected import HiddenFaults, in_words
from ..observability.observability import UNDETERMINED_M
from . import trust
from .frame import pinned
from .graph_store import GraphStore
from .maps import PlacedMap
from .scene import JointCovariance, Scene, View, landmarks_beside_each_other, scene_of, view_of
from .solution import (
    KNOWN_POSITIONS,
    NETWORK,
    Covariances,
    Location,
    Protection,
    RobotLocation,
    Verdict,
)

if TYPE_CHECKING:
    from ...config.backend_config import BackendConfig, IntegrityConfig
    from ...config.sparser import SparserConfig

CAUTION, FAULT_CAUTION = 0.2, 0.05
"""Shares of the accepted risk from which an operator hears of it, and of that of hidden faults:
noise ends with more ranges, a fault goes on until somebody looks for it."""


def audited_rows(hidden: HiddenFaults, graph: Graph) -> Index:
    """(r,): rows of the poses that were the newest at an audit, -1 = the graph was thinned."""
    rows = np.full(len(hidden.robots), -1, dtype=np.int64)
    for number, name in enumerate(hidden.robots):
        own = np.flatnonzero(graph.poses.robot == graph.robots.index(name))
        stamps = graph.poses.stamp_ns[own]
        at = int(np.searchsorted(stamps, hidden.stamp_ns[number], side='right')) - 1
        if at >= 0:
            rows[number] = own[at]
    return rows


def driven_on(
    hidden: HiddenFaults, graph: Graph, estimate: Estimate, joint: JointCovariance,
    audited: Index, places: Index,
) -> HiddenFaults:
    """The faults of an audit, for robots that have driven on along an estimate since.

    `audited` are `audited_rows`, (r,) `places` theirs in the joint covariance, -1 = not there.
    """
    d, count = graph.dimension, len(hidden.robots)
    way, seconds = np.zeros((count, d)), np.zeros(count)
    share = np.tile(np.eye(d, d + (1 if d == 2 else 3)), (count, 1, 1))
    for number, name in enumerate(hidden.robots):
        robot, begin = graph.robots.index(name), int(audited[number])
        if begin < 0:
            continue
        end = int(np.flatnonzero(graph.poses.robot == robot)[-1])
        way[number] = estimate.translation[end] - estimate.translation[begin]
        seconds[number] = (graph.poses.stamp_ns[end] - graph.poses.stamp_ns[begin]) * 1e-9
        if end != begin and places[number] >= 0 and joint.poses[robot] >= 0:
            share[number] = _share_left(
                graph, estimate, begin, end, joint, int(places[number]), int(joint.poses[robot]))
    return hidden.driven_on(way, seconds, share)


def _share_left(
    graph: Graph, estimate: Estimate, begin: int, end: int, joint: JointCovariance, before: int,
    now: int,
) -> Array:
    """(d, d + turns): share of an error of odometry from pose `begin` to `end` that is left.

    With z the position of `end` relative to `begin`, and its rotation, odometry says z with the
    covariance Q, the rotation of `begin` included, and all measurements together with P: an error
    of odometry moves z by P Q^-1 of it. `before` and `now` are places of the poses in `joint`.
    """
    d, robot = graph.dimension, graph.poses.robot[end]
    table = graph.relative_poses
    chain = np.flatnonzero(
        table.odometry & (table.j > begin) & (graph.poses.robot[table.j] == robot))
    size = joint.size(d)
    whole = np.eye(d, size)
    if len(chain) < np.sum(graph.poses.robot[begin + 1:] == robot):
        return whole
    edges, place = table.take(chain), estimate.translation
    arms = rotation_jacobian(place[end] - place[np.append(edges.j, begin)])
    turned = np.concatenate([arms, np.tile(np.eye(size - d), (len(arms), 1, 1))], axis=1)
    first, last = (slice(size * k, size * (k + 1)) for k in (before, now))
    turn_variance = np.concatenate([
        rotation_variance(edges.kappa, d)[:, None, None] * np.eye(size - d),
        joint.joint[first, first][None, d:, d:]])
    Q = np.sum(turned @ turn_variance @ np.swapaxes(turned, 1, 2), axis=0)
    Q[:d, :d] += np.sum(translation_variance(edges.tau)) * np.eye(d)
    both = joint.joint[np.r_[last, first], :][:, np.r_[last, first]]
    difference = np.hstack([np.eye(size), -np.diag(np.repeat([1.0, 0.0], [d, size - d]))])
    P = difference @ both @ difference.T
    values, vectors = eigh(P, Q)
    return np.asarray((Q @ vectors * np.clip(values, 0.0, 1.0) @ vectors.T)[:d])


def without_the_doubtful(
    scene: Scene, hidden: HiddenFaults | None, config: BackendConfig,
) -> tuple[Scene, tuple[Finding, ...]]:
    """The scene without the robots at risk, which are withdrawn with the likeliest cause in words.

    The findings tell of robots that are placed at a risk which is accepted and not small.

    A robot must be within the limit beside the datum and, where no position is known, as seen from
    the path of one robot, the reference, by which people who compare paths lay the map on the
    world. That is the robot beside which most are located: two that know each other well are,
    although the gauge robot, far off, is not beside them yet. The gauge robot is the reference
    where it serves as well.
    """
    best = _beside(scene, hidden, config)
    if scene.anchored:
        return best

    def located(seen: tuple[Scene, tuple[Finding, ...]]) -> int:
        return sum(state.location is Location.LOCATED for state in seen[0].robots)

    placed = [state.robot for state in scene.robots if state.location.placed]
    for name in placed:
        if located(best) == len(placed):
            break
        if name != scene.gauge and name in scene.owners:
            found = _beside(replace(scene, reference=name), hidden, config)
            best = max(best, found, key=located)
    return best


def _beside(
    scene: Scene, hidden: HiddenFaults | None, config: BackendConfig
) -> tuple[Scene, tuple[Finding, ...]]:
    """`without_the_doubtful` with the reference of the scene.

    Who has no covariance, or is at risk as seen from its path, goes at once: in the datum of the
    others a robot far off would make all of them look uncertain. Of the others the least sure one
    goes first: then it is no longer in the datum of the rest.
    """
    limit = config.observability.integrity_risk
    known = {name for name, place in zip(scene.names, scene.place, strict=False) if place >= 0}
    scene = _without(scene, {
        state.robot: 'its position is not determined; more ranges, or ranges from other places, '
        'are missing' for state in scene.robots
        if state.location.placed and state.robot not in known})
    path = scene.keyframes(scene.gauge)
    along: dict[str, _Risk] = {}
    for state in scene.robots:
        view = view_of(state.robot, scene, hidden, path) if len(path) and (
            state.robot != scene.gauge and state.location.placed) else None
        if view is not None:
            along[state.robot] = _risk(view, hidden, config)
    scene = _without(scene, {
        robot: risk.reason for robot, risk in along.items() if risk.probability > limit})
    while True:
        views = {state.robot: view for state in scene.robots if state.location.placed
                 and (view := view_of(state.robot, scene, hidden)) is not None}
        risks = {robot: _risk(view, hidden, config) for robot, view in views.items()}
        texts = {robot: risk.reason for robot, risk in risks.items() if risk.probability > limit}
        if not texts:
            break
        worst = max(texts, key=lambda robot: float(np.trace(views[robot].noise)))
        scene = _without(scene, {worst: texts[worst]})
    headings = {
        state.robot: risk for state in scene.robots if state.location is Location.LOCATED
        and state.robot in views and (risk := _heading_risk(state.robot, scene, config))}
    turned = {
        robot: f'heading too uncertain for the size of the map: {risk.reason}'
        for robot, risk in headings.items() if risk.probability > limit}
    turned |= {
        robot: _heading_words(view.heading_sigma) for robot, view in views.items()
        if view.heading_sigma >= config.observability.heading_sigma_rad}
    robots = tuple(
        replace(state, location=Location.POSITION_ONLY, missing=turned[state.robot])
        if state.robot in turned and state.location is Location.LOCATED else state
        for state in scene.robots)
    risks = {robot: max(risk, along.get(robot, risk), key=lambda seen: seen.probability)
             for robot, risk in risks.items()}
    return replace(scene, robots=robots), (
        *_cautions(risks, 'the position of {robot}', config),
        *_cautions(headings, f'the position of {scene.gauge} beside the path of {{robot}}', config))


def _heading_words(sigma_rad: float) -> str:
    known = (f'uncertain by {math.degrees(sigma_rad):.0f} degrees'
             if sigma_rad < math.pi / 2 else 'not determined')
    return f'its heading is {known}; motion between ranges, or a loop closure, is missing'


def _cautions(
    risks: Mapping[str, _Risk], what: str, config: BackendConfig
) -> tuple[Finding, ...]:
    """Findings on risks that are accepted and not small."""
    limit = config.observability.integrity_risk
    return tuple(
        Finding('position_risk', robot, (
            f'{what.format(robot=robot)} is off by more than '
            f'{config.observability.alert_limit_m:g} m with a probability of '
            f'{100 * risk.probability:.2g} %: {risk.reason}'), risk.probability)
        for robot, risk in risks.items() if risk.probability <= limit and (
            risk.probability > CAUTION * limit or risk.of_faults > FAULT_CAUTION * limit))


def _without(scene: Scene, texts: Mapping[str, str]) -> Scene:
    """The scene with robots withdrawn, by what is missing."""
    return replace(scene, robots=tuple(
        replace(state, location=Location.UNLOCATED, missing=texts[state.robot])
        if state.robot in texts else state for state in scene.robots))


@dataclass(frozen=True)
class _Risk:
    """Risk that a position is off by more than the alert limit."""

    probability: float
    reason: str
    """What it is due to most, in words."""
    of_faults: float = 0.0
    """What hidden faults add to that of noise."""


def _heading_risk(robot: str, scene: Scene, config: BackendConfig) -> _Risk | None:
    """Risk that the heading of a robot is too uncertain for the size of a map without beacons.

    Seen from its path the gauge robot must be within the alert limit as well.
    """
    if scene.anchored or not scene.owners or robot == scene.gauge:
        return None
    view = view_of(scene.gauge, scene, None, scene.keyframes(robot))
    if view is None:
        return None
    sigma = math.sqrt(float(np.linalg.eigvalsh(view.noise)[-1]))
    return _Risk(
        float(beyond(np.zeros((1, len(view.noise))), view.noise[None],
                     config.observability.alert_limit_m)[0]),
        f'seen from it, {scene.gauge} is uncertain by {sigma:.1f} m; ranges from places further '
        'apart are missing')


def _risk(view: View, hidden: HiddenFaults | None, config: BackendConfig) -> _Risk:
    """The risk of a view."""
    accepted, integrity = config.observability, config.integrity
    limit, d = accepted.alert_limit_m, len(view.noise)
    alone = beyond(np.zeros((1, d)), view.noise[None], limit)[0]
    likely, risk = np.ones(1), np.zeros(0)
    if hidden is not None and integrity.gate and len(hidden.causes):
        likely = hidden.likely(integrity.fault_probability)
        shift = view.of(hidden.lone_shift).T
        covariance = view.with_faults(
            view.noise, hidden.lone, hidden.owner, len(hidden.causes))[1:]
        risk = likely[1:] * beyond(shift, covariance, limit)
    sound = float(likely[0] * alone)
    total = sound + float(np.sum(risk))
    of_faults = float(np.sum(np.maximum(risk - likely[1:] * alone, 0.0)))
    if hidden is None or not len(risk) or sound >= np.max(risk):
        sigma = math.sqrt(float(np.linalg.eigvalsh(view.noise)[-1]))
        return _Risk(total, (
            f'its position is uncertain by {sigma:.1f} m; more ranges, or ranges from other '
            'places, are missing'), of_faults)
    worst = int(np.argmax(risk))
    return _Risk(total, _reason(
        hidden.causes[worst], float(likely[1 + worst]), float(np.linalg.norm(shift[worst])),
        math.sqrt(float(np.linalg.eigvalsh(covariance[worst])[-1]))), of_faults)


def _reason(cause: str, likely: float, distance: float, sigma: float) -> str:
    return (f'with a probability of {100 * likely:.0f} % {in_words(cause)}, and it is '
            f'{distance:.1f} m away then (standard deviation {sigma:.1f} m)')


def protection_levels(
    scene: Scene, hidden: HiddenFaults | None, verdict: Verdict | None, config: IntegrityConfig,
) -> Protection:
    """The levels of all robots; `hidden` faults as they are for robots that have driven on."""
    flat, up = [], []
    planar = scene.position.shape[1] == 2
    for state in scene.robots:
        known = None
        if hidden is not None and state.location is not Location.UNLOCATED:
            known = _errors(state.robot, scene, hidden, config)
        if verdict is None or known is None:
            flat.append(math.inf)
            up.append(math.nan if planar else math.inf)
            continue
        apart = max((
            part.apart_m for part in verdict.segments if part.robot == state.robot), default=0.0)
        likely, shift, covariance = known
        flat.append(apart + level(likely, shift[:, :2], covariance[:, :2, :2], config.risk))
        up.append(math.nan if planar else apart + level(
            likely, shift[:, 2:], covariance[:, 2:, 2:], config.risk))
    return Protection(
        tuple(state.robot for state in scene.robots), np.array(flat), np.array(up))


def level(likely: Array, shift: Array, covariance: Array, risk: float) -> float:
    """Metres beyond which a mixture is with a risk: (n,) weights, (n, k), (n, k, k)."""
    k, away = shift.shape[1], np.linalg.norm(shift, axis=1)
    sigma = np.sqrt(np.maximum(np.linalg.eigvalsh(covariance)[:, -1], 1e-18))
    # All of it lies within the farthest one at that risk.
    low, high = 0.0, float(np.max(away + np.sqrt(chdtri(k, risk)) * sigma))
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        beyond_it = likely @ chdtrc(k, (np.maximum(middle - away, 0.0) / sigma) ** 2)
        low, high = (middle, high) if beyond_it > risk else (low, middle)
    return high


def _errors(
    robot: str, scene: Scene, hidden: HiddenFaults, config: IntegrityConfig
) -> tuple[Array, Array, Array] | None:
    """Weights (n,), shifts (n, d) and covariances (n, d, d) of a robot's position; None = not
    known.

    Without a fault, and with each of the kinds that levels allow for.
    """
    view = view_of(robot, scene, hidden)
    if view is None or np.any(view.rows < 0):
        return None
    common, counted = view.of(hidden.common), np.append(True, hidden.in_levels)
    return (
        softmax(hidden.log_odds(config.fault_probability)[counted]),
        np.vstack([view.of(hidden.common_shift).T, view.of(hidden.lone_shift).T])[counted],
        view.with_faults(view.noise + common @ common.T, hidden.lone, hidden.owner,
                         len(hidden.causes))[counted])


FrameKey = tuple[bool, str | None]
"""Whether absolute data fix the frame of map, and else the robot that does."""


@dataclass(frozen=True)
class TickPlaces:
    """The estimate of a tick in map, and what of it may be published."""

    estimate: Estimate
    robots: tuple[RobotLocation, ...]
    landmark_located: Mask
    """(m,)."""
    contradictions: dict[str, trust.Denial]
    """Robots whose data since the newest audit deny its map."""
    covariances: Covariances | None
    protection: Protection | None
    cautions: tuple[Finding, ...]
    """Robots that are placed at a risk which is accepted and not small."""
    pin: Array | None
    """(d,): shift of map to where known places are configured that do not fix its frame."""


def tick_places(
    store: GraphStore, current: PlacedMap, verdict: Verdict | None,
    frame: FrameKey, pin: Array | None, config: SparserConfig,
) -> TickPlaces:
    """What the newest verdict and the data since say of a map that has just been solved.

    `pin` is that of the tick before: a known place that is no longer located moves nothing.
    """
    graph, estimate, anchored = store.graph, current.estimate(), frame[0]
    contradictions: dict[str, trust.Denial] = {}
    located = np.zeros(graph.n_landmarks, dtype=bool)
    hidden = None if verdict is None else verdict.undetected
    keyframes = before = np.zeros(0, dtype=np.int64)
    if hidden is not None:
        before = audited_rows(hidden, graph)
        keyframes = keyframes if anchored else hidden.keyframes
    joint = current.covariance(graph, np.concatenate([keyframes, np.maximum(before, 0)]))
    news = joint is None
    if verdict is not None:
        until = store.rows_until(verdict.sequence)
        news |= bool(
            len(graph.ranges) > until['ranges'] or len(graph.sightings) > until['sightings']
            or not np.all(graph.relative_poses.odometry[until['relative_poses']:]))
        if config.backend.integrity.gate:
            contradictions = trust.contradictions(
                store, estimate, current.rows(), verdict, config)
        if not verdict.withheld:
            located[:len(verdict.landmark_located)] = verdict.landmark_located
    if not anchored:
        # A beacon that was moved, or misplaced, says nothing of the frame any more.
        right = located & ~np.isin(graph.landmarks.names, store.treatment.released)
        now = pinned(graph, estimate, right, config)
        if now is None and pin is None:
            now = pinned(graph, estimate, located, config)
        pin = pin if now is None else now
    if pin is not None:
        estimate = estimate.moved(np.eye(config.dimension), pin)
    robots = trust.locations(
        graph, find_segments(graph), verdict,
        {robot: denial.words for robot, denial in contradictions.items()},
        store.newest_stamp_ns, config, news)
    known, protection = None, None
    cautions: tuple[Finding, ...] = ()
    if joint is not None:
        if hidden is not None:
            hidden = driven_on(
                hidden, graph, estimate, joint, before, joint.keyframes[len(keyframes):])
        joint = replace(joint, keyframes=joint.keyframes[:len(keyframes)])
        scene = scene_of(graph, estimate, robots, located, joint, keyframes, anchored,
                         {} if verdict is None else verdict.variance)
        scene, cautions = without_the_doubtful(scene, hidden, config.backend)
        robots = tuple(_audited(state, verdict) for state in scene.robots)
        scene = replace(scene, robots=robots)
        if verdict is not None and not verdict.withheld and '' not in dict(verdict.unclear):
            known = _covariances(
                scene, hidden, graph, verdict, joint.variance_factor, contradictions)
        protection = protection_levels(scene, hidden, verdict, config.backend.integrity)
    return TickPlaces(
        estimate, robots, located | (graph.landmarks.fixed & anchored), contradictions, known,
        protection, cautions, pin)


def _audited(state: RobotLocation, verdict: Verdict | None) -> RobotLocation:
    """With a heading that a tick has found alone not trusted yet."""
    own = None if verdict is None else trust.newest_of(verdict, state.robot)
    if state.location is not Location.LOCATED or own is None or not own.heading_open:
        return state
    return replace(state, location=Location.POSITION_ONLY, missing=(
        'its heading was not determined at the newest audit; the next one decides'))


def _covariances(
    scene: Scene, hidden: HiddenFaults | None, graph: Graph, verdict: Verdict, factor: float,
    denials: Mapping[str, trust.Denial],
) -> Covariances:
    """What the solution states of newest poses and landmarks.

    A robot with another place that fits about as well is here or there with equal probability:
    half of the square of their distance is in the covariance. One that its newest ranges deny may
    be as far off as they say. Of a robot that the audit finds undetermined, or that is denied by
    others than ranges, nothing is stated, since nobody has looked for other places.
    """
    size, d = scene.size, graph.dimension
    unknown, poses = np.diag(np.full(size, np.inf)), []
    states = {state.robot: state.location for state in scene.robots}
    for name in graph.robots:
        view, own = view_of(name, scene, hidden), trust.newest_of(verdict, name)
        if view is None or own is None or own.sigma_m >= UNDETERMINED_M:
            poses.append(unknown)
            continue
        off_m = denials[name].off_m if name in denials else 0.0
        if not math.isfinite(off_m):
            poses.append(unknown)
            continue
        pose = view.pose.copy()
        pose[:d, :d] += off_m**2 * np.eye(d)
        if hidden is not None and not np.any(view.rows < 0):
            # Errors that sound sources have: the data are read as if there were none.
            small = np.hstack([view.of(hidden.common), view.of(hidden.common_shift)])
            pose[:d, :d] += small @ small.T
        if not states[name].placed:
            pose[:d, :d] += own.apart_m**2 / 2 * np.eye(d)
        poses.append(pose)
    return Covariances(
        graph.robots, np.array(poses).reshape(-1, size, size),
        landmarks_beside_each_other(scene, graph.n_landmarks),
        KNOWN_POSITIONS if scene.anchored else NETWORK, factor)
