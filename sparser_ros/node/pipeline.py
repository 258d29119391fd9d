"""Front-end, solver process and the newest solution: what the node drives, without ROS."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..backend.process.resume import Deserialise
from ..backend.process.worker import SolverWorker
from ..backend.session.graph_store import GraphStore
from ..backend.session.rulings import Rulings
from ..backend.session.solution import Solution
from ..backend.session.thinning_step import ThinningStep, possible
from ..config.sparser import SparserConfig
from ..frontend import Route
from ..graph import Graph, Increment, Ranges, RelativePoses, Sightings
from .handed_over import GraphCounts, HandedOver
from .keyframe_arrays import Keyframes
from .recording import Recording
from .thinning_job import ThinningJob

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
        # What waited for newer data when the node ended may have waited long enough.
        self._flushed = not resumed.messages

    def _begin(self) -> None:
        self._handed = HandedOver(self.config.dimension)
        """In the numbering of `solution`."""
        self._coming: HandedOver | None = None
        """After a thinning, until the first solution of the thinned graph."""
        self._thinning: ThinningJob | None = None
        self.thinned: list[str] = []
        """What thinnings have done, in words."""
        self._sequence = -1
        self._submitted = -1
        self._held: deque[tuple[int, Increment | ThinningJob]] = deque()
        """Increments whose messages are not on disk yet, with the record that holds them; and
        thinnings, which what follows waits for."""
        self._requested = -1
        self._last_data = self._steady()
        self._flushed = True
        self.solution = None

    @property
    def _newest(self) -> HandedOver:
        """In the numbering of the next increment, but for what waits for a thinning."""
        return self._coming or self._handed

    @property
    def keyframes(self) -> Keyframes:
        """Those that `solution` numbers."""
        return self._handed.keyframes

    @property
    def ranges(self) -> list[Ranges]:
        """Those that `solution` numbers."""
        return self._handed.ranges

    @property
    def closures(self) -> list[RelativePoses]:
        """Those between keyframes of `solution`."""
        return self._handed.closures

    @property
    def sightings(self) -> list[Sightings]:
        """Those at keyframes of `solution`."""
        return self._handed.sightings

    @property
    def counts(self) -> GraphCounts:
        """Sizes."""
        return self._handed.counts

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
        self._thinning = ThinningJob(
            self._newest.increments, drop, self.frontend.config.keyframes.thinned_per_pair,
            quarantined)
        self._held.append((number, self._thinning))

    def release(self) -> bool:
        """Hand over what is safe on disk by now; true when nothing is held back."""
        while self._held and self.recording.safe(self._held[0][0]):
            one = self._held[0][1]
            if isinstance(one, ThinningJob):
                if not one.done:
                    break
                step = one.outcome()
                self._held.popleft()
                self._thinned(step)
                continue
            self._held.popleft()
            self.worker.submit(one)
            self._submitted = one.sequence
        return not self._held

    def _thinned(self, step: ThinningStep) -> None:
        """Go on with a thinned graph."""
        self.worker.thin(step)
        self._thinning = None
        self._coming = HandedOver(self.config.dimension)
        self._coming.keep(step.increment)
        for _, one in self._held:
            if isinstance(one, Increment):
                self._coming.keep(one)
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
        if self._coming is not None:
            self._handed, self._coming = self._coming, None
        self._handed.solved(solution.sequence)
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
        return self._handed.store(sequence, self.rulings)

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
