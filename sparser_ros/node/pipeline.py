"""Front-end, solver process and the newest solution: what the node drives, without ROS."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..backend.process.worker import SolverWorker
from ..backend.session.graph_store import GraphStore
from ..backend.session.solution import Solution
from ..config.sparser import SparserConfig
from ..frontend.frontend import Frontend
from ..graph import Graph, Increment, Ranges, RelativePoses
from .keyframe_arrays import Keyframes


@dataclass
class GraphCounts:
    """Size of everything handed to the solver, and of what a solution does not include yet."""

    keyframes: int = 0
    ranges: int = 0
    closures: int = 0
    waiting: int = 0


class Pipeline:
    """Data in, solutions out; nothing here blocks.

    `steady` is a monotonic clock in seconds.
    """

    def __init__(
        self, config: SparserConfig, *, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self.config = config
        self.frontend = Frontend(config)
        self.worker = SolverWorker(config)
        self.paused = config.node.start_paused
        self.solution: Solution | None = None
        self._steady = steady
        self._begin()

    def _begin(self) -> None:
        self.keyframes = Keyframes(self.config.dimension)
        self.ranges: list[Ranges] = []
        self.closures: list[RelativePoses] = []
        self.counts = GraphCounts()
        self._increments: list[Increment] = []
        self._sequence = -1
        self._requested = -1
        self._last_data = self._steady()
        self._flushed = True
        self.solution = None

    def touched(self) -> None:
        """Note that a sensor message has arrived."""
        self._last_data = self._steady()
        self._flushed = False

    def intake(self) -> bool:
        """Turn buffered data into keyframes and hand them to the solver; true if there were any.

        After `flush_after_s` of silence whatever waits for its reorder window is resolved.
        """
        silent = self._steady() - self._last_data > self.config.node.flush_after_s
        flush = silent and not self._flushed
        increment = self.frontend.take(flush=flush)
        self._flushed = self._flushed or flush
        if increment is None:
            return False
        self._sequence = increment.sequence
        self._increments.append(increment)
        self.keyframes.append(increment)
        self.counts.keyframes += len(increment.poses)
        self.counts.waiting += increment.n_measurements
        if len(increment.ranges):
            self.counts.ranges += len(increment.ranges)
            self.ranges.append(increment.ranges)
        closures = increment.relative_poses.take(~increment.relative_poses.odometry)
        if len(closures):
            self.counts.closures += len(closures)
            self.closures.append(closures)
        self.worker.submit(increment)
        return True

    def request_solve(self, *, force: bool = False, full: bool | None = None) -> bool:
        """Ask for a solve if there is something new; true when one was asked for.

        `full`: one from scratch.
        """
        if (self.paused or self._requested == self._sequence) and not force:
            return False
        if self._sequence < 0:
            return False
        self._requested = self._sequence
        self.worker.request_solve(full)
        return True

    def request_audit(self) -> int | None:
        """Ask for an audit from scratch of everything so far, paused or not.

        Returns the number of the request; None where there is nothing to solve.
        """
        if self._sequence < 0:
            return None
        self._requested = self._sequence
        return self.worker.request_solve(full=True)

    def answered(self, request: int) -> bool:
        """Whether `solution` is, or follows, the answer to a request; a failure answers it too."""
        return self.worker.answered(request) and self.solution is self.worker.newest

    def poll(self) -> Solution | None:
        """The newest finished solution, once."""
        solution = self.worker.poll()
        if solution is None:
            return None
        self.solution = solution
        self.counts.waiting = sum(
            i.n_measurements for i in self._increments[solution.sequence + 1:])
        return solution

    @property
    def flushed(self) -> bool:
        """True when nothing waits in the reorder window for want of newer data."""
        return self._flushed

    @property
    def up_to_date(self) -> bool:
        """True when the newest solution includes everything handed over."""
        return self._sequence < 0 or (
            self.solution is not None and self.solution.sequence >= self._sequence)

    @property
    def newest_sequence(self) -> int:
        """Sequence of the newest increment; -1 = none."""
        return self._sequence

    def graph_of(self, sequence: int) -> Graph:
        """The graph of increments 0..sequence; costs time, for a thread of its own."""
        store = GraphStore(self.config.dimension)
        for increment in tuple(self._increments[:sequence + 1]):
            store.add(increment)
        return store.graph

    def reset(self, *, keep_beacons: bool) -> None:
        """Forget all data; beacons stay where they are known to be if asked for."""
        positions = self._located_beacons() if keep_beacons else None
        self.frontend.reset(keep_beacons=keep_beacons, positions=positions)
        self.worker.reset()
        self._begin()

    def _located_beacons(self) -> dict[str, list[float]]:
        if self.solution is None:
            return {}
        located = self.solution.landmark_located
        return {
            name: self.solution.estimate.landmarks[k].tolist()
            for k, name in enumerate(self.keyframes.landmarks[:len(located)]) if located[k]
        }

    def configure(self, config: SparserConfig) -> None:
        """Apply changed live options from the next solve on."""
        self.config = config
        self.worker.configure(config)

    def close(self) -> None:
        """End the solver process."""
        self.worker.close()
