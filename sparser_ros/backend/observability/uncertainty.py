"""Standard deviations from the Gauss-Newton information of the rigid problem, in its datum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...array_types import Array, Index, Mask
from ...graph import Estimate
from ...graph.parts import OdometrySegments
from ...linalg.rotations import rotation_jacobian
from .datum import Outside, relative_to
from .pieces import Pieces
from .rigid_problem import RigidProblem

_UNKNOWN_M, _UNKNOWN_RAD = 1e4, 30.0
"""Prior standard deviations: they only keep the information matrix invertible."""
_HEADING_ARM_M = 0.1
"""A heading counts in the alignment like a point so far away: it decides where robots stand."""
_HELD = 1e12
"""Information on the gauge piece: it does not move."""


@dataclass(frozen=True)
class Uncertainty:
    """Standard deviations in map: largest over directions."""

    heading: Array
    """(b,): of the newest pose of every segment, rad."""
    position: Array
    """(b,): of the newest pose of every segment, m."""
    landmark: Array
    """(m,): m."""
    variance_factor: float
    """Found over claimed variance of the residuals, at least 1; included in the above."""


def uncertainty(
    problem: RigidProblem, pieces: Pieces, estimate: Estimate, segments: OdometrySegments,
    gauge: int | None, limit_m: float, variance_factor: float | None = None,
) -> Uncertainty:
    """Uncertainty of every segment's newest pose and every landmark at the estimate.

    Without absolute data it is relative to the datum (datum.py): landmarks and newest poses of
    other segments whose standard deviation is below `limit_m`. Which these are is first seen from
    the gauge robot's whole path; where they are too few, all pieces of sure segments are the datum.
    Of an upright map a path that sees more serves as well: the tick chooses (session/belief.py).
    """
    d, count = problem.dimension, problem.pieces
    normal, _ = problem.normal_equations(problem.identity())
    weak = np.full(problem.unknowns, 1 / _UNKNOWN_M**2)
    size = d + problem.turns
    weak[:count * size].reshape(count, size)[:, d:] = 1 / _UNKNOWN_RAD**2
    if gauge is not None:
        weak[problem.held(int(pieces.first[gauge]))] = _HELD
    scale = 1 / np.sqrt(np.diag(normal) + weak)
    scaled = scale[:, None] * (normal + np.diag(weak)) * scale
    factor = _variance_factor(problem) if variance_factor is None else variance_factor
    covariance = factor * scale[:, None] * np.linalg.inv(scaled) * scale
    newest = pieces.last
    arm = estimate.translation[segments.last] - problem.centers[newest]
    carry = np.concatenate(
        [np.broadcast_to(np.eye(d), (len(newest), d, d)), rotation_jacobian(arm)], axis=2)
    bodies = _Bodies(problem, newest, carry, np.concatenate([
        estimate.translation[segments.last], problem.centers[count:-1]]), covariance, factor)
    if gauge is None:
        return bodies.uncertainty(bodies.rows)
    own = segments.robot == segments.robot[gauge]
    paths = [pieces.segment == gauge]
    if np.sum(own) > 1:
        # Odometry that began anew: all its segments, unless the newer ones are too loose to help.
        paths.append(own[pieces.segment])

    def best(paths: list[Mask]) -> Uncertainty:
        return min((bodies.uncertainty(partial(bodies.beside_path, rest=_rest(problem, path)))
                    for path in paths), key=lambda seen: float(np.sum(seen.position**2)))

    robot = np.concatenate([segments.robot, np.full(len(bodies.place) - len(newest), -1)])
    # A robot stands where its newest segment ends.
    ends = robot < 0
    ends[[segments.newest(k) for k in np.unique(segments.robot)]] = True

    def beside_each_other(seen: Uncertainty) -> Uncertainty:
        """Each body relative to those others that are sure as `seen` from one path; where these
        are too few, to all pieces of sure segments."""
        sure = np.concatenate([seen.position, seen.landmark]) < limit_m
        path = sure[:len(newest)][pieces.segment]
        rest = _rest(
            problem, path if np.any(path) else pieces.segment == int(np.argmin(pieces.first)))

        def rows(body: int) -> Array:
            others = sure & ends & ((robot != robot[body]) | (robot < 0))
            others[body] = False
            relative = bodies.beside(body, np.flatnonzero(others))
            return bodies.beside_path(body, rest) if relative is None else relative

        return bodies.uncertainty(rows)

    own_seen = best(paths)
    found = beside_each_other(own_seen)
    if not problem.outside:
        return found
    seen = max([own_seen, *(best([pieces.segment == segment]) for segment in np.unique(
        pieces.segment) if segment != gauge)],
        key=lambda seen: int(np.sum(seen.position < limit_m)))
    if seen is own_seen:
        return found
    # Two robots of an upright map that know each other are sure, the gauge robot or not.
    other = beside_each_other(seen)
    return replace(other, heading=np.minimum(found.heading, other.heading),
                   position=np.minimum(found.position, other.position))


@dataclass(frozen=True)
class _Bodies:
    """Newest poses of segments, then landmarks, in a rigid problem."""

    problem: RigidProblem
    newest: Index
    """(b,): newest piece of every segment."""
    carry: Array
    """(b, d, d + turns): displacement of the newest pose by the motion of that piece."""
    place: Array
    """(b + m, d), metres."""
    covariance: Array
    """Of all unknowns."""
    factor: float
    """The variance factor in it."""

    def rows(self, body: int) -> Array:
        """(d or d + turns, unknowns): displacement of a body, its turn below it."""
        problem, b, d = self.problem, len(self.newest), self.problem.dimension
        if body >= b:
            row = np.zeros((d, problem.unknowns))
            row[:, problem.columns(problem.pieces + body - b)] = np.eye(d)
            return row
        at = problem.columns(int(self.newest[body]))
        row = np.zeros((d + problem.turns, problem.unknowns))
        row[:d, at] = self.carry[body]
        row[d:, at.start + d:at.stop] = np.eye(problem.turns)
        return row

    def beside(self, body: int, others: Index) -> Array | None:
        """The same relative to other bodies; None where these are too few."""
        d, row = self.problem.dimension, self.rows(body)
        motion = relative_to(self.place[body], self.place[others], self.problem.outside)
        if motion is None:
            return None
        moved = np.concatenate([self.rows(int(k))[:d] for k in others])
        return np.asarray(row - motion[:len(row)] @ moved)

    def beside_path(self, body: int, rest: Array) -> Array:
        """The same in the frame of `_rest`."""
        d, row = self.problem.dimension, self.rows(body)
        move = np.concatenate([np.eye(d), rotation_jacobian(self.place[body][None])[0]], axis=1)
        return np.asarray(row - np.concatenate([move @ rest, rest[d:]])[:len(row)])

    def uncertainty(self, rows: Callable[[int], Array]) -> Uncertainty:
        """Of all bodies, whose displacements are `rows` of the unknowns."""
        d, b = self.problem.dimension, len(self.newest)
        squares = [row @ self.covariance @ row.T for row in map(rows, range(len(self.place)))]
        turns, moves = (np.array([_largest(square) for square in part]) for part in (
            [square[d:, d:] for square in squares[:b]], [square[:d, :d] for square in squares]))
        return Uncertainty(turns, moves[:b], moves[b:], self.factor)


def _rest(problem: RigidProblem, own: Mask) -> Array:
    """(d + turns, unknowns): motion of the frame in which the pieces of a mask are at rest, by
    least squares."""
    d, turns, count = problem.dimension, problem.turns, problem.pieces
    size = d + turns
    motion = np.zeros((problem.unknowns, size))
    body = motion[:count * size].reshape(count, size, size)
    body[:, :d, :d] = np.eye(d)
    body[:, :d, d:] = rotation_jacobian(problem.centers[:count])
    body[:, d:, d:] = np.eye(turns)
    if problem.outside >= Outside.VERTICAL:
        motion[:, d:-1] = 0.0
    if problem.outside >= Outside.HEIGHT:
        motion[:, d - 1] = 0.0
    weight = np.zeros((count, size))
    weight[own, :d] = 1.0
    weight[own, d:] = _HEADING_ARM_M**2
    weighted = np.concatenate([weight.ravel(), np.zeros(len(motion) - weight.size)])[
        :, None] * motion
    if problem.outside:
        return np.asarray(np.linalg.pinv(weighted.T @ motion) @ weighted.T)
    return np.linalg.solve(weighted.T @ motion, weighted.T)


def _variance_factor(problem: RigidProblem) -> float:
    """Chi-square per degree of freedom of what is believed, at least 1."""
    rows = int(problem.ties.kept @ problem.ties.scalars) + problem.joints.offset.size
    free = rows - problem.unknowns
    return max(1.0, problem.cost(problem.identity()) / free) if free > 0 else 1.0


def _largest(covariance: Array) -> float:
    """Square root of the largest eigenvalue; infinite where it is not known."""
    if not np.all(np.isfinite(covariance)):
        return np.inf
    return float(np.sqrt(max(np.linalg.eigvalsh(covariance)[-1], 0.0)))
