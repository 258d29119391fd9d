"""The solver as the node sees it: hand over increments, ask for solves, poll for solutions.

Behind it are two processes, the tracker and the auditor (`link.Link`). All methods return at once.
The client keeps every increment, the newest solution and the newest verdict; a process that died
is started again and gets them all, so nothing is lost. Solutions go on to the auditor, and verdicts
to the tracker and the journal, as the bytes that came.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ...graph import Increment
from ..session.audited_map import Bound
from ..session.graph_store import ThinningStep, kept_of, merged, runs, until
from ..session.rulings import Rulings
from ..session.solution import Solution, Verdict, withdrawn
from . import wire
from .link import CLOSE_TIMEOUT_S, Link
from .solver_process import AuditorLoop, TrackerLoop
from .wire import Answer, Packet

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_log = logging.getLogger(__name__)
NO_RULINGS = Rulings()
NO_REQUEST = Answer(0, -1)
"""What a map that was kept answers: a verdict that came by itself, of the first graph."""


@dataclass(frozen=True)
class WorkerState:
    """What the worker does right now."""

    pid: int | None
    """Of the tracker process; None while there is none, or in thread mode."""
    auditor_pid: int | None
    """Of the auditor process; None while there is none, or in thread mode."""
    busy: bool
    """A solve was asked for and is not answered yet."""
    restarting: bool
    """The tracker process is starting (again); the auditor may still be."""
    auditor_missing: str
    """Why there is no auditor now; '' = it runs."""
    restarts: int
    """How often one of the processes died or hung and was started again."""
    settled: bool
    """Everything submitted is solved, and audited where that happens by itself."""
    failed: str
    """Why the newest solve or audit failed; '' = it did not."""
    text: str


@dataclass(frozen=True)
class KeptMap:
    """What makes `map` of another process the same: the newest verdict, and its epoch."""

    message: bytes
    """Of kind verdict, as it came."""
    epoch: int
    thinnings: int = 0
    """How often the graph was thinned: which numbering of poses the verdict is in."""

    @cached_property
    def verdict(self) -> Verdict:
        """Read where it is needed."""
        return wire.decode(self.message).body  # type: ignore[no-any-return]

    def thinned(self, step: ThinningStep, answer: Answer = NO_REQUEST) -> KeptMap:
        """The same map after a thinning."""
        verdict = kept_of(self.verdict, step.renumbering, step.increment.sequence)
        return KeptMap(wire.verdict_message(verdict, answer), self.epoch, self.thinnings + 1)


class SolverWorker:
    """Client of the tracker and auditor processes (or threads, `backend.worker`)."""

    def __init__(
        self, config: SparserConfig, increments: Sequence[Increment] = (),
        kept: KeptMap | None = None, rulings: Rulings = NO_RULINGS, thinnings: int = 0,
        *, epoch: int = 0, paused: bool = False,
    ) -> None:
        """Where a session goes on: increments, map, rulings, how often the graph was thinned, and
        the number of the frame of map."""
        self.lock = threading.RLock()
        self._config = config
        self._increments = list(increments)
        self.newest: Solution | None = None
        """The newest solution, polled or not."""
        self._solution_message = b''
        """The newest solution as it came; empty = none of the present graph."""
        self._fresh = False
        self._verdict_message = b''
        """The newest verdict that tells of the map, for whoever begins with the present graph."""
        self.bound: Bound | None = None
        """What is proved of the map of an audit; None = nothing yet."""
        self._generation, self._epoch = 0, epoch
        self._rulings, self._thinnings, self._paused = rulings, thinnings, paused
        if kept is not None:
            self._verdict_message = wire.verdict_message(kept.verdict, NO_REQUEST)
        self._request = self._answered = -1
        self._audit_request = self._audited = -1
        self.audited_solution: Solution | None = None
        """Answered the newest request for an audit; others may have followed."""
        self._audit_failed_at = -1
        """Newest increment when an audit failed."""
        self._failed = ''
        self._closed = False
        self._tracker = Link(
            TrackerLoop, self.lock, lambda: self._config, lambda: True, self._all_for_tracker,
            self._from_tracker)
        # The auditor starts after the tracker: both at once would compile the same kernels.
        self._auditor = Link(
            AuditorLoop, self.lock, lambda: self._config, lambda: self._tracker.ready,
            self._all_for_auditor, self._from_auditor)
        self._links = (self._tracker, self._auditor)
        for link in self._links:
            link.start()

    # -- for the caller's thread; none of these blocks

    def submit(self, increment: Increment) -> None:
        """Hand over the next increment."""
        message = wire.increment_message(increment)
        with self.lock:
            self._increments.append(increment)
            for link in self._links:
                link.send(message)

    def share(self, increments: Sequence[Increment], solution: Solution) -> None:
        """Hold the same increments as the caller, who has merged older ones that a solution
        includes; not where that is the newest no longer."""
        with self.lock:
            if self.newest is solution:
                own = until(self._increments, solution.sequence)
                self._increments[:own] = increments[:until(increments, solution.sequence)]

    def request_solve(self, full: bool = False) -> int:
        """Ask for a solve of everything submitted so far; returns the number of the request.

        `full`: after an audit from scratch of all data.
        """
        with self.lock:
            self._request += 1
            request = self._request
            if full:
                self._audit_request = request
                self._auditor.send(wire.message(wire.AUDIT, request=request))
            self._tracker.send(wire.message(wire.SOLVE, request=request))
        return request

    def answered(self, request: int) -> bool:
        """Whether a solution, or a failure, answers this request."""
        with self.lock:
            done = self._answered >= request
            return done and (self._audit_request < request or self._audited >= request)

    @property
    def epoch(self) -> int:
        """Number of the newest frame of map; each reset begins another."""
        with self.lock:
            return self._epoch

    @property
    def kept_map(self) -> KeptMap | None:
        """What a journal keeps of the map; None before the first audit."""
        with self.lock:
            return None if not self._verdict_message else KeptMap(
                self._verdict_message, self._epoch, self._thinnings)

    def poll(self) -> Solution | None:
        """The newest solution, once; None when there is no new one."""
        with self.lock:
            if not self._fresh:
                return None
            self._fresh = False
            return self.newest

    def reset(self) -> None:
        """Forget all increments and solutions; the next increment has sequence 0."""
        with self.lock:
            self._generation += 1
            self._epoch, self._thinnings = self._epoch + 1, 0
            self._increments, self.newest, self._fresh = [], None, False
            self._solution_message = self._verdict_message = b''
            self.bound, self._failed = None, ''
            self.audited_solution = None
            self._answered = self._audited = self._request
            self._audit_request = self._audit_failed_at = -1
            self._tracker.send(*self._all_for_tracker())
            self._auditor.send(*self._all_for_auditor())

    def thin(self, step: ThinningStep) -> None:
        """Go on with a thinned graph in place of everything submitted so far.

        The next solution is one of the thinned graph; what is on its way is dropped.
        """
        with self.lock:
            self._generation += 1
            if kept := self.kept_map:
                answer = replace(
                    wire.decode(kept.message).answer, generation=self._generation)
                self._verdict_message = kept.thinned(step, answer).message
            self._thinnings += 1
            self._increments = [step.increment]
            self.newest, self._solution_message, self._fresh = None, b'', False
            message = wire.message(
                wire.THIN, step.increment, generation=self._generation, to=step.renumbering)
            for link in self._links:
                link.send(message)
            if self._busy:
                self._tracker.send(wire.message(wire.SOLVE, request=self._request))
            if self._audited < self._audit_request:
                self._auditor.send(wire.message(wire.AUDIT, request=self._audit_request))

    def pause(self, paused: bool) -> None:
        """Solve and audit only what is asked for (true), or by itself again (false)."""
        with self.lock:
            self._paused = paused
            self._auditor.send(wire.message(wire.PAUSE, paused=paused))
            if not paused and self._increments:
                # A verdict that came meanwhile waits for its solution.
                self._ask_tracker()

    def rule(self, rulings: Rulings) -> None:
        """Follow what the operator says from the next audit on, also after a reset."""
        with self.lock:
            self._rulings = rulings
            self._auditor.send(wire.message(wire.RULINGS, rulings))

    def configure(self, config: SparserConfig) -> None:
        """Use another configuration from the next solve on."""
        with self.lock:
            self._config = config
            for link in self._links:
                link.send(wire.message(wire.CONFIGURE, config))

    @property
    def state(self) -> WorkerState:
        """A snapshot for status and diagnostics."""
        with self.lock:
            ready = all(link.ready for link in self._links)
            tracker, auditor = self._tracker, self._auditor
            return WorkerState(
                pid=tracker.pid, auditor_pid=auditor.pid, busy=self._busy,
                restarting=not tracker.ready,
                auditor_missing='' if auditor.ready else auditor.text,
                restarts=sum(link.restarts for link in self._links),
                settled=ready and not self._busy and self._solved and self._checked,
                failed=self._failed,
                text=(self._failed or 'running') if tracker.ready else tracker.text)

    def close(self) -> None:
        """End the processes; they are gone when this returns."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
        for link in self._links:
            link.end()
        end = time.monotonic() + CLOSE_TIMEOUT_S
        for link in self._links:
            link.join(max(0.1, end - time.monotonic()))

    def __enter__(self) -> SolverWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _busy(self) -> bool:
        return self._answered < self._request or self._audited < self._audit_request

    @property
    def _submitted(self) -> int:
        """Sequence of the newest increment; -1 = none."""
        return self._increments[-1].sequence if self._increments else -1

    @property
    def _solved(self) -> bool:
        """Whether a solution includes the newest data."""
        return self._submitted < 0 or (
            self.newest is not None and self.newest.sequence >= self._submitted)

    @property
    def _checked(self) -> bool:
        """Whether the newest data are audited, or never will be by themselves."""
        if self._config.backend.audit.period_s <= 0 or self._submitted < 0:
            return True
        audited = -1 if self.newest is None else self.newest.audited_sequence
        return max(audited, self._audit_failed_at) >= self._submitted

    # -- for the links' threads

    def _all_for_tracker(self) -> list[bytes]:
        # It was started with the configuration of that moment.
        messages = [
            self._beginning(), wire.message(wire.CONFIGURE, self._config), *self._all_increments()]
        if self._verdict_message:
            messages.append(self._verdict_message)
        if self._busy:
            messages.append(wire.message(wire.SOLVE, request=self._request))
        return messages

    def _all_for_auditor(self) -> list[bytes]:
        messages = [
            self._beginning(),
            wire.message(wire.CONFIGURE, self._config),
            wire.message(wire.PAUSE, paused=self._paused),
            wire.message(wire.RULINGS, self._rulings),
            *self._all_increments()]
        if self._solution_message:
            messages.append(self._solution_message)
        if self._audited < self._audit_request:
            messages.append(wire.message(wire.AUDIT, request=self._audit_request))
        return messages

    def _beginning(self) -> bytes:
        return wire.message(wire.RESET, generation=self._generation, epoch=self._epoch)

    def _all_increments(self) -> list[bytes]:
        alone = () if self.newest is None else [
            sequence for sequence, _ in self.newest.quarantined]
        messages, before = [], -1
        for part in runs(self._increments, alone):
            # Restored increments stand for several: the sequence of the first says less.
            messages.append(wire.increment_message(merged(part), first=before + 1))
            before = part[-1].sequence
        return messages

    def _from_tracker(self, packet: Packet) -> None:
        if packet.kind == wire.SOLUTION:
            self._take_solution(packet, packet.answer)
            return
        text = self._failure(packet, 'solve')
        with self.lock:
            if text:
                self._answered = max(self._answered, packet.answer.request)
                self._audited = max(self._audited, packet.answer.audit)
                if self.newest is not None:
                    self.newest, self._fresh = withdrawn(self.newest, text), True

    def _from_auditor(self, packet: Packet) -> None:
        if packet.kind == wire.VERDICT:
            self._take_verdict(packet, packet.answer)
            return
        with self.lock:
            if packet.kind == wire.BOUND:
                if packet.answer.generation == self._generation:
                    self.bound = packet.body
            elif self._failure(packet, 'audit'):
                self._audited = max(self._audited, packet.answer.request)
                self._audit_failed_at = self._submitted

    def _take_solution(self, packet: Packet, answer: Answer) -> None:
        solution: Solution = packet.body
        with self.lock:
            if answer.generation != self._generation:
                return
            self._answered = max(self._answered, answer.request)
            if answer.audit > self._audited:
                self._audited, self.audited_solution = answer.audit, solution
            self.newest, self._solution_message, self._fresh = solution, packet.data, True
            self._epoch = max(self._epoch, solution.epoch)
            self._failed = '' if solution.status.value != 'failed' else solution.message
            self._auditor.send(packet.data)

    def _take_verdict(self, packet: Packet, answer: Answer) -> None:
        """Pass a verdict on to the tracker, and ask for the solution that follows from it."""
        with self.lock:
            if answer.generation != self._generation:
                return
            if packet.values['tells']:
                self._verdict_message = packet.data
            else:
                self._audit_failed_at = max(self._audit_failed_at, packet.values['sequence'])
            self._tracker.send(packet.data)
            if self._busy or not self._paused:
                self._ask_tracker()

    def _ask_tracker(self) -> None:
        """Ask for a solve without a new request."""
        self._request = max(self._request, 0)
        self._tracker.send(wire.message(wire.SOLVE, request=self._request))

    def _failure(self, packet: Packet, what: str) -> str:
        """Note that a solve or an audit failed; why, or '' where it was of another graph."""
        _log.error('%s', packet.values['traceback'])
        with self.lock:
            if packet.answer.generation != self._generation:
                return ''
            newest = 'newest' if what == 'audit' else 'last'
            self._failed = f'the {newest} {what} failed: {packet.values["text"]}'
            return self._failed
