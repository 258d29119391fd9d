"""Bag files that no reader opens: cut off, without a summary, damaged. What comes first is read.

A recorder that was killed leaves an mcap without its summary, perhaps in the middle of a chunk; a
failing card leaves a database with pages that cannot be read.
"""

from __future__ import annotations

import heapq
import os
import sqlite3
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from lz4.frame import LZ4FrameDecompressor
from rosbags.highlevel import AnyReader
from rosbags.interfaces import (
    Connection,
    ConnectionExtRosbag2,
    MessageDefinition,
    MessageDefinitionFormat,
)
from rosbags.rosbag2.metadata import ReaderMetadata
from rosbags.typesys import get_types_from_msg
from rosbags.typesys.store import Typestore

MAGIC = b'\x89MCAP0\r\n'
SCHEMA, CHANNEL, MESSAGE, CHUNK, DATA_END = 3, 4, 5, 6, 15
DEFINITIONS = {'ros2msg': MessageDefinitionFormat.MSG, 'ros2idl': MessageDefinitionFormat.IDL,
               'omgidl': MessageDefinitionFormat.IDL}
MOST_STAMP = 2**63 - 1
MOST_UNPACKED = 2**31
"""Bytes of a chunk, unpacked; a damaged one may claim or become anything."""


def opened(path: Path, store: Typestore) -> tuple[AnyReader, str]:
    """A reader of what can be read of a .mcap or .db3 file, and in words where that ends."""
    reader = AnyReader([path], default_typestore=store)
    storage: _Damaged = (
        DamagedMcap if path.suffix == '.mcap' else DamagedSqlite)(path, store)
    reader.readers[0].storage = storage  # type: ignore[union-attr]
    reader.open()
    return reader, storage.fault


class _Damaged(ABC):
    """Storage as `rosbags` asks for it, filled by a scan."""

    hint = ''

    def __init__(self, path: Path, store: Typestore) -> None:
        self.path = path
        self._store = store
        self.connections: list[Connection] = []
        self.metadata = ReaderMetadata(0, MOST_STAMP, 0, 0, None, None, None, None)
        self.fault = ''
        self._counts: Counter[int] = Counter()
        self._first_ns, self._last_ns = MOST_STAMP, 0

    def open(self) -> None:
        """Scan the file to where it can be read."""
        self._scan()
        n = sum(self._counts[one.id] for one in self.connections)
        self.connections = [
            one._replace(msgcount=self._counts[one.id]) for one in self.connections]
        if n:
            self.metadata = ReaderMetadata(
                self._last_ns - self._first_ns + 1, self._first_ns, self._last_ns + 1, n,
                None, None, None, None)
        self.fault = f'{self.path}: {self.fault}; the {n} messages before that are used{self.hint}'

    def close(self) -> None:  # noqa: B027 (the reader interface asks for it)
        """Nothing stays open between calls."""

    @abstractmethod
    def _scan(self) -> None:
        """Find connections and count messages until the file cannot be read any more."""

    def _count(self, channel: int, stamp_ns: int) -> bool:
        """True for a message whose stamp makes sense."""
        if not (isinstance(stamp_ns, int) and 0 <= stamp_ns < MOST_STAMP):
            return False
        self._counts[channel] += 1
        self._first_ns = min(self._first_ns, stamp_ns)
        self._last_ns = max(self._last_ns, stamp_ns)
        return True

    def _connect(self, number: int, topic: str, kind: str, encoding: str, text: str) -> None:
        if any(one.id == number for one in self.connections):
            return
        definition = MessageDefinition(MessageDefinitionFormat.NONE, '')
        if encoding in DEFINITIONS:
            definition = self._definition(kind, MessageDefinition(DEFINITIONS[encoding], text))
        self.connections.append(Connection(
            number, topic, kind, definition, '', 0, ConnectionExtRosbag2('cdr', []),
            self))  # type: ignore[arg-type]

    def _definition(self, kind: str, definition: MessageDefinition) -> MessageDefinition:
        """One that can be read, or the usual one: a damaged one stops all others."""
        try:
            if definition.format == MessageDefinitionFormat.MSG:
                get_types_from_msg(definition.data, kind)
        except Exception:
            if kind not in self._store.fielddefs:
                return MessageDefinition(MessageDefinitionFormat.NONE, '')
            text, _ = self._store.generate_msgdef(kind, ros_version=2)
            return MessageDefinition(MessageDefinitionFormat.MSG, text)
        return definition


class Record(NamedTuple):
    """One record of an mcap file, or of a chunk in it."""

    kind: int
    data: bytes
    whole: bool
    """False for one that the file, or the chunk, does not hold to its end."""
    end: int
    """Offset of what follows."""


@dataclass(frozen=True)
class _Span:
    """Places of messages in the file."""

    first_ns: int
    offset: int
    size: int
    chunk: bool


class DamagedMcap(_Damaged):
    """An mcap file read from its beginning, without index and summary."""

    _spans: tuple[_Span, ...] = ()

    def _scan(self) -> None:
        spans: list[_Span] = []
        schemas: dict[int, tuple[str, str, str]] = {}
        with open(self.path, 'rb') as stream:
            size = os.fstat(stream.fileno()).st_size
            if stream.read(len(MAGIC)) != MAGIC:
                raise ValueError('it does not begin like an mcap file')
            offset = len(MAGIC)
            self.fault = f'it ends after {size} bytes without its summary'
            for record in _records(stream, offset, size):
                if record.kind == DATA_END:
                    self.fault = 'its summary is damaged'
                    break
                whole, stamps = record.whole, []
                inner = [record]
                if record.kind == CHUNK:
                    unpacked, whole = _unpacked(record)
                    inner = list(_inner(unpacked))
                for one in inner:
                    try:
                        stamps += self._take(one, schemas)
                    except (struct.error, UnicodeDecodeError, IndexError):
                        whole = False
                if stamps:
                    spans.append(_Span(
                        min(stamps), offset, len(record.data), record.kind == CHUNK))
                if not whole:
                    self.fault = f'cut off or damaged at byte {offset} of {size}'
                    break
                offset = record.end
        self._spans = tuple(spans)

    def _take(self, record: Record, schemas: dict[int, tuple[str, str, str]]) -> list[int]:
        """Keep what a record says; the stamp of a message."""
        data = record.data
        if not record.whole:
            return []
        if record.kind == SCHEMA:
            (number,) = struct.unpack_from('<H', data)
            name, at = _string(data, 2)
            encoding, at = _string(data, at)
            schemas[number] = name, encoding, _string(data, at)[0]
        elif record.kind == CHANNEL:
            number, schema = struct.unpack_from('<HH', data)
            self._connect(number, _string(data, 4)[0], *schemas.get(schema, ('', '', '')))
        elif record.kind == MESSAGE:
            channel, _, stamp = struct.unpack_from('<HIQ', data)
            return [stamp] if self._count(channel, stamp) else []
        return []

    def messages(
        self, connections: Collection[Connection], start: int | None = None,
        stop: int | None = None,
    ) -> Iterator[tuple[Connection, int, bytes]]:
        """In order of their stamps, whatever order they were written in."""
        chosen = {one.id: one for one in connections}
        with open(self.path, 'rb') as stream:
            parts = [self._span(stream, span) for span in self._spans]
            for stamp, channel, data in heapq.merge(*parts, key=lambda message: message[0]):
                if channel in chosen and stamp < MOST_STAMP:
                    yield chosen[channel], stamp, data

    def _span(self, stream: BinaryIO, span: _Span) -> Iterator[tuple[int, int, bytes]]:
        # The first element says when: the chunk is unpacked once its time has come.
        yield span.first_ns, -1, b''
        record = next(_records(stream, span.offset, span.offset + 9 + span.size))
        records = _inner(_unpacked(record)[0]) if span.chunk else [record]
        found = []
        for one in records:
            if one.kind == MESSAGE and one.whole and len(one.data) >= 22:
                channel, _, stamp = struct.unpack_from('<HIQ', one.data)
                found.append((stamp, channel, one.data[22:]))
        yield from sorted(found, key=lambda message: message[0])


def _records(stream: BinaryIO, offset: int, size: int) -> Iterator[Record]:
    """The records of a file from an offset on; the last one may not be whole."""
    while offset < size:
        stream.seek(offset)
        head = stream.read(9)
        if len(head) < 9:
            yield Record(0, b'', False, size)
            return
        kind, length = head[0], struct.unpack('<Q', head[1:])[0]
        whole = offset + 9 + length <= size
        # Indices and attachments are passed over; kinds from 16 to 127 are none.
        known = 0 < kind <= DATA_END or kind >= 128
        wanted = kind in (SCHEMA, CHANNEL, MESSAGE, CHUNK)
        data = stream.read(min(length, size - offset - 9)) if wanted else b''
        yield Record(kind if known else 0, data, whole and known, offset + 9 + length)
        if not (whole and known):
            return
        offset += 9 + length


def _inner(data: bytes) -> Iterator[Record]:
    """The records of an unpacked chunk."""
    at = 0
    while at + 9 <= len(data):
        end = at + 9 + struct.unpack_from('<Q', data, at + 1)[0]
        if end > len(data):
            return
        yield Record(data[at], data[at + 9:end], True, end)
        at = end


def _unpacked(record: Record) -> tuple[bytes, bool]:
    """The content of a chunk as far as it can be unpacked, and whether that is all of it."""
    try:
        _, _, size, checksum = struct.unpack_from('<QQQI', record.data)
        kind, at = _string(record.data, 28)
        packed = record.data[at + 8:]
    except (struct.error, UnicodeDecodeError, IndexError):
        return b'', False
    try:
        data = _unpack(kind, packed)
    except Exception:
        return b'', False
    whole = record.whole and len(data) == size and (not checksum or crc32(data) == checksum)
    if record.whole and not whole:
        # All bytes are there and they are wrong: nobody knows which.
        return b'', False
    return data, whole


def _unpack(kind: str, packed: bytes) -> bytes:
    if not kind:
        return packed
    if kind == 'lz4':
        return LZ4FrameDecompressor().decompress(packed, MOST_UNPACKED)  # type: ignore[no-any-return]
    try:
        from compression.zstd import ZstdDecompressor  # type: ignore[import-not-found]
    except ImportError:
        from backports.zstd import ZstdDecompressor
    return ZstdDecompressor().decompress(packed, MOST_UNPACKED)  # type: ignore[no-any-return]


def _string(data: bytes, at: int) -> tuple[str, int]:
    """A string with its length before it, and where it ends; IndexError where it is cut."""
    (size,) = struct.unpack_from('<I', data, at)
    end = at + 4 + size
    if end > len(data):
        raise IndexError
    return data[at + 4:end].decode(), end


class DamagedSqlite(_Damaged):
    """A database read row by row in the order of writing, until a page cannot be read."""

    hint = ' (`sqlite3 BAG.db3 .recover` may find more)'
    _rows: tuple[tuple[int, int], ...] = ()
    """(stamp, row) of the messages, in order."""

    def _connected(self) -> closing[sqlite3.Connection]:
        uri = f'{self.path.resolve().as_uri()}?mode=ro&immutable=1'
        connection = sqlite3.connect(uri, uri=True)
        connection.text_factory = lambda data: data.decode(errors='replace')
        # Otherwise nothing is read of a file that is shorter than its header says.
        connection.execute('PRAGMA writable_schema = ON')
        return closing(connection)

    def _scan(self) -> None:
        found: list[tuple[int, int]] = []
        with self._connected() as database:
            definitions: dict[str, tuple[str, str]] = {}
            for kind, *definition in self._table(
                    database, 'topic_type, encoding, encoded_message_definition',
                    'message_definitions'):
                definitions[str(kind)] = str(definition[0]), str(definition[1])
            for number, topic, kind in self._table(database, 'id, name, type', 'topics'):
                if isinstance(number, int):
                    self._connect(number, str(topic), str(kind),
                                  *definitions.get(str(kind), ('', '')))
            self.fault = 'its index'
            for row, number, stamp in self._table(
                    database, 'rowid, topic_id, timestamp', 'messages'):
                if self._count(number, stamp):
                    found.append((stamp, row))
        self._rows = tuple(sorted(found))
        self.fault = f'the database is damaged ({self.fault})'

    def _table(
        self, database: sqlite3.Connection, columns: str, table: str
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a table until one cannot be read."""
        try:
            yield from database.execute(f'SELECT {columns} FROM {table} ORDER BY rowid')
        except sqlite3.Error as error:
            self.fault = str(error)

    def messages(
        self, connections: Collection[Connection], start: int | None = None,
        stop: int | None = None,
    ) -> Iterator[tuple[Connection, int, bytes]]:
        """In order of their stamps."""
        chosen = {one.id: one for one in connections}
        with self._connected() as database:
            for stamp, row in self._rows:
                try:
                    ((number, data),) = database.execute(
                        'SELECT topic_id, data FROM messages WHERE rowid = ?', (row,))
                except (sqlite3.Error, ValueError):
                    continue
                if number in chosen and isinstance(data, bytes):
                    yield chosen[number], stamp, data
