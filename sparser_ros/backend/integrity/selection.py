"""Which faults explain the residuals: forward selection over score tests.

A fault of one source pulls at the residuals of others. So the fault that explains most is taken
first and the others are tested again beside it, until none is significant (fault detection and
exclusion of satellite navigation, with estimation in place of exclusion).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.special import chdtri

from ...array_types import Array, Index
from .hypotheses import Hypothesis
from .linear_model import LinearModel, Scores

_MOST = 6
"""Faults named at once; with more sources wrong than that, the map itself is in doubt."""
DETERMINED = 1e-6
"""Share of a parameter's information that the free unknowns must leave for it to be testable."""


def scores_of(model: LinearModel, hypotheses: Sequence[Hypothesis]) -> Scores:
    """The scores of all hypotheses, one after the other."""
    none = sp.csc_matrix((len(model.residual), 0))
    scores = model.scores(sp.hstack([none, *(fault.columns for fault in hypotheses)], format='csc'))
    blur = np.repeat([fault.blur for fault in hypotheses],
                     [fault.columns.shape[1] for fault in hypotheses])
    return replace(scores, information=scores.information + np.diag(blur))


def gains_alone(scores: Scores, hypotheses: Sequence[Hypothesis]) -> Array:
    """(h,): chi-square that each fault explains beside no other; 0 where it is not determined."""
    gains, begin = np.zeros(len(hypotheses)), 0
    for k, fault in enumerate(hypotheses):
        own = np.arange(begin, begin + fault.columns.shape[1])
        begin += len(own)
        A, s = scores.information[np.ix_(own, own)], scores.score[own]
        if len(own) and np.linalg.eigvalsh(A)[0] > DETERMINED * scores.bare[own].min():
            gains[k] = s @ np.linalg.solve(A, s)
    return gains


def selected(
    scores: Scores, hypotheses: Sequence[Hypothesis], false_alarm: float,
    unlikely: Collection[int] = (),
) -> list[tuple[Hypothesis, Array, float]]:
    """(fault, its estimated parameters, chi-square explained), most explaining first.

    `scores` are those of `scores_of`; `false_alarm` is the probability that one hypothesis of a
    faultless source passes. `unlikely` are numbers of hypotheses that are not to be taken.
    """
    if not hypotheses:
        return []
    ends = np.cumsum([one.columns.shape[1] for one in hypotheses])
    parts = [np.arange(e - h.columns.shape[1], e) for e, h in zip(ends, hypotheses, strict=True)]
    information, score, bare = scores.information, scores.score, scores.bare
    chosen: list[int] = []
    gains: list[float] = []
    while len(chosen) < _MOST:
        best, gain = _next(
            information, score, bare, parts, hypotheses, chosen, unlikely, false_alarm)
        if best < 0:
            break
        chosen.append(best)
        gains.append(gain)
    if not chosen:
        return []
    held = np.concatenate([parts[k] for k in chosen])
    theta = -np.linalg.solve(information[np.ix_(held, held)], score[held])
    sizes = np.cumsum([len(parts[k]) for k in chosen])[:-1]
    return [(hypotheses[k], part, gain) for k, part, gain in zip(
        chosen, np.split(theta, sizes), gains, strict=True)]


def _next(
    information: Array, score: Array, bare: Array, parts: Sequence[Index],
    hypotheses: Sequence[Hypothesis], chosen: Sequence[int], unlikely: Collection[int],
    false_alarm: float,
) -> tuple[int, float]:
    """The significant fault that explains most beside the chosen ones; -1 = none."""
    held = np.concatenate([parts[k] for k in chosen]) if chosen else np.zeros(0, dtype=np.int64)
    S = information[np.ix_(held, held)]
    best, most = -1, 0.0
    for k, (own, one) in enumerate(zip(parts, hypotheses, strict=True)):
        if k in chosen or k in unlikely:
            continue
        cross = information[np.ix_(own, held)]
        A, s = information[np.ix_(own, own)], score[own]
        if len(held):
            A = A - cross @ np.linalg.solve(S, cross.T)
            s = s - cross @ np.linalg.solve(S, score[held])
        if np.linalg.eigvalsh(A)[0] <= DETERMINED * bare[own].min():
            continue
        theta = -np.linalg.solve(A, s)
        if len(theta) == 1 and not one.least < theta[0] < one.most:
            continue
        gain = float(-theta @ s)
        size = float(np.linalg.norm(theta))
        # Of the interval null hypothesis only the part beyond the floor counts.
        beyond = gain * (max(size - one.floor, 0.0) / max(size, 1e-300)) ** 2
        if beyond > chdtri(len(own), false_alarm / one.tests) and gain > most:
            best, most = k, gain
    return best, most
