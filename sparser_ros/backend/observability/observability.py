"""What the measurements determine: position and heading of robots, positions of landmarks.

Two tests. Local: standard deviations from the Gauss–Newton information of the rigid problem, its
gauge fixed. Global: no mirrored or turned placement explains the measurements about as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...config.backend import ObservabilityConfig
from ...graph import Estimate, Graph
from ...linalg.dense.rotations import nearest_rotation
from ..session.odometry_segments import OdometrySegments
from ..session.solution import Location
from .registration import Candidates, candidates, evidence_of
from .rigid_problem import GROUND, Placement, RigidProblem, rigid_problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_UNKNOWN_M, _UNKNOWN_RAD = 1e4, 30.0
"""Prior standard deviations: they only keep the information matrix invertible."""


@dataclass(frozen=True)
class Hypothesis:
    """Another placement of everything, as a start for a solve that may prefer it."""

    estimate: Estimate
    gap: float
    """Chi-square by which it fits worse than the present placement; negative = better."""
    words: str


@dataclass(frozen=True)
class Alternative:
    """Another place or heading of one variable."""

    variable: int
    """Segment, or number of segments + landmark."""
    kind: str
    """'position' or 'heading'."""
    rotation: Array
    """(d, d): turn in map against the present placement."""
    shift: Array
    """(d,): of a segment's newest pose, or of the landmark, in metres."""
    gap: float
    words: str
    hypothesis: int
    """Index in `Observability.hypotheses`."""


@dataclass(frozen=True)
class Observability:
    """Verdicts per body and landmark, in the order of the graph."""

    location: tuple[Location, ...]
    missing: tuple[str, ...]
    landmark_located: Mask
    heading_sigma_rad: Array
    position_sigma_m: Array
    landmark_sigma_m: Array
    ambiguous: frozenset[int] = field(default_factory=frozenset)
    """Variables with a mirrored or turned alternative."""
    alternatives: tuple[Alternative, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    """Other placements of everything that fit about as well, best first."""


def observe(
    graph: Graph,
    estimate: Estimate,
    segments: OdometrySegments,
    gauge: int | None,
    config: ObservabilityConfig,
    weights: dict[str, Array] | None = None,
    cleared: frozenset[int] = frozenset(),
    rejected_weight: float = 0.1,
) -> Observability:
    """Judge every body and landmark at an estimate in map.

    `gauge` is the body whose first pose is the origin, None where absolute data fix the frame.
    `cleared` names variables whose global test passed before and need not be repeated.
    """
    graph = believed(graph, weights or {}, rejected_weight)
    problem = rigid_problem(graph, estimate, segments, config.range_sigma_floor_m)
    fixed = len(segments) + np.flatnonzero(graph.landmarks.fixed)
    heading, position, reach = _sigmas(problem, estimate, segments, gauge)
    local = position < config.position_sigma_m
    count = len(segments)
    turned = np.ones(problem.variables, dtype=bool)
    turned[:count] = heading < config.heading_sigma_rad
    held = set(fixed.tolist()) | ({gauge} if gauge is not None else set())
    asked = {v for v in np.flatnonzero(local).tolist() if v not in held and v not in cleared}
    alternatives = _mirrored(problem, gauge, asked, heading, config)
    for variable in sorted(asked):
        if variable not in alternatives:
            found = _alternative(problem, variable, bool(turned[variable]), config)
            if found:
                alternatives[variable] = found
    location, missing = [], []
    for body in range(count):
        verdict, text = _verdict(
            body == gauge, bool(local[body]), bool(turned[body]),
            position[body] + reach[body] < config.position_sigma_m,
            alternatives.get(body, ''), _linked(problem, body))
        location.append(verdict)
        missing.append(text)
    landmark = local[count:].copy()
    landmark[[v - count for v in alternatives if v >= count]] = False
    landmark[fixed - count] = True
    return Observability(
        tuple(location), tuple(missing), landmark, heading, position[:count], position[count:],
        frozenset(alternatives))


def believed(graph: Graph, weights: dict[str, Array], rejected_weight: float) -> Graph:
    """The graph under robust weights: rejected rows are left out, others count by their weight."""
    columns = {
        'relative_poses': ('kappa', 'tau'), 'sightings': ('tau',), 'ranges': ('precision',),
        'pose_priors': ('kappa', 'tau'), 'point_priors': ('precision',)}
    parts = {}
    for name, weight in weights.items():
        table = graph.tables()[name]
        kept = np.asarray(weight) >= rejected_weight
        if name == 'relative_poses':
            kept = kept | graph.relative_poses.odometry
        scaled = {column: getattr(table, column) * weight for column in columns[name]}
        parts[name] = table.replaced(**scaled).take(kept)
    return graph.replaced(**parts)


def _verdict(
    gauge: bool, placed: bool, turned: bool, compact: bool, alternative: str, linked: int
) -> tuple[Location, str]:
    if gauge:
        return Location.LOCATED, ''
    if linked == 0:
        return Location.UNLOCATED, (
            'no range or closure ties it to the robots or beacons located in map')
    if alternative == 'position' or not placed or (not turned and not compact):
        if alternative == 'position':
            return Location.UNLOCATED, (
                'a mirrored or turned placement fits its measurements as well: ranges from '
                'places off the present line, or more motion, are missing')
        return Location.UNLOCATED, (
            f'position undetermined: its {linked} constraints come from too few places; ranges '
            'from more places, or more motion, are missing')
    if not turned or alternative == 'heading':
        return Location.POSITION_ONLY, (
            'heading undetermined: it has hardly moved; motion between ranges, or a loop '
            'closure, is missing')
    return Location.LOCATED, ''


def _linked(problem: RigidProblem, variable: int) -> int:
    return sum(
        int(np.sum((pairs.first == variable) | (pairs.second == variable)))
        for pairs in (problem.ranges, problem.same))


def _sigmas(
    problem: RigidProblem, estimate: Estimate, segments: OdometrySegments, gauge: int | None
) -> tuple[Array, Array, Array]:
    """Standard deviations: heading (b,), position (v,), and reach (b,) of heading error."""
    d, count = problem.dimension, len(segments)
    _, jacobian = problem.linearised(problem.identity())
    normal = (jacobian.T @ jacobian).toarray()
    weak = np.full(problem.unknowns, 1 / _UNKNOWN_M**2)
    for body in range(count):
        block = problem.columns(body)
        weak[block.start + d:block.stop] = 1 / _UNKNOWN_RAD**2
    if gauge is not None:
        weak[problem.columns(gauge)] = 1e12
    scale = 1 / np.sqrt(np.diag(normal) + weak)
    scaled = scale[:, None] * (normal + np.diag(weak)) * scale
    covariance = scale[:, None] * np.linalg.inv(scaled) * scale
    heading, reach = np.zeros(count), np.zeros(count)
    position = np.zeros(problem.variables)
    for variable in range(problem.variables):
        block = problem.columns(variable)
        share = covariance[block, block]
        position[variable] = _largest(share[:d, :d])
        if variable < count:
            heading[variable] = _largest(share[d:, d:])
            arm = estimate.translation[segments.of_pose == variable] - problem.centers[variable]
            far = float(np.max(np.linalg.norm(arm, axis=1), initial=0.0))
            reach[variable] = far * min(heading[variable], 2.0)
    return heading, position, reach


def _largest(covariance: Array) -> float:
    return float(np.sqrt(max(np.linalg.eigvalsh(covariance)[-1], 0.0)))


def _differs(
    problem: RigidProblem, variable: int, rotation: Array, shift: Array, turned: bool,
    config: ObservabilityConfig,
) -> str:
    """'position' or 'heading' where a motion is more than the thresholds call equal, else ''."""
    if np.linalg.norm(shift) > max(config.position_sigma_m, 4 * config.range_sigma_floor_m):
        return 'position'
    if variable >= problem.segments or not turned:
        return ''
    chord = np.linalg.norm(rotation - np.eye(problem.dimension)) / np.sqrt(2)
    return 'heading' if chord > 2 * np.sin(min(config.heading_sigma_rad, 1.5)) else ''


def _alternative(
    problem: RigidProblem, variable: int, turned: bool, config: ObservabilityConfig
) -> str:
    """Another placement of one variable among the others as they are, if there is one.

    Landmarks that only this variable sees prove nothing and are left out.
    """
    evidence = evidence_of(problem, variable, _private(problem, variable))
    if evidence.rows == 0:
        return ''
    center = problem.centers[variable]
    d = problem.dimension
    found: Candidates = candidates(
        evidence, variable < problem.segments and turned, (np.eye(d), center))
    near = [
        _differs(problem, variable, rotation, position - center, turned, config)
        for rotation, position in zip(found.rotation, found.position, strict=True)
    ]
    here = [k for k, kind in enumerate(near) if not kind]
    cost_here = found.cost[here[0]] if here else found.cost[0]
    for kind, cost in zip(near, found.cost, strict=True):
        if kind and cost - cost_here < config.flip_cost:
            return kind
    return ''


def _private(problem: RigidProblem, variable: int) -> NDArray[np.int64]:
    """Landmarks tied to nothing but `variable`."""
    first = np.concatenate([problem.ranges.first, problem.same.first])
    second = np.concatenate([problem.ranges.second, problem.same.second])
    shared = np.zeros(problem.variables + 1, dtype=bool)
    shared[first[second != variable]] = True
    shared[second[first != variable]] = True
    alone = np.flatnonzero(~shared[:-1])
    return alone[alone >= problem.segments]


def _mirrored(
    problem: RigidProblem, gauge: int | None, asked: set[int], heading: Array,
    config: ObservabilityConfig,
) -> dict[int, str]:
    """Variables that have another place when all but the reference is mirrored at once."""
    if not asked:
        return {}
    reference = _points_of(problem, GROUND if gauge is None else gauge)
    if len(reference) == 0:
        return {}
    d = problem.dimension
    middle = np.mean(reference, axis=0)
    normal = np.linalg.svd(reference - middle, full_matrices=True)[2][-1]
    mirror = np.eye(d) - 2 * np.outer(normal, normal)
    start = problem.identity()
    rotation, shift = start.rotation.copy(), start.shift.copy()
    for variable in range(problem.variables):
        if variable == gauge:
            continue
        center = problem.centers[variable]
        shift[variable] = (center - middle) @ mirror.T + middle - center
        if variable < problem.segments:
            # A reflection is no motion of a robot; the nearest proper one is.
            arm = _points_of(problem, variable) - center
            rotation[variable] = nearest_rotation((mirror @ (arm.T @ arm))[None])[0]
    free = np.ones(problem.unknowns, dtype=bool)
    if gauge is not None:
        free[problem.columns(gauge)] = False
    here = problem.relaxed(start, free)
    there = problem.relaxed(Placement(rotation, shift), free)
    if problem.cost(there) - problem.cost(here) >= config.flip_cost:
        return {}
    found = {}
    for variable in sorted(asked):
        turned = variable < problem.segments and heading[variable] < config.heading_sigma_rad
        kind = _differs(
            problem, variable, there.rotation[variable] @ here.rotation[variable].T,
            there.shift[variable] - here.shift[variable], turned, config)
        if kind:
            found[variable] = kind
    return found


def _points_of(problem: RigidProblem, variable: int) -> Array:
    parts = [
        points[which == variable]
        for pairs in (problem.ranges, problem.same)
        for which, points in (
            (pairs.first, pairs.point_first), (pairs.second, pairs.point_second))
    ]
    return np.concatenate(parts)
