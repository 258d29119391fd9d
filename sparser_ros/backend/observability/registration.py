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
from .rigid_kernels import DIRECTION, HEIGHT, WHOLE, CarriedPairs, Unknowns, descended
from .rigid_problem import QUADRATIC, Placement, RigidProblem

TRIED_HEADINGS = 12
"""Starts in the plane, and about a known vertical, 30 degrees apart; else in space the 24
rotations of a cube."""
MOST_DESCENT_STEPS = 20
"""Levenberg-Marquardt steps from each start; most end sooner, by their gain."""
MOST_ROWS = 120
"""Distances that a search takes, picked evenly: its work is linear in them."""


class Evidence(NamedTuple):
    """What ties one variable, number 0, to known places, which the ground, number 1, carries."""

    ranges: CarriedPairs
    distance: Array
    same: CarriedPairs
    """Coincidences."""
    group: Index
    """(c,): those of one measurement share a number."""
    degrees: Array
    """(groups,): by which kernels widen."""

    @property
    def rows(self) -> int:
        """Scalar constraints."""
        d, part = self.same.arm_second.shape[1], self.same.part
        return (len(self.distance) + d * int(np.sum(part == WHOLE)) + bool(np.any(part == HEIGHT))
                + (d - 1) * bool(np.any(part == DIRECTION)))

    def thinned(self) -> Evidence:
        """At most MOST_ROWS distances, evenly picked, with their weights scaled up."""
        step = -(-len(self.distance) // MOST_ROWS)
        if step <= 1:
            return self
        ranges = CarriedPairs(*(column[::step].copy() for column in self.ranges))
        return self._replace(
            ranges=ranges._replace(root=ranges.root * np.sqrt(step)),
            distance=self.distance[::step].copy())


def _carried(arms: Array, places: Array, weight: Array, part: Index) -> CarriedPairs:
    count = len(arms)
    return CarriedPairs(
        np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64), arms, places,
        np.sqrt(weight), np.ones(count, dtype=bool), part)


def ranges_to(arms: Array, places: Array, distance: Array, weight: Array) -> Evidence:
    """Distances (k,) from points on a body, (k, d) from its centre, to places (k, d) in map."""
    count, d = arms.shape
    zero, none = np.zeros(0, dtype=np.int64), np.zeros((0, d))
    return Evidence(
        _carried(arms, places, weight, np.zeros(count, dtype=np.int64)), distance,
        _carried(none, none, np.zeros(0), zero), zero, np.zeros(0))


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

    out = np.zeros(problem.variables + 1, dtype=bool)
    out[unplaced] = True

    def sides(pairs: CarriedPairs) -> tuple[Array, Array, Index]:
        used = pairs.kept | rejected
        first = np.flatnonzero(used & (pairs.first == variable) & ~out[pairs.second])
        second = np.flatnonzero(used & (pairs.second == variable) & ~out[pairs.first])
        own = np.concatenate([pairs.arm_first[first], pairs.arm_second[second]])
        rows = np.concatenate([first, second])
        arm = np.concatenate([pairs.arm_second[first], pairs.arm_first[second]])
        other = problem.placed(
            at, np.concatenate([pairs.second[first], pairs.first[second]]), arm)
        return own, np.where((pairs.part[rows] == DIRECTION)[:, None], arm, other), rows

    arms, places, rows = sides(problem.carried[0])
    own, there, same = sides(problem.carried[1])
    _, first, group = np.unique(problem.same.group[same], return_index=True, return_inverse=True)
    return Evidence(
        _carried(arms, places, problem.ranges.weight[rows], problem.ranges.part[rows]),
        problem.distance[rows],
        _carried(own, there, problem.same.weight[same], problem.same.part[same]),
        group.reshape(-1), problem.same.degrees[same][first])


def candidates(
    evidence: Evidence, turn: bool, start: tuple[Array, Array] | None = None,
    width: float = QUADRATIC,
) -> Candidates:
    """Local minima from many starts, and from `start` (rotations, positions), best first.

    `turn` is false for a landmark, which has no heading. `width` is c^2 of a Geman-McClure kernel
    on every measurement.
    """
    # Heavier ones that stand for several would be doubted for errors that none of these has.
    evidence = evidence.thinned() if turn else evidence
    d = evidence.ranges.arm_second.shape[1]
    headings = np.eye(d)[None]
    if turn:
        headings = _headings(d, bool(np.any(evidence.same.part == DIRECTION)))
    position = np.concatenate([_multilaterated(evidence, r) for r in headings])
    rotation = np.repeat(headings, 2, axis=0)
    if start is not None:
        rotation = np.concatenate([start[0].reshape(-1, d, d), rotation])
        position = np.concatenate([start[1].reshape(-1, d), position])
    cost = np.empty(len(position))
    size = d + (0 if not turn else 1 if d == 2 else 3)
    descended(
        *evidence, Unknowns(np.zeros(2, dtype=np.int64), np.array([size, 0])), rotation, position,
        width, MOST_DESCENT_STEPS, cost)
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
    ranges, coincident = evidence.ranges, evidence.same
    seen_from = ranges.arm_second - ranges.arm_first @ rotation.T
    same = coincident.arm_second - coincident.arm_first @ rotation.T
    if np.any(coincident.part == WHOLE):
        middle = np.mean(same[coincident.part == WHOLE], axis=0)
        return np.stack([middle, middle])
    if not len(seen_from):
        middle = np.mean(same[coincident.part == HEIGHT], axis=0)
        return np.stack([middle, middle])
    if np.any(coincident.part == HEIGHT):
        # The height is known: what is left of the distances is of the horizontal plane.
        height = float(np.median(same[coincident.part == HEIGHT, -1]))
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
