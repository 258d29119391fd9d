"""Everything the node takes in, on disk before it counts; a thread writes, no caller waits.

What is kept are the messages as they came, and when the front-end made keyframes of them: the
front-end is deterministic, so the same messages give the same state (`recording`). Files of a
session are numbered. One that grows beyond its limit is followed by one that begins with the
front-end's state; increments until then go to a `.graph` file, and older messages are no longer
needed. The journal creates files, and deletes those it has created; it never opens another one for
writing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import queue
import re
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ...config import SparserError
from ...config.node_config import JournalConfig
from ...graph import Increment
from ..session.graph_store import merged
from . import journal_records as records
from . import wire
from .journal_records import KeptSession, Message, Record
from .worker import KeptMap

_log = logging.getLogger(__name__)
RETRY_S = 2.0
"""Between two tries to go on after the disk refused."""
MAX_WAITING_BYTES = 1 << 26
"""Kept in memory meanwhile, 64 MiB: five minutes of six robots; then the oldest are lost."""
MERGED = 64
"""So many increments become one record of a `.graph` file."""
_NAME = re.compile(r'sparser-(\d{6})-(\d{6})\.(journal|graph|map)')
_LOCK = 'sparser.lock'


@dataclass(frozen=True)
class _Part:
    """Work of the thread: bytes of a record, or a new file with bytes of its `.graph` file."""

    number: int
    data: bytes
    session: int = -1
    """>= 0: begin a new file of this session."""
    graph: Callable[[], bytes] | None = None
    """Makes them, in the thread: of a large map that takes many ms."""
    anew: bool = False
    """Whether that file holds all increments, so that older ones are not needed any more."""


class Journal:
    """An open journal; all methods belong to one thread, and none blocks."""

    def __init__(self, files: Files, options: JournalConfig, begin: dict[str, Any],
                 session: KeptSession | None = None) -> None:
        """Start a session, or go on with one.

        `begin` holds the configuration; one that goes on is given its state by `checkpoint`.
        """
        self._files, self._options = files, options
        self._begin = begin
        self._session = files.new_session() if session is None else session.number
        self._number, self._before = (0, 0) if session is None else (
            session.next_number, session.messages)
        self._messages: list[Message] = []
        self.topics: Counter[str] = Counter() if session is None else Counter(session.topics)
        """Messages of the session so far, by topic."""
        self._queue: queue.SimpleQueue[_Part | Callable[[], None] | None] = queue.SimpleQueue()
        self._writer = _Writer(files, options, self._queue)
        self._file_bytes = 0
        if session is None:
            self._open()

    @property
    def due(self) -> bool:
        """Whether the file is full: time for a `checkpoint`."""
        return self._file_bytes > self._options.segment_mb * 1e6

    @property
    def durable(self) -> int:
        """Number of the newest record that a crash does not undo; all of them while it fails."""
        return self._number - 1 if self._writer.problem else self._writer.durable

    @property
    def path(self) -> str:
        """Of the file being written; '' = none yet."""
        return self._writer.path

    @property
    def problem(self) -> str:
        """Why it does not write; '' = it does."""
        return self._writer.problem

    def message(self, message: Message) -> None:
        """Keep a message for the next `take`."""
        self.topics[message.topic] += 1
        self._messages.append(message)

    def take(self, flush: bool) -> int:
        """The front-end makes keyframes now; returns the number of the record that says so."""
        messages, self._messages = self._messages, []
        if not messages and not flush:
            return self._number - 1
        take = records.FLUSH if flush else records.TAKE
        return self._write(records.MESSAGES, records.pack_messages(messages), messages, take)

    def rule(self, rulings: dict[str, Any]) -> int:
        """The operator has said something; returns the number of the record that holds it."""
        self._begin = {**self._begin, 'rulings': rulings}
        # Twice: it may be the last record of all, and speaks for every measurement.
        return self._write(records.RULINGS, json.dumps(rulings).encode(), copies=2)

    def checkpoint(
        self, state: bytes, increments: Sequence[Increment], *, anew: bool = False
    ) -> None:
        """Begin a new file with the front-end's state.

        `increments` are those since the last checkpoint, or all of them (`anew`), the first of
        which stands for those that were thinned; nothing may wait for `take`.
        """
        chunks = [list(increments[:1])] if anew else []
        chunks += [list(increments[k:k + MERGED])
                   for k in range(int(anew), len(increments), MERGED)]
        firsts = [0 if anew and number == 0 else chunk[0].sequence
                  for number, chunk in enumerate(chunks)]
        self._open(partial(_encoded, chunks, firsts), anew=anew)
        self._write(records.STATE, state)

    def restart(self, begin: dict[str, Any]) -> int:
        """All is forgotten: begin another session, after the last messages of this one."""
        self._keep_rest()
        self.topics.clear()
        self._begin, self._session = begin, self._files.new_session(self._session)
        self._before = 0
        self._open()
        return self._number - 1

    def keep_map(self, kept: KeptMap) -> None:
        """Write the newest verdict of an audit, in place of the one before."""
        self._queue.put(partial(self._files.write_map, self._session, kept))

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._keep_rest()
        self._queue.put(None)
        self._writer.join(10.0)

    def _keep_rest(self) -> None:
        if self._messages:
            self._write(records.MESSAGES, records.pack_messages(self._messages), self._messages)
            self._messages = []

    def _open(self, graph: Callable[[], bytes] | None = None, *, anew: bool = False) -> None:
        begin = Record(records.BEGIN, self._number, self._before, 0, 0, 0,
                       json.dumps(self._begin).encode())
        self._number += 1
        self._file_bytes = 0
        # Twice: without its configuration a session could not be read.
        self._queue.put(_Part(
            begin.number, 2 * records.pack(begin), self._session, graph, anew))

    def _write(self, kind: int, body: bytes, messages: Sequence[Message] = (),
               take: int = records.NO_TAKE, copies: int = 1) -> int:
        first = messages[0].received_ns if messages else 0
        last = messages[-1].received_ns if messages else 0
        record = Record(kind, self._number, self._before, len(messages), first, last, body, take)
        self._number += 1
        self._before += len(messages)
        data = copies * records.pack(record)
        self._file_bytes += len(data)
        self._queue.put(_Part(record.number, data))
        return record.number


def _encoded(chunks: Sequence[Sequence[Increment]], firsts: Sequence[int]) -> bytes:
    """Records of a `.graph` file: one for every chunk of increments, twice."""
    return b''.join(
        2 * records.pack(Record(
            records.GRAPH, chunk[-1].sequence, first, len(chunk), 0, 0,
            wire.increment_message(merged(list(chunk)), first=first)))
        for chunk, first in zip(chunks, firsts, strict=True))


class _Writer(threading.Thread):
    """Writes parts in order; after a failure it tries again until it can."""

    def __init__(self, files: Files, options: JournalConfig,
                 inbox: queue.SimpleQueue[_Part | Callable[[], None] | None]) -> None:
        super().__init__(name='sparser-journal', daemon=True)
        self._files, self._options, self._inbox = files, options, inbox
        self._waiting: deque[_Part] = deque()
        self._session = -1
        self._file: BinaryIO | None = None
        self._synced_s = 0.0
        self._fresh = False
        """No record is in the file yet."""
        self._ended = False
        self.durable = -1
        self.problem = self.path = ''
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
                               'what comes now is lost in a crash', self._files.directory, error)
                self.problem = str(error)
                self._close()
                if self._fresh:
                    # Created a moment ago, and nothing in it is whole.
                    self._files.withdraw(Path(self.path))
                self._forget()
        self._close()

    def _receive(self, timeout_s: float | None) -> None:
        """Fetch all that there is; wait for something when nothing is."""
        tasks: list[Callable[[], None]] = []
        with contextlib.suppress(queue.Empty):
            if not self._waiting or timeout_s is not None:
                self._sort(self._inbox.get(timeout=timeout_s), tasks)
            while not self._ended:
                self._sort(self._inbox.get_nowait(), tasks)
        for task in tasks:
            try:
                task()
            except (OSError, SparserError) as error:
                _log.error('the journal in %s: %s', self._files.directory, error)

    def _sort(self, part: _Part | Callable[[], None] | None,
              tasks: list[Callable[[], None]]) -> None:
        if part is None:
            self._ended = True
        elif isinstance(part, _Part):
            self._waiting.append(part)
        else:
            tasks.append(part)

    def _write(self) -> None:
        """Write and sync what waits; a part leaves the queue once it is on disk."""
        number = -1
        data: list[bytes] = []
        for part in tuple(self._waiting):
            if part.session >= 0:
                self._flush(data, number)
                data = []
                self._begin(part)
            data.append(part.data)
            number = part.number
        self._flush(data, number)

    def _begin(self, part: _Part) -> None:
        self._close()
        if part.graph is not None:
            self._files.write_graph(part.session, part.graph())
        self._session = part.session
        self._open()
        self._files.tidy(part.session, part.graph is not None, part.anew)

    def _open(self) -> None:
        path, self._file = self._files.create(self._session)
        self.path, self._fresh = str(path), True

    def _flush(self, data: list[bytes], number: int) -> None:
        if not data:
            return
        if self._file is None:
            # The last write failed half-way: its file stays as it is, a new one goes on.
            self._open()
        assert self._file is not None
        rest = memoryview(b''.join(data))
        while rest:
            rest = rest[self._file.write(rest):]
        period, now = self._options.sync_period_s, time.monotonic()
        if not period or now - self._synced_s >= period:
            os.fsync(self._file.fileno())
            self._synced_s = now
        while self._waiting and self._waiting[0].number <= number:
            self._waiting.popleft()
        self.durable, self._fresh = number, False

    def _forget(self) -> None:
        """While the disk refuses: keep what memory bears."""
        total = sum(len(part.data) for part in self._waiting)
        kept: deque[_Part] = deque()
        for part in self._waiting:
            if total > MAX_WAITING_BYTES and part.session < 0:
                total -= len(part.data)
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
    """A folder with the files `sparser-<session>-<number>.journal`, `.graph` and `.map`; only
    files that bear our name and begin with our marker are ever deleted."""

    def __init__(self, directory: Path, max_mb: float) -> None:
        self.directory = directory.expanduser().absolute()
        self._max_mb = max_mb
        self._numbers: dict[int, int] = {}
        self._checkpoints: list[int] = []
        """Numbers of the files of the present session that begin with a state."""
        self._bases: list[int] = []
        """Numbers of those of them whose `.graph` file holds all increments."""
        self._lock: BinaryIO | None = None

    def open(self) -> None:
        """Make the folder and claim it; SparserError where another node has, OSError otherwise.

        A folder on a disk that has become read-only can be claimed, and read.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = os.fdopen(self._lock_file(), 'rb', buffering=0)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SparserError(
                f'another node writes its journal to {self.directory}: give each its own '
                'node.journal.directory') from None
        self._lock = lock

    def _lock_file(self) -> int:
        path = self.directory / _LOCK
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM) or not path.exists():
                raise
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let another node have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def sessions(self) -> dict[int, dict[str, list[Path]]]:
        """Paths of every session by kind (`journal`, `graph`, `map`), in order of their numbers."""
        paths: dict[int, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
        if self.directory.is_dir():
            for path in sorted(self.directory.iterdir()):
                match = _NAME.fullmatch(path.name)
                if match and path.is_file() and not path.is_symlink():
                    paths[int(match[1])][match[3]].append(path)
        return dict(paths)

    def new_session(self, after: int = -1) -> int:
        """A number that no file has, whoever wrote it."""
        taken = [after]
        if self.directory.is_dir():
            taken += [int(match[1]) for path in self.directory.iterdir()
                      if (match := _NAME.fullmatch(path.name))]
        return max(taken) + 1

    def create(self, session: int) -> tuple[Path, BinaryIO]:
        """A new, empty file of a session."""
        number = self._next(session)
        path = self.directory / f'sparser-{session:06d}-{number:06d}.journal'
        file = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), 'wb',
            buffering=0)
        self._numbers[session] = number
        self._sync_folder()
        return path, file  # type: ignore[return-value]

    def write_graph(self, session: int, data: bytes) -> None:
        """The increments until the file that comes next."""
        number = self._next(session)
        self._write_whole(self.directory / f'sparser-{session:06d}-{number:06d}.graph', data)

    def write_map(self, session: int, kept: KeptMap) -> None:
        """The newest verdict of a session."""
        self._write_whole(self.directory / f'sparser-{session:06d}-000000.map',
                          records.pack(records.map_record(kept)))

    def tidy(self, session: int, checkpoint: bool, anew: bool = False) -> None:
        """Delete messages that two states follow, then whole old sessions beyond the limit.

        `anew`: the newest `.graph` file holds all increments; older ones go as messages do.
        """
        if checkpoint:
            self._checkpoints.append(self._numbers[session])
            if anew:
                self._bases.append(self._numbers[session])
        else:
            self._checkpoints.clear()
            self._bases.clear()
        sessions = self.sessions()
        if len(self._checkpoints) > 1:
            least = self._checkpoints[-2]
            base = max((number for number in self._bases if number <= least), default=-1)
            for kind, first in (('journal', least), ('graph', base)):
                for path in sessions.get(session, {}).get(kind, []):
                    if _number(path) < first:
                        _delete(path)
        paths = {s: [p for kind in parts.values() for p in kind] for s, parts in sessions.items()}
        sizes = {s: sum(p.stat().st_size for p in of if p.exists()) for s, of in paths.items()}
        for old in sorted(sizes):
            if old == session or sum(sizes.values()) <= self._max_mb * 1e6:
                break
            for path in paths[old]:
                _delete(path)
            sizes.pop(old)

    def _next(self, session: int) -> int:
        number = self._numbers.get(session, -1)
        for path in self.directory.glob(f'sparser-{session:06d}-*'):
            match = _NAME.fullmatch(path.name)
            if match and match[3] == 'journal':
                number = max(number, int(match[2]))
        return number + 1

    def withdraw(self, path: Path) -> None:
        """Delete a file that was created a moment ago and in which nothing whole was written.

        On a full disk it is empty; the next try is 2 s away, and would leave another one.
        """
        with contextlib.suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()
            else:
                _delete(path)

    def _write_whole(self, path: Path, data: bytes) -> None:
        if path.exists() and not (path.is_file() and _ours(path)):
            raise SparserError(f'{path} is in the way')
        temporary = path.with_name(f'{path.name}.{os.getpid()}.new')
        with open(temporary, 'xb') as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _number(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match
    return int(match[2])


def _ours(path: Path) -> bool:
    with open(path, 'rb') as file:
        head = file.read(len(records.MARKER))
    return head == records.MARKER


def _delete(path: Path) -> None:
    if path.exists() and _ours(path):
        path.unlink()
