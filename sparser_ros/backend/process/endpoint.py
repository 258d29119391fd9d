"""A process's end of the pipe: messages in, answers out, signs of life.

CHOLMOD holds the interpreter lock for a second and more. A reader thread empties the pipe
whenever the lock is free, so that a large increment never waits for a solve to end with the pipe
full in both directions.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from multiprocessing.connection import Connection

from . import protocol
from .codec import Packet, decode, encode


class Endpoint:
    """One end of a pipe in a process of its own, or in a thread."""

    def __init__(self, pipe: Connection, beat_period_s: float, *, own_process: bool) -> None:
        self._pipe, self._period_s, self._own_process = pipe, beat_period_s, own_process
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self.ended = threading.Event()
        """Set once the node is gone or asks to end."""
        for work, name in ((self._read, 'reader'), (self._beat, 'beat')):
            threading.Thread(target=work, name=f'sparser-{name}', daemon=True).start()

    def receive(self, timeout_s: float | None = None) -> list[Packet]:
        """All waiting messages; waits for one (None = for ever). [] after the end or in vain."""
        packets: list[Packet] = []
        try:
            message = self._inbox.get(timeout=timeout_s)
            while message is not None:
                packets.append(decode(message))
                message = self._inbox.get_nowait()
        except queue.Empty:
            return packets
        self.ended.set()
        return []

    @property
    def has_message(self) -> bool:
        """Whether `receive` would not wait."""
        return not self._inbox.empty()

    def send(self, message: bytes) -> None:
        """Send one message; the node being gone ends the process."""
        with self._sending:
            try:
                self._pipe.send_bytes(message)
            except OSError:
                self._end()

    def _read(self) -> None:
        while True:
            try:
                self._inbox.put(self._pipe.recv_bytes())
            except (EOFError, OSError):
                self._end()
                return

    def _beat(self) -> None:
        parent = os.getppid()
        while not self.ended.wait(self._period_s):
            if self._own_process and os.getppid() != parent:
                self._end()
            self.send(encode(protocol.BEAT))

    def _end(self) -> None:
        """The node is gone: a process of its own ends at once, whatever it is doing."""
        if self._own_process:
            os._exit(0)
        self.ended.set()
        self._inbox.put(None)


def begin_process() -> None:
    """Prepare a spawned process: signals, memory, threads."""
    from ...linalg.process import keep_blas_on_one_thread, keep_freed_memory

    # Ctrl-C goes to the whole process group; the node decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, 'pthread_sigmask'):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    keep_freed_memory()
    keep_blas_on_one_thread()
