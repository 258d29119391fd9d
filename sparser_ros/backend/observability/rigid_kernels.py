"""Compiled: costs and normal equations of the problem of rigid pieces; descents of one variable.

`rotation` (v + 1, d, d) turns the arms of points, and `base` (v + 1, d) is where the centres are,
in metres in map; the last variable is the ground.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...array_types import Array, Index, Mask
from ...linalg.compiled import compiled

_compiled = compiled(error_model='numpy')

WHOLE, HEIGHT, DIRECTION, DISTANCE = 0, 1, 2, 3
"""What a tie says of its two points: that they coincide altogether, in their last coordinates, or
in the directions of their arms, wherever the centres are (the second is one of map); or how far
they are apart."""


class Ties(NamedTuple):
    """Measurements between points, each carried by a variable."""

    first: Index
    """(k,): variable; the ground is the last."""
    second: Index
    arm_first: Array
    """(k, d): from the centre of the variable to its point, m."""
    arm_second: Array
    distance: Array
    """(k,): m; 0 where the points coincide."""
    weight: Array
    """(k,): 1/m^2."""
    kept: Mask
    """(k,): false for measurements that the robust solve rejects."""
    part: Index
    """(k,): `WHOLE`, `HEIGHT`, `DIRECTION` or `DISTANCE`."""
    group: Index
    """(k,): ties of one measurement share a number; numbers are below k."""
    degrees: Array
    """(k,): degrees of freedom of the measurement, by which kernels widen; infinite for surveyed
    places of landmarks and for verticals, which no kernel doubts."""

    def take(self, rows: Mask | Index) -> Ties:
        """Some of the ties."""
        some = Ties._make(column[rows] for column in self)
        return some._replace(group=np.unique(some.group, return_inverse=True)[1].reshape(-1))

    @property
    def scalars(self) -> Array:
        """(k,): scalar residuals of each."""
        d = self.arm_first.shape[1]
        return np.array([d, 1, d - 1, 1])[self.part]


class Unknowns(NamedTuple):
    """Columns of the variables: shift first, then rotation."""

    begin: Index
    """(v + 1,)."""
    size: Index
    """(v + 1,): 0 for the ground, d for landmarks, d + turns for pieces."""


@_compiled
def _square(rotation, base, ties, k, arm, gap):  # type: ignore[no-untyped-def]
    """Squared whitened residual of tie k; turned arms (2, d) and the vector between points (d,)."""
    d = base.shape[1]
    f, s = ties.first[k], ties.second[k]
    square = 0.0
    for i in range(d):
        arm[0, i] = 0.0
        arm[1, i] = 0.0
        for j in range(d):
            arm[0, i] += rotation[f, i, j] * ties.arm_first[k, j]
            arm[1, i] += rotation[s, i, j] * ties.arm_second[k, j]
        gap[i] = base[s, i] + arm[1, i] - base[f, i] - arm[0, i]
        if ties.part[k] == DIRECTION:
            gap[i] = arm[1, i] - arm[0, i]
        elif ties.part[k] == HEIGHT and i < d - 1:
            gap[i] = 0.0
        square += gap[i] * gap[i]
    if ties.part[k] == DISTANCE:
        square = (np.sqrt(square) - ties.distance[k]) ** 2
    return ties.weight[k] * square


@_compiled
def tie_cost(rotation, base, ties, width):  # type: ignore[no-untyped-def]
    """Sum of squares of what is kept, or of Geman-McClure terms of all (c^2 = `width`)."""
    d, count = base.shape[1], len(ties.group)
    arm, gap = np.empty((2, d)), np.empty(d)
    squares, widths = np.zeros(count), np.ones(count)
    total = 0.0
    for k in range(count):
        square = _square(rotation, base, ties, k, arm, gap)
        if not np.isinf(width):
            squares[ties.group[k]] += square
            widths[ties.group[k]] = width * ties.degrees[k]
        elif ties.kept[k]:
            total += square
    for g in range(count):
        total += squares[g] / (1 + squares[g] / widths[g])
    return total


@_compiled
def tie_normal_equations(  # type: ignore[no-untyped-def]
    rotation, base, ties, width, unknowns, normal, gradient,
):
    """Add J^T W J to `normal` (u, u) and J^T W r to `gradient` (u,), W the robust weights."""
    d, count = base.shape[1], len(ties.group)
    turns = 1 if d == 2 else 3
    row, arm, gap = np.empty((2, d + turns)), np.empty((2, d)), np.empty(d)
    side = np.empty(2, dtype=np.int64)
    squares = np.zeros(count)
    for k in range(count):
        if np.isinf(width):
            break
        squares[ties.group[k]] += _square(rotation, base, ties, k, arm, gap)
    for k in range(count):
        weight = 1.0 if ties.kept[k] else 0.0
        if not np.isinf(width):
            weight = (1 + squares[ties.group[k]] / (width * ties.degrees[k])) ** -2.0
        if weight == 0.0:
            continue
        side[0], side[1] = ties.first[k], ties.second[k]
        _square(rotation, base, ties, k, arm, gap)
        part, scale = ties.part[k], np.sqrt(ties.weight[k])
        length = 0.0
        if part == DISTANCE:
            for i in range(d):
                length += gap[i] * gap[i]
            length = np.sqrt(length)
        for axis in range(d - 1 if part == HEIGHT else 0, 1 if part == DISTANCE else d):
            # One row of the Jacobian: along the line of sight, or along one axis of map.
            for q in range(2):
                sign = -scale if q == 0 else scale
                if part == DIRECTION and q == 0:
                    # With the direction of map, e, in place of the turned one, a: e x (a - e) =
                    # e x a is the same gradient, and no turn about e seems to be measured.
                    for i in range(d):
                        arm[0, i] = arm[1, i]
                for i in range(d):
                    row[q, i] = sign if i == axis else 0.0
                    if part == DISTANCE:
                        row[q, i] = sign / max(length, 1e-9) * gap[i]
                if d == 2:
                    row[q, 2] = arm[q, 0] * row[q, 1] - arm[q, 1] * row[q, 0]
                else:
                    for i in range(3):
                        u, v = (i + 1) % 3, (i + 2) % 3
                        row[q, 3 + i] = arm[q, u] * row[q, v] - arm[q, v] * row[q, u]
                if part == DIRECTION:
                    # The turn's columns come from the shift's, which a direction does not have.
                    row[q, axis] = 0.0
            residual = scale * (length - ties.distance[k] if part == DISTANCE else gap[axis])
            for q in range(2):
                at = unknowns.begin[side[q]]
                for i in range(unknowns.size[side[q]]):
                    gradient[at + i] += weight * row[q, i] * residual
                    for p in range(2):
                        to = unknowns.begin[side[p]]
                        for j in range(unknowns.size[side[p]]):
                            normal[at + i, to + j] += weight * row[q, i] * row[p, j]


@_compiled
def add_joints(before, after, residual, by_before, by_after, unknowns, normal, gradient):  # type: ignore[no-untyped-def]
    """Add joints: residuals (j, s) and derivatives (j, s, s) by the motions of both pieces."""
    count, size = residual.shape
    for k in range(count):
        a, b = unknowns.begin[before[k]], unknowns.begin[after[k]]
        for m in range(size):
            for i in range(size):
                early, late = by_before[k, m, i], by_after[k, m, i]
                gradient[a + i] += early * residual[k, m]
                gradient[b + i] += late * residual[k, m]
                for j in range(size):
                    normal[a + i, a + j] += early * by_before[k, m, j]
                    normal[a + i, b + j] += early * by_after[k, m, j]
                    normal[b + i, a + j] += late * by_before[k, m, j]
                    normal[b + i, b + j] += late * by_after[k, m, j]


@_compiled
def descended(  # type: ignore[no-untyped-def]
    ties, unknowns, rotation, position, width, steps, costs,
):
    """Levenberg-Marquardt of variable 0 against the ground, variable 1, from every start.

    `rotation` (s, d, d) and `position` (s, d) end there; `costs` (s,) is written.
    """
    d, size = position.shape[1], unknowns.size[0]
    normal, factor = np.empty((size, size)), np.empty((size, size))
    gradient, step = np.empty(size), np.empty(size)
    turned, moved = np.zeros((2, d, d)), np.zeros((2, d, d))
    here, there = np.zeros((2, d)), np.zeros((2, d))
    for i in range(d):
        turned[1, i, i] = 1.0
        moved[1, i, i] = 1.0
    for start in range(len(position)):
        here[0], turned[0] = position[start], rotation[start]
        cost = tie_cost(turned, here, ties, width)
        damping, fresh = 1e-2, True
        for _ in range(steps):
            if fresh:
                normal[:], gradient[:] = 0.0, 0.0
                tie_normal_equations(turned, here, ties, width, unknowns, normal, gradient)
            largest = 0.0
            for i in range(size):
                largest = max(largest, normal[i, i])
            factor[:] = normal
            for i in range(size):
                factor[i, i] += damping * (normal[i, i] + 1e-9 * (1 + largest))
            _solve(factor, gradient, step)
            there[0] = here[0] - step[:d]
            moved[0] = turned[0]
            if size > d:
                _turn(step, d, turned[0], moved[0])
            value = tie_cost(moved, there, ties, width)
            fresh = value < cost
            if fresh:
                gain = cost - value
                here[0], turned[0], cost = there[0], moved[0], value
                damping = max(damping / 10, 1e-9)
                if gain < 1e-9 * (1 + cost):
                    break
            else:
                damping *= 10
                if damping > 1e5:
                    break
        position[start], rotation[start], costs[start] = here[0], turned[0], cost


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
        sinc = 1.0 - angle * angle / 6 if angle < 1e-4 else np.sin(angle) / angle
        half = 0.5 * angle
        of_half = 1.0 - half * half / 6 if half < 1e-4 else np.sin(half) / half
        versine = 0.5 * of_half * of_half
        square = angle * angle
        turn[0, 0] = 1 + versine * (x * x - square)
        turn[1, 1] = 1 + versine * (y * y - square)
        turn[2, 2] = 1 + versine * (z * z - square)
        turn[0, 1], turn[1, 0] = versine * x * y - sinc * z, versine * x * y + sinc * z
        turn[0, 2], turn[2, 0] = versine * x * z + sinc * y, versine * x * z - sinc * y
        turn[1, 2], turn[2, 1] = versine * y * z - sinc * x, versine * y * z + sinc * x
    for i in range(d):
        for j in range(d):
            value = 0.0
            for k in range(d):
                value += turn[i, k] * rotation[k, j]
            out[i, j] = value
