"""Where one rigid body or one point can be, given distances to known places: all local minima.

Many starts at once: headings all around, for each the linearised multilateration and its mirror
image across the line or plane of the known places, then damped Gauss–Newton on all of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...array_types import Array, Index
from ...linalg.rotations import angle_to_matrix
from .registration_kernels import descended
from .rigid_kernels import DIRECTION, HEIGHT, WHOLE
from .rigid_problem import QUADRATIC, Pairs, Placement, RigidProblem

TRIED_HEADINGS = 12
"""Starts in the plane, and about a known vertical, 30 degrees apart; else in space the 24
rotations of a cube."""
MOST_DESCENT_STEPS = 20
"""Levenberg-Marquardt steps from each start; most end sooner, by their gain."""
MOST_ROWS = 120
"""Distances that a search takes, picked evenly: its work is linear in them."""


class Evidence(NamedTuple):
    """What ties one variable to known places; points are relative to the variable's centre."""

    points: Array
    """(k, d): antennas relative to the centre; zero for a landmark."""
    places: Array
    """(k, d): the other antennas in map."""
    distance: Array
    weight: Array
    same_points: Array
    """(c, d): points that coincide with ..."""
    same_places: Array
    """(c, d): ... these places in map."""
    same_weight: Array
    same_part: Index
    """(c,): what of them coincides: `WHOLE`, `HEIGHT` or `DIRECTION` (unit vectors)."""

    @property
    def rows(self) -> int:
        """Scalar constraints."""
        d, part = self.same_points.shape[1], self.same_part
        return (len(self.points) + d * int(np.sum(part == WHOLE)) + bool(np.any(part == HEIGHT))
                + (d - 1) * bool(np.any(part == DIRECTION)))

    def thinned(self) -> Evidence:
        """At most MOST_ROWS distances, evenly picked, with their weights scaled up."""
        step = -(-len(self.points) // MOST_ROWS)
        if step <= 1:
            return self
        return self._replace(
            points=self.points[::step].copy(), places=self.places[::step].copy(),
            distance=self.distance[::step].copy(), weight=self.weight[::step] * step)


@dataclass(frozen=True)
class Candidates:
    """Local minima: placements of the centre, best first."""

    rotation: Array
    """(s, d, d)."""
    position: Array
    """(s, d): of the centre in map."""
    cost: Array


def evidence_of(
    problem: RigidProblem, variable: int, unplaced: Index, rejected: bool = False,
    at: Placement | None = None,
) -> Evidence:
    """Constraints between one variable and all others but the unplaced ones.

    Measurements that the robust solve rejects are among them where `rejected`. The others are
    where the estimate has them, or a placement `at`.
    """
    at = problem.identity() if at is None else at

    def sides(pairs: Pairs) -> tuple[Array, Array, Array]:
        used = pairs.kept | rejected
        first = (pairs.first == variable) & ~np.isin(pairs.second, unplaced) & used
        second = (pairs.second == variable) & ~np.isin(pairs.first, unplaced) & used
        own = np.concatenate([pairs.point_first[first], pairs.point_second[second]])
        other = np.concatenate([
            problem.places(at, pairs, False)[first], problem.places(at, pairs, True)[second]])
        rows = np.concatenate([np.flatnonzero(first), np.flatnonzero(second)])
        direction = (pairs.part[rows] == DIRECTION)[:, None]
        return own - np.where(direction, 0.0, problem.centers[variable]), other, rows

    points, places, rows = sides(problem.ranges)
    same_points, same_places, same_rows = sides(problem.same)
    return Evidence(
        points, places, problem.distance[rows], problem.ranges.weight[rows], same_points,
        same_places, problem.same.weight[same_rows], problem.same.part[same_rows])


def candidates(
    evidence: Evidence, turn: bool, start: tuple[Array, Array] | None = None,
    width: float = QUADRATIC,
) -> Candidates:
    """Local minima from many starts, and from `start` (rotation, position), best first.

    `turn` is false for a landmark, which has no heading. `width` is c^2 of a Geman-McClure kernel
    on every residual.
    """
    evidence = evidence.thinned()
    d = evidence.places.shape[1] if len(evidence.places) else evidence.same_places.shape[1]
    level = bool(np.any(evidence.same_part == DIRECTION))
    headings = _headings(d, level) if turn else np.eye(d)[None]
    position = np.concatenate([_multilaterated(evidence, r) for r in headings])
    rotation = np.repeat(headings, 2, axis=0)
    if start is not None:
        rotation = np.concatenate([start[0][None], rotation])
        position = np.concatenate([start[1][None], position])
    cost = np.empty(len(position))
    descended(evidence, rotation, position, turn, width, MOST_DESCENT_STEPS, cost)
    order = np.argsort(cost, kind='stable')
    return Candidates(rotation[order], position[order], cost[order])


def _headings(dimension: int, level: bool) -> Array:
    """Starts; of a level body, whose vertical is known, only turns about that."""
    around = angle_to_matrix(np.linspace(0, 2 * np.pi, TRIED_HEADINGS, endpoint=False))
    if dimension == 2:
        return around
    if level:
        upright = np.tile(np.eye(3), (TRIED_HEADINGS, 1, 1))
        upright[:, :2, :2] = around
        return upright
    signed = [
        np.eye(3)[list(order)] * np.array(signs)[:, None]
        for order in itertools.permutations(range(3))
        for signs in itertools.product((1.0, -1.0), repeat=3)
    ]
    return np.array([matrix for matrix in signed if np.linalg.det(matrix) > 0])


def _multilaterated(evidence: Evidence, rotation: Array) -> Array:
    """(2, d): linear estimate of the centre at a heading, and its mirror image."""
    seen_from = evidence.places - evidence.points @ rotation.T
    same = evidence.same_places - evidence.same_points @ rotation.T
    if np.any(evidence.same_part == WHOLE):
        middle = np.mean(same[evidence.same_part == WHOLE], axis=0)
        return np.stack([middle, middle])
    if not len(seen_from):
        middle = np.mean(same[evidence.same_part == HEIGHT], axis=0)
        return np.stack([middle, middle])
    if np.any(evidence.same_part == HEIGHT):
        # The height is known: what is left of the distances is of the horizontal plane.
        height = float(np.median(same[evidence.same_part == HEIGHT, -1]))
        level = np.sqrt(np.maximum(
            evidence.distance**2 - (seen_from[:, -1] - height)**2, 0.0))
        return np.insert(_trilaterated(seen_from[:, :-1], level), seen_from.shape[1] - 1, height,
                         axis=1)
    return _trilaterated(seen_from, evidence.distance)


def _trilaterated(seen_from: Array, distance: Array) -> Array:
    """(2, d): the point at these distances (k,) from places (k, d), and its mirror image."""
    middle = np.mean(seen_from, axis=0)
    offset = seen_from - middle
    square = np.sum(offset**2, axis=1) - distance**2
    squares, columns = np.linalg.eigh(offset.T @ offset)
    values, axes = np.sqrt(np.maximum(squares[::-1], 0)), columns[:, ::-1].T
    d = offset.shape[1]
    inverse = np.zeros(d)
    # Directions along which the places hardly spread are left to the mirror pair below.
    spread = values > max(1e-3, 0.02 * values[0])
    inverse[spread] = 1 / values[spread] ** 2
    target = 0.5 * (square - np.mean(square))
    along = axes.T @ (inverse * (axes @ (offset.T @ target)))
    height = np.mean(distance**2 - np.sum((along - offset) ** 2, axis=1))
    up = axes[-1] * np.sqrt(max(height, 0.01))
    if not np.any(spread):
        up = axes[0] * np.mean(distance)
    return np.stack([middle + along + up, middle + along - up])
