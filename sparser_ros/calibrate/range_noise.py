"""Noise of ranges as the residuals show it, robustly.

What ranges claim may be right but for a factor common to all: sigma^2 = f sigma_claimed^2. Where
residuals contradict that, each radio contributes a variance, as it contributes a bias:
sigma^2 = v_i + v_j + (sigma_1 d)^2. Ranges are sorted into cells of a pair and a distance; the
variance of a cell comes from its inliers, and what the map follows of it is added back
(redundancy, as in the estimation of variance components after Helmert 1907).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import chdtri, erf

from ..array_types import Array, Index, Mask
from ..graph import Ranges
from ..graph.range_ends import RangeEnds
from .blocked_paths import LEAST_SIGMAS

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
"""Noise that is as a model says prefers one with more parameters so rarely."""
_TURNS = 8
"""Reweighted fits."""


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
    found, count = np.empty(len(cells)), np.empty(len(cells))
    design, claimed = np.zeros((len(cells), len(ends.names) + 1)), np.empty((len(cells), 1))
    for row, (rows, low, high) in enumerate(cells):
        redundancy = 1 - float(np.mean(leverage[rows]))
        found[row] = max(robust_variance(residual[rows]) / redundancy, _LEAST_SIGMA_M**2)
        count[row] = _TRIMMED_EFFICIENCY * redundancy * len(rows)
        design[row, low] += 1
        design[row, high] += 1
        design[row, -1] = np.mean(distance_m[rows] ** 2)
        claimed[row] = np.mean(1 / ranges.precision[rows])
    values, factor = _fitted(design, claimed, found, count)
    return RangeNoise(values[:-1], known, float(np.sqrt(values[-1])), factor)


def _without_blocked(
    cells: list[tuple[Index, int, int]], residual: Array
) -> list[tuple[Index, int, int]]:
    """All but those of paths that were blocked for most of a cell: their middle is too long.

    Residuals are predicted minus measured. The excess is at least what counts as one for single
    ranges (`blocked_paths`), in the sigma that most cells have.
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
    design: Array, claimed: Array, found: Array, count: Array
) -> tuple[Array, float]:
    """Variances of radios and of a metre, and the factor on claims where that explains as much.

    Each model has to gain significantly on the one before: factor, radios, radios and distance. A
    slope extrapolates, and radios that are alike are known better together.
    """
    each = design.shape[1] - 1
    radios = int(np.sum(np.any(design[:, :-1] > 0, axis=0)))
    flat = _solved(design[:, :-1], found, count, each)
    sloped = _solved(design, found, count, each)
    factor = _solved(claimed, found, count, 0)

    def misfit(model: Array) -> float:
        model = np.maximum(model, _LEAST_SIGMA_M**2)
        return float(np.sum(count * (np.log(model) + found / model)))

    # Twice the log-likelihood ratio is chi-square with a degree for each further parameter.
    of_flat, of_sloped = misfit(design[:, :-1] @ flat), misfit(design @ sloped)
    steep = of_flat - of_sloped > chdtri(1, _CHANCE)
    own, more = (of_sloped, radios) if steep else (of_flat, radios - 1)
    common = misfit(claimed @ factor) - own <= chdtri(max(more, 1), _CHANCE)
    return sloped if steep else np.append(flat, 0.0), float(factor[0]) if common else 0.0


def _solved(design: Array, found: Array, count: Array, radios: int) -> Array:
    """Reweighted non-negative least squares; a variance v from n ranges has the variance 2 v^2 / n.

    The first `radios` columns are drawn to half of the middle of all by two ranges each.
    """
    half = float(np.median(found)) / 2
    used = np.any(design > 0, axis=0) & (np.arange(design.shape[1]) < radios)
    model, values = found.copy(), np.zeros(design.shape[1])
    for _ in range(_TURNS):
        root = np.sqrt(count / 2) / model
        prior = np.where(used, np.sqrt(_PRIOR_RANGES / 2) / np.maximum(values, half), 0.0)
        values, _ = nnls(
            np.vstack([root[:, None] * design, np.diag(prior)]),
            np.concatenate([root * found, prior * half]))
        model = np.maximum(design @ values, _LEAST_SIGMA_M**2)
    return np.asarray(values)
