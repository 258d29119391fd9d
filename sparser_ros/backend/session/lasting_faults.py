"""Faults of radios that go on: ranges that are all too long, antennas that stand elsewhere.

What such a radio errs by is taken off all its ranges, and they keep their weight. So the error must
be known: nothing else explains the ranges about as well, and the data that it is measured with
determine it. Who forgets a lever arm has ranges that are too long on one side of the robot and too
short on the other; a robot that turns enough determines it. When a length began, or that it is
over, is found by the map that fits best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag

from ...array_types import Array
from ...graph import range_residuals
from ...graph.ends import stamps_of
from ..integrity.doubts import FAR_SIGMA
from ..integrity.examine import bent_edges
from ..integrity.faults import (
    BURST,
    KINDS,
    LENGTH,
    MOVED,
    MOVED_AWAY,
    Fault,
)
from ..integrity.hypotheses import ONGOING, odometry_scales
from ..integrity.linear_model import linear_model
from ..integrity.places import known_names, may_have_moved
from ..integrity.radio_errors import ALL_RADIOS
from ..integrity.undetected import stands_out
from .contest import Contest
from .fault_search import Candidate, FaultSearch
from .range_faults import as_others_fit, cost_with_jump, measured_length
from .treatment import Treatment

_TROUBLES = ('range_burst', 'ranges_rejected', 'odometry_jump', 'beacon_moved')
"""Kinds of findings that a length which is over looks like."""
_ROUNDS = 3
"""Solves that find the size of a fault: what is left gets smaller by far each time, and ranges that
were rejected at the first count again at the next."""
_TIME_ROUNDS = 2
"""Solves that find when a length began or ended: from where all was well, and from its place in
that map."""


def _lasting() -> tuple[str, ...]:
    """Kinds that are solved for."""
    return tuple(kind for kind, row in KINDS.items() if row.columns is not None)


def measured_again(search: FaultSearch) -> Iterator[Candidate]:
    """The map with lasting faults of the sizes that all data tell.

    What no longer explains the ranges of its radio is no longer taken off.
    """
    known = [fault for fault in search.treatment.of(*_lasting()) if fault.spans[-1][1] == ONGOING]
    kept = {fault: fault for fault in known if _fits(fault, search, search.contest)}
    for fault, (more, covariance) in sizes_left(search, search.contest, list(kept)).items():
        size = np.array(fault.size) + more
        if np.linalg.norm(size) < KINDS[fault.kind].floor(search.integrity):
            del kept[fault]
        elif more @ np.linalg.solve(covariance, more) > len(more):
            kept[fault] = replace(fault, size=tuple(size.tolist()))
    if list(kept.values()) != known:
        yield from search.go_on(search.treatment.mapped(
            lambda fault: kept.get(fault) if fault in known else fault))


def lasting_faults(search: FaultSearch) -> Iterator[Candidate]:
    """Maps with one more lasting fault taken off, of those that examinations name.

    It must explain the residuals better than any other lasting fault. Bursts that the radio takes
    part in count again then. Not the length of a known beacon: a place that is configured wrongly
    looks like that from one side.
    """
    for kind in _lasting():
        tried: set[str] = set()
        while (name := _next_suspect(search, kind, tried)) is not None:
            tried.add(name)
            contest = _with_size(search, kind, name)
            if contest is not None:
                yield Candidate(contest, len(contest.data.treatment.of(kind)[-1].size))
                if search.contest is contest:
                    tried.clear()


def _next_suspect(search: FaultSearch, kind: str, tried: set[str]) -> str | None:
    known = {fault.subject for fault in search.treatment.of(kind) if fault.spans[-1][1] == ONGOING}
    barred = known | tried | (known_names(search.whole) if kind == LENGTH else set())
    for finding in search.judgement.findings:
        cause = f'{finding.kind} of {finding.subject}'
        if (finding.kind == kind and finding.subject not in barred
                and stands_out(search.judgement.undetected, cause, search.flip_cost)
                and search.due(cause)):
            return finding.subject
    return None


def _with_size(search: FaultSearch, kind: str, name: str) -> Contest | None:
    """The contest with a fault of the best size; None where that is not known.

    The length of one radio is measured beside a map that its ranges do not hold. Of all radios the
    map is never free: it has no other ranges.
    """
    fault, contest = Fault(kind, name), search.contest
    believed = search.treatment.without(
        _sharing(fault, search)) if kind == LENGTH else search.treatment
    if kind == LENGTH and name != ALL_RADIOS:
        measured = measured_length(search, believed, name, contest)
        if measured is None:
            return None
        fault = replace(fault, size=measured[0].size)
        other = search.solved(believed.beside(fault), measured[1])
    else:
        other = contest
        for _ in range(_ROUNDS):
            left = sizes_left(search, other, [fault])
            if fault not in left:
                return None
            size = np.array(fault.size or 0.0) + left[fault][0]
            fault = replace(fault, size=tuple(size.tolist()))
            solved = search.solved(believed.beside(fault), other)
            if solved is None:
                return None
            other = solved
    return other if other is not None and _is_known(fault, search, other) and _fits(
        fault, search, other) else None


def _is_known(fault: Fault, search: FaultSearch, contest: Contest) -> bool:
    """Whether a size is far from none, and more than a floor.

    By the axis that is known least: a robot that hardly turns shows one axis of its antenna only.
    """
    left = sizes_left(search, contest, [fault])
    if fault not in left:
        return False
    sigma = float(np.sqrt(np.linalg.eigvalsh(left[fault][1])[-1]))
    return float(np.linalg.norm(fault.size)) > max(
        FAR_SIGMA * sigma, KINDS[fault.kind].floor(search.integrity))


def _fits(fault: Fault, search: FaultSearch, contest: Contest) -> bool:
    """Whether the ranges of a radio fit a map without its fault as often as others do."""
    return as_others_fit(
        fault.rows(search.whole), contest.data.unbiased, contest.best.whole)


def sizes_left(
    search: FaultSearch, contest: Contest, faults: list[Fault]
) -> dict[Fault, tuple[Array, Array]]:
    """By how much faults are still larger, (c,) in units of their sizes; the covariance of that.

    At the best map of a contest, each beside the others. Each has the prior of a source at fault,
    so that a direction that the map absorbs stays as it is. The odometry of each robot may be too
    long or too short by `scale_floor`: it gives the map its size where no known places do. Of
    faults without ranges in the contest, nothing.
    """
    if not faults:
        return {}
    subgraph, best, config = contest.frame.subgraph, contest.best, search.integrity
    graph, weights = subgraph.graph, best.result.stats.weights
    estimate = subgraph.of(best.whole)
    model = linear_model(graph, estimate, weights)
    columns = {}
    for fault in faults:
        derivatives = KINDS[fault.kind].columns
        if derivatives is not None:
            columns[fault] = derivatives(fault, model)
    columns = {fault: block for fault, block in columns.items() if block.nnz}
    if not columns:
        return {}
    scales = odometry_scales(model)
    scores = model.scores(sp.hstack([*columns.values(), scales], format='csc'))
    count = [block.shape[1] for block in columns.values()]
    prior = block_diag(
        np.diag(np.repeat([
            (block.shape[1] + 2.0) / (config.fault_size * KINDS[fault.kind].floor(config)) ** 2
            for fault, block in columns.items()], count)),
        config.scale_floor ** -2.0 * np.eye(scales.shape[1]))
    covariance = np.linalg.inv(scores.information + prior)
    value = -covariance @ scores.score
    ends = np.cumsum(count)
    return {fault: (value[end - c:end], covariance[end - c:end, end - c:end])
            for fault, c, end in zip(columns, count, ends.tolist(), strict=True)}


def lengths_ended(search: FaultSearch) -> Iterator[Candidate]:
    """Maps in which a length is over, where its radio gives trouble.

    Looked for from the last time on that it gave none.
    """
    troubled = _troubled(search)
    for fault in search.treatment.of(LENGTH):
        if fault.spans[-1][1] != ONGOING or not search.due(
                f'end of {fault.subject}', fault.subject in troubled):
            continue
        begin, length = fault.spans[0][0], fault.size[0]
        bare = search.treatment.without([fault, *_sharing(fault, search)])
        contest = search.contest
        end_ns = search.attempts.well_ns.get(fault.subject, search.newest_ns)
        for _ in range(_TIME_ROUNDS):
            other = search.solved(bare.beside(*(
                [replace(fault, spans=((begin, end_ns),))] if end_ns >= begin else [])), contest)
            if other is None:
                break
            contest, end_ns = other, _changed_after(search, bare, fault, length, 0.0, other)
        if contest is not search.contest:
            yield Candidate(contest, 1)
            if search.contest is contest:
                return


def lengths_begun(search: FaultSearch) -> Iterator[Candidate]:
    """Maps with a length taken off that began a while ago.

    For `window_s` a fault may be a burst (range_faults.py). A jump of the radio's odometry, or
    a move of the beacon, must not explain the ranges as well.
    """
    troubled, known = _troubled(search), {
        fault.subject for fault in search.treatment.of(LENGTH) if fault.spans[-1][1] == ONGOING}
    window_ns = search.integrity.window_s * 1e9
    names = {*search.whole.robots, *search.whole.landmarks.names} - known_names(search.whole)
    for name in sorted((troubled & names) - known):
        well_ns = search.attempts.well_ns.get(name)
        if (well_ns is None or search.newest_ns - well_ns < window_ns
                or any(fault.open and fault.subject == name for fault in search.treatment.faults)
                or not search.due(f'begin of {name}')):
            continue
        bare = search.treatment.without(_sharing(Fault(LENGTH, name), search))
        begun: tuple[Fault, Contest] | None = None
        for _ in range(_TIME_ROUNDS):
            started = _since(search, bare, name, well_ns, search.contest if begun is None
                             else begun[1])
            if started is None:
                break
            begun = started
            well_ns = _changed_after(search, bare, begun[0], 0.0, begun[0].size[0], begun[1])
        if begun is None:
            continue
        fault, contest = begun
        later = replace(fault, spans=((well_ns + 1, ONGOING),))
        if _is_known(fault, search, contest) and _fits(later, search, contest):
            yield Candidate(contest, 1, _otherwise(search, later))
            if search.contest is contest:
                return


def _since(
    search: FaultSearch, bare: Treatment, name: str, well_ns: int, contest: Contest
) -> tuple[Fault, Contest] | None:
    """The best length off a radio's ranges after a time, and its map; None if there is none."""
    every = Fault(LENGTH, name, (0.0,))
    stamps = stamps_of(search.whole, search.whole.ranges)[every.rows(search.whole)]
    if not np.any(stamps <= well_ns):
        return None
    measured = measured_length(search, bare, name, contest, well_ns + 1)
    if measured is None:
        return None
    fault = replace(every, size=measured[0].size, spans=((well_ns + 1, ONGOING),))
    other = search.solved(bare.beside(fault), measured[1])
    return None if other is None else (fault, other)


def _changed_after(
    search: FaultSearch, bare: Treatment, fault: Fault, before_m: float, after_m: float,
    contest: Contest,
) -> int:
    """The stamp up to which a radio's ranges fit a map best with one length off, then another."""
    graph = bare.unbiased(search.whole)
    own = replace(fault, spans=((0, ONGOING),)).rows(graph)
    stamps = stamps_of(graph, graph.ranges)[own]
    own, stamps = own[np.argsort(stamps, kind='stable')], np.sort(stamps)
    ranges = graph.ranges.take(own)
    error = range_residuals(graph.replaced(ranges=ranges), contest.best.whole)
    root = np.sqrt(ranges.precision)
    before, after = (
        np.minimum(((error + length) * root) ** 2, FAR_SIGMA**2) for length in (before_m, after_m))
    cost = np.cumsum(before - after)
    # Ranges of one stamp are on one side.
    last = np.append(stamps[1:] > stamps[:-1], True)
    at = np.append(-1, np.flatnonzero(last))
    best = int(at[np.argmin(np.append(0.0, cost[last]))])
    return int(stamps[best]) if best >= 0 else int(stamps[0]) - 1


def _otherwise(search: FaultSearch, fault: Fault) -> float:
    """Least robust cost of a map in which something else explains these ranges of a radio."""
    subgraph, whole = search.contest.frame.subgraph, search.estimate
    if may_have_moved(fault.subject, fault.rows(search.whole), search.unbiased, whole):
        return -np.inf
    edge = bent_edges(subgraph.graph, subgraph.of(whole)).get(fault.subject)
    return cost_with_jump(search.contest, edge, search.config)


def _troubled(search: FaultSearch) -> set[str]:
    """Radios that give trouble; of the others, that they do not is remembered."""
    troubled = {name for name, _ in search.judgement.unclear} | {
        finding.subject for finding in search.judgement.findings if finding.kind in _TROUBLES}
    graph = search.whole
    search.attempts.well_ns |= dict.fromkeys(
        {*graph.robots, *graph.landmarks.names} - troubled, search.newest_ns)
    return troubled


def _sharing(fault: Fault, search: FaultSearch) -> Iterable[Fault]:
    """Bursts and moves that have ranges of a fault."""
    rows = replace(fault, spans=((0, ONGOING),)).rows(search.whole)
    return [
        fault for fault in search.treatment.of(BURST, MOVED, MOVED_AWAY)
        if len(np.intersect1d(fault.rows(search.whole), rows))]
