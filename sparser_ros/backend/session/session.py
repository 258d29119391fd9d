"""The incremental session: increments in, solutions in `map` out.

A solve continues the last estimate (rank d), unless the picture has changed: then it also starts
from scratch (low rank) and keeps the better of the two. Only what is connected to the frame of
`map` is solved; what the measurements determine there is judged afterwards.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...config import SparserError
from ...graph import Estimate, Graph, Increment, cost
from ...solver.result import SolveResult, SolveStats, SolveStatus
from ...solver.robust.kernels import squared_threshold
from ..observability.observability import Observability, observe
from .following import Following
from .frame import Frame, frame_of
from .gauge import at_origin, initial_pose
from .graph_store import GraphStore
from .interlude import Interlude, Meanwhile
from .odometry_segments import find_segments
from .policy import GraphSummary, astray, contradicts, full_solve_reason, picture, refused
from .runner import Runner, value_of
from .solution import Location, Solution
from .verdicts import rejected_of, robots_of
from .warm_start import continued, placed

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_AGREEMENT = 0.01
"""Share of the cost within which two solves count as the same answer."""
_WIDEST = 1e6
"""Kernel width, in c^2, up to which something new is believed at first."""


class Session:
    """Holds the graph, the last estimate and what is known about it.

    `bounded`: solves from scratch end in `backend.full_solve_limit_s` of wall time; the result
    then depends on the machine.
    """

    def __init__(self, config: SparserConfig, *, bounded: bool = False) -> None:
        self.config = config
        self._store = GraphStore(config.dimension)
        self._pose = initial_pose(config.backend, config.dimension)
        self._runner = Runner(bounded)
        self._estimate: Estimate | None = None
        self._anchored = False
        self._gauge_name: str | None = None
        self._picture: GraphSummary | None = None
        """At the last solve from scratch."""
        self._placed: frozenset[str] = frozenset()
        self._located: frozenset[str] = frozenset()
        self._cleared: frozenset[str] = frozenset()
        self._solved_rows = (0, 0)
        self._following: Following | None = None
        self._news: list[Increment] = []
        """Since the last ordinary solve, or taken by `_following`."""

    @property
    def graph(self) -> Graph:
        """The sum of all increments so far."""
        return self._store.graph

    @property
    def sequence(self) -> int:
        """Newest increment included; -1 = none."""
        return self._store.sequence

    @property
    def estimate(self) -> Estimate | None:
        """The last estimate, of the graph as it was then."""
        return self._estimate

    def add(self, increment: Increment, *, first: int | None = None) -> bool:
        """Append an increment (or a merged one from `first` on); False if already included."""
        added = self._store.add(increment, first=first)
        if added:
            self._news.append(increment)
        return added

    def restore(self, estimate: Estimate) -> None:
        """Go on from an estimate of the first poses and landmarks of the graph."""
        graph = self.graph
        if len(estimate.rotation) > graph.n_poses or len(estimate.landmarks) > graph.n_landmarks:
            raise SparserError('the estimate to restore has more variables than the graph')
        frame = self._frame()
        if frame is None:
            return
        segments = frame.segments
        covered = np.concatenate([
            segments.first < len(estimate.rotation),
            np.arange(graph.n_landmarks) < len(estimate.landmarks)])
        self._estimate, self._anchored = estimate, frame.anchored
        self._following = None
        self._placed = frame.names(covered & frame.mask)
        guess = continued(frame.graph, segments, estimate)
        self._picture = replace(
            picture(frame.graph, segments, frame.mask, frame.anchored),
            cost=cost(frame.part.graph, frame.part.of(guess)))
        self._remember(frame, self._observe(frame, guess))

    def solve(
        self, full: bool | None = None, *, idle: bool = False, meanwhile: Meanwhile | None = None
    ) -> Solution:
        """Solve what is there; `full` forces (True) or forbids (False) a start from scratch.

        `idle`: no data come any more, so a little growth is enough for a start from scratch.
        While that runs, `meanwhile` gets the warm solution, and further ones with newer data.
        """
        begin = time.perf_counter()
        followed = None if full or idle else self._follow(begin)
        if followed is not None:
            return followed
        frame = self._frame()
        if frame is None:
            return self._nothing()
        self._following, self._news = None, []
        guess = self._guess(frame)
        now = picture(frame.graph, frame.segments, frame.mask, frame.anchored)
        warm = self._warm(frame, guess)
        whole = self._in_map(frame, guess, warm)
        seen = self._observe(frame, whole)
        scratch = now.rows > 0 if full else (
            full is None and self._picture_changed(frame, warm, seen, now, idle))
        if not scratch:
            self._adopt(frame, whole, seen, warm)
            return self._solution(frame, warm, whole, seen, False, begin)
        interlude = None
        if meanwhile is not None:
            if self._estimate is not None and not idle:
                self._adopt(frame, whole, seen, warm)
                meanwhile.publish(self._solution(frame, warm, whole, seen, False, begin))
            interlude = Interlude(
                meanwhile, lambda: self.solve(False), self.config.node.solve_period_s)
        trials = self.config.backend.full_solve_trials if full or idle else 1
        result = self._from_scratch(frame, warm, guess, trials, interlude)
        self._picture = _solved(now, result)
        behind = interlude is not None and interlude.taken
        if result is not warm or not behind:
            whole = self._in_map(frame, guess, result)
            seen = self._observe(frame, whole)
            self._adopt(frame, whole, seen, result)
        if behind:
            self._following = None
            return replace(
                self.solve(False), full=True, seconds=time.perf_counter() - begin)
        return self._solution(frame, result, whole, seen, True, begin)

    def _follow(self, begin: float) -> Solution | None:
        """A solution from what is new alone; None where an ordinary solve is due."""
        news, self._news = self._news, []
        following, self._following = self._following, None
        update = None if following is None else following.take(self.config, news)
        if following is None or update is None or self._picture is None:
            return None
        frame, whole, seen = following.frame, following.follower.estimate(), following.seen
        now, grown = following.picture, None
        if following.unsure:
            grown = self._frame()
            assert grown is not None
            seen = self._observe(grown, whole)
        reason = self._reason(
            frame if grown is None else grown, seen, now, following.follower.closures > 0, False)
        if reason or (now.rows >= 1.1 * self._picture.rows and contradicts(
                *following.follower.strain(), self.config.backend)):
            return None
        if grown is not None:
            following.saw(seen)
            self._remember(grown, seen)
        self._following, self._estimate = following, whole
        self._solved_rows = following.follower.n_ranges, following.follower.n_relative
        stats = following.stats(update, time.perf_counter() - begin)
        result = SolveResult(whole, SolveStatus.CONVERGED, 'followed', stats)
        return self._solution(
            frame, result, whole, seen, False, begin, now.cost, following.rows)

    def _adopt(
        self, frame: Frame, whole: Estimate, seen: Observability, result: SolveResult
    ) -> None:
        """Go on from this estimate of the frame."""
        self._estimate, self._anchored = whole, frame.anchored
        self._placed = frame.names(frame.mask)
        self._remember(frame, seen)
        self._solved_rows = (len(frame.graph.ranges), len(frame.graph.relative_poses))
        self._following = (
            Following(self.config, frame, whole, seen) if result.status.solved else None)

    def _frame(self) -> Frame | None:
        frame = frame_of(
            self.graph, self.config.robots, self.config.backend, self._gauge_name)
        if frame is not None:
            self._gauge_name = frame.gauge_name
        return frame

    def _picture_changed(
        self, frame: Frame, result: SolveResult, seen: Observability, now: GraphSummary, idle: bool
    ) -> bool:
        """Whether a solve from scratch is due after this warm one."""
        closures = bool(np.any(~frame.part.graph.relative_poses.odometry))
        reason = self._reason(frame, seen, _solved(now, result), closures, idle)
        return bool(reason) or self._astray(frame, result, now)

    def _reason(
        self, frame: Frame, seen: Observability, now: GraphSummary, closures: bool, idle: bool
    ) -> str:
        """Why a solve from scratch is due after one that came to the picture `now`, or ''."""
        count = len(frame.segments)
        located = _determined(frame, seen)
        others = located.copy()
        if frame.gauge is not None:
            others[frame.gauge] = False
        marks = seen.landmark_located & frame.mask[count:] & ~frame.graph.landmarks.fixed
        return full_solve_reason(
            self._picture, now,
            determined=bool(np.any(others) or np.any(marks) or closures),
            newly_located=not frame.names(located) <= self._located,
            idle=idle, config=self.config.backend)

    def _guess(self, frame: Frame) -> Estimate:
        """A start in map: old values, odometry, and new variables placed among the old."""
        segments = frame.segments
        guess = continued(frame.graph, segments, self._estimate)
        known = frame.named(self._placed)
        if frame.anchored != self._anchored:
            known[:] = False
        if frame.gauge is not None and not known[frame.gauge]:
            rows = segments.of_pose == frame.gauge
            own = at_origin(guess, int(segments.first[frame.gauge]), self._pose)
            guess = Estimate(
                np.where(rows[:, None, None], own.rotation, guess.rotation),
                np.where(rows[:, None], own.translation, guess.translation), guess.landmarks)
            known[frame.gauge] = True
        known[len(segments):] |= frame.graph.landmarks.fixed
        floor = self.config.backend.observability.range_sigma_floor_m
        return placed(frame.graph, segments, guess, known | ~frame.mask, floor)[0]

    def _warm(self, frame: Frame, guess: Estimate) -> SolveResult:
        """A warm solve; where it rejects what is new, also one that believes that at first."""
        warm = self._runner.run(frame, self.config, guess)
        robust = self.config.solver.robust
        if robust.kernel == 'none' or not robust.gnc or not warm.status.solved:
            return warm
        assert warm.estimate is not None
        worst = refused(
            frame.part.graph, warm.estimate, self._rows_before(frame), warm.stats.weights,
            self.config.backend)
        mu = min(worst / squared_threshold(robust, 1), _WIDEST)
        if mu <= robust.mu_start:
            return warm
        solver = replace(self.config.solver, robust=replace(robust, mu_start=mu))
        trial = self._runner.run(frame, replace(self.config, solver=solver), guess)
        return trial if value_of(trial) < value_of(warm) else warm

    def _from_scratch(
        self, frame: Frame, warm: SolveResult, guess: Estimate, trials: int,
        interlude: Interlude | None = None,
    ) -> SolveResult:
        """The best of low-rank solves and the warm result.

        A start from scratch that comes to the cost of the best so far settles the matter; only
        where two disagree is a further one worth its time.
        """
        best = warm
        for _ in range(trials):
            tried = self._runner.run_from_scratch(frame, self.config, interlude)
            before, after = value_of(best), value_of(tried)
            if after < before * (1 - 1e-6):
                best = tried
            if abs(after - before) <= _AGREEMENT * before:
                break
        if best is warm:
            return warm
        if best.status.solved or best.estimate is None:
            return best
        # Out of time: what is left to do from its iterate is a warm start's work.
        return self._runner.run(frame, self.config, frame.part.into(guess, best.estimate))

    def _astray(self, frame: Frame, result: SolveResult, now: GraphSummary) -> bool:
        if result.estimate is None or self._picture is None:
            return False
        if now.rows < 1.1 * self._picture.rows:
            return False
        return astray(
            frame.part.graph, result.estimate, self._rows_before(frame), result.stats.weights,
            self.config.backend)

    def _rows_before(self, frame: Frame) -> tuple[int, int]:
        """(ranges, relative poses) of the part that the solve before knew."""
        rows = frame.part.rows
        return (
            int(np.searchsorted(rows['ranges'], self._solved_rows[0])),
            int(np.searchsorted(rows['relative_poses'], self._solved_rows[1])))

    def _in_map(self, frame: Frame, guess: Estimate, result: SolveResult) -> Estimate:
        """The whole estimate: the solved part moved to the gauge, the rest as it was."""
        if result.estimate is None:
            return guess
        part = result.estimate
        if frame.gauge is not None:
            part = at_origin(part, frame.gauge_row, self._pose)
        return frame.part.into(guess, part)

    def _observe(self, frame: Frame, whole: Estimate) -> Observability:
        cleared = frozenset(np.flatnonzero(frame.named(self._cleared)).tolist())
        return observe(
            frame.graph, whole, frame.segments, frame.gauge, self.config.backend.observability,
            cleared=cleared)

    def _remember(self, frame: Frame, seen: Observability) -> None:
        located = _determined(frame, seen)
        sure = np.concatenate([
            np.array([where is Location.LOCATED for where in seen.location], dtype=bool),
            seen.landmark_located])
        self._located = frame.names(located)
        self._cleared = frame.names(sure & frame.mask)

    def _solution(
        self, frame: Frame, result: SolveResult, whole: Estimate, seen: Observability,
        full: bool, begin: float, value: float | None = None,
        rows: dict[str, NDArray[np.int64]] | None = None,
    ) -> Solution:
        """`value` is the cost of the part where it is known.

        `rows` of the whole graph are those that weights belong to, where not the part's.
        """
        stats = result.stats
        graph = frame.graph if rows is None else self.graph
        if full and stats.cost_relaxed is None:
            stats = replace(stats, cost_relaxed=self._runner.cost_relaxed)
        return Solution(
            sequence=self._store.sequence,
            estimate=whole,
            robots=robots_of(frame.graph, frame.segments, frame.mask, seen, self.config.robots),
            landmark_located=seen.landmark_located & frame.mask[len(frame.segments):],
            status=result.status,
            message=result.message,
            stats=stats,
            full=full,
            rejected=rejected_of(
                graph, whole, frame.part.rows if rows is None else rows, stats.weights,
                self.config.backend.rejected_weight),
            newest_stamp_ns=self._store.newest_stamp_ns,
            seconds=time.perf_counter() - begin,
            extra={'cost_part': cost(
                frame.part.graph, frame.part.of(whole)) if value is None else value},
        )

    def _nothing(self) -> Solution:
        graph = self.graph
        stats = SolveStats(
            self.config.dimension, 'none', self.config.solver.formulation, 'cpu', 'none')
        return Solution(
            sequence=self._store.sequence,
            estimate=continued(graph, find_segments(graph), None),
            robots=robots_of(graph, None, None, None, self.config.robots),
            landmark_located=np.zeros(graph.n_landmarks, dtype=bool),
            status=SolveStatus.FAILED,
            message='nothing to place in map yet: odometry of the gauge robot, or data that tie '
            'a robot to known beacons, are missing',
            stats=stats,
            full=False,
            newest_stamp_ns=self._store.newest_stamp_ns,
        )


def _solved(now: GraphSummary, result: SolveResult) -> GraphSummary:
    return replace(now, cost=result.stats.cost_final or 0.0)


def _determined(frame: Frame, seen: Observability) -> np.ndarray:
    """(b + m,): segments in the part with at least a position; no landmarks."""
    mask = np.zeros(len(frame.mask), dtype=bool)
    mask[:len(frame.segments)] = [where is not Location.UNLOCATED for where in seen.location]
    return mask & frame.mask
