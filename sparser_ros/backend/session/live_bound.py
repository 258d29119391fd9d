"""A lower bound on the cost of the map of the last audit, between audits, a step at a time.

The relaxed point is kept from one map to the next: on a graph that has grown it is near its
optimum, and a few steps do. Its cost above which no bound can rise tells, long before the bound
is sharp, that the map may be a wrong one: then a start from scratch is due.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...array_types import Array, Index
from ...config.sparser import SparserConfig
from ...graph import Estimate, Graph, is_landmark
from ...linalg.blas import single_threaded_blas
from ...solver.certify.running_bound import Relaxed, RunningBound
from ...solver.model.problem import QuadraticProblem
from ...solver.model.schur import SchurOperator
from ...solver.robust.kernels import floored
from .bound import Bound
from .quarantine import FAILURES

ROUNDS = 6
"""Rounds of work on one map before the next one, where there is one, takes its place."""
MOST_ROUNDS = 24
"""Rounds on one map while no other follows: as many as the staircase makes at its highest rank."""


@dataclass(frozen=True)
class SolvedMap:
    """The map of an audit: the part of the graph that it placed."""

    sequence: int
    newest_stamp_ns: int
    graph: Graph
    estimate: Estimate
    weights: dict[str, Array]
    """Robust weights by table."""
    poses: Index
    """(n,): ascending rows of its poses in the sum of all increments."""
    ranges: Index
    """(k,): the same of its ranges."""
    biases: dict[str, float] = field(default_factory=dict)
    """What was taken off the ranges of radios, m."""


class LiveBound:
    """Bounds the newest map again and again; the outcome is a function of the maps it got."""

    def __init__(self) -> None:
        self.bound: Bound | None = None
        """Of the newest map of which something is proved."""
        self._map: SolvedMap | None = None
        self._work: RunningBound | None = None
        self._steps: Iterator[None] | None = None
        self._relaxed: Relaxed | None = None
        self._rounds, self._seconds = 0, 0.0
        self._share: float | None = 0.0
        """Gap over cost that starts from scratch did not close; None = not known since the last."""

    def step(
        self, solved: SolvedMap | None, config: SparserConfig, rounds: int = ROUNDS
    ) -> bool:
        """Some work on a bound; False where there is nothing to do, or `rounds` are done."""
        if config.backend.audit.bound_share <= 0:
            self.bound, self._map, self._work, self._steps = None, None, None, None
            return False
        begin = time.perf_counter()
        try:
            with single_threaded_blas():
                worked = self._step(solved, config, rounds)
        except FAILURES:
            # What cannot be bounded has no bound: the next map may do.
            self._steps, self._relaxed, self._rounds = None, None, MOST_ROUNDS
            worked = True
        self._seconds += time.perf_counter() - begin
        return worked

    def doubt(self, flip_cost: float) -> str:
        """Why a start from scratch may find a better map, or ''.

        A relaxation below the map may be that of a better map, or just lower. What starts from
        scratch left of the gap is taken for the latter, in proportion to the cost; more than that
        by `flip_cost` would be another placement's cost.
        """
        bound = self.bound
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
        new = solved is not None and (self._map is None or solved is not self._map)
        if self._steps is None:
            if new:
                assert solved is not None
                self._begin(solved, config)
                return True
            if self._work is None or self._work.enough or self._rounds >= rounds:
                return False
            self._steps, self._rounds = self._work.steps(1), self._rounds + 1
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        self._publish()
        return True

    def _begin(self, solved: SolvedMap, config: SparserConfig) -> None:
        self._map, self._rounds, self._seconds = solved, ROUNDS, 0.0
        self._work = self._steps = None
        if solved.graph.n_poses == 0 or solved.graph.n_measurements == 0:
            return
        problem = QuadraticProblem(solved.graph)
        floor = config.solver.robust.weight_floor
        schur = SchurOperator(problem, problem.weights(
            {name: floored(values, floor) for name, values in solved.weights.items()}))
        y = problem.pack(solved.estimate)
        relaxed, least = None, 0.0
        if self._relaxed is not None:
            relaxed, least = _carried(self._relaxed, solved, y), self._relaxed.least
        self._work = RunningBound(schur, y, relaxed, least)
        self._steps = self._work.steps(ROUNDS)

    def _publish(self) -> None:
        work, solved = self._work, self._map
        assert work is not None and solved is not None
        if self._steps is None:
            # The end of a round: a point worth going on from.
            self._relaxed = work.kept(solved.poses, solved.ranges) or self._relaxed
        if work.lower <= 0:
            return
        self.bound = Bound(
            solved.sequence, solved.newest_stamp_ns, work.cost, work.relaxed_cost, work.lower,
            work.certified, self._seconds)
        if self._share is None and (self._steps is None or work.enough):
            self._share = (work.cost - work.relaxed_cost) / max(work.cost, 1e-300)


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
