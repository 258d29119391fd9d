"""How much less than independent, fully trusted ranges do the present ones say.

An M-estimator with influence psi(x) = w(x^2) x of whitened residuals x has, for each unit of
information that its weights claim, the variance E[psi^2] E[w] / E[psi']^2 (Huber 1964); and
errors that neighbouring ranges share add up: the square of their sum takes the place of the
sum of squares (a sandwich estimator with clusters; Liang and Zeger 1986). Clusters are windows of
a pair, and, where that shows, the whole pair: multipath of places where radios stand still makes
the bias of a pair more than the sum of those of its radios.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from ..array_types import Array, Index, Mask
from ..config import RobustConfig
from ..graph import Graph
from ..graph.range_ends import RangeEnds
from ..solver.robust import KERNELS, thresholds, widths_at

WINDOW_S = 5.0
"""Ranges of a pair that are this close in time may share errors (multipath, blocked paths)."""
_FEWEST_GROUPS = 5
_CHANCE = 0.001
"""Independent errors give so rarely sums of pairs that count as shared."""
_LEAST_BEND = 0.1
"""Share of the claimed information; with less the mixture says nothing of its own precision."""


def variance_inflation(
    graph: Graph, ends: RangeEnds, residual_m: Array, config: RobustConfig
) -> tuple[float, float]:
    """Factors, at least 1, on the variance that the weights claim: of robustness and of sharing.

    The information of the ranges of a graph is to be divided by both.
    """
    squares = graph.ranges.precision * residual_m**2
    kernel, c2 = KERNELS[config.kernel], thresholds(graph, config, graph.dimension)['ranges']
    if config.kernel == 'one_sided':
        c2 = widths_at(graph.ranges, config, c2, residual_m)
    finite = np.where(np.isfinite(c2), c2, 1.0)
    weight = np.where(np.isfinite(c2), kernel.weight(squares, finite), 1.0)
    step = 1e-4 * finite
    slope = np.where(np.isfinite(c2), (
        kernel.weight(squares + step, finite) - kernel.weight(squares, finite)) / step, 0.0)
    bend = float(np.mean(weight + 2 * squares * slope))
    if bend <= 0:
        return 1.0, 1.0
    robust = float(np.mean(weight**2 * squares) * np.mean(weight)) / bend**2
    return max(1.0, robust), sharing(
        ends, weight * np.sqrt(graph.ranges.precision) * residual_m)


def mixture_inflation(
    graph: Graph, ends: RangeEnds, residual_m: Array, clear: Array
) -> tuple[float, float]:
    """The same where weights are the probabilities (k,) of clear paths.

    psi = w x has the derivative w - w (1 - w) x^2: what is unknown about the paths is information
    that the weights claim and the data have not (Louis 1982). Where the model holds E[psi^2] is
    E[psi'], and the variance 1 / E[psi'].
    """
    squares = graph.ranges.precision * residual_m**2
    claimed = float(np.sum(clear))
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
