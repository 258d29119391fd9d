"""Where a known beacon stands, by its ranges alone: its configured place left out.

With robust weights the ranges of a misplaced beacon are rejected, so that the weights say nothing
of where it is; here its ranges count with a kernel of their own about every start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from ...array_types import Array
from ...graph import Estimate, Graph, range_vectors
from ...graph.finding import Finding
from ...graph.range_ends import RangeEnds
from .hypotheses import misplaced

_STEPS = 30
_KERNEL = 5.0
"""Width c of Geman-McClure in standard deviations, as the solver's."""
_EXCHANGED = 0.1
"""Share of the distance of two beacons that is near, with robots held in a map that both bend."""
_SEEDS = 8
"""Starts on a circle about the robots, to which their ranges reach."""


def known_beacons(graph: Graph) -> list[int]:
    """Landmarks with a configured place: fixed, or with a prior."""
    prior = graph.point_priors.point
    held = set(np.flatnonzero(graph.landmarks.fixed).tolist())
    return sorted(held | set((~prior[prior < 0]).tolist()))


def configured_place(graph: Graph, landmark: int) -> Array:
    """(d,): where the configuration has a known landmark."""
    if graph.landmarks.fixed[landmark]:
        return graph.landmarks.position[landmark]
    row = int(np.flatnonzero(graph.point_priors.point == ~landmark)[0])
    return graph.point_priors.position[row]


def frame_reason(graph: Graph, findings: Sequence[Finding], largest_bias_m: float) -> str:
    """Why known beacons no longer fix the frame of map, or ''.

    Of two that contradict each other either may be wrong: then only others can fix map, in the
    plane two of them, in space three. Fixes of robots fix it as well. What looks like a bias of
    more than `largest_bias_m` of a known beacon's radio is rather a wrong place seen from one side.
    """
    configured = {graph.landmarks.names[k] for k in known_beacons(graph)}
    at_fault = [
        one for one in findings if one.kind in ('beacon_misplaced', 'beacons_swapped')
        or (one.kind == 'range_bias' and one.subject in configured
        and abs(one.value) > largest_bias_m)]
    if not at_fault or len(graph.pose_priors) or np.any(graph.point_priors.point >= 0):
        return ''
    suspected = {name for one in at_fault for name in one.subject.split(' and ')}
    sound = [k for k in known_beacons(graph) if graph.landmarks.names[k] not in suspected]
    if len(sound) >= graph.dimension:
        return ''
    names = ', '.join(graph.landmarks.names[k] for k in known_beacons(graph))
    return (f'the configured places of the known beacons ({names}) contradict each other, and they '
            f'are too few to tell which of them is wrong: {at_fault[0].text}')


def found_place(
    graph: Graph, estimate: Estimate, sources: RangeEnds, landmark: int, others: Sequence[Array]
) -> tuple[Array, float]:
    """(place, robust cost less that of the configured one) of one landmark.

    `others` are further starts, such as the places of other beacons: labels may be swapped.
    """
    rows = np.flatnonzero(sources.at(sources.robots + landmark))
    table = graph.ranges.take(rows)
    part = graph.replaced(ranges=table)
    here = estimate.landmarks[landmark]
    vector = range_vectors(part, estimate)
    antenna = np.where(
        (table.target == ~landmark)[:, None], here - vector, here + vector)
    sigma = 1 / np.sqrt(table.precision)
    configured = configured_place(graph, landmark)
    middle, reach = antenna.mean(axis=0), float(np.median(table.distance_m))
    angle = 2 * np.pi * np.arange(_SEEDS) / _SEEDS
    circle = np.zeros((_SEEDS, graph.dimension))
    circle[:, 0], circle[:, 1] = np.cos(angle), np.sin(angle)
    starts = np.concatenate([[configured], np.reshape(others, (-1, graph.dimension)),
                             middle + reach * circle])
    places = [_descended(antenna, table.distance_m, sigma, start) for start in starts]
    costs = [_cost(antenna, table.distance_m, sigma, place) for place in places]
    best = int(np.argmin(costs))
    return places[best], costs[best] - _cost(antenna, table.distance_m, sigma, configured)


def _cost(antenna: Array, distance: Array, sigma: Array, place: Array) -> float:
    square = ((np.linalg.norm(antenna - place, axis=1) - distance) / sigma) ** 2
    return float(np.sum(square / (1 + square / _KERNEL**2)))


def _descended(antenna: Array, distance: Array, sigma: Array, start: Array) -> Array:
    """A local minimum of the robust cost, the kernel narrowed from wide (Gauss-Newton)."""
    place = start.copy()
    d = len(start)
    width = max(64.0, float(np.max(np.abs(
        np.linalg.norm(antenna - place, axis=1) - distance) / sigma, initial=1.0)) / _KERNEL)
    for _ in range(_STEPS):
        vector = place - antenna
        length = np.maximum(np.linalg.norm(vector, axis=1), 1e-6)
        error = (length - distance) / sigma
        weight = (1 + (error / (_KERNEL * width)) ** 2) ** -2.0
        jacobian = vector / (length * sigma)[:, None]
        normal = (jacobian * weight[:, None]).T @ jacobian + 1e-9 * np.eye(d)
        place = place - np.linalg.solve(normal, jacobian.T @ (weight * error))
        width = max(1.0, width / 1.4)
    return place


def swapped_or_misplaced(
    graph: Graph, estimate: Estimate, sources: RangeEnds, suspects: Sequence[int], floor_m: float,
    gain: float,
) -> list[Finding]:
    """What the places found for suspected known beacons say: swapped labels, or a wrong place.

    `gain` is the least robust cost to save. Nothing is said where most known beacons seem
    misplaced: then the map is.
    """
    known = known_beacons(graph)
    moved: dict[int, Array] = {}
    for landmark in suspects:
        others = [configured_place(graph, k) for k in known if k != landmark]
        place, saved = found_place(graph, estimate, sources, landmark, others)
        if -saved > gain and np.linalg.norm(place - configured_place(graph, landmark)) > floor_m:
            moved[landmark] = place
    if not moved or 2 * len(moved) > len(known):
        return []
    return place_findings(
        graph, {graph.landmarks.names[k]: place for k, place in moved.items()}, _EXCHANGED)


def place_findings(graph: Graph, places: Mapping[str, Array], share: float) -> list[Finding]:
    """What the places of known beacons say, (d,) by name: swapped labels, or a wrong place.

    Two labels are swapped where each beacon stands nearer to the other's configured place than
    this share of the distance between the two.
    """
    names = graph.landmarks.names
    configured = {name: configured_place(graph, names.index(name)) for name in places}
    found, swapped = [], set()
    for pair in combinations(places, 2):
        first, second = sorted(pair)
        apart = float(np.linalg.norm(configured[first] - configured[second]))
        if max(np.linalg.norm(places[first] - configured[second]),
               np.linalg.norm(places[second] - configured[first])) < share * apart:
            swapped |= {first, second}
            found.append(Finding(
                'beacons_swapped', f'{first} and {second}',
                f'ranges of beacons {first} and {second} fit better when swapped', apart, 'm'))
    return found + [misplaced(name)(place - configured[name])
                    for name, place in places.items() if name not in swapped]
