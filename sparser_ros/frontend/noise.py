"""Noise: what messages say, what is configured, how increments add up, and the bounds of all that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..array_types import Array
from ..config import SparserConfig
from ..config.frontend_config import OdometryConfig
from .motion import Pose, rotation_rows

PLANAR = (0, 1, 5)
"""Rows of x, y and yaw in a ROS covariance (x y z rx ry rz)."""
MOST_SIGMA_M, MOST_SIGMA_RAD = 1e4, 100.0
"""Larger standard deviations count as these."""
Covariance = Any
"""Six numbers in the plane, (6, 6) in space; opaque to everyone else."""
LARGEST = 1e12
"""Variances above (1000 km)^2 say nothing, and their products may overflow."""


def fault(covariance: Array, dimension: int) -> str:
    """Why a (6, 6) covariance cannot be used, or ''; in 2D only x, y and yaw are looked at."""
    rows = covariance.tolist()
    if dimension == 2:
        x, y, yaw = rows[0], rows[1], rows[5]
        diagonal = [x[0], y[1], yaw[5]]
        # Sums of magnitudes are finite only if every entry is.
        beside = abs(x[1]) + abs(x[5]) + abs(y[0]) + abs(y[5]) + abs(yaw[0]) + abs(yaw[1])
    else:
        diagonal = [row[i] for i, row in enumerate(rows)]
        beside = sum(sum(map(abs, row)) for row in rows) - sum(map(abs, diagonal))
    if not math.isfinite(sum(diagonal) + beside):
        return 'not_finite'
    if max(map(abs, diagonal)) + beside > LARGEST:
        return 'too_large'
    if not any(diagonal):
        return 'zero' if beside == 0.0 else 'not_positive'
    if min(diagonal) <= 0.0:
        return 'not_positive'
    if beside == 0.0:
        return ''
    if dimension == 2:
        rows = [[rows[i][j] for j in PLANAR] for i in PLANAR]
    matrix = np.array(rows)
    matrix = (matrix + matrix.T) / 2
    return '' if np.linalg.eigvalsh(matrix)[0] > -1e-9 * max(diagonal) else 'not_positive'


def configured(distance: float, angle: float, seconds: float, options: OdometryConfig
               ) -> tuple[float, float]:
    """Variances per axis (translation, rotation) of a random walk along that motion."""
    o = options
    seconds = max(seconds, 1e-9)
    return (
        o.sigma_m_per_sqrt_m**2 * distance + o.sigma_m_per_sqrt_rad**2 * angle
        + o.sigma_m_per_sqrt_s**2 * seconds,
        o.sigma_rad_per_sqrt_m**2 * distance + o.sigma_rad_per_sqrt_rad**2 * angle
        + o.sigma_rad_per_sqrt_s**2 * seconds,
    )


class PlaneNoise:
    """Covariances (xx, xy, yy, xt, yt, tt) of planar motions; translation noise is expressed in
    the frame the motion starts from, as in the cost."""

    zero: Covariance = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def of(self, covariance: Array) -> Covariance:
        """The planar part of a ROS covariance."""
        c = covariance.tolist()
        return (c[0][0], (c[0][1] + c[1][0]) / 2, c[1][1], (c[0][5] + c[5][0]) / 2,
                (c[1][5] + c[5][1]) / 2, c[5][5])

    def isotropic(self, translation: float, rotation: float) -> Covariance:
        return (translation, 0.0, translation, 0.0, 0.0, rotation)

    def append(self, total: Covariance, motion: Pose, step: Pose, noise: Covariance) -> Covariance:
        """Covariance of `motion` (covariance `total`) followed by `step` (covariance `noise`).

        First order: d(t_ac) = d(t_ab) + R_ab (d(t_bc) + d(yaw_ab) x t_bc), and headings add.
        """
        cosine, sine = math.cos(motion[2]), math.sin(motion[2])
        u = -(sine * step[0] + cosine * step[1])
        v = cosine * step[0] - sine * step[1]
        xx, xy, yy, xt, yt, tt = total
        bxx, bxy, byy, bxt, byt, btt = noise
        return (
            xx + 2 * u * xt + u * u * tt
            + cosine * cosine * bxx - 2 * cosine * sine * bxy + sine * sine * byy,
            xy + u * yt + v * xt + u * v * tt
            + cosine * sine * (bxx - byy) + (cosine * cosine - sine * sine) * bxy,
            yy + 2 * v * yt + v * v * tt
            + sine * sine * bxx + 2 * cosine * sine * bxy + cosine * cosine * byy,
            xt + u * tt + cosine * bxt - sine * byt,
            yt + v * tt + sine * bxt + cosine * byt,
            tt + btt,
        )

    def difference(
        self, start: Pose, end: Pose, before: Covariance, after: Covariance
    ) -> Covariance:
        """Covariance of the motion between two poses whose covariances in the odometry frame are
        given (translation and rotation about fixed axes): the inverse of `append`."""
        # The heading error before turns the motion: d(t_end) has d(yaw_start) x (t_end - t_start).
        u, v = -(end[1] - start[1]), end[0] - start[0]
        xx, xy, yy, xt, yt, tt = before
        a = after[0] - (xx + 2 * u * xt + u * u * tt)
        b = after[1] - (xy + u * yt + v * xt + u * v * tt)
        c = after[2] - (yy + 2 * v * yt + v * v * tt)
        d, e = after[3] - (xt + u * tt), after[4] - (yt + v * tt)
        cosine, sine = math.cos(start[2]), -math.sin(start[2])
        return (
            cosine * cosine * a - 2 * cosine * sine * b + sine * sine * c,
            cosine * sine * (a - c) + (cosine * cosine - sine * sine) * b,
            sine * sine * a + 2 * cosine * sine * b + cosine * cosine * c,
            cosine * d - sine * e, sine * d + cosine * e, after[5] - tt,
        )

    def variances(self, noise: Covariance) -> tuple[float, float]:
        """Mean variances per axis: translation (m^2) and rotation (rad^2)."""
        return ((noise[0] + noise[2]) / 2, noise[5])


class SpaceNoise:
    """Covariances (6, 6), translation first; translation noise in the frame the motion starts
    from, rotation noise in the frame it ends in."""

    zero: Covariance = np.zeros((6, 6))

    def of(self, covariance: Array) -> Covariance:
        return (covariance + covariance.T) / 2

    def isotropic(self, translation: float, rotation: float) -> Covariance:
        return np.diag([translation] * 3 + [rotation] * 3)

    def append(self, total: Covariance, motion: Pose, step: Pose, noise: Covariance) -> Covariance:
        if total is self.zero:
            return noise
        turn = rotation_rows(motion[3:])
        x, y, z = step[:3]
        first, second = np.eye(6), np.eye(6)
        # -R_ab [t_bc]x, row by row.
        first[:3, 3:] = [[c * y - b * z, a * z - c * x, b * x - a * y] for a, b, c in turn]
        first[3:, 3:] = rotation_rows((-step[3], -step[4], -step[5], step[6]))
        second[:3, :3] = turn
        return first @ total @ first.T + second @ noise @ second.T

    def difference(
        self, start: Pose, end: Pose, before: Covariance, after: Covariance
    ) -> Covariance:
        move, back = np.eye(6), np.zeros((6, 6))
        x, y, z = end[0] - start[0], end[1] - start[1], end[2] - start[2]
        move[:3, 3:] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        back[:3, :3] = np.array(rotation_rows(start[3:])).T
        back[3:, 3:] = np.array(rotation_rows(end[3:])).T
        return back @ (after - move @ before @ move.T) @ back.T

    def variances(self, noise: Covariance) -> tuple[float, float]:
        a, b, c, d, e, f = noise.diagonal().tolist()
        return (a + b + c) / 3, (d + e + f) / 3


Noise = PlaneNoise | SpaceNoise


def noise_model(dimension: int) -> Noise:
    """The covariance algebra of the plane (2) or of space (3)."""
    return PlaneNoise() if dimension == 2 else SpaceNoise()


class Bounds:
    """The least noise of each kind of measurement, and the most.

    Behind them no sum or product of the solver can overflow: coordinates are at most 1e7 m,
    standard deviations between 1e-9 m and 1e4 m.
    """

    def __init__(self, config: SparserConfig) -> None:
        self._least_m2 = {kind: getattr(config, kind).min_sigma_m**2 for kind in (
            'odometry', 'closures', 'fixes', 'ranges', 'heights', 'sightings')}
        self._least_rad2 = {kind: getattr(config, kind).min_sigma_rad**2 for kind in (
            'odometry', 'closures', 'fixes')}

    def variance(self, kind: str, variance_m2: float) -> float:
        """A variance of lengths (m^2) as far as it is believed."""
        return _clipped(variance_m2, self._least_m2[kind], MOST_SIGMA_M**2)

    def variances(self, kind: str, variance_m2: float, variance_rad2: float
                  ) -> tuple[float, float]:
        """Variances of translation (m^2) and rotation (rad^2) as far as they are believed."""
        return (self.variance(kind, variance_m2),
                _clipped(variance_rad2, self._least_rad2[kind], MOST_SIGMA_RAD**2))


def _clipped(value: float, least: float, most: float) -> float:
    """NaN counts as knowing nothing."""
    return most if math.isnan(value) else min(max(value, least), most)
