"""What the best candidate of an audit determines, robot by robot, and what speaks against it.

Robots that another map has elsewhere, by more than the alert limit, are ambiguous where it fits
about as well: its chi-square is larger by less than `observability.flip_cost`. Or it is as good if
a source is at fault, as long as nothing proves that fault: an odometry 10 % too long can make the
wrong one of two places fit better by 30. Integrated over the faults that may hide (undetected.py),
each with the prior probability P (`integrity.fault_probability`) and the evidence B_i at a map,
the other map has the odds

    exp(-gap / 2) (1 + sum P B_i there) / (1 + sum P B_i here).

It leaves what it has elsewhere ambiguous while these are above P: what is rarer adds less to the
risk than faults that no data show. Where only such a fault moves a robot away in that map, it is
away with the probability of both, and `observability.integrity_risk` bounds that as in the present
map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logsumexp

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.parts import OdometrySegments, find_segments, measured_pairs
from ..integrity.examine import Examination, examine
from ..integrity.undetected import HiddenFaults, in_words
from ..observability.observability import Observability, observe, position_determined
from .contest import Candidate, Contest
from .frame import Frame, known_places, pinned
from .graph_store import FAILURES
from .solution import Location, SegmentVerdict

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


MOST_HYPOTHESES, MOST_CANDIDATES = 2, 8
"""Hypotheses that are solved for one map, and solves of one audit: each costs a warm solve."""

_OPEN_RAD = 0.8
"""Standard deviation from which a heading is off by a quarter turn with 5 %: from there the steps
of a tick may end in another minimum."""
_MOST_EXAMINED = 2
"""Other maps of an audit that are examined, those of least cost: each takes a linear model."""


@dataclass(frozen=True)
class Judgement:
    """Verdicts on the segments and landmarks of the best candidate."""

    segments: tuple[SegmentVerdict, ...]
    landmark_located: Mask
    withheld: str
    findings: tuple[Finding, ...] = ()
    undetected: HiddenFaults | None = None
    """What may be at fault."""
    unclear: tuple[tuple[str, str], ...] = ()
    """(robot, why) where causes could not be told apart; '' = the map as a whole: these are
    withdrawn."""

    def with_unclear(self, unclear: tuple[tuple[str, str], ...]) -> Judgement:
        """With (robot, why) of causes that could not be told apart; '' = the map as a whole."""
        return replace(self, unclear=tuple(dict.fromkeys((*self.unclear, *unclear))))

    def beside_others(self, others: Mapping[str, Mapping[str, float]]) -> Judgement:
        """With robots ambiguous that are elsewhere, by so many metres, in other maps, named in
        words, that fit as well."""
        segments = list(self.segments)
        for words, metres in others.items():
            for number, segment in enumerate(segments):
                if segment.robot in metres and segment.location is Location.LOCATED:
                    segments[number] = _ambiguous(
                        segment, f'{words} fits as well', metres[segment.robot])
        return replace(self, segments=tuple(segments))


def judged(contest: Contest, config: SparserConfig) -> Judgement:
    """Judge the best candidate, once no other placement starts a better one."""
    seen = seen_in(contest, config)
    frame, best = contest.frame, contest.best
    weights = weights_of_rows(frame, best.result.stats.weights)
    located = seen.landmark_located & frame.mask[len(frame.segments):]
    withheld, findings = _frame_of_map(
        frame, best.whole, located, contest.data.graph, config)
    examination = examined(contest, config)
    undetected = examination.undetected
    if undetected is not None:
        undetected = replace(undetected, keyframes=frame.subgraph.poses[undetected.keyframes])
    return against_rivals(Judgement(
        _segments(frame, seen, weights, config), located, withheld,
        findings + examination.findings, undetected, examination.unclear), contest, config)


def against_rivals(judgement: Judgement, contest: Contest, config: SparserConfig) -> Judgement:
    """What is judged of the best candidate, beside the others that fit about as well."""
    best, accepted = contest.best, config.backend.observability
    result, hidden = list(judgement.segments), judgement.undetected
    located = judgement.landmark_located
    for rival in contest.rivals(accepted.flip_cost):
        away, apart = np.split(np.linalg.norm(moves(contest, rival), axis=1), [len(result)])
        located = located & (apart <= accepted.alert_limit_m)
        for number, verdict in enumerate(result):
            result[number] = verdict = replace(
                verdict, apart_m=max(verdict.apart_m, float(away[number])))
            if verdict.location is Location.LOCATED and away[number] > accepted.alert_limit_m:
                result[number] = _ambiguous(
                    verdict, f'another map fits about as well (chi-square {rival.value:.1f} '
                    f'instead of {best.value:.1f})', float(away[number]))
    judgement = replace(judgement, landmark_located=located)
    if hidden is None or not config.backend.integrity.gate:
        return replace(judgement, segments=tuple(result))
    elsewhere = [
        rival for rival in contest.candidates if rival is not best and np.isfinite(rival.value)
        and moved_robots(contest, rival, accepted.alert_limit_m)]
    for rival in sorted(elsewhere, key=lambda other: other.value)[:_MOST_EXAMINED]:
        if any(verdict.location is Location.LOCATED for verdict in result):
            there = examined(contest, config, rival)
            if there.undetected is not None:
                result = beside_faults(result, contest, rival, hidden, there.undetected, config)
    return replace(judgement, segments=tuple(result))


def open_rivals(contest: Contest, config: SparserConfig) -> list[Candidate]:
    """Candidates that fit about as well as the best one, and have something elsewhere: few enough
    to be solved again, those first that move robots, and the best of them."""
    accepted, told = config.backend.observability, [contest.best]
    for rival in sorted(contest.rivals(accepted.flip_cost), key=lambda candidate: (
            not moved_robots(contest, candidate, accepted.alert_limit_m), candidate.value)):
        if all(np.max(np.linalg.norm(moves(contest, rival, other), axis=1))
               > accepted.alert_limit_m for other in told):
            told.append(rival)
    return told[1:1 + MOST_HYPOTHESES]


def beside_faults(
    verdicts: list[SegmentVerdict], contest: Contest, rival: Candidate, here: HiddenFaults,
    there: HiddenFaults, config: SparserConfig,
) -> list[SegmentVerdict]:
    """Verdicts beside one map that a fault may make as good as the best one."""
    prior = config.backend.integrity.fault_probability
    accepted = config.backend.observability
    likely = there.likely(prior)
    log_odds = (contest.best.value - rival.value) / 2 + float(
        logsumexp(there.log_odds(prior)) - logsumexp(here.log_odds(prior)))
    if log_odds < np.log(prior):
        return verdicts
    result, moved = list(verdicts), moves(contest, rival)
    newest = {verdict.robot: number for number, verdict in enumerate(verdicts)}
    for number, verdict in enumerate(verdicts):
        row = there.place(verdict.robot) if newest[verdict.robot] == number else -1
        shifts = np.zeros((len(likely), moved.shape[1]))
        if row >= 0:
            shifts[1:] = there.lone_shift[row].T
        away = np.linalg.norm(moved[number] + shifts, axis=1)
        risk = likely * (away > accepted.alert_limit_m)
        certain = away[0] > accepted.alert_limit_m
        if verdict.location is Location.LOCATED and (
                certain or expit(log_odds) * np.sum(risk) > accepted.integrity_risk):
            cause = int(np.argmax(risk))
            words = f'if {in_words(there.causes[cause - 1])}, ' if cause else ''
            result[number] = _ambiguous(
                verdict, f'{words}another map fits about as well', float(away[cause]))
    return result


def _ambiguous(verdict: SegmentVerdict, words: str, apart_m: float) -> SegmentVerdict:
    return replace(verdict, location=Location.AMBIGUOUS, apart_m=max(verdict.apart_m, apart_m),
                   missing=f'{words} and has it {apart_m:.1f} m away')


def moves(contest: Contest, rival: Candidate, other: Candidate | None = None) -> Array:
    """(b + m, d): from the newest pose of each segment, and each landmark, in the best map, or in
    another one, to that in a rival, metres."""
    there, here = rival.whole, (other or contest.best).whole
    last = contest.frame.segments.last
    return np.concatenate([
        there.translation[last] - here.translation[last], there.landmarks - here.landmarks])


def moved_robots(contest: Contest, other: Candidate, limit_m: float) -> dict[str, float]:
    """Metres by which robots are elsewhere in another map, of those that it moves by more than a
    limit."""
    segments = contest.frame.segments
    away = np.linalg.norm(moves(contest, other)[:len(segments)], axis=1)
    metres = {
        name: float(np.max(away[segments.robot == number], initial=0.0))
        for number, name in enumerate(contest.frame.graph.robots)}
    return {name: far for name, far in metres.items() if far > limit_m}


def examined(
    contest: Contest, config: SparserConfig, candidate: Candidate | None = None
) -> Examination:
    """What the monitors say of a candidate, by default the best one; once for each.

    That they fail is a finding itself and must not end the audit.
    """
    candidate = candidate or contest.best
    frame, solved = contest.frame, contest.data.treatment.solved
    subgraph, key = frame.subgraph, (id(candidate), solved)
    if key not in contest.examinations:
        try:
            contest.examinations[key] = examine(
                subgraph.graph, subgraph.of(candidate.whole), candidate.result.stats.weights,
                config.backend.integrity, None if frame.gauge is None else frame.gauge_row, solved)
        except FAILURES as error:
            contest.examinations[key] = Examination((Finding(
                'monitor_failed', 'map', 'the integrity of the map is not monitored: '
                f'{type(error).__name__}: {error}'),))
    return contest.examinations[key]


def seen_in(contest: Contest, config: SparserConfig) -> Observability:
    """What the measurements determine in the best candidate; better hypotheses are tried.

    Maps that were not excluded before, and the other placements that fit about as well in the rigid
    problem, start solves of the whole graph; where one of them wins, it is judged in turn.
    """
    frame = contest.frame
    while True:
        best = contest.best
        seen = observe(
            frame.graph, best.whole, frame.segments, frame.gauge, config.backend.observability,
            weights_of_rows(frame, best.result.stats.weights),
            rejected_weight=config.backend.rejected_weight)
        tried = {candidate.start for candidate in contest.candidates}
        likely = seen.hypotheses[:MOST_HYPOTHESES]
        fresh = [(words, whole) for words, whole in (
            *contest.unexcluded, *((one.words, one.estimate) for one in likely))
            if words not in tried]
        if not fresh or len(contest.candidates) >= MOST_CANDIDATES:
            return seen
        for start in fresh:
            contest.from_hypothesis(*start)
        if contest.best is best:
            return seen


def weights_of_rows(frame: Frame, weights: dict[str, Array]) -> dict[str, Array]:
    """Robust weights over all rows of the frame's graph, 1 for what was not solved."""
    result = {}
    for name, column in weights.items():
        whole = np.ones(len(frame.graph.tables()[name]))
        whole[frame.subgraph.rows[name]] = column
        result[name] = whole
    return result


def determined(contest: Contest, config: SparserConfig) -> Mask:
    """(b,): segments whose place would be determined if every measurement were believed.

    Robust weights leave measurements out that another map would keep: where only the weights
    leave a robot undetermined, a start from scratch may find such a map.
    """
    frame = contest.frame
    return frame.mask[:len(frame.segments)] & position_determined(
        frame.graph, contest.best.whole, frame.segments, frame.gauge,
        config.backend.observability)


def ties_of(graph: Graph) -> tuple[Index, int]:
    """(b + m,): measurements that tie each segment or landmark to others; and b."""
    segments = find_segments(graph)
    pairs = measured_pairs(graph, segments)
    ground = segments.variable(graph.absolute_endpoints())
    apart = pairs[pairs[:, 0] != pairs[:, 1]]
    every = np.concatenate([apart.ravel(), ground]).astype(np.int64)
    return np.bincount(every, minlength=len(segments) + graph.n_landmarks), len(segments)


def _segments(
    frame: Frame, seen: Observability, weights: dict[str, Array], config: SparserConfig
) -> tuple[SegmentVerdict, ...]:
    segments, graph = frame.segments, frame.graph
    apart = np.zeros(len(segments))
    for other in seen.alternatives:
        if other.variable < len(segments):
            apart[other.variable] = max(
                apart[other.variable], float(np.linalg.norm(other.shift)))
    share = rejected_shares(graph, segments, weights, config.backend.rejected_weight)
    result = []
    for number in range(len(segments)):
        location, missing = seen.location[number], seen.missing[number]
        if not frame.mask[number]:
            location, missing = Location.UNLOCATED, (
                'no range or closure ties it to the robots or beacons located in map')
        result.append(SegmentVerdict(
            int(segments.first[number]), graph.robots[segments.robot[number]], location, missing,
            float(share[number]), float(apart[number]), float(seen.sigma.position[number]),
            bool(seen.sigma.heading[number] >= _OPEN_RAD)))
    return tuple(result)


def rejected_shares(
    graph: Graph, segments: OdometrySegments, weights: dict[str, Array], threshold: float
) -> Array:
    """(b,): share of the ranges, closures and sightings of each segment that is rejected."""
    pairs = measured_pairs(graph, segments)
    closures = ~graph.relative_poses.odometry
    column = np.concatenate([
        weights.get('relative_poses', np.ones(len(closures)))[closures],
        weights.get('sightings', np.ones(len(graph.sightings))),
        weights.get('ranges', np.ones(len(graph.ranges)))])
    size = len(segments) + graph.n_landmarks
    every, out = np.zeros(size), np.zeros(size)
    for side in (0, 1):
        every += np.bincount(pairs[:, side], minlength=size)
        out += np.bincount(pairs[:, side], column < threshold, minlength=size)
    return (out / np.maximum(every, 1))[:len(segments)]


def _frame_of_map(
    frame: Frame, whole: Estimate, located: Mask, graph: Graph, config: SparserConfig
) -> tuple[str, tuple[Finding, ...]]:
    """Why map may not be published yet, or ''; and what is to be said about its frame."""
    known = known_places(graph, config)
    if frame.anchored or not known.expected:
        return '', ()
    names = ', '.join(known.names)
    if known.enough:
        heard = sorted(set(known.names) & set(graph.landmarks.names))
        return 'map waits for known places that fix its frame: ' + (
            f'of the known beacons ({names}) {", ".join(heard) or "none"} heard so far' if names
            else 'no position fix is used so far'), ()
    text = (f'the heading of map is the one that the gauge robot {frame.gauge_name} began with: '
            f'known places ({names}) fix only its position')
    if pinned(graph, whole, located, config) is None:
        text += ', and map is put there once one of them is located'
    return '', (Finding('map_heading_free', 'map', text),)
