"""Which faults explain the residuals: forward selection over score tests.

A fault of one source pulls at the residuals of others. So the fault that explains most is taken
first and the others are tested again beside it, until none is significant (fault detection and
exclusion of satellite navigation, with estimation in place of exclusion).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
    return model.scores(sp.hstack([none, *(fault.columns for fault in hypotheses)], format='csc'))


def gains_alone(scores: Scores, hypotheses: Sequence[Hypothesis]) -> Array:
    """(h,): chi-square that each fault explains beside no other; 0 where it is not determined."""
    none = np.zeros(0, dtype=np.int64)
    return np.array([_best(scores, own, none)[1] for own in _parts(hypotheses)])


def _parts(hypotheses: Sequence[Hypothesis]) -> list[Index]:
    """Parameters of each hypothesis."""
    ends = np.cumsum([fault.columns.shape[1] for fault in hypotheses])
    return [np.arange(e - h.columns.shape[1], e) for e, h in zip(ends, hypotheses, strict=True)]


def _best(scores: Scores, own: Index, held: Index) -> tuple[Array, float]:
    """The best parameters, those held being free as well, and the chi-square that they explain.

    None, and 0, where they are not determined.
    """
    A, s = scores.information[np.ix_(own, own)], scores.score[own]
    if len(held):
        cross, S = scores.information[np.ix_(own, held)], scores.information[np.ix_(held, held)]
        A = A - cross @ np.linalg.solve(S, cross.T)
        s = s - cross @ np.linalg.solve(S, scores.score[held])
    if not len(own) or np.linalg.eigvalsh(A)[0] <= DETERMINED * scores.bare[own].min():
        return np.zeros(0), 0.0
    theta = -np.asarray(np.linalg.solve(A, s), dtype=float)
    return theta, float(-theta @ s)


def selected(
    scores: Scores, hypotheses: Sequence[Hypothesis], false_alarm: float,
    unlikely: Collection[int] = (),
) -> list[tuple[Hypothesis, Array, float]]:
    """(fault, its estimated parameters, chi-square explained), most explaining first.

    `scores` are those of `scores_of`; `false_alarm` is the probability that one hypothesis of a
    faultless source passes. `unlikely` are numbers of hypotheses that are not to be taken.
    """
    parts = _parts(hypotheses)
    chosen: list[int] = []
    gains: list[float] = []
    held = np.zeros(0, dtype=np.int64)
    while len(chosen) < _MOST:
        best, most = -1, 0.0
        for k, (own, fault) in enumerate(zip(parts, hypotheses, strict=True)):
            if k in chosen or k in unlikely:
                continue
            theta, gain = _best(scores, own, held)
            if gain <= most or (len(theta) == 1 and not fault.least < theta[0] < fault.most):
                continue
            size = float(np.linalg.norm(theta))
            # Of the interval null hypothesis only the part beyond the floor counts.
            beyond = gain * (max(size - fault.floor, 0.0) / max(size, 1e-300)) ** 2
            if beyond > chdtri(len(own), false_alarm / fault.tests):
                best, most = k, gain
        if best < 0:
            break
        chosen.append(best)
        gains.append(most)
        held = np.concatenate([held, parts[best]])
    if not chosen:
        return []
    estimated = -np.linalg.solve(scores.information[np.ix_(held, held)], scores.score[held])
    sizes = np.cumsum([len(parts[k]) for k in chosen])[:-1]
    return [(hypotheses[k], part, gain) for k, part, gain in zip(
        chosen, np.split(estimated, sizes), gains, strict=True)]
