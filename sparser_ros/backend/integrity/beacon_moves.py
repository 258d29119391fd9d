"""A beacon that somebody moved: where to, from the ranges that no longer fit its place.

Ranges that are faulty together are compared with another position of their beacon, the robots held
where the map without these ranges has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import OptimizeResult, least_squares
from scipy.special import chdtri

from ...array_types import Array, Index
from ...graph import Estimate, Graph, range_vectors
from .doubts import FAR_SIGMA, ordinary
from .faults import ranges_of
from .stretches import LEAST_TELLING

_RINGS = (1.0, 2.0, 4.0)
"""Distances of starts from the old position, over the median error of the ranges: the error is at
most the way of the move, and a quarter of it or less for few directions of view only."""
_APART = 0.1
"""Distance of two minima over the median error of the ranges, from which they are two places."""


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


class BeaconRanges:
    """Ranges of a beacon with it at any place; robots are where a map has them."""

    def __init__(self, beacon: str, rows: Index, graph: Graph, estimate: Estimate) -> None:
        """`graph` is the sum of all increments, `estimate` of all its poses and landmarks."""
        self.landmark = graph.landmarks.names.index(beacon)
        self.before = estimate.landmarks[self.landmark].copy()
        ranges = graph.ranges.take(rows)
        vector = range_vectors(graph.replaced(ranges=ranges), estimate)
        # From the antenna at the other end to the beacon.
        sign = np.where(ranges.target == ~self.landmark, 1.0, -1.0)
        self._others = self.before - sign[:, None] * vector
        self._distance_m, self._root = ranges.distance_m, np.sqrt(ranges.precision)
        self._still = self.whitened(self.before)
        self.error_m = float(np.median(np.abs(self._still / self._root)))
        self.minima = self._minima()

    def whitened(self, place: Array) -> Array:
        """(k,): whitened residuals with the beacon there."""
        length = np.linalg.norm(place - self._others, axis=1)
        return np.asarray((length - self._distance_m) * self._root)

    def _slopes(self, place: Array) -> Array:
        """(k, d): their derivatives by the place."""
        vector = place - self._others
        length = np.maximum(np.linalg.norm(vector, axis=1), 1e-9)
        return np.asarray(vector * (self._root / length)[:, None])

    def _minima(self) -> list[OptimizeResult]:
        """Local minima of the robust cost from the old place and rings about it, best first."""
        d = len(self.before)
        directions = np.concatenate([np.eye(d), -np.eye(d), *(
            np.array([[a, b, *[0.0] * (d - 2)]]) / np.sqrt(2) for a in (-1, 1) for b in (-1, 1))])
        starts = [self.before, *(
            self.before + ring * self.error_m * one for ring in _RINGS for one in directions)]
        found = [least_squares(self.whitened, start, jac=self._slopes, loss='cauchy',
                               f_scale=FAR_SIGMA) for start in starts]
        return sorted(found, key=lambda one: float(one.cost))

    @property
    def one_place(self) -> bool:
        """Whether there is a place where the ranges fit as often as others do."""
        best = self.minima[0]
        far = int(np.sum(np.abs(best.fun) >= FAR_SIGMA))
        return ordinary(far, len(best.fun))

    @property
    def length_cost(self) -> float:
        """Robust cost, with factor 1/2, where they are all too long by the best length."""
        start = -float(np.median(self._still / self._root))
        return float(least_squares(
            lambda metres: self._still + metres * self._root, [start], loss='cauchy',
            f_scale=FAR_SIGMA).cost)


def may_have_moved(beacon: str, rows: Index, graph: Graph, estimate: Estimate) -> bool:
    """Whether ranges are of a beacon, and some other place explains them."""
    return (beacon in graph.landmarks.names
            and BeaconRanges(beacon, rows, graph, estimate).one_place)


def move_of(
    beacon: str, rows: Index, graph: Graph, estimate: Estimate, flip_cost: float
) -> Move | None:
    """Where a beacon is by these ranges; None where that is not clear.

    It is clear where the ranges fit there as often as others do, the way is more than its error,
    and no other place, nor one length that is common to all, is worse by less than `flip_cost`.
    """
    if beacon not in graph.landmarks.names or len(rows) < LEAST_TELLING:
        return None
    ranges = BeaconRanges(beacon, rows, graph, estimate)
    best, before = ranges.minima[0], ranges.before
    rival = min([ranges.length_cost, *(
        other.cost for other in ranges.minima[1:]
        if np.linalg.norm(other.x - best.x) > _APART * ranges.error_m)])
    if not ranges.one_place or rival - best.cost < flip_cost / 2:
        return None
    least = float(np.linalg.eigvalsh(best.jac.T @ best.jac)[0])
    if least <= 0:
        return None
    # What the ranges leave over says whether their sigmas, and the robots' places, are that good.
    factor = max(2 * best.cost / max(len(best.fun) - len(before), 1), 1.0)
    move = Move(ranges.landmark, before, best.x, float(np.sqrt(factor / least)))
    significant = np.sqrt(chdtri(len(before), np.exp(-flip_cost / 2)))
    return move if move.way_m > significant * move.sigma_m else None


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
    together, *apart = (
        BeaconRanges(beacon, part, graph, estimate).minima[0].cost for part in (own, rows, rest))
    degrees = len(own) - 2 * graph.dimension
    factor = max(2 * sum(apart) / degrees, 1.0) if degrees > 0 else 1.0
    return bool(2 * (together - sum(apart)) < factor * flip_cost)
