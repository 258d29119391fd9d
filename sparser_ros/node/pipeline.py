"""Front-end, solver process and the newest solution: what the node drives, without ROS."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ..backend.process.recording import Deserialise, Recording
from ..backend.process.worker import SolverWorker
from ..backend.session.graph_store import (
    GraphStore,
    ThinningStep,
    condense,
    possible,
    thinned,
    until,
)
from ..backend.session.rulings import Rulings
from ..backend.session.solution import Solution
from ..backend.session.treatment import Treatment
from ..config.sparser import SparserConfig
from ..frontend import Route
from ..graph import Graph, Increment, empty_graph, extended

RELEASE_STEP_S = 0.01
"""Between two looks whether the disk has what a thinning waits for."""


class Pipeline:
    """Data in, solutions out; nothing here blocks."""

    def __init__(
        self, config: SparserConfig, deserialise: Deserialise, folder: Path | None = None,
        epoch: int = 0,
    ) -> None:
        """`folder` holds the journal; `deserialise(type, bytes)` makes objects of messages; `epoch`
        is the number of a new frame of map."""
        self._deserialise = deserialise
        self.recording = Recording(config, folder, deserialise, epoch)
        session = self.recording.session
        self.frontend = self.recording.frontend
        self.config = config = config.within(self.frontend.config)
        self.rulings = session.rulings
        """What the operator has said about measurements."""
        self.worker = SolverWorker(
            config, session.increments, session.kept, session.rulings,
            self.frontend.thinnings, epoch=session.epoch, paused=config.node.start_paused)
        self.paused = config.node.start_paused
        """Whether data are kept and nothing is solved but on request."""
        self.solution: Solution | None = None
        self._begin()
        for increment in session.increments:
            self._keep(increment)
            self._submitted = increment.sequence
        self.recording.release()
        # What waited for newer data when the node ended may have waited long enough.
        self.flushed = not session.messages

    def _begin(self) -> None:
        self.handed = HandedOver(self.config.dimension)
        """In the numbering of `solution`."""
        self._coming: HandedOver | None = None
        """After a thinning, until the first solution of the thinned graph."""
        self._thinning: Future[ThinningStep] | None = None
        """A thinning under way, computed while data go on coming in."""
        self.thinned: list[str] = []
        """What thinnings have done, in words."""
        self.newest_sequence = -1
        """Of the increments; -1 = none yet."""
        self._submitted = -1
        self._waiting: deque[tuple[int, Increment | Future[ThinningStep]]] = deque()
        """Increments whose messages are not on disk yet, with the record that holds them; and
        thinnings, which what follows waits for."""
        self._requested = -1
        self._last_data = time.monotonic()
        self.flushed = True
        """Whether nothing waits in the reorder window for want of newer data."""
        self.solution = None

    @property
    def _newest(self) -> HandedOver:
        """In the numbering of the next increment, but for what waits for a thinning."""
        return self._coming or self.handed

    @property
    def graph(self) -> Graph:
        """Everything handed over, in the numbering of `solution`."""
        return self.handed.graph

    def touched(self) -> None:
        """Note that a sensor message has arrived."""
        self._last_data, self.flushed = time.monotonic(), False

    def intake(self) -> bool:
        """Turn buffered data into keyframes and hand them to the solver; true if there were any.

        After `flush_after_s` of silence whatever waits for its reorder window is resolved.
        """
        silent = time.monotonic() - self._last_data > self.config.node.flush_after_s
        flush = silent and not self.flushed
        number = self.recording.take(flush)
        increment = self.frontend.take(flush=flush)
        self.flushed = self.flushed or flush
        if increment is not None:
            self._keep(increment)
            self._waiting.append((number, increment))
            self._thin(number)
        if self._thinning is None:
            self.recording.checkpoint(self._newest.increments, dict(self._quarantined))
        self.release()
        return increment is not None

    @property
    def _quarantined(self) -> tuple[tuple[int, int], ...]:
        """(sequence, level) of the increments that no solve survives."""
        return () if self.solution is None else self.solution.quarantined

    def _thin(self, number: int) -> None:
        """Where there are too many keyframes: begin to thin what was handed over so far."""
        quarantined = self._quarantined
        if not possible(quarantined):
            return
        drop = self.frontend.thin()
        if drop is None:
            return
        while self._thinning is not None:
            # The one before is not done: only where data come much faster than in time.
            self._thinning.result()
            if not self.release() and self._thinning is not None:
                time.sleep(RELEASE_STEP_S)
        increments = tuple(self._newest.increments)
        per_pair = self.frontend.config.keyframes.thinned_per_pair
        self._thinning = background(
            lambda: thinned(increments, drop, per_pair, quarantined))
        self._waiting.append((number, self._thinning))

    def release(self) -> bool:
        """Hand over what is safe on disk by now; true when nothing is held back."""
        while self._waiting and self.recording.safe(self._waiting[0][0]):
            item = self._waiting[0][1]
            if isinstance(item, Future):
                if not item.done():
                    break
                step = item.result()
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
        self.newest_sequence = increment.sequence
        if self._thinning is None:
            self._newest.keep(increment)

    def pause(self, paused: bool) -> None:
        """From now on, or no longer."""
        self.paused = paused
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
        if self.handed.solved(solution):
            self.worker.share(self.handed.increments, solution)
        self.recording.keep_map(self.worker.kept_map)
        return solution

    @property
    def epoch(self) -> int:
        """Number of the frame of `map` that `solution`, or the first one to come, is in."""
        return self.worker.epoch if self.solution is None else self.solution.epoch

    @property
    def up_to_date(self) -> bool:
        """True when the newest solution includes everything handed over, every thinning too."""
        if self._thinning is not None or self._coming is not None:
            return False
        return self.newest_sequence < 0 or (
            self.solution is not None and self.solution.sequence >= self.newest_sequence)

    def store_of(self, sequence: int) -> GraphStore:
        """Increments 0..sequence under the operator's rulings; `graph` of it is without what these
        ignore. Costs time, for a thread of its own."""
        return self.handed.store(sequence, self.rulings)

    def receive(self, route: Route, data: bytes, received_ns: int) -> None:
        """Take in the bytes of a sensor message."""
        self.recording.message(route, data, received_ns)
        self.frontend.feed(route, data, received_ns, self._deserialise)
        self.touched()

    def reset(self, config: SparserConfig | None = None) -> None:
        """Forget all data.

        What the operator ignores stays ignored, but for stretches of time that are forgotten.
        `config` has other known beacons than before.
        """
        self.frontend.reset(config)
        self.recording.inputs.reset()
        if config is not None:
            self.configure(config)
        if self.rulings != self.rulings.lasting():
            self.rulings = self.rulings.lasting()
            self.worker.rule(self.rulings)
        self.worker.reset()
        self.recording.restart(self.rulings, self.worker.epoch)
        self._begin()

    def configure(self, config: SparserConfig) -> None:
        """Apply changed live options from the next solve on."""
        self.config = config.within(self.frontend.config)
        self.worker.configure(self.config)

    def close(self) -> None:
        """End the solver process, and write the rest of the journal."""
        self.worker.close()
        self.recording.close()


class HandedOver:
    """All increments, and their sum."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._graph = empty_graph(dimension)
        self._fresh: list[Increment] = []
        """Increments that are not in it yet."""
        self.increments: list[Increment] = []
        """Older ones, which a solution includes, are merged."""
        self._condensed = 0
        """So many of the first ones are, or stay apart for good."""
        self.waiting = 0
        """Measurements that the newest solution does not include."""

    @property
    def graph(self) -> Graph:
        """Everything handed over; poses are T_odom_base, a robot's in time order."""
        if self._fresh:
            self._graph, self._fresh = extended(self._graph, *self._fresh), []
        return self._graph

    def keep(self, increment: Increment) -> None:
        """Add the next increment."""
        self.increments.append(increment)
        self._fresh.append(increment)
        self.waiting += increment.n_measurements

    def solved(self, solution: Solution) -> bool:
        """A solution includes the increments up to its sequence; true if older ones were merged."""
        sequence, before = solution.sequence, len(self.increments)
        self._condensed = condense(
            self.increments, self._condensed, sequence,
            [quarantined for quarantined, _ in solution.quarantined])
        self.waiting = sum(increment.n_measurements
                           for increment in self.increments[until(self.increments, sequence):])
        return len(self.increments) < before

    def store(self, sequence: int, rulings: Rulings) -> GraphStore:
        """Increments 0..sequence under an operator's rulings; for a thread of its own."""
        store = GraphStore(self._dimension)
        store.treat(Treatment(rulings=rulings))
        increments = tuple(self.increments)
        for increment in increments[:until(increments, sequence)]:
            store.add(increment, first=store.sequence + 1)
        return store


def background(work: Callable[[], Any]) -> Future[Any]:
    """What a function returns or raises, called in a thread that the end of the node ends."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name='sparser-background', daemon=True).start()
    return future
