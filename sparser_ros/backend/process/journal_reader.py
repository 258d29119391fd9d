"""A session of a journal, read back: state, increments, messages since, and what was lost."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...config import SparserError
from ...graph import Increment
from . import journal_records as records
from .codec import decode, decode_increment
from .journal_files import Files
from .journal_records import Damage, Record
from .kept_map import KeptMap


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


def newest(files: Files) -> KeptSession | None:
    """The newest session that took something in; None where there is none.

    Raises SparserError where there is one that cannot be read.
    """
    sessions = files.sessions()
    for number in sorted(sessions, reverse=True):
        session = _read(number, sessions[number])
        if session is not None:
            return session
    return None


def _read(number: int, paths: dict[str, list[Path]]) -> KeptSession | None:
    found: list[Record | Damage] = []
    for path in paths.get('journal', []):
        found += records.scan(path.read_bytes())
    whole = _in_order([one for one in found if isinstance(one, Record)])
    if not any(one.kind in (records.MESSAGES, records.STATE) for one in whole):
        return None
    begin = _begin(number, whole)
    starts = [k for k, one in enumerate(whole) if one.kind == records.STATE]
    for place in reversed(starts):
        values, front_end = _split(whole[place].body)
        known = _increments(paths.get('graph', []), values['sequence'])
        if values['sequence'] <= (known[-1].sequence if known else -1):
            return _session(number, begin, values, front_end, known, whole, place, found, paths)
    if whole[0].number != 0 and (starts or whole[0].before):
        files = ', '.join(
            path.name for kind in ('journal', 'graph') for path in paths.get(kind, []))
        raise SparserError(
            f'session {number} of the journal: no state of it can be read, with the increments '
            f'before; {files} are damaged or missing. They stay as they are: restore them from a '
            'copy to go on with that map')
    return _session(number, begin, None, b'', [], whole, -1, found, paths)


def _session(
    number: int, begin: dict[str, Any], state: dict[str, Any] | None, front_end: bytes,
    increments: list[Increment], whole: list[Record], place: int,
    found: list[Record | Damage], paths: dict[str, list[Path]],
) -> KeptSession:
    start = whole[place] if place >= 0 else None
    after = whole[place + 1:]
    losses = _losses(start, after, found)
    kept, damaged_map = _map(paths.get('map', []))
    losses += damaged_map
    damaged = [one.record for one in found if isinstance(one, Damage) and one.record is not None]
    heads = [*whole, *damaged]
    last = max(heads, key=lambda one: one.number)
    messages = [one for one in after if one.kind == records.MESSAGES]
    topics = Counter(state['topics'] if state is not None else {})
    for record in messages:
        topics.update(one.topic for one in records.unpack_messages(record.body))
    return KeptSession(
        number, begin, state, front_end, increments, messages, kept,
        last.number + 1, last.before + last.count, topics, _rulings(whole),
        tuple(losses))


def _in_order(whole: list[Record]) -> list[Record]:
    """Records by number, each once."""
    return [one for _, one in sorted({one.number: one for one in reversed(whole)}.items())]


def _begin(number: int, whole: list[Record]) -> dict[str, Any]:
    for one in whole:
        if one.kind == records.BEGIN:
            values: dict[str, Any] = json.loads(one.body)
            return values
    raise SparserError(f'session {number} of the journal: its configuration cannot be read')


def _rulings(whole: list[Record]) -> dict[str, Any] | None:
    """The newest: every file begins with those so far."""
    for one in reversed(whole):
        if one.kind in (records.BEGIN, records.RULINGS):
            values: dict[str, Any] = json.loads(one.body)
            return values if one.kind == records.RULINGS else values.get('rulings')
    return None


def _split(body: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, front_end = body.partition(b'\n')
    values: dict[str, Any] = json.loads(head)
    return values, front_end


def join_state(values: dict[str, Any], front_end: bytes) -> bytes:
    """The body of a record of kind STATE."""
    return json.dumps(values).encode() + b'\n' + front_end


def _losses(start: Record | None, after: Sequence[Record],
            found: Sequence[Record | Damage]) -> list[str]:
    """Gaps between records; heads count the messages before them."""
    losses = []
    count = 0 if start is None else start.before + start.count
    last_ns = 0
    for one in after:
        if one.before > count:
            losses.append(f'{one.before - count} messages that came {_span(last_ns, one.first_ns)}')
        count = one.before + one.count
        last_ns = one.last_ns or last_ns
    end = found[-1] if found else None
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
        for one in records.scan(path.read_bytes()):
            if isinstance(one, Damage) or one.kind != records.GRAPH or not (
                    newest < one.number <= until):
                continue
            if one.before == 0:
                increments = []
            elif one.before != newest + 1:
                return increments
            increments.append(decode_increment(decode(one.body)))
            newest = one.number
    return increments


def _map(paths: list[Path]) -> tuple[KeptMap | None, list[str]]:
    """The map as it was, or that it cannot be read; neither before the first audit."""
    for path in paths:
        for one in records.scan(path.read_bytes()):
            if isinstance(one, Record):
                return KeptMap.decoded(decode(one.body)), []
    return None, [f'the map as it was: {path} is damaged; it is solved anew from all measurements'
                  for path in paths]
