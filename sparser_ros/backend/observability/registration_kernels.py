"""Compiled: damped Gauss-Newton of one rigid body or point from many starts."""

from __future__ import annotations

import numpy as np

from ...linalg.compiled import compiled
from .rigid_kernels import DIRECTION, HEIGHT, WHOLE

_compiled = compiled(error_model='numpy')


@_compiled
def descended(evidence, rotation, position, turn, width, steps, costs):  # type: ignore[no-untyped-def]
    """Levenberg-Marquardt from every start; `rotation` (s, d, d) and `position` (s, d) end there.

    `evidence` has the fields of registration.Evidence, `width` is c^2 of a Geman-McClure kernel;
    `costs` (s,) is written.
    """
    d = position.shape[1]
    size = d
    if turn:
        size += 1 if d == 2 else 3
    normal, factor = np.empty((size, size)), np.empty((size, size))
    gradient, step = np.empty(size), np.empty(size)
    for start in range(len(position)):
        here, turned = position[start].copy(), rotation[start].copy()
        cost = _linearised(evidence, turned, here, size, width, normal, gradient)
        damping = 1e-2
        for _ in range(steps):
            largest = 0.0
            for i in range(size):
                largest = max(largest, normal[i, i])
            for i in range(size):
                for j in range(size):
                    factor[i, j] = normal[i, j]
                factor[i, i] += damping * (normal[i, i] + 1e-9 * (1 + largest))
            _solve(factor, gradient, step)
            there, moved = here.copy(), turned.copy()
            for i in range(d):
                there[i] -= step[i]
            if turn:
                _turn(step, d, turned, moved)
            value = _cost(evidence, moved, there, width)
            if value < cost:
                gain = cost - value
                here, turned = there, moved
                cost = _linearised(evidence, turned, here, size, width, normal, gradient)
                damping = max(damping / 10, 1e-9)
                if gain < 1e-9 * (1 + cost):
                    break
            else:
                damping *= 10
                if damping > 1e5:
                    break
        position[start], rotation[start] = here, turned
        costs[start] = cost


@_compiled
def _cost(evidence, rotation, position, width):  # type: ignore[no-untyped-def]
    d = len(position)
    total = 0.0
    for k in range(len(evidence.distance)):
        square = 0.0
        for i in range(d):
            gap = position[i] - evidence.places[k, i]
            for j in range(d):
                gap += rotation[i, j] * evidence.points[k, j]
            square += gap * gap
        residual = np.sqrt(square) - evidence.distance[k]
        square = evidence.weight[k] * residual * residual
        total += square / (1 + square / width)
    for k in range(len(evidence.same_weight)):
        part = evidence.same_part[k]
        for i in range(d - 1 if part == HEIGHT else 0, d):
            gap = (0.0 if part == DIRECTION else position[i]) - evidence.same_places[k, i]
            for j in range(d):
                gap += rotation[i, j] * evidence.same_points[k, j]
            square = evidence.same_weight[k] * gap * gap
            total += square / (1 + square / width)
    return total


@_compiled
def _linearised(evidence, rotation, position, size, width, normal, gradient):  # type: ignore[no-untyped-def]
    """Robust cost; J^T W J and J^T W r are written."""
    d = len(position)
    distances = len(evidence.distance)
    arm, gap, row = np.empty(d), np.empty(d), np.empty(max(size, d))
    normal[:] = 0.0
    gradient[:] = 0.0
    total = 0.0
    for k in range(distances + len(evidence.same_weight)):
        c = k - distances
        part = WHOLE if c < 0 else evidence.same_part[c]
        for i in range(d):
            arm[i] = 0.0
            for j in range(d):
                arm[i] += rotation[i, j] * (
                    evidence.points[k, j] if c < 0 else evidence.same_points[c, j])
            gap[i] = arm[i] + (0.0 if part == DIRECTION else position[i]) - (
                evidence.places[k, i] if c < 0 else evidence.same_places[c, i])
        length = 0.0
        for i in range(d):
            length += gap[i] * gap[i]
        length = np.sqrt(length)
        scale = np.sqrt(evidence.weight[k] if c < 0 else evidence.same_weight[c])
        for axis in range(d - 1 if part == HEIGHT else 0, 1 if c < 0 else d):
            # Along the line of sight, or along one axis of map.
            residual = scale * (length - evidence.distance[k]) if c < 0 else scale * gap[axis]
            for i in range(d):
                if c < 0:
                    row[i] = scale * gap[i] / max(length, 1e-9)
                else:
                    row[i] = scale if i == axis else 0.0
            if size > d and d == 2:
                row[2] = arm[0] * row[1] - arm[1] * row[0]
            elif size > d:
                for i in range(3):
                    u, v = (i + 1) % 3, (i + 2) % 3
                    row[3 + i] = arm[u] * row[v] - arm[v] * row[u]
            if part == DIRECTION:
                # The turn's columns come from the shift's, which a direction does not have.
                row[axis] = 0.0
            square = residual * residual
            total += square / (1 + square / width)
            weight = (1 + square / width) ** -2.0
            for i in range(size):
                gradient[i] += weight * row[i] * residual
                for j in range(size):
                    normal[i, j] += weight * row[i] * row[j]
    return total


@_compiled
def _solve(matrix, right, out):  # type: ignore[no-untyped-def]
    """Cholesky in place; the damped matrix is positive definite, but for rounding."""
    size = len(right)
    for i in range(size):
        for j in range(i + 1):
            value = matrix[i, j]
            for k in range(j):
                value -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[i, i] = np.sqrt(max(value, 1e-300))
            else:
                matrix[i, j] = value / matrix[j, j]
    for i in range(size):
        value = right[i]
        for k in range(i):
            value -= matrix[i, k] * out[k]
        out[i] = value / matrix[i, i]
    for i in range(size - 1, -1, -1):
        value = out[i]
        for k in range(i + 1, size):
            value -= matrix[k, i] * out[k]
        out[i] = value / matrix[i, i]


@_compiled
def _turn(step, d, rotation, out):  # type: ignore[no-untyped-def]
    """out = exp(-step) rotation, by Rodrigues' formula."""
    turn = np.zeros((d, d))
    if d == 2:
        c, s = np.cos(-step[2]), np.sin(-step[2])
        turn[0, 0], turn[0, 1], turn[1, 0], turn[1, 1] = c, -s, s, c
    else:
        x, y, z = -step[3], -step[4], -step[5]
        angle = np.sqrt(x * x + y * y + z * z)
        one = 1.0 - angle * angle / 6 if angle < 1e-4 else np.sin(angle) / angle
        half = 0.5 * angle
        two = 1.0 - half * half / 6 if half < 1e-4 else np.sin(half) / half
        two = 0.5 * two * two
        square = angle * angle
        turn[0, 0] = 1 + two * (x * x - square)
        turn[1, 1] = 1 + two * (y * y - square)
        turn[2, 2] = 1 + two * (z * z - square)
        turn[0, 1], turn[1, 0] = two * x * y - one * z, two * x * y + one * z
        turn[0, 2], turn[2, 0] = two * x * z + one * y, two * x * z - one * y
        turn[1, 2], turn[2, 1] = two * y * z - one * x, two * y * z + one * x
    for i in range(d):
        for j in range(d):
            value = 0.0
            for k in range(d):
                value += turn[i, k] * rotation[k, j]
            out[i, j] = value
