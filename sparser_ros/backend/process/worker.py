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
from ..session.graph_store import merged, runs
from ..session.solution import Solution, Verdict, withdrawn
from ..session.thinning import ThinningStep, kept_of, verdict_of
from ..session.treatment import Rulings
from . import solver_process, wire
from .link import Link, Role
from .wire import Answer, Packet, Request

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_log = logging.getLogger(__name__)
NO_RULINGS = Rulings()
TRACKER = Role(
    'tracker',
    'the solver starts; after an installation it compiles its kernels, which takes a minute or so, '
    'while data are kept', solver_process.tracker_main, solver_process.TrackerLoop)
AUDITOR = Role(
    'auditor', 'the auditor starts; robots are located after its first audit',
    solver_process.auditor_main, solver_process.AuditorLoop)


@dataclass(frozen=True)
class WorkerState:
    """What the worker does right now."""

    pid: int | None
    """Of the tracker process; None while there is none, or in thread mode."""
    auditor_pid: int | None
    """Of the auditor process; None where it has none."""
    busy: bool
    """A solve was asked for and is not answered yet."""
    restarting: bool
    """The tracker process is starting (again); the auditor may still be."""
    auditor_missing: str
    """Why there is no auditor now though one is wanted; '' = it runs, or none is wanted."""
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
        return wire.decode(self.message).part('verdict', Verdict)

    def thinned(self, step: ThinningStep) -> KeptMap:
        """The same map after a thinning."""
        verdict = kept_of(self.verdict, step.renumbering, step.increment.sequence)
        return KeptMap(
            wire.verdict_message(verdict, Answer(0, -1)), self.epoch, self.thinnings + 1)


class SolverWorker:
    """Client of the tracker and auditor processes (or threads, `backend.worker`)."""

    def __init__(
        self, config: SparserConfig, increments: Sequence[Increment] = (),
        kept: KeptMap | None = None, rulings: Rulings = NO_RULINGS, thinnings: int = 0,
        *, paused: bool = False,
    ) -> None:
        """Where a session goes on: increments, map, rulings, how often the graph was thinned."""
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
        self._generation = self._epoch = 0
        self._rulings, self._thinnings, self._paused = rulings, thinnings, paused
        if kept is not None:
            self._epoch = kept.epoch
            self._verdict_message = wire.verdict_message(kept.verdict, Answer(0, -1))
        self._thinned: ThinningStep | None = None
        """The newest thinning."""
        self._thinned_from = -1
        """Generation before it."""
        self._request = self._answered = -1
        self._audit_request = self._audited = -1
        self.audited_solution: Solution | None = None
        """Answered the newest request for an audit; others may have followed."""
        self._audit_failed_at = -1
        """Newest increment when an audit failed."""
        self._failed = ''
        self._last_activity = time.monotonic()
        self._closed = False
        self._tracker = Link(TRACKER, self)
        self._auditor: Link | None = None
        if config.backend.auditor == 'process':
            self._auditor = Link(AUDITOR, self)
        for link in self._links:
            link.start()

    @property
    def _links(self) -> list[Link]:
        return [self._tracker] if self._auditor is None else [self._tracker, self._auditor]

    # -- for the caller's thread; none of these blocks

    def submit(self, increment: Increment) -> None:
        """Hand over the next increment."""
        message = wire.increment_message(increment)
        with self.lock:
            self._increments.append(increment)
            self._last_activity = time.monotonic()
            for link in self._links:
                link.send(message)

    def request_solve(self, full: bool | None = None) -> int:
        """Ask for a solve of everything submitted so far; returns the number of the request.

        `full`: after an audit from scratch of all data, which is made in any case.
        """
        with self.lock:
            self._request += 1
            request = self._request
            self._last_activity = time.monotonic()
            if full:
                self._audit_request = request
                if self._auditor is not None:
                    self._auditor.send(
                        wire.message(wire.AUDIT, request=Request(request, True)))
            self._tracker.send(wire.message(wire.SOLVE, request=Request(request, full)))
        return request

    def answered(self, request: int) -> bool:
        """Whether a solution, or a failure, answers this request."""
        with self.lock:
            done = self._answered >= request
            return done and (self._audit_request < request or self._audited >= request)

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
            self._thinned, self._thinned_from, self._thinnings = None, -1, 0
            self._epoch = 0
            self._increments, self.newest, self._fresh = [], None, False
            self._solution_message = self._verdict_message = b''
            self.bound, self._failed = None, ''
            self.audited_solution = None
            self._answered = self._audited = self._request
            self._audit_request = self._audit_failed_at = -1
            for link in self._links:
                link.replace_all(self._configuration(), *self._reset_messages(link))

    def thin(self, step: ThinningStep) -> None:
        """Go on with a thinned graph in place of everything submitted so far.

        The next solution is one of the thinned graph; those on their way are dropped.
        """
        with self.lock:
            self._thinned_from, self._generation = self._generation, self._generation + 1
            self._thinned, self._thinnings = step, self._thinnings + 1
            self._increments = [step.increment]
            self.newest, self._solution_message, self._fresh = None, b'', False
            if self._verdict_message:
                packet = wire.decode(self._verdict_message)
                self._verdict_message = wire.verdict_message(
                    kept_of(packet.part('verdict', Verdict), step.renumbering,
                            step.increment.sequence),
                    replace(packet.answer, generation=self._generation))
            message = wire.increment_message(
                step.increment, first=0, kind=wire.THIN, generation=self._generation,
                to=step.renumbering)
            for link in self._links:
                link.send(message)
            if self._busy:
                self._tracker.send(self._open_request())

    def pause(self, paused: bool) -> None:
        """Solve and audit only what is asked for (true), or by itself again (false)."""
        with self.lock:
            self._paused = paused
            if self._auditor is not None:
                self._auditor.send(wire.message(wire.PAUSE, paused=paused))
            if not paused and self._increments:
                # A verdict that came meanwhile waits for its solution.
                self._ask_tracker()

    def rule(self, rulings: Rulings) -> None:
        """Follow what the operator says from the next audit on, also after a reset."""
        with self.lock:
            self._rulings = rulings
            for link in self._links:
                link.send(wire.message(wire.RULINGS, rulings=rulings))

    def configure(self, config: SparserConfig) -> None:
        """Use another configuration from the next solve on."""
        with self.lock:
            self._config = config
            for link in self._links:
                link.send(self._configuration())

    @property
    def state(self) -> WorkerState:
        """A snapshot for status and diagnostics."""
        with self.lock:
            ready = all(link.ready for link in self._links)
            tracker, auditor = self._tracker, self._auditor
            missing = '' if auditor is None or auditor.ready else auditor.text
            return WorkerState(
                pid=tracker.pid, auditor_pid=None if auditor is None else auditor.pid,
                busy=self._busy, restarting=not tracker.ready, auditor_missing=missing,
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
        end = time.monotonic() + self._config.backend.watchdog.close_timeout_s
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
        backend = self._config.backend
        if backend.auditor == 'off' or backend.audit.period_s <= 0 or self._submitted < 0:
            return True
        audited = -1 if self.newest is None else self.newest.audited_sequence
        return max(audited, self._audit_failed_at) >= self._submitted

    # -- for the links' threads

    def config(self) -> SparserConfig:
        """In force now."""
        return self._config

    def may_start(self, link: Link) -> bool:
        """The auditor starts after the tracker: both at once would compile the same kernels."""
        with self.lock:
            return link is self._tracker or self._tracker.ready

    def everything(self, link: Link) -> list[bytes]:
        """Everything a new process needs, in one go (called with the lock held)."""
        messages = self._reset_messages(link)
        alone = () if self.newest is None else [
            sequence for sequence, _ in self.newest.quarantined]
        before = -1
        for part in runs(self._increments, alone):
            # Restored increments stand for several: the sequence of the first says less.
            messages.append(wire.increment_message(merged(part), first=before + 1))
            before = part[-1].sequence
        if link is self._auditor:
            if self._solution_message:
                messages.append(self._solution_message)
            if self._audited < self._audit_request:
                messages.append(
                    wire.message(wire.AUDIT, request=Request(self._audit_request, True)))
            return messages
        if self._verdict_message:
            messages.append(self._verdict_message)
        if self._busy:
            messages.append(self._open_request())
        return messages

    def _reset_messages(self, link: Link) -> list[bytes]:
        messages = [wire.message(wire.RESET, generation=self._generation, epoch=self._epoch)]
        if link is self._auditor:
            messages.append(wire.message(wire.PAUSE, paused=self._paused))
        if self._rulings.revision:
            messages.append(wire.message(wire.RULINGS, rulings=self._rulings))
        return messages

    def _configuration(self) -> bytes:
        return wire.message(wire.CONFIGURE, config=wire.config_text(self._config))

    def _open_request(self) -> bytes:
        """The newest request once more, for a process that does not know of it."""
        full = True if self._audited < self._audit_request else None
        return wire.message(wire.SOLVE, request=Request(self._request, full))

    def understand(self, link: Link, packet: Packet) -> None:
        """Take over an answer of the tracker or the auditor."""
        answer = packet.answer
        if packet.kind == wire.SOLUTION:
            self._take_solution(packet, answer)
        elif packet.kind == wire.VERDICT:
            self._take_verdict(packet, answer)
        elif packet.kind == wire.BOUND:
            with self.lock:
                if answer.generation == self._generation:
                    self.bound = packet.part('bound', Bound)
        elif packet.kind == wire.FAILED:
            self._take_failure(link, packet, answer)

    def _take_solution(self, packet: Packet, answer: Answer) -> None:
        solution = packet.part('solution', Solution)
        with self.lock:
            if answer.generation != self._generation:
                return
            self._answered = max(self._answered, answer.request)
            if answer.audit > self._audited:
                self._audited, self.audited_solution = answer.audit, solution
            self._last_activity = time.monotonic()
            self.newest, self._solution_message, self._fresh = solution, packet.data, True
            self._epoch = max(self._epoch, solution.epoch)
            self._failed = '' if solution.status.value != 'failed' else solution.message
            if self._auditor is not None:
                self._auditor.send(packet.data)

    def _take_verdict(self, packet: Packet, answer: Answer) -> None:
        """Pass a verdict on to the tracker, and ask for the solution that follows from it."""
        with self.lock:
            kept = message = packet.data
            step = self._thinned
            if answer.generation == self._thinned_from and step is not None:
                # It was on its way when the graph was thinned.
                verdict = packet.part('verdict', Verdict)
                answer = replace(answer, generation=self._generation)
                kept = wire.verdict_message(
                    kept_of(verdict, step.renumbering, step.increment.sequence), answer)
                message = wire.verdict_message(verdict_of(verdict, step.renumbering), answer)
            if answer.generation != self._generation:
                return
            if packet.values['tells']:
                self._verdict_message = kept
            else:
                self._audit_failed_at = max(self._audit_failed_at, packet.values['sequence'])
            self._tracker.send(message)
            if self._busy or not self._paused:
                self._ask_tracker()

    def _ask_tracker(self) -> None:
        """Ask for a solve without a new request."""
        self._request = max(self._request, 0)
        self._tracker.send(wire.message(wire.SOLVE, request=Request(self._request)))

    def _take_failure(self, link: Link, packet: Packet, answer: Answer) -> None:
        _log.error('%s', packet.values['traceback'])
        with self.lock:
            if answer.generation not in (self._generation, self._thinned_from):
                return
            if link is self._auditor:
                self._failed = f'the newest audit failed: {packet.values["text"]}'
                self._audited = max(self._audited, answer.request)
                self._audit_failed_at = self._submitted
            else:
                self._failed = f'the last solve failed: {packet.values["text"]}'
                self._answered = max(self._answered, answer.request)
                # Without an auditor of its own the tracker has failed the audit as well.
                self._audited = max(
                    self._audited, answer.audit if self._auditor is not None else answer.request)
                if self.newest is not None:
                    self.newest, self._fresh = withdrawn(self.newest, self._failed), True

    def between(self, link: Link) -> None:
        """Where auditor and tracker take turns: audit when data pause."""
        if link is not self._tracker:
            return
        backend = self._config.backend
        with self.lock:
            due = (
                backend.auditor == 'inline' and not (self._busy or self._paused)
                and self._solved and not self._checked
                and time.monotonic() - self._last_activity > backend.audit.period_s)
        if due:
            self.request_solve(True)
