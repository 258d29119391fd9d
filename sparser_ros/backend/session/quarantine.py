"""Increments that no solve survives: found one by one, left out, named; the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...config import SparserError
from ...graph.finding import Finding

Excluded = Mapping[int, int]
"""Level by sequence of what is left out of the graph."""
MEASUREMENTS, ODOMETRY = 1, 2
"""Levels: closures, ranges, sightings and absolute data; the odometry edges as well."""
FAILURES = (SparserError, np.linalg.LinAlgError, ArithmeticError, ValueError, LookupError,
            MemoryError)
"""What a solve of poisoned data raises: overflow, indefinite matrices, failed validation."""
_MOST = 8
"""So many increments are quarantined at once; more is no poison but a defect of another kind."""


def culprits(
    suspects: Sequence[int], known: Excluded, works: Callable[[Excluded], bool]
) -> dict[int, int] | None:
    """Which suspected increments must be left out, at which level, so that a solve works.

    `suspects` are sequences since the last success, `known` is left out already. None where
    leaving out all of them does not help. A bisection finds the first increment whose arrival
    makes the solve fail; it is left out at the lowest level that helps, and the search goes on.
    """
    found = dict(known)
    waiting = [one for one in suspects if found.get(one, 0) < ODOMETRY]

    def without(rest: Sequence[int]) -> dict[int, int]:
        return {**found, **dict.fromkeys(rest, ODOMETRY)}

    if not works(without(waiting)):
        return None
    for _ in range(_MOST):
        low, high = 0, len(waiting)
        if works(found):
            return found
        # Invariant: the first `low` suspects are harmless, the first `high` are not.
        while high - low > 1:
            middle = (low + high) // 2
            if works(without(waiting[middle:])):
                low = middle
            else:
                high = middle
        culprit, waiting = waiting[high - 1], waiting[high:]
        found[culprit] = MEASUREMENTS
        if not works(without(waiting)):
            found[culprit] = ODOMETRY
    return without(waiting)


def findings(excluded: Excluded, subjects: Mapping[int, str]) -> tuple[Finding, ...]:
    """One finding per quarantined increment; `subjects` names the robots of its data."""
    what = {MEASUREMENTS: 'ranges, closures and fixes', ODOMETRY: 'measurements and odometry'}
    return tuple(
        Finding(
            'quarantined', subjects.get(sequence, 'map'),
            f'the {what[level]} of increment {sequence} ({subjects.get(sequence, "map")}) are left '
            f'out of the map: no solve succeeds with them', float(sequence))
        for sequence, level in sorted(excluded.items()))
