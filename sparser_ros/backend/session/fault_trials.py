"""What an audit tries of faults, from those that are known to those that are suspected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ...graph import Graph, range_residuals
from ..integrity.faults import (
    BURST,
    FAILED,
    MISPLACED,
    MOVED,
    MOVED_AWAY,
    Fault,
)
from ..integrity.hypotheses import ALTIMETER, JUMP
from ..integrity.noise import RANGES, mixture_cost, noise_of, white_range_noise
from ..integrity.odometry_errors import SCALE, TURN
from .beacon_faults import (
    located_places,
    misplaced_beacons,
    moved_beacons,
    still_misplaced,
    told_places,
    withhold_frame,
    withhold_mirrored,
)
from .contest import Contest, robust_cost
from .fault_search import Candidate, FaultSearch
from .graph_store import FAILURES
from .lasting_faults import Search, lengths_begun, lengths_ended, solved_sizes
from .odometry_faults import failures_left_out, failures_of_partners, failures_that_go_on
from .range_faults import bursts_left_out, closed, held_back, lengths_of_bursts, still_stands
from .solution import Verdict
from .treatment import Treatment

_RANGES = (
    lengths_ended, lengths_begun, bursts_left_out, lengths_of_bursts, moved_beacons,
    misplaced_beacons)
"""Trials of faults of ranges, in the order in which an audit makes them: what goes on first, since
it explains the most."""
_LEAST_NOISE = 4.0
"""Variance of ranges over the claimed one from which they are weighted by what it is."""
_SAME_NOISE, _NOISE_ROUNDS = 0.3, 3
"""Difference of logarithms of factors that changes nothing; and most solves that find one."""
_NOT_OF_RANGES = (SCALE, TURN, JUMP, FAILED, ALTIMETER)
_GROUPS = (BURST, MOVED, MOVED_AWAY)
"""Faults that are told as a whole: an examination may have named a part of them."""


def holding_back(treatment: Treatment, newest_ns: int) -> Treatment:
    """A treatment that also leaves out what sources whose fault goes on have measured since."""
    return treatment.mapped(lambda fault: held_back(fault, newest_ns))


def look_for_faults(search: FaultSearch, *, denied: bool, elsewhere: Search | None) -> None:
    """Take known faults back that are over, and take on what explains the data beyond chance.

    `denied`: newest measurements contradict the map of the tracker. A search `elsewhere` may add
    maps to those of a contest; None = not now.
    """
    if search.integrity.doubt_ranges:
        search.run(partial(_ranges_as_claimed, elsewhere=elsewhere), _noise_of_ranges)
    search.run(_still_at_fault)
    if search.integrity.doubt_odometry:
        search.run(partial(failures_that_go_on, denied=denied))
    search.run(partial(solved_sizes, elsewhere=elsewhere, of_ranges=True))
    if search.integrity.doubt_ranges:
        search.run(*_RANGES)
        withhold_frame(search)
    if search.integrity.doubt_odometry:
        search.run(partial(failures_left_out, denied=denied))
        failures_of_partners(search)
        withhold_mirrored(search)
    search.note(_placing(search.treatment, search.contest, search.whole))


def _ranges_as_claimed(search: FaultSearch, elsewhere: Search | None) -> Iterator[Candidate]:
    """The best map with ranges as precise as they claim, where noisier ones count.

    A wrong map needs more noise, and fits well with it from then on. Most ranges may be false: the
    kernel's price for each of them would keep that map.
    """
    before = search.treatment.noise
    if not search.due('ranges as claimed', before.factor(RANGES) > _LEAST_NOISE):
        return
    claimed = search.solved(replace(search.treatment, noise=before.with_factor(RANGES, 1.0)))
    if claimed is None:
        return
    if elsewhere is not None:
        elsewhere(claimed)
    if _unlikelihood(claimed, search) < _unlikelihood(search.contest, search) - search.flip_cost:
        yield Candidate(claimed)


def _unlikelihood(contest: Contest, search: FaultSearch) -> float:
    """Of a map, in chi-square, whatever noise its ranges count with: a kernel has one price for
    those that are wrong, however many."""
    own = contest.frame.subgraph
    graph, estimate = own.graph, own.of(contest.best.whole)
    claimed = graph.ranges.precision * contest.data.treatment.noise.factor(RANGES)
    rest = graph.replaced(ranges=graph.ranges.take([]))
    return robust_cost(rest, estimate, search.config) + mixture_cost(
        range_residuals(graph, estimate) * np.sqrt(claimed))


def _noise_of_ranges(search: FaultSearch) -> Iterator[Candidate]:
    """The map with ranges as noisy as they are, where they have far more noise than counts.

    By their likelihood: a factor f on n variances costs n log f. It is measured before faults,
    since under claims that are far too small most ranges look like faults.
    """
    before, contest = search.treatment.noise, search.contest
    for _ in range(_NOISE_ROUNDS):
        subgraph, factor = contest.frame.subgraph, contest.data.treatment.noise.factor(RANGES)
        ratio = white_range_noise(subgraph.graph, subgraph.of(contest.best.whole))
        if factor * ratio < _LEAST_NOISE or np.log(ratio) < _SAME_NOISE or (
                contest is search.contest and not search.due('noise of ranges')):
            break
        other = search.solved(replace(
            search.treatment, noise=before.with_factor(RANGES, factor * ratio)), contest)
        if other is None:
            return
        contest = other
    log_factor = float(np.log(
        contest.data.treatment.noise.factor(RANGES) / before.factor(RANGES)))
    count = len(contest.frame.subgraph.graph.ranges)
    gain = search.contest.best.value - contest.best.value
    if gain > count * log_factor + search.flip_cost and _unlikelihood(contest, search) <= (
            _unlikelihood(search.contest, search) + search.flip_cost):
        yield Candidate(contest)


def weighted_by_noise(search: FaultSearch) -> Iterator[Candidate]:
    """The map with measurements as noisy as the residuals beside what is at fault show them.

    Larger noise counts once audits have found it for `window_s`: until then it may be a fault.
    """
    before, own, best = search.treatment.noise, search.contest.frame.subgraph, search.contest.best
    try:
        noise = noise_of(
            own.graph, own.of(best.whole), best.result.stats.weights,
            search.config.backend.observability.range_sigma_floor_m, search.integrity, before)
    except FAILURES:
        return
    noise = search.attempts.lasting_noise(
        before, noise, search.store.newest_stamp_ns, search.integrity.window_s)
    white = before.factor(RANGES)
    if white > _LEAST_NOISE:
        white *= min(white_range_noise(own.graph, own.of(best.whole)), 1.0)
        noise = noise.with_factor(RANGES, max(white, noise.factor(RANGES)))
    if not before or noise.far_from(before, _SAME_NOISE):
        yield from search.go_on(replace(search.treatment, noise=noise))


def _still_at_fault(search: FaultSearch) -> Iterator[Candidate]:
    """The map with those faults only that are not over, or denied."""
    if not search.integrity.doubt_ranges:
        yield from search.go_on(replace(
            search.treatment, faults=search.treatment.of(*_NOT_OF_RANGES)))
        return
    graph, estimate = search.unbiased, search.estimate

    def still(fault: Fault) -> Fault | None:
        fault = closed(fault, graph, estimate, search.judgement)
        stands = still_stands(fault, graph, estimate) and still_misplaced(
            fault, search.contest, search.whole, search.integrity.bias_floor_m)
        return fault if stands else None

    yield from search.go_on(search.treatment.mapped(still))


def _placing(treatment: Treatment, contest: Contest, graph: Graph) -> Treatment:
    """A treatment that says where misplaced beacons are in the map of a contest."""
    places = located_places(treatment.faults, contest, graph)
    return treatment.mapped(lambda fault: replace(fault, size=tuple(
        places[fault.subject].tolist() if fault.subject in places else ()))
        if fault.kind == MISPLACED else fault)


def noted(
    verdict: Verdict, treatment: Treatment, graph: Graph, memory_s: float
) -> Verdict:
    """A verdict with the treatment that its map is made with, and with that in words.

    `graph` is the sum of all increments. Faults are mentioned for `memory_s` after their end.
    """
    since_ns = int(graph.poses.stamp_ns.max(initial=0)) - int(memory_s * 1e9)
    groups = treatment.of(*_GROUPS)
    known = told_places(treatment.faults, graph) + treatment.but(*_GROUPS).findings(graph, since_ns)
    whole = {(finding.kind, finding.subject): finding
             for finding in Treatment(groups).findings(graph, since_ns)}
    examined = tuple(finding for finding in verdict.findings
                     if (finding.kind, finding.subject) not in whole)
    said = {(finding.kind, finding.subject) for finding in examined}
    return replace(
        verdict, treatment=treatment,
        findings=tuple(finding for finding in (*known, *whole.values())
                       if (finding.kind, finding.subject) not in said) + examined)

