"""Noise of ranges as the residuals show it: sigma^2 = v_i + v_j + (sigma_1 d)^2, robustly.

Each radio contributes a variance, as it contributes a bias. Ranges are sorted into cells of a
pair and a distance; the variance of a cell comes from its inliers, and what the map follows of it
is added back (redundancy, as in the estimation of variance components after Helmert 1907).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import erf

from ..array_types import Array, Index, Mask
from ..graph import Ranges
from ..graph.range_ends import RangeEnds

_TRIM = 2.5
"""Residuals beyond so many sigmas are no noise (1 % of normal ones)."""
_TRIMMED_SHARE = float(
    1 - 2 * _TRIM * np.exp(-_TRIM**2 / 2) / np.sqrt(2 * np.pi) / erf(_TRIM / np.sqrt(2)))
"""Variance of a standard normal number that is cut at _TRIM."""
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


@dataclass(frozen=True)
class RangeNoise:
    """The variance model."""

    radio_variance: Array
    """(r,): m^2; the variance of a range is the sum of those of its radios."""
    known: Mask
    """(r,): radios whose variance is determined; ranges of others keep what they claim."""
    sigma_per_m: float

    def variance(self, ends: RangeEnds, ranges: Ranges) -> Array:
        """(k,): m^2; `ranges` with the variances that they claim."""
        own = self.radio_variance[ends.first] + self.radio_variance[ends.second]
        own = np.maximum(own + (self.sigma_per_m * ranges.distance_m) ** 2, _LEAST_SIGMA_M**2)
        return np.where(self.of_known(ends), own, 1 / ranges.precision)

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
    clear: Mask,
) -> RangeNoise:
    """The model that the residuals (k,) in metres support; `ranges` hold the claimed variances.

    Only ranges over `clear` (k,) paths are noise.

    A radio whose variance was once undetermined (`before`) stays so: with a smaller sigma the map
    follows its ranges even more.
    """
    distance_m = ranges.distance_m
    cells, known = _known_cells(ends, distance_m, leverage, clear)
    if before is not None:
        known &= before.known
        cells = [cell for cell in cells if known[cell[1]] and known[cell[2]]]
    if not cells:
        return RangeNoise(
            np.zeros(len(known)), np.zeros(len(known), dtype=bool), 0.0)
    found, count = np.empty(len(cells)), np.empty(len(cells))
    design = np.zeros((len(cells), len(ends.names) + 1))
    for row, (rows, low, high) in enumerate(cells):
        redundancy = 1 - float(np.mean(leverage[rows]))
        found[row] = max(robust_variance(residual[rows]) / redundancy, _LEAST_SIGMA_M**2)
        count[row] = redundancy * len(rows)
        design[row, low] += 1
        design[row, high] += 1
        design[row, -1] = np.mean(distance_m[rows] ** 2)
    values = _fitted(design, found, count)
    return RangeNoise(values[:-1], known, float(np.sqrt(values[-1])))


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


def _fitted(design: Array, found: Array, count: Array) -> Array:
    """Non-negative variances; the variance of a variance v from n ranges is 2 v^2 / n.

    A slope with distance is kept only where it is significant: it extrapolates.
    """
    flat = _solved(design[:, :-1], found, count)
    sloped = _solved(design, found, count)

    def misfit(values: Array, columns: Array) -> float:
        model = np.maximum(columns @ values, _LEAST_SIGMA_M**2)
        return float(np.sum(count * (np.log(model) + found / model)))

    gain = misfit(flat, design[:, :-1]) - misfit(sloped, design)
    # Twice the log-likelihood ratio is chi-square with one degree; 10.8 is its 99.9 % quantile.
    return sloped if gain > 10.8 else np.append(flat, 0.0)


def _solved(design: Array, found: Array, count: Array) -> Array:
    """Reweighted non-negative least squares, radios drawn to their mean by two ranges each."""
    radios = np.sum(np.any(design > 0, axis=0))
    mean = float(np.average(found, weights=count)) / 2
    model = found.copy()
    values = np.zeros(design.shape[1])
    prior = np.diag(np.where(np.any(design > 0, axis=0), 1.0, 0.0))
    prior[len(values) - 1, len(values) - 1] *= radios > 0
    for _ in range(8):
        root = np.sqrt(count / 2) / model
        drawn = np.sqrt(_PRIOR_RANGES / 2) / mean
        values, _ = nnls(
            np.vstack([root[:, None] * design, drawn * prior]),
            np.concatenate([root * found, drawn * prior @ np.full(len(values), mean)]))
        model = np.maximum(design @ values, _LEAST_SIGMA_M**2)
    return np.asarray(values)
