"""Ranges over blocked paths, told apart by sign, size and what their neighbours say.

A path is clear or blocked for a while. A range over a clear one has normal noise; over a blocked
one it is longer by an exponentially distributed length. The state of each pair of radios is a
Markov chain in time, so that a burst of ranges which are all a little too long is seen although
none of them alone would be. Probabilities are those of the forward-backward algorithm (Baum and
others 1970); least squares weighted with them is a step of expectation maximisation.

A symmetric kernel leaves a bias here: what it does not reject of ranges that are too long has no
counterpart among those that are too short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from ..array_types import Array, Index, Mask
from ..graph.range_ends import RangeEnds

PERSISTENCE_S = 5.0
"""Mean time that a path stays as it is: a robot or a person that passes takes seconds."""
EXCESS_M = 1.0
"""Mean excess of a blocked range; indoor surveys of UWB radios find 0.3 to 3 m."""
LEAST_SIGMAS = 5.0
"""Least mean excess in standard deviations of the noise: what is no longer than the noise is not
told from it, and a share of such ranges would take the place of a bias."""
_GROSS_SHARE = 0.1
"""Of the blocked ranges so many are off by anything, either way: decoding errors, other radios."""
_GROSS_M = 10.0
_PRIOR = (1.0, 19.0)
"""Share of blocked ranges before the data: as if 1 of 20 had been seen."""
_MOST = 0.5
"""With a larger share clear and blocked paths would change their parts."""
_TURNS = 4
"""Estimates of the share; it converges by the share that is uncertain, a few per cent a turn."""


@dataclass(frozen=True)
class BlockedPaths:
    """What is believed of each range."""

    clear: Array
    """(k,): probability that its path was clear."""
    share: float
    """Of blocked ranges."""
    log_likelihood: float
    """Natural logarithm, of all residuals, at `share`."""


def blocked_paths(
    ends: RangeEnds, excess_m: Array, sigma_m: Array, share: float = _PRIOR[0] / sum(_PRIOR),
    turns: int = _TURNS,
) -> BlockedPaths:
    """Probabilities from residuals measured minus predicted (k,) and standard deviations (k,)."""
    if not len(excess_m):
        return BlockedPaths(np.ones(0), share, 0.0)
    grid = _Grid.of(ends)
    emission = np.stack([clear_density(excess_m, sigma_m), blocked_density(excess_m, sigma_m)])
    for _ in range(turns):
        clear, _ = _smoothed(grid, emission, share)
        share = (float(np.sum(1 - clear)) + _PRIOR[0]) / (len(clear) + sum(_PRIOR))
        share = min(share, _MOST)
    clear, likelihood = _smoothed(grid, emission, share)
    return BlockedPaths(clear, share, likelihood)


def clear_density(excess_m: Array, sigma_m: Array) -> Array:
    """Logarithm of the normal density, 1/m."""
    return np.asarray(
        -0.5 * (excess_m / sigma_m) ** 2 - np.log(sigma_m) - 0.5 * np.log(2 * np.pi))


def blocked_density(excess_m: Array, sigma_m: Array) -> Array:
    """Logarithm of the density of exponential excess plus noise, or of a gross error, 1/m."""
    mean = np.maximum(EXCESS_M, LEAST_SIGMAS * sigma_m)
    long = (-np.log(mean) + 0.5 * (sigma_m / mean) ** 2 - excess_m / mean
            + log_ndtr(excess_m / sigma_m - sigma_m / mean))
    gross = -np.log(2 * _GROSS_M) - np.abs(excess_m) / _GROSS_M
    return np.asarray(np.logaddexp(
        np.log1p(-_GROSS_SHARE) + long, np.log(_GROSS_SHARE) + gross))


@dataclass(frozen=True)
class _Grid:
    """Ranges by their place in time (rows, t) and their pair (columns, q)."""

    row: Index
    column: Index
    taken: Mask
    """(t, q)"""
    keep: Array
    """(t, q): probability that the state has not been drawn anew since the range before."""

    @staticmethod
    def of(ends: RangeEnds) -> _Grid:
        _, _, pair = ends.pairs
        order = np.lexsort((ends.seconds, pair))
        count = np.bincount(pair)
        row = np.empty(len(pair), dtype=np.int64)
        row[order] = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
        taken = np.zeros((int(count.max()), len(count)), dtype=bool)
        taken[row, pair] = True
        seconds = np.zeros(taken.shape)
        seconds[row, pair] = ends.seconds
        passed = np.where(taken, np.diff(seconds, axis=0, prepend=seconds[:1]), 0.0)
        return _Grid(row, pair, taken, np.exp(-passed / PERSISTENCE_S))


def _smoothed(grid: _Grid, emission: Array, share: float) -> tuple[Array, float]:
    """(k,) probability of a clear path, and the log-likelihood of all."""
    steps, pairs = grid.taken.shape
    top = np.max(emission, axis=0)
    evidence = np.ones((steps, 2, pairs))
    evidence[grid.row, :, grid.column] = np.exp(emission - top).T
    at_rest = np.array([[1 - share], [share]])
    forward, backward = np.empty_like(evidence), np.ones((2, pairs))
    belief, likelihood = np.repeat(at_rest, pairs, axis=1), float(np.sum(top))
    for t in range(steps):
        belief = evidence[t] * (grid.keep[t] * belief + (1 - grid.keep[t]) * at_rest)
        total = np.sum(belief, axis=0)
        likelihood += float(np.sum(np.log(total)))
        belief = forward[t] = belief / total
    clear = np.empty((steps, pairs))
    for t in range(steps - 1, -1, -1):
        joint = forward[t] * backward
        clear[t] = joint[0] / np.sum(joint, axis=0)
        seen = evidence[t] * backward
        backward = grid.keep[t] * seen + (1 - grid.keep[t]) * np.sum(at_rest * seen, axis=0)
        backward = backward / np.sum(backward, axis=0)
    return np.asarray(clear[grid.row, grid.column]), likelihood
