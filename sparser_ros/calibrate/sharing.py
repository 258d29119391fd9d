"""How much less than independent, fully trusted ranges do the present ones say.

An M-estimator with influence psi(x) = w(x^2) x of whitened residuals x has, for each unit of
information that its weights claim, the variance E[psi^2] E[w] / E[psi']^2 (Huber 1964); and
errors that neighbouring ranges share add up: the square of their sum takes the place of the
sum of squares (a sandwich estimator with clusters; Liang and Zeger 1986).
"""

from __future__ import annotations

import numpy as np

from ..array_types import Array
from ..config import RobustConfig
from ..graph import Graph
from ..graph.range_ends import RangeEnds
from ..solver.robust.kernels import KERNELS, thresholds

WINDOW_S = 5.0
"""Ranges of a pair that are this close in time may share errors (multipath, blocked paths)."""
_FEWEST_GROUPS = 5
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
    that the weights claim and the data have not (Louis 1982).
    """
    squares = graph.ranges.precision * residual_m**2
    bend = float(np.sum(clear - clear * (1 - clear) * squares))
    robust = float(np.sum(clear**2 * squares) * np.sum(clear)) / max(
        bend, _LEAST_BEND * float(np.sum(clear))) ** 2
    return max(1.0, robust), sharing(
        ends, clear * np.sqrt(graph.ranges.precision) * residual_m)


def sharing(ends: RangeEnds, influence: Array) -> float:
    """Square of sums over pair and window against the sum of squares, at least 1."""
    _, _, pair = ends.pairs
    window = np.floor(ends.seconds / WINDOW_S).astype(np.int64)
    _, group = np.unique(
        pair * (int(window.max(initial=0)) + 1) + window, return_inverse=True)
    several = np.bincount(group) >= 3
    if np.sum(several) < _FEWEST_GROUPS:
        return 1.0
    sums = np.bincount(group, influence)[several]
    return max(1.0, float(np.sum(sums**2) / max(
        float(np.sum(np.bincount(group, influence**2)[several])), 1e-300)))
