"""What a solution says about robots and doubted measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...graph import Estimate, Graph, squared_residuals
from ...graph.precision import chi_square_kappa
from ..observability.observability import Observability
from .odometry_segments import OdometrySegments
from .solution import Location, Rejected, RobotLocation

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def robots_of(
    graph: Graph, segments: OdometrySegments | None, mask: NDArray[np.bool_] | None,
    seen: Observability | None, configured: Sequence[str],
) -> tuple[RobotLocation, ...]:
    """State of every robot, the graph's first, then configured ones without data.

    A robot is where its newest body is.
    """
    result = []
    for number, robot in enumerate(graph.robots):
        if segments is None or seen is None or mask is None:
            result.append(RobotLocation(robot, Location.UNLOCATED, 'nothing placed in map yet'))
            continue
        own = np.flatnonzero(segments.robot == number)
        if len(own) == 0:
            result.append(RobotLocation(robot, Location.UNLOCATED, 'no odometry yet'))
        elif not mask[own[-1]]:
            result.append(RobotLocation(
                robot, Location.UNLOCATED,
                'no range or closure ties it to the robots or beacons located in map'))
        else:
            result.append(
                RobotLocation(robot, seen.location[own[-1]], seen.missing[own[-1]]))
    known = set(graph.robots)
    result.extend(
        RobotLocation(robot, Location.UNLOCATED, 'no odometry yet')
        for robot in configured if robot not in known)
    return tuple(result)


def rejected_of(
    graph: Graph, estimate: Estimate, rows: dict[str, Index], weights: dict[str, Array],
    threshold: float,
) -> tuple[Rejected, ...]:
    """Measurements whose robust weight is below the threshold.

    `weights` by table are those of `rows` of the whole graph.
    """
    result: list[Rejected] = []
    ends = {
        name: [getattr(table, column) for column in table.endpoints()]
        for name, table in graph.tables().items() if len(table.endpoints()) == 2}
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
