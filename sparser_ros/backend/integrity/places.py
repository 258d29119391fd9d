"""What ranges alone say of places: beacons moved or configured wrongly.

Robots are where a map has them. The ranges of one beacon count with a kernel of their own about
every place that it may have: the weights of the map reject the ranges of a misplaced beacon, and
say nothing of where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import chdtri

from ...array_types import Array, Index, Mask
from ...graph import Estimate, Graph, Ranges
from ...graph.ends import RangeEnds
from ...graph.estimate import antennas
from ...graph.finding import Finding
from ..observability.datum import directions_open
from ..observability.registration import candidates, ranges_to
from .doubts import FAR_SIGMA, ordinary
from .exchange import BEACONS_EXCHANGED
from .faults import MISPLACED, ranges_of
from .hypotheses import misplaced
from .stretches import LEAST_TELLING

DENIED = MISPLACED, BEACONS_EXCHANGED
"""Kinds of findings that deny a configured place."""
_WIDTH = 25.0
"""c^2 of Geman-McClure, as the solver's."""
_SEEDS = 8
"""Starts on a circle about the robots, to which the ranges reach."""
_APART_SIGMAS = 3.0
"""Standard deviations of a place from which another minimum is another place."""


def known_beacons(graph: Graph) -> list[int]:
    """Landmarks with a configured place: fixed, or with a prior."""
    prior = graph.point_priors.point
    held = set(np.flatnonzero(graph.landmarks.fixed).tolist())
    return sorted(held | set((~prior[prior < 0]).tolist()))


def known_names(graph: Graph) -> set[str]:
    """Their names."""
    return {graph.landmarks.names[number] for number in known_beacons(graph)}


def configured_place(graph: Graph, landmark: int) -> Array:
    """(d,): where the configuration has a known landmark."""
    if graph.landmarks.fixed[landmark]:
        return graph.landmarks.position[landmark]
    row = int(np.flatnonzero(graph.point_priors.point == ~landmark)[0])
    return graph.point_priors.position[row]


def fixed_by_beacons(graph: Graph, without: Collection[str] = ()) -> bool:
    """Whether configured places of beacons, but for some, fix the frame of map."""
    sound = [configured_place(graph, k) for k in known_beacons(graph)
             if graph.landmarks.names[k] not in without]
    return directions_open(
        np.reshape(sound, (-1, graph.dimension)), bool(len(graph.verticals))) <= 1


def frame_reason(graph: Graph, findings: Sequence[Finding], largest_bias_m: float) -> str:
    """Why known beacons no longer fix the frame of map, or ''.

    Of two that contradict each other either may be wrong: then only others can fix map. Fixes of
    robots fix it as well. What looks like a bias of
    more than `largest_bias_m` of a known beacon's radio is rather a wrong place seen from one side.
    """
    configured = known_names(graph)
    at_fault = [
        finding for finding in findings if finding.kind in DENIED
        or (finding.kind == 'range_bias' and finding.subject in configured
        and abs(finding.value) > largest_bias_m)]
    if not at_fault or len(graph.pose_priors) or np.any(graph.point_priors.point >= 0):
        return ''
    suspected = {name for finding in at_fault for name in finding.subjects}
    if fixed_by_beacons(graph, suspected):
        return ''
    names = ', '.join(graph.landmarks.names[k] for k in known_beacons(graph))
    return (f'the configured places of the known beacons ({names}) contradict each other, and they '
            f'are too few to tell which of them is wrong: {at_fault[0].text}')


# -- beacons -------------------------------------------------------------------------------------


class BeaconRanges:
    """Ranges of a landmark with it at any place."""

    def __init__(self, graph: Graph, estimate: Estimate, landmark: int, rows: Index) -> None:
        ranges = graph.ranges.take(rows)
        self.others = _other_ends(estimate, ranges, ranges.source == ~landmark)
        """(k, d): antennas at the other ends."""
        self.distance_m, self.root = ranges.distance_m, np.sqrt(ranges.precision)

    def whitened(self, place: Array) -> Array:
        """(k,): whitened residuals with the landmark there."""
        length = np.linalg.norm(place - self.others, axis=1)
        return np.asarray((length - self.distance_m) * self.root)

    def cost(self, place: Array) -> float:
        """Robust chi-square."""
        return float(np.sum(_robust(self.whitened(place))))

    def places(self, starts: Array) -> tuple[Array, Array]:
        """(s, d), (s,): local minima and their robust cost, best first; `starts` are (n, d).

        The kernel narrows from one that hardly rejects anything.
        """
        evidence = ranges_to(
            np.zeros_like(self.others), self.others, self.distance_m, self.root**2)
        d = self.others.shape[1]
        angle = 2 * np.pi * np.arange(_SEEDS) / _SEEDS
        circle = np.zeros((_SEEDS, d))
        circle[:, 0], circle[:, 1] = np.cos(angle), np.sin(angle)
        at = np.concatenate([
            starts, np.mean(self.others, axis=0) + np.median(self.distance_m) * circle])
        for width in (64 * _WIDTH, 8 * _WIDTH, _WIDTH):
            placements = candidates(
                evidence, False, (np.tile(np.eye(d), (len(at), 1, 1)), at), width)
            at = placements.position
        return placements.position, placements.cost

    def sigma_m(self, place: Array) -> float:
        """Of a minimum, in its worst direction, by the noise that its residuals show."""
        whitened, vector = self.whitened(place), place - self.others
        length = np.maximum(np.linalg.norm(vector, axis=1), 1e-9)
        weight = self.root / length / (1 + whitened**2 / _WIDTH)
        slopes = vector * weight[:, None]
        least = float(np.linalg.eigvalsh(slopes.T @ slopes)[0])
        factor = self.cost(place) / max(len(whitened) - len(place), 1)
        return float(np.sqrt(max(factor, 1.0) / least)) if least > 0 else np.inf

    def length_cost(self, place: Array) -> float:
        """Robust cost where they are all too long by the best length, the landmark being there."""
        whitened = self.whitened(place)
        lengths = np.quantile(-whitened / self.root, np.linspace(0, 1, 65))
        return float(np.min(np.sum(
            _robust(whitened + lengths[:, None] * self.root), axis=1)))


def _robust(whitened: Array) -> Array:
    return np.asarray(whitened**2 / (1 + whitened**2 / _WIDTH))


def _other_ends(estimate: Estimate, ranges: Ranges, at_source: Mask) -> Array:
    """(k, d): antennas at the ends of ranges that are not `at_source`."""
    return antennas(
        estimate, np.where(at_source, ranges.target, ranges.source),
        np.where(at_source[:, None], ranges.lever_target, ranges.lever_source))


@dataclass(frozen=True)
class Move:
    """Where a beacon was and is."""

    landmark: int
    before: Array
    """(d,) in map, m."""
    after: Array
    sigma_m: float
    """Of `after`, in its worst direction, robots held."""

    @property
    def way_m(self) -> float:
        """How far it was moved."""
        return float(np.linalg.norm(self.after - self.before))

    def of(self, estimate: Estimate) -> Estimate:
        """An estimate with the beacon where it is now."""
        landmarks = estimate.landmarks.copy()
        landmarks[self.landmark] = self.after
        return replace(estimate, landmarks=landmarks)

    def words(self, name: str, seconds: float, *, known: bool = False) -> str:
        """For an operator; `known`: its place is configured."""
        places = ['(' + ', '.join(f'{value:.1f}' for value in place) + ')'
                  for place in (self.before, self.after)]
        return (f'beacon {name} was moved by {self.way_m:.1f} m at {seconds:.0f} s of the data or '
                f'before, from {places[0]} to {places[1]}'
                + ('; set the position of its radio' if known else ''))


def may_have_moved(beacon: str, rows: Index, graph: Graph, estimate: Estimate) -> bool:
    """Whether ranges are of a beacon, and fit some other place as often as others fit theirs.

    Where it has none, nothing says that it has not been moved.
    """
    if beacon not in graph.landmarks.names or not len(rows):
        return beacon in graph.landmarks.names
    landmark = graph.landmarks.names.index(beacon)
    ranges = BeaconRanges(graph, estimate, landmark, rows)
    return _fits(ranges, ranges.places(estimate.landmarks[[landmark]])[0][0])


def _fits(ranges: BeaconRanges, place: Array) -> bool:
    far = int(np.sum(np.abs(ranges.whitened(place)) >= FAR_SIGMA))
    return ordinary(far, len(ranges.root))


def move_of(
    beacon: str, rows: Index, graph: Graph, estimate: Estimate, flip_cost: float
) -> Move | None:
    """Where a beacon is by these ranges; None where that is not clear.

    It is clear where the ranges fit there as often as others do, the way is more than its error,
    and no other place, nor one length that is common to all, is worse by less than `flip_cost`.
    """
    if beacon not in graph.landmarks.names or len(rows) < LEAST_TELLING:
        return None
    landmark = graph.landmarks.names.index(beacon)
    ranges, before = BeaconRanges(graph, estimate, landmark, rows), estimate.landmarks[landmark]
    places, costs = ranges.places(before[None])
    move = Move(landmark, before, places[0], ranges.sigma_m(places[0]))
    apart = np.linalg.norm(places - places[0], axis=1) > _APART_SIGMAS * move.sigma_m
    rival = min(ranges.length_cost(before), np.min(costs[apart], initial=np.inf))
    significant = np.sqrt(chdtri(len(before), np.exp(-flip_cost / 2)))
    clear = (_fits(ranges, move.after) and rival - costs[0] >= flip_cost
             and move.way_m > significant * move.sigma_m)
    return move if clear else None


def stands_still(
    beacon: str, rows: Index, graph: Graph, estimate: Estimate, flip_cost: float
) -> bool:
    """Whether one place explains some ranges of a beacon and all others of it.

    That is so unless a place of their own makes both cheaper, by more than `flip_cost`, in a map
    without any of them. Also where the others are too few to tell.
    """
    own = ranges_of(beacon, graph)
    rest = np.setdiff1d(own, rows)
    if len(rest) < LEAST_TELLING:
        return True
    landmark = graph.landmarks.names.index(beacon)
    together, *apart = (
        BeaconRanges(graph, estimate, landmark, part).places(estimate.landmarks[[landmark]])[1][0]
        for part in (own, rows, rest))
    degrees = len(own) - 2 * graph.dimension
    factor = max(sum(apart) / degrees, 1.0) if degrees > 0 else 1.0
    return bool(together - sum(apart) < factor * flip_cost)


def swapped_or_misplaced(
    graph: Graph, estimate: Estimate, sources: RangeEnds, suspects: Sequence[int], floor_m: float,
    gain: float,
) -> list[Finding]:
    """What the places found for suspected known beacons say: swapped labels, or a wrong place.

    `gain` is the least robust cost to save. Nothing is said where most known beacons seem
    misplaced: then the map is.
    """
    known, moved = known_beacons(graph), {}
    for landmark in suspects:
        ranges = BeaconRanges(
            graph, estimate, landmark, np.flatnonzero(sources.at(sources.robots + landmark)))
        configured = configured_place(graph, landmark)
        places, costs = ranges.places(np.array([configured_place(graph, k) for k in known]))
        if ranges.cost(configured) - costs[0] > gain and np.linalg.norm(
                places[0] - configured) > floor_m:
            moved[graph.landmarks.names[landmark]] = places[0]
    return place_findings(graph, moved) if 2 * len(moved) <= len(known) else []


def place_findings(graph: Graph, places: Mapping[str, Array]) -> list[Finding]:
    """What the places of known beacons say, (d,) by name: swapped labels, or a wrong place.

    Two labels are swapped where each beacon stands nearest to the other's configured place.
    """
    names = graph.landmarks.names
    configured = {names[k]: configured_place(graph, k) for k in known_beacons(graph)}
    every = np.array(list(configured.values()))
    nearest = {name: list(configured)[int(np.argmin(np.linalg.norm(every - place, axis=1)))]
               for name, place in places.items()}
    findings, swapped = [], set()
    for first, second in combinations(sorted(places), 2):
        if nearest[first] == second and nearest[second] == first:
            swapped |= {first, second}
            findings.append(Finding(
                BEACONS_EXCHANGED, f'{first} and {second}',
                f'ranges of beacons {first} and {second} fit better when swapped',
                float(np.linalg.norm(configured[first] - configured[second])), 'm'))
    return findings + [misplaced(name, place - configured[name])
                       for name, place in places.items() if name not in swapped]
