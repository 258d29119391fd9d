"""What a solved graph leaves open: parts without one place, and measurements that contradict.

Poses that relative poses tie together are one rigid part; parts and landmarks are the variables
here, points and distances between them the measurements. Two questions are asked of each while
all others stand still. Is it held: does it move by less than its distance to what it measures? And
is there another minimum of its measurements that fits about as well?
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from scipy.special import chdtri

from ...array_types import Array, Mask
from ...config.backend_config import ObservabilityConfig
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.graph import counted
from ...graph.measurements import Kind
from ...graph.parts import (
    OdometrySegments,
    components,
    connected,
    find_segments,
    thinly_measured,
    undetermined,
)
from ...io.report import REJECTED_BELOW, whitened
from ...linalg.process import single_threaded_blas
from ...linalg.rotations import rotation_jacobian
from ...solver.covariance import variance_factor
from .alternatives import private_landmarks
from .datum import frame_missing
from .observability import MOST_RANGES
from .pieces import cut
from .registration import candidates, constraints, evidence_of
from .rigid_kernels import DIRECTION, DISTANCE, HEIGHT, WHOLE, Ties
from .rigid_model import RobustWeights, rigid_problem
from .rigid_problem import Placement, RigidProblem

FALSE_PROBABILITY = 1e-6
"""Of a residual that is called false although nothing is wrong, if noise is Gaussian."""
MOST_MISFIT = 3.0
"""Root mean square of whitened residuals from which the claimed noise is called too small."""
MUCH_REJECTED = 0.2
"""Share of the measurements of a kind from which their rejection is told."""
APART, APART_SHARE = 3.0, 0.05
"""Standard deviations, and share of the distance to what is measured, that another minimum must be
away to be another place."""
MOST_JOINT, MOST_MOTIONS = 600, 100
"""Unknowns of a joint test with all free motions (0.1 s); beyond it so many of them are looked for.
"""
MOST_SEARCHED = 500
"""Landmarks, those with the fewest ranges first, whose other minima are looked for (1 ms each)."""
MOST_RELAXED, BEND_GAIN = 12, 40.0
"""Other places that are tried with paths that bend to suit them, and the chi-square by which they
may fit worse before, in units of what excludes them: along a nearly straight path of 60 m with an
odometry noise of 0.01 rad per metre the difference falls to a tenth."""
MOST_BENDING = 800
"""Unknowns of that trial (a step takes 10 ms)."""
_PLACED = 1e6
"""Weight of a coincidence of points, in units of a range whose noise is as large as itself."""
_MOVES = 0.01
"""Share of a variable in a free motion from which it takes part in it."""
_NOUN = {Kind.ODOMETRY: 'odometry step', Kind.CLOSURE: 'loop closure', Kind.SIGHTING: 'sighting',
         Kind.RANGE: 'range', Kind.PRIOR: 'known position', Kind.POSITION_FIX: 'position fix',
         Kind.POSE_FIX: 'pose fix', Kind.VERTICAL: 'vertical', Kind.HEIGHT: 'height'}


@dataclass(frozen=True)
class OtherPlace:
    """A second place that fits the measurements of a robot or landmark about as well."""

    position: Array
    """(d,): of the landmark or the robot's newest pose, metres in map."""
    distance_m: float
    """From its place in the solution."""
    gap: float
    """Chi-square by which it fits worse."""


@dataclass(frozen=True)
class Judgement:
    """What a user must know before trusting a solution; empty where all is well."""

    undetermined: tuple[Finding, ...] = ()
    """Robots and landmarks that the measurements leave without a place."""
    warnings: tuple[Finding, ...] = ()
    """Robots and landmarks with two places; measurements that contradict the others."""
    other_places: dict[str, OtherPlace] = field(default_factory=dict)
    """By name of robot or landmark."""


@dataclass(frozen=True)
class _Case:
    """A graph at an estimate as parts, landmarks and what ties them; the ground is the last
    variable."""

    graph: Graph
    estimate: Estimate
    parts: OdometrySegments
    problem: RigidProblem
    ties: Ties
    """What is believed."""
    vector: Array
    """(k, d): between the points of a tie, m."""
    reach: Array
    """(v + 1,): mean distance of a variable to what it measures, metres."""

    @property
    def size(self) -> int:
        """Unknowns of a part; a landmark has the first d of them."""
        return self.problem.dimension + self.problem.turns

    def newest(self, part: int) -> int:
        """The last pose of a part."""
        return int(self.parts.last[part])


def judge(
    graph: Graph, estimate: Estimate | None, weights: Mapping[str, Array] | None = None, *,
    remedy: str = '', flip_cost: float = ObservabilityConfig.flip_cost,
) -> Judgement:
    """Judge the solution of a graph; `weights` are those of its robust kernel by table.

    `remedy` says how false measurements are handled; it ends the sentence on them. Without an
    estimate only what the graph itself tells is said.
    `flip_cost`: chi-square by which another place must fit worse to be excluded.
    """
    apart = undetermined(graph)
    if estimate is None:
        return Judgement(apart, thinly_measured(graph))
    doubts = _contradictions(graph, estimate, weights or {}, remedy)
    if graph.free_scale or not graph.n_bearings + graph.n_absolute:
        return Judgement(apart, doubts)
    with single_threaded_blas():
        case = _case(graph, estimate, weights or {})
        free, frame, gauge = _free(case)
        factor = variance_factor(graph, estimate, weights or {})
        other = _other_places(case, free, gauge, flip_cost * factor, weights or {})
    return Judgement(
        (*apart, *_unheld(case, free)), (*frame, *_ambiguous(case, other), *doubts),
        {_name(case, variable): place for variable, (place, _) in other.items()})


# -- what is held ------------------------------------------------------------------------------


def _case(graph: Graph, estimate: Estimate, weights: Mapping[str, Array]) -> _Case:
    """The rigid parts of a graph and the believed measurements between them."""
    edges, believed = graph.relative_poses, RobustWeights(dict(weights), REJECTED_BELOW)
    weight, kept = believed.of('relative_poses', len(edges))
    parts = _parts(graph, kept & (edges.kappa > 0))
    # Relative poses between parts are closures, whatever they came from.
    apart = parts.of_pose[edges.i] != parts.of_pose[edges.j] if len(edges) else kept
    believed = replace(believed, weights={
        **weights, 'relative_poses': np.where(kept, weight, 0.0)[apart]})
    closures = edges.take(apart)
    problem = rigid_problem(graph.replaced(relative_poses=closures.replaced(
        odometry=np.zeros(len(closures), dtype=bool))), estimate, parts, 0.0, believed)
    ties = problem.ties.take(problem.ties.kept & (problem.ties.weight > 0))
    here = problem.identity()
    vector = problem.placed(here, ties.second, ties.arm_second) - problem.placed(
        here, ties.first, ties.arm_first)
    # Points that coincide are as far away as from the centre of what carries one.
    ground = problem.variables
    carried = [np.where(end < ground, np.linalg.norm(arm, axis=1), 0.0) for end, arm in (
        (ties.first, ties.arm_first), (ties.second, ties.arm_second))]
    length = np.where(ties.part == DISTANCE, ties.distance, np.where(
        ties.part == WHOLE, np.maximum(*carried), 0.0))
    ends, size = np.concatenate([ties.first, ties.second]), ground + 1
    reach = np.bincount(ends, np.tile(length, 2), minlength=size) / np.maximum(
        np.bincount(ends, np.tile(length > 0, 2), minlength=size), 1)
    reach[ground] = np.max(reach)
    return _Case(graph, estimate, parts, problem, ties, vector, np.maximum(reach, 1e-9))


def _parts(graph: Graph, tied: Mask) -> OdometrySegments:
    """Poses that relative poses tie together; the last pose of each part is its newest."""
    n, edges = graph.n_poses, graph.relative_poses
    count, label = connected(n, edges.i[tied], edges.j[tied]) if n else (
        0, np.zeros(0, dtype=np.int64))
    order = np.lexsort((np.arange(n), graph.poses.index, label))
    ends = np.searchsorted(label[order], np.arange(count + 1))
    return OdometrySegments(
        label, graph.poses.robot[order[ends[1:] - 1]],
        order[ends[:-1]], order[ends[1:] - 1])


def _sides(case: _Case) -> list[Array]:
    """(k, d, s) of both ends: whitened residuals by the scaled unknowns of the variable there.

    Along a distance, in its noise; coincidences hold in all directions, whatever their noise.
    """
    ties, d, count = case.ties, case.problem.dimension, case.problem.pieces
    same, whole = ties.part != DISTANCE, (ties.part == WHOLE) | (ties.part == DISTANCE)
    root = np.zeros((len(same), d, d))
    length = np.maximum(np.linalg.norm(case.vector, axis=1), 1e-12)
    root[:, 0] = case.vector * (np.sqrt(ties.weight) / length)[:, None]
    scale = np.where(ties.part == DIRECTION, 1.0, np.minimum(
        case.reach[ties.first], case.reach[ties.second]))
    root[same] = np.eye(d) * (np.sqrt(_PLACED) / scale[same])[:, None, None]
    root[ties.part == HEIGHT, :-1] = 0.0
    # The first arm ends where the second does, or residuals would seem to measure a turn of all.
    met = np.where((ties.part == DIRECTION)[:, None], ties.arm_second, ties.arm_first + np.where(
        (ties.part == WHOLE)[:, None], case.vector, 0.0))
    sides = []
    for variable, arm, sign in (
            (ties.first, met, -1.0), (ties.second, ties.arm_second, 1.0)):
        by = np.zeros((len(same), d, case.size))
        by[:, :, :d] = np.eye(d) * (case.reach[variable] * (whole | (
            ties.part == HEIGHT)))[:, None, None]
        part = variable < count
        by[part, :, d:] = rotation_jacobian(arm[part])
        sides.append(sign * root @ by)
    return sides


def _free(case: _Case) -> tuple[Mask, tuple[Finding, ...], int]:
    """(v + 1,): variables that can move while no measurement minds; what map itself lacks; the part
    that is where map is for want of absolute data, or -1.
    """
    graph, count, ground = case.graph, case.problem.pieces, case.problem.variables
    part = components(graph) == 0
    asked = np.zeros(ground + 1, dtype=bool)
    asked[case.parts.of_pose[part[:graph.n_poses]]] = True
    asked[count:ground] = part[graph.n_poses:] & ~graph.landmarks.fixed
    tied = np.zeros(ground + 1, dtype=bool)
    tied[case.ties.first] = tied[case.ties.second] = True
    asked &= tied
    none = np.zeros(ground + 1, dtype=bool)
    posed = bool(np.any(part[:graph.n_poses]))
    if not posed and not graph.anchored:
        return none, (), -1
    sides = _sides(case)
    if posed:
        gauge = int(np.argmax(np.bincount(case.parts.of_pose[part[:graph.n_poses]])))
    frame: tuple[Finding, ...] = ()
    if graph.anchored:
        placed = none.copy()
        placed[ground] = True
        free = _moving(case, sides, placed, asked)
        if not posed or not free[gauge]:
            return free, (), -1
        missing = frame_missing(graph)
        if not missing:
            return free, (), -1
        frame = (Finding('map_undetermined', 'map', missing),)
    placed = none.copy()
    placed[gauge] = True
    return _moving(case, sides, placed, asked), frame, gauge


def _moving(case: _Case, sides: list[Array], placed: Mask, asked: Mask) -> Mask:
    """Variables that `placed` ones do not hold: one after the other, then the rest together."""
    placed = placed.copy()
    while True:
        held = np.linalg.eigvalsh(_information(case, sides, placed))[:, 0] >= 1
        held &= asked & ~placed
        if not np.any(held):
            break
        placed |= held
    rest = np.flatnonzero(asked & ~placed)
    free = np.zeros(len(placed), dtype=bool)
    if not len(rest):
        return free
    size, number = case.size, np.full(len(placed), -1)
    number[rest] = np.arange(len(rest))
    jacobian = sp.csr_matrix((sides[0].shape[0] * sides[0].shape[1], len(rest) * size))
    for side, end in zip(sides, (case.ties.first, case.ties.second), strict=True):
        rows = np.flatnonzero(number[end] >= 0)
        places = np.broadcast_arrays(
            rows[:, None, None] * side.shape[1] + np.arange(side.shape[1])[:, None],
            number[end[rows]][:, None, None] * size + np.arange(size))
        jacobian += sp.csr_matrix(
            (side[rows].ravel(), tuple(place.ravel() for place in places)), shape=jacobian.shape)
    information = (jacobian.T @ jacobian + sp.diags(_unused(case)[rest].ravel())).tocsc()
    ends = np.stack([number[case.ties.first], number[case.ties.second]])
    count, group = connected(len(rest), *ends[:, np.min(ends, axis=0) >= 0])
    order = np.argsort(group, kind='stable')
    for own in np.split(order, np.cumsum(np.bincount(group, minlength=count))[:-1]):
        columns = (own[:, None] * size + np.arange(size)).ravel()
        loose = _loose_motions(information[columns][:, columns])
        share = np.sum(loose.reshape(len(own), size, -1) ** 2, axis=(1, 2))
        free[rest[own[share > _MOVES]]] = True
    return free


def _loose_motions(information: sp.csc_matrix) -> Array:
    """(n, k): unit vectors of which information says less than 1; the loosest where many do."""
    if information.shape[0] <= MOST_JOINT:
        values, vectors = np.linalg.eigh(information.toarray())
    else:
        # Around a point just below 0, where no eigenvalue is.
        values, vectors = eigsh(
            information, MOST_MOTIONS, sigma=-1e-3,
            v0=np.random.default_rng(0).standard_normal(information.shape[0]))
    return np.asarray(vectors[:, values < 1])


def _information(case: _Case, sides: list[Array], others: Mask | None = None) -> Array:
    """(v + 1, s, s): what each variable is held by, by those of `others` only where given.

    1 is a standard deviation as large as the distance to what it measures.
    """
    ties, size = case.ties, case.size
    total = np.zeros((case.problem.variables + 1, size, size))
    for side, end, other in (
            (sides[0], ties.first, ties.second), (sides[1], ties.second, ties.first)):
        use = slice(None) if others is None else others[other]
        np.add.at(total, end[use], np.swapaxes(side[use], 1, 2) @ side[use])
    return total + _unused(case)[:, :, None] * np.eye(size)


def _unused(case: _Case) -> Array:
    """(v + 1, s): 1 where a landmark has no such unknown."""
    unused = np.zeros((case.problem.variables + 1, case.size))
    unused[case.problem.pieces:, case.problem.dimension:] = _PLACED
    return unused


# -- other places --------------------------------------------------------------------------------


def _other_places(
    case: _Case, free: Mask, gauge: int, flip_cost: float, weights: Mapping[str, Array]
) -> dict[int, tuple[OtherPlace, Array]]:
    """Other minima by variable, with the turn (d, d) of a part; `gauge` stands where map is."""
    ties, graph, count = case.ties, case.graph, case.problem.pieces
    least = np.linalg.eigvalsh(_information(case, _sides(case)))[:, 0]
    sigma = case.reach / np.sqrt(np.maximum(least, 1e-12))
    tied = np.bincount(ties.first, minlength=len(sigma)) + np.bincount(
        ties.second, minlength=len(sigma))
    same = ties.part != DISTANCE
    placed = np.zeros(len(tied), dtype=bool)
    placed[ties.first[same]] = placed[ties.second[same]] = True
    marks = count + np.flatnonzero(~graph.landmarks.fixed)
    marks = marks[(tied[marks] > 0) & ~placed[marks] & ~free[marks]]
    marks = marks[np.argsort(tied[marks], kind='stable')][:MOST_SEARCHED]
    bodies = [part for part in range(count) if part != gauge and tied[part] and not free[part]]
    result = {}
    for variable in [*bodies, *sorted(marks.tolist())]:
        apart = max(APART * sigma[variable], APART_SHARE * case.reach[variable])
        other = _other_place(case, variable, apart)
        if other is not None and other[0].gap < BEND_GAIN * flip_cost:
            result[variable] = other
    doubtful = sorted(
        (v for v in result if result[v][0].gap >= flip_cost), key=lambda v: result[v][0].gap)
    if doubtful:
        gaps = _relaxed_gaps(case, {v: result[v] for v in doubtful[:MOST_RELAXED]}, weights)
        for variable in doubtful:
            gap = gaps.get(variable, np.inf)
            place, rotation = result.pop(variable)
            if gap < flip_cost:
                result[variable] = replace(place, gap=gap), rotation
    return dict(sorted(result.items()))


def _relaxed_gaps(
    case: _Case, others: Mapping[int, tuple[OtherPlace, Array]], weights: Mapping[str, Array]
) -> dict[int, float]:
    """Gaps with paths that bend, as far as their odometry lets them, to suit the other place."""
    graph, estimate = case.graph, case.estimate
    segments = find_segments(graph)
    pieces = cut(graph, estimate, segments, 0.0)
    fine = rigid_problem(
        graph, estimate, pieces.parts, 0.0, RobustWeights(dict(weights), REJECTED_BELOW),
        pieces.joints, MOST_RANGES[1])
    if fine.unknowns > MOST_BENDING:
        return {}
    free = np.ones(fine.unknowns, dtype=bool)
    if not graph.anchored and fine.pieces:
        free[fine.held(0)] = False
    here = fine.relaxed(fine.identity(), free)
    base, gaps = fine.cost(here), {}
    part, count = case.parts.of_pose[pieces.parts.first], case.problem.pieces
    for variable, (place, rotation) in others.items():
        turned, shift = here.rotation.copy(), here.shift.copy()
        if variable >= count:
            row = fine.pieces + variable - count
            shift[row] = place.position - fine.centers[row]
        else:
            # The newest pose and what rides along turn about it.
            pivot = estimate.translation[case.newest(variable)]
            along = np.append(part == variable, np.zeros(len(fine.centers) - len(part), dtype=bool))
            along[fine.pieces - count + private_landmarks(case.problem, (variable,))] = True
            at = fine.centers[along] + shift[along]
            shift[along] += place.position + (at - pivot) @ rotation.T - at
            turned[along] = rotation @ turned[along]
        there = fine.relaxed(Placement(turned, shift), free)
        row = (fine.pieces + variable - count if variable >= count
               else int(np.flatnonzero(part == variable)[-1]))
        if np.linalg.norm(there.shift[row] - here.shift[row]) > 0.5 * place.distance_m:
            gaps[variable] = fine.cost(there) - base
    return gaps


def _other_place(
    case: _Case, variable: int, apart: float
) -> tuple[OtherPlace, Array] | None:
    """The best other minimum of a variable while all others stand still."""
    problem, turn = case.problem, variable < case.problem.pieces
    d, here = problem.dimension, problem.centers[variable]
    # Landmarks that a part alone measures move along with it.
    own = private_landmarks(problem, (variable,)) if turn else np.zeros(0, dtype=np.int64)
    evidence = evidence_of(problem, variable, own)
    if constraints(evidence) == 0:
        return None
    tried = candidates(evidence, turn, (np.eye(d), here))
    moved = np.linalg.norm(tried.position - here, axis=1)
    if turn:
        angle = np.linalg.norm(tried.rotation - np.eye(d), axis=(1, 2)) / np.sqrt(2)
        moved = np.maximum(moved, angle * case.reach[variable])
    near = moved <= apart
    base = float(np.min(tried.cost[near], initial=np.inf))
    for k in np.flatnonzero(~near):
        gap = float(tried.cost[k]) - base
        point = here if not turn else case.estimate.translation[case.newest(variable)]
        there = tried.rotation[k] @ (point - here) + tried.position[k]
        return OtherPlace(there, float(np.linalg.norm(there - point)), gap), tried.rotation[k]
    return None


# -- words -----------------------------------------------------------------------------------------


def _name(case: _Case, variable: int) -> str:
    count = case.problem.pieces
    if variable >= count:
        return case.graph.landmarks.names[variable - count]
    return case.graph.robots[int(case.parts.robot[variable])]


def _measured(case: _Case, variable: int) -> tuple[str, int]:
    """`3 ranges`, `12 measurements`, and how many ranges."""
    own = (case.ties.first == variable) | (case.ties.second == variable)
    total, ranges = int(np.sum(own)), int(np.sum(case.ties.part[own] == DISTANCE))
    if ranges == total:
        return counted(ranges, 'range'), ranges
    return counted(total, 'measurement'), ranges


def _unheld(case: _Case, free: Mask) -> tuple[Finding, ...]:
    """Sentences on the variables that can move."""
    findings = []
    variables = np.flatnonzero(free[:case.problem.variables])
    parts = collections.Counter(_name(case, v) for v in variables[variables < case.problem.pieces])
    for variable in variables.tolist():
        name, (what, ranges) = _name(case, variable), _measured(case, variable)
        if variable < case.problem.pieces and parts[name] > 1:
            ranges = 0
            text = (f'robot {name}: {parts[name]} stretches of its path, to which no odometry '
                    'or loop closure leads, have a place or heading that their measurements leave '
                    'free; odometry between them, or ranges from more places, are missing')
        elif variable < case.problem.pieces:
            text = (f'robot {name}: {what} to the others leave its place or heading free; ranges '
                    'from more places, or a loop closure, are missing')
        elif ranges <= case.problem.dimension:
            least = case.problem.dimension + 1
            text = f'landmark {name} has {what}: {least} at least give one place'
        else:
            text = (f'landmark {name} has {what} from too few places, or to what is not determined '
                    'itself: it can move freely')
        findings.append(Finding('undetermined', name, text, float(ranges)))
    return tuple(dict.fromkeys(findings))


def _ambiguous(
    case: _Case, other: Mapping[int, tuple[OtherPlace, Array]]
) -> tuple[Finding, ...]:
    """Sentences on the variables that have two places."""
    findings = []
    for variable, (place, rotation) in other.items():
        name, (what, _) = _name(case, variable), _measured(case, variable)
        at = ', '.join(f'{value:.2f}' for value in place.position)
        if variable >= case.problem.pieces:
            text = (f'landmark {name} is ambiguous: another place, {place.distance_m:.2f} m away '
                    f'at ({at}), fits its {what} about as well')
        else:
            turn = np.linalg.norm(rotation - np.eye(len(rotation))) / (2 * np.sqrt(2))
            degrees = float(np.degrees(2 * np.arcsin(min(turn, 1.0))))
            text = (f'robot {name} is ambiguous: another place, its newest pose '
                    f'{place.distance_m:.2f} m away and turned by {degrees:.0f} degrees, fits its '
                    f'{what} about as well')
        findings.append(Finding('ambiguous', name, text, place.distance_m, 'm'))
    return tuple(findings)


def _contradictions(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], remedy: str
) -> tuple[Finding, ...]:
    """Residuals that Gaussian noise of the claimed size does not explain, kind by kind."""
    findings = []
    residuals = whitened(graph, estimate)
    for kind, table in graph.typed():
        square = residuals[kind.name] ** 2
        kept = np.asarray(weights.get(kind.name, np.ones(len(table)))) >= REJECTED_BELOW
        degrees = kind.degrees_of_freedom(graph.dimension)
        kinds = kind.kinds(table)
        for number, noun in _NOUN.items():
            own = square[(kinds == number) & kept]
            if not len(own):
                continue
            # Half of the residuals tell the noise, whatever it is claimed to be.
            scale = max(1.0, float(np.median(own) / chdtri(degrees, 0.5)))
            width = scale * chdtri(degrees, FALSE_PROBABILITY)
            # Those that a Geman-McClure kernel of that width rejects.
            false = (1 + own / width) ** -2.0 < REJECTED_BELOW
            misfit = float(np.sqrt(np.mean(own) / degrees))
            worst = float(np.sqrt(np.max(own)))
            count = int(np.sum(kinds == number))
            if 1 - len(own) / count > MUCH_REJECTED:
                findings.append(Finding('much_rejected', noun, (
                    f'{count - len(own)} of {counted(count, noun)} are rejected: either so many '
                    'are false, or there is a better map, which another seed may find'),
                    1 - len(own) / count))
            doubted = number != Kind.ODOMETRY and kind.name not in weights
            if np.any(false) and doubted:
                findings.append(Finding('false_measurements', noun, (
                    f'{int(np.sum(false))} of {counted(len(own), noun)} contradict the others by '
                    f'up to {worst:.0f} times their claimed noise'
                    + (f': {remedy}' if remedy else '')), float(np.sum(false))))
            elif misfit > MOST_MISFIT:
                findings.append(Finding('noise_too_small', noun, (
                    f'the residuals of {counted(len(own), noun)} are {misfit:.1f} times their '
                    'claimed noise: it is claimed too small, or others pull at them'
                    + (f'; {remedy}' if remedy and doubted else '')), misfit))
    return tuple(findings)
