"""Where one rigid body or one point can be, given distances to known places: all local minima.

Many starts at once: headings all around, for each the linearised multilateration and its mirror
image across the line or plane of the known places, then damped Gauss–Newton on all of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Index
from ...linalg.rotations import angle_to_matrix
from .rigid_kernels import DIRECTION, DISTANCE, HEIGHT, WHOLE, Ties, Unknowns, descended
from .rigid_problem import QUADRATIC, Placement, RigidProblem

TRIED_HEADINGS = 12
"""Starts in the plane, and about a known vertical, 30 degrees apart; else in space the 24
rotations of a cube."""
MOST_DESCENT_STEPS = 20
"""Levenberg-Marquardt steps from each start; most end sooner, by their gain."""
MOST_ROWS = 120
"""Distances that a search takes, picked evenly: its work is linear in them."""


def ranges_to(arms: Array, places: Array, distance: Array, weight: Array) -> Ties:
    """Distances (k,) from points on a body, (k, d) from its centre, to places (k, d) in map."""
    number = np.arange(len(arms))
    zero = np.zeros_like(number)
    return Ties(zero, zero + 1, arms, places, distance, weight, number >= 0, zero + DISTANCE,
                number, np.ones(len(arms)))


def constraints(evidence: Ties) -> int:
    """Scalar constraints that ties put on one variable; of a vertical and of heights there is one
    each, however often measured."""
    d, part = evidence.arm_second.shape[1], evidence.part
    return (int(np.sum(part == DISTANCE)) + d * int(np.sum(part == WHOLE))
            + bool(np.any(part == HEIGHT)) + (d - 1) * bool(np.any(part == DIRECTION)))


def _thinned(evidence: Ties) -> Ties:
    """At most MOST_ROWS distances, evenly picked, with their weights scaled up."""
    apart = evidence.part == DISTANCE
    step = -(-int(np.sum(apart)) // MOST_ROWS)
    if step <= 1:
        return evidence
    few = evidence.take(~apart | ((np.cumsum(apart) - 1) % step == 0))
    return few._replace(weight=np.where(few.part == DISTANCE, few.weight * step, few.weight))


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
) -> Ties:
    """What ties one variable, number 0, to all others but the unplaced ones, which the ground,
    number 1, carries.

    Measurements that the robust solve rejects are among them where `rejected`. The others are
    where the estimate has them, or a placement `at`.
    """
    at, ties = problem.identity() if at is None else at, problem.ties
    out = np.zeros(problem.variables + 1, dtype=bool)
    out[unplaced] = True
    used = ties.kept | rejected
    first = np.flatnonzero(used & (ties.first == variable) & ~out[ties.second])
    second = np.flatnonzero(used & (ties.second == variable) & ~out[ties.first])
    rows = np.concatenate([first, second])
    arm = np.concatenate([ties.arm_second[first], ties.arm_first[second]])
    place = problem.placed(at, np.concatenate([ties.second[first], ties.first[second]]), arm)
    some, zero = ties.take(rows), np.zeros(len(rows), dtype=np.int64)
    return some._replace(
        first=zero, second=zero + 1, kept=zero == 0,
        arm_first=np.concatenate([ties.arm_first[first], ties.arm_second[second]]),
        arm_second=np.where((some.part == DIRECTION)[:, None], arm, place))


def candidates(
    evidence: Ties, turn: bool, start: tuple[Array, Array] | None = None,
    width: float = QUADRATIC,
) -> Candidates:
    """Local minima from many starts, and from `start` (rotations, positions), best first.

    `turn` is false for a landmark, which has no heading: it starts from its mirror image as well,
    which false distances do not move. `width` is c^2 of a Geman-McClure kernel on every
    measurement.
    """
    # Heavier ones that stand for several would be doubted for errors that none of these has.
    evidence = _thinned(evidence) if turn else evidence
    d = evidence.arm_second.shape[1]
    headings = np.eye(d)[None]
    if turn:
        headings = _headings(d, bool(np.any(evidence.part == DIRECTION)))
    position = np.concatenate([_multilaterated(evidence, r) for r in headings])
    rotation = np.repeat(headings, 2, axis=0)
    if start is not None:
        known = [start[1].reshape(-1, d)]
        places = evidence.arm_second[evidence.part == DISTANCE]
        if not turn and len(places):
            known.append(_reflected(known[0], places))
        position = np.concatenate([*known, position])
        rotation = np.concatenate([start[0].reshape(-1, d, d), rotation]) if turn else np.tile(
            np.eye(d), (len(position), 1, 1))
    cost = np.empty(len(position))
    size = d + (0 if not turn else 1 if d == 2 else 3)
    descended(
        evidence, Unknowns(np.zeros(2, dtype=np.int64), np.array([size, 0])), rotation, position,
        width, MOST_DESCENT_STEPS, cost)
    order = np.argsort(cost, kind='stable')
    return Candidates(rotation[order], position[order], cost[order])


def _reflected(points: Array, places: Array) -> Array:
    """Points (k, d) mirrored about the line (plane) that fits places best."""
    offset = places - np.mean(places, axis=0)
    normal = np.linalg.eigh(offset.T @ offset)[1][:, 0]
    return np.asarray(points - 2 * np.outer((points - np.mean(places, axis=0)) @ normal, normal))


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


def _multilaterated(evidence: Ties, rotation: Array) -> Array:
    """(2, d): linear estimate of the centre at a heading, and its mirror image."""
    place = evidence.arm_second - evidence.arm_first @ rotation.T
    whole, level, apart = (evidence.part == part for part in (WHOLE, HEIGHT, DISTANCE))
    if np.any(whole) or not np.any(apart):
        seen = place[whole if np.any(whole) else level]
        # A vertical alone says nothing of a place.
        middle = np.mean(seen, axis=0) if len(seen) else np.zeros(place.shape[1])
        return np.stack([middle, middle])
    seen_from, distance = place[apart], evidence.distance[apart]
    if np.any(level):
        # The height is known: what is left of the distances is of the horizontal plane.
        height = float(np.median(place[level, -1]))
        flat = np.sqrt(np.maximum(distance**2 - (seen_from[:, -1] - height)**2, 0.0))
        return np.insert(_trilaterated(seen_from[:, :-1], flat), seen_from.shape[1] - 1, height,
                         axis=1)
    return _trilaterated(seen_from, distance)


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
