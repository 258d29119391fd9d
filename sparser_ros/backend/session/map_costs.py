"""What maps cost by the same measurements: which of two fits better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Estimate, Graph, squared_residuals
from ...solver.robust import KERNELS, thresholds
from .frame import Frame

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig


def robust_cost(graph: Graph, estimate: Estimate, config: SparserConfig) -> float:
    """The cost that robust solves minimise: sum of rho over all measurements."""
    robust = config.solver.robust
    kernel, total = KERNELS[robust.kernel], 0.0
    c2 = thresholds(graph, robust, graph.dimension)
    for name, squares in squared_residuals(graph, estimate).items():
        doubted = np.isfinite(c2[name]) & (robust.kernel != 'none')
        total += float(np.sum(squares[~doubted]))
        total += float(np.sum(kernel.rho(squares[doubted], c2[name][doubted])))
    return total


def costs_of(
    frame: Frame, names: Iterable[str], estimates: Iterable[Estimate], config: SparserConfig,
    until: Mapping[str, int] | None = None,
) -> list[float]:
    """Robust costs of estimates of the whole graph, by the measurements among what is named.

    `until` counts rows by table: only those count then.
    """
    known = frame.restricted(frame.named(names))
    graph = known.graph
    if until is not None:
        graph = graph.replaced(**{
            name: table.take(known.rows[name] < until[name])
            for name, table in graph.tables().items()})
    return [robust_cost(graph, known.of(one), config) for one in estimates]
