"""The tracker: takes increments and answers every tick from the incremental factors.

It solves what an audit has placed in map and never starts from scratch itself. A verdict of the
auditor may bring a better map, which is adopted in one step together with the data that came
since. What is `located` follows the newest verdict and is withdrawn as soon as new data contradict
it (trust.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array
from ...config import SolverError
from ...graph import Estimate, Graph, Increment
from ...graph.finding import Finding
from ...graph.parts import find_segments
from ...graph.thinning import Renumbering
from ...solver.result import SolveStats, SolveStatus
from ..integrity.faults import BURST, Fault
from ..integrity.radio_errors import RadioErrors
from . import trust
from .belief import FrameKey, tick_places
from .contest import costs_of
from .continuation import continued
from .frame import Frame, frame_of
from .graph_store import (
    FAILURES,
    Excluded,
    GraphStore,
    culprits,
    estimate_of,
    merged,
    quarantine_findings,
    renumbered,
    verdict_of,
)
from .maps import PlacedMap
from .range_faults import going_on
from .solution import Location, RobotLocation, Solution, Verdict, VerdictKind, rejected_of
from .treatment import Treated, Treatment

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_WAITING = 'nothing is placed in map before the first audit'
REFUSED = 'a better map of earlier data does not fit the newest; the next audit decides'
"""Doubt of a tracker that keeps its own map."""


class Tracker:
    """Holds the graph, the placed map of it and the newest verdict."""

    def __init__(self, config: SparserConfig, *, epoch: int = 0) -> None:
        self._config = config
        self._store = GraphStore(config.dimension)
        self._map: PlacedMap | None = None
        self._frame_key: FrameKey | None = None
        self._pin: Array | None = None
        """(d,): shift of the map to known places that do not fix its frame."""
        self._placed: tuple[int, ...] = ()
        self._data: Treated | None = None
        """What the map is of."""
        self._verdict: Verdict | None = None
        """The newest one that tells something."""
        self._audited = -1
        """Newest increment that an audit is done with."""
        self._failure = ''
        """Message of the newest audit if that could not tell."""
        self._fresh = False
        """Whether the verdict came after the last solution."""
        self._news: list[Increment] = []
        self._good: tuple[int, Estimate] | None = None
        """Sequence and estimate of the last tick that succeeded, or of a verdict adopted since."""
        self._announced: tuple[Finding, ...] = ()
        self._denied_since_ns: dict[str, int | None] = {}
        """By robot whose newest measurements deny the map: stamp of the first of them."""
        self._located: frozenset[str] = frozenset()
        """Robots that the last solution had located."""
        self.epoch = epoch
        """Counts frames of map."""

    @property
    def config(self) -> SparserConfig:
        """In force from the next tick on."""
        return self._config

    @config.setter
    def config(self, config: SparserConfig) -> None:
        before, self._config = self._config, config
        if self._map is not None and (config.solver, config.backend) != (
                before.solver, before.backend):
            self._map, self._news = self._built(self._map.estimate(), self._placed), []

    @property
    def graph(self) -> Graph:
        """The sum of all increments so far, without quarantined measurements."""
        return self._store.graph

    @property
    def whole(self) -> Graph:
        """The sum of all increments so far."""
        return self._store.whole

    @property
    def radio_errors(self) -> RadioErrors:
        """What is taken off the ranges of radios in `graph`."""
        return self._store.treatment.radio_errors

    @property
    def sequence(self) -> int:
        """Newest increment included; -1 = none."""
        return self._store.sequence

    def add(self, increment: Increment, *, first: int | None = None) -> bool:
        """Append an increment (or a merged one from `first` on); False if already included."""
        added = self._store.add(increment, first=first)
        if added:
            self._news.append(increment)
        return added

    def thin(self, increment: Increment, to: Renumbering) -> None:
        """Go on with the thinned graph, `increment`, in place of the sum of all increments.

        The map stays where it is until the next tick.
        """
        verdict = self._verdict
        self._store = self._store.thinned(
            increment, to, () if verdict is None else (verdict.sequence,))
        if verdict is not None:
            self._verdict = verdict_of(verdict, to)
        self._placed, self._news = renumbered(self._placed, to), []
        known = self._map.estimate() if self._map is not None else (
            None if self._good is None else self._good[1])
        if known is None:
            return
        estimate = estimate_of(known, to)
        self._good = self._store.sequence, estimate
        if self._map is not None:
            self._map = self._built(estimate, self._placed)

    def adopt(self, verdict: Verdict) -> None:
        """Take a verdict over, and its map where that is another one than the present."""
        if not verdict.tells:
            self._failure = verdict.message
            rulings = verdict.treatment.rulings
            if rulings != self._store.treatment.rulings:
                # Its map rests on what the operator has ruled out, and no other one is known.
                self._store.treat(replace(self._store.treatment, rulings=rulings))
                self._map = self._verdict = None
            return
        self._failure, self._fresh = '', True
        if verdict.final:
            self._audited = verdict.sequence
        key, before = (verdict.anchored, verdict.gauge_name), self._store.now
        treatment = self._treatment(verdict)
        data = self._store.treated(treatment)
        # What is placed newly would pull at the rest: costs could not be compared.
        comparable = (
            self._map is not None and key == self._frame_key and set(verdict.placed) <= set(
                self._placed) and treatment.quarantined == before.treatment.quarantined)
        same = comparable and data.same(before) and verdict.kind is not VerdictKind.BETTER_MAP
        present = self._present() if comparable and not same else None
        self._verdict, self._announced = verdict, ()
        self._store.treat(treatment)
        if same:
            return
        good = None if self._good is None else self._good[1]
        if self._frame_key not in (None, key):
            self.epoch += 1
            self._pin = good = None
        self._frame_key = key
        other = self._built(verdict.estimate, verdict.placed)
        if present is not None and self._worse(other, present):
            self._verdict = replace(verdict, withheld=REFUSED)
            self._map, self._news = self._built(present, self._placed), []
            return
        self._map, self._placed, self._news = other, verdict.placed, []
        self._good = verdict.sequence, verdict.estimate
        if good is not None:
            self._announced = trust.announcements(
                self._store.graph, good, self._map.estimate(), self._located,
                self._config.backend.map_change_m)

    def _present(self) -> Estimate | None:
        """The present map with all that has come; None where that fails."""
        assert self._map is not None
        try:
            self._take_in()
        except FAILURES:
            return None
        return self._map.estimate()

    def _worse(self, other: PlacedMap, present: Estimate) -> bool:
        """Whether another map, with all that has come since its audit, is worse than the present.

        By what both have placed, and by more than a wrong map can lead by chance.
        """
        graph = self._store.graph
        try:
            other.update()
        except FAILURES:
            return True
        assert self._verdict is not None
        mine, theirs = costs_of(
            self._frame(graph), self._verdict.placed, (present, other.estimate()), self._config)
        return not theirs <= mine + self._config.backend.observability.flip_cost

    def _treatment(self, verdict: Verdict) -> Treatment:
        """That of a verdict, with what the tracker has left out itself.

        And with what it sees of sources whose ranges are held back with a known length.
        """
        treatment = verdict.treatment.beside(*self._denying(verdict)).excluding({
            **dict(self._store.treatment.quarantined), **dict(verdict.treatment.quarantined)})
        if not any(fault.open and fault.known_ns for fault in treatment.faults):
            return treatment
        data = self._store.treated(treatment)
        graph = data.unbiased
        # By odometry alone: the ranges in question have no say in where their source is.
        return going_on(
            treatment, data.whole, continued(graph, find_segments(graph), verdict.estimate))

    def _denying(self, verdict: Verdict) -> Iterator[Fault]:
        """The newest ranges of robots that deny the map, where the audit cannot tell why.

        Their robot may err as well as its radio, and either would pull at the others.
        """
        for robot in dict(verdict.unclear):
            since_ns = self._denied_since_ns.get(robot)
            if since_ns is not None:
                yield Fault(BURST, robot, spans=(), held_ns=since_ns - 1)

    def restore(self, estimate: Estimate) -> None:
        """Go on from an estimate of the first poses and landmarks, everything in it placed."""
        graph = self.graph
        if len(estimate.rotation) > graph.n_poses or len(estimate.landmarks) > graph.n_landmarks:
            raise SolverError('the estimate to restore has more variables than the graph')
        frame = frame_of(graph, self._config)
        if frame is None:
            return
        covered = np.concatenate([
            frame.segments.first < len(estimate.rotation),
            np.arange(graph.n_landmarks) < len(estimate.landmarks)])
        self._frame_key = frame.anchored, frame.gauge_name
        self._placed = frame.placed(covered & frame.mask)
        self._map, self._news = self._built(estimate, self._placed), []

    def solve(self) -> Solution:
        """The solution of everything added so far."""
        begin = time.perf_counter()
        if self._map is None:
            return self._nothing(begin)
        try:
            stats = self._tick()
        except FAILURES as error:
            return self._failed(f'{type(error).__name__}: {error}', begin)
        return self._solution(stats, begin)

    def _tick(self) -> SolveStats:
        """Take in what is new; increments with which that fails are left out."""
        assert self._map is not None
        news = [increment.sequence for increment in self._news]
        try:
            stats = self._take_in()
        except FAILURES as error:
            stats = self._without_culprits(news, error)
        self._good = self._store.sequence, self._map.estimate()
        return stats

    def _take_in(self) -> SolveStats:
        """Bring the map up to date with all that has come."""
        assert self._map is not None and self._data is not None
        news, self._news = self._news, []
        if news and self._verdict is not None:
            self._store.treat(self._treatment(self._verdict))
        data = self._store.now
        if not data.continues(self._data):
            # What has come tells more of earlier measurements: the map is made anew.
            self._map = self._built(self._map.estimate(), self._placed)
        elif news:
            self._map.add(self._store.newest(merged(news)))
        self._data = data
        return self._map.update()

    def _without_culprits(self, suspects: Sequence[int], error: Exception) -> SolveStats:
        if self._good is None:
            raise error
        since, before = self._good[0], self._store.treatment
        faulty = culprits(
            [sequence for sequence in self._store.sequences(since)
             if sequence in suspects or sequence > since],
            dict(before.quarantined), self._works)
        if faulty is None:
            self._store.treat(replace(before, quarantined=()))
            raise error
        self._store.treat(before.excluding(faulty))
        self._map = self._built(self._good[1], self._placed)
        return self._map.update()

    def _works(self, excluded: Excluded) -> bool:
        """Whether the newest data can be solved without these increments."""
        assert self._good is not None
        graph = self._store.treated(self._store.treatment.excluding(excluded)).graph
        try:
            PlacedMap(self._frame(graph), self._placed, self._good[1], self._config).update()
        except FAILURES:
            return False
        return True

    def _built(self, estimate: Estimate, placed: Sequence[int]) -> PlacedMap:
        """The map of the whole graph from an estimate of a part, with what is `placed`."""
        self._data = self._store.now
        return PlacedMap(self._frame(self._data.graph), placed, estimate, self._config)

    def _frame(self, graph: Graph) -> Frame:
        anchored, name = self._frame_key or (None, None)
        frame = frame_of(graph, self._config, name, anchored)
        if frame is None:
            raise SolverError('the frame of map is lost: nothing ties the graph to it any more')
        return frame

    def _solution(self, stats: SolveStats, begin: float) -> Solution:
        current, verdict, config = self._map, self._verdict, self._config
        assert current is not None
        store, frame = self._store, self._frame_key or (False, None)
        rejected = rejected_of(
            store.graph, current.estimate(), current.rows(), stats.weights,
            config.backend.rejected_weight, store.original)
        places = tick_places(store, current, verdict, frame, self._pin, config)
        if self._pin is None and places.pin is not None and self._located:
            # Robots were in the frame in which the gauge robot began.
            self.epoch += 1
        self._pin = places.pin
        self._denied_since_ns = {
            robot: self._denied_since_ns.get(robot) or denial.since_ns
            for robot, denial in places.contradictions.items()}
        self._located = frozenset(
            state.robot for state in places.robots if state.location is Location.LOCATED)
        full, self._fresh = self._fresh, False
        message = 'followed by the incremental solver'
        if full and verdict is not None:
            stats, message = _audited(stats, verdict, store.sequence), verdict.message
        return Solution(
            sequence=store.sequence, estimate=places.estimate, robots=places.robots,
            landmark_located=places.landmark_located,
            status=SolveStatus.STALLED if self._failure else current.status,
            message=self._failure or message, stats=stats, full=full,
            rejected=rejected, newest_stamp_ns=store.newest_stamp_ns,
            seconds=time.perf_counter() - begin, epoch=self.epoch,
            findings=self._findings() + places.cautions,
            audited_sequence=self._audited, ruled=store.treatment.rulings.revision,
            doubt='; '.join(denial.words for denial in places.contradictions.values()) or (
                REFUSED if verdict is not None and verdict.withheld == REFUSED else ''),
            placed=self._placed, anchored=frame[0],
            quarantined=store.treatment.quarantined,
            covariances=places.covariances, protection=places.protection,
            noise={} if verdict is None else verdict.noise.sigmas)

    def _findings(self) -> tuple[Finding, ...]:
        findings = self._announced
        if self._verdict is not None:
            known = {(finding.kind, finding.subject, finding.value)
                     for finding in self._verdict.findings}
            findings = findings + self._verdict.findings + tuple(
                finding for finding in quarantine_findings(
                    dict(self._store.treatment.quarantined), self._store.subjects())
                if (finding.kind, finding.subject, finding.value) not in known)
        if self._failure:
            findings = (*findings, Finding(
                'audit_failed', 'map', f'the newest audit of the map failed: {self._failure}'))
        return findings

    def _nothing(self, begin: float) -> Solution:
        """Before the first map: odometry as it came, nothing located."""
        graph = self._store.graph
        failed = bool(self._failure) or not graph.n_poses
        return self._unsolved(
            self._failure or _WAITING, SolveStatus.FAILED if failed else SolveStatus.CONVERGED,
            begin)

    def _failed(self, text: str, begin: float) -> Solution:
        """A tick that failed for good: the last estimate, nothing located."""
        reason = f'the solve failed: {text}'
        return replace(
            self._unsolved(reason, SolveStatus.FAILED, begin), doubt=reason,
            findings=self._findings(), placed=self._placed,
            quarantined=self._store.treatment.quarantined)

    def _unsolved(self, reason: str, status: SolveStatus, begin: float) -> Solution:
        graph, config = self._store.graph, self._config
        self._located = frozenset()
        segments = find_segments(graph)
        robots = trust.locations(graph, segments, None, {}, 0, config)
        if status is SolveStatus.FAILED and graph.n_poses:
            robots = tuple(RobotLocation(state.robot, state.location, reason) for state in robots)
        return Solution(
            sequence=self._store.sequence,
            estimate=continued(graph, segments, None if self._good is None else self._good[1]),
            robots=robots, landmark_located=np.zeros(graph.n_landmarks, dtype=bool),
            status=status, message=reason,
            stats=SolveStats(config.dimension, 'none', config.solver.formulation, 'cpu', 'none'),
            full=False, newest_stamp_ns=self._store.newest_stamp_ns,
            seconds=time.perf_counter() - begin, epoch=self.epoch,
            ruled=self._store.treatment.rulings.revision)


def _audited(stats: SolveStats, verdict: Verdict, sequence: int) -> SolveStats:
    """Figures of the audit, with the costs of the tick that took its map over."""
    own = verdict.stats
    merged_stats = replace(
        own, cost_final=stats.cost_final, cost_robust=stats.cost_robust, weights=stats.weights)
    if verdict.sequence == sequence:
        return merged_stats
    return replace(merged_stats, certified=None, suboptimality=None, lambda_min=None)
