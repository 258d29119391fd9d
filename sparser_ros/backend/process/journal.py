"""A folder of journals, one SQLite database a session, and the thread that writes, so that no
caller waits for the disk.

SQLite gives transactions that a crash or a full disk leaves whole; a checksum of each record finds
what a failing disk has changed. Records count the messages before them, so that a gap between two
tells how many were lost. A state of the front-end, behind all increments, makes the messages before
it superfluous.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import re
import shutil
import sqlite3
import tempfile
import threading
import time
import zlib
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from ...config import SparserError
from . import wire

_log = logging.getLogger(__name__)
APPLICATION, VERSION = 0x5350524A, 4
"""In the header of a database: the first says that it is ours."""
BEGIN, MESSAGES, STATE, GRAPH, RULINGS, MAP = (
    'begin', 'messages', 'state', 'graph', 'rulings', 'map')
"""Kinds: start of a session, sensor messages, front-end state, increments, all that the operator
has said about measurements, and the newest map: a verdict."""
MAP_NUMBER = -1
"""Of the one record of a map, which replaces the one before."""
OTHER_VERSION = 'the journal was written by another version of this package'
NO_TAKE, TAKE, FLUSH = 0, 1, 2
"""What the front-end did after the messages of a record: nothing, take, take(flush=True)."""
RETRY_S = 2.0
"""Between two tries to go on after the disk refused."""
HANGS_S = 2.0
"""So long one write may take: the map must go on well before `node.stale_after_s`."""
MAX_WAITING_BYTES = 1 << 26
"""Kept in memory meanwhile, 64 MiB: five minutes of six robots. Then the oldest are lost where the
disk refuses, the newest where it does not answer."""
DELETED_AT_ONCE = 100
"""Records that one commit deletes: all of a segment would hold up the next ones by half a second.
"""
_NAME = re.compile(r'sparser-(\d{6})\.journal')
_TABLE = 'create table records (number integer primary key, kind text, checksum integer, data blob)'
_EMPTY_PAGES = 2
"""Of a database without records: the schema, and the root of its table."""
_REPLACED = (MESSAGES, GRAPH, STATE)
"""Kinds of which a state says from which number on they are needed."""
_OLD = """delete from records where number in (select number from records
          where number < ? and kind in ('messages', 'graph', 'state') limit ?)"""


class Record(NamedTuple):
    """One record of a session."""

    kind: str
    number: int
    """Counts the records of a session."""
    before: int
    """Messages of the session before this record."""
    body: Any
    """Of messages: (topic, type, received_ns, bytes) of each, as they came. On its way to the disk
    also what makes it: of a large map that takes many ms."""
    take: int = NO_TAKE

    @property
    def size(self) -> int:
        """Bytes of messages."""
        return sum(len(message[3]) for message in self.body) if self.kind == MESSAGES else 0


def path_of(directory: Path, session: int) -> Path:
    """The database of a session."""
    return directory / f'sparser-{session:06d}.journal'


def sessions(directory: Path) -> list[int]:
    """Numbers that have a file, whoever wrote it."""
    names = (_NAME.fullmatch(name) for name in os.listdir(directory))
    return sorted(int(match[1]) for match in names if match)


def limit(directory: Path, newest: int, max_mb: float) -> None:
    """Delete old sessions while all together are too large; only files that begin as ours do."""
    files = {session: list(directory.glob(f'{path_of(directory, session).name}*'))
             for session in sessions(directory) if _is_ours(path_of(directory, session))}
    sizes = {session: sum(path.stat().st_size for path in of) for session, of in files.items()}
    for session in files:
        if session == newest or sum(sizes.values()) <= max_mb * 1e6:
            break
        for path in files[session]:
            path.unlink()
        del sizes[session]


def _is_ours(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with open(path, 'rb') as file:
        return file.read(72)[68:] == APPLICATION.to_bytes(4, 'big')


def read(path: Path) -> tuple[list[Record], list[int]]:
    """The records of a session, the map first, and the numbers of those that are damaged.

    SparserError where it is none of ours, or of another version.
    """
    try:
        try:
            with contextlib.closing(_opened(path)) as database:
                return _records(database)
        except sqlite3.OperationalError:
            # Not to be written, as recovery from a crash has to: a copy can.
            with tempfile.TemporaryDirectory() as folder:
                for file in path.parent.glob(f'{path.name}*'):
                    shutil.copyfile(file, Path(folder) / file.name)
                with contextlib.closing(_opened(Path(folder) / path.name)) as database:
                    return _records(database)
    except sqlite3.DatabaseError as error:
        raise SparserError(f'{path} cannot be read: {error}') from None


def _records(database: sqlite3.Connection) -> tuple[list[Record], list[int]]:
    records, damaged = [], []
    first, last = database.execute('select min(number), max(number) from records').fetchone()
    # One by one: those beside a page that is damaged can be read.
    for number in range(first or 0, (-1 if last is None else last) + 1):
        try:
            for checksum, data in database.execute(
                    'select checksum, data from records where number = ?', (number,)):
                if zlib.crc32(data) != checksum:
                    raise sqlite3.DatabaseError('another checksum')
                records.append(Record(*wire.unpack(data)))
        except (sqlite3.DatabaseError, TypeError):
            damaged.append(number)
    if not damaged and _misses_records(database, records):
        # One stands for all of these.
        damaged.append(MAP_NUMBER if first == 0 else (last or 0) + 1)
    return records, damaged


def _misses_records(database: sqlite3.Connection, records: list[Record]) -> bool:
    """Whether it is damaged where it looks for records: it hides what it has."""
    pages, = database.execute('pragma page_count').fetchone()
    checked, = database.execute('pragma quick_check(1)').fetchone()
    return bool(checked != 'ok' or (not records and pages > _EMPTY_PAGES))


def _opened(path: Path) -> sqlite3.Connection:
    """A database of ours, which may be new; sqlite3.OperationalError where it cannot be written."""
    database = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        new = database.execute('select count(*) from sqlite_master').fetchone()[0] == 0
        if new and database.execute('pragma page_count').fetchone()[0] > 1:
            raise sqlite3.DatabaseError('its schema is damaged')
        if new:
            database.execute(f'pragma application_id = {APPLICATION}')
            database.execute(f'pragma user_version = {VERSION}')
        for pragma, value in (('application_id', APPLICATION), ('user_version', VERSION)):
            if database.execute(f'pragma {pragma}').fetchone()[0] != value:
                raise SparserError(OTHER_VERSION)
        # Exclusive: without shared memory, which network file systems do not have.
        database.execute('pragma locking_mode = exclusive')
        database.execute('pragma journal_mode = wal')
        database.execute('pragma synchronous = full')
        if new:
            database.execute(_TABLE)
    except BaseException as error:
        database.close()
        if isinstance(error, UnicodeDecodeError):
            # SQLite quotes a schema that it cannot read, whatever bytes are in it.
            raise sqlite3.DatabaseError('its schema is damaged') from None
        raise
    return database


class Writer(threading.Thread):
    """Writes records in order; after a failure it tries again until it can.

    Beside records it takes the number of a session, to which what follows belongs, and None: to end
    once all is written.
    """

    def __init__(self, directory: Path, max_mb: float) -> None:
        super().__init__(name='sparser-journal', daemon=True)
        self._directory, self._max_mb = directory, max_mb
        self.inbox: queue.SimpleQueue[Record | int | None] = queue.SimpleQueue()
        self._waiting: deque[Record | int] = deque()
        self._database: sqlite3.Connection | None = None
        self._old = 0
        """Messages, increments and states before this number are not needed."""
        self._ended = False
        self._asked_s = math.inf
        """When the disk was asked for what it is doing; infinite = nothing."""
        self.durable = -1
        """Number of the newest record that is on disk."""
        self.problem = ''
        """Why it does not write; '' = it does."""
        self.path = Path()
        """Of the database being written."""
        self.start()

    @property
    def hangs(self) -> str:
        """Since when the disk neither does what it was asked for nor refuses; '' = it answers."""
        since_s = time.monotonic() - self._asked_s
        return f'the disk has not answered for {since_s:.0f} s' if since_s > HANGS_S else ''

    def run(self) -> None:
        while not (self._ended and (not self._waiting or self.problem)):
            self._receive(RETRY_S if self.problem else None)
            try:
                self._write()
                self.problem = ''
            except Exception as error:
                reason = f'another node writes it ({error})' if 'locked' in str(error) else (
                    str(error) or type(error).__name__)
                if not self.problem:
                    _log.error('the journal in %s cannot be written: %s; the node goes on, and '
                               'what comes now is lost in a crash', self._directory, reason)
                self.problem = reason
                self._close()
                self._forget()
            self._asked_s = math.inf
        self._close()

    def _receive(self, timeout_s: float | None) -> None:
        """Fetch all that there is; wait for something when nothing is."""
        with contextlib.suppress(queue.Empty):
            item = self.inbox.get(timeout=timeout_s) \
                if timeout_s is not None or not self._waiting else self.inbox.get_nowait()
            while item is not None:
                self._waiting.append(item)
                item = self.inbox.get_nowait()
            self._ended = True

    def _write(self) -> None:
        """Write what waits; a record leaves the queue once it is on disk."""
        while self._waiting:
            self._asked_s = time.monotonic()
            session = self._waiting[0]
            if isinstance(session, int):
                self._close()
                self.path, self._old = path_of(self._directory, session), 0
                limit(self._directory, session, self._max_mb)
                self._database = _opened(self.path)
                self._waiting.popleft()
                continue
            batch: list[Record] = []
            for record in self._waiting:
                if isinstance(record, int):
                    break
                batch.append(record)
            self._commit(batch)
            for record in batch:
                self._waiting.popleft()
                self.durable = max(self.durable, record.number)

    def _commit(self, batch: list[Record]) -> None:
        self._database = database = self._database or _opened(self.path)
        database.execute('begin')
        old = self._old
        for record in batch:
            data = wire.pack(tuple(
                record._replace(body=record.body()) if callable(record.body) else record))
            database.execute('insert or replace into records values (?, ?, ?, ?)',
                             (record.number, record.kind, zlib.crc32(data), data))
            if record.kind == STATE:
                old = record.body['instead_of']
        database.execute(_OLD, (old, DELETED_AT_ONCE))
        database.execute('commit')
        self._old = old

    def _forget(self) -> None:
        """While the disk refuses: keep what memory bears, and nothing that a newer state replaces.
        """
        total, needed, mapped, kept = 0, 0, False, deque[Record | int]()
        for item in reversed(self._waiting):
            if isinstance(item, int):
                needed, mapped = 0, False
            elif item.kind == MAP:
                if mapped:
                    continue
                mapped = True
            elif item.kind in _REPLACED:
                total += item.size
                if item.number < needed or (item.size and total > MAX_WAITING_BYTES):
                    continue
                if item.kind == STATE:
                    needed = item.body['instead_of']
            kept.appendleft(item)
        self._waiting = kept

    def _close(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None
