"""A lower bound on the cost of the map of the last audit, between audits, a step at a time.

Two kinds of work take turns. What proved the last bound proves nearly as much of the map of the
next audit, by one factorisation, so that each map has a bound soon after its audit. Meanwhile a
relaxed point goes down on one map, which takes as long as many audits: then that bound is sharp.
Where much has come since, it goes down on that part first: bounds of separate measurements add up.
The point is kept from one map to the next: on a graph that has grown it is near its optimum, and a
few steps do. Its cost above which no bound can rise tells, long before the bound is sharp, that
the map may be a wrong one: then a start from scratch is due.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from ...array_types import Array
from ...config.sparser import SparserConfig
from ...graph import is_landmark
from ...linalg.blas import single_threaded_blas
from ...solver import thresholds
from ...solver.certificate import Multipliers
from ...solver.certify.carried_bound import CarriedBound, KeptMultipliers
from ...solver.certify.running_bound import Relaxed, RunningBound
from .bound import Bound
from .quarantine import FAILURES
from .solved_map import SolvedMap

ROUNDS = 6
"""Rounds of work on one map before the next one, where there is one, takes its place."""
MOST_ROUNDS = 24
"""Rounds on one map while no other follows: as many as the staircase makes at its highest rank."""


class LiveBound:
    """Bounds the newest map again and again; the outcome is a function of the maps it got."""

    def __init__(self) -> None:
        self.bound: Bound | None = None
        """Of the newest map of which something is proved."""
        self._map: SolvedMap | None = None
        """The map whose bound is made sharp."""
        self._part: SolvedMap | None = None
        """The part of it that this is done with: all of it, or what came since the last one."""
        self._base: KeptMultipliers | None = None
        """What is proved of the rest, while only a part is at work."""
        self._work: RunningBound | None = None
        self._steps: Iterator[None] | None = None
        self._relaxed: Relaxed | None = None
        self._rounds, self._seconds = 0, 0.0
        self._sharp: Bound | None = None
        """Of `_map`, or of the one before while nothing is proved of it."""
        self._share: float | None = 0.0
        """Gap over cost that starts from scratch did not close; None = not known since the last."""
        self._proofs: dict[str, KeptMultipliers] = {}
        """The best ones of the sharp bound ('sharp') and of the last one that was carried."""
        self._carried_map: SolvedMap | None = None
        """The map that proofs were last carried to."""
        self._carried: CarriedBound | None = None
        self._carrying: Iterator[None] | None = None
        self._worked = self._part_proved = False
        """Since then: whether the sharp bound had a turn, and a round on a part ended."""

    def step(
        self, solved: SolvedMap | None, config: SparserConfig, rounds: int = ROUNDS
    ) -> bool:
        """Some work on a bound; False where there is nothing to do, or `rounds` are done."""
        if config.backend.audit.bound_share <= 0:
            self.bound = self._sharp = self._map = self._work = self._steps = None
            self._carrying, self._proofs = None, {}
            return False
        begin = time.perf_counter()
        try:
            with single_threaded_blas():
                worked = self._step(solved, config, rounds)
        except FAILURES:
            # What cannot be bounded has no bound: the next map may do.
            worked = True
            if self._carrying is not None:
                self._carrying, self._proofs = None, {}
            else:
                self._steps, self._relaxed, self._rounds = None, None, MOST_ROUNDS
                self._part = self._map
        self._seconds += time.perf_counter() - begin
        return worked

    def catch_up(self, solved: SolvedMap | None, config: SparserConfig) -> bool:
        """Bound a new map by what is proved already, where its turn has come; some 0.1 s of work.

        False where there was nothing to do.
        """
        worked = False
        while config.backend.audit.bound_share > 0 and (
                self._carrying is not None or self._to_carry(solved)):
            worked = self.step(solved, config)
        return worked

    def doubt(self, flip_cost: float) -> str:
        """Why a start from scratch may find a better map, or ''.

        A relaxation below the map may be that of a better map, or just lower. What starts from
        scratch left of the gap is taken for the latter, in proportion to the cost; more than that
        by `flip_cost` would be another placement's cost.
        """
        bound = self._sharp
        if bound is None or self._share is None:
            return ''
        gap = bound.cost - max(bound.relaxed, bound.lower)
        if gap <= self._share * bound.cost + flip_cost:
            return ''
        return (f'the cost of the map, {bound.cost:.4g}, is {gap:.3g} above its relaxation: '
                'a better map may exist')

    def searched(self) -> None:
        """A start from scratch was made: the gap of the next bound is what it left."""
        self._share = None

    def _step(self, solved: SolvedMap | None, config: SparserConfig, rounds: int) -> bool:
        if self._carrying is None and self._to_carry(solved):
            assert solved is not None
            self._begin_carrying(solved, config)
            return True
        if self._carrying is not None:
            self._carry()
            return True
        worked = self._sharpen(solved, config, rounds)
        self._worked = self._worked or worked
        return worked

    def _to_carry(self, solved: SolvedMap | None) -> bool:
        """Whether a new map, or a new proof of a part, is to have a bound before work goes on."""
        if solved is None or not self._proofs or (self._steps is not None and not self._worked):
            return False
        return solved is not self._part and (
            solved is not self._carried_map or self._part_proved)

    def _begin_carrying(self, solved: SolvedMap, config: SparserConfig) -> None:
        self._carried_map, self._worked, self._part_proved = solved, False, False
        schur, y = solved.weighted(config.solver.robust.weight_floor)
        self._carried = CarriedBound(schur, float(np.sum(y * schur(y))), [
            one.on(schur.problem.manifold, solved.poses, solved.ranges)
            for one in self._proofs.values()])
        self._carrying = self._carried.steps()

    def _carry(self) -> None:
        carried, solved = self._carried, self._carried_map
        assert self._carrying is not None and carried is not None and solved is not None
        if next(self._carrying, self) is self:
            self._carrying = None
        if carried.multipliers is None:
            return
        self._proofs['carried'] = _kept(carried.multipliers, solved)
        self.bound = Bound(
            solved.sequence, solved.newest_stamp_ns, carried.cost, carried.cost, carried.lower,
            carried.certified, self._seconds)

    def _sharpen(self, solved: SolvedMap | None, config: SparserConfig, rounds: int) -> bool:
        if self._steps is None:
            done = self._work is None or self._work.enough or self._rounds >= rounds
            part_done = done and self._part is not None and self._part is not self._map
            if solved is not None and (solved is not self._map or part_done):
                self._begin(solved, config, whole=solved is self._map)
                return True
            if done:
                return False
            assert self._work is not None
            self._steps, self._rounds = self._work.steps(1), self._rounds + 1
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        self._publish()
        return True

    def _begin(self, solved: SolvedMap, config: SparserConfig, *, whole: bool) -> None:
        self._map, self._rounds, self._seconds = solved, ROUNDS, 0.0
        self._work = self._steps = self._part = None
        if solved.graph.n_poses == 0 or solved.graph.n_measurements == 0:
            return
        self._part = part = solved if whole else self._uncovered(solved)
        schur, y = part.weighted(config.solver.robust.weight_floor)
        relaxed, least = None, 0.0
        if part is not solved:
            self._base = max(self._proofs.values(), key=lambda one: one.multipliers.trace)
        elif self._relaxed is not None:
            relaxed, least = _carried(self._relaxed, solved, y), self._relaxed.least
        self._work = RunningBound(schur, y, relaxed, least)
        if self._carried is not None and self._carried_map is part:
            self._work.lower = self._carried.lower
        self._steps = self._work.steps(ROUNDS)

    def _uncovered(self, solved: SolvedMap) -> SolvedMap:
        """What no proof says anything of, where that is much of a map; else the map."""
        if 'sharp' not in self._proofs:
            return solved
        new = solved.poses > self._proofs['sharp'].poses[-1]
        if np.mean(new) < thresholds.current().bound_part:
            return solved
        part = solved.part(new)
        return part if part.graph.n_measurements else solved

    def _publish(self) -> None:
        work, part = self._work, self._part
        assert work is not None and part is not None
        if work.multipliers is not None and work.multipliers.trace > 0:
            kept = _kept(work.multipliers, part)
            if part is not self._map:
                assert self._base is not None
                kept = self._base.joined(kept)
            self._proofs['sharp'] = kept
        if part is not self._map:
            self._part_proved = self._part_proved or self._steps is None
            return
        if self._steps is None:
            # The end of a round: a point worth going on from.
            self._relaxed = work.kept(part.poses, part.ranges) or self._relaxed
        if work.lower <= 0:
            return
        self._sharp = Bound(
            part.sequence, part.newest_stamp_ns, work.cost, work.relaxed_cost, work.lower,
            work.certified, self._seconds)
        if self.bound is None or self.bound.sequence <= part.sequence:
            self.bound = self._sharp
        if self._share is None and (self._steps is None or work.enough):
            self._share = (work.cost - work.relaxed_cost) / max(work.cost, 1e-300)


def _kept(multipliers: Multipliers, solved: SolvedMap) -> KeptMultipliers:
    return KeptMultipliers(solved.poses, solved.ranges, multipliers)


def _carried(relaxed: Relaxed, solved: SolvedMap, y: Array) -> Array | None:
    """The relaxed point of an earlier map on this one; None where they share no pose."""
    graph = solved.graph
    at = np.searchsorted(relaxed.poses, solved.poses)
    known = relaxed.poses[np.minimum(at, len(relaxed.poses) - 1)] == solved.poses
    if not np.any(known):
        return None
    # The newest known pose of the same robot at or before each pose, in the order of its path.
    order = np.lexsort((graph.poses.index, graph.poses.robot))
    robot = graph.poses.robot[order]
    first = np.concatenate([[True], robot[1:] != robot[:-1]])
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(known[order], place, -1))
    last = np.where(last >= np.maximum.accumulate(np.where(first, place, 0)), last, -1)
    before = np.empty(len(order), dtype=np.int64)
    before[order] = np.where(last >= 0, order[last], int(np.flatnonzero(known)[0]))
    source = np.where(is_landmark(graph.ranges.source), graph.ranges.target, graph.ranges.source)
    return relaxed.carried(
        solved.poses, before, solved.ranges, np.where(is_landmark(source), -1, source), y)
