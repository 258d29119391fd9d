"""The gate before publishing: whether the newest data agree with the map, robot by robot.

One test of fit, at every tick. Of the residuals z of a robot's measurements, in standard deviations
as they scatter, a share u is usually wrong, and k times as large: their density is
f_u = (1 - u) N(0, 1) + u N(0, k^2). Under a fault that goes on a share p is wrong,
1 - p = (1 - u) / 4. The likelihood ratio of the newest n measurements,

    E(n) = prod L(z_i) / c,   L = f_p / f_u,   c = (1 - u) E[L | right] + u max L,   max L = p / u,

has at most the mean 1, however large the wrong ones are: an e-process. The largest over all n is an
e-detector (Shin, Ramdas and Rinaldo 2023): that it exceeds 1 / a takes 1 / a measurements on the
average, however often one looks. As in a sequential test of Wald, newest measurements whose
evidence falls below b exclude a fault that goes on, and those before them say no more. A usual
share of more than one half denies every map: robust estimates have no guarantee then.

Misfits that are no surprise one by one may be those of one displacement: odometry has not held
since some time, and the robot is not where it has it. Each begin is a hypothesis with a Bayes
factor: the displacement is estimated robustly, its prior the way that the robot may have driven,
and integrated out around its best value (Laplace). Right residuals have the density (1 - u) N(0, 1)
and wrong ones u / k of its peak, whatever their size. So the risk is one of hidden faults
(undetected.py), of a fault that shows by what came since the audit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, softmax

from ...array_types import Array, Mask

_RIGHT_LEFT = 0.25
"""Of the share of right measurements, what is left of it under a fault."""
_WIDER = 5.0
"""k: size of wrong measurements over that of right ones."""
_GRID = np.linspace(-8.0, 8.0, 161)
"""Values of z over which the mean of right measurements is summed."""
_UNUSUAL = 1e-4
"""False alarms by measurements: one costs the seconds until the robot fits again."""
_EXCLUDED = 0.01
"""Evidence below which the newest measurements are right."""
_HALF = 0.5
"""Share of misfits beyond which robust estimates have no guarantee, however usual it is."""
MOST = 200
"""So many of the newest measurements of a robot are looked at: the rest says nothing of now."""
ORDINARY_SHARE = 0.1
"""Share of wrong measurements that is taken for granted where fewer were seen."""
_BEGINS = 24
"""Numbers of newest measurements since which odometry may not hold, from one to all."""
_WIDTHS, _ROUNDS = 4.0 ** np.arange(6, -1, -1), 3
"""Factors on the variance with which a displacement is estimated, one after the other, and rounds
for each: at first residuals of 64 standard deviations count."""


def denying(size: Array, usual: float) -> Mask:
    """(n,): of the newest measurements that deny a map together, which do not fit; n = 0: none do.

    `size` (k,) are absolute residuals in standard deviations, newest first, `usual` the share of
    those that do not fit at other times.
    """
    ratio = _log_ratio(size[:MOST], min(max(usual, ORDINARY_SHARE), _HALF))
    count = len(ratio)
    if usual <= _HALF:
        evidence = np.cumsum(ratio)
        evidence = evidence[np.minimum.accumulate(evidence) > np.log(_EXCLUDED)]
        count = int(np.argmax(evidence)) + 1 if np.any(evidence > -np.log(_UNUSUAL)) else 0
    return np.asarray(ratio[:count] > 0)


def _log_ratio(z: Array, usual: float) -> Array:
    """(k,): logarithm of L / c."""
    wrong = 1 - _RIGHT_LEFT * (1 - usual)

    def ratio(at: Array) -> Array:
        # Of the density of right measurements to that of wrong ones.
        likely = _WIDER * np.exp(-(1 - _WIDER**-2) / 2 * np.minimum(at, 1e3)**2)
        return np.asarray(((1 - wrong) * likely + wrong) / ((1 - usual) * likely + usual))

    mean = np.average(ratio(_GRID), weights=np.exp(-_GRID**2 / 2))
    return np.asarray(np.log(ratio(z) / ((1 - usual) * mean + wrong)))


def beyond(shift: Array, covariance: Array, limit: float) -> Array:
    """(h,): probability that N(shift, covariance), (h, d) and (h, d, d), is longer than `limit`.

    By three moments of the squared length (Pearson, Biometrika 46, 1959).
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-18)
    square = np.einsum('hij,hi->hj', vectors, shift) ** 2
    first, second, third = (
        np.sum(values**k + k * values**(k - 1) * square, axis=1) for k in (1, 2, 3))
    degrees = second**3 / third**2
    at = (limit**2 - first) * np.sqrt(degrees / second) + degrees
    return np.where(at > 0, chdtrc(degrees, np.maximum(at, 0.0)), 1.0)


@dataclass(frozen=True)
class Astray:
    """Displacement of a robot from where its odometry has it, by its newest ranges."""

    risk: float
    """Probability that it is longer than a limit."""
    probability: float
    """Probability that the odometry has not held since some time."""
    seconds: float
    """Age of the begin with the largest risk."""
    metres: float
    """Length of the displacement since then."""


def astray(
    error: Array, slope: Array, ago_s: Array, speed: float, usual: float, limit: float, prior: float
) -> Astray:
    """Whether the newest ranges of a robot are as if its odometry has not held since some time.

    `error` (k,) are whitened residuals, newest first, `slope` (k, d) their derivatives by its place
    and `ago_s` (k,) their ages; `prior` is the probability of such a fault.
    """
    usual, d = min(max(usual, ORDINARY_SHARE), _HALF), slope.shape[1]
    count = np.unique(np.geomspace(1, len(error), _BEGINS).astype(np.int64))
    newest = np.arange(len(error)) < count[:, None]
    reach = (speed * ago_s[count - 1] + limit)[:, None, None]
    square = np.einsum('ki,kj->kij', slope, slope)
    moved = np.zeros((len(count), d))

    def right(z: Array, width: float) -> Array:
        return np.asarray((1 - usual) * np.exp(-np.minimum(z**2 / width, 1e3) / 2))

    wrong = usual / _WIDER
    for width in np.repeat(_WIDTHS, _ROUNDS).tolist():
        likely = right(error + moved @ slope.T, width)
        weight = newest * likely / (likely + wrong)
        information = np.einsum('nk,kij->nij', weight, square) + width * np.eye(d) / reach**2
        pull = np.einsum('nk,ki->ni', weight * error, slope)
        moved = -np.linalg.solve(information, pull[:, :, None])[:, :, 0]
    gain = np.sum(newest * np.log((right(error + moved @ slope.T, 1.0) + wrong) / (
        right(error, 1.0) + wrong)), axis=1)
    reach = reach[:, 0, 0]
    log_evidence = gain - np.sum(moved**2, axis=1) / 2 / reach**2 - d * np.log(
        reach) - np.linalg.slogdet(information)[1] / 2
    likely = softmax(np.append(0.0, np.log(prior / len(count)) + log_evidence))[1:]
    risk = likely * beyond(moved, np.linalg.inv(information), limit)
    worst = int(np.argmax(risk))
    return Astray(float(np.sum(risk)), float(np.sum(likely)), float(ago_s[count[worst] - 1]),
                  float(np.linalg.norm(moved[worst])))


def misfit_words(robot: str, misfit: Mask) -> str:
    """For a robot that so many newest measurements deny."""
    return (f'{int(np.sum(misfit))} of the {len(misfit)} newest measurements of {robot} do not '
            'fit: they or its odometry are wrong')
