"""Ranges that are faulty together, such as those of one radio behind a wall for half a minute.

A robust kernel doubts every measurement by itself: many ranges that agree in one error move the
map until odometry gives way. Here the ranges of one source and one stretch of time are tested as
a group: with and without them, the map differs in cost by their chi-square given all other data.

Such a fault may go on: what its source measures next is held back too, until its ranges are
nearer to the map than to the fault. The map must place the source without them meanwhile.

Where one length explains most ranges of a group, it is taken off and they count again. The length
and the map have to be told apart by the same data, so the length is a score estimate with the map
free (linear_model.py). Its ranges then share one error, which no weights of single ranges can say.
Their variance is multiplied by 1 + bare / information, where `bare` is what they would say of the
length in a known map and `information` what they say beside a free one. In the direction that the
length pulls at the map, such weights claim at most twice the information that is there; where
length and map cannot be told apart, the ranges count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph, range_residuals
from ...graph.ends import range_ends, stamps_of
from ..integrity.doubts import BURST_TIMES, FAR_SIGMA, TOLERATED_SHARE, ordinary
from ..integrity.faults import (
    BURST,
    MOVED,
    MOVED_AWAY,
    Fault,
    ranges_of,
    stretch,
)
from ..integrity.hypotheses import ONGOING, length_columns
from ..integrity.linear_model import DETERMINED, linear_model
from ..integrity.places import may_have_moved
from ..integrity.stretches import LEAST_TELLING
from .contest import Contest, run, value_of
from .fault_search import Candidate, FaultSearch
from .judgement import Judgement
from .solution import Location
from .treatment import Treatment

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_MOST_ROUNDS = 3
"""Rounds of one audit that leave faulty ranges out, each with a warm solve."""
GROWN = 1.5
"""Growth of a group that an explanation did not fit from which it is tried again."""
_LEAST_EXPLAINED = 5
"""Ranges of a group from which one length may explain them: half of fewer fit any length."""
_LEAST_GOOD = 5
"""Ranges in a row, without a faulty one, after which a fault is over: with half of them decided
by chance it would seem to be over in 3 % of all cases, and the next audit would find it again."""
_LENGTH_ROUNDS = 4
"""Linear estimates of a length with the map free: 1.5 m at 10 m of distance takes so many."""
_END_ROUNDS = 2
"""Maps that find the end of a fault: with a given end, and with that which its ranges say then."""
_OPENED = 1e-6
"""Share of its precision that odometry keeps where it may have jumped: 0.05 m become 50 m."""


def held_back(fault: Fault, newest_ns: int) -> Fault:
    """An open fault with everything that its source has measured since."""
    if not fault.open or not fault.spans:
        return fault
    return replace(fault, held_ns=newest_ns, spans=(
        *fault.spans[:-1], (fault.spans[-1][0], max(newest_ns, fault.spans[-1][1]))))


def closed(fault: Fault, graph: Graph, estimate: Estimate, judgement: Judgement) -> Fault:
    """An open fault without the ranges after its end, if it is over.

    A map that does not place the source without its ranges cannot judge them. Where a length is
    known, maps with and without it are compared instead (lengths_of_bursts).
    """
    if not fault.open or fault.known_ns or not len(fault.rows(graph)):
        return fault
    end_ns, good = _last_faulty(fault, graph, estimate)
    if good >= _LEAST_GOOD:
        return replace(fault.until(end_ns), end_ns=end_ns)
    own = [part for part in judgement.segments if part.robot == fault.subject]
    placed = not own or own[-1].location is Location.LOCATED or (
        own[-1].location is Location.UNLOCATED
        and 0 < FAR_SIGMA * own[-1].sigma_m < abs(fault.size[0]) / 2)
    return replace(fault, end_ns=max(fault.end_ns, end_ns), held_ns=fault.held_ns if placed else 0)


def _last_faulty(fault: Fault, graph: Graph, estimate: Estimate) -> tuple[int, int]:
    """The stamp of the last faulty range of a fault, and how many good ones have come since."""
    rows, stamps = _in_order(fault.rows(graph), graph)
    faulty = np.flatnonzero(_faulty(fault, rows, graph, estimate))
    count = int(faulty[-1]) + 1 if len(faulty) else 0
    return int(stamps[count - 1]) if count else int(stamps[0]) - 1, len(rows) - count


def _in_order(rows: Index, graph: Graph) -> tuple[Index, Index]:
    """Rows of ranges, and their stamps, from the oldest to the newest."""
    stamps = stamps_of(graph, graph.ranges)[rows]
    order = np.argsort(stamps, kind='stable')
    return rows[order], stamps[order]


def _faulty(fault: Fault, rows: Index, graph: Graph, estimate: Estimate) -> Mask:
    """(k,): whether ranges are nearer to a fault than to the map: their error is at least half of
    the fault's."""
    return np.asarray(np.abs(errors(graph, rows, estimate)) >= abs(fault.size[0]) / 2)


def still_stands(fault: Fault, graph: Graph, estimate: Estimate) -> bool:
    """Whether most ranges of a group still do not fit the map, and it is a stretch.

    With most ranges of its source left out, a group no longer stands against the others: an error
    that lasts is no burst, and the map may have bent to what is left. Not so where a beacon fitted
    before the group began: moves last.

    `graph` is the sum of all increments, `estimate` of all its poses and landmarks.
    """
    if fault.kind not in (BURST, MOVED, MOVED_AWAY):
        return True
    rows, own = fault.rows(graph), ranges_of(fault.subject, graph)
    if fault.kind == BURST and not fault.known_ns and 2 * len(rows) > len(own) and not (
            fault.subject in graph.landmarks.names
            and _fitted(fault.before().rows(graph), graph, estimate)):
        return False
    return fault.open or bool(len(rows) and not _fits_again(fault, rows, graph, estimate))


def _fits_again(fault: Fault, rows: Index, graph: Graph, estimate: Estimate) -> bool:
    """Whether most ranges of a group fit; those of a beacon that was moved, as often as others.

    By a move of a few standard deviations, from some sides, most ranges fit both places, and by a
    length of a few most fit with it and without it: what it is taken off must be nearer to it.
    """
    if fault.kind == MOVED:
        return as_others_fit(rows, graph, estimate)
    if fault.known_ns:
        return 2 * np.count_nonzero(_faulty(fault, rows, graph, estimate)) <= len(rows)
    return 2 * _far(graph, rows, estimate) < len(rows)


def _fitted(rows: Index, graph: Graph, estimate: Estimate) -> bool:
    """Whether these ranges are enough to tell, and fit as often as others do."""
    return (len(rows) >= LEAST_TELLING
            and _far(graph, rows, estimate) <= TOLERATED_SHARE * len(rows))


def as_others_fit(rows: Index, graph: Graph, estimate: Estimate) -> bool:
    """Whether these ranges fit an estimate as often as ranges of sound sources do."""
    return ordinary(_far(graph, rows, estimate), len(rows))


def errors(graph: Graph, rows: Index, estimate: Estimate) -> Array:
    """(k,): residuals in metres of ranges at an estimate."""
    return np.asarray(range_residuals(
        graph.replaced(ranges=graph.ranges.take(rows)), estimate))


def _far(graph: Graph, rows: Index, estimate: Estimate, length_m: float = 0.0) -> int:
    """How many of these ranges, with a length taken off, do not fit an estimate."""
    # Predicted minus measured: a long range makes it smaller.
    whitened = (errors(graph, rows, estimate) + length_m) * np.sqrt(graph.ranges.precision[rows])
    return int(np.count_nonzero(np.abs(whitened) >= FAR_SIGMA))


def median_error(rows: Index, graph: Graph, estimate: Estimate) -> float:
    """By how much ranges are too long at an estimate, in metres."""
    return -float(np.median(errors(graph, rows, estimate)))


def possible(rows: Index, length_m: float, graph: Graph) -> bool:
    """Whether all these ranges are longer than what they are said to be too long by.

    One that is not denies the length of all of them.
    """
    return bool(np.all(graph.ranges.distance_m[rows] > length_m))


def explained(rows: Index, length_m: float, graph: Graph, estimate: Estimate) -> bool:
    """Whether most of these ranges fit the map once a length is taken off."""
    return 2 * _far(graph, rows, estimate, length_m) < len(rows)


def joined(
    treatment: Treatment, new: Iterable[Fault], graph: Graph
) -> tuple[Treatment, list[Fault]]:
    """A treatment with new bursts, and these bursts.

    One takes in an older one of its source that it overlaps or follows: a burst that goes on is
    found again and again, each time with its newest ranges only. What is corrected and over stays
    by itself.
    """
    bursts = []
    for fault in new:
        rows = fault.rows(graph)
        older = [
            old for old in treatment.of(BURST, MOVED_AWAY)
            if old.subject == fault.subject and len(rows) and len(own := old.rows(graph))
            and (old.open or not old.known_ns or len(np.intersect1d(own, rows)))]
        for old in older:
            rows = np.union1d(rows, old.rows(graph))
        burst = fault if not older else replace(
            stretch(BURST, fault.subject, rows, graph), size=fault.size, words=fault.words,
            end_ns=fault.end_ns)
        treatment = treatment.without(older).beside(burst)
        bursts.append(burst)
    return treatment, bursts


def bursts_left_out(search: FaultSearch) -> Iterator[Candidate]:
    """Maps without ranges that seem faulty together.

    A jump of a robot's odometry explains the ranges after it as well, and so may one length of
    all ranges of a radio at their other ends. While such a map is as good, the robots are
    withdrawn.
    """
    for _ in range(_MOST_ROUNDS):
        named = search.examination.bursts
        if not named:
            break
        before, contest, whole = search.treatment, search.contest, search.whole
        solved = contest.frame.subgraph.rows['ranges']
        groups = [
            replace(
                stretch(BURST, faulty.finding.subject, contest.data.original(
                    'ranges', solved[faulty.rows]), whole),
                size=(faulty.finding.value,), words=faulty.finding.text.partition(BURST_TIMES)[0])
            for faulty in named]
        without, bursts = joined(before, groups, whole)
        other = search.solved(without)
        if other is None:
            break
        count = len(other.data.left_out('ranges')) - len(contest.data.left_out('ranges'))
        candidate = Candidate(other, count)
        if not search.better(candidate):
            break
        unclear = _other_causes(search, candidate, groups, [faulty.jump for faulty in named])
        if unclear:
            search.withdraw(unclear)
            break
        yield candidate
        search.attempts.forget({fault.subject for fault in groups})
        for burst in bursts:
            held = replace(burst, held_ns=search.newest_ns)
            _, good = _last_faulty(
                held_back(held, search.newest_ns), search.unbiased, search.estimate)
            if good < _LEAST_GOOD:
                search.note(search.treatment.changed(burst, held))


def _other_causes(
    search: FaultSearch, candidate: Candidate, groups: list[Fault], jumps: list[int | None]
) -> tuple[tuple[str, str], ...]:
    """(robot or beacon, why) of sources that may be at fault instead of the ranges.

    Another cause is excluded where its map costs more than the candidate's, in which the groups are
    left out, by what honest ranges cannot explain.
    """
    causes = []
    for group, edge in zip(groups, jumps, strict=True):
        said = Treatment((group,)).findings(search.whole, 0)[0].text
        jump = cost_with_jump(search.contest, edge, search.config)
        if not search.better(replace(candidate, against=jump)):
            causes.append((group.subject, f'{said}, or its odometry jumped'))
        partner = _partner(group, search)
        if partner and not search.better(
                replace(candidate, against=cost_with_length(partner, search))):
            words = f'{said}, or those of radio {partner} are all too long or too short'
            causes += [(name, words) for name in (group.subject, partner)]
    return tuple(causes)


def _partner(group: Fault, search: FaultSearch) -> str:
    """The radio at the other ends of a group's ranges that has most of their misfit, or ''.

    Ranges between two radios do not say which of the two is at fault. A radio whose ranges are all
    too long by one length bends the map until ranges of its partners do not fit: these look like a
    burst of the partner, and the map without them fits well at a wrong place.
    """
    graph = search.unbiased
    ends, rows = range_ends(graph), group.rows(graph)
    own = ends.names.index(group.subject)
    other = np.where(ends.first[rows] == own, ends.second[rows], ends.first[rows])
    whitened = errors(graph, rows, search.estimate) * np.sqrt(graph.ranges.precision[rows])
    misfit = np.bincount(
        other, np.minimum(whitened**2, FAR_SIGMA**2), minlength=len(ends.names))
    most = int(np.argmax(misfit))
    return ends.names[most] if np.count_nonzero(other == most) >= _LEAST_EXPLAINED else ''


def cost_with_length(name: str, search: FaultSearch) -> float:
    """Robust cost of the best map with the best length off all ranges of a radio; inf = none."""
    measured = measured_length(search, search.treatment, name, search.contest)
    if measured is None:
        return np.inf
    fault, contest = measured
    other = search.solved(search.treatment.beside(replace(fault, factor=1.0)), contest)
    return np.inf if other is None else other.best.value


def cost_with_jump(contest: Contest, edge: int | None, config: SparserConfig) -> float:
    """Robust cost of the best map if one relative pose of the solved subgraph says nothing."""
    if edge is None:
        return contest.best.value
    subgraph = contest.frame.subgraph
    rel = subgraph.graph.relative_poses
    trust = np.ones(len(rel))
    trust[edge] = _OPENED
    opened = subgraph.graph.replaced(
        relative_poses=rel.replaced(tau=rel.tau * trust, kappa=rel.kappa * trust))
    return value_of(run(opened, config, subgraph.of(contest.best.whole)))


def measured_length(
    search: FaultSearch, believed: Treatment, name: str, contest: Contest, since_ns: int = 0
) -> tuple[Fault, Contest] | None:
    """The ranges of a radio with the length that they are too long by, and the map beside it.

    Those from a stamp on that `believed` lets count. None where there is no such length.
    """
    fault = Fault(BURST, name, (0.0,), ((since_ns, ONGOING),), known_ns=ONGOING)
    rows = np.setdiff1d(fault.rows(search.whole), np.concatenate([
        np.zeros(0, dtype=np.int64),
        *(fault.rows(search.whole) for fault in believed.of(BURST, MOVED, MOVED_AWAY))]))
    fault = replace(fault, factor=float(len(rows)))
    for _ in range(_LENGTH_ROUNDS):
        other = search.solved(believed.beside(fault), contest) if len(rows) else None
        if other is None:
            return None
        contest = other
        # Beside ranges that all of them together count as one, the map is free to follow.
        own = contest.data.original('ranges', contest.frame.subgraph.rows['ranges'])
        more = common_length(contest, np.flatnonzero(np.isin(own, rows)), fault.factor)
        if more is None:
            return None
        fault = replace(fault, size=(fault.size[0] + more[0],))
    return (fault, contest) if possible(rows, fault.size[0], contest.data.unbiased) else None


def common_length(contest: Contest, rows: Index, factor: float) -> tuple[float, float] | None:
    """(metres by which ranges are still too long, factor of their variance) at the best map.

    `rows` are ranges of the contest's subgraph, whose variance is `factor` times the claimed one
    there. None where the map leaves nothing to tell of the length.
    """
    subgraph, best = contest.frame.subgraph, contest.best
    graph, weights = subgraph.graph, best.result.stats.weights
    model = linear_model(graph, subgraph.of(best.whole), weights)
    scores = model.scores(length_columns(model, [rows]))
    information, bare = float(scores.information[0, 0]), float(scores.bare[0])
    if not information > DETERMINED * bare > 0:
        return None
    # With all of their weight they would say more of the length, and pull the map as much more.
    return -float(scores.score[0]) / information, 2.0 + factor * (bare / information - 1.0)


def lengths_of_bursts(search: FaultSearch) -> Iterator[Candidate]:
    """Maps in which what is left out counts again: one length explains most ranges of its group.

    Not where a beacon may have been moved: from one side that looks like a length.
    """
    for fault in search.treatment.of(BURST):
        if fault.open and fault.known_ns:
            before, fault = fault, _with_end(search, fault)
            yield from search.go_on(search.treatment.changed(before, fault))
            if fault not in search.treatment.faults:
                continue
        graph, rows = search.unbiased, fault.rows(search.whole)
        stamps = stamps_of(graph, graph.ranges)
        # What follows its end stays left out until the fault is over.
        rows = rows[stamps[rows] <= fault.end_ns]
        left_out = rows[stamps[rows] > fault.known_ns]
        key = 'length', fault.subject, fault.spans[0][0] if fault.spans else 0
        if not len(left_out) or len(rows) < max(
                GROWN * search.attempts.refused.get(key, 0), _LEAST_EXPLAINED):
            continue
        other = None
        if not may_have_moved(fault.subject, rows, graph, search.estimate):
            other = _with_length(search, fault, rows, left_out)
        if other is not None:
            yield Candidate(other)
        elif not fault.known_ns:
            # What a known length does not explain may be what follows the end of the fault.
            search.attempts.refused[key] = len(rows)


def _with_end(search: FaultSearch, before: Fault) -> Fault:
    """An open fault of a known length with the end that its ranges say.

    It ends where the map is best with the length off ranges until then. That it has gone on until
    then, and that it is over, are told where these exclude the maps in which it ended where it was
    last known to go on, and in which it still goes on.
    """
    rows = before.rows(search.whole)
    newest_ns = int(np.max(stamps_of(search.whole, search.whole.ranges)[rows], initial=0))
    if newest_ns <= before.known_ns:
        return before
    maps: dict[int, Contest] = {}
    for given_ns in (newest_ns, before.known_ns):
        end_ns = given_ns
        for _ in range(_END_ROUNDS):
            # With the variance that they claim: costs are compared.
            other = None if end_ns in maps else search.solved(search.treatment.changed(
                before, replace(before.until(end_ns), known_ns=end_ns, factor=1.0)))
            if other is None:
                break
            maps[end_ns] = other
            end_ns = max(before.known_ns, changed_after(
                rows, before.size[0], 0.0, search.unbiased, other.best.whole))
    costs = {end_ns: contest.best.value for end_ns, contest in maps.items()}
    if not {newest_ns, before.known_ns} <= costs.keys():
        return before
    end_ns = min(costs, key=lambda end_ns: costs[end_ns])
    if costs[before.known_ns] - costs[end_ns] <= search.flip_cost:
        end_ns = before.known_ns
    fault = replace(before, end_ns=end_ns)
    over = costs[newest_ns] - costs[end_ns] > search.flip_cost
    return replace(fault.until(end_ns), end_ns=end_ns) if over else fault


def _with_length(
    search: FaultSearch, before: Fault, rows: Index, left_out: Index
) -> Contest | None:
    """The contest with one length taken off all ranges of a group; None where that is wrong.

    A length that is new is first measured beside ranges that all of them together count as one.
    A known one must explain most of the ranges that have come since, or these stay left out.
    """
    contest, new = search.contest, not before.known_ns
    newest_ns = int(np.max(stamps_of(search.whole, search.whole.ranges)[rows]))
    fault = replace(before, known_ns=newest_ns)
    if new:
        fault = replace(fault, factor=float(len(rows)), size=(
            median_error(rows, search.unbiased, search.estimate),))
    graph = search.unbiased
    for _ in range(2 if new else 1):
        if not possible(rows, fault.size[0], graph):
            return None
        other = search.solved(search.treatment.changed(before, fault), contest)
        own = None if other is None else search.solved_rows(other, fault)
        more = None if other is None or own is None else common_length(other, own, fault.factor)
        if other is None or more is None:
            return None
        contest = other
        if not new and not explained(left_out, fault.size[0], graph, contest.best.whole):
            return None
        fault = replace(fault, size=(fault.size[0] + more[0],), factor=more[1])
    if not (possible(rows, fault.size[0], graph)
            and explained(rows, fault.size[0], graph, contest.best.whole)):
        return None
    return contest.under(search.store.treated(search.treatment.changed(before, fault)))


def changed_after(
    rows: Index, before_m: float, after_m: float, graph: Graph, estimate: Estimate
) -> int:
    """The stamp up to which ranges fit a map best with one length off, then with another."""
    rows, stamps = _in_order(rows, graph)
    error, root = errors(graph, rows, estimate), np.sqrt(graph.ranges.precision[rows])
    before, after = (
        np.minimum(((error + length) * root) ** 2, FAR_SIGMA**2) for length in (before_m, after_m))
    cost = np.cumsum(before - after)
    # Ranges of one stamp are on one side.
    last = np.append(stamps[1:] > stamps[:-1], True)
    at = np.append(-1, np.flatnonzero(last))
    best = int(at[np.argmin(np.append(0.0, cost[last]))])
    return int(stamps[best]) if best >= 0 else int(stamps[0]) - 1


def going_on(treatment: Treatment, whole: Graph, estimate: Estimate) -> Treatment:
    """A treatment for what sources held back measure between audits.

    Where a length is known it is taken off later ranges as well, until the fault seems to end at an
    `estimate` of all poses: there the faulty ranges outnumber the good ones by the most. What comes
    then is left out until an audit decides.
    """
    graph = treatment.unbiased(whole)
    for fault in treatment.of(BURST):
        if fault.open and fault.known_ns:
            rows, stamps = _in_order(fault.rows(graph), graph)
            more = np.append(0, np.cumsum(np.where(_faulty(fault, rows, graph, estimate), 1, -1)))
            count = len(rows) - int(np.argmax(more[::-1]))
            end_ns = int(stamps[count - 1]) if count else 0
            treatment = treatment.changed(fault, replace(
                fault, known_ns=max(fault.known_ns, end_ns)))
    return treatment
