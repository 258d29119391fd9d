"""The solver as the node sees it: hand over increments, ask for solves, poll for solutions.

All methods return at once: one I/O thread owns the pipe, a watchdog thread kills a process that
went silent. The client keeps every increment and the last estimate; a process that died is
started again and gets them all, so nothing is lost.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from ...config import SparserError
from ...graph import Increment
from ..session.graph_store import merged
from ..session.solution import Solution
from . import protocol
from .child import Child, main
from .codec import Packet, decode, decode_solution, encode, encode_increment
from .journal import Journal

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

_log = logging.getLogger(__name__)

STARTING = (
    'the solver starts; after an installation it compiles its kernels, which takes a minute or so, '
    'while data are kept')


@dataclass(frozen=True)
class WorkerState:
    """What the worker does right now."""

    pid: int | None
    """Of the solver process; None while there is none, or in thread mode."""
    busy: bool
    """A solve was asked for and is not answered yet."""
    restarting: bool
    """The process is starting (again)."""
    restarts: int
    """How often it died or hung and was started again."""
    settled: bool
    """Everything submitted is solved, and the idle check from scratch is done (or off)."""
    text: str


class SolverWorker:
    """Client of the solver process (or thread, `backend.worker`)."""

    def __init__(self, config: SparserConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._outbox: deque[bytes] = deque()
        self._increments: list[Increment] = []
        self._solution: Solution | None = None
        self._fresh = False
        self._generation = 0
        self._request = self._answered = -1
        self._full: bool | None = None
        self._idle = False
        self._requested_sequence = self._polished = -1
        self._last_activity = time.monotonic()
        self._process: BaseProcess | None = None
        self._thread: threading.Thread | None = None
        self._pipe: Connection | None = None
        self._ready = False
        self._heard = time.monotonic()
        self._restarts = -1
        self._failures = 0
        self._text = STARTING
        self._closing = threading.Event()
        self._journal = Journal.fresh(config.backend.journal) if config.backend.journal else None
        self._unwritten: deque[Increment] = deque()
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._io = threading.Thread(target=self._serve, name='sparser-io', daemon=True)
        self._dog = threading.Thread(target=self._watch, name='sparser-watchdog', daemon=True)
        self._io.start()
        self._dog.start()

    # -- for the caller's thread; none of these blocks

    def submit(self, increment: Increment) -> None:
        """Hand over the next increment."""
        with self._lock:
            self._increments.append(increment)
            self._unwritten.append(increment)
            self._last_activity = time.monotonic()
            if self._ready:
                self._outbox.append(encode_increment(increment))
        self._wake()

    def request_solve(self, full: bool | None = None) -> int:
        """Ask for a solve of everything submitted so far; returns the number of the request."""
        return self._ask(full, False)

    def _ask(self, full: bool | None, idle: bool) -> int:
        with self._lock:
            self._request += 1
            self._full = full if self._full is None or full else self._full
            self._idle = self._idle or idle
            self._last_activity = time.monotonic()
            if self._increments:
                self._requested_sequence = self._increments[-1].sequence
            if full or idle:
                self._polished = self._requested_sequence
            if self._ready:
                self._outbox.append(protocol.solve_message(self._request, full, idle))
            request = self._request
        self._wake()
        return request

    def poll(self) -> Solution | None:
        """The newest solution, once; None when there is no new one."""
        with self._lock:
            if not self._fresh:
                return None
            self._fresh = False
            return self._solution

    def reset(self) -> None:
        """Forget all increments and solutions; the next increment has sequence 0."""
        with self._lock:
            self._generation += 1
            self._increments, self._solution, self._fresh = [], None, False
            self._answered, self._full, self._idle = self._request, None, False
            self._requested_sequence = self._polished = -1
            self._outbox.clear()
            self._unwritten.clear()
            if self._journal is not None:
                self._journal.reset()
            if self._ready:
                self._outbox.append(encode(protocol.RESET, {'generation': self._generation}))
        self._wake()

    def configure(self, config: SparserConfig) -> None:
        """Use another configuration from the next solve on."""
        with self._lock:
            self._config = config
            if self._ready:
                self._outbox.append(encode(
                    protocol.CONFIGURE, {'config': protocol.config_text(config)}))
        self._wake()

    @property
    def state(self) -> WorkerState:
        """A snapshot for status and diagnostics."""
        with self._lock:
            process = self._process
            newest = self._increments[-1].sequence if self._increments else -1
            busy = self._answered < self._request
            polish = self._config.backend.idle_polish_after_s > 0
            solved = newest < 0 or (
                self._solution is not None and self._solution.sequence >= newest)
            return WorkerState(
                pid=process.pid if process is not None else None,
                busy=busy,
                restarting=not self._ready,
                restarts=max(self._restarts, 0),
                settled=self._ready and solved and not busy
                and (not polish or newest < 0 or self._polished >= newest),
                text=self._text,
            )

    def close(self) -> None:
        """End the solver process; it is gone when this returns."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._wake()
        limit = self._config.backend.watchdog.close_timeout_s
        self._io.join(timeout=limit)
        self._kill()
        self._io.join(timeout=5.0)
        self._dog.join(timeout=2.0)
        if self._journal is not None:
            self._journal.close()
        for end in (self._wake_in, self._wake_out):
            with contextlib.suppress(OSError):
                os.close(end)

    def __enter__(self) -> SolverWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the I/O thread

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                self._start()
                self._exchange()
            except (EOFError, OSError, SparserError) as error:
                if not self._closing.is_set():
                    self._lost(error)
        with contextlib.suppress(OSError):
            if self._pipe is not None and self._ready:
                self._pipe.send_bytes(encode(protocol.CLOSE))
        self._drop()

    def _start(self) -> None:
        """Start a solver and wait until it has said that it is ready."""
        ours, theirs = multiprocessing.Pipe(duplex=True)
        text = protocol.config_text(self._config)
        self._restarts += 1
        self._heard = time.monotonic()
        self._pipe = ours
        if self._config.backend.worker == 'thread':
            child = Child(theirs, text, own_process=False)
            self._thread = threading.Thread(target=child.run, name='sparser-solver', daemon=True)
            self._thread.start()
        else:
            context = multiprocessing.get_context('spawn')
            process = context.Process(
                target=main, args=(theirs, text), name='sparser-solver', daemon=True)
            # The child inherits this thread's mask: Ctrl-C cannot hit it before it ignores it. The
            # tracker is started first, because its start unblocks SIGINT again.
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._process = process
            theirs.close()
        while not self._ready and not self._closing.is_set():
            self._receive(0.5)
        with self._lock:
            self._text = 'running'
            self._failures = 0

    def _resend(self) -> None:
        """Everything a new process needs, in one go (called with the lock held)."""
        self._outbox.clear()
        if self._generation:
            self._outbox.append(encode(protocol.RESET, {'generation': self._generation}))
        if self._increments:
            self._outbox.append(encode_increment(
                merged(self._increments), first=self._increments[0].sequence))
        if self._solution is not None:
            self._outbox.append(protocol.restore_message(self._solution.estimate))
        if self._answered < self._request:
            self._outbox.append(protocol.solve_message(
                self._request, self._full, self._idle))

    def _exchange(self) -> None:
        while not self._closing.is_set():
            self._write_journal()
            while True:
                with self._lock:
                    message = self._outbox.popleft() if self._outbox else None
                if message is None or self._pipe is None:
                    break
                self._pipe.send_bytes(message)
            self._receive(0.25)
            self._polish()

    def _receive(self, timeout: float) -> None:
        assert self._pipe is not None
        sources: list = [self._pipe, self._wake_out]
        if self._process is not None:
            sources.append(self._process.sentinel)
        for source in wait(sources, timeout):
            if source == self._wake_out:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_out, 4096)
            elif source is self._pipe:
                self._understand(decode(self._pipe.recv_bytes()))
            elif not self._pipe.poll():
                raise EOFError(f'it ended with code {getattr(self._process, "exitcode", None)}')

    def _understand(self, packet: Packet) -> None:
        solution = decode_solution(packet) if packet.kind == protocol.SOLUTION else None
        with self._lock:
            self._heard = time.monotonic()
            if packet.kind == protocol.READY:
                self._ready = True
                self._resend()
            elif packet.kind in (protocol.SOLUTION, protocol.FAILED):
                request, generation = protocol.answer_values(packet)
                if generation != self._generation:
                    return
                self._answered = max(self._answered, request)
                self._last_activity = self._heard
                if self._answered == self._request:
                    self._full, self._idle = None, False
                if solution is not None:
                    self._solution, self._fresh, self._text = solution, True, 'running'
                else:
                    self._text = f'the last solve failed: {packet.values["text"]}'

    def _polish(self) -> None:
        """When no data arrive any more, check the last estimate by one solve from scratch."""
        after = self._config.backend.idle_polish_after_s
        with self._lock:
            newest = self._increments[-1].sequence if self._increments else -1
            idle = time.monotonic() - self._last_activity
            due = (
                after > 0 and idle > after and newest >= 0 and self._polished < newest
                and self._requested_sequence >= newest and self._answered == self._request)
        if due:
            self._ask(None, True)

    def _write_journal(self) -> None:
        while self._unwritten and self._journal is not None:
            with self._lock:
                increment = self._unwritten.popleft() if self._unwritten else None
            if increment is None:
                continue
            try:
                self._journal.append(increment)
            except OSError as error:
                # A full disk must not stop the robot; the session itself lives in memory.
                _log.error('journal %s: %s; it ends here', self._journal.path, error)
                self._journal = None
        if self._journal is None:
            self._unwritten.clear()

    def _lost(self, error: BaseException) -> None:
        """The process died: say so and pause a little before the next start."""
        code = getattr(self._process, 'exitcode', None)
        self._drop()
        delay = self._config.backend.watchdog.respawn_delay_s * 2 ** min(self._failures, 10)
        with self._lock:
            self._failures += 1
            self._text = f'the solver process was lost ({error or code}); starting it again'
        self._closing.wait(min(delay, 10.0))

    def _drop(self) -> None:
        with self._lock:
            self._ready = False
            process, pipe, self._pipe = self._process, self._pipe, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.join(timeout=self._config.backend.watchdog.close_timeout_s)
            if process.is_alive():
                process.kill()
                process.join()
        with self._lock:
            self._process = None

    # -- the watchdog thread

    def _watch(self) -> None:
        while not self._closing.wait(0.2):
            dog = self._config.backend.watchdog
            limit = dog.hang_timeout_s if self._ready else dog.start_timeout_s
            if self._process is not None and time.monotonic() - self._heard > limit:
                with self._lock:
                    self._text = f'the solver process was silent for {limit:g} s; killed'
                self._heard = time.monotonic()
                self._kill()

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.pid is not None:
            with contextlib.suppress(OSError, ValueError):
                process.kill()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake_in, b'.')
