"""What an audit gets from the tracker."""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import Estimate
from .solution import Solution


@dataclass(frozen=True)
class TrackedMap:
    """What the tracker knows: the start of one candidate, and what is to be judged."""

    sequence: int
    estimate: Estimate
    placed: tuple[str, ...]
    anchored: bool
    doubt: str = ''
    quarantined: tuple[tuple[int, int], ...] = ()


def tracked_map(solution: Solution) -> TrackedMap | None:
    """What an audit needs of a solution; None while nothing is placed."""
    if not solution.placed:
        return None
    return TrackedMap(
        solution.sequence, solution.estimate, solution.placed, solution.anchored, solution.doubt,
        solution.quarantined)
