"""Faults whose sizes the map is solved with: their best sizes, and what the others are beside them.

Of the linear model of linear_model.py, at a map from whose measurements sizes are taken off: those
that are solved for have the prior of a faulty source and are free while the others are judged, so
that what stays uncertain of them is in all that is said (Schur complement). A map without one of
them, the further ones being free, is what other explanations are compared in (undetected.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index
from ...config.backend_config import IntegrityConfig
from .faults import ALWAYS, Fault
from .hypotheses import Hypothesis, Span
from .linear_model import Scores

DROPPED = 0.1
"""Odds below which the map is no longer solved with the size of a fault, as it is above one."""


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
    """Faults whose size the map is solved with, and what the others are beside these."""

    faults: tuple[Fault, ...]
    """With their best sizes; without those that have become unlikely."""
    others: tuple[Hypothesis, ...]
    scores: Scores
    """Of the others, the solved sizes being free within their prior."""
    root: Array
    """(n, q): how the sizes move the unknowns, times a root of their covariance."""
    without: tuple[Without, ...]
    """One for each of the faults."""


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
    prior = np.repeat([prior_of(hypotheses[k], config) for k in own], [len(part) for part in parts])
    beside, W, best = _with_free(scores, inside, outside, prior, now)
    kept, without = [], []
    for k, part in zip(own, parts, strict=True):
        # Of this one alone, the other solved ones free: Schur complement.
        at = np.searchsorted(inside, part)
        alone, value = W[np.ix_(at, at)], best[at]
        evidence = 0.5 * (value @ np.linalg.solve(alone, value)
                          + np.linalg.slogdet(prior[at, None] * alone)[1])
        if np.log(config.fault_probability) + evidence > np.log(DROPPED):
            kept.append(of_size(hypotheses[k], value, evidence > -np.log(false_alarm)))
            free = ~np.isin(inside, part)
            without.append(Without(hypotheses[k], now[at], _with_free(
                scores, inside[free], np.append(part, outside), prior[free], now[free])[0]))
    return SolvedFaults(
        tuple(kept), others, beside, scores.step[:, inside] @ np.linalg.cholesky(W),
        tuple(without))


def _with_free(
    scores: Scores, free: Index, rest: Index, prior: Array, now: Array
) -> tuple[Scores, Array, Array]:
    """Scores of parameters `rest`, others being free; covariance and best values of these.

    Measurements have the values `now` of these taken off; `prior` are precisions of zero.
    """
    A, s = scores.information, scores.score
    W = np.asarray(np.linalg.inv(A[np.ix_(free, free)] + np.diag(prior)), dtype=float)
    cross = A[np.ix_(rest, free)]
    pull = s[free] + prior * now
    return Scores(
        A[np.ix_(rest, rest)] - cross @ W @ cross.T, s[rest] - cross @ (W @ pull),
        scores.bare[rest], scores.step[:, rest] - scores.step[:, free] @ W @ cross.T,
    ), W, now - W @ pull


def sizes_by_key(solved: Sequence[Fault]) -> dict[tuple[str, str, Span | None], Array]:
    """(c,) sizes of faults that are a part of the map, by the keys of their hypotheses."""
    return {(fault.kind, fault.subject, None if fault.spans == ALWAYS else fault.spans[0]):
            np.array(fault.size) for fault in solved}


def of_size(fault: Hypothesis, size: Array, proved: bool) -> Fault:
    """A fault of a size (c,), in the units of its parameters, as a treatment has it."""
    spans = ALWAYS if fault.span is None else (fault.span,)
    return Fault(fault.kind, fault.subject, tuple(size.tolist()), spans, proved=bool(proved))


def prior_of(fault: Hypothesis, config: IntegrityConfig) -> float:
    """Precision of the size of a fault, over the square of its unit."""
    return (fault.columns.shape[1] + 2.0) / (config.fault_size * fault.floor) ** 2
