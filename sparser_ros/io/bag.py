"""ROS 2 bags without ROS: reading sqlite3 and mcap, writing what every distribution can play."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
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
from . import atomic
from .messages import typestore

UNKNOWN_DEFINITIONS = (Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY)
"""Distributions whose message definitions are tried for bags that embed none (Humble, older)."""

# Version 8 is the newest that Humble's player reads; later players read it as well.
METADATA_VERSION = 8
W = TypeVar('W', bound='BagWriter')
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
    """A ROS 2 bag: a folder, or one bare .mcap or .db3 file. Iterates in time order."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if self.path.suffix == '.bag':
            raise FormatError(
                self.path, None, 'is a ROS 1 bag; convert it: rosbags-convert --src … --dst …')
        with self._open() as reader:
            self.topics = {c.topic: c.msgtype for c in reader.connections}
            self.counts = {topic: info.msgcount for topic, info in reader.topics.items()}
            self.start_ns = int(reader.start_time) if reader.message_count else 0
            self.end_ns = int(reader.end_time) if reader.message_count else 0
            self.store = self._choose_store(reader)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __iter__(self) -> Iterator[BagMessage]:
        return self.messages()

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """All messages, or those of some topics, in order of bag time."""
        with self._open() as reader:
            chosen = [c for c in reader.connections if topics is None or c.topic in topics]
            if not chosen:
                return
            stream = reader.messages(connections=chosen)
            while True:
                try:
                    connection, stamp, raw = next(stream)
                except StopIteration:
                    return
                except Exception as error:
                    raise FormatError(
                        self.path, None, f'is damaged: {error or type(error).__name__}') from None
                yield BagMessage(
                    connection.topic, connection.msgtype, stamp, raw, self.store, self.path)

    @contextmanager
    def _open(self) -> Iterator[AnyReader]:
        """An open reader; every fault of a foreign file becomes a FormatError."""
        if not self.path.exists():
            raise FormatError(self.path, None, 'no such bag')
        try:
            reader = AnyReader([self.path], default_typestore=typestore())
            reader.open()
        except Exception as error:
            raise FormatError(
                self.path, None,
                'expected a ROS 2 bag (a folder with metadata.yaml, a .mcap or a .db3 file): '
                f'{error or type(error).__name__}') from None
        try:
            yield reader
        finally:
            reader.close()

    def _choose_store(self, reader: AnyReader) -> Typestore:
        """The bag's own definitions, or those of the distribution that fits its first messages."""
        if any(c.msgdef.format != MessageDefinitionFormat.NONE for c in reader.connections):
            return reader.typestore
        samples = []
        for connection in reader.connections:
            first = next(iter(reader.messages(connections=[connection])), None)
            if first is not None:
                samples.append((connection.msgtype, first[2]))
        stores = [typestore(store) for store in UNKNOWN_DEFINITIONS]
        return min(stores, key=lambda store: sum(not _fits(store, *s) for s in samples))


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
        if self.path.exists() and not (overwrite and is_bag(self.path)):
            raise FormatError(
                path, None, 'exists already; name another path or, if it is a bag, overwrite it')
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
        self._writer.open()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            try:
                self._finish()
            except BaseException as failure:
                self._stack.__exit__(type(failure), failure, failure.__traceback__)
                raise
        else:
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
        self._writer.write(connection, bag_time_ns, data)


def is_bag(path: Path) -> bool:
    """True for a bag folder or a bare bag file."""
    if path.is_dir():
        return (path / 'metadata.yaml').exists()
    return path.suffix in ('.mcap', '.db3')


def _profile(latched: bool) -> Qos:
    forever = QosTime(sec=9223372036, nsec=854775807)
    return Qos(
        QosHistory.KEEP_LAST, 1 if latched else 100, QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        forever, forever, QosLiveliness.AUTOMATIC, forever, False,
    )
