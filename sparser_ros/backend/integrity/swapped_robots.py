"""Whether the radios of two robots were exchanged: each placed anew by the other's ranges.

A robot's own odometry is rigid, up to its noise. For each of the two it is placed against all
that neither is at fault, once by the ranges that carry its name and once by those that carry the
other's. The estimate of the two plays no part, so that it may be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph
from ...graph.finding import Finding
from ...graph.range_ends import RangeEnds
from ..observability.registration import candidates, ranges_to

_LEAST_ROWS = 20
_MOST_ROWS = 300
"""Rows that the likelihood ratio counts: neighbours in time are not independent."""


def swapped_robots(
    graph: Graph, estimate: Estimate, sources: RangeEnds, suspects: Sequence[int], gain: float
) -> list[Finding]:
    """Pairs of suspected robots whose ranges fit better when exchanged.

    `gain` is the least gain in twice the logarithm of the likelihood, for both robots together.
    """
    found: list[tuple[float, Finding]] = []
    outside = ~(np.isin(sources.first, suspects) & np.isin(sources.second, suspects))
    for a, b in combinations(sorted(suspects), 2):
        as_named = [_misfit(graph, estimate, sources, outside, one, one) for one in (a, b)]
        exchanged = [_misfit(graph, estimate, sources, outside, one, other)
                     for one, other in ((a, b), (b, a))]
        if any(part is None for part in (*as_named, *exchanged)):
            continue
        ratio, better = 0.0, True
        for named, swap in zip(as_named, exchanged, strict=True):
            assert named is not None and swap is not None
            rows = min(named[1], swap[1], _MOST_ROWS)
            # Twice the log-likelihood ratio of two Laplace laws with the scales that fit.
            ratio += 2 * rows * float(np.log(named[0] / swap[0]))
            better &= swap[0] < named[0]
        if better and ratio > gain:
            one, other = sources.names[a], sources.names[b]
            metres = (f'{np.mean([p[0] for p in exchanged if p]):.1f} m instead of '
                      f'{np.mean([p[0] for p in as_named if p]):.1f} m')
            found.append((ratio, Finding(
                'radios_swapped', f'{one} and {other}',
                f'ranges of radios {one} and {other} fit better when swapped (misfit {metres})',
                float(np.mean([p[0] for p in as_named if p])), 'm')))
    return [finding for _, finding in sorted(found, key=lambda pair: -pair[0])[:1]]


def _misfit(
    graph: Graph, estimate: Estimate, sources: RangeEnds, outside: Mask, robot: int,
    label: int,
) -> tuple[float, int] | None:
    """(median misfit in metres, rows) of a robot's odometry by the ranges that carry `label`."""
    rows = np.flatnonzero(sources.at(label) & outside)
    if len(rows) < _LEAST_ROWS:
        return None
    table = graph.ranges.take(rows)
    at_source = sources.first[rows] == label
    points = _carried(graph, robot, table.stamp_ns)
    other = np.where(at_source, table.target, table.source)
    lever = np.where(at_source[:, None], table.lever_target, table.lever_source)
    places = estimate.points[graph.points(other)].copy()
    pose = other >= 0
    places[pose] += np.einsum('kij,kj->ki', estimate.rotation[other[pose]], lever[pose])
    center = points.mean(axis=0)
    best = candidates(
        ranges_to(points - center, places, table.distance_m, table.precision), turn=True)
    antenna = (points - center) @ best.rotation[0].T + best.position[0]
    error = np.linalg.norm(antenna - places, axis=1) - table.distance_m
    return max(float(np.median(np.abs(error))), 1e-6), len(rows)


def _carried(graph: Graph, robot: int, stamps_ns: Index) -> Array:
    """(k, d): positions of a robot in its odometry frame at stamps, between keyframes linear."""
    rows = np.flatnonzero(graph.poses.robot == robot)
    own = graph.poses.stamp_ns[rows]
    return np.column_stack([
        np.interp((stamps_ns - own[0]) * 1e-9, (own - own[0]) * 1e-9, column)
        for column in graph.poses.translation[rows].T])
