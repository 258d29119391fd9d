"""Bag files that no reader opens: cut off, without a summary, damaged. What comes first is read.

A recorder that was killed leaves an mcap without its summary, perhaps in the middle of a chunk; a
failing card leaves a database with pages that cannot be read.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from functools import lru_cache
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
OPEN_CHUNKS = 4
"""Kept unpacked: chunks in a row may overlap in time."""
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
        self._messages: list[tuple[int, int, Any]] = []
        """Stamps, connections and places of the messages that can be read, by their stamps."""

    def open(self) -> None:
        """Scan the file to where it can be read."""
        self._scan()
        self._messages.sort(key=lambda message: message[0])
        n = len(self._messages)
        counts = Counter(number for _, number, _ in self._messages)
        self.connections = [
            one._replace(msgcount=counts[one.id]) for one in self.connections]
        if n:
            first_ns, last_ns = self._messages[0][0], self._messages[-1][0]
            self.metadata = ReaderMetadata(
                last_ns - first_ns + 1, first_ns, last_ns + 1, n, None, None, None, None)
        self.fault = f'{self.path}: {self.fault}; the {n} messages before that are used{self.hint}'

    def close(self) -> None:  # noqa: B027 (the reader interface asks for it)
        """Nothing stays open between calls."""

    def messages(
        self, connections: Collection[Connection], start: int | None = None,
        stop: int | None = None,
    ) -> Iterator[tuple[Connection, int, bytes]]:
        """In order of their stamps, whatever order they were written in."""
        chosen = {one.id: one for one in connections}
        wanted = [message for message in self._messages if message[1] in chosen]
        stored = self._stored(place for _, _, place in wanted)
        for (stamp, number, _), data in zip(wanted, stored, strict=True):
            if isinstance(data, bytes):
                yield chosen[number], stamp, data

    @abstractmethod
    def _scan(self) -> None:
        """Find connections and messages until the file cannot be read any more."""

    @abstractmethod
    def _stored(self, places: Iterable[Any]) -> Iterator[object]:
        """What is stored at the places of messages; anything but bytes is no message."""

    def _keep(self, stamp_ns: int, number: int, place: object) -> None:
        """Note a message whose stamp makes sense."""
        if isinstance(stamp_ns, int) and 0 <= stamp_ns < MOST_STAMP:
            self._messages.append((stamp_ns, number, place))

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


class DamagedMcap(_Damaged):
    """An mcap file read from its beginning, without index and summary."""

    def _scan(self) -> None:
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
                inner, whole = _within(record)
                for place, one in enumerate(inner):
                    try:
                        self._take(one, schemas, (offset, place))
                    except (struct.error, UnicodeDecodeError, IndexError):
                        whole = False
                if not whole:
                    self.fault = f'cut off or damaged at byte {offset} of {size}'
                    break
                offset = record.end

    def _take(self, record: Record, schemas: dict[int, tuple[str, str, str]],
              place: tuple[int, int]) -> None:
        """Keep what a record says, of a message where it is."""
        data = record.data
        if not record.whole:
            return
        if record.kind == SCHEMA:
            (number,) = struct.unpack_from('<H', data)
            name, at = _string(data, 2)
            encoding, at = _string(data, at)
            schemas[number] = name, encoding, _string(data, at)[0]
        elif record.kind == CHANNEL:
            number, schema = struct.unpack_from('<HH', data)
            self._connect(number, _string(data, 4)[0], *schemas.get(schema, ('', '', '')))
        elif record.kind == MESSAGE and len(data) >= 22:
            channel, _, stamp = struct.unpack_from('<HIQ', data)
            self._keep(stamp, channel, place)

    def _stored(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        with open(self.path, 'rb') as stream:
            size = os.fstat(stream.fileno()).st_size

            @lru_cache(maxsize=OPEN_CHUNKS)
            def within(offset: int) -> list[Record]:
                return _within(next(_records(stream, offset, size)))[0]

            for offset, place in places:
                yield within(offset)[place].data[22:]


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


def _within(record: Record) -> tuple[list[Record], bool]:
    """The records of a chunk, or the one record itself, and whether that is all of them."""
    if record.kind != CHUNK:
        return [record], record.whole
    data, whole = _unpacked(record)
    records, at = [], 0
    while at + 9 <= len(data):
        end = at + 9 + struct.unpack_from('<Q', data, at + 1)[0]
        if end > len(data):
            break
        records.append(Record(data[at], data[at + 9:end], True, end))
        at = end
    return records, whole


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
    def _connected(self) -> closing[sqlite3.Connection]:
        uri = f'{self.path.resolve().as_uri()}?mode=ro&immutable=1'
        connection = sqlite3.connect(uri, uri=True)
        connection.text_factory = lambda data: data.decode(errors='replace')
        # Otherwise nothing is read of a file that is shorter than its header says.
        connection.execute('PRAGMA writable_schema = ON')
        return closing(connection)

    def _scan(self) -> None:
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
                self._keep(stamp, number, row)
        self.fault = f'the database is damaged ({self.fault})'

    def _table(
        self, database: sqlite3.Connection, columns: str, table: str
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a table until one cannot be read."""
        try:
            yield from database.execute(f'SELECT {columns} FROM {table} ORDER BY rowid')
        except sqlite3.Error as error:
            self.fault = str(error)

    def _stored(self, places: Iterable[int]) -> Iterator[object]:
        with self._connected() as database:
            for row in places:
                try:
                    ((data,),) = database.execute(
                        'SELECT data FROM messages WHERE rowid = ?', (row,))
                except (sqlite3.Error, ValueError):
                    data = None
                yield data
