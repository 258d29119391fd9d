"""The auditor: solves the graph from scratch beside the tracker and says what to believe.

An audit solves robustly from the tracker's map and from other placements that would fit as well;
where it matters (schedule.py), also from scratch. The least robust cost wins. What the
measurements determine in the winner is judged under its robust weights, and maps of other starts
that cost about as much make robots ambiguous. Whether an audit is due depends on counts of data
alone, so that a replay gives the same result every time.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Estimate, Increment
from ...graph.ends import stamps_of
from ...graph.estimate import at_origin
from ...graph.finding import Finding
from ...graph.thinning import Renumbering
from ...solver.result import SolveStats, SolveStatus
from ...solver.trust_region import Observer
from ..integrity.noise import Noise, variance_by
from ..integrity.radio_errors import RadioErrors
from .audited_map import Bound, SolvedMap, bound_of
from .contest import (
    SAME_CHI_SQUARE,
    SAME_COST,
    Contest,
    SearchEnd,
    has_left,
    is_worse,
    run,
)
from .continuation import continued, placed, with_tail
from .exchange_trials import ExchangeTrials
from .fault_search import Attempts, FaultSearch
from .fault_trials import holding_back, look_for_faults, noted, weighted_by_noise
from .frame import Frame, at_heights, frame_of, initial_pose
from .graph_store import FAILURES, GraphStore, culprits, quarantine_findings, tracked_of
from .judgement import Judgement, against_rivals, determined, judged, open_rivals
from .lasting_faults import solved_sizes
from .rulings import Rulings
from .schedule import GrowthClock, Schedule
from .solution import TrackedMap, Verdict, VerdictKind
from .treatment import Treated, Treatment

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_OUTGROWN = 2.0
"""Growth of the measurements during a start from scratch from which its map says too little of
them: the rest is as large as what it solved."""


class Auditor:
    """Holds the graph and the outcome of the last audit.

    `bounded`: solves from scratch end in `backend.audit.limit_s` of wall time; the result then
    depends on the machine.
    """

    def __init__(self, config: SparserConfig, *, bounded: bool = False) -> None:
        self.config = config
        self._bounded = bounded
        self._store = GraphStore(config.dimension)
        self._pose = initial_pose(config.backend, config.dimension)
        self._map: TrackedMap | None = None
        """The map of the last audit: where the next one starts."""
        self._rivals: list[TrackedMap] = []
        """Those that fitted about as well, until one that starts from them no longer does: with new
        data nothing else may lead there."""
        self._gauge_name: str | None = None
        self._schedule = Schedule()
        self._attempts = Attempts()
        self._growth = GrowthClock(_OUTGROWN)
        self._trials = 0
        self.scratch_s = 0.0
        """Wall seconds of the starts from scratch of the last audit."""
        self._search_s = math.inf
        """Wall seconds that those of this audit may take together."""
        self.solved: SolvedMap | None = None
        """The solved part of the last audit: what a bound can be proved of."""
        self.bound: Bound | None = None
        """What is proved of the map of an audit; None = nothing yet."""
        self._proved: SolvedMap | None = None
        """The newest map for which that was tried."""
        self.postponed = ''
        """Why the last audit would have started from scratch if that had been allowed."""

    @property
    def sequence(self) -> int:
        """Newest increment included; -1 = none."""
        return self._store.sequence

    @property
    def audited_sequence(self) -> int:
        """Newest increment of the last audit, also of one that could not tell; -1 = none."""
        return self._schedule.sequence

    @property
    def has_news(self) -> bool:
        """Whether measurements came since the last start from scratch."""
        return self._schedule.has_news(self._store.n_measurements)

    def add(self, increment: Increment, *, first: int | None = None) -> bool:
        """Append an increment (or a merged one from `first` on); False if already included."""
        before = self._store.unlevelled
        added = self._store.add(increment, first=first)
        if self._store.unlevelled != before:
            # Faults and places found so far rest on a vertical that was none.
            self._begin_anew(self._store.treatment)
            self._schedule.forget_searches()
        self._growth.note(self._store.n_measurements, time.monotonic())
        return added

    def caught_up(self, verdict: Verdict) -> Verdict:
        """The last verdict with its map continued to all that was added since.

        What it says of robots is of the audit's data.
        """
        own = self._map
        frame = self._frame(self._store.now) if verdict.kind is VerdictKind.BETTER_MAP else None
        if own is None or frame is None or own.sequence == self._store.sequence:
            return verdict
        estimate = with_tail(
            frame.graph, frame.segments, frame.among(verdict.placed), verdict.estimate,
            self.config, frame.anchored)
        self._map = replace(own, sequence=self._store.sequence, estimate=estimate)
        return replace(verdict, estimate=estimate)

    def thin(self, increment: Increment, to: Renumbering) -> None:
        """Go on with the thinned graph, `increment`, in place of the sum of all increments.

        Counts at the last audit are those that the thinned graph had then.
        """
        before, self._store = self._store, self._store.thinned(increment, to)
        share = self._store.n_measurements / max(before.n_measurements, 1)
        self._schedule.thinned(share, self._store, before.sequence, to)
        self._attempts.thinned(share)
        self._growth.thinned(share)
        self._map = None if self._map is None else tracked_of(self._map, to)
        self._rivals = [tracked_of(rival, to) for rival in self._rivals]
        self.solved = self.bound = self._proved = None

    def rule(self, rulings: Rulings) -> None:
        """Leave out, or trust less, what the operator says, from the next audit on.

        Faults are looked for anew: those found so far rest on data that now count otherwise.
        """
        if rulings != self._store.treatment.rulings:
            self._begin_anew(replace(self._store.treatment, rulings=rulings))

    def calibrate(self, errors: RadioErrors) -> None:
        """Take these errors of radios off their ranges, and no others, from now on.

        Faults are looked for anew: their lengths were measured otherwise.
        """
        if errors != self.calibrated:
            self._begin_anew(replace(self._store.treatment, calibrated=errors))

    def _begin_anew(self, treatment: Treatment) -> None:
        self._store.treat(replace(treatment, faults=(), noise=Noise()))
        self._attempts = Attempts()

    @property
    def calibrated(self) -> RadioErrors:
        """What a calibration takes off the ranges of radios."""
        return self._store.treatment.calibrated

    @property
    def retold(self) -> str:
        """What else than data is new since the last audit, or ''."""
        return self._schedule.retold(self._store)

    def due(self, doubt: str = '') -> str:
        """Why an audit is due, or ''; `doubt` is the tracker's."""
        return self._schedule.due(self._store, self.config.backend.audit, doubt)

    def audit(
        self, tracked: TrackedMap | None = None, *, request: int = -1,
        scratch: bool | None = None, preliminary: Callable[[Verdict], None] | None = None,
    ) -> Verdict:
        """Audit the graph as it is now; `tracked` is the tracker's map of it or of a part.

        `scratch` allows (None), forbids (False) or forces (True) starts from scratch; asking
        (`request`) forces them. Before these, `preliminary` gets the verdict that holds without
        them.
        """
        begin = time.perf_counter()
        self.scratch_s, self.postponed = 0.0, ''
        self._search_s = self._time_to_search(request >= 0)
        before = self._schedule.begin(self._store)
        treatment, contest, error = self._solvable(self._data_treated(tracked), before, tracked)
        if contest is None:
            self._store.treat(treatment)
            if error:
                # Another try may succeed.
                self._schedule.sequence = before
            return self._completed(self._cannot_tell(error), request, begin)
        contest, judgement = self._with_faults(
            contest, denied=bool(tracked is not None and tracked.doubt), scratch=scratch)
        reason = self._schedule.search(
            judgement, self._store, '' if tracked is None else tracked.doubt,
            lambda: determined(contest, self.config), self.config.backend.audit,
            eager=self._bounded)
        self.postponed = reason if scratch is False and request < 0 else ''
        due = request >= 0 or scratch or (reason and scratch is None)
        if not due or not contest.can_start_from_scratch:
            self._schedule.kept(judgement)
            return self._completed(self._verdict(contest, tracked, judgement), request, begin)
        if preliminary is not None:
            preliminary(replace(self._completed(
                self._verdict(contest, tracked, judgement), -1, begin), final=False))
        searched, judgement, end = self._from_scratch(contest, judgement)
        self.postponed = self._schedule.searched(judgement, self._store, end)
        if end is SearchEnd.FAILED:
            judgement = replace(judgement, findings=(*judgement.findings, Finding(
                'search_failed', 'map', 'starts from scratch fail, and no place is confirmed: '
                f'{searched.candidates[-1].result.message}')))
        return self._completed(self._verdict(searched, tracked, judgement), request, begin)

    def _completed(self, verdict: Verdict, request: int, begin_s: float) -> Verdict:
        """A verdict with the treatment of its map, and what it answers."""
        self._schedule.taken_off(self._store)
        treatment = self._store.treatment
        verdict = noted(
            verdict, treatment, self._store.whole, self.config.backend.integrity.memory_s)
        return replace(
            verdict, request=request, final=not self.postponed,
            findings=verdict.findings + quarantine_findings(
                dict(treatment.quarantined), self._store.subjects()),
            seconds=time.perf_counter() - begin_s)

    def _data_treated(self, tracked: TrackedMap | None) -> Treatment:
        """The treatment in force, for data that came since the last audit."""
        treatment, whole = self._store.treatment, self._store.whole
        if tracked is not None and tracked.quarantined:
            treatment = treatment.excluding(
                {**dict(treatment.quarantined), **dict(tracked.quarantined)})
        newest_ns = int(np.max(stamps_of(whole, whole.ranges), initial=0))
        return holding_back(treatment, newest_ns)

    def _solvable(
        self, treatment: Treatment, before: int, tracked: TrackedMap | None
    ) -> tuple[Treatment, Contest | None, str]:
        """A treatment under which a warm start succeeds, its contest, or None and why not.

        Increments after `before` with which it fails are left out.
        """
        contest, error = self._attempt(treatment, tracked)
        if contest is None and error:
            faulty = culprits(
                self._store.sequences(before), dict(treatment.quarantined),
                lambda excluded: self._works(treatment.excluding(excluded), tracked))
            treatment = treatment.excluding(faulty or {})
            contest, error = self._attempt(treatment, tracked)
        return treatment, contest, error

    def _with_faults(
        self, contest: Contest, *, denied: bool, scratch: bool | None
    ) -> tuple[Contest, Judgement]:
        """The best map beside what is at fault, which is in force from then on; its judgement."""
        search = FaultSearch(self._store, contest, self._solved, self._attempts, self.config)
        elsewhere = None if scratch is False else lambda other: self._search(other)[0]
        look_for_faults(search, denied=denied, elsewhere=elsewhere)
        unclear = search.unclear
        sizes = partial(solved_sizes, elsewhere=elsewhere, of_ranges=False)
        # Beside other noise, a fault may be likely that was not.
        search.run(sizes, weighted_by_noise, sizes)
        self._store.treat(search.treatment)
        return search.contest, search.judgement.with_unclear(unclear)

    def _attempt(
        self, treatment: Treatment, tracked: TrackedMap | None
    ) -> tuple[Contest | None, str]:
        """The candidates of a warm start, or None and why not ('' = nothing to place)."""
        try:
            data = self._store.treated(treatment)
            frame = self._frame(data)
            if frame is None:
                return None, ''
            contest = Contest(frame, self._guess(frame, tracked), self._pose, self.config, data, [
                (f'rival {number} of the last audit', self._guess(frame, rival))
                for number, rival in enumerate(self._rivals) if rival.anchored == frame.anchored])
            contest.from_present(self._schedule.rows)
            if tracked is not None and has_left(
                    frame, tracked, self._map, partial(self._store.rows_until, data=data),
                    self.config):
                contest.from_hypothesis('the last audit', self._guess(frame, None))
        except FAILURES as error:
            return None, f'{type(error).__name__}: {error}'
        if not np.isfinite(contest.best.value):
            return None, contest.best.result.message
        return contest, ''

    def _solved(
        self, treatment: Treatment, contest: Contest, start: Estimate, anew: Collection[str] = ()
    ) -> Contest | None:
        """A warm start for the graph under a treatment, from a map of an earlier contest; None
        where it fails.

        Robots `anew` start where their ranges place them among the others.
        """
        data = self._store.treated(treatment)
        frame = self._frame(data)
        if frame is None:
            return None
        before = contest.frame
        # Segments of which odometry has been left out have other ends now.
        mask = np.concatenate([
            before.mask[before.segments.of_pose[frame.segments.first]],
            before.mask[len(before.segments):]])
        apart = [before.graph.robots.index(name) for name in anew]
        mask[:len(frame.segments)] &= ~np.isin(frame.segments.robot, apart)
        known = TrackedMap(
            self._store.sequence, start, frame.placed(mask), contest.frame.anchored)
        other = Contest(frame, self._guess(frame, known), self._pose, self.config, data,
                        contest.unexcluded)
        other.from_present((len(frame.graph.ranges), len(frame.graph.relative_poses)))
        return other if np.isfinite(other.best.value) else None

    def _from_scratch(
        self, contest: Contest, before: Judgement
    ) -> tuple[Contest, Judgement, SearchEnd]:
        """Add starts from scratch, also with radios exchanged, and judge what is best then."""
        better, end = self._search(contest)
        if better:
            after = judged(contest, self.config)
        else:
            after = against_rivals(before, contest, self.config)
        exchanged = None
        if end not in (SearchEnd.LIMIT, SearchEnd.FAILED):
            exchanged = ExchangeTrials(
                self._store, self._attempts, self.config, self._solved,
                lambda other: self._search(other)[1], lambda: self.scratch_s < self._search_s,
            ).best(contest, after)
        if exchanged is None:
            return contest, after, end
        self._begin_anew(exchanged.data.treatment)
        return *self._with_faults(exchanged, denied=False, scratch=False), SearchEnd.TRIED

    def _time_to_search(self, asked: bool) -> float:
        """Wall seconds of all starts from scratch of an audit together.

        In the running node they end before the graph has outgrown them: a map of the graph as it
        was then would come too late.
        """
        audit = self.config.backend.audit
        if not self._bounded or audit.limit_s <= 0:
            return math.inf
        growing_s = max(self._growth.seconds(time.monotonic()), audit.period_s)
        return audit.limit_s if asked else min(audit.limit_s, growing_s)

    def _search(self, contest: Contest) -> tuple[bool, SearchEnd]:
        """Whether starts from scratch are better than the best candidate so far."""
        begin, best, rivals = time.perf_counter(), contest.best, len(contest.candidates)
        audit, end = self.config.backend.audit, SearchEnd.LIMIT
        left_s = self._search_s - self.scratch_s
        if left_s > 0:
            end = contest.from_scratch(audit.starts, self._trials, left_s)
        if end is SearchEnd.LIMIT and self._search_s >= audit.limit_s:
            end = SearchEnd.TRIED
        self._trials += len(contest.candidates) - rivals
        self.scratch_s += time.perf_counter() - begin
        return contest.best is not best, end

    def prove(self, observer: Observer | None = None) -> bool:
        """Bound the map of the last audit; False where that was done, or there is none.

        `observer` is called at every step on the way; what it raises ends the work.
        """
        solved = self.solved
        if solved is None or solved is self._proved:
            return False
        limit_s = self.config.backend.audit.limit_s if self._bounded else 0.0
        with contextlib.suppress(*FAILURES):
            self.bound = bound_of(
                solved, self.config.solver.robust.weight_floor, limit_s, observer) or self.bound
        self._proved = solved
        return True

    def _works(self, treatment: Treatment, tracked: TrackedMap | None) -> bool:
        """Whether a warm solve succeeds under a treatment."""
        try:
            frame = self._frame(self._store.treated(treatment))
            if frame is None:
                return True
            graph = frame.subgraph.graph
            guess = frame.subgraph.of(self._guess(frame, tracked))
            return run(graph, self.config, guess).status.solved
        except FAILURES:
            return False

    def _frame(self, data: Treated) -> Frame | None:
        frame = frame_of(data.graph, self.config, self._gauge_name)
        if frame is not None:
            self._gauge_name = frame.gauge_name
        return frame

    def _guess(self, frame: Frame, tracked: TrackedMap | None) -> Estimate:
        """A start in map: known values, odometry, and new variables placed among the known."""
        known_map = self._map if tracked is None or not tracked.placed else tracked
        segments = frame.segments
        known = np.zeros(len(frame.mask), dtype=bool)
        if known_map is not None and known_map.anchored == frame.anchored:
            known = frame.among(known_map.placed)
        guess = continued(frame.graph, segments, None) if known_map is None else with_tail(
            frame.graph, segments, known, known_map.estimate, self.config, frame.anchored)
        if frame.gauge is not None and not known[frame.gauge]:
            rows = segments.of_pose == frame.gauge
            own = at_origin(guess, int(segments.first[frame.gauge]), self._pose, frame.graph)
            own = at_heights(own, frame.graph, rows)
            guess = Estimate(
                np.where(rows[:, None, None], own.rotation, guess.rotation),
                np.where(rows[:, None], own.translation, guess.translation), guess.landmarks)
            known[frame.gauge] = True
        known[len(segments):] |= frame.graph.landmarks.fixed
        floor = self.config.backend.observability.range_sigma_floor_m
        return placed(frame.graph, segments, guess, known | ~frame.mask, floor)[0]

    def _kind(
        self, contest: Contest, tracked: TrackedMap | None, placed: tuple[int, ...]
    ) -> VerdictKind:
        new = tracked is None or not set(placed) <= set(tracked.placed)
        best, present = contest.best, contest.candidates[0]
        better = present.value - best.value > min(
            max(SAME_COST * best.value, SAME_CHI_SQUARE),
            self.config.backend.observability.flip_cost)
        if new or better or is_worse(
                contest.frame, tracked, best.whole,
                partial(self._store.rows_until, data=contest.data), self.config):
            return VerdictKind.BETTER_MAP
        return VerdictKind.AGREE

    def _verdict(
        self, contest: Contest, tracked: TrackedMap | None, judgement: Judgement
    ) -> Verdict:
        """The verdict on the best candidate; from now on the auditor's own map."""
        best, frame = contest.best, contest.frame
        restrained = self._schedule.restrained(
            judgement.beside_others(self._attempts.others),
            measured=contest.can_start_from_scratch)
        placed = frame.placed(frame.mask)
        kind = self._kind(contest, tracked, placed)
        self._map, *self._rivals = (
            TrackedMap(self._store.sequence, candidate.whole, placed, frame.anchored)
            for candidate in (best, *open_rivals(contest, self.config)))
        own = frame.subgraph
        self.solved = SolvedMap(
            self._store.sequence, self._store.newest_stamp_ns, own.graph, own.of(best.whole),
            best.result.stats.weights, contest.data.treatment.radio_errors)
        self._schedule.end(self._store, frame.graph, restrained)
        stats = best.result.stats
        noise = self._attempts.noises[-1][1] if self._attempts.noises else Noise()
        variance = {}
        with contextlib.suppress(*FAILURES):
            variance = variance_by(
                noise.beside(contest.data.treatment.noise), own.graph, own.of(best.whole),
                stats.weights)
        relaxed = [bound for candidate in contest.candidates if candidate.result.status.solved
                   and (bound := candidate.result.stats.cost_relaxed) is not None]
        if stats.cost_relaxed is None and relaxed:
            stats = replace(stats, cost_relaxed=relaxed[-1])
        return Verdict(
            kind=kind, sequence=self._store.sequence, request=-1,
            newest_stamp_ns=self._store.newest_stamp_ns, anchored=frame.anchored,
            gauge_name=frame.gauge_name, estimate=best.whole, placed=placed,
            segments=restrained.segments, landmark_located=restrained.landmark_located,
            status=best.result.status, message=best.result.message, stats=stats,
            withheld=restrained.withheld, findings=restrained.findings, unclear=restrained.unclear,
            undetected=restrained.undetected, noise=noise, variance=variance)

    def _cannot_tell(self, error: str) -> Verdict:
        graph, d = self._store.graph, self.config.dimension
        message = error or (
            'nothing to place in map yet: odometry of the gauge robot, or data that tie a robot to '
            'known beacons, are missing')
        return Verdict(
            kind=VerdictKind.CANNOT_TELL, sequence=self._store.sequence, request=-1,
            newest_stamp_ns=self._store.newest_stamp_ns, anchored=False, gauge_name=None,
            estimate=Estimate(np.zeros((0, d, d)), np.zeros((0, d)), np.zeros((0, d))),
            placed=(), segments=(), landmark_located=np.zeros(graph.n_landmarks, dtype=bool),
            status=SolveStatus.FAILED, message=message,
            stats=SolveStats(d, 'none', self.config.solver.formulation, 'cpu', 'none'))
