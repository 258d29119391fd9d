"""Doubted measurements of a solution, named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph, empty, squared_residuals
from ...graph.owners import owners, stamps_of
from ...graph.precision import chi_square_kappa
from .rulings import Rulings
from .solution import Location, Rejected, Solution


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
        for name, table in graph.tables().items()}
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
            source, target = [
                *(graph.endpoint_name(int(end[row])) for end in ends[name]), 'map'][:2]
            result.append(Rejected(row, name, source, target, weight, float(np.sqrt(square))))
    return tuple(result)


def whitened_squares(graph: Graph, estimate: Estimate) -> dict[str, Array]:
    """Squared residuals in chi-square units (2D rotations count with half their weight)."""
    tables = graph.relative_poses
    kappa = chi_square_kappa(tables.kappa, graph.dimension)
    return squared_residuals(
        graph.replaced(relative_poses=tables.replaced(kappa=kappa)), estimate)


@dataclass(frozen=True)
class Unused:
    """A measurement that a map does not use, or hardly, for an operator."""

    kind: str
    """range, closure, odometry, sighting or fix."""
    source: str
    """Robot or beacon."""
    target: str
    """Robot or beacon; `map` for absolute data."""
    stamp_ns: int
    residual_m: float
    """Estimated minus measured distance of a range, else between measured and estimated position;
    NaN where one end has no place in map."""
    sigmas: float
    """The whole residual in standard deviations, as claimed; NaN as above."""
    weight: float
    """Robust weight; 0 = left out."""
    reason: str


_KINDS = {'ranges': 'range', 'sightings': 'sighting', 'pose_priors': 'fix', 'point_priors': 'fix'}
_KERNEL, _FAULT = 'robust kernel', 'a fault of its source'
_OPERATOR = 'ignored by the operator'


def unused_of(
    graph: Graph, solution: Solution, faulty: Index, rulings: Rulings, name: str = ''
) -> list[Unused]:
    """What the map of a solution does not use, the largest residuals first.

    `graph` is the sum of all increments up to the solution; `faulty` are rows of its ranges that
    are left out as a group. `name` chooses what a robot or beacon takes part in.
    """
    found: list[Unused] = []
    for table_name, table in graph.tables().items():
        weight: dict[int, tuple[float, str]] = {
            one.index: (one.weight, _KERNEL) for one in solution.rejected
            if one.type == table_name}
        if table_name == 'ranges':
            weight |= {row: (0.0, _FAULT) for row in faulty.tolist() if row < len(table)}
        ignored = np.flatnonzero(rulings.ignored(graph, table_name, table))
        weight |= dict.fromkeys(ignored.tolist(), (0.0, _OPERATOR))
        if weight:
            found += _described(graph, solution, table_name, weight)
    chosen = [one for one in found if name in ('', one.source, one.target)]
    return sorted(chosen, key=lambda one: -1.0 if np.isnan(one.sigmas) else one.sigmas,
                  reverse=True)


def _described(
    graph: Graph, solution: Solution, name: str, weight: dict[int, tuple[float, str]]
) -> list[Unused]:
    """Rows of one table, with their weights and reasons."""
    rows = np.array(sorted(weight), dtype=np.int64)
    table = getattr(graph, name).take(rows)
    few = graph.replaced(**{
        other: table if other == name else empty(type(own), graph.dimension)
        for other, own in graph.tables().items()})
    sigmas = np.sqrt(whitened_squares(few, solution.estimate)[name])
    part = next(one for one in few.point_residuals() if len(one))
    residual = np.linalg.norm(
        part.vectors(solution.estimate.points, solution.estimate.rows), axis=1)
    if part.distance is not None:
        residual = residual - part.distance
    placed = _placed(graph, solution)
    names = (*graph.robots, *graph.landmarks.names)
    ends = [owners(graph, getattr(table, column)) for column in table.endpoints()]
    known = np.all([placed[end] for end in ends], axis=0)
    residual, sigmas = np.where(known, residual, np.nan), np.where(known, sigmas, np.nan)
    stamps = stamps_of(graph, table)
    odometry = getattr(table, 'odometry', np.zeros(len(rows), dtype=bool))
    return [
        Unused(
            'odometry' if odometry[k] else _KINDS.get(name, 'closure'), names[ends[0][k]],
            names[ends[1][k]] if len(ends) > 1 else 'map', int(stamps[k]), float(residual[k]),
            float(sigmas[k]), *weight[row])
        for k, row in enumerate(rows.tolist())]


def _placed(graph: Graph, solution: Solution) -> Mask:
    """(robots + landmarks,): true where something has a place in map."""
    robots = {one.robot for one in solution.robots
              if one.location in (Location.LOCATED, Location.POSITION_ONLY)}
    landmarks = np.zeros(graph.n_landmarks, dtype=bool)
    landmarks[:len(solution.landmark_located)] = solution.landmark_located
    return np.concatenate([
        np.array([name in robots for name in graph.robots], dtype=bool),
        landmarks | graph.landmarks.fixed])
