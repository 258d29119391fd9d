"""Paths that measurements bend against the robot's own odometry."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtri

from ...graph import Estimate
from ...graph.odometry_segments import OdometrySegments
from ...linalg.rotations import rotation_jacobian
from .pieces import Pieces
from .rigid_problem import RigidProblem

BEND_PROBABILITY = 1e-6
"""Probability that odometry of the claimed covariance bends by more."""
VARIANCE_FACTOR = 9.0
"""Allowed variance of odometry over the claimed one: three times its standard deviations pass."""


def bends(
    problem: RigidProblem, pieces: Pieces, estimate: Estimate, segments: OdometrySegments,
    alert_limit_m: float,
) -> list[str]:
    """Per segment what is wrong with its path, in words; '' where odometry noise explains it.

    Wrong ranges or a wrong placement of others show here: the joints between pieces are strained
    beyond their covariance, and the newest pose is not where odometry alone takes it.
    """
    count, joints = len(segments), problem.joints
    squares = np.sum(problem.residuals(problem.identity()).joints ** 2, axis=1)
    owner = pieces.segment[joints.before]
    strain = np.bincount(owner, squares, count)
    number = np.bincount(owner, minlength=count) * joints.offset.shape[1]
    limit = VARIANCE_FACTOR * chdtri(np.maximum(number, 1), BEND_PROBABILITY)
    d = problem.dimension
    arm = estimate.translation[segments.last[owner]] - joints.point
    moved = joints.offset[:, :d] + np.einsum(
        'kij,kj->ki', rotation_jacobian(arm), joints.offset[:, d:])
    drift = np.stack([np.bincount(owner, column, count) for column in moved.T], axis=1)
    away = np.linalg.norm(drift, axis=1)
    return [
        (f'ranges or closures bend its path by {away[s]:.1f} m against its own odometry, '
         f'{np.sqrt(strain[s] / max(number[s], 1)):.0f} times its claimed noise')
        if number[s] and strain[s] > limit[s] and away[s] > alert_limit_m else ''
        for s in range(count)]
