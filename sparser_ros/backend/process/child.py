"""The solver process: reads messages, keeps the session, answers with solutions.

CHOLMOD holds the interpreter lock for a second and more, so this runs in a process of its own. A
reader thread empties the pipe whenever the lock is free, so that a large increment never waits
for a solve to end with the pipe full in both directions.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import traceback
from collections import deque
from multiprocessing.connection import Connection

from ...config import SparserError
from ...linalg.memory import keep_freed_memory
from ..session.session import Session
from ..session.solution import Solution
from . import protocol
from .codec import Packet, decode, decode_increment, encode, estimate_from


class Child:
    """One solver loop on one end of a pipe; in a process of its own, or in a thread."""

    def __init__(self, pipe: Connection, config: str, *, own_process: bool) -> None:
        self._pipe = pipe
        self._own_process = own_process
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._later: deque[bytes | None] = deque()
        """Read from the inbox during a solve, for after it."""
        self._sending = threading.Lock()
        self._ended = threading.Event()
        self._config = protocol.config_from(config)
        self._generation = 0
        self._request = -1
        self._full: bool | None = None
        self._idle = False
        self._pending = False

    def run(self) -> None:
        """Serve until the pipe closes."""
        if self._own_process:
            keep_freed_memory()
        threading.Thread(target=self._read, name='sparser-child-reader', daemon=True).start()
        threading.Thread(target=self._beat, name='sparser-child-beat', daemon=True).start()
        from ...solver import warm_up

        warm_up(self._config.dimension, self._config.solver)
        session = Session(self._config, bounded=True)
        self._send(encode(protocol.READY, {'pid': os.getpid()}))
        while not self._ended.is_set():
            message = self._later.popleft() if self._later else self._inbox.get()
            while message is not None:
                session = self._handle(session, decode(message))
                try:
                    message = self._later.popleft() if self._later else self._inbox.get_nowait()
                except queue.Empty:
                    break
            if message is None:
                break
            if self._pending and not self._ended.is_set():
                self._solve(session)
        self._ended.set()

    def _handle(self, session: Session, packet: Packet) -> Session:
        kind = packet.kind
        if kind == protocol.INCREMENT:
            session.add(decode_increment(packet), first=packet.values['first'])
        elif kind == protocol.SOLVE:
            wanted = packet.values['full']
            self._full = wanted if self._full is None or wanted else self._full
            self._idle = self._idle or packet.values['idle']
            self._request, self._pending = packet.values['request'], True
        elif kind == protocol.RESTORE:
            session.restore(estimate_from(packet.arrays))
        elif kind == protocol.RESET:
            self._generation = packet.values['generation']
            self._pending, self._full, self._idle = False, None, False
            session = Session(self._config, bounded=True)
        elif kind == protocol.CONFIGURE:
            self._config = protocol.config_from(packet.values['config'])
            session.config = self._config
        elif kind == protocol.CLOSE:
            self._ended.set()
        return session

    def _solve(self, session: Session) -> None:
        request, full, idle = self._request, self._full, self._idle
        self._pending, self._full, self._idle = False, None, False
        self._send(encode(protocol.WORKING, {'request': request, 'sequence': session.sequence}))
        try:
            solution = session.solve(
                full, idle=idle, meanwhile=_Meanwhile(self, session, request))
            self._send(protocol.answered(solution, request, self._generation))
        except (SparserError, ArithmeticError, ValueError, MemoryError, LookupError) as error:
            self._send(encode(protocol.FAILED, {
                'request': request, 'generation': self._generation,
                'text': f'{type(error).__name__}: {error}',
                'traceback': traceback.format_exc()}))

    def take(self, session: Session) -> bool:
        """Add waiting increments during a solve; True if there were any. The rest waits."""
        added = False
        while not self._later:
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                break
            packet = None if message is None else decode(message)
            if packet is not None and packet.kind == protocol.INCREMENT:
                added |= session.add(decode_increment(packet), first=packet.values['first'])
            elif packet is not None and packet.kind == protocol.SOLVE:
                self._handle(session, packet)
            else:
                self._later.append(message)
        return added

    def early(self, solution: Solution, request: int) -> None:
        """A solution ahead of the one that answers the request, which stays open."""
        self._send(protocol.answered(solution, request - 1, self._generation))

    def _read(self) -> None:
        while True:
            try:
                self._inbox.put(self._pipe.recv_bytes())
            except (EOFError, OSError):
                self._end()
                return

    def _beat(self) -> None:
        parent = os.getppid()
        period = self._config.backend.watchdog.heartbeat_period_s
        while not self._ended.wait(period):
            if self._own_process and os.getppid() != parent:
                self._end()
            self._send(encode(protocol.BEAT))

    def _send(self, message: bytes) -> None:
        with self._sending:
            try:
                self._pipe.send_bytes(message)
            except OSError:
                self._end()

    def _end(self) -> None:
        """The node is gone: a process of its own ends at once, whatever it is doing."""
        if self._own_process:
            os._exit(0)
        self._ended.set()
        self._inbox.put(None)


class _Meanwhile:
    """What a session does during a solve for the process it runs in."""

    def __init__(self, child: Child, session: Session, request: int) -> None:
        self._child, self._session, self._request = child, session, request

    def take(self) -> bool:
        return self._child.take(self._session)

    def publish(self, solution: Solution) -> None:
        self._child.early(solution, self._request)


def main(pipe: Connection, config: str) -> None:
    """Entry point of the spawned process."""
    # Ctrl-C goes to the whole process group; the node decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, 'pthread_sigmask'):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    Child(pipe, config, own_process=True).run()
