"""What the measurements determine: position and heading of robots, positions of landmarks.

Two tests. Local: standard deviations of newest poses and landmarks, the gauge fixed. Global: no
alternative placement fits about as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Array, Mask
from ...config.backend_config import ObservabilityConfig
from ...graph import Estimate, Graph
from ...graph.parts import OdometrySegments
from ...linalg.process import single_threaded_blas
from .alternatives import Comparison, compare, proposals
from .datum import Location
from .pieces import Joints, Pieces, cut
from .registration import candidates, ranges_to
from .rigid_kernels import DISTANCE, WHOLE, Ties
from .rigid_model import RobustWeights, rigid_problem
from .rigid_problem import Placement, RigidProblem
from .uncertainty import Uncertainty, uncertainty

MISFIT = 2.0
"""Variance factor from which better placements are sought although nothing is determined."""
UNDETERMINED_M = 100.0
"""Standard deviation from which its size says nothing: priors of 1e4 m only keep it finite."""
MOST_RANGES = (500, 1500)
"""Of the problems with whole segments and with pieces: their time grows with it."""


@dataclass(frozen=True)
class AlternativePlacement:
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
    shift: Array
    """(d,): of a segment's newest pose, or of the landmark, in metres."""
    gap: float
    words: str
    hypothesis: int
    """Index in `Observability.hypotheses`."""


REMOTE = 2.0
"""Placements that fit worse by less than so many times `flip_cost` are tried in the full problem: a
fault may make them as good as the present one."""


@dataclass(frozen=True)
class Observability:
    """Verdicts per segment and landmark, in the order of the graph."""

    location: tuple[Location, ...]
    missing: tuple[str, ...]
    landmark_located: Mask
    sigma: Uncertainty
    alternatives: tuple[Alternative, ...] = ()
    hypotheses: tuple[AlternativePlacement, ...] = ()
    """Other placements of everything that fit about as well, best first."""
    gap: float = float('inf')
    """Chi-square of the best alternative that was looked at, excluded or not."""


@dataclass(frozen=True)
class _Case:
    """One question: a graph at an estimate, as small problems."""

    graph: Graph
    estimate: Estimate
    segments: OdometrySegments
    gauge: int | None
    config: ObservabilityConfig
    pieces: Pieces
    whole: RigidProblem
    """Segments are rigid."""
    fine: RigidProblem
    """Pieces are."""


def observe(
    graph: Graph,
    estimate: Estimate,
    segments: OdometrySegments,
    gauge: int | None,
    config: ObservabilityConfig,
    weights: dict[str, Array] | None = None,
    rejected_weight: float = 0.1,
) -> Observability:
    """Judge every segment and landmark at an estimate in map.

    `gauge` is the segment whose first pose is the origin, None where absolute data fix the frame.
    `weights` are robust weights by table name over the rows of `graph` (a missing table: all 1);
    what is below `rejected_weight` counts for nothing.
    """
    believed = RobustWeights(weights or {}, rejected_weight)
    with single_threaded_blas():
        return _judged(_case(graph, estimate, segments, gauge, config, believed))


def position_determined(
    graph: Graph, estimate: Estimate, segments: OdometrySegments, gauge: int | None,
    config: ObservabilityConfig,
) -> Mask:
    """(b,): segments whose position all measurements, at full weight, fix at this estimate."""
    with single_threaded_blas():
        pieces = cut(graph, estimate, segments, config.range_sigma_floor_m)
        sigma = uncertainty(
            _of_pieces(graph, estimate, pieces, config, RobustWeights({}, 0.0)), pieces, estimate,
            segments, gauge, config.position_sigma_m, variance_factor=1.0)
        return np.asarray(sigma.position < config.position_sigma_m)


def _judged(case: _Case) -> Observability:
    graph, segments, config = case.graph, case.segments, case.config
    sigma = uncertainty(
        case.fine, case.pieces, case.estimate, segments, case.gauge, config.position_sigma_m)
    count = len(segments)
    fixed = np.flatnonzero(graph.landmarks.fixed)
    landmark = sigma.landmark < config.position_sigma_m
    # Of robots the tick decides, by its exact covariance and the risk. Those that are too uncertain
    # to be located have a pose with a covariance, and another place of theirs belongs into that.
    sure = np.concatenate([sigma.position < UNDETERMINED_M, landmark])
    asked = set(np.flatnonzero(sure).tolist()) - set((count + fixed).tolist())
    alternatives, hypotheses, gap = _alternatives(case, sigma, asked)
    by_variable = {a.variable: a for a in reversed(alternatives)}
    location, missing = [], []
    for segment in range(count):
        verdict, text = _verdict(case, segment, sigma, by_variable.get(segment))
        location.append(verdict)
        missing.append(text)
    landmark[[v - count for v in by_variable if v >= count]] = False
    landmark[fixed] = True
    return Observability(
        tuple(location), tuple(missing), landmark, sigma, alternatives, hypotheses, gap)


def _case(
    graph: Graph, estimate: Estimate, segments: OdometrySegments, gauge: int | None,
    config: ObservabilityConfig, believed: RobustWeights,
) -> _Case:
    floor = config.range_sigma_floor_m
    pieces = cut(graph, estimate, segments, floor)
    return _Case(
        graph, estimate, segments, gauge, config, pieces,
        rigid_problem(graph, estimate, segments, floor, believed,
                      most_ranges=MOST_RANGES[0]).thinned(2 * MOST_RANGES[0]),
        _of_pieces(graph, estimate, pieces, config, believed))


def _of_pieces(
    graph: Graph, estimate: Estimate, pieces: Pieces, config: ObservabilityConfig,
    believed: RobustWeights,
) -> RigidProblem:
    return rigid_problem(
        graph, estimate, pieces.parts, config.range_sigma_floor_m, believed, pieces.joints,
        MOST_RANGES[1])


def _verdict(
    case: _Case, segment: int, sigma: Uncertainty, other: Alternative | None
) -> tuple[Location, str]:
    linked = _linked(case.whole, segment)
    if segment != case.gauge and linked == 0:
        return Location.UNLOCATED, (
            'no range or closure ties it to the robots or beacons located in map')
    if sigma.position[segment] >= UNDETERMINED_M:
        return Location.UNLOCATED, (
            f'position undetermined: its {linked} constraints come from too few places; ranges '
            'from more places, or more motion, are missing')
    if other is not None and other.kind == 'position':
        if other.gap < 0:
            return Location.AMBIGUOUS, (
                f'another place fits its measurements better than the present one: {other.words}')
        return Location.AMBIGUOUS, (
            f'two places fit its measurements about as well: here, and {other.words}; ranges '
            'from places off the present line, or more motion, are missing')
    if other is not None:
        return Location.POSITION_ONLY, (
            f'two headings fit its measurements about as well: the present one, and {other.words}; '
            'motion between ranges, or a loop closure, is missing')
    return Location.LOCATED, ''


def _linked(problem: RigidProblem, variable: int) -> int:
    ties = problem.placing
    return int(np.sum(((ties.first == variable) | (ties.second == variable)) & ties.kept))


def _alternatives(
    case: _Case, sigma: Uncertainty, asked: set[int]
) -> tuple[tuple[Alternative, ...], tuple[AlternativePlacement, ...], float]:
    """What the placement of `asked` variables could be instead, best first."""
    count, config = len(case.segments), case.config
    movable = [
        s for s in range(count) if s != case.gauge and _linked(case.whole, s)]
    if not asked and sigma.variance_factor < MISFIT:
        return (), (), float('inf')
    unknown = [
        int(v) for v in count + np.flatnonzero(~case.graph.landmarks.fixed)
        if _linked(case.whole, int(v))]
    starts = proposals(case.whole, movable, unknown, config.alert_limit_m)
    compared = compare(
        case.whole, case.fine, case.pieces, starts, case.gauge, sigma.variance_factor,
        config.alert_limit_m)
    present = replace(compared, here=case.fine.identity())
    if compared.gained >= config.flip_cost and _differences(
            case, sigma, present, compared.fallen, asked):
        # The estimate is no minimum: what lies below it is another place, and a better one.
        compared = compared.against(present.here)
    alternatives: list[Alternative] = []
    hypotheses: list[AlternativePlacement] = []
    least = float('inf')
    looked = [_differences(case, sigma, compared, rival.placement, asked)
              for rival in compared.rivals]
    base = {v: min([0.0] + [
        rival.gap for rival, differences in zip(compared.rivals, looked, strict=True)
        if v not in differences]) for v in asked}
    for rival, differences in zip(compared.rivals, looked, strict=True):
        # A variable's present place fits as well as the best placement that leaves it there.
        gaps = {v: rival.gap - base[v] for v in differences}
        least = min([least, *gaps.values()])
        open_ones = [v for v, gap in gaps.items() if gap < config.flip_cost]
        remote = any(gap < REMOTE * config.flip_cost for gap in gaps.values())
        if not remote and not (rival.gap < 0 and _differences(
                case, sigma, compared, rival.placement, set(movable))):
            continue
        words = _words(case, rival.mirror)
        for variable in open_ones:
            kind, rotation, shift = differences[variable]
            by = f'turned by {_degrees(rotation):.0f} degrees' if kind == 'heading' else (
                f'{np.linalg.norm(shift):.0f} m away')
            alternatives.append(Alternative(
                variable, kind, shift, gaps[variable], f'{words}, {by}', len(hypotheses)))
        hypotheses.append(AlternativePlacement(_moved(case, rival.placement), rival.gap, words))
    alternatives.sort(key=lambda alternative: alternative.gap)
    return tuple(alternatives), tuple(hypotheses), least


def _differences(
    case: _Case, sigma: Uncertainty, compared: Comparison, there: Placement, asked: set[int]
) -> dict[int, tuple[str, Array, Array]]:
    """Asked variables whose place or heading differs: kind, turn, shift by number."""
    here, fine, config = compared.here, case.fine, case.config
    result: dict[int, tuple[str, Array, Array]] = {}
    count = len(case.segments)
    for variable in sorted(asked):
        if variable >= count:
            row = fine.pieces + variable - count
            shift = there.shift[row] - here.shift[row]
            if np.linalg.norm(shift) > config.alert_limit_m:
                result[variable] = 'position', np.eye(fine.dimension), shift
            continue
        piece = int(case.pieces.last[variable])
        arm = case.estimate.translation[case.segments.last[variable]] - fine.centers[piece]
        shift = (there.rotation[piece] - here.rotation[piece]) @ arm + (
            there.shift[piece] - here.shift[piece])
        rotation = there.rotation[piece] @ here.rotation[piece].T
        if np.linalg.norm(shift) > config.alert_limit_m:
            result[variable] = 'position', rotation, shift
        elif sigma.heading[variable] < config.heading_sigma_rad and np.radians(
                _degrees(rotation)) > 3 * config.heading_sigma_rad:
            result[variable] = 'heading', rotation, shift
    return result


def _degrees(rotation: Array) -> float:
    """Angle of a rotation."""
    chord = np.linalg.norm(rotation - np.eye(len(rotation))) / (2 * np.sqrt(2))
    return float(np.degrees(2 * np.arcsin(min(chord, 1.0))))


def _words(case: _Case, mirror: tuple[int, ...]) -> str:
    if not mirror:
        return 'turned or moved as a whole'
    names, count = [], len(case.segments)
    for variable in mirror:
        if variable == case.whole.variables:
            names.append('known points')
        elif variable < count:
            names.append(f'the path of {case.graph.robots[case.segments.robot[variable]]}')
        else:
            names.append(case.graph.landmarks.names[variable - count])
    shape = 'line' if case.graph.dimension == 2 else 'plane'
    some = ', '.join(names[:4]) + (' and others' if len(names) > 4 else '')
    return f'mirrored about the {shape} through {some}'


def _moved(case: _Case, at: Placement) -> Estimate:
    """The whole estimate with every piece and landmark where a placement has it."""
    piece = case.pieces.parts.of_pose
    turn = at.rotation[piece]
    center = case.fine.centers[piece]
    translation = np.einsum(
        'kij,kj->ki', turn, case.estimate.translation - center) + center + at.shift[piece]
    landmarks = case.estimate.landmarks + at.shift[case.fine.pieces:-1]
    fixed = case.graph.landmarks.fixed
    return Estimate(
        turn @ case.estimate.rotation, translation,
        np.where(fixed[:, None], case.estimate.landmarks, landmarks))


def warm_up(dimension: int) -> None:
    """Compile or load the kernels of comparisons, before the first audit, with a tiny problem.

    Two pieces, joined, and one landmark are relaxed and registered.
    """
    d = dimension
    size = d + (1 if d == 2 else 3)
    places = np.vander(np.arange(1.0, 7.0), d)
    zero = np.zeros(6)
    first, part = np.array([0, 0, 1, 1, 0, 1]), np.full(6, DISTANCE)
    part[3:] = WHOLE
    ties = Ties(
        first, np.array([2, 2, 2, 2, 3, 3]), places, places[::-1].copy(), zero + 3, zero + 1,
        zero == 0, part, np.arange(6), zero + d)
    joints = Joints(
        np.array([0]), np.array([1]), places[:1], np.zeros((1, size)), np.eye(size)[None])
    problem = RigidProblem(2, np.eye(4, d), ties, joints)
    problem.relaxed(problem.identity(), np.ones(problem.unknowns, dtype=bool), 1)
    candidates(ranges_to(places, places[::-1].copy(), zero + 3, zero + 1), turn=True)
