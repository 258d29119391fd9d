"""ROS 2 bags without ROS: reading sqlite3 and mcap, writing what every distribution can play, and
the topics and messages that the node subscribes to."""

from __future__ import annotations

import heapq
import math
import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
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
from rosbags.rosbag2.storage_mcap import ChunkInfo, McapReader, read_string
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from ..array_types import Array
from ..config import FormatError
from . import atomic
from .stamp_text import SECOND

UWB_RANGE = 'sparser_ros/msg/UwbRange'
LANDMARK_SIGHTING = 'sparser_ros/msg/LandmarkSighting'
LOOP_CLOSURE = 'sparser_ros/msg/LoopClosure'
ODOMETRY = 'nav_msgs/msg/Odometry'
POSE_FIX = 'geometry_msgs/msg/PoseWithCovarianceStamped'
POINT = 'geometry_msgs/msg/PointStamped'
IMU = 'sensor_msgs/msg/Imu'

DEFINITIONS = {
    UWB_RANGE: """
uint8 LOS_UNKNOWN=0
uint8 LOS_CLEAR=1
uint8 LOS_BLOCKED=2
std_msgs/Header header
string source
string target
float64 range
float64 variance
float32 first_path_rssi
float32 rx_rssi
uint8 los
""",
    LOOP_CLOSURE: """
std_msgs/Header header
string from_robot
builtin_interfaces/Time from_stamp
string to_robot
builtin_interfaces/Time to_stamp
geometry_msgs/PoseWithCovariance relative_pose
float32 confidence
string detector
""",
    LANDMARK_SIGHTING: """
std_msgs/Header header
string robot
string landmark
geometry_msgs/Point position
float64[9] covariance
""",
}
"""They repeat `msg/*.msg` without comments, so that they are found the same way from a checkout, a
colcon install and `pip install`; a test compares them."""

UNKNOWN_DEFINITIONS = (Stores.ROS2_HUMBLE, Stores.ROS2_JAZZY)
"""Distributions whose message definitions are tried for bags that embed none (Humble, older)."""

# Version 8 is the newest that Humble's player reads; later players read it as well.
METADATA_VERSION = 8
MOST_WORDS = 300
"""Letters of a foreign error that are passed on."""
STORAGES = {'sqlite3': StoragePlugin.SQLITE3, 'mcap': StoragePlugin.MCAP}
UNKNOWN_HEADING_VARIANCE = 1e6
"""rad^2: the orientation of a fix that has none."""
_ZERO = (0.0, 0.0, 0.0)
_FOREVER = QosTime(sec=9223372036, nsec=854775807)
_PROFILE = Qos(
    QosHistory.KEEP_LAST, 100, QosReliability.RELIABLE, QosDurability.VOLATILE, _FOREVER, _FOREVER,
    QosLiveliness.AUTOMATIC, _FOREVER, False)
"""Of the topics of a written bag, which its player offers."""


def typestore(store: Stores = Stores.ROS2_HUMBLE) -> Typestore:
    """A fresh store of the standard types of a distribution, and ours."""
    types = get_typestore(store)
    definitions: dict[str, Any] = {}
    for name, text in DEFINITIONS.items():
        definitions.update(get_types_from_msg(text, name))
    types.register(definitions)
    return types


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

    Of a folder without usable metadata.yaml the files are read by themselves, of an mcap file that
    was cut off what comes before; `faults` says so in words. FormatError where nothing can be read.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.faults: list[str] = []
        if self.path.suffix == '.bag' and not self.path.is_dir():
            raise FormatError(
                self.path, None, 'is a ROS 1 bag; convert it: rosbags-convert --src … --dst …')
        if not self.path.exists():
            raise FormatError(self.path, None, 'no such bag')
        self.topics: dict[str, str] = {}
        self.counts = Counter[str]()
        with ExitStack() as stack:
            parts = self._readable_parts(stack)
            self._parts, readers = list(parts), list(parts.values())
            for connection in (one for reader in readers for one in reader.connections):
                self.topics.setdefault(connection.topic, connection.msgtype)
                self.counts[connection.topic] += connection.msgcount
            filled = [reader for reader in readers if reader.message_count]
            self.start_ns = min((int(reader.start_time) for reader in filled), default=0)
            self.end_ns = max((int(reader.end_time) for reader in filled), default=0)
            self.store = self._choose_store(readers)

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[BagMessage]:
        return self.messages()

    def messages(self, topics: Collection[str] | None = None) -> Iterator[BagMessage]:
        """All messages, or those of some topics, in order of bag time."""
        with ExitStack() as stack:
            streams = [
                self._stream(part, stack.enter_context(closing(self._reader(part))), topics)
                for part in self._parts]
            for stamp, connection, raw in heapq.merge(*streams, key=lambda message: message[0]):
                yield BagMessage(
                    connection.topic, connection.msgtype, stamp, raw, self.store, self.path)

    def _stream(
        self, part: Path, reader: AnyReader, topics: Collection[str] | None
    ) -> Iterator[tuple[int, Connection, bytes]]:
        """The messages of one file or folder, up to where it turns out to be damaged."""
        chosen = [c for c in reader.connections if topics is None or c.topic in topics]
        try:
            # Without connections it would give all of them.
            for connection, stamp, raw in reader.messages(connections=chosen) if chosen else ():
                if isinstance(stamp, int) and isinstance(raw, bytes):
                    yield stamp, connection, raw
        except Exception as error:
            self._tell(f'{part}: is damaged: {_reason(error)}; the messages before that are used')

    def _readable_parts(self, stack: ExitStack) -> dict[Path, AnyReader]:
        """The bag itself, or the files of a folder whose metadata are of no use, opened."""
        whole, reason, files = None, '', [self.path]
        if self.path.is_dir():
            try:
                whole = stack.enter_context(closing(self._ordinary(self.path)))
                if whole.message_count:
                    return {self.path: whole}
                reason = 'it says that it holds no message'
            except Exception as error:
                reason = _reason(error)
            files = sorted(file for file in self.path.iterdir()
                           if file.suffix in atomic.BAG_FILES and file.is_file())
        parts = {}
        for file in files:
            try:
                parts[file] = stack.enter_context(closing(self._reader(file)))
            except FormatError as error:
                reason = str(error).removeprefix(f'{self.path}: ')
        if whole is not None and not any(reader.message_count for reader in parts.values()):
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

    def _reader(self, part: Path) -> AnyReader:
        """A reader, of an mcap file without its end as well; FormatError where there is none."""
        try:
            return self._ordinary(part)
        except Exception as error:
            reason = _reason(error)
        if part.suffix != '.mcap':
            raise FormatError(part, None, f'{reason} (`sqlite3 BAG.db3 .recover` may help)')
        storage = _CutMcap(part)
        try:
            reader = self._ordinary(part, storage)
        except Exception as error:
            raise FormatError(part, None, f'{reason} ({_reason(error)})') from None
        if not reader.message_count:
            reader.close()
            raise FormatError(part, None, f'{reason}: no message in it can be read')
        self._tell(f'{part}: {reason} It is cut off or damaged at byte {storage.data_end}: the '
                   f'{reader.message_count} messages before that are used')
        return reader

    def _ordinary(self, part: Path, storage: McapReader | None = None) -> AnyReader:
        reader = AnyReader([part], default_typestore=typestore())
        if storage is not None:
            reader.readers[0].storage = storage  # type: ignore[union-attr]
        reader.open()
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


def _fits(store: Typestore, msgtype: str, raw: bytes) -> bool:
    if msgtype not in store.fielddefs:
        return True
    try:
        store.deserialize_cdr(raw, msgtype)
    except Exception:
        return False
    return True


class _CutMcap(McapReader):
    """An mcap file without its end, as a killed recorder leaves it: whole records and chunks."""

    def _open(self) -> None:
        """Find connections and chunks record by record, up to the first that is not whole."""
        bio = self.bio
        assert bio is not None
        size = os.fstat(bio.fileno()).st_size
        magic = bio.read(8)
        if magic != b'\x89MCAP0\r\n':
            raise ValueError('it does not begin like an mcap file')
        end, counts, spans = len(magic), Counter[int](), []
        while bio.seek(end) + 9 <= size:
            kind, length = struct.unpack('<BQ', bio.read(9))
            # Kinds above are reserved or of the summary.
            if not 0 < kind < 15 or end + 9 + length > size:
                break
            self.data_start, self.data_end = end, end + 9 + length
            try:
                self.meta_scan()
            except Exception:
                break
            record = self.statistics
            assert record is not None
            if record.message_count:
                counts.update(record.channel_message_counts)
                spans += [record.start_time, record.end_time]
            if kind == 6 and record.message_count:
                bio.seek(end + 9)
                unpacked = struct.unpack('<QQQI', bio.read(28))[2]
                compression = read_string(bio)
                (packed,) = struct.unpack('<Q', bio.read(8))
                self.chunks.append(ChunkInfo(
                    record.start_time, record.end_time, end, length, {}, 0, compression, packed,
                    unpacked, record.channel_message_counts))
            end += 9 + length
        self.data_start, self.data_end = len(magic), end
        self.connections = [c._replace(msgcount=counts[c.id]) for c in self.connections]
        if spans:
            self.metadata = self.metadata._replace(
                duration=max(spans) - min(spans) + 1, start_time=min(spans),
                end_time=max(spans) + 1, message_count=counts.total())

    def messages(self, *arguments: Any, **named: Any) -> Any:
        """Those outside of chunks in the order of the file."""
        read = super().messages if self.chunks else self.messages_scan
        return read(*arguments, **named)


class SensorBagWriter:
    """Writes a bag of sensor data that appears only when complete; use it as a context manager.

    A path ending in .mcap gives that one file, any other a folder with metadata.yaml. Raises
    FormatError when the path exists and `overwrite` is false.

    A topic is declared by its first message; the order of messages does not matter to readers.
    Positions are (3,) metres, quaternions x y z w, covariances (6, 6) in x y z rx ry rz.
    """

    def __init__(
        self, path: Path | str, storage: str | None = None, *, overwrite: bool = False
    ) -> None:
        self.path = Path(path)
        self._single_file = self.path.suffix == '.mcap'
        self._storage = STORAGES[storage or ('mcap' if self._single_file else 'sqlite3')]
        if self._single_file and self._storage is not StoragePlugin.MCAP:
            raise FormatError(path, None, 'a path ending in .mcap needs the storage mcap')
        if self.path.exists() and not (overwrite and atomic.is_nothing_but_a_bag(self.path)):
            raise FormatError(
                path, None, 'exists already; name another path or, if it is a bag, overwrite it '
                '(--force)')
        self._store = typestore()
        self._connections: dict[str, Connection] = {}
        self._file = self._whole()

    def __enter__(self) -> SensorBagWriter:
        self._file.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._file.__exit__(*failure)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """The bag appears at the end of the block."""
        with atomic.replacing(self.path) as target:
            folder = target.with_name(f'{target.stem}.folder') if self._single_file else target
            self._writer = Writer(
                folder, version=METADATA_VERSION, storage_plugin=self._storage)  # type: ignore[arg-type]
            try:
                self._writer.open()
                yield
                if not any(self._writer.counts.values()):
                    raise FormatError(self.path, None, 'nothing to write: no messages')
                self._writer.close()
            except BaseException as error:
                with suppress(sqlite3.Error, OSError):
                    self._writer.abort()
                if isinstance(error, sqlite3.Error):  # as of a full disk under a database
                    raise FormatError(self.path, None, f'cannot be written: {error}') from None
                raise
            if self._single_file:
                (inner,) = folder.glob('*.mcap')
                os.replace(inner, target)

    def odometry(
        self, robot: str, stamp_ns: int, position_xyz: Array, quat_xyzw: Array, covariance: Array
    ) -> None:
        """`/<robot>/odom`: pose in the robot's odometry frame."""
        self._odometry(f'/{robot}/odom', f'{robot}/odom', robot, stamp_ns,
                       position_xyz, quat_xyzw, covariance)

    def ground_truth(
        self, robot: str, stamp_ns: int, position_xyz: Array, quat_xyzw: Array
    ) -> None:
        """`/<robot>/ground_truth`: true pose in the map frame, as odometry."""
        self._odometry(f'/{robot}/ground_truth', 'map', robot, stamp_ns,
                       position_xyz, quat_xyzw, np.zeros((6, 6)))

    def _odometry(
        self, topic: str, frame: str, robot: str, stamp_ns: int, position_xyz: Array,
        quat_xyzw: Array, covariance: Array,
    ) -> None:
        twist = (_ZERO, _ZERO), np.zeros(36)
        self._write(topic, ODOMETRY, stamp_ns, frame, f'{robot}/base_link',
                    ((position_xyz, quat_xyzw), covariance), twist)

    def uwb_range(
        self, source: str, target: str, stamp_ns: int, range_m: float, variance: float
    ) -> None:
        """`/uwb/ranges`: one distance between two radios; variance in m^2."""
        unknown_los = 0
        self._write('/uwb/ranges', UWB_RANGE, stamp_ns, '', source, target, range_m, variance,
                    math.nan, math.nan, unknown_los)

    def loop_closure(
        self, from_robot: str, from_stamp_ns: int, to_robot: str, to_stamp_ns: int,
        position_xyz: Array, quat_xyzw: Array, covariance: Array, detector: str,
    ) -> None:
        """`/loop_closures`: pose of one robot at one instant seen from another pose."""
        self._write(
            '/loop_closures', LOOP_CLOSURE, max(from_stamp_ns, to_stamp_ns), '',
            from_robot, divmod(from_stamp_ns, SECOND), to_robot, divmod(to_stamp_ns, SECOND),
            ((position_xyz, quat_xyzw), covariance), math.nan, detector)

    def landmark_sighting(
        self, robot: str, landmark: str, stamp_ns: int, position_xyz: Array, covariance: Array
    ) -> None:
        """`/landmark_sightings`: place of a landmark in the robot's frame; covariance (3, 3)."""
        self._write(
            '/landmark_sightings', LANDMARK_SIGHTING, stamp_ns, '', robot, landmark,
            position_xyz, covariance)

    def fix(
        self, robot: str, stamp_ns: int, position_xyz: Array, quat_xyzw: Array,
        covariance: Array,
    ) -> None:
        """`/<robot>/fix`: pose in the map frame; a large heading variance means position only."""
        self._write(
            f'/{robot}/fix', POSE_FIX, stamp_ns, 'map', ((position_xyz, quat_xyzw), covariance))

    def altitude(self, robot: str, stamp_ns: int, height_m: float) -> None:
        """`/<robot>/altitude`: height above the ground in the z of a point."""
        self._write(
            f'/{robot}/altitude', POINT, stamp_ns, 'map', (math.nan, math.nan, height_m))

    def imu(self, robot: str, stamp_ns: int, quat_xyzw: Array, variance: float) -> None:
        """`/<robot>/imu`: orientation alone, its variance in rad^2."""
        unknown = np.zeros(9)
        unknown[0] = -1.0
        self._write(
            f'/{robot}/imu', IMU, stamp_ns, f'{robot}/base_link', quat_xyzw,
            np.diag(np.full(3, variance)), _ZERO, unknown, _ZERO, unknown)

    def _write(
        self, topic: str, msgtype: str, stamp_ns: int, frame_id: str, *values: Any
    ) -> None:
        """One message: a header and the values of the other fields."""
        if topic not in self._connections:
            self._connections[topic] = self._writer.add_connection(
                topic, msgtype, typestore=self._store, offered_qos_profiles=[_PROFILE])
        message = self._message(msgtype, (divmod(stamp_ns, SECOND), frame_id), *values)
        self._writer.write(
            self._connections[topic], stamp_ns, self._store.serialize_cdr(message, msgtype))

    def _message(self, msgtype: str, *values: Any) -> Any:
        """A message of the values of its fields; inner messages are sequences of theirs."""
        fields = []
        for (_, (_, kind)), value in zip(
                self._store.fielddefs[msgtype][1], values, strict=True):
            if isinstance(kind, str):
                value = self._message(kind, *value)
            elif isinstance(value, np.ndarray):
                value = value.ravel()
            fields.append(value)
        return self._store.types[msgtype](*fields)


def isotropic(translation_variance: float, rotation_variance: float) -> Array:
    """(6, 6) covariance with one variance per kind of axis, m^2 and rad^2."""
    return np.diag([translation_variance] * 3 + [rotation_variance] * 3)
