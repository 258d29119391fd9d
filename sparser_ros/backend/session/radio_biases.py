"""Biases of radios that the running node has found: taken off every range, by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...array_types import Array
from ...graph import Graph, Ranges
from ...graph.owners import owners
from .range_corrections import SHORTEST_M

BIAS = 'radio_bias'
"""Kind of findings whose value is to be added to `bias_m` of a robot's or beacon's radio, m."""


def pair_bias(biases: Mapping[str, float], graph: Graph, ranges: Ranges) -> Array:
    """(k,): what ranges are too long by, m: the sum over their two radios.

    `graph` holds the poses and landmarks that the endpoints of `ranges` number.
    """
    own = np.array([biases.get(name, 0.0) for name in (*graph.robots, *graph.landmarks.names)])
    return np.asarray(own[owners(graph, ranges.source)] + own[owners(graph, ranges.target)])


def without(biases: Mapping[str, float], graph: Graph, ranges: Ranges) -> Ranges:
    """Ranges with the biases taken off."""
    if not biases or not len(ranges):
        return ranges
    return ranges.replaced(distance_m=np.maximum(
        ranges.distance_m - pair_bias(biases, graph, ranges), SHORTEST_M))


def unbiased(biases: Mapping[str, float], graph: Graph) -> Graph:
    """A graph with the biases taken off its ranges; itself where there are none."""
    return graph.replaced(ranges=without(biases, graph, graph.ranges)) if biases else graph


def measured(biases: Mapping[str, float], graph: Graph) -> Graph:
    """A graph off whose ranges biases are taken, with the ranges as they came."""
    return unbiased({name: -bias for name, bias in biases.items()}, graph)


def differ(one: Mapping[str, float], other: Mapping[str, float], by_m: float) -> bool:
    """Whether the bias of a pair may differ by more than `by_m`."""
    names = {*one, *other}
    steps = sorted((abs(one.get(name, 0.0) - other.get(name, 0.0)) for name in names), reverse=True)
    return sum(steps[:2]) > by_m
