"""Sizes of faults that are free beside a map: the best ones, and what is proved of each.

By the linear model of linear_model.py. A fault that the map is solved with has the prior of a
faulty source and is free while the others are judged, so that what stays uncertain of it is in all
that is said (Schur complement). A map without one of them, the further ones being free, is what
other explanations are compared in (undetected.py).

What an operator is told is told by the same evidence. The mean of a Bayes factor is 1 where there
is no fault, so that it exceeds 1 / a with the probability a at most (Markov's inequality): then a
fault is proved. A fault of one source pulls at the residuals of others: so the likeliest one that
is no part of the map is free as well, and the others are judged again beside it, until none is
proved (fault detection and exclusion of satellite navigation, with estimation in place of
exclusion).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from .faults import ALWAYS, KINDS, Fault
from .hypotheses import Hypothesis
from .linear_model import Scores

DROPPED = 0.1
"""Odds below which the map is no longer solved with the size of a fault, as it is above one."""
_SCALES = (1.0, 4.0, 16.0)
"""Factors, equally likely, on the standard deviation of sizes of what no map is solved with: ranges
of another robot, moves and jumps may be of any size."""
_MOST = 6
"""Faults beside the map that are named at once; with more than that the map itself is in doubt."""


@dataclass(frozen=True)
class Sized:
    """A fault with its best size, beside others whose sizes are free."""

    number: int
    """Among all hypotheses."""
    fault: Hypothesis
    size: Array
    """(c,): in the units of its parameters."""
    gain: float
    """Half of the chi-square that it explains."""
    evidence: float
    """Logarithm of how much likelier the data are with it than without."""
    scale: float = 1.0
    """One of _SCALES: the likeliest."""

    def proved(self, false_alarm: float) -> bool:
        """Whether it is one by what is beyond its floor; `false_alarm`: probability if none is."""
        size = float(np.linalg.norm(self.size))
        if len(self.size) == 1 and not self.fault.least < self.size[0] < self.fault.most:
            return False
        beyond = max(1.0 - self.fault.floor / size, 0.0) if size > 0 else 0.0
        return self.evidence - self.gain * (1.0 - beyond**2) > -np.log(false_alarm)

    def taken_off(self, false_alarm: float) -> Fault:
        """As a treatment has it: what is within the floor of a fault is taken off and told, too."""
        spans = ALWAYS if self.fault.span is None else (self.fault.span,)
        return Fault(self.fault.kind, self.fault.subject, tuple(self.size.tolist()), spans,
                     proved=bool(self.evidence > -np.log(false_alarm)))


@dataclass(frozen=True)
class Without:
    """A map without one of the faults that it is solved with."""

    fault: Hypothesis
    size: Array
    """(c,): what is taken off the measurements."""
    scores: Scores
    """Of this fault, then of the others, the further solved sizes being free within their prior."""


@dataclass(frozen=True)
class SolvedFaults:
    """Faults whose sizes the map is solved with, and what the others are beside these."""

    kept: tuple[Sized, ...]
    """With their best sizes; without those that have become unlikely."""
    others: tuple[Sized, ...]
    """Each alone beside the solved ones."""
    scores: Scores
    """Of the others, the solved sizes being free within their prior."""
    free: tuple[Hypothesis, ...]
    """Those whose sizes are free: the solved ones."""
    step: Array
    """(n, q): how their sizes move the unknowns."""
    root: Array
    """(q, q): of the covariance of the sizes."""
    without: tuple[Without, ...]
    """One for each of those that are kept."""


def solved_faults(
    scores: Scores, hypotheses: Sequence[Hypothesis], solved: Sequence[Fault],
    config: IntegrityConfig,
) -> SolvedFaults:
    """At an estimate of a graph from whose measurements the sizes of `solved` are taken off.

    The sizes have the prior of a faulty source. A fault that has become unlikely
    (`fault_probability` and the Bayes factor) is dropped.
    """
    numbers = {fault.key: number for number, fault in enumerate(hypotheses)}
    taken_off = {numbers[fault.key]: np.array(fault.size)
                 for fault in solved if fault.key in numbers}
    sizes = _FreeSizes(scores, hypotheses, taken_off, config)
    kept, without = [], []
    for sized in sizes.free():
        if np.log(config.fault_probability) + sized.evidence > np.log(DROPPED):
            own = sizes.part(sized.number)
            kept.append(sized)
            without.append(Without(sized.fault, taken_off[sized.number], sizes.eliminated(
                np.setdiff1d(sizes.inside, own), np.append(own, sizes.outside))[0]))
    return SolvedFaults(
        tuple(kept), tuple(sizes.others()), sizes.beside,
        tuple(hypotheses[number] for number in sorted(taken_off)), scores.step[:, sizes.inside],
        np.asarray(np.linalg.cholesky(sizes.covariance), dtype=float), tuple(without))


def proved_faults(
    scores: Scores, hypotheses: Sequence[Hypothesis], taken_off: Mapping[int, Array],
    nameable: Collection[int], config: IntegrityConfig, false_alarm: float,
) -> list[Sized]:
    """Faults that the data prove beside each other, the likeliest first.

    `taken_off` are sizes by number of faults that are free, `nameable` the numbers of others which
    may be proved; `false_alarm` is the probability of one that is proved and none.
    """
    free, scores = dict(taken_off), replace(scores, step=scores.step[:0])
    scales: dict[int, float] = {}
    while True:
        sizes = _FreeSizes(scores, hypotheses, free, config, scales)
        best = max((other for other in sizes.others()
                    if other.number in nameable and other.proved(false_alarm)),
                   key=lambda other: other.evidence, default=None)
        if best is None or len(free) - len(taken_off) == _MOST:
            break
        free[best.number], scales[best.number] = np.zeros(len(best.size)), best.scale
    return sorted((sized for sized in sizes.free() if sized.proved(false_alarm)),
                  key=lambda sized: -sized.evidence)


class _FreeSizes:
    """Parameters of hypotheses of which some have sizes that are free within their prior.

    `taken_off` has by number the sizes of these that measurements are without, `scales` factors on
    the standard deviations of priors that are not 1.
    """

    def __init__(
        self, scores: Scores, hypotheses: Sequence[Hypothesis], taken_off: Mapping[int, Array],
        config: IntegrityConfig, scales: Mapping[int, float] | None = None,
    ) -> None:
        self._scores, self._hypotheses, self._numbers = scores, hypotheses, sorted(taken_off)
        count = [fault.columns.shape[1] for fault in hypotheses]
        self._ends = np.cumsum([0, *count])
        self._prior = np.repeat([
            prior_of(fault, config) / (scales or {}).get(number, 1.0)**2
            for number, fault in enumerate(hypotheses)], count)
        self._now = np.zeros(self._ends[-1])
        for number, size in taken_off.items():
            self._now[self.part(number)] = size
        self.inside: Index = np.concatenate([
            np.zeros(0, dtype=np.int64), *(self.part(number) for number in self._numbers)])
        """Parameters that are free."""
        self.outside: Index = np.setdiff1d(np.arange(self._ends[-1]), self.inside)
        self.beside, self.covariance, self._best = self.eliminated(self.inside, self.outside) \
            if len(self.inside) else (scores, np.zeros((0, 0)), np.zeros(0))
        """Scores of the others beside the free ones, and the covariance of these."""

    def part(self, number: int) -> Index:
        """Parameters of a hypothesis."""
        return np.arange(self._ends[number], self._ends[number + 1])

    def eliminated(self, free: Index, rest: Index) -> tuple[Scores, Array, Array]:
        """Scores of parameters `rest` beside free ones; covariance and best values of these."""
        scores, now = self._scores, self._now[free]
        A, s, prior = scores.information, scores.score, self._prior[free]
        W = np.asarray(np.linalg.inv(A[np.ix_(free, free)] + np.diag(prior)), dtype=float)
        cross = A[np.ix_(rest, free)]
        pull = s[free] + prior * now
        return Scores(
            A[np.ix_(rest, rest)] - cross @ W @ cross.T, s[rest] - cross @ (W @ pull),
            scores.bare[rest], scores.step[:, rest] - scores.step[:, free] @ W @ cross.T,
        ), W, now - W @ pull

    def free(self) -> list[Sized]:
        """Those that are free, each beside the others of them."""
        sized = []
        for number in self._numbers:
            part, fault = self.part(number), self._hypotheses[number]
            own = np.searchsorted(self.inside, part)
            W, size = self.covariance[np.ix_(own, own)], self._best[own]
            gain = float(size @ np.linalg.solve(W, size)) / 2
            occam = float(np.linalg.slogdet(self._prior[part, None] * W)[1]) / 2
            # One of several times was picked for its residuals; each is as likely beforehand.
            sized.append(Sized(number, fault, size, gain, gain + occam - np.log(fault.tests)))
        return sized

    def others(self) -> list[Sized]:
        """Those that are not, each alone beside the free ones: all with as many parameters at once.
        """
        rest = np.setdiff1d(np.arange(len(self._hypotheses)), self._numbers)
        count, scale, sized = np.diff(self._ends)[rest], np.array(_SCALES), list[Sized]()
        for c in np.unique(count).tolist():
            numbers = rest[count == c]
            faults = [self._hypotheses[number] for number in numbers.tolist()]
            part = self._ends[numbers][:, None] + np.arange(c)
            own = np.searchsorted(self.outside, part)
            s = self.beside.score[own][:, None]
            prior = self._prior[part][:, None] / scale[:, None]**2
            W = np.linalg.inv(self.beside.information[own[:, :, None], own[:, None]][:, None]
                              + prior[..., None] * np.eye(c))
            size = -np.einsum('...ij,...j->...i', W, np.broadcast_to(s, prior.shape))
            gain = -np.sum(size * s, axis=-1) / 2
            evidence = gain + np.linalg.slogdet(prior[..., None] * W)[1] / 2 - np.log(
                [[fault.tests] for fault in faults])
            # What a map is solved with has the first scale, the others each as likely.
            in_map = np.array([KINDS[fault.kind].in_map for fault in faults])
            evidence[in_map, 1:] = -np.inf
            total = np.logaddexp.reduce(evidence, axis=1) - np.where(in_map, 0, np.log(len(scale)))
            best = np.argmax(evidence, axis=1).tolist()
            sized += [
                Sized(number, fault, size[k, at], float(gain[k, at]), float(total[k]), _SCALES[at])
                for k, (number, fault, at) in enumerate(
                    zip(numbers.tolist(), faults, best, strict=True))]
        return sorted(sized, key=lambda other: other.number)


def prior_of(fault: Hypothesis, config: IntegrityConfig) -> float:
    """Precision of the size of a fault, over the square of its unit."""
    return (fault.columns.shape[1] + 2.0) / (config.fault_size * fault.floor) ** 2
