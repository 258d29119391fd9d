"""Standard deviations from the Gauss-Newton information of the rigid problem, in its datum.

They tell what is determined at all, and which landmarks are located. How sure the poses are that
robots are located at is told at ticks (session/belief.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...array_types import Array, Mask
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
    Of an upright map a path that sees more serves as well.
    """
    d, b = problem.dimension, len(segments)
    factor = _variance_factor(problem) if variance_factor is None else variance_factor
    covariance = factor * _covariance(
        problem, None if gauge is None else int(pieces.first[gauge]))
    place = np.concatenate([
        estimate.translation[segments.last], problem.centers[problem.pieces:-1]])
    bodies = _motions(problem, pieces, place[:b])

    def told(motion: Array) -> Uncertainty:
        square = motion @ covariance @ np.swapaxes(motion, 1, 2)
        position = _largest(square[:, :d, :d])
        return Uncertainty(_largest(square[:b, d:, d:]), position[:b], position[b:], factor)

    if gauge is None:
        return told(bodies)
    own = segments.robot == segments.robot[gauge]
    paths = [pieces.segment == gauge]
    if np.sum(own) > 1:
        # Odometry that began anew: all its segments, unless the newer ones are too loose to help.
        paths.append(own[pieces.segment])
    carried = np.tile(np.eye(d + problem.turns), (len(place), 1, 1))
    robot = np.concatenate([segments.robot, np.full(len(place) - b, -1)])
    # A robot stands where its newest segment ends.
    ends = robot < 0
    ends[[segments.newest(k) for k in np.unique(segments.robot)]] = True

    def beside(path: Mask) -> Array:
        """Motions in the frame in which the pieces of a path are at rest."""
        # About a point of the path: about a far origin of map they would cancel to rounding.
        origin = problem.centers[:problem.pieces][path].mean(axis=0)
        carried[:, :d, d:] = rotation_jacobian(place - origin)
        return np.asarray(bodies - carried @ _rest(problem, path, origin))

    def beside_each_other(seen: Uncertainty) -> Uncertainty:
        """Each body relative to those others that are sure as `seen` from one path; where these
        are too few, to all pieces of sure segments."""
        sure = np.concatenate([seen.position, seen.landmark]) < limit_m
        path = sure[:b][pieces.segment]
        relative = beside(
            path if np.any(path) else pieces.segment == int(np.argmin(pieces.first)))
        for body in range(len(place)):
            others = np.flatnonzero(sure & ends & ((robot != robot[body]) | (robot < 0)))
            others = others[others != body]
            motion = relative_to(place[body], place[others], problem.outside)
            if motion is not None:
                relative[body] = bodies[body] - motion @ (
                    bodies[others, :d].reshape(-1, problem.unknowns))
        return told(relative)

    own_seen = min((told(beside(path)) for path in paths),
                   key=lambda sigmas: float(np.sum(sigmas.position**2)))
    sigmas = beside_each_other(own_seen)
    if not problem.outside:
        return sigmas
    seen = max([own_seen, *(told(beside(pieces.segment == segment)) for segment in np.unique(
        pieces.segment) if segment != gauge)],
        key=lambda seen: int(np.sum(seen.position < limit_m)))
    if seen is own_seen:
        return sigmas
    # Robots of an upright map that know each other are sure, the gauge robot or not.
    other = beside_each_other(seen)
    return replace(
        other, heading=np.minimum(sigmas.heading, other.heading),
        position=np.minimum(sigmas.position, other.position))


def _covariance(problem: RigidProblem, gauge: int | None) -> Array:
    """Of all unknowns at the estimate, by the claimed noise; the `gauge` piece does not move."""
    d, count, size = problem.dimension, problem.pieces, problem.dimension + problem.turns
    normal, _ = problem.normal_equations(problem.identity())
    weak = np.full(problem.unknowns, 1 / _UNKNOWN_M**2)
    weak[:count * size].reshape(count, size)[:, d:] = 1 / _UNKNOWN_RAD**2
    if gauge is not None:
        weak[problem.held(gauge)] = _HELD
    scale = 1 / np.sqrt(np.diag(normal) + weak)
    scaled = scale[:, None] * (normal + np.diag(weak)) * scale
    return np.asarray(scale[:, None] * np.linalg.inv(scaled) * scale)


def _motions(problem: RigidProblem, pieces: Pieces, newest: Array) -> Array:
    """(b + m, d + turns, unknowns): displacement and turn of the newest pose (b, d) of every
    segment, then of landmarks, which do not turn."""
    d, b = problem.dimension, len(newest)
    motion = np.zeros((b + len(problem.centers) - problem.pieces - 1, d + problem.turns,
                       problem.unknowns))
    for body, piece in enumerate(pieces.last.tolist()):
        motion[body, :, problem.columns(piece)] = np.eye(d + problem.turns)
        motion[body, :d, problem.columns(piece)][:, d:] = rotation_jacobian(
            (newest[body] - problem.centers[piece])[None])[0]
    for body in range(b, len(motion)):
        motion[body, :d, problem.columns(problem.pieces + body - b)] = np.eye(d)
    return motion


def _rest(problem: RigidProblem, own: Mask, origin: Array) -> Array:
    """(d + turns, unknowns): motion of the frame in which the pieces of a mask are at rest, by
    least squares; turns are about an origin (d,)."""
    d, turns, count = problem.dimension, problem.turns, problem.pieces
    size = d + turns
    motion = np.zeros((problem.unknowns, size))
    body = motion[:count * size].reshape(count, size, size)
    body[:, :d, :d] = np.eye(d)
    body[:, :d, d:] = rotation_jacobian(problem.centers[:count] - origin)
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


def _largest(covariance: Array) -> Array:
    """(k,): square roots of largest eigenvalues of (k, d, d); infinite where not known."""
    known = np.all(np.isfinite(covariance), axis=(1, 2))
    values = np.linalg.eigvalsh(np.where(known[:, None, None], covariance, 0.0))[:, -1]
    return np.where(known, np.sqrt(np.maximum(values, 0.0)), np.inf)
