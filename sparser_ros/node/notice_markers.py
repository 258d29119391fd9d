"""What RViz says in words: robots that are not located, and what is missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..backend.session.solution import Location, Solution
from .markers import TEXT, Color, Marker

NOTICE: Color = (1.0, 0.75, 0.3, 0.9)
_HEIGHT, _STEP = 3.0, 9.0
"""Height of letters and distance of two texts of two lines, in radii of a beacon."""
_MOST_LETTERS = 70


def notice_markers(solution: Solution, points: NDArray, size: float) -> list[Marker]:
    """A text for every robot without a place in `map`, below what is drawn.

    `points` (k, d) are what is drawn, `size` is the radius of a beacon in metres. Without it an
    empty picture would look like a broken one.
    """
    corner = np.zeros((2, 2)) if not len(points) else np.array(
        [np.min(points[:, :2], axis=0), np.max(points[:, :2], axis=0)])
    x, y = float(np.mean(corner[:, 0])), float(corner[0, 1])
    unplaced = [(k, one) for k, one in enumerate(solution.robots) if not one.location.placed]
    return [
        Marker('not_located', number, TEXT, position_xyz=(x, y - _STEP * size * (line + 1), 0.0),
               scale=(0.0, 0.0, _HEIGHT * size), color=NOTICE,
               text=_words(one.robot, one.location, one.missing))
        for line, (number, one) in enumerate(unplaced)]


def _words(robot: str, location: Location, missing: str) -> str:
    """The state of a robot and the first part of the reason."""
    state = 'not located' if location is Location.UNLOCATED else location.value
    reason = missing.split('; ')[0]
    if len(reason) > _MOST_LETTERS:
        reason = reason[:_MOST_LETTERS - 3].rstrip() + '...'
    return f'{robot}: {state}\n{reason}'.rstrip()
