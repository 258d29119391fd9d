"""Standard deviations from the Gauss-Newton information of the rigid problem, its gauge fixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...array_types import Array, Mask
from ...graph import Estimate
from ...graph.odometry_segments import OdometrySegments
from ...linalg.dense.rotations import rotation_jacobian
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
    gauge_seen: Array
    """(b,): of the gauge segment's newest pose, seen from every segment: the whole path of that
    robot at rest, or its newest piece where that is better, m; 0 where absolute data fix the
    frame. Ranges tell the heading of a path, sightings that of a pose."""
    variance_factor: float
    """Found over claimed variance of the residuals, at least 1; included in the above."""


def uncertainty(
    problem: RigidProblem, pieces: Pieces, estimate: Estimate, segments: OdometrySegments,
    gauge: int | None, variance_factor: float | None = None,
) -> Uncertainty:
    """Uncertainty of every segment's newest pose and every landmark at the estimate.

    Without absolute data the frame is the one in which the gauge robot's path as a whole is at
    rest (an S-transformation, Baarda 1981): an error of its first heading turns all of `map`,
    which nothing inside it can tell and which harms nothing inside it. Where the odometry of that
    robot began anew, the path is all its segments, unless the newer ones are too loose to help.
    """
    d, count = problem.dimension, problem.pieces
    residual, jacobian = problem.linearised(problem.identity())
    normal = (jacobian.T @ jacobian).toarray()
    weak = np.full(problem.unknowns, 1 / _UNKNOWN_M**2)
    size = d + problem.turns
    weak[:count * size].reshape(count, size)[:, d:] = 1 / _UNKNOWN_RAD**2
    if gauge is not None:
        weak[problem.columns(int(pieces.first[gauge]))] = _HELD
    scale = 1 / np.sqrt(np.diag(normal) + weak)
    scaled = scale[:, None] * (normal + np.diag(weak)) * scale
    factor = _variance_factor(problem, residual) if variance_factor is None else variance_factor
    covariance = factor * scale[:, None] * np.linalg.inv(scaled) * scale
    newest = pieces.last
    arm = estimate.translation[segments.last] - problem.centers[newest]
    carry = np.concatenate(
        [np.broadcast_to(np.eye(d), (len(newest), d, d)), rotation_jacobian(arm)], axis=2)

    def of_newest(covariance: Array) -> tuple[Array, Array]:
        blocks = np.array([
            covariance[problem.columns(int(v)), problem.columns(int(v))] for v in newest
        ]).reshape(len(newest), size, size)
        return blocks, _largest(carry @ blocks @ np.swapaxes(carry, 1, 2))

    if gauge is not None:
        own = segments.robot == segments.robot[gauge]
        paths = [pieces.segment == gauge]
        if np.sum(own) > 1:
            paths.append(own[pieces.segment])
        frames = [_frame(problem, path) for path in paths]
        covariance = min(
            (_aligned(covariance, motion @ rest) for motion, rest in frames),
            key=lambda aligned: float(np.sum(of_newest(aligned)[1]**2)))
    blocks, position = of_newest(covariance)
    marks = np.array([
        covariance[problem.columns(v), problem.columns(v)]
        for v in range(count, problem.variables)]).reshape(-1, d, d)
    seen = np.zeros(len(newest))
    if gauge is not None:
        row = np.zeros((d, problem.unknowns))
        row[:, problem.columns(int(newest[gauge]))] = carry[gauge]
        point = estimate.translation[segments.last[gauge]]
        for segment, piece in enumerate(newest):
            own = segments.robot == segments.robot[segment]
            seen[segment] = np.min(_largest(np.array([
                _seen_from(covariance, _frame(problem, mask)[1], row, point)
                for mask in (own[pieces.segment], np.arange(count) == piece)])))
    return Uncertainty(_largest(blocks[:, d:, d:]), position, _largest(marks), seen, factor)


def _seen_from(covariance: Array, rest: Array, row: Array, point: Array) -> Array:
    """(d, d): of a point (d,) in the frame whose motion is `rest` (s, unknowns).

    `row` (d, unknowns) is the point's derivative. A heading that is off by 0.1 rad moves the
    robot itself by centimetres, but what is 20 m away by 2 m.
    """
    own = np.concatenate([np.eye(len(point)), rotation_jacobian(point[None])[0]], axis=1)
    apart = row - own @ rest
    return np.asarray(apart @ covariance @ apart.T)


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
    weight = np.zeros((count, size))
    weight[own, :d] = 1.0
    weight[own, d:] = _HEADING_ARM_M**2
    weighted = np.concatenate([weight.ravel(), np.zeros(len(motion) - weight.size)])[
        :, None] * motion
    return motion, np.linalg.solve(weighted.T @ motion, weighted.T)


def _aligned(covariance: Array, project: Array) -> Array:
    """The covariance after rigid alignment; `project` is the part of all that is motion of it."""
    # P - G K P - (G K P)^T + G K P K^T G^T, without the square matrix I - G K.
    moved = project @ covariance
    return np.asarray(covariance - moved - moved.T + moved @ project.T)


def _variance_factor(problem: RigidProblem, residual: Array) -> float:
    """Chi-square per degree of freedom of what is believed, at least 1."""
    rows = int(np.sum(problem.ranges.kept)) + problem.dimension * int(
        np.sum(problem.same.kept)) + problem.joints.offset.size
    free = rows - problem.unknowns
    return max(1.0, float(np.sum(residual**2)) / free) if free > 0 else 1.0


def _largest(covariance: Array) -> Array:
    """(k,): square roots of the largest eigenvalues."""
    if not len(covariance):
        return np.zeros(0)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(covariance)[:, -1], 0.0))
