"""What the residuals of ranges say of them: noise, blocked paths, and errors that they share.

Noise. What ranges claim may be right but for a factor common to all: sigma^2 = f sigma_claimed^2.
Where residuals contradict that, each radio contributes a variance, as it contributes a bias:
sigma^2 = v_i + v_j + (sigma_1 d)^2. Ranges are sorted into cells of a pair and a distance; the
variance of a cell comes from its inliers, and what the map follows of it is added back
(redundancy, as in the estimation of variance components after Helmert 1907).

Blocked paths. A path is clear or blocked for a while. A range over a clear one has normal noise;
over a blocked one it is longer by an exponentially distributed length. The state of each pair of
radios is a Markov chain in time, so that a burst of ranges which are all a little too long is seen
although none of them alone would be. Probabilities are those of the forward-backward algorithm
(Baum and others 1970); least squares weighted with them is a step of expectation maximisation. A
symmetric kernel leaves a bias here: what it does not reject of ranges that are too long has no
counterpart among those that are too short.

Shared errors. An estimator with influence psi(x) = w x of whitened residuals x has, for each unit
of information that its weights claim, the variance E[psi^2] E[w] / E[psi']^2 (Huber 1964); and
errors that neighbouring ranges share add up: the square of their sum takes the place of the sum of
squares (a sandwich estimator with clusters; Liang and Zeger 1986). Clusters are windows of a pair,
and, where that shows, the whole pair: multipath of places where radios stand still makes the bias
of a pair more than the sum of those of its radios.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import chdtri, erf, log_ndtr

from ...array_types import Array, Index, Mask
from ...graph import Graph, Ranges
from ...graph.ends import RangeEnds

_TRIM = 2.5
"""Residuals beyond so many sigmas are no noise (1 % of normal ones)."""
_TRIMMED_SHARE = float(
    1 - 2 * _TRIM * np.exp(-_TRIM**2 / 2) / np.sqrt(2 * np.pi) / erf(_TRIM / np.sqrt(2)))
"""Variance of a standard normal number that is cut at _TRIM."""
_TRIMMED_EFFICIENCY = 0.7
"""Ranges that would give the untrimmed variance as well, over ranges; by simulation, 20 to 400
ranges."""
_MAD = 0.6744897501960817
"""Median of the absolute value of a standard normal number."""
_ENOUGH = 20
"""Ranges of a cell; the standard deviation of its sigma is then below 16 %."""
_LEAST_REDUNDANCY = 0.5
"""A map that follows ranges by more than this tells nothing of their noise: both a small sigma of
ranges and a small one of odometry explain small residuals."""
_LEAST_SIGMA_M = 0.002
"""No radio is better: a tick is 4.7 mm, and ranges of files are rounded to 1 mm."""
_PRIOR_RANGES = 2.0
"""So many ranges say that a radio is as noisy as the average one."""
_CHANCE = 0.001
"""Noise that is as a model says prefers one with more parameters so rarely, and independent errors
give so rarely sums of pairs that count as shared."""
_REFITS = 8
"""Reweighted fits."""
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
_PRIOR_COUNTS = (1.0, 19.0)
"""Blocked and clear ranges as if seen before the data: a share of 1 in 20."""
_PRIOR_SHARE = _PRIOR_COUNTS[0] / sum(_PRIOR_COUNTS)
_MOST_BLOCKED = 0.5
"""Share: with a larger one clear and blocked paths would change their parts."""
_SHARE_TURNS = 4
"""Estimates of the share; it converges by the share that is uncertain, a few per cent each time."""
WINDOW_S = 5.0
"""Ranges of a pair that are this close in time may share errors (multipath, blocked paths)."""
_FEWEST_GROUPS = 5
_LEAST_BEND = 0.1
"""Share of the claimed information; with less the mixture says nothing of its own precision."""


@dataclass(frozen=True)
class RangeNoise:
    """The variance model."""

    radio_variance: Array
    """(r,): m^2; the variance of a range is the sum of those of its radios."""
    known: Mask
    """(r,): radios whose variance is determined; ranges of others keep what they claim."""
    sigma_per_m: float
    claimed_factor: float = 0.0
    """Where positive, variances are the claimed ones times this: the residuals do not contradict
    it. The variances of radios are then the nearest to that."""

    def variance(self, ends: RangeEnds, ranges: Ranges) -> Array:
        """(k,): m^2; `ranges` with the variances that they claim."""
        own = self.radio_variance[ends.first] + self.radio_variance[ends.second]
        own = own + (self.sigma_per_m * ranges.distance_m) ** 2
        if self.claimed_factor > 0:
            own = self.claimed_factor / ranges.precision
        return np.where(
            self.of_known(ends), np.maximum(own, _LEAST_SIGMA_M**2), 1 / ranges.precision)

    def of_known(self, ends: RangeEnds) -> Mask:
        """(k,): ranges whose variance is determined."""
        return np.asarray(self.known[ends.first] & self.known[ends.second])


def robust_variance(residual: Array) -> float:
    """Variance of the inliers about zero: the mean square of what is within 2.5 sigma."""
    sigma = float(np.median(np.abs(residual))) / _MAD
    for _ in range(30):
        inside = residual[np.abs(residual) <= _TRIM * sigma]
        fresh = float(np.sqrt(np.mean(inside**2) / _TRIMMED_SHARE)) if len(inside) else sigma
        if abs(fresh - sigma) <= 1e-4 * sigma:
            break
        sigma = fresh
    return sigma**2


def range_noise(
    ends: RangeEnds, ranges: Ranges, residual: Array, leverage: Array, before: RangeNoise | None,
    clear: Mask | None,
) -> RangeNoise:
    """The model that the residuals (k,) in metres support; `ranges` hold the claimed variances.

    Only ranges over `clear` (k,) paths are noise. None: radios are not known yet. Then residuals
    that are biased count in full: noise that is too large keeps kernels wide.

    A radio whose variance was once undetermined (`before`) stays so: with a smaller sigma the map
    follows its ranges even more.
    """
    distance_m = ranges.distance_m
    cells, known = _known_cells(
        ends, distance_m, leverage, np.ones(len(residual), dtype=bool) if clear is None else clear)
    if before is not None:
        known &= before.known
        cells = [cell for cell in cells if known[cell[1]] and known[cell[2]]]
    if clear is not None:
        cells = _without_blocked(cells, residual)
    if not cells:
        return RangeNoise(
            np.zeros(len(known)), np.zeros(len(known), dtype=bool), 0.0)
    measured, count = np.empty(len(cells)), np.empty(len(cells))
    design, claimed = np.zeros((len(cells), len(ends.names) + 1)), np.empty((len(cells), 1))
    for row, (rows, low, high) in enumerate(cells):
        redundancy = 1 - float(np.mean(leverage[rows]))
        measured[row] = max(robust_variance(residual[rows]) / redundancy, _LEAST_SIGMA_M**2)
        count[row] = _TRIMMED_EFFICIENCY * redundancy * len(rows)
        design[row, low] += 1
        design[row, high] += 1
        design[row, -1] = np.mean(distance_m[rows] ** 2)
        claimed[row] = np.mean(1 / ranges.precision[rows])
    values, factor = _fitted(design, claimed, measured, count)
    return RangeNoise(values[:-1], known, float(np.sqrt(values[-1])), factor)


def _without_blocked(
    cells: list[tuple[Index, int, int]], residual: Array
) -> list[tuple[Index, int, int]]:
    """All but those of paths that were blocked for most of a cell: their middle is too long.

    Residuals are predicted minus measured. The excess is at least what counts as one for single
    ranges (`clear_paths`), in the sigma that most cells have.
    """
    if not cells:
        return cells
    middle = np.array([np.median(residual[cell[0]]) for cell in cells])
    sigma = np.sqrt(np.median([robust_variance(residual[cell[0]]) for cell in cells]))
    return [cell for cell, offset in zip(cells, middle, strict=True)
            if -offset <= LEAST_SIGMAS * sigma]


def _known_cells(
    ends: RangeEnds, distance_m: Array, leverage: Array, clear: Mask
) -> tuple[list[tuple[Index, int, int]], Mask]:
    """Cells of pairs whose residuals tell their noise, and the radios of these pairs."""
    known = np.zeros(len(ends.names), dtype=bool)
    kept = []
    for rows, low, high in _cells(ends, distance_m, clear):
        if 1 - float(np.mean(leverage[rows])) >= _LEAST_REDUNDANCY:
            kept.append((rows, low, high))
            known[[low, high]] = True
    return kept, known


def _cells(ends: RangeEnds, distance_m: Array, clear: Mask) -> list[tuple[Index, int, int]]:
    """Rows, lower and higher radio of every pair, in three parts of equal size by distance."""
    low, high, number = ends.pairs
    result = []
    for pair in range(len(low)):
        rows = np.flatnonzero((number == pair) & clear)
        rows = rows[np.argsort(distance_m[rows], kind='stable')]
        parts = np.array_split(rows, 3) if len(rows) >= 3 * _ENOUGH else [rows]
        result += [(part, int(low[pair]), int(high[pair])) for part in parts
                   if len(part) >= _ENOUGH]
    return result


def _fitted(
    design: Array, claimed: Array, measured: Array, count: Array
) -> tuple[Array, float]:
    """Variances of radios and of a metre, and the factor on claims where that explains as much.

    Each model has to gain significantly on the one before: factor, radios, radios and distance. A
    slope extrapolates, and radios that are alike are known better together.
    """
    each = design.shape[1] - 1
    radios = int(np.sum(np.any(design[:, :-1] > 0, axis=0)))
    flat = _solved(design[:, :-1], measured, count, each)
    sloped = _solved(design, measured, count, each)
    factor = _solved(claimed, measured, count, 0)

    def misfit(model: Array) -> float:
        model = np.maximum(model, _LEAST_SIGMA_M**2)
        return float(np.sum(count * (np.log(model) + measured / model)))

    # Twice the log-likelihood ratio is chi-square with a degree for each further parameter.
    of_flat, of_sloped = misfit(design[:, :-1] @ flat), misfit(design @ sloped)
    steep = of_flat - of_sloped > chdtri(1, _CHANCE)
    own, more = (of_sloped, radios) if steep else (of_flat, radios - 1)
    common = misfit(claimed @ factor) - own <= chdtri(max(more, 1), _CHANCE)
    return sloped if steep else np.append(flat, 0.0), float(factor[0]) if common else 0.0


def _solved(design: Array, measured: Array, count: Array, radios: int) -> Array:
    """Reweighted non-negative least squares; a variance v from n ranges has the variance 2 v^2 / n.

    The first `radios` columns are drawn to half of the middle of all by two ranges each.
    """
    half = float(np.median(measured)) / 2
    used = np.any(design > 0, axis=0) & (np.arange(design.shape[1]) < radios)
    model, values = measured.copy(), np.zeros(design.shape[1])
    for _ in range(_REFITS):
        root = np.sqrt(count / 2) / model
        prior = np.where(used, np.sqrt(_PRIOR_RANGES / 2) / np.maximum(values, half), 0.0)
        values, _ = nnls(
            np.vstack([root[:, None] * design, np.diag(prior)]),
            np.concatenate([root * measured, prior * half]))
        model = np.maximum(design @ values, _LEAST_SIGMA_M**2)
    return np.asarray(values)


def clear_paths(ends: RangeEnds, excess_m: Array, sigma_m: Array) -> Array:
    """(k,): probabilities that the paths of ranges were clear, by residuals measured minus
    predicted (k,) and standard deviations (k,)."""
    density = np.stack([clear_density(excess_m, sigma_m), blocked_density(excess_m, sigma_m)])
    evidence = np.exp(density - np.max(density, axis=0))
    clear, share = np.ones(len(excess_m)), _PRIOR_SHARE
    for _ in range(1 + _SHARE_TURNS if len(excess_m) else 0):
        clear = _smoothed(ends, evidence, share)
        share = (float(np.sum(1 - clear)) + _PRIOR_COUNTS[0]) / (len(clear) + sum(_PRIOR_COUNTS))
        share = min(share, _MOST_BLOCKED)
    return clear


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


def _smoothed(ends: RangeEnds, evidence: Array, share: float) -> Array:
    """(k,) probabilities of clear paths by the likelihoods (2, k) of both states."""
    pair = ends.pairs[2]
    order = np.lexsort((ends.seconds, pair))
    count = np.bincount(pair)
    # Ranges by their place in time (rows) and their pair (columns).
    row = np.empty(len(pair), dtype=np.int64)
    row[order] = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
    steps, pairs = int(count.max()), len(count)
    likely, seconds = np.ones((steps, 2, pairs)), np.zeros((steps, pairs))
    likely[row, :, pair], seconds[row, pair] = evidence.T, ends.seconds
    # Probability that the state has not been drawn anew since the range before.
    taken = np.arange(steps)[:, None] < count
    passed = np.where(taken, np.diff(seconds, axis=0, prepend=seconds[:1]), 0.0)
    keep = np.exp(-passed / PERSISTENCE_S)
    at_rest = np.array([[1 - share], [share]])
    forward, backward = np.empty_like(likely), np.ones((2, pairs))
    belief = np.repeat(at_rest, pairs, axis=1)
    for t in range(steps):
        belief = likely[t] * (keep[t] * belief + (1 - keep[t]) * at_rest)
        belief = forward[t] = belief / np.sum(belief, axis=0)
    clear = np.empty((steps, pairs))
    for t in range(steps - 1, -1, -1):
        joint = forward[t] * backward
        clear[t] = joint[0] / np.sum(joint, axis=0)
        seen = likely[t] * backward
        backward = keep[t] * seen + (1 - keep[t]) * np.sum(at_rest * seen, axis=0)
        backward = backward / np.sum(backward, axis=0)
    return np.asarray(clear[row, pair])


def variance_inflation(
    graph: Graph, ends: RangeEnds, residual_m: Array, clear: Array
) -> tuple[float, float]:
    """Factors, at least 1, on the variance that the weights claim: of robustness and of sharing.

    The information of the ranges of a graph is to be divided by both. Weights are the probabilities
    (k,) of clear paths: psi = w x has the derivative w - w (1 - w) x^2, and what is unknown about
    the paths is information that the weights claim and the data have not (Louis 1982). Where the
    model holds E[psi^2] is E[psi'], and the variance 1 / E[psi'].
    """
    squares = graph.ranges.precision * residual_m**2
    claimed = float(np.sum(clear))
    if claimed <= 0:
        return 1.0, 1.0
    bend = max(float(np.sum(clear - clear * (1 - clear) * squares)), _LEAST_BEND * claimed)
    robust = claimed / bend * max(1.0, float(np.sum(clear**2 * squares)) / bend)
    return max(1.0, robust), sharing(
        ends, clear * np.sqrt(graph.ranges.precision) * residual_m)


def sharing(ends: RangeEnds, influence: Array) -> float:
    """Square of sums over groups against the sum of squares, at least 1, of what shares most."""
    _, _, pair = ends.pairs
    window = np.floor(ends.seconds / WINDOW_S).astype(np.int64)
    group = np.unique(
        pair * (int(window.max(initial=0)) + 1) + window, return_inverse=True)[1]
    several = np.bincount(group) >= 3
    shared = 1.0
    if np.sum(several) >= _FEWEST_GROUPS:
        shared = _ratio(*_sums(group, influence), several)
    return max(1.0, shared, _of_pairs(ends, pair, influence))


def _of_pairs(ends: RangeEnds, pair: Index, influence: Array) -> float:
    """The same of whole pairs, 1 unless it is significant.

    Few sums, so their ratio scatters; and biases of radios have taken a degree of freedom each.
    """
    several = np.bincount(pair) >= 3
    heard = len(np.unique(np.concatenate([ends.first, ends.second])))
    free = int(np.sum(several)) - heard
    if free < 1:
        return 1.0
    sums, squares = _sums(pair, influence)
    chi_square = float(np.sum(sums[several] ** 2 / np.maximum(squares[several], 1e-300)))
    if chi_square <= chdtri(free, _CHANCE):
        return 1.0
    return _ratio(sums, squares, several) * float(np.sum(several)) / free


def _sums(group: Index, influence: Array) -> tuple[Array, Array]:
    """(groups,) sums of influences and of their squares."""
    return (np.bincount(group, influence).astype(float),
            np.bincount(group, influence**2).astype(float))


def _ratio(sums: Array, squares: Array, chosen: Mask) -> float:
    return float(np.sum(sums[chosen] ** 2) / max(float(np.sum(squares[chosen])), 1e-300))
