"""How far off faults may be that nobody has found: solution separation.

Sources err: a radio by a bias, an odometry by a share or a rate, a surveyed beacon by a distance.
Parameters theta along G hold these errors, in units of the floor below which an error is no
fault. A sound source errs within its floor: theta is uniform in the unit ball of its c
parameters, of variance 1 / (c + 2) each. A faulty one errs `fault_size` times as much. With
M = (J^T J)^-1 J^T G, A = G^T P G and s = G^T P r of linear_model.py, the best estimate for prior
precisions L of theta lies away from the present one by

    M W s,   and has the covariance   (J^T J)^-1 + M W M^T,   W = (A + L)^-1.

What one hypothesis changes in L is a block, so that W changes by one of low rank (Woodbury):
W_i = W + W E (1 / D - E^T W E)^-1 E^T W, with D the precision that a fault takes away.
The separations are seen in the data, so no threshold and no missed detection enters (Blanch et
al., Baseline advanced RAIM user algorithm, IEEE T-AES 51, 2015).

The same for one faulty source among others that do not err at all: W_i = (A_ii + L_i)^-1, and how
much likelier the data are with that fault than with none (Bayes factor, unknowns integrated out):

    log B_i = (s_i^T W_i s_i + log det(L_i W_i)) / 2.

Two may err. A fault that is likely, moves nobody and has nothing to do with another one must not
make that one unlikely: beside the likeliest fault each other one has the evidence that it has with
the size of that one free within its prior.

A robot drives on after the audit, and a fault takes it further off: by the heading that the fault
has turned, by the odometry that goes on turning, by the odometry that goes on being too long; as
far as the measurements since do not hold it back (session/belief.py). An altimeter goes on
drifting at the rate that it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import scipy.linalg
from scipy.special import softmax

from ...array_types import Array, Index, Mask
from ...config.backend_config import IntegrityConfig
from ...graph import Estimate, Graph
from ...linalg.rotations import rotation_jacobian
from .faults import ALWAYS, BURST, KINDS, Fault
from .hypotheses import DRIFT_FLOOR_M, ONGOING, Hypothesis, Span
from .linear_model import Scores, keyframes_of, newest_poses
from .odometry_errors import ALL_ROBOTS

TAKEN, DROPPED = 0.8, 0.1
"""Probability of a fault from which on the map is solved with its size, and odds below which it no
longer is. To solve for one that is none hides the true one, and with it the risk of that."""


@dataclass(frozen=True)
class HiddenFaults:
    """What errors of sources may do to newest positions and landmarks, to first order.

    Positions are those of b bodies: newest poses of the robots, landmarks, keyframes; k parameters
    of h hypotheses of a fault. All are relative to the pose that map is relative to.
    """

    robots: tuple[str, ...]
    landmarks: tuple[str, ...]
    position: Array
    """(b, d): where the bodies were at the audit, metres."""
    common: Array
    """(b, d, k): a root of M W M^T, metres."""
    added: Array
    """(b, d, k): a root of what a fault adds, its own columns for each hypothesis."""
    owner: Index
    """(k,): the hypothesis of each column of `added`, 0 ... h - 1."""
    shift: Array
    """(b, d, 1 + h): to the estimate without a fault, and with each of them, metres. Zero, as
    `common` and `added`, of faults that levels leave out."""
    lone: Array
    """(b, d, k): as `added`, of each fault where all other sources are without error."""
    lone_shift: Array
    """(b, d, h): to the estimate with each fault where no other source errs, metres."""
    later: Array
    """(r, q, k): as `lone`, of what displaces robots that drive on: the turn of the newest pose
    about the axes of the frame, rad, the rate of further turns, rad/s, the share by which further
    ways are longer, and the velocity (d,) at which positions go on being moved, m/s."""
    later_shift: Array
    """(r, q, h): the same of `lone_shift`."""
    stamp_ns: Index
    """(r,): of the newest pose of each robot."""
    evidence: Array
    """(h,): log of how much likelier the data are with that fault than without any error."""
    beside: Array
    """(h,): the same beside the likeliest fault; of those that levels count, beside the likeliest
    of these."""
    causes: tuple[str, ...]
    """(h,): the hypotheses in words."""
    keyframes: Index
    """(k,): poses that are spread over all paths; they follow the b bodies."""
    solved: Array
    """(b, d, q): a root of the covariance that sizes of faults add which the map is solved with,
    metres."""

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
        """(h,): probability of each fault, where no more than the likeliest and another one err.

        Of those that levels do not count the others know nothing: an antenna, which explains a bit
        of everything, must not reassure about an odometry. The sum may be above one.
        """
        result = np.zeros(len(self.causes))
        for own in (np.arange(len(result)), np.flatnonzero(self.in_levels)):
            if not len(own):
                continue
            odds = self.log_odds(prior)[1 + own]
            first = int(np.argmax(odds))
            pairs = odds[first] + np.log(prior) + self.beside[own]
            pairs[first] = -np.inf
            alone, both = np.split(softmax(np.concatenate([[0.0], odds, pairs]))[1:], 2)
            result[own] = alone + both
            result[own[first]] += np.sum(both)
        return result

    @property
    def in_levels(self) -> Mask:
        """(h,): faults that protection levels allow for."""
        return np.array([
            KINDS[cause.split(' of ', 1)[0]].in_levels for cause in self.causes], dtype=bool)

    def driven_on(self, way: Array, seconds: Array, share: Array) -> HiddenFaults:
        """Each fault alone once the robots have driven on, (r, d) metres in (r,) seconds.

        `share` (r, d, d + turns) of what odometry along straight lines does to newest poses,
        position and rotation, is left at the positions.
        """
        arm = rotation_jacobian(way)
        r, d, turns = arm.shape
        half = seconds[:, None, None] / 2
        odometry, drift = self.later[:, :2 * turns + 1], self.later[:, 2 * turns + 1:]
        rate = self.later_shift[:, 2 * turns + 1:]
        by = np.zeros((r, d + turns, 2 * turns + 1))
        by[:, :d] = np.concatenate([arm, half * arm, way[:, :, None]], axis=2)
        by[:, d:, :turns], by[:, d:, turns:-1] = np.eye(turns), 2 * half * np.eye(turns)
        by = share @ by
        lone, shift = self.lone.copy(), self.lone_shift.copy()
        lone[:r] += by @ odometry + 2 * half * drift
        shift[:r] += by @ self.later_shift[:, :2 * turns + 1] + 2 * half * rate
        return replace(self, lone=lone, lone_shift=shift)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HiddenFaults) and all(
            np.array_equal(getattr(self, column.name), getattr(other, column.name))
            for column in fields(self))


def hidden_faults(
    graph: Graph, estimate: Estimate, scores: Scores, hypotheses: Sequence[Hypothesis],
    gauge: int | None, config: IntegrityConfig, variance_factor: float = 1.0,
    solved: Array | None = None,
) -> HiddenFaults:
    """The hidden faults at an estimate; `scores` are those of `hypotheses`, in their order.

    `solved` (n, q) is how sizes of faults move the unknowns which the map is solved with, each
    times a root of their covariance. `gauge` is the pose that map is relative to, None where
    absolute data fix map. Where noise has
    more than the claimed variance, `variance_factor` of it, residuals are less evidence.
    """
    newest = newest_poses(graph)
    rows = np.array(list(newest.values()), dtype=np.int64)
    if solved is None:
        solved = np.zeros((len(scores.step), 0))
    sizes = np.array([fault.columns.shape[1] for fault in hypotheses], dtype=np.int64)
    lasting = np.array([bool(KINDS[fault.kind].suspicion) for fault in hypotheses], dtype=bool)
    kept = [fault for fault, keep in zip(hypotheses, lasting, strict=True) if keep]
    own = np.flatnonzero(np.repeat(lasting, sizes))
    count = sizes[lasting]
    owner = np.repeat(np.arange(len(kept)), count)
    floor = np.array([fault.floor for fault in kept])[owner]
    spread = keyframes_of(graph, gauge)
    moved = _moved(graph, estimate, scores.step, rows, spread, gauge)[:, :, own] * floor
    A = scores.information[np.ix_(own, own)] * np.outer(floor, floor)
    s = scores.score[own] * floor
    b, d, k = moved.shape
    M = moved.reshape(b * d, k)
    common, added, shift = np.zeros_like(M), np.zeros_like(M), np.zeros((b * d, 1 + len(kept)))
    told = np.array([KINDS[fault.kind].in_levels for fault in kept], dtype=bool)
    part = np.flatnonzero(told[owner])
    common[:, part], added[:, part], shift[:, np.append(True, told)] = _separations(
        M[:, part], A[np.ix_(part, part)], s[part], np.repeat(
            np.arange(np.sum(told)), count[told]), count[told], config.fault_size)
    later = _later(graph, scores.step, rows, gauge)[:, :, own] * floor
    later += _growth(graph, estimate, rows, list(newest), kept, owner, moved)
    lone, lone_shift, evidence = _lone(
        np.vstack([M, later.reshape(-1, k)]), A / variance_factor, s / variance_factor, count,
        config.fault_size)
    r, q = later.shape[:2]
    # One of several times was picked for its residuals; each of them is as likely beforehand.
    times = np.log([fault.tests for fault in kept])
    evidence -= times
    beside = _beside(
        A / variance_factor, s / variance_factor, owner, count, config.fault_size, evidence,
        told) - times
    return HiddenFaults(
        tuple(newest), tuple(graph.landmarks.names),
        np.concatenate([
            estimate.translation[rows], estimate.landmarks, estimate.translation[spread]]),
        common.reshape(b, d, k), added.reshape(b, d, k), owner.astype(np.int64),
        shift.reshape(b, d, len(kept) + 1), lone[:b * d].reshape(b, d, k),
        lone_shift[:b * d].reshape(b, d, len(kept)), lone[b * d:].reshape(r, q, k),
        lone_shift[b * d:].reshape(r, q, len(kept)), graph.poses.stamp_ns[rows],
        evidence, beside, tuple(f'{fault.kind} of {fault.subject}' for fault in kept),
        spread, _moved(graph, estimate, solved, rows, spread, gauge))


@dataclass(frozen=True)
class SolvedFaults:
    """Faults whose size the map is solved with, and what the others are beside these."""

    faults: tuple[Fault, ...]
    """With their best sizes; without those that have become unlikely."""
    others: tuple[Hypothesis, ...]
    scores: Scores
    """Of the others, the solved sizes being free within their prior."""
    root: Array
    """(n, q): how the sizes move the unknowns, times a root of their covariance."""


def solved_faults(
    scores: Scores, hypotheses: Sequence[Hypothesis], solved: Sequence[Fault],
    config: IntegrityConfig, false_alarm: float,
) -> SolvedFaults:
    """At an estimate of a graph from whose measurements the sizes of `solved` are taken off.

    The sizes have the prior of a faulty source. A fault that has become unlikely
    (`fault_probability` and the Bayes factor) is dropped. `false_alarm` is the probability of one
    that is proved and none.
    """
    size, ends = sizes_by_key(solved), np.cumsum(
        [0, *(fault.columns.shape[1] for fault in hypotheses)])
    own = [k for k, fault in enumerate(hypotheses) if fault.key in size]
    parts = [np.arange(ends[k], ends[k + 1]) for k in own]
    inside = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    outside = np.setdiff1d(np.arange(ends[-1]), inside)
    others = tuple(fault for k, fault in enumerate(hypotheses) if k not in own)
    now = np.concatenate([np.zeros(0), *(size[hypotheses[k].key] for k in own)])
    prior = np.repeat([_prior(hypotheses[k], config) for k in own], [len(part) for part in parts])
    A, s = scores.information, scores.score
    W = np.linalg.inv(A[np.ix_(inside, inside)] + np.diag(prior))
    cross = A[np.ix_(outside, inside)]
    pull = s[inside] + prior * now
    best = now - W @ pull
    kept = []
    for k, part in zip(own, parts, strict=True):
        # Of this one alone, the other solved ones free: Schur complement.
        at = np.searchsorted(inside, part)
        alone, value = W[np.ix_(at, at)], best[at]
        evidence = 0.5 * (value @ np.linalg.solve(alone, value)
                          + np.linalg.slogdet(prior[at, None] * alone)[1])
        if np.log(config.fault_probability) + evidence > np.log(DROPPED):
            kept.append(_of_size(hypotheses[k], value, evidence > -np.log(false_alarm)))
    beside = Scores(
        A[np.ix_(outside, outside)] - cross @ W @ cross.T, s[outside] - cross @ (W @ pull),
        scores.bare[outside], scores.step[:, outside] - scores.step[:, inside] @ W @ cross.T)
    return SolvedFaults(
        tuple(kept), others, beside, scores.step[:, inside] @ np.linalg.cholesky(W))


def sizes_by_key(solved: Sequence[Fault]) -> dict[tuple[str, str, Span | None], Array]:
    """(c,) sizes of faults that are a part of the map, by the keys of their hypotheses."""
    return {(fault.kind, fault.subject, None if fault.spans == ALWAYS else fault.spans[0]):
            np.array(fault.size) for fault in solved}


def _of_size(fault: Hypothesis, size: Array, proved: bool) -> Fault:
    spans = ALWAYS if fault.span is None else (fault.span,)
    return Fault(fault.kind, fault.subject, tuple(size.tolist()), spans, proved=bool(proved))


def with_likely(
    solved: SolvedFaults, hidden: HiddenFaults, config: IntegrityConfig, variance_factor: float,
    false_alarm: float,
) -> tuple[Fault, ...]:
    """The faults of `solved`, and the likeliest further one if it is likely.

    Of a source that may have erred at several times the likeliest one stands for all. None where
    ranges that are false together explain more: they are left out first.
    """
    likely = hidden.likely(config.fault_probability)
    columns = np.cumsum([0, *(fault.columns.shape[1] for fault in solved.others)])
    # `hidden` has those in the same order that may go on unnoticed.
    suspected = [k for k, fault in enumerate(solved.others) if KINDS[fault.kind].suspicion]
    total: dict[str, float] = {}
    for cause, chance in zip(hidden.causes, likely.tolist(), strict=True):
        total[cause] = total.get(cause, 0.0) + chance
    possible = [
        (total[cause], chance, k) for cause, chance, k in zip(
            hidden.causes, likely.tolist(), suspected, strict=True)
        if KINDS[solved.others[k].kind].in_map and total[cause] > TAKEN]
    if not possible:
        return solved.faults
    best = max(possible)[2]
    A, s = (part / variance_factor for part in (solved.scores.information, solved.scores.score))
    floor = np.repeat([fault.floor for fault in solved.others], np.diff(columns))
    evidence = _lone(
        np.zeros((0, len(s))), A * np.outer(floor, floor), s * floor, np.diff(columns),
        config.fault_size)[2] - np.log([fault.tests for fault in solved.others])
    if any(fault.kind == BURST and more > evidence[best]
           for fault, more in zip(solved.others, evidence.tolist(), strict=True)):
        return solved.faults
    fault, own = solved.others[best], np.arange(columns[best], columns[best + 1])
    size = -np.linalg.solve(
        solved.scores.information[np.ix_(own, own)] + _prior(fault, config) * np.eye(len(own)),
        solved.scores.score[own])
    return (*solved.faults, _of_size(fault, size, evidence[best] > -np.log(false_alarm)))


def _prior(fault: Hypothesis, config: IntegrityConfig) -> float:
    """Precision of the size of a fault, over the square of its unit."""
    return (fault.columns.shape[1] + 2.0) / (config.fault_size * fault.floor) ** 2


def stands_out(hidden: HiddenFaults | None, cause: str, flip_cost: float) -> bool:
    """Whether one lasting fault explains the residuals, and neither another one nor none does.

    By the Bayes factors of all of them: `flip_cost` of chi-square is half of that in logarithms.
    """
    if hidden is None or cause not in hidden.causes:
        return False
    own = hidden.causes.index(cause)
    others = np.append(np.delete(hidden.evidence, own), 0.0)
    return bool(hidden.evidence[own] - np.max(others) >= flip_cost / 2)


def in_words(cause: str) -> str:
    """A cause of `HiddenFaults` for an operator."""
    kind, subject = cause.split(' of ', 1)
    return KINDS[kind].suspicion.format(subject)


def _separations(
    M: Array, A: Array, s: Array, owner: Index, count: Index, size: float
) -> tuple[Array, Array, Array]:
    """Roots of covariances, and shifts; errors are in units of their floors."""
    prior = (count + 2.0)[owner]
    # What the data hardly show may come out below zero by rounding.
    values, vectors = np.linalg.eigh(A)
    A = (vectors * np.maximum(values, 0.0)) @ vectors.T
    root = np.linalg.cholesky(A + np.diag(prior))
    half = scipy.linalg.solve_triangular(root, np.eye(len(A)), lower=True)
    W = half.T @ half
    MW, Ws = M @ W, W @ s
    base = M @ Ws
    added, shift = np.empty_like(M), [base]
    for fault, c in enumerate(count.tolist()):
        block = np.flatnonzero(owner == fault)
        taken = (c + 2.0) * (1 - size ** -2.0)
        inner = np.linalg.inv(np.eye(c) / taken - W[np.ix_(block, block)])
        factor = np.linalg.cholesky((inner + inner.T) / 2)
        added[:, block] = MW[:, block] @ factor
        shift.append(base + added[:, block] @ (factor.T @ Ws[block]))
    return M @ half.T, added, np.stack(shift, axis=1)


def _lone(
    M: Array, A: Array, s: Array, count: Index, size: float
) -> tuple[Array, Array, Array]:
    """Root of what each fault alone adds, shift and evidence; errors in units of their floors."""
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
    return lone, shift, evidence


def _beside(
    A: Array, s: Array, owner: Index, count: Index, size: float, evidence: Array, told: Mask
) -> Array:
    """(h,): evidence of each fault where the likeliest one is there as well, of any size.

    Of those that are `told` the likeliest of these.
    """
    result = evidence.copy()
    for own in (np.arange(len(result)), np.flatnonzero(told)):
        if not len(own):
            continue
        first = owner == own[np.argmax(evidence[own])]
        prior = (np.sum(first) + 2.0) / size**2
        pull = A[:, first] @ np.linalg.inv(
            A[np.ix_(first, first)] + prior * np.eye(np.sum(first)))
        result[own] = _lone(
            np.zeros((0, len(s))), A - pull @ A[first], s - pull @ s[first], count, size)[2][own]
    return result


def _moved(
    graph: Graph, estimate: Estimate, step: Array, rows: Index, spread: Index,
    gauge: int | None,
) -> Array:
    """(r + m + s, d, k): how far poses `rows`, all landmarks and poses `spread` move.

    By each parameter. The gauge pose is at rest, and so are landmarks that are fixed.
    """
    d = graph.dimension
    turns = 1 if d == 2 else 3
    size = d + turns
    blocks = step[: graph.n_poses * size].reshape(graph.n_poses, size, step.shape[1])
    marks = np.zeros((graph.n_landmarks, d, step.shape[1]))
    free = np.flatnonzero(~graph.landmarks.fixed)
    marks[free] = step[graph.n_poses * size:].reshape(len(free), d, step.shape[1])
    moved = np.concatenate([blocks[rows, :d], marks, blocks[spread, :d]])
    if gauge is None:
        return moved
    arm = np.concatenate([
        estimate.translation[rows], estimate.landmarks, estimate.translation[spread],
    ]) - estimate.translation[gauge]
    return np.asarray(moved - blocks[gauge, :d] - rotation_jacobian(arm) @ blocks[gauge, d:])


def _later(graph: Graph, step: Array, rows: Index, gauge: int | None) -> Array:
    """(r, q, k): by how much poses `rows` turn by each parameter, in the layout of `later`."""
    d = graph.dimension
    turns = 1 if d == 2 else 3
    blocks = step[: graph.n_poses * (d + turns)].reshape(graph.n_poses, d + turns, step.shape[1])
    later = np.zeros((len(rows), 2 * turns + 1 + d, step.shape[1]))
    later[:, :turns] = blocks[rows, d:] - (0.0 if gauge is None else blocks[gauge, d:])
    return later


def _growth(
    graph: Graph, estimate: Estimate, rows: Index, robots: Sequence[str],
    kept: Sequence[Hypothesis], owner: Index, moved: Array,
) -> Array:
    """(r, q, k): what faults go on to do, in the layout of `later`; `moved` is what they did.

    A residual r + theta g is zero where the odometry is corrected by -theta, and W s is -theta.
    """
    d, turns = graph.dimension, 1 if graph.dimension == 2 else 3
    growth = np.zeros((len(rows), 2 * turns + 1 + d, len(owner)))
    for column, number in enumerate(owner.tolist()):
        fault = kept[number]
        if fault.span is not None and fault.span[1] == ONGOING:
            growth[:, -d:, column] = moved[:len(rows), :, column] * fault.floor / DRIFT_FLOOR_M
        for robot, (name, row) in enumerate(zip(robots, rows.tolist(), strict=True)):
            if fault.subject not in (name, ALL_ROBOTS):
                continue
            if fault.kind == 'odometry_turn':
                axis = np.ones(1) if turns == 1 else estimate.rotation[row][:, 2]
                growth[robot, turns:2 * turns, column] = fault.floor * axis
            elif fault.kind == 'odometry_scale':
                growth[robot, 2 * turns, column] = fault.floor
    return growth
