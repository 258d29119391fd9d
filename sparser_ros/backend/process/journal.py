"""A folder of journals: records, files, and the thread that writes, so that no caller waits for the
disk.

A record is a marker, a version, a length, a CRC-32 and a pickle. Records count the messages before
them, so that a gap between two tells how many were lost. Files of a session are numbered. One that
grows beyond its limit is followed by one that begins with all increments and the front-end's state;
older messages are then no longer needed. The folder's files are created, and deleted, and never
opened again for writing.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import queue
import re
import struct
import threading
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ...config import SparserError
from ...io import atomic
from . import wire

_log = logging.getLogger(__name__)
MARKER = b'\xf3SPRJ\r\n\x1a'
"""Begins every record; no UTF-8 text holds its first byte before an S."""
VERSION = 3
_HEAD = struct.Struct('<8sBI')
_CRC = struct.Struct('<I')
_BODY = _HEAD.size + _CRC.size
BEGIN, MESSAGES, STATE, GRAPH, RULINGS, MAP = (
    'begin', 'messages', 'state', 'graph', 'rulings', 'map')
"""Kinds: start of a session, sensor messages, front-end state, increments, all that the operator
has said about measurements, and a map: the newest verdict."""
OTHER_VERSION = 'the journal was written by another version of this package'
NO_TAKE, TAKE, FLUSH = 0, 1, 2
"""What the front-end did after the messages of a record: nothing, take, take(flush=True)."""
RETRY_S = 2.0
"""Between two tries to go on after the disk refused."""
MAX_WAITING_BYTES = 1 << 26
"""Kept in memory meanwhile, 64 MiB: five minutes of six robots; then the oldest are lost."""
_NAME = re.compile(r'sparser-(\d{6})-(\d{6})\.(journal|map)')
_LOCK = 'sparser.lock'


class Record(NamedTuple):
    """One record of a session."""

    kind: str
    number: int
    """Counts the records of a session from 0."""
    before: int
    """Messages of the session before this record."""
    body: Any
    """Of messages: (topic, type, received_ns, bytes) of each, as they came."""
    take: int = NO_TAKE


def packed(record: Record) -> bytes:
    """The bytes of a record."""
    body = wire.pack(tuple(record))
    head = _HEAD.pack(MARKER, VERSION, len(body))
    return b''.join((head, _CRC.pack(zlib.crc32(body, zlib.crc32(head))), body))


def scan(data: bytes) -> Iterator[tuple[Record, int]]:
    """Sound records in order, whatever lies between them, with the place where each ends;
    SparserError for those of another version."""
    at, sound = data.find(MARKER), False
    while at >= 0:
        begin = at + _BODY
        if begin <= len(data):
            _, version, length = _HEAD.unpack_from(data, at)
            body = data[begin:begin + length]
            crc, = _CRC.unpack_from(data, at + _HEAD.size)
            if zlib.crc32(body, zlib.crc32(data[at:at + _HEAD.size])) == crc:
                if version != VERSION:
                    raise SparserError(OTHER_VERSION)
                sound, at = True, begin + length
                yield Record(*wire.unpack(body)), at
                continue
        at = data.find(MARKER, at + 1)
    if not sound and data.startswith(MARKER) and data[len(MARKER):_BODY][:1] != bytes([VERSION]):
        raise SparserError(OTHER_VERSION)


@dataclass(frozen=True)
class Part:
    """Work of the thread: the bytes of one record, or what makes them."""

    number: int
    """Of the record."""
    data: bytes | Callable[[], bytes]
    """Of increments they are made in the thread: of a large map that takes many ms."""
    session: int = -1
    """>= 0: begin a new file of this session with it."""
    checkpoint: bool = False
    """Whether it is a state: files before the one that it follows in are not needed any more."""

    @property
    def size(self) -> int:
        """In bytes, of what may be lost."""
        return len(self.data) if isinstance(self.data, bytes) and self.session < 0 else 0


class Writer(threading.Thread):
    """Writes parts in order; after a failure it tries again until it can.

    Beside parts it takes functions to be called, and None: to end once all is written.
    """

    def __init__(self, files: Files, sync_period_s: float) -> None:
        super().__init__(name='sparser-journal', daemon=True)
        self.files, self._sync_period_s = files, sync_period_s
        self.inbox: queue.SimpleQueue[Part | Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: deque[Part] = deque()
        self._session = -1
        self._file: BinaryIO | None = None
        self._begun = Path()
        """The newest file that begins a session, or with a state."""
        self._synced_s = 0.0
        self._fresh = False
        """No record is in the file yet."""
        self._ended = False
        self.durable = -1
        """Number of the newest record that is on disk."""
        self.problem = ''
        """Why it does not write; '' = it does."""
        self.path = ''
        """Of the file being written; '' = none yet."""
        self.start()

    def run(self) -> None:
        while not (self._ended and (not self._waiting or self.problem)):
            self._receive(RETRY_S if self.problem else None)
            try:
                self._write()
                self.problem = ''
            except (OSError, SparserError) as error:
                if not self.problem:
                    _log.error('the journal in %s cannot be written: %s; the node goes on, and '
                               'what comes now is lost in a crash', self.files.directory, error)
                self.problem = str(error)
                self._close()
                if self._fresh:
                    # Created a moment ago, and nothing in it is whole.
                    self.files.withdraw(Path(self.path))
                self._forget()
        self._close()

    def _receive(self, timeout_s: float | None) -> None:
        """Fetch all that there is; wait for something when nothing is."""
        with contextlib.suppress(queue.Empty):
            if not self._waiting or timeout_s is not None:
                self._sort(self.inbox.get(timeout=timeout_s))
            while not self._ended:
                self._sort(self.inbox.get_nowait())

    def _sort(self, item: Part | Callable[[], None] | None) -> None:
        if item is None:
            self._ended = True
        elif isinstance(item, Part):
            self._waiting.append(item)
        else:
            try:
                item()
            except (OSError, SparserError) as error:
                _log.error('the journal in %s: %s', self.files.directory, error)

    def _write(self) -> None:
        """Write and sync what waits; a part leaves the queue once it is on disk."""
        batch: list[Part] = []
        for part in tuple(self._waiting):
            if part.session >= 0:
                self._flush(batch)
                batch = []
                self._close()
                self._session = part.session
                self._open()
                self._begun = Path(self.path)
                self.files.limit(part.session)
            batch.append(part)
        self._flush(batch)

    def _open(self) -> None:
        path, self._file = self.files.create(self._session)
        self.path, self._fresh = str(path), True

    def _flush(self, batch: list[Part]) -> None:
        if not batch:
            return
        if self._file is None:
            # The last write failed half-way: its file stays as it is, a new one goes on.
            self._open()
        assert self._file is not None
        for part in batch:
            rest = memoryview(part.data if isinstance(part.data, bytes) else part.data())
            while rest:
                rest = rest[self._file.write(rest):]
        now = time.monotonic()
        if now - self._synced_s >= self._sync_period_s:
            os.fsync(self._file.fileno())
            self._synced_s = now
        for _ in batch:
            self._waiting.popleft()
        self.durable, self._fresh = batch[-1].number, False
        if any(part.checkpoint for part in batch):
            self.files.tidy(self._session, self._begun)

    def _forget(self) -> None:
        """While the disk refuses: keep what memory bears."""
        total = sum(part.size for part in self._waiting)
        kept: deque[Part] = deque()
        for part in self._waiting:
            if total > MAX_WAITING_BYTES and part.size:
                total -= part.size
            else:
                kept.append(part)
        self._waiting = kept

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._file.fileno())
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


class Files:
    """A folder with the files `sparser-<session>-<number>.journal` and `.map`; only files that bear
    our name and begin with our marker are ever deleted."""

    def __init__(self, directory: Path, max_mb: float) -> None:
        self.directory = directory.expanduser().absolute()
        self._max_mb = max_mb
        self._checkpoint: Path | None = None
        """The newest file that begins with a state."""
        self._lock: BinaryIO | None = None

    def open(self) -> None:
        """Make the folder and claim it; SparserError where another node has, OSError otherwise.

        A folder on a disk that has become read-only can be claimed, and read.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / _LOCK
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            if not path.exists():
                raise
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._lock = os.fdopen(descriptor, 'rb', buffering=0)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise SparserError(
                f'another node writes its journal to {self.directory}: give each its own '
                'node.journal.directory') from None

    def close(self) -> None:
        """Let another node have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _named(self) -> Iterator[tuple[Path, re.Match[str]]]:
        if self.directory.is_dir():
            for path in sorted(self.directory.iterdir()):
                match = _NAME.fullmatch(path.name)
                if match:
                    yield path, match

    def sessions(self) -> dict[int, dict[str, list[Path]]]:
        """Paths of every session by kind (`journal`, `map`), in order of their numbers."""
        paths: dict[int, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
        for path, match in self._named():
            if path.is_file() and not path.is_symlink():
                paths[int(match[1])][match[3]].append(path)
        return dict(paths)

    def new_session(self, after: int = -1) -> int:
        """A number that no file has, whoever wrote it."""
        return max([after, *(int(match[1]) for _, match in self._named())]) + 1

    def create(self, session: int) -> tuple[Path, BinaryIO]:
        """A new, empty file of a session."""
        number = 1 + max((int(match[2]) for _, match in self._named()
                          if int(match[1]) == session and match[3] == 'journal'), default=-1)
        path = self.directory / f'sparser-{session:06d}-{number:06d}.journal'
        file = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), 'wb',
            buffering=0)
        self._sync_folder()
        return path, file  # type: ignore[return-value]

    def write_map(self, session: int, data: bytes) -> None:
        """The newest map of a session, in place of the one before, whole or not at all."""
        path = self.directory / f'sparser-{session:06d}-000000.map'
        if path.exists() and not (path.is_file() and _ours(path)):
            raise SparserError(f'{path} is in the way')
        with atomic.replacing(path) as temporary, open(temporary, 'xb') as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._sync_folder()

    def tidy(self, session: int, newest: Path) -> None:
        """Delete messages that two states follow; the file `newest` begins with the second."""
        before, self._checkpoint = self._checkpoint, newest
        if before is not None and before.name[:15] == newest.name[:15]:
            for path in self.sessions()[session]['journal']:
                if path < before:
                    _delete(path)

    def limit(self, session: int) -> None:
        """Delete whole old sessions while all together are too large."""
        sessions = self.sessions()
        paths = {s: [p for kind in parts.values() for p in kind] for s, parts in sessions.items()}
        sizes = {s: sum(p.stat().st_size for p in of if p.exists()) for s, of in paths.items()}
        for old in sorted(sizes):
            if old == session or sum(sizes.values()) <= self._max_mb * 1e6:
                break
            for path in paths[old]:
                _delete(path)
            sizes.pop(old)

    def withdraw(self, path: Path) -> None:
        """Delete a file that was created a moment ago and in which nothing whole was written.

        On a full disk it is empty; the next try is 2 s away, and would leave another one.
        """
        with contextlib.suppress(OSError):
            if path.stat().st_size == 0 or _ours(path):
                path.unlink()

    def _sync_folder(self) -> None:
        folder = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _ours(path: Path) -> bool:
    with open(path, 'rb') as file:
        return file.read(len(MARKER)) == MARKER


def _delete(path: Path) -> None:
    if path.exists() and _ours(path):
        path.unlink()
