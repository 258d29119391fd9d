"""A start for the next solve: the last estimate, continued by odometry, new variables placed.

An audit takes seconds, a start from scratch of a large graph half a minute. What came meanwhile
could be tied to its map by composed odometry. Minutes of drift start the next solve in another
basin, and the map is worse than the one that it replaces. Here the tail is solved in short pieces,
each with everything before it, while the poses that are known stay where they are; landmarks move,
since the newest of them are hardly determined. Drift never grows, and a piece takes a fraction of
the time of a tick.

Several solves of one graph from different starts, compared by their robust cost.

A failure of the solver is a result, never an exception. Maps of the tracker and of audits are
compared by what they cost by the same measurements.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import TYPE_CHECKING

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import MEASUREMENT_TYPES, Estimate, Graph, cost, squared_residuals
from ...graph.parts import OdometrySegments
from ...solver import solve
from ...solver.incremental import IncrementalSolver, terms_of
from ...solver.result import SolveResult, SolveStats, SolveStatus
from ...solver.robust import KERNELS, squared_threshold, thresholds
from ..observability.registration import Candidates, candidates, constraints, evidence_of
from ..observability.rigid_model import rigid_problem
from .frame import Frame, at_origin
from .graph_store import FAILURES
from .solution import TrackedMap
from .treatment import Treated

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


def continued(graph: Graph, segments: OdometrySegments, previous: Estimate | None) -> Estimate:
    """Values of all poses: old ones as estimated, new ones composed by odometry.

    Unknown landmarks get their stored guess, or the origin where there is none.
    """
    rotation, translation = graph.poses.rotation.copy(), graph.poses.translation.copy()
    landmarks = np.where(np.isfinite(graph.landmarks.position), graph.landmarks.position, 0.0)
    if previous is None:
        return Estimate(rotation, translation, landmarks)
    old = len(previous.rotation)
    for body in range(len(segments)):
        rows = np.flatnonzero(segments.of_pose == body)
        known, new = rows[rows < old], rows[rows >= old]
        if len(known) == 0:
            known = np.flatnonzero(graph.poses.robot[:old] == segments.robot[body])
        if len(known) == 0 or len(new) == 0:
            continue
        rotation[new], translation[new] = _carried(
            graph, previous.rotation[known[-1]], previous.translation[known[-1]], known[-1], new)
    rotation[:old], translation[:old] = previous.rotation, previous.translation
    landmarks[:len(previous.landmarks)] = previous.landmarks
    landmarks[graph.landmarks.fixed] = graph.landmarks.position[graph.landmarks.fixed]
    return Estimate(rotation, translation, landmarks)


def _carried(
    graph: Graph, rotation: Array, translation: Array, last: int, rows: Index
) -> tuple[Array, Array]:
    """Poses `rows` where odometry takes the pose `last`, which has this value."""
    turn = rotation @ graph.poses.rotation[last].T
    offset = graph.poses.translation[rows] - graph.poses.translation[last]
    return turn @ graph.poses.rotation[rows], translation + offset @ turn.T


def joined_up(frame: Frame, estimate: Estimate) -> Estimate:
    """An estimate in which segments that nothing places are where odometry takes those before."""
    rotation, translation = estimate.rotation.copy(), estimate.translation.copy()
    graph, segments = frame.graph, frame.segments
    for number in np.flatnonzero(~frame.mask[:len(segments)]).tolist():
        rows = np.flatnonzero(segments.of_pose == number)
        before = np.flatnonzero(graph.poses.robot[:rows[0]] == segments.robot[number])
        if len(before):
            last = int(before[-1])
            rotation[rows], translation[rows] = _carried(
                graph, rotation[last], translation[last], last, rows)
    return replace(estimate, rotation=rotation, translation=translation)


def placed(
    graph: Graph, segments: OdometrySegments, guess: Estimate, known: Mask,
    range_sigma_floor_m: float,
) -> tuple[Estimate, Mask]:
    """Place unknown segments and landmarks among the known ones, best tied first.

    `known` is (b + m,). Returns the estimate and the mask of what is placed now.
    """
    known = known.copy()
    count, d = len(segments), graph.dimension
    size = d + (1 if d == 2 else 3)
    while not np.all(known):
        problem = rigid_problem(graph, guess, segments, range_sigma_floor_m)
        unplaced = np.flatnonzero(~known)
        evidence = {int(v): evidence_of(problem, int(v), unplaced) for v in unplaced}
        share = {v: constraints(e) / (size if v < count else d) for v, e in evidence.items()}
        best = max(share, key=lambda v: (share[v], -v))
        if share[best] < 1:
            break
        found = candidates(evidence[best], best < count)
        guess = _moved(guess, segments, best, problem.centers[best], found)
        known[best] = True
    return guess, known


def _moved(
    guess: Estimate, segments: OdometrySegments, variable: int, center: Array, found: Candidates
) -> Estimate:
    rotation, translation = guess.rotation.copy(), guess.translation.copy()
    landmarks = guess.landmarks.copy()
    if variable < len(segments):
        rows = segments.of_pose == variable
        turn = found.rotation[0]
        rotation[rows] = turn @ rotation[rows]
        translation[rows] = (translation[rows] - center) @ turn.T + found.position[0]
    else:
        landmarks[variable - len(segments)] = found.position[0]
    return Estimate(rotation, translation, landmarks)


_PIECE = 16
"""Keyframes of each robot, about, in a piece: a tick's worth of a fast replay, and so short that
composed odometry is good for metres at most."""
_MOST_PIECES = 64
"""Of a tail that is longer, and longer than the rest, the estimate says too little."""


def with_tail(
    graph: Graph, segments: OdometrySegments, placed: Mask, estimate: Estimate,
    config: SparserConfig, anchored: bool,
) -> Estimate:
    """Values of all poses: those of the estimate, and the tail as its measurements have it.

    `placed` (b + m,) says what is in map; the rest of the tail is composed from odometry. So is
    all of it where a solve fails: the tick after finds out which increment it was.
    """
    guess = continued(graph, segments, estimate)
    old = len(estimate.rotation)
    if not np.any(placed[segments.of_pose[old:]]):
        return guess
    if graph.n_poses - old > max(old, _MOST_PIECES * _piece(graph)):
        return guess
    try:
        with np.errstate(all='ignore'):
            found = _Tail(graph, segments, placed, guess, old, config, anchored).solved()
    except FAILURES:
        return guess
    finite = np.all(np.isfinite(found.rotation)) and np.all(np.isfinite(found.translation))
    return found if finite else guess


def _piece(graph: Graph) -> int:
    return _PIECE * max(len(graph.robots), 1)


class _Tail:
    """Bodies of the solver: all landmarks, then all poses."""

    def __init__(
        self, graph: Graph, segments: OdometrySegments, placed: Mask, guess: Estimate, old: int,
        config: SparserConfig, anchored: bool,
    ) -> None:
        self._graph, self._segments, self._guess, self._old = graph, segments, guess, old
        self._config, self._anchored, count = config, anchored, len(segments)
        self._pose_placed = placed[:count][segments.of_pose]
        self._landmark_placed = placed[count:]
        self._solver = IncrementalSolver(graph.dimension, config.solver.robust)
        self._solver.add_bodies(
            np.tile(np.eye(graph.dimension), (graph.n_landmarks, 1, 1)), guess.landmarks, True,
            self._landmark_placed & ~graph.landmarks.fixed)
        self._solver.add_bodies(
            guess.rotation[:old], guess.translation[:old], False, np.zeros(old, dtype=bool))
        self._newest = {
            name: self._newest_pose(name) for name in graph.tables()}
        self._add_measurements(-1, 0)

    def solved(self) -> Estimate:
        """The estimate with the whole tail."""
        tolerance = self._config.backend.incremental_tolerance
        for begin, end in self._pieces():
            self._add_poses(begin, end)
            self._add_measurements(begin, end)
            rows = self._segments.of_pose[begin:end]
            last = begin + np.array([
                np.flatnonzero(rows == robot)[-1] for robot in np.unique(rows)])
            self._solver.update(
                self._body(last[self._pose_placed[last]]), tolerance)
        first, solver = self._graph.n_landmarks, self._solver
        end = first + self._graph.n_poses
        return Estimate(
            solver.rotation[first:end].copy(), solver.position[first:end].copy(),
            solver.position[:first].copy())

    def _pieces(self) -> Iterator[tuple[int, int]]:
        size, end = _piece(self._graph), self._graph.n_poses
        for begin in range(self._old, end, size):
            yield begin, min(begin + size, end)

    def _add_poses(self, begin: int, end: int) -> None:
        """Poses where odometry takes the ones before them."""
        first = self._graph.n_landmarks
        known = Estimate(
            self._solver.rotation[first:first + begin], self._solver.position[first:first + begin],
            self._guess.landmarks)
        composed = continued(self._graph, self._segments, known)
        self._solver.add_bodies(
            composed.rotation[begin:end], composed.translation[begin:end], False,
            self._pose_placed[begin:end])

    def _add_measurements(self, begin: int, end: int) -> None:
        """What has its newest pose among these."""
        tables = {
            name: table.take((self._newest[name] >= begin) & (self._newest[name] < end))
            for name, table in self._graph.tables().items()}
        self._solver.add_terms(terms_of(
            self._graph.replaced(**tables), self._graph.dimension, self._body,
            self._config.solver.robust))

    def _newest_pose(self, name: str) -> Index:
        """(k,): newest pose of each measurement, -1 = of none that is known, of a landmark; -2 for
        those that do not count."""
        table = self._graph.tables()[name]
        newest = np.full(len(table), -1, dtype=np.int64)
        keep = np.full(len(table), not MEASUREMENT_TYPES[name].absolute or self._anchored)
        moves = np.zeros(len(table), dtype=bool)
        for column in table.endpoints():
            end = getattr(table, column)
            far = end < 0
            newest[~far] = np.maximum(newest[~far], end[~far])
            keep[far] &= self._landmark_placed[~end[far]]
            keep[~far] &= self._pose_placed[end[~far]]
            moves |= far | (end >= self._old)
        return np.where(keep & moves, np.where(newest < self._old, -1, newest), -2)

    def _body(self, endpoint: Index) -> Index:
        endpoint = np.asarray(endpoint, dtype=np.int64)
        return np.where(endpoint >= 0, self._graph.n_landmarks + endpoint, ~endpoint)


def run(graph: Graph, config: SparserConfig, guess: Estimate) -> SolveResult:
    """A warm start at rank d from a guess."""
    return _call(graph, config, guess, config.solver.seed, config.solver.time_limit_s)


def run_from_scratch(
    graph: Graph, config: SparserConfig, trial: int, limit_s: float = 0.0
) -> SolveResult:
    """A low-rank solve without an initial guess; within `limit_s` of wall time, 0 = no limit.

    `trial` counts starts: each has a seed of its own.
    """
    limits = [limit for limit in (config.solver.time_limit_s, limit_s) if limit > 0]
    return _call(graph, config, None, config.solver.seed + trial, min(limits, default=0.0))


def _call(
    graph: Graph, config: SparserConfig, initial: Estimate | None, seed: int,
    time_limit_s: float,
) -> SolveResult:
    if initial is not None and odometry_only(graph):
        stats = SolveStats(
            graph.dimension, 'odometry', 'none', 'cpu', 'none', cost_final=cost(graph, initial))
        return SolveResult(initial, SolveStatus.CONVERGED, 'odometry alone', stats)
    try:
        solver = replace(config.solver, seed=seed, time_limit_s=time_limit_s)
        return solve(graph, solver, initial=initial)
    except FAILURES as error:
        stats = SolveStats(graph.dimension, 'none', config.solver.formulation, 'cpu', 'none')
        return SolveResult(
            initial, SolveStatus.FAILED, f'{type(error).__name__}: {error}', stats)


def value_of(result: SolveResult) -> float:
    """The cost that results are compared by; infinite for failures."""
    if result.estimate is None or result.status is SolveStatus.FAILED:
        return float('inf')
    stats = result.stats
    value = stats.cost_robust if stats.cost_robust is not None else stats.cost_final
    return float(value) if value is not None and math.isfinite(value) else float('inf')


def odometry_only(graph: Graph) -> bool:
    """True where composing the odometry is the optimum, of cost zero."""
    return graph.n_measurements == int(np.sum(graph.relative_poses.odometry))


def robust_cost(graph: Graph, estimate: Estimate, config: SparserConfig) -> float:
    """The cost that robust solves minimise: sum of rho over all measurements."""
    robust = config.solver.robust
    kernel, total = KERNELS[robust.kernel], 0.0
    c2 = thresholds(graph, robust, graph.dimension)
    for name, squares in squared_residuals(graph, estimate).items():
        doubted = np.isfinite(c2[name]) & (robust.kernel != 'none')
        total += float(np.sum(squares[~doubted]))
        total += float(np.sum(kernel.rho(squares[doubted], c2[name][doubted])))
    return total


def costs_of(
    frame: Frame, names: Iterable[str], estimates: Iterable[Estimate], config: SparserConfig,
    until: Mapping[str, int] | None = None,
) -> list[float]:
    """Robust costs of estimates of the whole graph, by the measurements among what is named.

    `until` counts rows by table: only those count then.
    """
    known = frame.restricted(frame.named(names))
    graph = known.graph
    if until is not None:
        graph = graph.replaced(**{
            name: table.take(known.rows[name] < until[name])
            for name, table in graph.tables().items()})
    return [robust_cost(graph, known.of(estimate), config) for estimate in estimates]


SAME_COST = 1e-3
"""Share of the cost within which two solves count as the same answer."""
_SAME_MAP = 1e-4
"""Share of the cost that a map from another start must gain, or the present one stays."""
WIDEST = 1e6
"""Kernel width, in c^2, up to which something new is believed at first."""
_RANGES_REFUSED = 0.5
"""Share of new ranges whose rejection is not taken for granted."""


@unique
class SearchEnd(Enum):
    """Why there are no more starts from scratch."""

    AGREED = 'agreed'
    """Two maps, one of them from scratch, have the same least cost."""
    TRIED = 'tried'
    """All that may be tried were, and the least cost has been found once."""
    FAR_BETTER = 'far better'
    """The last one excludes all maps before it, and nothing has confirmed it yet."""
    LIMIT = 'limit'
    """Out of time."""
    FAILED = 'failed'
    """No start has given a map: nothing has been compared."""


@dataclass(frozen=True)
class Candidate:
    """One solve: a map of the whole graph and its robust cost."""

    start: str
    """present, wide, scratch k, or a hypothesis in words."""
    result: SolveResult
    whole: Estimate
    """In map: the solved subgraph moved to the gauge, the rest as guessed."""
    value: float
    """Robust cost; without a kernel the cost; infinite where the solve failed."""


class Contest:
    """The candidates for one frame so far."""

    def __init__(
        self, frame: Frame, guess: Estimate, pose: tuple[Array, Array], config: SparserConfig,
        data: Treated,
    ) -> None:
        self.frame, self.guess, self.pose, self.config = frame, guess, pose, config
        self.data = data
        """The graph that the frame is of, and the treatment that made it."""
        self.candidates: list[Candidate] = []

    def under(self, data: Treated) -> Contest:
        """The same candidates as the start of what follows under another treatment."""
        other = copy(self)
        other.data = data
        return other

    @property
    def best(self) -> Candidate:
        """The least robust cost; the first candidate, the present map, where it is as good."""
        first = self.candidates[0]
        least = min(self.candidates, key=lambda one: one.value)
        if not least.value < first.value - _SAME_MAP * abs(first.value) - 1e-9:
            return first
        return least

    def add(self, start: str, result: SolveResult) -> Candidate:
        """Enter a solve of the frame's subgraph."""
        whole = self.guess
        if result.estimate is not None:
            own = result.estimate
            if self.frame.gauge is not None:
                own = at_origin(
                    own, self.frame.gauge_row, self.pose, self.frame.subgraph.graph)
            whole = joined_up(self.frame, self.frame.subgraph.into(self.guess, own))
        candidate = Candidate(start, result, whole, value_of(result))
        self.candidates.append(candidate)
        return candidate

    def from_present(self, before: tuple[int, int]) -> None:
        """From the guess; where that rejects what is new, also with a kernel that believes it.

        `before` counts the ranges and relative poses of the graph that an earlier audit knew.
        """
        subgraph, config = self.frame.subgraph, self.config
        own = subgraph.of(self.guess)
        warm = self.add('present', run(subgraph.graph, config, own))
        robust = config.solver.robust
        if robust.kernel == 'none' or not robust.gnc or warm.result.estimate is None:
            return
        rows = subgraph.rows
        since = (int(np.searchsorted(rows['ranges'], before[0])),
                 int(np.searchsorted(rows['relative_poses'], before[1])))
        worst = refused(
            subgraph.graph, warm.result.estimate, since, warm.result.stats.weights,
            config.backend.rejected_weight)
        mu = min(worst / squared_threshold(robust, 1), WIDEST)
        if mu > robust.mu_start:
            wide = replace(config.solver, robust=replace(robust, mu_start=mu))
            self.add('wide', run(subgraph.graph, replace(config, solver=wide), own))

    @property
    def can_start_from_scratch(self) -> bool:
        """False where composing the odometry is the only solution."""
        return not odometry_only(self.frame.subgraph.graph)

    def from_scratch(self, starts: int, first_trial: int, limit_s: float) -> SearchEnd:
        """Low-rank solves without a guess, until two agree on the least cost.

        `limit_s` of wall time bounds all of them together; infinite = no limit. With a limit a map
        that excludes all others so far ends the search, to be handed over at once.
        """
        limited = math.isfinite(limit_s)
        graph, deadline = self.frame.subgraph.graph, time.monotonic() + limit_s
        margin, first = self.config.backend.observability.flip_cost, len(self.candidates)
        for trial in range(first_trial, first_trial + starts):
            left = max(deadline - time.monotonic(), 0.0)
            if limited and trial > first_trial and left < limit_s / 4:
                # The last start took most of the time: another one would be cut off.
                return SearchEnd.LIMIT
            least = self.best.value
            result = run_from_scratch(graph, self.config, trial, left if limited else 0.0)
            cut = result.status is SolveStatus.TIME_LIMIT
            if (result.estimate is not None and not result.status.solved
                    and value_of(result) < float('inf')):
                # What is left to do from its iterate is a warm start's work.
                result = run(graph, self.config, result.estimate)
            value = self.add(f'scratch {trial}', result).value
            if abs(value - least) <= SAME_COST * min(least, value):
                return SearchEnd.AGREED
            if limited and least - value > margin:
                return SearchEnd.FAR_BETTER
            if limited and cut:
                return SearchEnd.LIMIT
        if all(candidate.value == float('inf') for candidate in self.candidates[first:]):
            return SearchEnd.FAILED
        return SearchEnd.TRIED

    def from_hypothesis(self, name: str, whole: Estimate) -> None:
        """From another placement of robots or landmarks."""
        subgraph = self.frame.subgraph
        self.add(name, run(subgraph.graph, self.config, subgraph.of(whole)))

    def rivals(self, margin: float) -> list[Candidate]:
        """Candidates whose cost is within `margin` (chi-square units) of the best."""
        best = self.best
        return [one for one in self.candidates
                if one is not best and one.value - best.value < margin]


def refused(
    graph: Graph, estimate: Estimate, before: tuple[int, int], weights: dict[str, Array],
    threshold: float,
) -> float:
    """Largest squared residual of a new measurement that a robust kernel rejected without a trial.

    `before` counts the ranges and relative poses that were known earlier. A closure after a long
    drift is as far off as a false one; so is most of what a robot measures that comes back after
    a long drift. 0 where no closure and less than half of the ranges are rejected: single ranges
    say little, and some are always false.
    """
    squares = squared_residuals(graph, estimate)
    worst = 0.0
    for name, first, chosen, share in (
        ('ranges', before[0], np.ones(len(graph.ranges), dtype=bool), _RANGES_REFUSED),
        ('relative_poses', before[1], ~graph.relative_poses.odometry, 0.0),
    ):
        new = chosen & (np.arange(len(chosen)) >= first)
        out = new & (weights.get(name, np.ones(len(chosen))) < threshold)
        if np.any(out) and np.count_nonzero(out) >= share * np.count_nonzero(new):
            worst = max(worst, float(np.max(squares[name][out])))
    return worst


SAME_CHI_SQUARE = 1.0
"""Chi-square by which a map may fit worse: less than one standard deviation."""
RowsUntil = Callable[[int], Mapping[str, int]]
"""Rows by table that a graph had at an increment."""


def is_worse(
    frame: Frame, tracked: TrackedMap | None, best: Estimate, rows_until: RowsUntil,
    config: SparserConfig,
) -> bool:
    """Whether the tracker's map fits its own data worse than the best candidate does.

    The tracker's data alone are compared: what came since moves the best candidate, and will
    move the tracker's map.
    """
    if tracked is None or tracked.anchored != frame.anchored:
        return True
    mine, least = _costs(frame, tracked, tracked.estimate, best, rows_until, config)
    return not mine <= least + max(SAME_COST * least, SAME_CHI_SQUARE)


def has_left(
    frame: Frame, tracked: TrackedMap, audited: TrackedMap | None, rows_until: RowsUntil,
    config: SparserConfig,
) -> bool:
    """Whether the tracker's map fits the data of the last audit much worse than its map did.

    It has left that map: a better one came too late for the newest data, or these pulled it
    away. Data that came since move the optimum of the older ones by less.
    """
    if audited is None or audited.anchored != tracked.anchored:
        return False
    older = audited if audited.sequence <= tracked.sequence else tracked
    mine, least = _costs(frame, older, tracked.estimate, audited.estimate, rows_until, config)
    return mine - least > config.backend.observability.flip_cost


def _costs(
    frame: Frame, known: TrackedMap, first: Estimate, second: Estimate, rows_until: RowsUntil,
    config: SparserConfig,
) -> tuple[float, float]:
    """Robust costs of two estimates of what `known` has placed, by the data that it knew."""
    poses, landmarks = len(known.estimate.translation), len(known.estimate.landmarks)
    mine, other = costs_of(frame, known.placed, (
        continued(frame.graph, frame.segments, Estimate(
            estimate.rotation[:poses], estimate.translation[:poses],
            estimate.landmarks[:landmarks]))
        for estimate in (first, second)), config, rows_until(known.sequence))
    return mine, other
