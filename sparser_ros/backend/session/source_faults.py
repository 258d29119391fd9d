"""Sources at fault: what of them is left out of an auditor's graph, or has less weight there.

Ranges that are faulty together are left out as a group (range_doubts.py), or count with the length
taken off that they are all too long by (common_length.py). What a radio errs by all the time is
taken off by name (radio_faults.py). Odometry: odometry_faults.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from ...graph import Graph
from ...graph.finding import Finding
from ...graph.thinning import Renumbering
from ..integrity.doubts import FAR_SIGMA
from ..integrity.examine import LASTING_ODOMETRY
from ..integrity.known_beacons import frame_reason, known_beacons
from ..integrity.odometry_errors import SCALE
from .common_length import common_length
from .contest import Contest
from .graph_store import GraphStore
from .judgement import Judgement
from .length_trial import LengthTrial
from .misplaced_beacons import denied, findings_of, located_places, still_denied
from .move_trial import MoveTrial, located_segments
from .moved_beacons import may_have_moved, move_of, stands_still
from .odometry_faults import Again, OdometryFaults, Search, far_fetched
from .odometry_trial import OdometryTrial
from .other_causes import other_causes
from .radio_errors import RadioErrors
from .radio_faults import RadioFaults
from .range_corrections import RangeCorrections
from .range_doubts import (
    LEAST_EXPLAINED,
    MOVED,
    RangeDoubt,
    closed,
    corrections_of,
    explained,
    faulty_together,
    finding_of,
    grown,
    joined,
    median_error,
    of_sources,
    possible,
    revived,
    rows_of,
)
from .retry import Retry
from .solution import Location
from .verdict import Verdict

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_MOST_ROUNDS = 3
"""Rounds of one audit that leave faulty ranges out, each with a warm solve."""
_GROWN = 1.5
"""Growth of a group that no one length explained from which one is tried again."""


class SourceFaults:
    """The faults known so far; what they leave out is set in the graph's store."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._doubts: list[RangeDoubt] = []
        self._odometry = OdometryFaults(store)
        self._retry = Retry()
        self._radios = RadioFaults(store)
        self._misplaced: frozenset[str] = frozenset()
        """Known beacons that stand elsewhere: their places are taken for unknown."""
        self._places: dict[str, Array] = {}
        """Where the last audit had them."""

    def thinned(self, store: GraphStore, to: Renumbering) -> None:
        """Go on with the store of a thinned graph."""
        self._store = store
        self._odometry.thinned(store, to)
        self._radios.thinned(store, to)
        self._doubt([
            replace(one, rows=np.sort(to.measurements('ranges', one.rows)),
                    corrected=np.sort(to.measurements('ranges', one.corrected)))
            for one in self._doubts])

    def forget(self) -> None:
        """Everything counts again as it came."""
        self._odometry.forget()
        self._radios.forget()
        self._misplaced, self._places = frozenset(), {}
        self._doubt([])

    @property
    def calibrated(self) -> RadioErrors:
        """What a calibration takes off the ranges of radios."""
        return self._radios.calibrated

    def calibrate(self, errors: RadioErrors) -> None:
        """Take this off; faults are looked for anew: their lengths were measured otherwise."""
        self._radios.calibrated = errors
        self.forget()

    def hold_back(self) -> None:
        """Leave out what sources whose fault goes on have measured since."""
        self._doubt([grown(one, self._store.whole) for one in self._doubts])

    def treated(
        self, contest: Contest, judge: Callable[[Contest], Judgement],
        again: Again, config: SparserConfig, *, denied: bool = False,
    ) -> tuple[Contest, Judgement]:
        """The contest, or one `again` for the graph without what is at fault; its judgement.

        `denied`: newest measurements contradict the map of the tracker.
        """
        judgement, doubting = judge(contest), config.backend.integrity.doubt_ranges
        kept = revived([
            closed(one, self._store.unbiased, contest.best.whole, _placed(one, judgement))
            for one in self._doubts], self._store.unbiased, contest.best.whole)
        graph = self._store.whole
        self._misplaced = still_denied(
            self._misplaced, located_places(self._misplaced, contest, graph), graph,
            config.backend.integrity.bias_floor_m) if doubting else frozenset()
        changed = not doubting and self._radios.forget()
        if self._doubt(kept if doubting else []) or changed:
            other = again(contest, contest.best.whole)
            if other is not None:
                contest, judgement = other, judge(other)
        if doubting:
            contest, judgement = self._radios.treated(
                contest, judgement, judge, lambda: self._doubts, self._doubt, again, config)
            contest, judgement = self._without_ranges(contest, judgement, judge, again, config)
            contest, judgement = self._with_lengths(contest, judgement, judge, again, config)
            contest, judgement = self._with_moves(contest, judgement, judge, again, config)
            contest, judgement = self._without_places(contest, judgement, judge, again, config)
            judgement = self._with_frame(contest, judgement, again, config)
        if config.backend.integrity.doubt_odometry:
            contest, judgement = self._without_odometry(
                contest, judgement, judge, again, config, denied)
        self._places = located_places(self._misplaced, contest, graph)
        return contest, judgement

    def solved_for(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, search: Search | None, config: SparserConfig,
    ) -> tuple[Contest, Judgement]:
        """The contest with the sizes of faults of odometry that have become likely."""
        if not config.backend.integrity.solve_odometry:
            return contest, judgement
        return self._odometry.solved_for(
            contest, judgement, judge, again, search, config.backend.integrity)

    def noted(self, verdict: Verdict, graph: Graph, config: IntegrityConfig) -> Verdict:
        """A verdict with what is left out, in rows and in words.

        `graph` is the sum of all increments. Ranges left out are mentioned for `memory_s` after
        their end; a robot whose fault was not seen to end is withdrawn for `window_s`.
        """
        stamps = graph.poses.stamp_ns
        newest = float(np.ptp(stamps)) * 1e-9 if len(stamps) else 0.0
        ranges = [one for one in self._doubts if newest - one.end_s <= config.memory_s
                  or one.finding.subject in self._store.released]
        groups = {(one.finding.kind, one.finding.subject): finding_of(one, graph) for one in ranges}
        found = tuple(
            one for one in verdict.findings if (one.kind, one.subject) not in groups)
        said = {(one.kind, one.subject) for one in found}
        lasting = [*findings_of(self._places, graph),
                   *self._radios.findings(newest - config.memory_s), *groups.values(),
                   *self._odometry.findings(newest - config.memory_s)]
        return replace(
            verdict, odometry_errors=self._store.odometry_errors, doubted_ranges=self._left_out,
            left_out_odometry=self._store.left_out_odometry,
            corrections=self._corrections,
            held_sources=tuple(sorted({
                one.finding.subject for one in self._doubts if one.open})),
            held_lengths={
                one.finding.subject: (one.length_m, one.factor)
                for one in self._doubts if one.open and len(one.corrected)},
            findings=tuple(
                one for one in lasting if (one.kind, one.subject) not in said) + found,
            gate_robots=verdict.gate_robots + tuple(
                (one.finding.subject, one.finding.text) for one in self._doubts
                if one.unresolved and newest - one.end_s <= config.window_s))

    def _without_odometry(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, config: SparserConfig, denied: bool,
    ) -> tuple[Contest, Judgement]:
        """Where newest data do not fit: leave out odometry that all of them deny.

        Or believe again what was left out, where that is no better after all. Not where odometry is
        wrong by a share or a rate: that explains it from the beginning on.
        """
        troubled = (denied or judgement.bursts or judgement.gate_robots) and not any(
            one.kind in LASTING_ODOMETRY and not far_fetched(
                one.kind, _size_of(one), config.backend.integrity)
            for one in judgement.findings)
        if config.solver.robust.kernel == 'none' or not self._retry.due(
                bool(troubled), self._store.n_measurements):
            return contest, judgement
        before, known = self._doubts, self._odometry.all_failed
        # What is held back may be right, and the odometry wrong.
        believed = [one for one in before if not one.open]
        trial = OdometryTrial(
            self._store, self._odometry, self._doubt, believed, again, config)
        other = trial.with_failures(contest) or (trial.with_none(contest) if known else None)
        if other is not None:
            self._retry.succeeded()
            return other, judge(other)
        self._odometry.leave_out(known)
        self._doubt(before)
        return contest, judgement

    def _without_ranges(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, config: SparserConfig,
    ) -> tuple[Contest, Judgement]:
        """Where the map without faulty ranges does not fit so much better, none is left out.

        A jump of a robot's odometry explains the ranges after it as well, and so may one length of
        all ranges of a radio at their other ends. While such a map is as good, the robots are
        withdrawn. None is left out either where odometry does not
        hold what it claims.
        """
        for _ in range(_MOST_ROUNDS):
            if not judgement.bursts:
                break
            before, own = self._doubts, contest.frame.subgraph.rows['ranges']
            groups = [
                RangeDoubt(one.finding, self._store.original('ranges', own[one.rows]), one.end_s)
                for one in judgement.bursts]
            without = joined(before, groups)
            self._doubt(without)
            other = again(contest, contest.best.whole)
            left_out = len(rows_of(self._doubts)) - len(rows_of(before))
            flip_cost = config.backend.observability.flip_cost
            if other is None or not faulty_together(
                    contest.best.value - other.best.value, left_out, flip_cost):
                self._doubt(before)
                break
            trial = LengthTrial(self._store, self._doubt, before, again)
            unclear = other_causes(
                contest, other.best.value, left_out, judgement.bursts, groups, trial, config)
            self._doubt(before if unclear else without)
            if unclear:
                return contest, judgement.with_unclear(
                    replace(judgement, unclear=judgement.unclear + unclear))
            after = judge(other)
            subjects = {one.finding.subject for one in judgement.bursts}
            if self._noisy(subjects, after, config.backend.integrity.variance_floor):
                self._doubt(before)
                return contest, judgement.with_unclear(
                    replace(judgement, no_bursts=judgement.no_bursts | subjects))
            contest, judgement = other, after
        return contest, judgement

    def _with_lengths(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, config: SparserConfig,
    ) -> tuple[Contest, Judgement]:
        """What is left out counts again where one length explains most ranges of its group.

        Not where odometry does not hold what it claims: it bends the map to any length. Nor where
        a beacon may have been moved: from one side that looks like a length.
        """
        floor = config.backend.integrity.variance_floor
        for number, one in enumerate(self._doubts):
            if (not len(one.left_out)
                    or len(one.rows) < max(_GROWN * one.refused, LEAST_EXPLAINED)
                    or self._noisy({one.finding.subject}, judgement, floor)):
                continue
            before, other = self._doubts, None
            if not may_have_moved(one, self._store.unbiased, contest.best.whole):
                other = self._with_length(number, contest, again)
            if other is None:
                # What a known length does not explain may be what follows the end of the fault.
                kept = one if len(one.corrected) else replace(one, refused=len(one.rows))
                self._doubt([*before[:number], kept, *before[number + 1:]])
            else:
                contest, judgement = other, judge(other)
        return contest, judgement

    def _with_length(
        self, number: int, contest: Contest, again: Again
    ) -> Contest | None:
        """The contest with one length taken off all ranges of a group; None where that is wrong.

        A length that is new is first measured beside ranges that all of them together count as one.
        A known one must explain most of the ranges that have come since, or these stay left out.
        """
        before = self._doubts[number]
        one, new = replace(before, corrected=before.rows), not len(before.corrected)
        if new:
            one = replace(one, factor=float(len(one.rows)), length_m=median_error(
                one, self._store.unbiased, contest.best.whole))
        for _ in range(2 if new else 1):
            if not possible(one, self._store.unbiased):
                return None
            self._doubt([*self._doubts[:number], one, *self._doubts[number + 1:]])
            other = again(contest, contest.best.whole)
            found = None if other is None else common_length(
                other, self._solved_rows(other, one), one.factor)
            if other is None or found is None:
                return None
            contest = other
            if not new and not explained(
                    replace(one, rows=before.left_out), self._store.unbiased, other.best.whole):
                return None
            one = replace(one, length_m=one.length_m + found[0], factor=found[1])
        if not (possible(one, self._store.unbiased) and explained(
                one, self._store.unbiased, contest.best.whole)):
            return None
        self._doubt([*self._doubts[:number], one, *self._doubts[number + 1:]])
        return contest

    def _with_moves(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, config: SparserConfig,
    ) -> tuple[Contest, Judgement]:
        """Where another position of a beacon explains a group, the ranges before it are left out.

        Where those of a known beacon are needed to place the map or a robot, it keeps its place and
        the ranges of the group stay left out: only the words are new.
        """
        graph, flip_cost = self._store.unbiased, config.backend.observability.flip_cost
        known = {graph.landmarks.names[number] for number in known_beacons(graph)}
        for one in list(self._doubts):
            if (not one.open or len(one.rows) < _GROWN * one.unmoved
                    or self._noisy({one.finding.subject}, judgement,
                                   config.backend.integrity.variance_floor)):
                continue
            move = move_of(one, graph, contest.best.whole, flip_cost)
            number, name = self._doubts.index(one), one.finding.subject
            earlier, later = self._doubts[:number], self._doubts[number + 1:]
            tried = replace(one, unmoved=len(one.rows))
            if move is None:
                self._doubt([*earlier, tried, *later])
                continue
            words = replace(one.finding, kind=MOVED, text=move.words(
                name, one.begin_s(graph), known=name in known), value=move.way_m, unit='m')
            found = MoveTrial(self._store, self._doubt, again, judge).at_new_place(
                replace(one, length_m=0.0), move, words, [*earlier, *later], contest, judgement)
            if found is not None:
                contest, judgement = found
                continue
            if name in known:
                tried = replace(
                    tried, finding=words, corrected=one.rows[:0], refused=len(one.rows))
            self._doubt([*earlier, tried, *later])
            if name in known and len(one.corrected):
                other = again(contest, contest.best.whole)
                if other is not None:
                    contest, judgement = other, judge(other)
        return contest, judgement

    def _without_places(
        self, contest: Contest, judgement: Judgement, judge: Callable[[Contest], Judgement],
        again: Again, config: SparserConfig,
    ) -> tuple[Contest, Judgement]:
        """Where the data deny configured places, and the map fits better without these.

        Not where it places less then.
        """
        before = self._misplaced
        self._misplaced = denied(judgement, self._store.whole, before)
        if self._misplaced == before or not self._doubt(self._doubts):
            return contest, judgement
        other = again(contest, contest.best.whole)
        if other is not None and other.frame.anchored == contest.frame.anchored and (
                faulty_together(contest.best.value - other.best.value, 1,
                                config.backend.observability.flip_cost)):
            found = judge(other)
            if located_segments(found) >= located_segments(judgement):
                return other, found
        self._misplaced = before
        self._doubt(self._doubts)
        return contest, judgement

    def _with_frame(
        self, contest: Contest, judgement: Judgement, again: Again, config: SparserConfig
    ) -> Judgement:
        """The map is withdrawn where the known beacons left do not fix its frame, nor did before.

        A known beacon of which some ranges are left out, or count with a length taken off, fixes
        the frame by the others. Where one other place explains both, it never stood where it is
        configured, or another one did not.
        """
        graph, flip_cost = self._store.unbiased, config.backend.observability.flip_cost
        known = {graph.landmarks.names[number] for number in known_beacons(graph)}
        suspects = [one for one in self._doubts if one.finding.subject in known]
        reason = frame_reason(graph, [replace(
            one.finding, kind='beacon_misplaced', text='all ranges of '
            f'{one.finding.subject} fit one other place') for one in suspects], math.inf)
        if not reason or not config.backend.integrity.gate:
            return judgement
        before = self._doubts
        for one in suspects:
            own = of_sources(graph, (one.finding.subject,), 0)
            every = replace(one, rows=own, corrected=own[:0])
            self._doubt([every, *(other for other in before if other is not one)])
            other = again(contest, contest.best.whole)
            self._doubt(before)
            if other is None or stands_still(one, graph, other.best.whole, flip_cost):
                return judgement.with_unclear(
                    replace(judgement, unclear=(*judgement.unclear, ('', reason))))
        return judgement

    def _solved_rows(self, contest: Contest, one: RangeDoubt) -> Index:
        """Ranges of a group among those of the solved subgraph."""
        original = self._store.original('ranges', contest.frame.subgraph.rows['ranges'])
        return np.flatnonzero(np.isin(original, one.corrected))

    def _noisy(self, subjects: set[str], judgement: Judgement, variance_floor: float) -> bool:
        """Whether odometry is noisier than it claims even in the map without their ranges.

        That of the robots among the subjects; with a landmark among them that of all robots. Such
        odometry bends the map by itself, and what claimed noise says of ranges is not true.
        """
        robots = self._store.whole.robots
        asked = subjects if subjects <= set(robots) else robots
        return any(
            judgement.odometry_factors.get(robot, 1.0) > variance_floor for robot in asked)

    @property
    def _left_out(self) -> Index:
        """Ranges that do not count, rows of the sum of all increments."""
        return np.union1d(rows_of(self._doubts), self._odometry.ranges)

    @property
    def _corrections(self) -> RangeCorrections:
        """What is taken off ranges, by rows of the sum of all increments."""
        return corrections_of(self._doubts).beside(self._radios.corrections)

    def _doubt(self, doubts: list[RangeDoubt]) -> bool:
        """Leave out and correct these groups, and no others; whether that changes the graph."""
        self._doubts = doubts
        rows, corrections, store = self._left_out, self._corrections, self._store
        same = np.array_equal(rows, store.doubted) and corrections.same(store.corrections)
        known = {store.whole.landmarks.names[number] for number in known_beacons(store.whole)}
        released = ({one.finding.subject for one in doubts if one.moved} | self._misplaced) & known
        same = same and released == set(store.released)
        store.doubt(rows)
        store.correct(corrections)
        store.release(released)
        return not same


def _size_of(finding: Finding) -> float:
    """Of a lasting fault of odometry, in the units of its parameter."""
    return finding.value / 100 if finding.kind == SCALE else float(np.radians(finding.value / 60))


def _placed(one: RangeDoubt, judgement: Judgement) -> bool:
    """Whether the map places a source well enough to tell its fault from none."""
    own = [part for part in judgement.segments if part.robot == one.finding.subject]
    return not own or own[-1].location is Location.LOCATED or (
        own[-1].location is Location.UNLOCATED
        and 0 < FAR_SIGMA * own[-1].sigma_m < abs(one.error_m) / 2)
