"""All monitors at one estimate: findings that name sources, and what may hide.

Pure functions of arrays. The false-alarm probability of each single test is the configured rate
per hour, over the windows in an hour, over the number of tests: union bound, so that correlated
tests only make alarms rarer. Tests of one window and of its neighbours count as independent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from ...graph import (
    Estimate,
    Graph,
    chi_square_residuals,
    height_residuals,
    range_directions,
    range_residuals,
    squared_residuals,
)
from ...graph.ends import RangeEnds, owners, range_ends
from ...graph.finding import Finding
from .doubts import (
    FAR_SIGMA,
    REJECTED_WEIGHT,
    Doubt,
    Rows,
    bursts,
    doubt_finding,
    doubted_sources,
    exceeds,
    kept_weights,
    lasting,
)
from .faults import BURST, KINDS, MISPLACED, Fault, hypotheses_of, told_elsewhere
from .hypotheses import Hypothesis, common_hypotheses, scores_of
from .linear_model import DETERMINED, LinearModel, Scores, linear_model
from .places import fixed_by_beacons, frame_reason, known_beacons, known_names, swapped_or_misplaced
from .solved_sizes import Sized, SolvedFaults, proved_faults, solved_faults
from .stretches import beacon_steps, shifts
from .undetected import HiddenFaults, hidden_faults, likeliest, solvable

_ODD_HEIGHTS = 0.05
"""Share of heights that do not fit which is ordinary: thresholds, stairs, people."""
_ODD_FIXES, _MOST_FIXES = 0.1, 1 / 3
"""Share of position fixes that do not fit which is ordinary, reflections from houses; and from
which it is not they that are wrong."""
_CHANCE = 1e-3
"""Probability that ordinary fixes withdraw a robot, which is less than a false alarm."""
_RARE = 0.0027
"""Probability of a fix further off than three standard deviations of one coordinate."""
_MOST_BURSTS = 3
"""Bursts whose explanations are compared."""


@dataclass(frozen=True)
class FaultyRanges:
    """Ranges of one source, within one stretch of time, that do not fit."""

    finding: Finding
    rows: Index
    """Of the graph's ranges."""
    end_s: float
    """Of the stretch, since the first pose."""
    jump: int | None = None
    """Of a robot the relative pose where its odometry may have jumped instead."""


@dataclass(frozen=True)
class Examination:
    """What the monitors say at one estimate."""

    findings: tuple[Finding, ...] = ()
    """Worst first."""
    unclear: tuple[tuple[str, str], ...] = ()
    """(robot, why it has no place in map that can be trusted); '' = nobody has."""
    bursts: tuple[FaultyRanges, ...] = ()
    """Ranges that are faulty together, of the `range_burst` findings."""
    undetected: HiddenFaults | None = None
    solved: tuple[Fault, ...] = ()
    """Faults whose sizes the map is to be solved with."""


def examine(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], config: IntegrityConfig,
    gauge: int | None = None, solved: Sequence[Fault] = (),
) -> Examination:
    """Examine an estimate of a graph under its robust weights (a missing table = all 1).

    `gauge` is the pose that map is relative to, None where absolute data fix map. The sizes of
    `solved` faults are taken off the measurements of the graph.
    """
    if graph.n_poses == 0 or len(graph.ranges) + len(graph.relative_poses) == 0:
        return Examination()
    sources = range_ends(graph)
    rows = _rows(graph, estimate, weights)
    false_alarm = _false_alarm(graph, sources, config)

    # Ranges that do not fit, by source and by stretch of time.
    doubts = lasting(
        sources, rows, doubted_sources(sources, rows, false_alarm), false_alarm, config)
    taken = {doubt.source for doubt in doubts}
    in_bursts = bursts(sources, rows, taken, false_alarm, config)
    kept = kept_weights(weights)
    weight = kept.get('ranges', np.ones(len(graph.ranges)))
    root = np.sqrt(weight)
    stretches = [*shifts(
        sources, rows, weight, taken | {burst.source for burst in in_bursts}, false_alarm, config),
        *(step for step in beacon_steps(
            sources, range_directions(graph, estimate), root * rows.whitened,
            root * np.sqrt(graph.ranges.precision), config) if step.source not in taken)]

    # What may be wrong with each source, and how likely that is.
    if 'ranges' in kept:
        # Rejected, a burst would have no say in what explains it.
        kept['ranges'] = weight.copy()
        for burst in in_bursts[:_MOST_BURSTS]:
            kept['ranges'][burst.rows] = 1.0
    model = linear_model(graph, estimate, kept)
    tested = hypotheses_of(
        model, sources, (*in_bursts[:_MOST_BURSTS], *stretches), config, solved)
    every = [*tested, *common_hypotheses(tested)]
    scores = scores_of(model, every)
    scores = scores.with_variance(_noise(model, scores))
    beside = solved_faults(scores, every, solved, config)
    undetected = hidden_faults(graph, estimate, beside, gauge, config)
    known = known_names(graph)
    new = likeliest(beside, undetected, known, config)
    sizes = beside.kept if new is None else (*beside.kept, new)

    # What an operator is told, and what is to be done.
    faults = [
        sized for sized in _proved(scores, every, beside, new, known, solved, config, false_alarm)
        # What is left of a source of which most is rejected says nothing of it.
        if sized.fault.kind == MISPLACED or sized.fault.subject not in {
            sources.names[doubt.source] for doubt in doubts if doubt.share > 0.5}]
    findings = _misplaced(graph, estimate, sources, doubts, faults, false_alarm, config)
    named = {name for finding in findings for name in finding.subjects}
    # A stretch and a step of one beacon are one fault: what explains most comes first.
    first = {(finding.kind, finding.subject): finding for finding in reversed(findings + [
        sized.fault.finding(sized.size) for sized in faults if sized.fault.subject not in named])}
    findings = list(first.values())[::-1]
    named = {name for finding in findings for name in finding.subjects}
    findings += [doubt_finding(sources, doubt) for doubt in doubts
                 if sources.names[doubt.source] not in named]
    named |= {sources.names[doubt.source] for doubt in doubts}
    if in_bursts and not named & {burst.subject for burst in in_bursts}:
        # A burst of one radio shows at the others that it talks to: the greatest stands for all.
        findings.append(in_bursts[0].finding(np.zeros(0)))
    fixes, denied_by_fixes = _fixes(graph, estimate, weights, false_alarm)
    findings += _closures(graph, weights) + _levels(graph, estimate, weights, false_alarm) + fixes
    frame = '' if gauge is not None else frame_reason(
        graph, findings, config.fault_size * config.bias_floor_m)
    unclear = [('', frame)] if frame else []
    if not fixed_by_beacons(graph):
        unclear += denied_by_fixes
    bent, seconds = bent_edges(graph, estimate), sources.seconds
    named_bursts = {
        finding.subject: finding for finding in findings if finding.kind == BURST}
    faulty = tuple(
        FaultyRanges(
            named_bursts[burst.subject], burst.rows[
                (seconds[burst.rows] >= burst.begin_s) & (seconds[burst.rows] <= burst.end_s)],
            burst.end_s, bent.get(burst.subject))
        for burst in (*stretches, *in_bursts) if burst.subject in named_bursts)
    return Examination(
        tuple(findings), tuple(unclear) if config.gate else (), faulty, undetected,
        tuple(sized.taken_off(false_alarm) for sized in sizes))


def bent_edges(graph: Graph, estimate: Estimate) -> dict[str, int]:
    """The odometry edge of each robot that the estimate bends most: where it may have jumped."""
    rel = graph.relative_poses
    square = np.where(rel.odometry, squared_residuals(graph, estimate)['relative_poses'], -1.0)
    robot = graph.poses.robot[rel.i]
    return {
        name: int(own[np.argmax(square[own])]) for number, name in enumerate(graph.robots)
        if len(own := np.flatnonzero(rel.odometry & (robot == number)))}


def _rows(graph: Graph, estimate: Estimate, weights: Mapping[str, Array]) -> Rows:
    error = -range_residuals(graph, estimate)
    whitened = error * np.sqrt(graph.ranges.precision)
    far = np.abs(whitened) > FAR_SIGMA
    if 'ranges' in weights:
        far |= weights['ranges'] < REJECTED_WEIGHT
    return Rows(error, whitened, far)


def _false_alarm(graph: Graph, sources: RangeEnds, config: IntegrityConfig) -> float:
    """Probability of a false alarm that one test may have."""
    length = float(np.ptp(graph.poses.stamp_ns)) * 1e-9
    windows = max(1.0, length / config.window_s)
    # Per source: share, bias, place, each window; per robot: scale, turn, jump, antenna.
    tests = len(sources) * (3 + 2 * windows) + sources.robots * 4
    return min(0.01, config.false_alarms_per_hour * config.window_s / 3600 / tests)


def _misplaced(
    graph: Graph, estimate: Estimate, sources: RangeEnds, doubts: Sequence[Doubt],
    faults: Sequence[Sized], false_alarm: float, config: IntegrityConfig,
) -> list[Finding]:
    """Known beacons whose place is denied, or of which most ranges do not fit: wrong places, or
    exchanged labels."""
    suspects = {graph.landmarks.names.index(sized.fault.subject) for sized in faults
                if sized.fault.kind == MISPLACED}
    suspects |= {doubt.source - sources.robots for doubt in doubts} & set(known_beacons(graph))
    return swapped_or_misplaced(
        graph, estimate, sources, sorted(suspects), config.bias_floor_m,
        float(chdtri(graph.dimension, false_alarm)))


def _proved(
    scores: Scores, every: Sequence[Hypothesis], beside: SolvedFaults, new: Sized | None,
    known: Collection[str], solved: Sequence[Fault], config: IntegrityConfig, false_alarm: float,
) -> list[Sized]:
    """What is to be named: of faults that can be solved for those that are likely, of the others
    all.

    A fault that the map is solved with may be told by its kind already.
    """
    in_force = {fault.key: np.array(fault.size) for fault in solved}
    nameable = [number for number, fault in enumerate(every)
                if not solvable(fault, known)]
    return [sized for sized in proved_faults(
        scores, every, {sized.number: in_force[sized.fault.key] for sized in beside.kept},
        [*nameable, *([] if new is None else [new.number])], config, false_alarm)
        if sized.fault.key not in in_force or KINDS[sized.fault.kind].findings is told_elsewhere]


def _noise(model: LinearModel, scores: Scores) -> float:
    """Found over claimed variance of the residuals beside the likeliest error, at least 1."""
    rows, unknowns = model.jacobian.shape
    used = np.asarray(model.jacobian.multiply(model.jacobian).sum(axis=1)).reshape(rows) > 0
    degrees = int(np.sum(used)) - unknowns
    known = scores.information.diagonal() > DETERMINED * scores.bare
    gains = scores.score[known] ** 2 / scores.information.diagonal()[known]
    square = float(model.residual @ model.residual) - float(np.max(gains, initial=0.0))
    return max(1.0, square / degrees) if degrees > 0 else 1.0


def _closures(graph: Graph, weights: Mapping[str, Array]) -> list[Finding]:
    """Loop closures that are rejected although they claim to be precise."""
    rel = graph.relative_poses
    if 'relative_poses' not in weights or not len(rel):
        return []
    rejected = np.flatnonzero(~rel.odometry & (weights['relative_poses'] < REJECTED_WEIGHT))
    if not len(rejected):
        return []
    total = int(np.sum(~rel.odometry))
    row = int(rejected[-1])
    ends = [graph.robots[graph.poses.robot[k]] for k in (rel.i[row], rel.j[row])]
    which = f'of {ends[0]}' if ends[0] == ends[1] else f'between {ends[0]} and {ends[1]}'
    text = (f'{len(rejected)} of {total} loop closures are rejected, the newest {which} '
            f'(claimed within {1 / np.sqrt(rel.tau[row]):.2g} m)')
    return [Finding('closures_rejected', 'loop closures', text, float(len(rejected)))]


def _fixes(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], false_alarm: float
) -> tuple[list[Finding], list[tuple[str, str]]]:
    """Robots of whose fixes more do not fit than a receiver has errors, and those that so many of
    them deny that odometry, ranges or all fixes may be wrong."""
    robot, misfit = [], []
    fixes = [(kind, table) for kind, table in graph.typed() if kind.absolute]
    squares = chi_square_residuals(
        graph.replaced(measurements={kind.name: table for kind, table in fixes}), estimate)
    for kind, table in fixes:
        (column,) = table.endpoints()
        owner = owners(graph, getattr(table, column))
        odd = squares[kind.name] > chdtri(kind.degrees_of_freedom(graph.dimension), _RARE)
        if kind.name in weights:
            odd |= weights[kind.name] < REJECTED_WEIGHT
        robot.append(owner)
        misfit.append(odd)
    owner, odd = np.concatenate(robot), np.concatenate(misfit)
    findings, denied = [], []
    for number, name in enumerate(graph.robots):
        own = odd[owner == number]
        far = int(np.sum(own))
        if not exceeds(far, len(own), _ODD_FIXES, _CHANCE):
            continue
        text = (f'{100 * far / len(own):.0f} % of the position fixes of {name} do not fit the map: '
                'their datum, axes, heading or clock are wrong, their covariance is too small, or '
                f'the odometry of {name} is wrong')
        if exceeds(far, len(own), _ODD_FIXES, false_alarm):
            findings.append(Finding('fixes_rejected', name, text, 100 * far / len(own), '%'))
        if exceeds(far, len(own), _MOST_FIXES, _CHANCE):
            denied.append((name, text))
    if denied and exceeds(int(np.sum(odd)), len(odd), _MOST_FIXES, _CHANCE):
        # Those of the others fit what they bend.
        denied.append(('', denied[0][1]))
    return findings, denied


def _levels(
    graph: Graph, estimate: Estimate, weights: Mapping[str, Array], false_alarm: float
) -> list[Finding]:
    """Robots of whose heights more do not fit than an altimeter has errors."""
    table = graph.heights
    if not len(table):
        return []
    findings = []
    residual = height_residuals(graph, estimate)
    misfit = np.abs(residual) * np.sqrt(table.precision) > FAR_SIGMA
    if 'heights' in weights:
        misfit |= weights['heights'] < REJECTED_WEIGHT
    owner = owners(graph, table.point)
    for number, name in enumerate(graph.robots):
        own = np.flatnonzero(owner == number)
        far = own[misfit[own]]
        if exceeds(len(far), len(own), _ODD_HEIGHTS, false_alarm):
            share, size = 100 * len(far) / len(own), -float(np.median(residual[far]))
            findings.append(Finding(
                'heights_rejected', name, f'{share:.0f} % of the heights of {name} do not fit, by '
                f'{size:+.1f} m: what is below is not the floor, or its altimeter drifts',
                share, '%'))
    return findings
