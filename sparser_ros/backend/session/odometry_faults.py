"""Stretches in which odometry does not hold.

Wheels that slip and frozen sources give no sign of their own: ranges deny them, and robust kernels
doubt ranges. So the graph is also solved with odometry doubted: where that map is far better than
any that believes the odometry, what it rejects is left out, until the ranges since then fit like
honest ones, and all that the robot has measured meanwhile: nothing ties the poses there to each
other. The stretch after that is placed by its ranges, as after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from ...array_types import Index, Mask
from ...graph import Estimate, Graph, range_residuals, squared_residuals
from ...graph.ends import owners_of, stamps_of
from ...graph.thinning import RELATIVE
from ...solver.robust import KERNELS, squared_threshold
from ..integrity.doubts import FAR_SIGMA, TOLERATED_SHARE, exceeds, upper_share
from ..integrity.faults import BURST, FAILED, JUMP, Fault, ranges_of, stretch
from ..integrity.odometry_errors import SCALE, TURN
from .contest import WIDEST, Contest, robust_cost, run
from .fault_search import Candidate, FaultSearch
from .judgement import moved_robots
from .lasting_faults import far_fetched
from .range_faults import median_error
from .solution import Location
from .treatment import Treatment

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_CHANCE = 0.01
"""Probability, of ranges that fit as others do, of being taken for ranges that do not."""
_GOES_ON = 1e-4
"""Probability, of honest measurements, that a failure seems to have ended later: each audit tries
so many ends:"""
_MOST_ENDS = 6
"""Each takes a warm solve."""
TOGETHER_S = 10.0
"""What fails again within this time has failed all the while."""


def failures_left_out(search: FaultSearch, denied: bool) -> Iterator[Candidate]:
    """Where newest data do not fit, or odometry has jumped: the map without what all data deny.

    Or believe again what was left out, where that is no better after all. Not where odometry is
    wrong by a share or a rate: that explains it from the beginning on. `denied`: newest
    measurements contradict the map of the tracker.
    """
    examination = search.examination
    jumped = any(finding.kind == JUMP for finding in examination.findings)
    troubled = (denied or jumped or examination.bursts or search.unclear) and not any(
        finding.kind in (SCALE, TURN) and not far_fetched(
            finding.kind, finding.value / 100 if finding.kind == SCALE
            else float(np.radians(finding.value / 60)), search.integrity)
        for finding in examination.findings)
    if search.config.solver.robust.kernel == 'none' or not search.due(FAILED, bool(troubled)):
        return
    contest = _with_failures(search)
    if contest is None and search.treatment.of(FAILED):
        contest = _with_none(search)
    if contest is not None:
        search.attempts.retries[FAILED].succeeded()
        yield Candidate(contest)


def _believing(search: FaultSearch) -> tuple[Treatment, Contest | None]:
    """With ranges that are held back, which may be right, and the odometry wrong; without jumps,
    which may be parts of a failure."""
    treatment = search.treatment.but(JUMP).without(
        fault for fault in search.treatment.faults if fault.open)
    return treatment, search.contest if treatment == search.treatment else search.solved(treatment)


def _with_failures(search: FaultSearch) -> Contest | None:
    """The contest without odometry that fails, beside what is left out; None = there is none.

    The map with odometry doubted must fit the ranges. It must be better than the present one,
    and than those in which the ranges are wrong instead, by what a wrong one leads by chance.
    """
    config, start = search.config, search.estimate
    treatment, base = _believing(search)
    loose = None if base is None else loose_map(base, start, config)
    if base is None or loose is None:
        return None
    subgraph = base.frame.subgraph
    whole = subgraph.into(start, loose.estimate)
    edges = base.data.original(RELATIVE, subgraph.rows[RELATIVE][loose.broken])
    known = treatment.of(FAILED)
    failed = failures(search.whole, edges, known)
    suspects = [fault for fault in failed if fault not in known]
    limit = loose_cost(base, loose.estimate, config) + search.flip_cost
    if (not all(fits_since(fault, base.data.unbiased, whole) for fault in suspects)
            or limit > _cost(base, start, config)
            or limit > _cost_without(search, treatment, suspects, base)):
        return None
    contest = search.solved(treatment.but(FAILED).beside(*failed), base, whole)
    for fault in suspects:
        contest = None if contest is None else _with_end(search, fault, contest)
    return contest


def failures_that_go_on(search: FaultSearch, denied: bool) -> Iterator[Candidate]:
    """Maps in which odometry that is left out does not hold for longer.

    Of robots that are not located since; `denied`: or of which newest measurements may not fit.
    """
    newest = {fault.subject: fault for fault in search.treatment.of(FAILED)}
    located = {part.robot: part.location is Location.LOCATED
               for part in (search.judgement.segments if newest else ())}
    for name, fault in newest.items():
        wrong = denied or not located.get(name, True)
        if search.due(f'{FAILED} {name}', wrong):
            contest = _with_end(search, fault, search.contest)
            if contest is not search.contest:
                yield Candidate(contest)


def failures_of_partners(search: FaultSearch) -> None:
    """Remember whether the odometry of a robot may have failed instead of another one's.

    Two robots that range with each other alone do not tell which of them it was.
    """
    attempts, limit_m = search.attempts, search.config.backend.observability.alert_limit_m
    owners = owners_of(search.whole, search.whole.ranges)
    known, possible = attempts.failed_instead, {}
    for fault in search.treatment.of(FAILED):
        rows = measured_since(fault, search.whole, True)
        for number, partner in enumerate(search.whole.robots):
            if partner == fault.subject or not np.any(owners[:, rows] == number):
                continue
            moved = known.get((fault, partner), {})
            if search.due(_instead_of(fault, partner)):
                other = search.solved(search.treatment.changed(
                    fault, replace(fault, subject=partner)))
                if other is not None:
                    fits = _excess(other) <= _excess(search.contest) + search.flip_cost
                    moved = moved_robots(search.contest, other.best, limit_m) if fits else {}
            possible[fault, partner] = moved
    for fault, partner in known.keys() - possible.keys():
        # A failure that goes on is another one at every audit.
        attempts.retries.pop(_instead_of(fault, partner), None)
    attempts.failed_instead = possible


def _instead_of(fault: Fault, partner: str) -> str:
    """Name of a try."""
    return f'{partner} instead of {fault}'


def _excess(contest: Contest) -> float:
    """Chi-square above its expectation, of what a contest's map is measured by."""
    return contest.best.value - _measured(contest)


def _with_end(search: FaultSearch, fault: Fault, contest: Contest) -> Contest:
    """The contest with the end of a failure that its ranges tell, not before the present one.

    It is later where the map without what was measured until then costs less by more than that
    would by chance, if it were honest.
    """
    graph = search.whole
    rel, (begin, end) = graph.relative_poses, fault.spans[0]
    own = rel.odometry & (graph.poses.robot[rel.i] == graph.robots.index(fault.subject))
    ends = np.sort(graph.poses.stamp_ns[rel.j[own]])
    ends = np.append(begin, ends[ends > begin])
    first = last = int(np.searchsorted(ends, end))

    def until(number: int) -> Contest | None:
        return search.solved(contest.data.treatment.changed(
            fault, replace(fault, spans=((begin, int(ends[number])),))), contest)

    # The step after an interval is left out as well: what ends one step before shows this one.
    best = until(last - 1)
    for later in np.unique(np.geomspace(1, len(ends), _MOST_ENDS).astype(int)).tolist():
        other = until(first + later - 1) if first + later < len(ends) else None
        if best is None or other is None:
            continue
        fewer = _measured(best) - _measured(other)
        if best.best.value - other.best.value > chdtri(max(fewer, 1), _GOES_ON):
            best, last = other, first + later
    return contest if last == first else until(last) or contest


def _measured(contest: Contest) -> int:
    """Degrees of freedom of what a contest's map is measured by, but for odometry."""
    graph = contest.frame.subgraph.graph
    return sum(len(table) * kind.degrees_of_freedom(graph.dimension)
               for kind, table in graph.typed() if kind.name != RELATIVE)


def _with_none(search: FaultSearch) -> Contest | None:
    """The contest with all odometry, where that is better; None where it is not."""
    config, start = search.config, search.estimate
    treatment, _ = _believing(search)
    base = search.solved(treatment.but(FAILED))
    loose = None if base is None else loose_map(base, start, config)
    if base is None or loose is None:
        return base
    return base if _cost(base, base.best.whole, config) + search.flip_cost < loose_cost(
        base, loose.estimate, config) else None


def _cost_without(
    search: FaultSearch, treatment: Treatment, suspects: list[Fault], base: Contest
) -> float:
    """Least cost of maps in which the ranges are wrong where odometry seems to fail.

    From its begin on, or until its end; each for itself, or all of a robot by the same length.
    """
    graph, costs = base.data.unbiased, [np.inf]
    for lasts in (True, False):
        bursts = [
            stretch(BURST, fault.subject, rows, graph) for fault in suspects
            if len(rows := measured_since(fault, graph, lasts))]
        other = search.solved(treatment.beside(*bursts), base) if bursts else None
        if other is None:
            continue
        without = other.best.whole
        costs.append(_cost(base, without, search.config))
        other = search.solved(treatment.beside(*(replace(
            fault, known_ns=fault.end_ns,
            size=(median_error(fault.rows(graph), graph, without),)) for fault in bursts)), base,
            without)
        if other is not None:
            costs.append(_cost(other, other.best.whole, search.config))
    return min(costs)


def _cost(contest: Contest, whole: Estimate, config: SparserConfig) -> float:
    return loose_cost(contest, contest.frame.subgraph.of(whole), config)


@dataclass(frozen=True)
class LooseMap:
    """A map of the solved subgraph in which odometry is doubted like everything else."""

    estimate: Estimate
    broken: Mask
    """(k,): odometry that it rejects, among the relative poses of the subgraph."""


def _doubting(config: SparserConfig, mu_start: float = 1.0) -> SparserConfig:
    """The configuration with odometry doubted; the kernels begin `mu_start` times as wide."""
    robust = config.solver.robust
    return replace(config, solver=replace(config.solver, robust=replace(
        robust, odometry=True, gnc=True, mu_start=max(mu_start, robust.mu_start))))


def loose_map(contest: Contest, start: Estimate, config: SparserConfig) -> LooseMap | None:
    """Solve a contest's subgraph anew; None where that fails or believes all odometry."""
    subgraph = contest.frame.subgraph
    graph, own = subgraph.graph, subgraph.of(start)
    worst = float(np.max(squared_residuals(graph, own)['ranges'], initial=0.0))
    width = squared_threshold(config.solver.robust, 1)
    result = run(graph, _doubting(config, min(worst / width, WIDEST)), own)
    weights = result.stats.weights.get(RELATIVE)
    if not result.status.solved or result.estimate is None or weights is None:
        return None
    broken = graph.relative_poses.odometry & (weights < config.backend.rejected_weight)
    return LooseMap(result.estimate, broken) if np.any(broken) else None


def loose_cost(contest: Contest, estimate: Estimate, config: SparserConfig) -> float:
    """Robust cost of an estimate of a contest's subgraph, odometry doubted.

    To reject an edge costs as much as to reject a range for each of its degrees of freedom: a pose
    that is freed fits as many ranges as it has coordinates, right or wrong, and gains nothing.
    """
    graph, robust = contest.frame.subgraph.graph, config.solver.robust
    odometry = graph.relative_poses.odometry
    edges = graph.relative_poses.take(np.flatnonzero(odometry))
    rest = graph.replaced(relative_poses=graph.relative_poses.take(np.flatnonzero(~odometry)))
    squares = squared_residuals(graph.replaced(relative_poses=edges), estimate)[RELATIVE]
    freedom = next(
        kind.degrees_of_freedom(graph.dimension) for kind, _ in graph.typed()
        if kind.name == RELATIVE)
    width = np.full(len(squares), freedom * squared_threshold(robust, 1))
    return robust_cost(rest, estimate, config) + float(
        np.sum(KERNELS[robust.kernel].rho(squares, width)))


def failures(graph: Graph, edges: Index, known: Sequence[Fault] = ()) -> list[Fault]:
    """Known failures, and when these odometry `edges` of a whole graph are broken.

    What follows within TOGETHER_S is one failure, and nothing holds in between.
    """
    rel, stamps = graph.relative_poses, graph.poses.stamp_ns
    faults: list[Fault] = []
    for name, begin, end in sorted([(fault.subject, *fault.spans[0]) for fault in known] + [
            (graph.robots[graph.poses.robot[k]], int(stamps[k]), int(stamps[rel.j[edge]]))
            for edge, k in zip(edges.tolist(), rel.i[edges].tolist(), strict=True)]):
        before = faults[-1] if faults and faults[-1].subject == name else None
        if before is not None and begin <= before.spans[0][1] + int(TOGETHER_S * 1e9):
            begin, end = before.spans[0][0], max(end, before.spans[0][1])
            faults.pop()
        faults.append(Fault(FAILED, name, spans=((begin, end),)))
    return faults


def measured_since(fault: Fault, graph: Graph, lasts: bool) -> Index:
    """Ranges of a robot since its odometry failed; until the end of that unless it `lasts`."""
    rows = ranges_of(fault.subject, graph)
    stamps = stamps_of(graph, graph.ranges)[rows]
    return rows[(stamps > fault.spans[0][0]) & (lasts | (stamps < fault.spans[-1][1]))]


def fits_since(fault: Fault, graph: Graph, estimate: Estimate) -> bool:
    """Whether the ranges since a failure fit a map of the whole graph as others do."""
    far = np.abs(range_residuals(graph, estimate)) * np.sqrt(
        graph.ranges.precision) > FAR_SIGMA
    own = np.zeros(len(far), dtype=bool)
    own[measured_since(fault, graph, True)] = True
    usual = upper_share(int(far[~own].sum()), int(np.sum(~own)), _CHANCE)
    return not exceeds(
        int(far[own].sum()), int(own.sum()), max(usual, TOLERATED_SHARE), _CHANCE)
