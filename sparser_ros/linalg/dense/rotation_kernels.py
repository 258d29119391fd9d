"""Compiled: nearest rotations of 3 x 3 matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled

_ROUNDING_OF_ENTRIES = 1e-13
"""Change of an entry of an orthonormal matrix that counts as rounding."""
_LEAST_DETERMINANT = 1e-4
"""Determinant, over the cube of the mean length of a row, of a matrix that is clearly near a
rotation; below, Newton's iteration is slow or its limit ill-determined, and an SVD decides."""
_MOST_NEWTON_STEPS = 30
"""An upper bound; scaled Newton iterations converge quadratically (Higham 1986)."""


@compiled()
def nearest_by_newton(matrix: Any, out: Any) -> Any:
    """Polar factors of (m, 3, 3) by scaled Newton iteration (Higham); mask (m,) of those found.

    Where the determinant is negative or small, the factor is no rotation or ill-determined.
    """
    found = np.zeros(len(matrix), dtype=np.bool_)
    x = np.empty((3, 3))
    cofactor = np.empty((3, 3))
    for m in range(len(matrix)):
        size = 0.0
        for i in range(3):
            for j in range(3):
                x[i, j] = matrix[m, i, j]
                size += x[i, j] * x[i, j]
        size = np.sqrt(size / 3)
        for step in range(_MOST_NEWTON_STEPS):
            for i in range(3):
                k, q = (i + 1) % 3, (i + 2) % 3
                for j in range(3):
                    u, v = (j + 1) % 3, (j + 2) % 3
                    cofactor[i, j] = x[k, u] * x[q, v] - x[k, v] * x[q, u]
            det = 0.0
            for j in range(3):
                det += x[0, j] * cofactor[0, j]
            if step == 0 and not det > _LEAST_DETERMINANT * size**3:
                break
            # x <- (g x + x^-T / g) / 2, the inverse transposed being cofactors over det.
            scale = det ** (-1 / 3)
            change = 0.0
            for i in range(3):
                for j in range(3):
                    new = 0.5 * (scale * x[i, j] + cofactor[i, j] / (scale * det))
                    change = max(change, abs(new - x[i, j]))
                    x[i, j] = new
            if change < _ROUNDING_OF_ENTRIES:
                found[m] = True
                break
        for i in range(3):
            for j in range(3):
                out[m, i, j] = x[i, j]
    return found
