"""Front-end, solver process and the newest solution: what the node drives, without ROS."""

from __future__ import annotations

import bisect
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..backend.process.resume import Deserialise
from ..backend.process.worker import SolverWorker
from ..backend.session.graph_store import GraphStore
from ..backend.session.rulings import Rulings
from ..backend.session.solution import Solution
from ..config.sparser import SparserConfig
from ..frontend import Frontend, Route
from ..graph import Graph, Increment, Ranges, RelativePoses, Sightings
from .keyframe_arrays import Keyframes
from .recording import Recording


def _no_objects(kind: str, _data: bytes) -> Any:
    raise TypeError(f'nobody makes objects of {kind} here')


def _with_beacons_of(config: SparserConfig, frontend: Frontend) -> SparserConfig:
    """The same radios for back-end and front-end, whose session may have begun with others."""
    return replace(config, radios=frontend.config.radios)


@dataclass
class GraphCounts:
    """Size of everything handed to the solver, and of what a solution does not include yet."""

    keyframes: int = 0
    ranges: int = 0
    closures: int = 0
    sightings: int = 0
    waiting: int = 0


class Pipeline:
    """Data in, solutions out; nothing here blocks.

    `steady` is a monotonic clock in seconds.
    """

    def __init__(
        self, config: SparserConfig, *, folder: Path | None = None,
        deserialise: Deserialise = _no_objects, steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder` holds the journal; `deserialise(type, bytes)` makes objects of messages."""
        self._deserialise = deserialise
        self.recording = Recording(config, folder, deserialise)
        resumed = self.recording.resumed
        self.frontend = resumed.frontend
        self.config = config = _with_beacons_of(config, self.frontend)
        self.rulings = resumed.rulings
        """What the operator has said about measurements."""
        self.worker = SolverWorker(
            config, resumed.increments, resumed.kept, resumed.rulings)
        self.paused = config.node.start_paused
        self.solution: Solution | None = None
        self._steady = steady
        self._begin()
        for increment in resumed.increments:
            self._keep(increment)
            self._submitted = increment.sequence
        # What waited for newer data when the node ended may have waited long enough.
        self._flushed = not resumed.messages

    def _begin(self) -> None:
        self.keyframes = Keyframes(self.config.dimension)
        self.ranges: list[Ranges] = []
        self.closures: list[RelativePoses] = []
        self.sightings: list[Sightings] = []
        self.counts = GraphCounts()
        self._increments: list[Increment] = []
        self._sequence = -1
        self._submitted = -1
        self._held: deque[tuple[int, Increment]] = deque()
        """Increments whose messages are not on disk yet, with the record that holds them."""
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
        number = self.recording.take(flush)
        increment = self.frontend.take(flush=flush)
        self._flushed = self._flushed or flush
        if increment is not None:
            self._keep(increment)
            self._held.append((number, increment))
        self.recording.checkpoint(self.frontend, self._increments)
        self.release()
        return increment is not None

    def release(self) -> bool:
        """Hand over what is safe on disk by now; true when nothing is held back."""
        while self._held and self.recording.safe(self._held[0][0]):
            increment = self._held.popleft()[1]
            self.worker.submit(increment)
            self._submitted = increment.sequence
        return not self._held

    def _keep(self, increment: Increment) -> None:
        self._sequence = increment.sequence
        self._increments.append(increment)
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

    def request_solve(self, *, force: bool = False, full: bool | None = None) -> bool:
        """Ask for a solve if there is something new; true when one was asked for.

        `full`: one from scratch.
        """
        self.release()
        if (self.paused or self._requested == self._submitted) and not force:
            return False
        if self._submitted < 0:
            return False
        self._requested = self._submitted
        self.worker.request_solve(full)
        return True

    def request_audit(self) -> int | None:
        """Ask for an audit from scratch of everything so far, paused or not.

        Returns the number of the request; None where there is nothing to solve.
        """
        if self._submitted < 0:
            return None
        self._requested = self._submitted
        return self.worker.request_solve(full=True)

    def rule(self, rulings: Rulings) -> int:
        """Follow what the operator says; number of the journal's record that must be on disk."""
        self.rulings = rulings
        self.worker.rule(rulings)
        return self.recording.rule(rulings)

    def follows(self, revision: int) -> bool:
        """Whether the newest solution follows the operator's rulings up to a revision."""
        return self.solution is not None and self.solution.ruled >= revision

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
            i.n_measurements for i in self._increments[self._until(solution.sequence):])
        self.recording.keep_map(self.worker.kept_map)
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
        """The graph of increments 0..sequence without what the operator ignores.

        Costs time, for a thread of its own.
        """
        return self.store_of(sequence).graph

    def store_of(self, sequence: int) -> GraphStore:
        """Increments 0..sequence under the operator's rulings; for a thread of its own."""
        store = GraphStore(self.config.dimension)
        store.rule(self.rulings)
        begin = 0
        for increment in tuple(self._increments[:self._until(sequence)]):
            store.add(increment, first=begin)
            begin = increment.sequence + 1
        return store

    def _until(self, sequence: int) -> int:
        """How many increments there are up to a sequence; a restored one stands for several."""
        return bisect.bisect_right(self._increments, sequence, key=lambda one: one.sequence)

    def receive(self, route: Route, data: bytes, received_ns: int) -> None:
        """Take in the bytes of a sensor message."""
        self.recording.message(route, data, received_ns)
        self.frontend.feed_bytes(route, data, received_ns, self._deserialise)
        self.touched()

    def reset(self, *, keep_beacons: bool, config: SparserConfig | None = None) -> None:
        """Forget all data; beacons stay where they are known to be if asked for.

        What the operator ignores stays ignored, but for stretches of time that are forgotten.
        `config` has other known beacons than before.
        """
        positions = self.located_beacons() if keep_beacons else None
        self.frontend.reset(keep_beacons=keep_beacons, positions=positions, config=config)
        if config is not None:
            self.configure(config)
        if self.rulings != self.rulings.lasting():
            self.rulings = self.rulings.lasting()
            self.worker.rule(self.rulings)
        self.recording.restart(self.config, positions, self.rulings, self.frontend)
        self.worker.reset()
        self._begin()

    def located_beacons(self) -> dict[str, list[float]]:
        """Positions in map, by name."""
        if self.solution is None:
            return {}
        located = self.solution.landmark_located
        return {
            name: self.solution.estimate.landmarks[k].tolist()
            for k, name in enumerate(self.keyframes.landmarks[:len(located)]) if located[k]
        }

    def configure(self, config: SparserConfig) -> None:
        """Apply changed live options from the next solve on."""
        self.config = _with_beacons_of(config, self.frontend)
        self.worker.configure(self.config)

    def close(self) -> None:
        """End the solver process, and write the rest of the journal."""
        self.worker.close()
        self.recording.close()
