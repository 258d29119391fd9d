"""Faults that last: their sizes are solved for with the map once they are likely.

Ranges of a radio that are all too long, an antenna that stands elsewhere, odometry that is too long
or turns, a drifting altimeter: each is a few parameters, linear in the residuals. Once data make
such a fault likely (integrity/undetected.py), its size belongs into the map: it is taken
off, and what stays uncertain of it adds to the covariances of everything. When a length of a radio
began, or that it is over, is found by the map that fits best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from ...graph.ends import stamps_of
from ..integrity.examine import bent_edges
from ..integrity.faults import BURST, KINDS, LENGTH, MOVED, MOVED_AWAY, Fault, ranges_of
from ..integrity.hypotheses import ALTIMETER, JUMP, ONGOING, drift_seconds
from ..integrity.odometry_errors import SCALE, TURN
from ..integrity.places import known_names, may_have_moved
from .contest import Contest
from .fault_search import Candidate, FaultSearch
from .range_faults import (
    GROWN,
    as_others_fit,
    changed_after,
    cost_with_jump,
    measured_length,
)
from .treatment import Treatment

Search = Callable[[Contest], bool]
"""Adds candidates from elsewhere to a contest; whether one is better than the best before."""
_FAR_FETCHED = 3.0
"""Standard deviations of the size of faults (`fault_size` times their floor) beyond which an error
of odometry is not believed: 60 % of its length, 103 degrees a minute by default."""
_MOST_ROUNDS = 12
"""Warm solves of one audit: a fault more, and sizes beside each other."""
_SAME = 0.1
"""Of the floor of a fault: what no map shows."""
_TROUBLES = ('range_burst', 'ranges_rejected', 'odometry_jump', 'beacon_moved')
"""Kinds of findings that a length which is over looks like."""
_TIME_ROUNDS = 2
"""Solves that find when a length began or ended: from where all was well, and from its place in
that map."""


def solved_sizes(
    search: FaultSearch, elsewhere: Search | None, *, of_ranges: bool
) -> Iterator[Candidate]:
    """Maps with the sizes of faults that last, of ranges or of the rest, where these are likely.

    One more at a time, once the sizes of those before have settled: what is left of one whose size
    is not right yet looks like other faults.

    A wrong map may need a fault of odometry, and fits well with it from then on. So a new one is
    taken off only once a search `elsewhere` has found no better map without it; None = not now.
    Those of ranges must make all ranges of their source fit. A jump of odometry must be better than
    one length of all ranges of its robot since then: from one side either looks like the other.

    An error that no odometry has is another fault's work, on every robot that seems to have
    one: its cause is not known, and these robots are withdrawn as long as it shows.
    """
    searched = False
    for _ in range(_MOST_ROUNDS):
        before, after = (
            tuple(fault for fault in faults if _of_ranges(fault) == of_ranges)
            for faults in (search.treatment.solved, search.examination.solved))
        if not (search.integrity.doubt_ranges if of_ranges else search.integrity.solve_odometry):
            after = ()
        if any(far_fetched(fault.kind, fault.size[0], search.integrity) for fault in after):
            break
        known = tuple(fault for fault in after if _unsized(fault) in _sizes(before)
                      and _explains(fault, search, search.contest))
        new = tuple(fault for fault in after if _unsized(fault) not in _sizes(before)
                    and not _tried_in_vain(fault, search))
        if _differ(before, known, search):
            new = ()
        elif not new:
            break
        if new and not of_ranges and not searched:
            if elsewhere is not None and elsewhere(search.contest):
                searched = True
                yield Candidate(search.contest)
                continue
            searched = elsewhere is not None
            if not searched:
                break
        shared = [burst for fault in new if _of_ranges(fault) for burst in _sharing(fault, search)]
        contest = search.solved(search.treatment.without([*before, *shared]).beside(*known, *new))
        if contest is None:
            break
        if all(_explains(fault, search, contest) and _is_no_length(fault, search, contest)
               for fault in new):
            yield Candidate(contest)
        else:
            search.attempts.refused |= {
                _key(fault): len(_heard_since(fault, search)) for fault in new}


def _of_ranges(fault: Fault) -> bool:
    return 'ranges' in KINDS[fault.kind].corrected


def _explains(fault: Fault, search: FaultSearch, contest: Contest) -> bool:
    """Whether ranges with its size taken off fit as often as those of sound sources do."""
    return not _of_ranges(fault) or as_others_fit(
        fault.rows(search.whole), contest.data.unbiased, contest.best.whole)


def _is_no_length(fault: Fault, search: FaultSearch, contest: Contest) -> bool:
    if fault.kind != JUMP:
        return True
    bare = search.treatment.without(_sharing(Fault(LENGTH, fault.subject), search))
    begun = length_begun(search, bare, fault.subject, fault.spans[0][0])
    return begun is None or contest.best.value + search.flip_cost < begun[1].best.value


def _tried_in_vain(fault: Fault, search: FaultSearch) -> bool:
    refused = search.attempts.refused.get(_key(fault), 0)
    return refused > 0 and len(_heard_since(fault, search)) < GROWN * refused


def _heard_since(fault: Fault, search: FaultSearch) -> Index:
    """Ranges of its subject since it began, which tell more of it."""
    return replace(fault, spans=((fault.spans[0][0], ONGOING),)).rows(search.whole)


def _key(fault: Fault) -> tuple[str, str, int]:
    return fault.kind, fault.subject, fault.spans[0][0]


def _unsized(fault: Fault) -> Fault:
    return replace(fault, size=(), proved=True)


def _sizes(faults: Sequence[Fault]) -> dict[Fault, Array]:
    return {_unsized(fault): np.array(fault.size) for fault in faults}


def _differ(before: Sequence[Fault], after: Sequence[Fault], search: FaultSearch) -> bool:
    """Whether other faults are solved for, or proved, or sizes have moved by more than a share of a
    floor."""
    sizes, newest_ns = _sizes(before), search.store.newest_stamp_ns
    proved = [{_unsized(fault) for fault in faults if fault.proved} for faults in (before, after)]
    return len(before) != len(after) or proved[0] != proved[1] or any(
        _unsized(fault) not in sizes
        or np.linalg.norm(np.array(fault.size) - sizes[_unsized(fault)]) * (
            drift_seconds(fault.spans[0], newest_ns) if fault.kind == ALTIMETER else 1.0)
        > _SAME * KINDS[fault.kind].floor(search.integrity) for fault in after)


def far_fetched(kind: str, size: float, config: IntegrityConfig) -> bool:
    """Whether odometry is said to be wrong by far more than faults of odometry are."""
    return bool(kind in (SCALE, TURN) and abs(size) > (
        _FAR_FETCHED * config.fault_size * KINDS[kind].floor(config)))


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
            contest, end_ns = other, changed_after(
                ranges_of(fault.subject, search.whole), length, 0.0,
                bare.unbiased(search.whole), other.best.whole)
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
        begun = length_begun(search, bare, name, well_ns)
        if begun is None:
            continue
        later, contest = begun
        if abs(later.size[0]) > KINDS[LENGTH].floor(search.integrity) and _explains(
                later, search, contest):
            yield Candidate(contest, 1, _otherwise(search, later))
            if search.contest is contest:
                return


def length_begun(
    search: FaultSearch, bare: Treatment, name: str, well_ns: int
) -> tuple[Fault, Contest] | None:
    """The best length off a radio's ranges that began about then, and a map with it; None without.

    The fault began where its ranges say, the map has it where the round before did.
    """
    begun: tuple[Fault, Contest] | None = None
    for _ in range(_TIME_ROUNDS):
        started = _since(
            search, bare, name, well_ns, search.contest if begun is None else begun[1])
        if started is None:
            break
        fault, contest = started
        well_ns = changed_after(
            ranges_of(name, search.whole), 0.0, fault.size[0], bare.unbiased(search.whole),
            contest.best.whole)
        begun = replace(fault, spans=((well_ns + 1, ONGOING),)), contest
    return begun


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


def _otherwise(search: FaultSearch, fault: Fault) -> float:
    """Least robust cost of a map in which something else explains these ranges of a radio."""
    subgraph, whole = search.contest.frame.subgraph, search.estimate
    if may_have_moved(fault.subject, fault.rows(search.whole), search.unbiased, whole):
        return -np.inf
    edge = bent_edges(subgraph.graph, subgraph.of(whole)).get(fault.subject)
    return cost_with_jump(search.contest, edge, search.config)


def _troubled(search: FaultSearch) -> set[str]:
    """Radios that give trouble; of the others, that they do not is remembered."""
    troubled = {name for name, _ in search.unclear} | {
        finding.subject for finding in search.examination.findings if finding.kind in _TROUBLES}
    graph = search.whole
    search.attempts.well_ns |= dict.fromkeys(
        {*graph.robots, *graph.landmarks.names} - troubled, search.newest_ns)
    return troubled


def _sharing(fault: Fault, search: FaultSearch) -> Iterable[Fault]:
    """What was told by ranges of a fault: bursts and moves that have them, jumps of its subject."""
    rows = replace(fault, spans=((0, ONGOING),)).rows(search.whole)
    return [
        other for other in search.treatment.of(BURST, MOVED, MOVED_AWAY, JUMP)
        if (other.subject == fault.subject if other.kind == JUMP
            else len(np.intersect1d(other.rows(search.whole), rows)))]
