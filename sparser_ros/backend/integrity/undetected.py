"""How far off faults may be that nobody has found: solution separation.

Sources err: a radio by a bias, an odometry by a share or a rate, a surveyed beacon by a distance.
Parameters theta along G hold these errors, in units of the floor below which an error is no
fault. A sound source errs within its floor: theta is uniform in the unit ball of its c
parameters, of variance 1 / (c + 2) each. A faulty one errs `fault_size` times as much. With
M = (J^T J)^-1 J^T G, A = G^T P G and s = G^T P r of linear_model.py, the best estimate for prior
precisions L of theta lies away from the present one by

    M W s,   and has the covariance   (J^T J)^-1 + M W M^T,   W = (A + L)^-1.

That is so of all sources, if they are sound, and of one faulty source i among others that do not
err at all, W_i = (A_ii + L_i)^-1. So no threshold and no missed detection enters (solution
separation; Blanch et al., Baseline advanced RAIM user algorithm, IEEE T-AES 51, 2015). How much
likelier the data are with that fault than with none (Bayes factor, unknowns integrated out):

    log B_i = (s_i^T W_i s_i + log det(L_i W_i)) / 2.

A map that is solved with the size of a fault may be wrong about it: there is none, or another one
instead. Data are that much likelier without it as B of none, or of the other one, is larger than
its own, the further solved sizes being free in all of them; the shift is that of taking the size
back, and of the other fault.

A robot drives on after the audit, and an error takes it further off: by the heading that the fault
has turned, by the odometry that goes on turning, by the odometry that goes on being too long; as
far as the measurements since do not hold it back (session/belief.py). An altimeter goes on
drifting at the rate that it had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy.special import logsumexp, softmax

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph import Estimate, Graph
from ...linalg.rotations import rotation_jacobian
from .faults import BURST, KINDS, LENGTH
from .hypotheses import DRIFT_FLOOR_M, ONGOING, Hypothesis
from .linear_model import keyframes_of, newest_poses
from .odometry_errors import ALL_ROBOTS
from .solved_sizes import DROPPED, Sized, SolvedFaults, Without

_NO = 'no '
"""Begins the cause that a fault is none which the map is solved with."""


class _Arrays:
    """Dataclasses of arrays are equal where all these are."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            np.array_equal(value, getattr(other, name)) for name, value in vars(self).items())


@dataclass(frozen=True, eq=False)
class Later(_Arrays):
    """What displaces the r robots that drive on: (r, q, ...) as the field of the same name.

    The q rows are the turn of the newest pose about the axes of the frame, rad, the rate of further
    turns, rad/s, the share by which further ways are longer, and the velocity (d,) at which
    positions go on being moved, m/s.
    """

    common: Array
    common_shift: Array
    lone: Array
    lone_shift: Array
    solved: Array


@dataclass(frozen=True, eq=False)
class HiddenFaults(_Arrays):
    """What errors of sources may do to newest positions and landmarks, to first order.

    Positions are those of b bodies: newest poses of the robots, landmarks, keyframes; k parameters
    of h hypotheses of a fault. All are relative to the pose that map is relative to.
    """

    robots: tuple[str, ...]
    landmarks: tuple[str, ...]
    position: Array
    """(b, d): where the bodies were at the audit, metres."""
    common: Array
    """(b, d, c): a root of M W M^T of sound sources of those kinds that levels count, metres."""
    common_shift: Array
    """(b, d, 1): to the estimate that allows for their errors, metres."""
    lone: Array
    """(b, d, k): a root of what each fault adds where no other source errs."""
    owner: Index
    """(k,): the hypothesis of each column of `lone`, 0 ... h - 1."""
    lone_shift: Array
    """(b, d, h): to the estimate with each fault where no other source errs, metres."""
    stamp_ns: Index
    """(r,): of the newest pose of each robot."""
    evidence: Array
    """(h,): log of how much likelier the data are with that fault than without any error; instead
    of a fault that the map is solved with, so much that `log_odds` are those to the map."""
    instead: Mask
    """(h,): what is there instead of a fault that the map is solved with, not beside it."""
    causes: tuple[str, ...]
    """(h,): the hypotheses by kind and subject, `no` before what the map is solved with."""
    keyframes: Index
    """(k,): poses that are spread over all paths; they follow the b bodies."""
    solved: Array
    """(b, d, q): a root of the covariance that sizes of faults add which the map is solved with,
    metres."""
    later: Later
    """What of all these displaces robots that drive on."""

    @property
    def bodies(self) -> int:
        """Robots and landmarks."""
        return len(self.robots) + len(self.landmarks)

    def place(self, name: str) -> int:
        """Row of a robot or a landmark, -1 where it is not known."""
        names = self.robots + self.landmarks
        return names.index(name) if name in names else -1

    def log_odds(self, prior: float) -> Array:
        """(1 + h,): of no fault, which has 0, and of each one of that prior probability."""
        return np.append(0.0, np.log(prior) + self.evidence)

    def likely(self, prior: float) -> Array:
        """(1 + h,): probabilities of no fault, and of each one."""
        return np.asarray(softmax(self.log_odds(prior)))

    @property
    def in_levels(self) -> Mask:
        """(h,): no fault, and faults of the kinds that protection levels allow for."""
        return np.array([
            cause.startswith(_NO) or KINDS[_kind(cause)].in_levels for cause in self.causes],
            dtype=bool)

    def driven_on(self, way: Array, seconds: Array, share: Array) -> HiddenFaults:
        """Each fault alone once the robots have driven on, (r, d) metres in (r,) seconds.

        `share` (r, d, d + turns) of what odometry along straight lines does to newest poses,
        position and rotation, is left at the positions.
        """
        arm = rotation_jacobian(way)
        r, d, turns = arm.shape
        half = seconds[:, None, None] / 2
        by = np.zeros((r, d + turns, 2 * turns + 1))
        by[:, :d] = np.concatenate([arm, half * arm, way[:, :, None]], axis=2)
        by[:, d:, :turns], by[:, d:, turns:-1] = np.eye(turns), 2 * half * np.eye(turns)
        by = share @ by

        def moved(now: Array, later: Array) -> Array:
            robots = now[:r] + by @ later[:, :2 * turns + 1] + 2 * half * later[:, 2 * turns + 1:]
            return np.concatenate([robots, now[r:]])

        driven: dict[str, Any] = {
            name: moved(getattr(self, name), later) for name, later in vars(self.later).items()}
        return replace(self, **driven)


def hidden_faults(
    graph: Graph, estimate: Estimate, beside: SolvedFaults, gauge: int | None,
    config: IntegrityConfig,
) -> HiddenFaults:
    """The hidden faults at an estimate, beside and instead of those that it is solved with.

    `gauge` is the pose that map is relative to, None where absolute data fix map.
    """
    every, scores = [sized.fault for sized in beside.others], beside.scores
    sizes = np.array([fault.columns.shape[1] for fault in every], dtype=np.int64)
    lasting = np.array([bool(KINDS[fault.kind].suspicion) for fault in every], dtype=bool)
    kept = [fault for fault, keep in zip(every, lasting, strict=True) if keep]
    own, count = np.flatnonzero(np.repeat(lasting, sizes)), sizes[lasting]
    owner = np.repeat(np.arange(len(kept)), count)
    floor = np.array([fault.floor for fault in kept])[owner]
    bodies = _Bodies.of(graph, estimate, gauge)
    A = scores.information[np.ix_(own, own)] * np.outer(floor, floor)
    s = scores.score[own] * floor
    moved, later = bodies.displaced(scores.step[:, own], kept)
    b, d, _ = moved.shape
    M = _stacked(moved, later)
    told = np.array([KINDS[fault.kind].in_levels for fault in kept], dtype=bool)
    part = np.flatnonzero(told[owner])
    common, common_shift = _sound(
        M[:, part], A[np.ix_(part, part)], s[part], (count[owner] + 2.0)[part])
    lone, lone_shift, evidence = _lone(M, A, s, kept, config.fault_size)
    causes = [_cause(fault) for fault in kept]
    for without in beside.without:
        others = _instead(without, kept, own, bodies, config)
        causes += others.causes
        owner = np.append(owner, len(evidence) + others.owner)
        evidence = np.append(evidence, others.evidence)
        lone, lone_shift = np.hstack([lone, others.lone]), np.hstack([lone_shift, others.shift])
    unit = np.concatenate([
        np.zeros(0), *(np.full(fault.columns.shape[1], fault.floor) for fault in beside.free)])
    solved = _stacked(*bodies.displaced(beside.step, beside.free)) @ (beside.root / unit[:, None])

    def parts(columns: Array) -> tuple[Array, Array]:
        now, then = columns[:b * d], columns[b * d:]
        return now.reshape(b, d, -1), then.reshape(len(bodies.rows), later.shape[1], -1)

    by_name: dict[str, Any] = {
        'common': parts(common), 'common_shift': parts(common_shift), 'lone': parts(lone),
        'lone_shift': parts(lone_shift), 'solved': parts(solved)}
    return HiddenFaults(
        robots=tuple(bodies.newest), landmarks=graph.landmarks.names, position=bodies.position,
        owner=owner.astype(np.int64), stamp_ns=graph.poses.stamp_ns[bodies.rows],
        evidence=evidence, instead=np.arange(len(causes)) >= len(kept), causes=tuple(causes),
        keyframes=bodies.spread, later=Later(**{name: then for name, (_, then) in by_name.items()}),
        **{name: now for name, (now, _) in by_name.items()})


def _stacked(moved: Array, later: Array) -> Array:
    """(b d + r q, k): what each of k parameters does to bodies, then later to robots."""
    k = moved.shape[2]
    return np.vstack([
        moved.reshape(moved.shape[0] * moved.shape[1], k),
        later.reshape(later.shape[0] * later.shape[1], k)])


def _cause(fault: Hypothesis) -> str:
    return f'{fault.kind} of {fault.subject}'


def _kind(cause: str) -> str:
    return cause.removeprefix(_NO).split(' of ', 1)[0]


@dataclass(frozen=True)
class _Instead:
    """What may be there instead of one fault that the map is solved with, as in `HiddenFaults`."""

    causes: list[str]
    owner: Index
    evidence: Array
    lone: Array
    shift: Array


def _instead(
    without: Without, kept: Sequence[Hypothesis], own: Index, bodies: _Bodies,
    config: IntegrityConfig,
) -> _Instead:
    """Of no fault, and each of those `kept`, whose parameters `own` are.

    Odds below the integrity risk of protection levels are left out.
    """
    fault, c = without.fault, len(without.size)
    faults, columns = [fault, *kept], np.append(np.arange(c), c + own)
    count = np.array([one.columns.shape[1] for one in faults])
    first = np.cumsum(count) - count
    floor = np.repeat([one.floor for one in faults], count)
    scores = without.scores
    A = scores.information[np.ix_(columns, columns)] * np.outer(floor, floor)
    # Without the size that is taken off.
    s = (scores.score - scores.information[:, :c] @ without.size)[columns] * floor
    evidence = _lone(np.zeros((0, len(s))), A, s, faults, config.fault_size)[2]
    prior = np.log(config.fault_probability)
    odds = np.append(-prior, evidence[1:]) - evidence[0]
    near = np.flatnonzero(odds > np.log(config.risk))
    rivals = near[near > 0]
    part = np.concatenate([np.arange(c), *(first[k] + np.arange(count[k]) for k in rivals)])
    moved, later = bodies.displaced(
        scores.step[:, columns[part]], [fault, *(faults[k] for k in rivals)])
    M = _stacked(moved, later)
    back = M[:, :c] @ (without.size / floor[:c])
    lone, shift, _ = _lone(
        M[:, c:], A[np.ix_(part[c:], part[c:])], s[part[c:]], [faults[k] for k in rivals],
        config.fault_size)
    return _Instead(
        [_NO + _cause(fault) if k == 0 else _cause(faults[k]) for k in near],
        np.repeat(np.flatnonzero(near > 0), count[rivals]), odds[near] - prior, lone,
        back[:, None] + np.hstack([np.zeros((len(M), len(near) - len(rivals))), shift]))


def likeliest(
    solved: SolvedFaults, hidden: HiddenFaults, known: Collection[str], config: IntegrityConfig
) -> Sized | None:
    """The likeliest further fault, if it is likelier than none and its size can be solved for.

    Of a source that may have erred at several times the likeliest one stands for all. None where
    ranges that are false together explain more: they are left out first. Beacons `known` by their
    places are not long: from one side a wrong place looks like that.
    """
    odds, causes = hidden.log_odds(config.fault_probability)[1:], np.array(hidden.causes)
    total = {cause: float(logsumexp(odds[causes == cause]))
             for cause in dict.fromkeys(hidden.causes) if not cause.startswith(_NO)}
    able = [other for other in solved.others if solvable(other.fault, known)]
    best = max(able, key=lambda other: (total[_cause(other.fault)], other.evidence), default=None)
    if best is None or total[_cause(best.fault)] <= max(
            0.0, max(total.values()) + np.log(DROPPED)):
        return None
    brief = (other.evidence for other in solved.others if other.fault.kind == BURST)
    return None if max(brief, default=-np.inf) > best.evidence else best


def solvable(fault: Hypothesis, known: Collection[str]) -> bool:
    """Whether a map is solved with the size of such a fault; `known` are beacons of known place."""
    return KINDS[fault.kind].in_map and not (fault.kind == LENGTH and fault.subject in known)


def in_words(cause: str) -> str:
    """A cause of `HiddenFaults` for an operator."""
    if cause.startswith(_NO):
        return f'it is not so that {in_words(cause.removeprefix(_NO))}'
    kind, subject = cause.split(' of ', 1)
    return KINDS[kind].suspicion.format(subject)


def _sound(M: Array, A: Array, s: Array, prior: Array) -> tuple[Array, Array]:
    """Root of the covariance of errors of sound sources, and shift; in units of their floors."""
    # What the data hardly show may come out below zero by rounding.
    values, vectors = np.linalg.eigh(A)
    root = np.linalg.cholesky((vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(prior))
    half = scipy.linalg.solve_triangular(root, np.eye(len(A)), lower=True)
    return M @ half.T, M @ (half.T @ (half @ s))


def _lone(
    M: Array, A: Array, s: Array, faults: Sequence[Hypothesis], size: float
) -> tuple[Array, Array, Array]:
    """Root of what each fault alone adds, shift and evidence; errors in units of their floors."""
    count = np.array([fault.columns.shape[1] for fault in faults], dtype=np.int64)
    lone, shift = np.zeros_like(M), np.zeros((len(M), len(count)))
    evidence = np.zeros(len(count))
    first = np.cumsum(count) - count
    # Of one parameter, all at once: most are.
    own = np.flatnonzero(count == 1)
    at = first[own]
    prior = 3.0 / size**2
    variance = 1 / (np.maximum(A[at, at], 0.0) + prior)
    lone[:, at] = M[:, at] * np.sqrt(variance)
    shift[:, own] = M[:, at] * (variance * s[at])
    evidence[own] = (variance * s[at]**2 + np.log(prior * variance)) / 2
    for fault in np.flatnonzero(count > 1).tolist():
        block = np.arange(first[fault], first[fault] + count[fault])
        values, vectors = np.linalg.eigh(A[np.ix_(block, block)])
        prior = (count[fault] + 2.0) / size**2
        variance = 1 / (np.maximum(values, 0.0) + prior)
        pull = vectors.T @ s[block]
        lone[:, block] = M[:, block] @ vectors * np.sqrt(variance)
        shift[:, fault] = M[:, block] @ vectors @ (variance * pull)
        evidence[fault] = np.sum(variance * pull**2 + np.log(prior * variance)) / 2
    # One of several times was picked for its residuals; each of them is as likely beforehand.
    return lone, shift, evidence - np.log([fault.tests for fault in faults])


@dataclass(frozen=True)
class _Bodies:
    """What may be displaced: newest poses, landmarks, poses that are spread over all paths."""

    graph: Graph
    estimate: Estimate
    gauge: int | None
    newest: dict[str, int]
    spread: Index

    @classmethod
    def of(cls, graph: Graph, estimate: Estimate, gauge: int | None) -> _Bodies:
        """The bodies of an estimate in a map that is relative to the pose `gauge`."""
        return cls(graph, estimate, gauge, newest_poses(graph), keyframes_of(graph, gauge))

    @property
    def rows(self) -> Index:
        """(r,): newest poses of the robots."""
        return np.array(list(self.newest.values()), dtype=np.int64)

    @property
    def position(self) -> Array:
        """(b, d): metres."""
        place = self.estimate.translation
        return np.concatenate([place[self.rows], self.estimate.landmarks, place[self.spread]])

    def displaced(self, step: Array, faults: Sequence[Hypothesis]) -> tuple[Array, Array]:
        """(b, d, k), (r, q, k): `moved` and, in the layout of `later`, what displaces robots later.

        By parameters of faults in units of their floors; `step` (n, k) is theirs.
        """
        owner = np.repeat(np.arange(len(faults)), [fault.columns.shape[1] for fault in faults])
        floor = np.array([fault.floor for fault in faults])[owner]
        moved = self.moved(step) * floor
        return moved, self._later(step) * floor + self._growth(faults, owner, moved)

    def moved(self, step: Array) -> Array:
        """(b, d, k): how far the bodies move by each parameter.

        The gauge pose is at rest, and so are landmarks that are fixed.
        """
        graph, d, blocks = self.graph, self.graph.dimension, self._blocks(step)
        marks = np.zeros((graph.n_landmarks, d, step.shape[1]))
        free = np.flatnonzero(~graph.landmarks.fixed)
        marks[free] = step[len(blocks) * blocks.shape[1]:].reshape(len(free), d, step.shape[1])
        moved = np.concatenate([blocks[self.rows, :d], marks, blocks[self.spread, :d]])
        if self.gauge is None:
            return moved
        own, arm = self._of_gauge(blocks), self.position - self.estimate.translation[self.gauge]
        return np.asarray(moved - own[:d] - rotation_jacobian(arm) @ own[d:])

    def _later(self, step: Array) -> Array:
        """(r, q, k): by how much newest poses turn by each parameter, in the layout of `later`."""
        d, blocks = self.graph.dimension, self._blocks(step)
        turns = 1 if d == 2 else 3
        later = np.zeros((len(self.newest), 2 * turns + 1 + d, step.shape[1]))
        later[:, :turns] = blocks[self.rows, d:] - (
            0.0 if self.gauge is None else self._of_gauge(blocks)[d:])
        return later

    def _blocks(self, step: Array) -> Array:
        """(n, d + turns, k): how each parameter moves and turns all poses."""
        size = self.graph.dimension + (1 if self.graph.dimension == 2 else 3)
        n = self.graph.n_poses
        return step[:n * size].reshape(n, size, step.shape[1])

    def _of_gauge(self, blocks: Array) -> Array:
        """(d + turns, k): the part of the gauge pose's motion that map follows (`at_origin`)."""
        d, own = self.graph.dimension, blocks[self.gauge].copy()
        if self.graph.levelled:
            own[d:-1] = 0.0
        if len(self.graph.heights):
            own[d - 1] = 0.0
        return np.asarray(own)

    def _growth(self, faults: Sequence[Hypothesis], owner: Index, moved: Array) -> Array:
        """(r, q, k): what faults go on to do, in the layout of `later`; `moved` is what they did.

        A residual r + theta g is zero where the odometry is corrected by -theta, and W s is -theta.
        """
        d, turns = self.graph.dimension, 1 if self.graph.dimension == 2 else 3
        growth = np.zeros((len(self.newest), 2 * turns + 1 + d, len(owner)))
        for column, number in enumerate(owner.tolist()):
            fault = faults[number]
            if fault.span is not None and fault.span[1] == ONGOING:
                growth[:, -d:, column] = (
                    moved[:len(growth), :, column] * fault.floor / DRIFT_FLOOR_M)
            for robot, (name, row) in enumerate(self.newest.items()):
                if fault.subject not in (name, ALL_ROBOTS):
                    continue
                if fault.kind == 'odometry_turn':
                    axis = np.ones(1) if turns == 1 else self.estimate.rotation[row][:, 2]
                    growth[robot, turns:2 * turns, column] = fault.floor * axis
                elif fault.kind == 'odometry_scale':
                    growth[robot, 2 * turns, column] = fault.floor
        return growth
