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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config import SparserError
from ...graph import Increment
from ..integrity.faults import BURST, MISPLACED, Fault
from ..integrity.odometry_errors import OdometryErrors
from ..integrity.radio_errors import RadioErrors
from ..session.treatment import Rulings, Treatment
from . import wire
from .worker import KeptMap

MARKER = b'\xf3SPRJ\r\n\x1a'
"""Begins every record; no UTF-8 text holds its first byte before an S."""
VERSION = 1
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
        start = data.find(MARKER, at)
        if start < 0:
            yield Damage(at, len(data) - at)
            return
        head, length = _head(data, start)
        if head is None:
            after = data.find(MARKER, start + 1)
            end = len(data) if after < 0 else after
            yield Damage(at, end - at)
            at = end
            continue
        if start > at:
            yield Damage(at, start - at)
        begin = start + HEAD_SIZE
        body = data[begin:begin + length]
        crc = _HEAD.unpack_from(data, start)[-1]
        if len(body) == length and zlib.crc32(body) == crc:
            yield Record(head.kind, head.number, head.before, head.count, head.first_ns,
                         head.last_ns, body, head.take)
            at = begin + length
            continue
        # The length itself is sound: the next record begins there, unless bytes are missing.
        at = begin + length if data.startswith(MARKER, begin + length) else begin
        at = min(at, len(data))
        yield Damage(start, at - start, head)


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
    topics = list(dict.fromkeys((message.topic, message.type) for message in messages))
    numbers = {topic: number for number, topic in enumerate(topics)}
    names = '\n'.join(f'{topic} {kind}' for topic, kind in topics).encode()
    return b''.join((
        struct.pack('<II', len(names), len(messages)), names,
        np.array([numbers[message.topic, message.type] for message in messages], '<u2').tobytes(),
        np.array([message.received_ns for message in messages], '<i8').tobytes(),
        np.array([len(message.data) for message in messages], '<u4').tobytes(),
        *(message.data for message in messages)))


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


@dataclass(frozen=True)
class KeptSession:
    """What a session holds."""

    number: int
    begin: dict[str, Any]
    """How it began: the configuration, and beacons known from before."""
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
    rulings: dict[str, Any] | None
    """What the operator had said; None = nothing."""
    losses: tuple[str, ...]
    """What could not be read, in words."""


def newest(sessions: Mapping[int, Mapping[str, list[Path]]]) -> KeptSession | None:
    """The newest session that took something in; None where there is none.

    `sessions` are the files of each by kind (`journal.Files.sessions`). SparserError where there
    is one that cannot be read.
    """
    for number in sorted(sessions, reverse=True):
        session = _read(number, sessions[number])
        if session is not None:
            return session
    return None


def _read(number: int, paths: Mapping[str, list[Path]]) -> KeptSession | None:
    scanned = [item for path in paths.get('journal', []) for item in scan(path.read_bytes())]
    whole = _in_order([item for item in scanned if isinstance(item, Record)])
    if not any(record.kind in (MESSAGES, STATE) for record in whole):
        return None
    begin = _begin(number, whole)
    place, state, front_end, increments = _newest_state(number, whole, paths)
    after = whole[place + 1:]
    kept, damaged_map = map_in(paths.get('map', []))
    losses = (*_losses(whole[place] if place >= 0 else None, after, scanned), *damaged_map)
    messages = [record for record in after if record.kind == MESSAGES]
    topics = Counter(state['topics'] if state is not None else {})
    for record in messages:
        topics.update(message.topic for message in unpack_messages(record.body))
    last = max((*whole, *(
        item.record for item in scanned if isinstance(item, Damage) and item.record is not None)),
        key=lambda record: record.number)
    return KeptSession(
        number, begin, state, front_end, increments, messages, kept, last.number + 1,
        last.before + last.count, topics, _rulings(whole), losses)


def _newest_state(
    number: int, whole: list[Record], paths: Mapping[str, list[Path]]
) -> tuple[int, dict[str, Any] | None, bytes, list[Increment]]:
    """The newest state whose increments can all be read: its place, values, front-end, increments;
    (-1, None, …) where messages begin at the beginning. SparserError where there is neither."""
    places = [place for place, record in enumerate(whole) if record.kind == STATE]
    for place in reversed(places):
        head, _, front_end = whole[place].body.partition(b'\n')
        values: dict[str, Any] = json.loads(head)
        increments = _increments(paths.get('graph', []), values['sequence'])
        if values['sequence'] <= (increments[-1].sequence if increments else -1):
            return place, values, front_end, increments
    if whole[0].number != 0 and (places or whole[0].before):
        files = ', '.join(
            path.name for kind in ('journal', 'graph') for path in paths.get(kind, []))
        raise SparserError(
            f'session {number} of the journal: no state of it can be read, with the increments '
            f'before; {files} are damaged or missing. They stay as they are: restore them from a '
            'copy to go on with that map')
    return -1, None, b'', []


def _in_order(whole: list[Record]) -> list[Record]:
    """Records by number, each once."""
    once = {record.number: record for record in reversed(whole)}
    return [once[number] for number in sorted(once)]


def _begin(number: int, whole: list[Record]) -> dict[str, Any]:
    for record in whole:
        if record.kind == BEGIN:
            values: dict[str, Any] = json.loads(record.body)
            return values
    raise SparserError(f'session {number} of the journal: its configuration cannot be read')


def _rulings(whole: list[Record]) -> dict[str, Any] | None:
    """The newest: every file begins with those so far."""
    for record in reversed(whole):
        if record.kind in (BEGIN, RULINGS):
            values: dict[str, Any] = json.loads(record.body)
            return values if record.kind == RULINGS else values.get('rulings')
    return None


def join_state(values: Mapping[str, Any], front_end: bytes) -> bytes:
    """The body of a record of kind STATE."""
    return json.dumps(values).encode() + b'\n' + front_end


def _losses(start: Record | None, after: Sequence[Record],
            scanned: Sequence[Record | Damage]) -> list[str]:
    """Gaps between records; heads count the messages before them."""
    losses = []
    count = 0 if start is None else start.before + start.count
    last_ns = 0
    for record in after:
        if record.before > count:
            losses.append(f'{record.before - count} messages that came '
                          f'{_span(last_ns, record.first_ns)}')
        count = record.before + record.count
        last_ns = record.last_ns or last_ns
    end = scanned[-1] if scanned else None
    if isinstance(end, Damage):
        head = end.record
        if head is not None and head.before + head.count > count:
            losses.append(f'{head.before + head.count - count} messages that came '
                          f'{_span(head.first_ns, head.last_ns)}')
        else:
            losses.append(f'the last {end.length} bytes, of a record that is cut short or whose '
                          'head is damaged')
    return losses


def _span(first_ns: int, last_ns: int) -> str:
    first, last = (time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(ns * 1e-9))
                   for ns in (first_ns, last_ns))
    return f'between {first} and {last}' if first_ns else f'before {last}'


def _increments(paths: list[Path], until: int) -> list[Increment]:
    """Increments from the first to sequence `until`, as far as none is missing.

    Every record is there twice. One that stands for all sequences so far takes the place of those
    before it: the graph was thinned.
    """
    increments: list[Increment] = []
    newest = -1
    for path in paths:
        for record in scan(path.read_bytes()):
            if isinstance(record, Damage) or record.kind != GRAPH or not (
                    newest < record.number <= until):
                continue
            if record.before == 0:
                increments = []
            elif record.before != newest + 1:
                return increments
            increments.append(wire.increment_of(wire.decode(record.body)))
            newest = record.number
    return increments


def map_in(paths: list[Path]) -> tuple[KeptMap | None, list[str]]:
    """The map as it was, or that it cannot be read; neither before the first audit."""
    for path in paths:
        for record in scan(path.read_bytes()):
            if isinstance(record, Record):
                try:
                    kept = _map_of(record)
                    assert kept.verdict
                except SparserError:
                    continue
                return kept, []
    return None, [f'the map as it was: {path} is damaged; it is solved anew from all measurements'
                  for path in paths]


def map_record(kept: KeptMap) -> Record:
    """The record of a map: `number` counts thinnings, `before` is its epoch."""
    return Record(MAP, kept.thinnings, kept.epoch, 0, 0, 0, kept.message)


def _map_of(record: Record) -> KeptMap:
    packet = wire.decode(record.body)
    if record.kind == MAP:
        return KeptMap(_since_treatments(record.body), record.before, record.number)
    epoch, thinnings = packet.answer.request, max(packet.answer.audit, 0)
    return KeptMap(_since_treatments(_since_layouts(packet)), epoch, thinnings)


def _since_treatments(message: bytes) -> bytes:
    """The message of a verdict that was written when faults were told by rows of a graph.

    Names stay what they are. What was left out by rows counts again until the first audit, but for
    what sources measure whose fault went on.
    """
    packet = wire.decode(message)
    old = packet.values.get('verdict')
    if not isinstance(old, dict) or 'treatment' in old:
        return message
    parts = replace(packet, values=old)
    now = old.get('newest_stamp_ns', 0)
    faults = [
        *(Fault(kind, name, (size,)) for (kind, name), size in (
            parts.part('odometry_errors', OdometryErrors).size.items()
            if 'odometry_errors' in old else ())),
        *(Fault(MISPLACED, name) for name in old.get('released', ())),
        *(Fault(BURST, name, (0.0,), (), end_ns=now, held_ns=now, words=f'ranges of radio {name} '
                'did not fit') for name in old.get('held_sources', ()) if now)]
    treatment = Treatment(
        tuple(faults),
        parts.part('radio_errors', RadioErrors) if 'radio_errors' in old else RadioErrors(),
        parts.part('rulings', Rulings) if 'rulings' in old else Rulings(),
        tuple((sequence, level) for sequence, level in old.get('quarantined', ())))
    packed = wire.decode(wire.message(wire.VERDICT, treatment=treatment)).values['treatment']
    return wire.encode(
        packet.kind, {**packet.values, 'verdict': {**old, 'treatment': packed}}, packet.arrays)


def _since_layouts(packet: wire.Packet) -> bytes:
    """The message of a verdict that was written before dataclasses had a layout of their own."""
    old, arrays = dict(packet.values), {}
    places = {'corrected': 'corrections', 'hidden': 'undetected', 'weights': 'stats.weights',
              **dict.fromkeys(('rotation', 'translation', 'landmarks'), 'estimate')}
    for name, array in packet.arrays.items():
        group, _, column = name.partition('.')
        path = f'{places[group]}.{column or group}' if group in places else name
        arrays[f'verdict.{path}'] = array

    def columns(group: str) -> dict[str, None]:
        begin = f'verdict.{group}.'
        return {name.removeprefix(begin): None for name in arrays if name.startswith(begin)}

    verdict = {
        **old, 'estimate': columns('estimate'), 'corrections': columns('corrections'),
        'stats': {**old['stats'], 'weights': list(columns('stats.weights').items())},
        # Faults that were not solved for had no root of their covariance.
        'undetected': {**old['hidden'], **columns('undetected')} if old.get('hidden') and (
            'verdict.undetected.solved' in arrays) else None,
        'noise': {'log_factor': [[[kind, name], f] for kind, name, f in old.get('noise') or ()]},
        'odometry_errors': {
            'size': [[[kind, name], f] for kind, name, f in old.get('odometry_errors') or ()]},
        'radio_errors': old.get('radio_errors', {'bias_m': old.get('biases', {})}),
        **{name: None for name in ('landmark_located', 'doubted_ranges', 'left_out_odometry')
           if f'verdict.{name}' in arrays}}
    for place, names in (
        (verdict, ('held_lengths', 'variance', 'odometry_factors')),
        (verdict['stats'], ('cg_stops', 'seconds', 'plan')),
        (verdict['radio_errors'], ('bias_m', 'antenna_m')),
    ):
        place.update({name: list(place[name].items()) for name in names if name in place})
    if old.get('rulings'):
        verdict['rulings'] = {**old['rulings'], 'entries': [
            list(ruling.values()) for ruling in old['rulings']['entries']]}
    return wire.encode(wire.VERDICT, {'verdict': verdict}, arrays)

