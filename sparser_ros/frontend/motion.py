"""Rigid motions and their covariances one at a time, as plain tuples: what a sensor callback can
afford; and which noise is believed.

A batch of a thousand poses belongs to numpy; a single one costs it twenty times more than plain
floats do. `PLANE` works on (x, y, yaw), `SPACE` on (x, y, z, qx, qy, qz, qw); both offer the same
operations, and `arrays` turns many of them into the graph's arrays.

Translation noise is in the frame that a motion starts from, as in the cost; in space rotation noise
is in the frame that it ends in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..array_types import Array
from ..linalg.rotations import angle_to_matrix, quat_to_matrix

Pose = tuple[float, ...]
Vector = tuple[float, ...]
PLANAR = (0, 1, 5)
"""Rows of x, y and yaw in a ROS covariance (x y z rx ry rz)."""
MOST_SIGMA_M, MOST_SIGMA_RAD = 1e4, 100.0
"""Larger standard deviations count as these."""
Covariance = Any
"""Six numbers in the plane, (6, 6) in space; opaque to everyone else."""
LARGEST = 1e12
"""Variances above (1000 km)^2 say nothing, and their products may overflow."""
MOST_COORDINATE_M = 1e7
"""No coordinate is larger: UTM northings reach 1e7."""
NORM_ERROR = 0.1
"""A quaternion whose norm differs from 1 by more is no rotation: an angle written into every
component, or one component never set. Rounding to two digits changes the norm by 0.01."""


class Plane:
    """SE(2): poses (x, y, yaw), covariances (xx, xy, yy, xt, yt, tt)."""

    dimension = 2
    identity: Pose = (0.0, 0.0, 0.0)
    zero: Vector = (0.0, 0.0)
    certain: Covariance = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def pose(self, position: Sequence[float], quat: Sequence[float]) -> Pose:
        """Projection of a pose in space: x, y and the heading of its x axis."""
        x, y, z, w = quat
        return (position[0], position[1],
                math.atan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z))

    def vector(self, values: Sequence[float]) -> Vector:
        return (values[0], values[1])

    def compose(self, a: Pose, b: Pose) -> Pose:
        """T_a T_b."""
        cosine, sine = math.cos(a[2]), math.sin(a[2])
        return (a[0] + cosine * b[0] - sine * b[1], a[1] + sine * b[0] + cosine * b[1], a[2] + b[2])

    def between(self, a: Pose, b: Pose) -> Pose:
        """T_a^-1 T_b, the heading in (-pi, pi]."""
        cosine, sine = math.cos(a[2]), math.sin(a[2])
        x, y = b[0] - a[0], b[1] - a[1]
        return (cosine * x + sine * y, cosine * y - sine * x, wrap(b[2] - a[2]))

    def act(self, a: Pose, point: Vector) -> Vector:
        """The point of the body frame in the frame of the pose."""
        cosine, sine = math.cos(a[2]), math.sin(a[2])
        return (a[0] + cosine * point[0] - sine * point[1],
                a[1] + sine * point[0] + cosine * point[1])

    def interpolate(self, a: Pose, b: Pose, u: float) -> Pose:
        """Straight line and constant turn from a (u = 0) to b (u = 1), and beyond."""
        return (a[0] + u * (b[0] - a[0]), a[1] + u * (b[1] - a[1]), a[2] + u * wrap(b[2] - a[2]))

    def distance(self, motion: Pose) -> float:
        return math.hypot(motion[0], motion[1])

    def angle(self, motion: Pose) -> float:
        return abs(wrap(motion[2]))

    def arrays(self, poses: Sequence[Pose] | Array) -> tuple[Array, Array]:
        """Rotations (n, 2, 2) and translations (n, 2)."""
        table = np.array(poses, dtype=float).reshape(-1, 3)
        return angle_to_matrix(table[:, 2]), table[:, :2]

    def covariance(self, covariance: Array) -> Covariance:
        """The planar part of a ROS covariance."""
        c = covariance.tolist()
        return (c[0][0], (c[0][1] + c[1][0]) / 2, c[1][1], (c[0][5] + c[5][0]) / 2,
                (c[1][5] + c[5][1]) / 2, c[5][5])

    def isotropic(self, translation: float, rotation: float) -> Covariance:
        return (translation, 0.0, translation, 0.0, 0.0, rotation)

    def appended(
        self, total: Covariance, motion: Pose, step: Pose, noise: Covariance
    ) -> Covariance:
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

    def growth(
        self, start: Pose, end: Pose, before: Covariance, after: Covariance
    ) -> tuple[float, float]:
        """As `variances`, of the motion between two poses whose covariances in the odometry frame
        are given (translation and rotation about fixed axes). Means are the same in every frame."""
        # The heading error before turns the motion: d(t_end) has d(yaw_start) x (t_end - t_start).
        u, v = -(end[1] - start[1]), end[0] - start[0]
        xx, _, yy, xt, yt, tt = before
        x = after[0] - (xx + 2 * u * xt + u * u * tt)
        y = after[2] - (yy + 2 * v * yt + v * v * tt)
        return (x + y) / 2, after[5] - tt

    def variances(self, noise: Covariance) -> tuple[float, float]:
        """Mean variances per axis: translation (m^2) and rotation (rad^2)."""
        return ((noise[0] + noise[2]) / 2, noise[5])


class Space:
    """SE(3): poses (x, y, z, qx, qy, qz, qw) with unit quaternions, covariances (6, 6)."""

    dimension = 3
    identity: Pose = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    zero: Vector = (0.0, 0.0, 0.0)
    certain: Covariance = np.zeros((6, 6))

    def pose(self, position: Sequence[float], quat: Sequence[float]) -> Pose:
        x, y, z, w = quat
        scale = 1 / math.sqrt(x * x + y * y + z * z + w * w)
        return (position[0], position[1], position[2], x * scale, y * scale, z * scale, w * scale)

    def vector(self, values: Sequence[float]) -> Vector:
        return (values[0], values[1], values[2])

    def compose(self, a: Pose, b: Pose) -> Pose:
        x, y, z = rotate(a[3:], b)
        return (a[0] + x, a[1] + y, a[2] + z, *multiply(a[3:], b[3:]))

    def between(self, a: Pose, b: Pose) -> Pose:
        inverse = (-a[3], -a[4], -a[5], a[6])
        return (*rotate(inverse, (b[0] - a[0], b[1] - a[1], b[2] - a[2])),
                *multiply(inverse, b[3:]))

    def act(self, a: Pose, point: Vector) -> Vector:
        x, y, z = rotate(a[3:], point)
        return (a[0] + x, a[1] + y, a[2] + z)

    def interpolate(self, a: Pose, b: Pose, u: float) -> Pose:
        x, y, z, w = multiply((-a[3], -a[4], -a[5], a[6]), b[3:])
        if w < 0:
            x, y, z, w = -x, -y, -z, -w
        sine = math.sqrt(x * x + y * y + z * z)
        half = math.atan2(sine, w) * u
        scale = math.sin(half) / sine if sine > 1e-12 else u
        turn = multiply(a[3:], (x * scale, y * scale, z * scale, math.cos(half)))
        norm = 1 / math.sqrt(sum(c * c for c in turn))
        return (a[0] + u * (b[0] - a[0]), a[1] + u * (b[1] - a[1]), a[2] + u * (b[2] - a[2]),
                *(c * norm for c in turn))

    def distance(self, motion: Pose) -> float:
        return math.sqrt(motion[0] ** 2 + motion[1] ** 2 + motion[2] ** 2)

    def angle(self, motion: Pose) -> float:
        sine = math.sqrt(motion[3] ** 2 + motion[4] ** 2 + motion[5] ** 2)
        return 2 * math.atan2(sine, abs(motion[6]))

    def arrays(self, poses: Sequence[Pose] | Array) -> tuple[Array, Array]:
        table = np.array(poses, dtype=float).reshape(-1, 7)
        return quat_to_matrix(table[:, 3:]), table[:, :3]

    def covariance(self, covariance: Array) -> Covariance:
        return (covariance + covariance.T) / 2

    def isotropic(self, translation: float, rotation: float) -> Covariance:
        return np.diag([translation] * 3 + [rotation] * 3)

    def appended(
        self, total: Covariance, motion: Pose, step: Pose, noise: Covariance
    ) -> Covariance:
        if total is self.certain:
            return noise
        turn = rotation_rows(motion[3:])
        x, y, z = step[:3]
        first, second = np.eye(6), np.eye(6)
        # -R_ab [t_bc]x, row by row.
        first[:3, 3:] = [[c * y - b * z, a * z - c * x, b * x - a * y] for a, b, c in turn]
        first[3:, 3:] = rotation_rows((-step[3], -step[4], -step[5], step[6]))
        second[:3, :3] = turn
        return first @ total @ first.T + second @ noise @ second.T

    def growth(
        self, start: Pose, end: Pose, before: Covariance, after: Covariance
    ) -> tuple[float, float]:
        move = np.eye(6)
        x, y, z = end[0] - start[0], end[1] - start[1], end[2] - start[2]
        move[:3, 3:] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        return self.variances(after - move @ before @ move.T)

    def variances(self, noise: Covariance) -> tuple[float, float]:
        a, b, c, d, e, f = noise.diagonal().tolist()
        return (a + b + c) / 3, (d + e + f) / 3


Geometry = Plane | Space
PLANE, SPACE = Plane(), Space()


def geometry(dimension: int) -> Geometry:
    """The operations of the plane (2) or of space (3)."""
    return PLANE if dimension == 2 else SPACE


def wrap(angle: float) -> float:
    """The angle in (-pi, pi]."""
    return -((math.pi - angle) % (2 * math.pi) - math.pi) if not -math.pi < angle <= math.pi \
        else angle


def place_fault(coordinates: Sequence[float], quat: Sequence[float] | None = None) -> str:
    """Why coordinates are no place, or with a quaternion no pose; '' = they are."""
    if not all(map(math.isfinite, coordinates)):
        return 'not_finite'
    if not all(abs(value) <= MOST_COORDINATE_M for value in coordinates):
        return 'out_of_bounds'
    return '' if quat is None else bad_quaternion(quat)


def bad_quaternion(quat: Sequence[float]) -> str:
    """Why a quaternion is no rotation, or ''."""
    if not all(map(math.isfinite, quat)):
        return 'not_finite'
    norm = math.hypot(*quat)
    if norm < 1e-3:
        return 'zero_quaternion'
    return 'quaternion_not_unit' if abs(norm - 1) > NORM_ERROR else ''


def multiply(a: Sequence[float], b: Sequence[float]) -> Vector:
    """Product of two quaternions x y z w."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (aw * bx + ax * bw + ay * bz - az * by, aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw, aw * bw - ax * bx - ay * by - az * bz)


def rotate(quat: Sequence[float], vector: Sequence[float]) -> Vector:
    """A vector turned by a unit quaternion x y z w."""
    x, y, z, w = quat
    a, b, c = vector[0], vector[1], vector[2]
    u, v, t = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    return (a + w * u + y * t - z * v, b + w * v + z * u - x * t, c + w * t + x * v - y * u)


def rotation_rows(quat: Sequence[float]) -> list[list[float]]:
    """Rotation matrix of a unit quaternion x y z w, as rows of plain floats."""
    x, y, z, w = quat
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]


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


def believed_m2(options: Any, variance: float) -> float:
    """A variance of lengths (m^2) as far as it is believed, by the least noise of its options; NaN
    counts as knowing nothing.

    Behind it no sum or product of the solver can overflow: coordinates are at most 1e7 m, standard
    deviations between 1e-9 m and 1e4 m.
    """
    return MOST_SIGMA_M**2 if math.isnan(variance) else min(
        max(variance, options.min_sigma_m**2), MOST_SIGMA_M**2)


def believed(options: Any, move: float, turn: float) -> tuple[float, float]:
    """Variances of translation (m^2) and rotation (rad^2) as far as they are believed."""
    return believed_m2(options, move), MOST_SIGMA_RAD**2 if math.isnan(turn) else min(
        max(turn, options.min_sigma_rad**2), MOST_SIGMA_RAD**2)
