"""Rigid motions one at a time, as plain tuples: what a sensor callback can afford.

A batch of a thousand poses belongs to numpy; a single one costs it twenty times more than plain
floats do. `PLANE` works on (x, y, yaw), `SPACE` on (x, y, z, qx, qy, qz, qw); both offer the same
operations, and `arrays` turns many of them into the graph's arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..array_types import Array
from ..linalg.rotations import angle_to_matrix, quat_to_matrix

Pose = tuple[float, ...]
Vector = tuple[float, ...]
MOST_COORDINATE_M = 1e7
"""No coordinate is larger: UTM northings reach 1e7."""
NORM_ERROR = 0.1
"""A quaternion whose norm differs from 1 by more is no rotation: an angle written into every
component, or one component never set. Rounding to two digits changes the norm by 0.01."""


class Plane:
    """SE(2): poses (x, y, yaw)."""

    dimension = 2
    identity: Pose = (0.0, 0.0, 0.0)
    zero: Vector = (0.0, 0.0)

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
        return (a[0] + cosine * b[0] - sine * b[1], a[1] + sine * b[0] + cosine * b[1],
                a[2] + b[2])

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


class Space:
    """SE(3): poses (x, y, z, qx, qy, qz, qw) with unit quaternions."""

    dimension = 3
    identity: Pose = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    zero: Vector = (0.0, 0.0, 0.0)

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


Geometry = Plane | Space


def geometry(dimension: int) -> Geometry:
    """The operations of the plane (2) or of space (3)."""
    return Plane() if dimension == 2 else Space()


def wrap(angle: float) -> float:
    """The angle in (-pi, pi]."""
    return -((math.pi - angle) % (2 * math.pi) - math.pi) if not -math.pi < angle <= math.pi \
        else angle


def place_fault(coordinates: Sequence[float]) -> str:
    """Why coordinates are none, or ''."""
    if not all(map(math.isfinite, coordinates)):
        return 'not_finite'
    return '' if all(abs(value) <= MOST_COORDINATE_M for value in coordinates) else 'out_of_bounds'


def pose_fault(coordinates: Sequence[float], quat: Sequence[float]) -> str:
    """Why a place with a quaternion is no pose, or ''."""
    return place_fault(coordinates) or bad_quaternion(quat)


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
