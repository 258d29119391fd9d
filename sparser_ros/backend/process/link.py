"""One solver process, watched: started, fed, heard, killed when silent, started again.

An I/O thread owns the pipe, a second thread kills a process that went silent. Whoever owns the
link keeps what a new process needs and sends it all whenever one is ready.

Solver processes are forks of one that has imported everything (`preloaded`) and does nothing but
fork. It is started once, by executing Python anew, so it has none of the node's threads, locks or
DDS sockets. A solver process needs two seconds of processor time for its imports otherwise: now one
start pays for tracker, auditor, and every restart. The fork server inherits environment and output
of the moment at which it starts, and ends with the node and its last fork.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from ...config import SparserError
from . import wire
from .solver_process import AuditorLoop, TrackerLoop, main
from .wire import Packet

if TYPE_CHECKING:
    from ...config.sparser import SparserConfig

RESPAWN_DELAY_S, MOST_DELAY_S = 0.2, 10.0
"""Pause before the first respawn; it doubles at every failed start."""
CLOSE_TIMEOUT_S = 2.0
"""So long a process may take to end by itself."""
_START_LOOK_S = 0.1
"""Period of the look whether the process may start: short against its start of seconds."""
_PRELOADED = f'{__package__}.preloaded'


class Link:
    """The node's end of one process."""

    def __init__(
        self, loop: type[TrackerLoop] | type[AuditorLoop], lock: threading.RLock,
        config: Callable[[], SparserConfig], may_start: Callable[[], bool],
        everything: Callable[[], list[bytes]], understand: Callable[[Packet], None],
    ) -> None:
        """All are called in the I/O thread: the configuration in force now; whether the process may
        start (asked again until it may); all that a new process needs, in order, with the lock
        held; what takes a message that is no sign of life."""
        self._loop, self._lock, self._config = loop, lock, config
        self._may_start, self._everything, self._take = may_start, everything, understand
        self._outbox: deque[bytes] = deque()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._heard = time.monotonic()
        self._restarts, self._failures = -1, 0
        self.ready = False
        """Whether the process has said so; guarded by the lock."""
        self.text = loop.STARTING
        self._closing = threading.Event()
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._io = threading.Thread(target=self._serve, name=f'sparser-{loop.NAME}-io', daemon=True)
        self._dog = threading.Thread(
            target=self._watch, name=f'sparser-{loop.NAME}-watchdog', daemon=True)

    def start(self) -> None:
        """Start the threads, which start the process."""
        self._io.start()
        self._dog.start()

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none, or in thread mode."""
        process = self._process
        return None if process is None else process.pid

    @property
    def restarts(self) -> int:
        """How often the process died or hung and was started again."""
        return max(self._restarts, 0)

    def send(self, *messages: bytes) -> None:
        """Queue messages; dropped while the process starts, since it then gets everything."""
        with self._lock:
            if self.ready:
                self._outbox.extend(messages)
        self._wake()

    def end(self) -> None:
        """Ask threads and process to end."""
        self._closing.set()
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake_in, b'.')

    def join(self, limit_s: float) -> None:
        """Wait for the end, by force after the limit."""
        self._io.join(timeout=limit_s)
        self._kill()
        self._io.join(timeout=5.0)
        self._dog.join(timeout=2.0)
        for end in (self._wake_in, self._wake_out):
            with contextlib.suppress(OSError):
                os.close(end)

    # -- the I/O thread

    def _serve(self) -> None:
        while not self._closing.is_set():
            if not self._may_start():
                self._closing.wait(_START_LOOK_S)
                continue
            try:
                self._start()
                self._exchange()
            except (EOFError, OSError, SparserError) as error:
                if not self._closing.is_set():
                    self._lost(error)
        with contextlib.suppress(OSError):
            if self._pipe is not None and self.ready:
                self._pipe.send_bytes(wire.message(wire.CLOSE))
        self._drop()

    def _start(self) -> None:
        """Start a process and wait until it has said that it is ready."""
        ours, theirs = multiprocessing.Pipe(duplex=True)
        config = self._config()
        self._restarts += 1
        self._heard = time.monotonic()
        self._pipe = ours
        if config.backend.worker == 'thread':
            loop = self._loop(theirs, config, own_process=False)
            threading.Thread(
                target=loop.run, name=f'sparser-{self._loop.NAME}', daemon=True).start()
        else:
            context = multiprocessing.get_context('forkserver')
            context.set_forkserver_preload([_PRELOADED])
            process = context.Process(
                target=main, args=(self._loop, theirs, config),
                name=f'sparser-{self._loop.NAME}', daemon=True)
            # The child inherits this thread's mask: Ctrl-C cannot hit it before it ignores it. The
            # tracker of resources is started first, because its start unblocks SIGINT again.
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._process = process
            theirs.close()
        while not self.ready and not self._closing.is_set():
            self._receive(0.5)
        self.text, self._failures = 'running', 0

    def _exchange(self) -> None:
        while not self._closing.is_set():
            while True:
                with self._lock:
                    message = self._outbox.popleft() if self._outbox else None
                if message is None or self._pipe is None:
                    break
                self._pipe.send_bytes(message)
            self._receive(0.25)

    def _receive(self, timeout_s: float) -> None:
        assert self._pipe is not None
        sources: list = [self._pipe, self._wake_out]
        if self._process is not None:
            sources.append(self._process.sentinel)
        for source in wait(sources, timeout_s):
            if source == self._wake_out:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_out, 4096)
            elif source is self._pipe:
                self._understand(wire.decode(self._pipe.recv_bytes()))
            elif not self._pipe.poll():
                raise EOFError(f'it ended with code {getattr(self._process, "exitcode", None)}')

    def _understand(self, packet: Packet) -> None:
        self._heard = time.monotonic()
        if packet.kind == wire.READY:
            with self._lock:
                self._outbox.clear()
                self._outbox.extend(self._everything())
                self.ready = True
        elif packet.kind != wire.BEAT:
            self._take(packet)

    def _lost(self, error: BaseException) -> None:
        """The process died: say so and pause a little before the next start."""
        code = getattr(self._process, 'exitcode', None)
        self._drop()
        delay = RESPAWN_DELAY_S * 2 ** min(self._failures, 10)
        self._failures += 1
        self.text = (
            f'the {self._loop.NAME} process was lost ({str(error) or code}); starting it again')
        self._closing.wait(min(delay, MOST_DELAY_S))

    def _drop(self) -> None:
        with self._lock:
            self.ready = False
            process, pipe, self._pipe = self._process, self._pipe, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.join(timeout=CLOSE_TIMEOUT_S)
            if process.is_alive():
                process.kill()
                process.join(timeout=CLOSE_TIMEOUT_S)
        self._process = None

    # -- the watchdog thread

    def _watch(self) -> None:
        while not self._closing.wait(0.2):
            dog = self._config().backend.watchdog
            limit = dog.hang_timeout_s if self.ready else dog.start_timeout_s
            if time.monotonic() - self._heard <= limit:
                continue
            if self._process is not None:
                self.text = f'the {self._loop.NAME} process was silent for {limit:g} s; killed'
                self._heard = time.monotonic()
                self._kill()

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.pid is not None:
            with contextlib.suppress(OSError, ValueError):
                process.kill()
