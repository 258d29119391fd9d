"""ROS 2 bags without ROS: reading sqlite3 and mcap, writing what every distribution can play."""

from __future__ import annotations

import heapq
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rosbags.highlevel import AnyReader
from rosbags.interfaces import (
    Connection,
    MessageDefinitionFormat,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores
from rosbags.typesys.store import Typestore

from ..config import FormatError
from . import atomic, damaged_bag
from .messages import typestore

UNKNOWN_DEFINITIONS = (Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY)
"""Distributions whose message definitions are tried for bags that embed none (Humble, older)."""

# Version 8 is the newest that Humble's player reads; later players read it as well.
METADATA_VERSION = 8
MOST_WORDS = 300
"""Letters of a foreign error that are passed on."""
W = TypeVar('W', bound='BagWriter')
STORAGE_SUFFIXES = ('.mcap', '.db3')
STORAGES = {'sqlite3': StoragePlugin.SQLITE3, 'mcap': StoragePlugin.MCAP}


@dataclass(frozen=True)
class BagMessage:
    """One recorded message; `msg` is decoded when asked for."""

    topic: str
    msgtype: str
    bag_time_ns: int
    raw: bytes
    """CDR, with its encapsulation header."""
    store: Typestore = field(repr=False, compare=False)
    path: Path = field(repr=False, compare=False)

    @cached_property
    def msg(self) -> Any:
        """The message, with the field names of its ROS type; FormatError when undecodable."""
        if self.msgtype not in self.store.fielddefs:
            raise FormatError(
                self.path, None,
                f'topic {self.topic}: the definition of {self.msgtype} is not in the bag')
        try:
            return self.store.deserialize_cdr(self.raw, self.msgtype)
        except Exception as error:
            raise FormatError(
                self.path, None,
                f'topic {self.topic}: expected a {self.msgtype} at bag time '
                f'{self.bag_time_ns} ns, got {len(self.raw)} bytes that are none ({error})',
            ) from None


class BagReader:
    """A ROS 2 bag: a folder, or one bare .mcap or .db3 file. Iterates in time order.

    Of a folder without usable metadata.yaml the files are read by themselves, of a damaged file
    what comes first; `faults` says so in words. FormatError where nothing can be read.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.faults: list[str] = []
        if self.path.suffix == '.bag':
            raise FormatError(
                self.path, None, 'is a ROS 1 bag; convert it: rosbags-convert --src … --dst …')
        if not self.path.exists():
            raise FormatError(self.path, None, 'no such bag')
        self._damaged: set[Path] = set()
        self.topics: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        spans = []
        with ExitStack() as stack:
            parts = self._readable_parts(stack)
            self._parts, readers = list(parts), list(parts.values())
            for reader in readers:
                for connection in reader.connections:
                    self.topics.setdefault(connection.topic, connection.msgtype)
                    self.counts[connection.topic] = \
                        self.counts.get(connection.topic, 0) + connection.msgcount
                if reader.message_count:
                    spans.append((int(reader.start_time), int(reader.end_time)))
            self.start_ns = min((first for first, _ in spans), default=0)
            self.end_ns = max((last for _, last in spans), default=0)
            self.store = self._choose_store(readers)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __iter__(self) -> Iterator[BagMessage]:
        return self.messages()

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """All messages, or those of some topics, in order of bag time."""
        with self._open() as readers:
            streams = [self._stream(part, reader, topics)
                       for part, reader in zip(self._parts, readers, strict=True)]
            for stamp, connection, raw in heapq.merge(*streams, key=lambda message: message[0]):
                yield BagMessage(
                    connection.topic, connection.msgtype, stamp, raw, self.store, self.path)

    def _stream(
        self, part: Path, reader: AnyReader, topics: Collection[str] | None
    ) -> Iterator[tuple[int, Connection, bytes]]:
        """The messages of one file or folder; where it turns out to be damaged, what is left."""
        last = -1
        try:
            for connection, stamp, raw in _of_topics(reader, topics):
                if isinstance(stamp, int) and isinstance(raw, bytes):
                    last = max(last, stamp)
                    yield stamp, connection, raw
            return
        except Exception as error:
            reason = f'is damaged: {_reason(error)}'
        if part.is_dir():
            self._tell(f'{part}: {reason}; the messages before it are used')
            return
        with closing(self._salvaged(part, reason)) as rest:
            for connection, stamp, raw in _of_topics(rest, topics):
                if stamp > last:
                    yield stamp, connection, raw

    def _readable_parts(self, stack: ExitStack) -> dict[Path, AnyReader]:
        """The bag itself, or the files of a folder whose metadata are of no use, opened."""
        whole = None
        try:
            whole = stack.enter_context(closing(self._ordinary(self.path)))
            if whole.message_count:
                return {self.path: whole}
            reason = 'it says that it holds no message'
        except Exception as error:
            reason = _reason(error)
        files = sorted(self.path.iterdir()) if self.path.is_dir() else [self.path]
        parts = {}
        for file in files:
            if file.suffix in STORAGE_SUFFIXES and file.is_file():
                try:
                    reader = self._salvaged(file, reason) if whole else self._reader(file)
                except FormatError as error:
                    reason = str(error).removeprefix(f'{self.path}: ')
                    continue
                parts[file] = stack.enter_context(closing(reader))
        if not parts and whole is not None:
            return {self.path: whole}
        if not parts:
            raise FormatError(
                self.path, None,
                'expected a ROS 2 bag (a folder with metadata.yaml, a .mcap or a .db3 file): '
                f'{reason}') from None
        if self.path.is_dir():
            self._tell(
                f'{self.path}: its metadata.yaml is missing or of no use ({reason}): read without '
                f'it: {", ".join(part.name for part in parts)} (`ros2 bag reindex` writes it anew)')
        return parts

    @contextmanager
    def _open(self) -> Iterator[list[AnyReader]]:
        """A reader of each part."""
        with ExitStack() as stack:
            yield [stack.enter_context(closing(self._reader(part))) for part in self._parts]

    def _reader(self, part: Path) -> AnyReader:
        if part in self._damaged:
            return damaged_bag.opened(part, typestore())[0]
        try:
            return self._ordinary(part)
        except Exception as error:
            return self._salvaged(part, _reason(error))

    def _ordinary(self, part: Path) -> AnyReader:
        reader = AnyReader([part], default_typestore=typestore())
        reader.open()
        return reader

    def _salvaged(self, part: Path, reason: str) -> AnyReader:
        """A reader of what comes first in a damaged file; FormatError where that is nothing."""
        try:
            reader, fault = damaged_bag.opened(part, typestore())
        except Exception as error:
            raise FormatError(part, None, f'{reason} ({_reason(error)})') from None
        if not reader.message_count:
            reader.close()
            raise FormatError(
                part, None, f'{reason}: no message in it can be read; record it again, or repair '
                'it: `mcap recover` or `sqlite3 BAG.db3 .recover`')
        self._damaged.add(part)
        self._tell(fault)
        return reader

    def _tell(self, text: str) -> None:
        if text not in self.faults:
            self.faults.append(text)

    def _choose_store(self, readers: Sequence[AnyReader]) -> Typestore:
        """The bag's own definitions, or those of the distribution that fits its first messages."""
        for reader in readers:
            if any(c.msgdef.format != MessageDefinitionFormat.NONE for c in reader.connections):
                return reader.typestore
        samples = []
        for reader in readers:
            for connection in reader.connections:
                try:
                    first = next(iter(reader.messages(connections=[connection])), None)
                except Exception:
                    continue
                if first is not None:
                    samples.append((connection.msgtype, first[2]))
        stores = [typestore(store) for store in UNKNOWN_DEFINITIONS]
        return min(stores, key=lambda store: sum(not _fits(store, *s) for s in samples))


def _reason(error: Exception) -> str:
    """The first words of an error, which may quote a whole file."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:MOST_WORDS]


def _of_topics(
    reader: AnyReader, topics: Collection[str] | None
) -> Iterator[tuple[Connection, int, bytes]]:
    chosen = [c for c in reader.connections if topics is None or c.topic in topics]
    # Without connections it would give all of them.
    return reader.messages(connections=chosen) if chosen else iter(())


def _fits(store: Typestore, msgtype: str, raw: bytes) -> bool:
    if msgtype not in store.fielddefs:
        return True
    try:
        store.deserialize_cdr(raw, msgtype)
    except Exception:
        return False
    return True


class BagWriter:
    """Writes a bag that appears only when complete; use it as a context manager.

    A path ending in .mcap gives that one file, any other a folder with metadata.yaml. `types`
    holds the message classes. Raises FormatError when the path exists and `overwrite` is false.
    """

    def __init__(
        self, path: Path | str, storage: str | None = None, *, overwrite: bool = False
    ) -> None:
        self.path = Path(path)
        self._single_file = self.path.suffix == '.mcap'
        self._storage = STORAGES[storage or ('mcap' if self._single_file else 'sqlite3')]
        if self._single_file and self._storage is not StoragePlugin.MCAP:
            raise FormatError(path, None, 'a path ending in .mcap needs the storage mcap')
        # A folder that happens to hold a recording is not replaced.
        is_whole = is_bag(self.path) and (
            self.path.is_file() or (self.path / 'metadata.yaml').exists())
        if self.path.exists() and not (overwrite and is_whole):
            raise FormatError(
                path, None, 'exists already; name another path or, if it is a bag, overwrite it '
                '(--force)')
        self.store = typestore()
        self.types = self.store.types
        self._connections: dict[str, Connection] = {}
        self._stack = ExitStack()

    def __enter__(self: W) -> W:
        self._target = self._stack.enter_context(atomic.replacing(self.path))
        self._folder = self._target.with_name(f'{self._target.stem}.folder') \
            if self._single_file else self._target
        self._writer = Writer(
            self._folder, version=METADATA_VERSION, storage_plugin=self._storage)  # type: ignore[arg-type]
        try:
            with self._in_words():
                self._writer.open()
        except BaseException as failure:
            self._stack.__exit__(type(failure), failure, failure.__traceback__)
            raise
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            try:
                with self._in_words():
                    self._finish()
            except BaseException as failure:
                self._stack.__exit__(type(failure), failure, failure.__traceback__)
                raise
        else:
            with suppress(sqlite3.Error):
                self._writer.abort()
        self._stack.__exit__(kind, error, trace)

    def _finish(self) -> None:
        if not any(self._writer.counts.values()):
            self._writer.abort()
            raise FormatError(self.path, None, 'nothing to write: no messages')
        self._writer.close()
        if self._single_file:
            (inner,) = self._folder.glob('*.mcap')
            os.replace(inner, self._target)
            shutil.rmtree(self._folder)

    def add_topic(self, topic: str, msgtype: str, *, latched: bool = False) -> None:
        """Declare a topic; `latched` for data that late joiners need, such as /tf_static."""
        self._connections[topic] = self._writer.add_connection(
            topic, msgtype, typestore=self.store, offered_qos_profiles=[_profile(latched)])

    def has_topic(self, topic: str) -> bool:
        """True once a topic was declared."""
        return topic in self._connections

    def write(self, topic: str, bag_time_ns: int, msg: Any) -> None:
        """Append one message; the order of calls does not matter to readers."""
        connection = self._connections[topic]
        data = self.store.serialize_cdr(msg, connection.msgtype)
        with self._in_words():
            self._writer.write(connection, bag_time_ns, data)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """A full disk under a database is no OSError."""
        try:
            yield
        except sqlite3.Error as error:
            raise FormatError(self.path, None, f'cannot be written: {error}') from None


def is_bag(path: Path) -> bool:
    """True for a bag folder, with metadata.yaml or without, or a bare bag file."""
    if path.is_dir():
        return (path / 'metadata.yaml').exists() or any(
            file.suffix in STORAGE_SUFFIXES for file in path.iterdir())
    return path.suffix in STORAGE_SUFFIXES


def _profile(latched: bool) -> Qos:
    forever = QosTime(sec=9223372036, nsec=854775807)
    return Qos(
        QosHistory.KEEP_LAST, 1 if latched else 100, QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        forever, forever, QosLiveliness.AUTOMATIC, forever, False,
    )
