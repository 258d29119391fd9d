"""Records of a journal as bytes: found again one by one, also in a file that is damaged.

A record is a marker, a head with a CRC-32 of its own, and a body with another. Heads count the
messages before them, so that a gap between two sound records tells how many were lost.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

MARKER = b'\xf3SPRJ\r\n\x1a'
"""Begins every record; no UTF-8 text holds its first byte before an S."""
VERSION = 1
_HEAD = struct.Struct('<8sBBHIQQqqII')
_CRC = struct.Struct('<I')
HEAD_SIZE = _HEAD.size + _CRC.size
BEGIN, MESSAGES, STATE, GRAPH, RESET, RULINGS = 1, 2, 3, 4, 5, 6
"""Kinds: start of a session, sensor messages, front-end state, increments, a reset, and all that
the operator has said about measurements."""
NO_TAKE, TAKE, FLUSH = 0, 1, 2
"""What the front-end did after the messages of a record: nothing, take, take(flush=True)."""


@dataclass(frozen=True)
class Record:
    """One sound record."""

    kind: int
    number: int
    """Counts the records of a session from 0."""
    before: int
    """Messages of the session before this record."""
    count: int
    """Messages in it."""
    first_ns: int
    last_ns: int
    """Time of reception of its first and last message; 0 without messages."""
    body: bytes
    take: int = NO_TAKE


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


@dataclass(frozen=True)
class Damage:
    """Bytes that are no sound record; `record` is its head where at least that is sound."""

    offset: int
    length: int
    record: Record | None = None


def scan(data: bytes) -> Iterator[Record | Damage]:
    """Sound records in order, and what lies between them that is none."""
    at = 0
    while at < len(data):
        found = data.find(MARKER, at)
        if found < 0:
            yield Damage(at, len(data) - at)
            return
        head, length = _head(data, found)
        if head is None:
            after = data.find(MARKER, found + 1)
            end = len(data) if after < 0 else after
            yield Damage(at, end - at)
            at = end
            continue
        if found > at:
            yield Damage(at, found - at)
        begin = found + HEAD_SIZE
        body = data[begin:begin + length]
        crc = _HEAD.unpack_from(data, found)[-1]
        if len(body) == length and zlib.crc32(body) == crc:
            yield Record(head.kind, head.number, head.before, head.count, head.first_ns,
                         head.last_ns, body, head.take)
            at = begin + length
            continue
        # The length itself is sound: the next record begins there, unless bytes are missing.
        at = begin + length if data.startswith(MARKER, begin + length) else begin
        at = min(at, len(data))
        yield Damage(found, at - found, head)


def _head(data: bytes, at: int) -> tuple[Record | None, int]:
    """The record of a head without its body, and the length of the body; None = damaged."""
    if at + HEAD_SIZE > len(data):
        return None, 0
    head = data[at:at + _HEAD.size]
    if zlib.crc32(head) != _CRC.unpack_from(data, at + _HEAD.size)[0]:
        return None, 0
    _, version, kind, take, count, number, before, first, last, length, _ = _HEAD.unpack(head)
    if version != VERSION:
        return None, 0
    return Record(kind, number, before, count, first, last, b'', take), length


def pack_messages(messages: list[Message]) -> bytes:
    """The body of a record of messages: table of topics, columns, then the bytes of all."""
    topics = list(dict.fromkeys((one.topic, one.type) for one in messages))
    numbers = {topic: number for number, topic in enumerate(topics)}
    names = '\n'.join(f'{topic} {kind}' for topic, kind in topics).encode()
    return b''.join((
        struct.pack('<II', len(names), len(messages)), names,
        np.array([numbers[one.topic, one.type] for one in messages], '<u2').tobytes(),
        np.array([one.received_ns for one in messages], '<i8').tobytes(),
        np.array([len(one.data) for one in messages], '<u4').tobytes(),
        *(one.data for one in messages)))


def unpack_messages(body: bytes) -> list[Message]:
    """The messages of `pack_messages`."""
    n_names, count = struct.unpack_from('<II', body)
    at = 8 + n_names
    topics = [line.split(' ') for line in body[8:at].decode().split('\n')] if n_names else []
    columns = []
    for kind in ('<u2', '<i8', '<u4'):
        columns.append(np.frombuffer(body, kind, count, at).tolist())
        at += np.dtype(kind).itemsize * count
    messages = []
    for number, received_ns, length in zip(*columns, strict=True):
        topic, kind = topics[number]
        messages.append(Message(topic, kind, received_ns, body[at:at + length]))
        at += length
    return messages
