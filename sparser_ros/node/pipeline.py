"""Front-end, solver process and the newest solution: what the node drives, without ROS."""

from __future__ import annotations

import bisect
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..array_types import Array, Index
from ..backend.process.recording import Deserialise, Recording
from ..backend.process.worker import SolverWorker
from ..backend.session.graph_store import GraphStore, ThinningStep, possible, thinned
from ..backend.session.solution import Solution
from ..backend.session.treatment import Rulings, Treatment
from ..config.sparser import SparserConfig
from ..frontend import Route
from ..graph import Graph, Increment, Landmarks, Poses, Ranges, RelativePoses, Sightings

RELEASE_STEP_S = 0.01
"""Between two looks whether the disk has what a thinning waits for."""


def _no_objects(kind: str, _data: bytes) -> Any:
    raise TypeError(f'nobody makes objects of {kind} here')


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
        # The same radios for back-end and front-end, whose session may have begun with others.
        self.config = config = config.with_radios_of(self.frontend.config)
        self.rulings = resumed.rulings
        """What the operator has said about measurements."""
        self.worker = SolverWorker(
            config, resumed.increments, resumed.kept, resumed.rulings,
            self.frontend.thinnings, paused=config.node.start_paused)
        self._paused = config.node.start_paused
        self.solution: Solution | None = None
        self._steady = steady
        self._begin()
        for increment in resumed.increments:
            self._keep(increment)
            self._submitted = increment.sequence
        self.recording.release()
        # What waited for newer data when the node ended may have waited long enough.
        self._flushed = not resumed.messages

    def _begin(self) -> None:
        self.handed = HandedOver(self.config.dimension)
        """In the numbering of `solution`."""
        self._coming: HandedOver | None = None
        """After a thinning, until the first solution of the thinned graph."""
        self._thinning: Background | None = None
        """A thinning under way, computed while data go on coming in."""
        self.thinned: list[str] = []
        """What thinnings have done, in words."""
        self._sequence = -1
        self._submitted = -1
        self._waiting: deque[tuple[int, Increment | Background]] = deque()
        """Increments whose messages are not on disk yet, with the record that holds them; and
        thinnings, which what follows waits for."""
        self._requested = -1
        self._last_data = self._steady()
        self._flushed = True
        self.solution = None

    @property
    def _newest(self) -> HandedOver:
        """In the numbering of the next increment, but for what waits for a thinning."""
        return self._coming or self.handed

    @property
    def keyframes(self) -> Keyframes:
        """Those that `solution` numbers."""
        return self.handed.keyframes

    @property
    def counts(self) -> GraphCounts:
        """Sizes."""
        return self.handed.counts

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
            self._waiting.append((number, increment))
            self._thin(number)
        if self._thinning is None:
            self.recording.checkpoint(self.frontend, self._newest.increments)
        self.release()
        return increment is not None

    def _thin(self, number: int) -> None:
        """Where there are too many keyframes: begin to thin what was handed over so far."""
        quarantined = () if self.solution is None else self.solution.quarantined
        if not possible(quarantined):
            return
        drop = self.frontend.thin()
        if drop is None:
            return
        while self._thinning is not None:
            # The one before is not done: only where data come much faster than in time.
            self._thinning.outcome()
            if not self.release() and self._thinning is not None:
                time.sleep(RELEASE_STEP_S)
        increments = tuple(self._newest.increments)
        per_pair = self.frontend.config.keyframes.thinned_per_pair
        self._thinning = Background(
            lambda: thinned(increments, drop, per_pair, quarantined), 'sparser-thinning')
        self._waiting.append((number, self._thinning))

    def release(self) -> bool:
        """Hand over what is safe on disk by now; true when nothing is held back."""
        while self._waiting and self.recording.safe(self._waiting[0][0]):
            item = self._waiting[0][1]
            if isinstance(item, Background):
                if not item.done():
                    break
                step = item.outcome()
                self._waiting.popleft()
                self._thinned(step)
            else:
                self._waiting.popleft()
                self.worker.submit(item)
                self._submitted = item.sequence
        return not self._waiting

    def _thinned(self, step: ThinningStep) -> None:
        """Go on with a thinned graph."""
        self.worker.thin(step)
        self._thinning = None
        self._coming = HandedOver(self.config.dimension)
        self._coming.keep(step.increment)
        for _, item in self._waiting:
            if isinstance(item, Increment):
                self._coming.keep(item)
        self._requested = -1
        self.thinned.append(step.text)

    def _keep(self, increment: Increment) -> None:
        self._sequence = increment.sequence
        if self._thinning is None:
            self._newest.keep(increment)

    @property
    def paused(self) -> bool:
        """Whether data are kept and nothing is solved but on request."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused = paused
        self.worker.pause(paused)

    def request_solve(self) -> None:
        """Ask for a solve if there is something new, unless paused."""
        self.release()
        if not self.paused and self._requested != self._submitted:
            self._requested = self._submitted
            self.worker.request_solve()

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
        if self._coming is not None:
            self.handed, self._coming = self._coming, None
        self.handed.solved(solution.sequence)
        self.recording.keep_map(self.worker.kept_map)
        return solution

    @property
    def flushed(self) -> bool:
        """True when nothing waits in the reorder window for want of newer data."""
        return self._flushed

    @property
    def up_to_date(self) -> bool:
        """True when the newest solution includes everything handed over, every thinning too."""
        if self._thinning is not None or self._coming is not None:
            return False
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
        return self.handed.store(sequence, self.rulings)

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
        self.config = config.with_radios_of(self.frontend.config)
        self.worker.configure(self.config)

    def close(self) -> None:
        """End the solver process, and write the rest of the journal."""
        self.worker.close()
        self.recording.close()


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
            increment.n_measurements for increment in self.increments[self._until(sequence):])

    def store(self, sequence: int, rulings: Rulings) -> GraphStore:
        """Increments 0..sequence under an operator's rulings; for a thread of its own."""
        store = GraphStore(self._dimension)
        store.treat(Treatment(rulings=rulings))
        begin = 0
        for increment in tuple(self.increments[:self._until(sequence)]):
            store.add(increment, first=begin)
            begin = increment.sequence + 1
        return store

    def _until(self, sequence: int) -> int:
        """How many increments there are up to a sequence; a restored one stands for several."""
        return bisect.bisect_right(
            self.increments, sequence, key=lambda increment: increment.sequence)


class Keyframes:
    """Stamp and T_odom_base of every keyframe in the order of the graph, and whose it is."""

    def __init__(self, dimension: int) -> None:
        d = dimension
        self.robots: tuple[str, ...] = ()
        self.landmarks: list[str] = []
        self.landmark_fixed: list[bool] = []
        self._rows: list[GrowingArray] = []
        self._dimension = d
        self._robot = GrowingArray((), np.int64)
        self._stamp_ns = GrowingArray((), np.int64)
        self._rotation = GrowingArray((d, d), float)
        self._translation = GrowingArray((d,), float)

    def __len__(self) -> int:
        return len(self._stamp_ns.values)

    def append(self, increment: Increment) -> None:
        """Add the keyframes and landmarks of the next increment."""
        self.robots = increment.robots
        self.landmarks.extend(increment.landmarks.names)
        self.landmark_fixed.extend(bool(fixed) for fixed in increment.landmarks.fixed)
        poses, size = increment.poses, len(self)
        while len(self._rows) < len(self.robots):
            self._rows.append(GrowingArray((), np.int64))
        for number in np.unique(poses.robot).tolist():
            self._rows[number].append(size + np.flatnonzero(poses.robot == number))
        self._robot.append(poses.robot)
        self._stamp_ns.append(poses.stamp_ns)
        self._rotation.append(poses.rotation)
        self._translation.append(poses.translation)

    def rows(self, robot: str, among_first: int) -> Index:
        """Rows of one robot among the first so many keyframes, in time order.

        A robot's keyframes come in time order, so these are their numbers as they came.
        """
        if robot not in self.robots:
            return np.zeros(0, dtype=np.int64)
        rows = self._rows[self.robots.index(robot)].values
        return rows[:np.searchsorted(rows, among_first)]

    def graph(self) -> Graph:
        """Robots, keyframes and landmarks without a measurement; nothing is copied.

        Poses are T_odom_base, positions of landmarks are not known.
        """
        m = len(self.landmarks)
        poses = Poses(
            self._robot.values, np.arange(len(self)), self._stamp_ns.values,
            self._rotation.values, self._translation.values)
        marks = Landmarks(tuple(self.landmarks), np.full((m, self._dimension), np.nan),
                          np.array(self.landmark_fixed, dtype=bool))
        return Graph(self._dimension, self.robots, poses, marks)

    def stamps_ns(self, rows: Index) -> Index:
        """Stamps of the rows."""
        return self._stamp_ns.values[rows]

    def odometry(self, row: int) -> tuple[Array, Array]:
        """T_odom_base stored with a keyframe: rotation (d, d), translation (d,)."""
        return self._rotation.values[row], self._translation.values[row]


class GrowingArray:
    """An array that grows at the end; doubling keeps appending cheap at any length."""

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        self._data: NDArray = np.zeros((256, *shape), dtype=dtype)
        self._size = 0

    def append(self, rows: NDArray) -> None:
        size = self._size + len(rows)
        if size > len(self._data):
            grown = np.zeros((max(size, 2 * len(self._data)), *self._data.shape[1:]),
                             dtype=self._data.dtype)
            grown[:self._size] = self._data[:self._size]
            self._data = grown
        self._data[self._size:size] = rows
        self._size = size

    @property
    def values(self) -> NDArray:
        """The rows so far, without a copy."""
        return self._data[:self._size]


class Background:
    """A function in a thread of its own; `result` or `error` once it is done."""

    def __init__(self, function: Callable[[], Any], name: str = 'sparser-background') -> None:
        self.result: Any = None
        self.error: Exception | None = None
        self._function = function
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._function()
        except Exception as error:
            # For the thread that asks for the outcome.
            self.error = error

    def done(self) -> bool:
        """True when the function has returned or raised."""
        return not self._thread.is_alive()

    def outcome(self) -> Any:
        """The result, waited for; raises what the function has raised."""
        self._thread.join()
        if self.error is not None:
            raise self.error
        return self.result
