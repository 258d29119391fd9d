"""Records of a journal as bytes, and a session read back from them, also from damaged files.

A record is a marker, a head with a CRC-32 of its own, and a body with another. Heads count the
messages before them, so that a gap between two sound records tells how many were lost.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...config import SparserError
from ...graph import Increment
from . import wire
from .worker import KeptMap

MARKER = b'\xf3SPRJ\r\n\x1a'
"""Begins every record; no UTF-8 text holds its first byte before an S."""
VERSION = 2
_HEAD = struct.Struct('<8sBBHIQQqqII')
_CRC = struct.Struct('<I')
HEAD_SIZE = _HEAD.size + _CRC.size
BEGIN, MESSAGES, STATE, GRAPH, RULINGS, MAP = 1, 2, 3, 4, 6, 7
"""Kinds: start of a session, sensor messages, front-end state, increments, all that the operator
has said about measurements, and a map: the newest verdict."""
NO_TAKE, TAKE, FLUSH = 0, 1, 2
"""What the front-end did after the messages of a record: nothing, take, take(flush=True)."""


@dataclass(frozen=True)
class Record:
    """One record whose head is sound."""

    kind: int
    number: int
    """Counts the records of a session from 0; of a map: how often its graph was thinned."""
    before: int
    """Messages of the session before this record; of a map: its epoch."""
    count: int
    """Messages in it."""
    first_ns: int
    last_ns: int
    """Time of reception of its first and last message; 0 without messages."""
    body: bytes
    """Empty where it is damaged."""
    take: int = NO_TAKE
    end: int = 0
    """Where it ends in its file."""


@dataclass(frozen=True)
class Message:
    """A serialized sensor message as it came."""

    topic: str
    type: str
    received_ns: int
    data: bytes


def pack(record: Record) -> bytes:
    """The bytes of a record."""
    head = _HEAD.pack(
        MARKER, VERSION, record.kind, record.take, record.count, record.number, record.before,
        record.first_ns, record.last_ns, len(record.body), zlib.crc32(record.body))
    return b''.join((head, _CRC.pack(zlib.crc32(head)), record.body))


def scan(data: bytes) -> Iterator[Record]:
    """Records in order, whatever lies between them; SparserError for those of another version."""
    at = data.find(MARKER)
    while at >= 0:
        head = data[at:at + _HEAD.size]
        if at + HEAD_SIZE > len(data) or (
                zlib.crc32(head) != _CRC.unpack_from(data, at + _HEAD.size)[0]):
            at = data.find(MARKER, at + 1)
            continue
        _, version, kind, take, count, number, before, first, last, length, crc = _HEAD.unpack(head)
        if version != VERSION:
            raise SparserError('the journal was written by another version of this package')
        begin = at + HEAD_SIZE
        body = data[begin:begin + length]
        sound = len(body) == length and zlib.crc32(body) == crc
        # The length itself is sound: the next record begins there, unless bytes are missing.
        end = begin + length if sound or data.startswith(MARKER, begin + length) else begin
        at = data.find(MARKER, end)
        if not sound and end == begin:
            end = len(data) if at < 0 else at
        yield Record(
            kind, number, before, count, first, last, body if sound else b'', take, end)


def pack_messages(messages: Sequence[Message]) -> bytes:
    """The body of a record of messages."""
    topics = list(dict.fromkeys((message.topic, message.type) for message in messages))
    numbers = {topic: number for number, topic in enumerate(topics)}
    return wire.encode('messages', {'topics': topics}, {
        'topic': np.array([numbers[message.topic, message.type] for message in messages], '<u2'),
        'received_ns': np.array([message.received_ns for message in messages], '<i8'),
        'length': np.array([len(message.data) for message in messages], '<u4'),
        'data': np.frombuffer(b''.join(message.data for message in messages), np.uint8)})


def unpack_messages(body: bytes) -> list[Message]:
    """The messages of `pack_messages`."""
    packet = wire.decode(body)
    columns = packet.arrays
    topics, data, begin = packet.values['topics'], columns['data'].tobytes(), 0
    messages = []
    for number, received_ns, length in zip(
            *(columns[name].tolist() for name in ('topic', 'received_ns', 'length')), strict=True):
        topic, kind = topics[number]
        messages.append(Message(topic, kind, received_ns, data[begin:begin + length]))
        begin += length
    return messages


def pack_state(front_end: bytes, **values: Any) -> bytes:
    """The body of a record of kind STATE."""
    return wire.encode('state', values, {'front_end': np.frombuffer(front_end, np.uint8)})


@dataclass(frozen=True)
class KeptSession:
    """What a session holds."""

    number: int
    begin: dict[str, Any]
    """How it began: the configuration, beacons known from before, and the operator's rulings."""
    state: dict[str, Any] | None
    """Values beside the front-end's state; None where the messages begin at the beginning."""
    front_end: bytes
    increments: list[Increment]
    """Until the state."""
    records: list[Record]
    """Messages after it."""
    kept: KeptMap | None
    next_number: int
    """Of the next record."""
    messages: int
    """Number of messages that the session has taken in."""
    topics: Counter[str]
    """How many of each topic could be read."""
    losses: tuple[str, ...]
    """What could not be read, in words."""


def newest(sessions: dict[int, dict[str, list[Path]]]) -> KeptSession | None:
    """The newest session that took something in; None where there is none.

    `sessions` are the files of each by kind (`journal.Files.sessions`). SparserError where there
    is one that cannot be read.
    """
    for number in sorted(sessions, reverse=True):
        session = _read(number, sessions[number])
        if session is not None:
            return session
    return None


def _read(number: int, paths: dict[str, list[Path]]) -> KeptSession | None:
    records: dict[int, Record] = {}
    tail = 0
    for path in paths.get('journal', []):
        data, end = path.read_bytes(), 0
        for record in scan(data):
            end = record.end
            if record.number not in records or not records[record.number].body:
                records[record.number] = record
        tail = len(data) - end
    known = [records[number] for number in sorted(records)]
    whole = [record for record in known if record.body]
    if not any(record.kind in (MESSAGES, STATE) for record in whole):
        return None
    begin = next((json.loads(record.body) for record in whole if record.kind == BEGIN), None)
    if begin is None:
        raise SparserError(f'session {number} of the journal: its configuration cannot be read')
    said = next(record for record in reversed(whole) if record.kind in (BEGIN, RULINGS))
    begin['rulings'] = json.loads(said.body)['rulings']
    place, state, front_end, increments = _newest_state(whole)
    if place < 0 and whole[0].before:
        files = ', '.join(path.name for path in paths['journal'])
        raise SparserError(
            f'session {number} of the journal: no state of it can be read, with the increments '
            f'before; {files} are damaged or missing. They stay as they are: restore them from a '
            'copy to go on with that map')
    start = whole[place].number if place >= 0 else -1
    kept, damaged_map = map_in(paths.get('map', []))
    losses = (*_losses(
        whole[place].before if place >= 0 else 0,
        [record for record in known if record.number > start], tail), *damaged_map)
    messages = [record for record in whole[place + 1:] if record.kind == MESSAGES]
    topics = Counter({} if state is None else state['topics'])
    for record in messages:
        topics.update(message.topic for message in unpack_messages(record.body))
    return KeptSession(
        number, begin, state, front_end, increments, messages, kept, known[-1].number + 1,
        known[-1].before + known[-1].count, topics, losses)


def _newest_state(
    whole: Sequence[Record],
) -> tuple[int, dict[str, Any] | None, bytes, list[Increment]]:
    """The newest state whose increments can all be read: its place, values, front-end, increments;
    (-1, None, …) where there is none."""
    for place in reversed(range(len(whole))):
        if whole[place].kind == STATE:
            packet = wire.decode(whole[place].body)
            increments = _increments(whole[:place])
            if packet.values['sequence'] == (increments[-1].sequence if increments else -1):
                return place, packet.values, packet.arrays['front_end'].tobytes(), increments
    return -1, None, b'', []


def _increments(before: Sequence[Record]) -> list[Increment]:
    """Those of the records that stand right before a state; none where one is missing."""
    packets = []
    for record in reversed(before):
        if record.kind != GRAPH:
            break
        packets.append(wire.decode(record.body))
    increments: list[Increment] = []
    for packet in reversed(packets):
        if packet.values['first'] != (increments[-1].sequence + 1 if increments else 0):
            return []
        increments.append(wire.increment_of(packet))
    return increments


def _losses(count: int, after: Sequence[Record], tail: int) -> list[str]:
    """Gaps between records, and what is damaged; `count` messages are before them."""
    losses = []
    last_ns = 0
    for record in after:
        if record.before > count:
            losses.append(f'{record.before - count} messages that came '
                          f'{_span(last_ns, record.first_ns)}')
        if record.count and not record.body:
            losses.append(f'{record.count} messages that came '
                          f'{_span(record.first_ns, record.last_ns)}')
        count = record.before + record.count
        last_ns = record.last_ns or last_ns
    if tail:
        losses.append(f'the last {tail} bytes, of a record that is cut short or whose head is '
                      'damaged')
    return losses


def _span(first_ns: int, last_ns: int) -> str:
    first, last = (time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(ns * 1e-9))
                   for ns in (first_ns, last_ns))
    return f'between {first} and {last}' if first_ns else f'before {last}'


def map_in(paths: Sequence[Path]) -> tuple[KeptMap | None, list[str]]:
    """The map as it was, or that it cannot be read; neither before the first audit."""
    for path in paths:
        for record in scan(path.read_bytes()):
            try:
                kept = KeptMap(record.body, record.before, record.number)
                assert kept.verdict
            except SparserError:
                continue
            return kept, []
    return None, [f'the map as it was: {path} is damaged; it is solved anew from all measurements'
                  for path in paths]
