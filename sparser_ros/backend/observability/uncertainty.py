"""Standard deviations from the Gauss-Newton information of the rigid problem, in its datum."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        estimate.translation[segments.last], problem.centers[count:-1]]))
    if gauge is None:
        return bodies.uncertainty(covariance, factor)
    own = segments.robot == segments.robot[gauge]
    paths = [pieces.segment == gauge]
    if np.sum(own) > 1:
        # Odometry that began anew: all its segments, unless the newer ones are too loose to help.
        paths.append(own[pieces.segment])

    def best(paths: list[Mask]) -> Uncertainty:
        return min((bodies.uncertainty(_at_rest(problem, covariance, path), factor)
                    for path in paths), key=lambda seen: float(np.sum(seen.position**2)))

    own_seen = best(paths)
    found = bodies.beside_each_other(covariance, own_seen, pieces, segments, limit_m)
    if not problem.outside:
        return found
    seen = max([own_seen, *(best([pieces.segment == segment]) for segment in np.unique(
        pieces.segment) if segment != gauge)],
        key=lambda seen: int(np.sum(seen.position < limit_m)))
    if seen is own_seen:
        return found
    # Two robots of an upright map that know each other are sure, the gauge robot or not.
    other = bodies.beside_each_other(covariance, seen, pieces, segments, limit_m)
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

    def uncertainty(self, covariance: Array, factor: float) -> Uncertainty:
        """By a covariance of all unknowns."""
        d, b = self.problem.dimension, len(self.newest)
        squares = []
        for body in range(len(self.place)):
            row = self.rows(body)
            squares.append(row @ covariance @ row.T)
        return _uncertainty(squares, b, d, factor)

    def beside_each_other(
        self, covariance: Array, seen: Uncertainty, pieces: Pieces, segments: OdometrySegments,
        limit_m: float,
    ) -> Uncertainty:
        """Each relative to those others that are sure as `seen` from one path."""
        d, b = self.problem.dimension, len(self.newest)
        sure = np.concatenate([seen.position, seen.landmark]) < limit_m
        robot = np.concatenate([segments.robot, np.full(len(self.place) - b, -1)])
        # A robot stands where its newest segment ends.
        newest = np.arange(len(self.place)) >= b
        newest[[segments.newest(k) for k in np.unique(segments.robot)]] = True
        squares = []
        for body in range(len(self.place)):
            row = self.rows(body)
            others = sure & newest & ((robot != robot[body]) | (body >= b))
            others[body] = False
            relative = self._relative(body, others)
            if relative is None:
                relative = self._to_path(body, sure, pieces)
            square = np.diag(np.full(len(row), np.inf)) if relative is None else (
                relative[:len(row)] @ covariance @ relative[:len(row)].T)
            squares.append(square)
        return _uncertainty(squares, b, d, seen.variance_factor)

    def _relative(self, body: int, others: Mask) -> Array | None:
        """(d or d + turns, unknowns): of a body beside others; None where these are too few."""
        d, names = self.problem.dimension, np.flatnonzero(others)
        motion = relative_to(self.place[body], self.place[names], self.problem.outside)
        if motion is None:
            return None
        row = self.rows(body)
        moved = np.concatenate([self.rows(int(k))[:d] for k in names])
        return np.asarray(row - motion[:len(row)] @ moved)

    def _to_path(self, body: int, sure: Mask, pieces: Pieces) -> Array | None:
        """The same beside all pieces of sure segments."""
        problem, d = self.problem, self.problem.dimension
        mask = sure[:len(self.newest)][pieces.segment]
        if not np.any(mask):
            mask = pieces.segment == int(np.argmin(pieces.first))
        rest = _frame(problem, mask)[1]
        row = self.rows(body)
        motion = np.concatenate([
            np.eye(d), rotation_jacobian(self.place[body][None])[0]], axis=1) @ rest
        full = np.concatenate([motion, rest[d:]])
        return np.asarray(row - full[:len(row)])


def _uncertainty(squares: list[Array], b: int, d: int, factor: float) -> Uncertainty:
    """Standard deviations by covariances of b poses, then of landmarks."""
    turns = [_largest(one[None, d:, d:])[0] for one in squares[:b]]
    moves = [_largest(one[None, :d, :d])[0] for one in squares]
    return Uncertainty(
        np.array(turns), np.array(moves[:b]), np.array(moves[b:]), factor)


def _at_rest(problem: RigidProblem, covariance: Array, path: Mask) -> Array:
    """The covariance in the frame in which the pieces of a path are at rest."""
    motion, rest = _frame(problem, path)
    return _aligned(covariance, motion @ rest)


def _frame(problem: RigidProblem, own: Mask) -> tuple[Array, Array]:
    """How everything moves with the frame (unknowns, s), and the motion of the frame in which the
    pieces of a mask are at rest (s, unknowns), by least squares."""
    d, turns, count = problem.dimension, problem.turns, problem.pieces
    size = d + turns
    motion = np.zeros((problem.unknowns, size))
    body = motion[:count * size].reshape(count, size, size)
    arms = rotation_jacobian(problem.centers[:-1])
    body[:, :d, :d] = np.eye(d)
    body[:, :d, d:] = arms[:count]
    body[:, d:, d:] = np.eye(turns)
    points = motion[count * size:].reshape(-1, d, size)
    points[:, :, :d] = np.eye(d)
    points[:, :, d:] = arms[count:]
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
        return motion, np.linalg.pinv(weighted.T @ motion) @ weighted.T
    return motion, np.linalg.solve(weighted.T @ motion, weighted.T)


def _aligned(covariance: Array, project: Array) -> Array:
    """The covariance after rigid alignment; `project` is the part of all that is motion of it."""
    # P - G K P - (G K P)^T + G K P K^T G^T, without the square matrix I - G K.
    moved = project @ covariance
    return np.asarray(covariance - moved - moved.T + moved @ project.T)


def _variance_factor(problem: RigidProblem) -> float:
    """Chi-square per degree of freedom of what is believed, at least 1."""
    rows = int(problem.ties.kept @ problem.ties.scalars) + problem.joints.offset.size
    free = rows - problem.unknowns
    return max(1.0, problem.cost(problem.identity()) / free) if free > 0 else 1.0


def _largest(covariance: Array) -> Array:
    """(k,): square roots of the largest eigenvalues."""
    if not len(covariance):
        return np.zeros(0)
    finite = np.all(np.isfinite(covariance), axis=(1, 2))
    known = np.where(finite[:, None, None], covariance, 0.0)
    return np.where(finite, np.sqrt(np.maximum(np.linalg.eigvalsh(known)[:, -1], 0.0)), np.inf)
