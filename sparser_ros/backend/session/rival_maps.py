"""Robots that another map, which fits about as well, has elsewhere.

About as well: its chi-square is larger by less than `observability.flip_cost`. Or it is as good if
a source is at fault, as long as nothing proves that fault: an odometry 10 % too long can make the
wrong one of two places fit better by 30. Integrated over the faults that may hide (undetected.py),
each with the prior probability P (`integrity.fault_probability`) and the evidence B_i at a map,
the data are likelier by 1 + sum P B_i than chi-square says, so the other map has the odds

    exp(-gap / 2) (1 + sum P B_i there) / (1 + sum P B_i here).

It leaves what it has elsewhere ambiguous while these are above P: what is rarer adds less to the
risk than faults that no data show. A robot that only those faults move away, in that map, is so
with the probability of both, and `observability.integrity_risk` bounds it as in the present map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logsumexp, softmax

from ...array_types import Array
from ..integrity.undetected import HiddenFaults, in_words
from .contest import Candidate, Contest
from .solution import Location
from .verdict import SegmentVerdict

if TYPE_CHECKING:
    from ...config.backend_config import BackendConfig

MOST_EXAMINED = 2
"""Maps of an audit that are looked at with faults, those of least cost: each takes a model."""
FaultsOf = Callable[[Candidate], 'HiddenFaults | None']
"""What may hide at a map."""


def with_rivals(
    verdicts: tuple[SegmentVerdict, ...], contest: Contest, config: BackendConfig,
    hidden: HiddenFaults | None, faults_of: FaultsOf,
) -> tuple[SegmentVerdict, ...]:
    """Segments of which another candidate has the newest pose elsewhere are ambiguous.

    Elsewhere: further away than the alert limit, as for other placements. `hidden` are the faults
    that may hide at the best candidate.
    """
    best, result = contest.best, list(verdicts)
    accepted = config.observability
    for rival in contest.rivals(accepted.flip_cost):
        words = (f'another map fits about as well (chi-square {rival.value:.1f} instead of '
                 f'{best.value:.1f})')
        away = np.linalg.norm(_moves(contest, rival), axis=1)
        for number, verdict in enumerate(result):
            result[number] = verdict = replace(
                verdict, apart_m=max(verdict.apart_m, float(away[number])))
            if verdict.location is Location.LOCATED and away[number] > accepted.alert_limit_m:
                result[number] = _ambiguous(verdict, words, away[number])
    if hidden is not None and config.integrity.gate:
        for rival in _different(contest, accepted.alert_limit_m)[:MOST_EXAMINED]:
            if any(one.location is Location.LOCATED for one in result):
                result = _with_faults(result, contest, rival, config, hidden, faults_of(rival))
    return tuple(result)


def _different(contest: Contest, limit_m: float) -> list[Candidate]:
    """Candidates that have something elsewhere than the best one, that of least cost first."""
    best = contest.best
    others = [one for one in contest.candidates
              if one is not best and np.isfinite(one.value)
              and np.max(np.linalg.norm(_moves(contest, one), axis=1)) > limit_m]
    return sorted(others, key=lambda one: one.value)


def _with_faults(
    verdicts: list[SegmentVerdict], contest: Contest, rival: Candidate, config: BackendConfig,
    here: HiddenFaults, there: HiddenFaults | None,
) -> list[SegmentVerdict]:
    """Verdicts beside one map that a fault may make as good as the best one."""
    prior, limit = config.integrity.fault_probability, config.observability.alert_limit_m
    if there is None:
        return verdicts
    gains = [float(logsumexp(one.log_odds(prior))) for one in (here, there)]
    log_odds = (contest.best.value - rival.value) / 2 + gains[1] - gains[0]
    if log_odds < np.log(prior):
        return verdicts
    share, likely = float(expit(log_odds)), softmax(there.log_odds(prior))
    result, moves = list(verdicts), _moves(contest, rival)
    newest = {one.robot: number for number, one in enumerate(verdicts)}
    for number, one in enumerate(verdicts):
        row = there.place(one.robot) if newest[one.robot] == number else -1
        shifts = np.zeros((len(likely), moves.shape[1]))
        if row >= 0:
            shifts[1:] = there.lone_shift[row].T
        away = np.linalg.norm(moves[number] + shifts, axis=1)
        risk = likely * (away > limit)
        if one.location is Location.LOCATED and (
                away[0] > limit or share * np.sum(risk) > config.observability.integrity_risk):
            cause = int(np.argmax(likely if away[0] > limit else risk))
            result[number] = _ambiguous(one, _reason(there, cause), away[cause])
    return result


def _reason(there: HiddenFaults, cause: int) -> str:
    """In words; cause 0 is none."""
    words = 'another map fits about as well'
    return f'if {in_words(there.causes[cause - 1])}, {words}' if cause else words


def _ambiguous(verdict: SegmentVerdict, words: str, apart_m: float) -> SegmentVerdict:
    return replace(verdict, location=Location.AMBIGUOUS,
                   missing=f'{words} and has it {apart_m:.1f} m away')


def _moves(contest: Contest, rival: Candidate) -> Array:
    """(b, d): from the newest pose of each segment in the best map to that in another, metres."""
    last = contest.frame.segments.last
    return np.asarray(rival.whole.translation[last] - contest.best.whole.translation[last])
