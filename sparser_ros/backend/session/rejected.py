"""Doubted measurements of a solution, named."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...graph import Estimate, Graph, squared_residuals
from ...graph.precision import chi_square_kappa
from .solution import Rejected

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def rejected_of(
    graph: Graph, estimate: Estimate, rows: dict[str, Index], weights: dict[str, Array],
    threshold: float,
) -> tuple[Rejected, ...]:
    """Measurements whose robust weight is below the threshold.

    `weights` by table are those of `rows` of the whole graph.
    """
    result: list[Rejected] = []
    ends = {
        'relative_poses': (graph.relative_poses.i, graph.relative_poses.j),
        'sightings': (graph.sightings.i, graph.sightings.point),
        'ranges': (graph.ranges.source, graph.ranges.target),
    }
    out = {name: column < threshold for name, column in weights.items() if name in ends}
    # Residuals of these alone: there are few.
    few = graph.replaced(**{
        name: table.take(rows[name][out[name]] if name in out else np.zeros(0, dtype=np.int64))
        for name, table in graph.tables().items()})
    squares = whitened_squares(few, estimate)
    for name, chosen in out.items():
        for row, weight, square in zip(
                rows[name][chosen].tolist(), weights[name][chosen].tolist(),
                squares[name].tolist(), strict=True):
            result.append(Rejected(
                row, name, graph.endpoint_name(int(ends[name][0][row])),
                graph.endpoint_name(int(ends[name][1][row])), weight, float(np.sqrt(square))))
    return tuple(result)


def whitened_squares(graph: Graph, estimate: Estimate) -> dict[str, Array]:
    """Squared residuals in chi-square units (2D rotations count with half their weight)."""
    tables = graph.relative_poses
    kappa = chi_square_kappa(tables.kappa, graph.dimension)
    return squared_residuals(
        graph.replaced(relative_poses=tables.replaced(kappa=kappa)), estimate)
