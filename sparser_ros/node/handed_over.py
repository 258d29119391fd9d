"""What was handed to the solver so far, in one numbering of keyframes."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from ..backend.session.graph_store import GraphStore
from ..backend.session.rulings import Rulings
from ..graph import Increment, Ranges, RelativePoses, Sightings
from .keyframe_arrays import Keyframes


@dataclass
class GraphCounts:
    """Size of everything handed to the solver, and of what a solution does not include yet."""

    keyframes: int = 0
    ranges: int = 0
    closures: int = 0
    sightings: int = 0
    waiting: int = 0


class HandedOver:
    """All increments, and what publishing needs of them."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self.increments: list[Increment] = []
        self.keyframes = Keyframes(dimension)
        self.ranges: list[Ranges] = []
        self.closures: list[RelativePoses] = []
        self.sightings: list[Sightings] = []
        self.counts = GraphCounts()

    def keep(self, increment: Increment) -> None:
        """Add the next increment."""
        self.increments.append(increment)
        self.keyframes.append(increment)
        self.counts.keyframes += len(increment.poses)
        self.counts.waiting += increment.n_measurements
        if len(increment.sightings):
            self.counts.sightings += len(increment.sightings)
            self.sightings.append(increment.sightings)
        if len(increment.ranges):
            self.counts.ranges += len(increment.ranges)
            self.ranges.append(increment.ranges)
        closures = increment.relative_poses.take(~increment.relative_poses.odometry)
        if len(closures):
            self.counts.closures += len(closures)
            self.closures.append(closures)

    def solved(self, sequence: int) -> None:
        """A solution includes the increments up to a sequence."""
        self.counts.waiting = sum(
            one.n_measurements for one in self.increments[self._until(sequence):])

    def store(self, sequence: int, rulings: Rulings) -> GraphStore:
        """Increments 0..sequence under an operator's rulings; for a thread of its own."""
        store = GraphStore(self._dimension)
        store.rule(rulings)
        begin = 0
        for increment in tuple(self.increments[:self._until(sequence)]):
            store.add(increment, first=begin)
            begin = increment.sequence + 1
        return store

    def _until(self, sequence: int) -> int:
        """How many increments there are up to a sequence; a restored one stands for several."""
        return bisect.bisect_right(self.increments, sequence, key=lambda one: one.sequence)
