"""Everything the node takes in, on disk before it counts: a session begins or goes on.

What is kept are the messages as they came, and when the front-end made keyframes of them: the
front-end is deterministic, so the same messages give the same state. Now and then a file begins
with that state and all increments. What goes wrong with the journal is told, and never stops the
node.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...config import SparserError, build
from ...config.option import flat
from ...config.sparser import SparserConfig
from ...frontend import Frontend, Inputs, Route
from ...frontend.motion import Pose
from ...graph import Increment
from ...graph.finding import Finding
from ..session.graph_store import merged, possible, thinned
from ..session.treatment import Rulings
from . import journal, wire
from .journal import Files, Part, Record, Writer, packed, scan
from .worker import NO_RULINGS, KeptMap

Deserialise = Callable[[str, bytes], Any]
NOT_INPUT = ('node', 'backend', 'solver')
"""Sections of the configuration that the front-end does not read."""
LOADED = 'radios_loaded'
"""Set in the begin of a session whose radios are not those of the parameters, but of a map."""
MERGED = 64
"""So many increments become one record."""
STATE_ROOMS, MAP_ROOMS = ('frontend', 'graph', 'config'), ('backend', 'graph', 'solver')
"""Of whose objects a state, and a map, are made."""


@dataclass
class Session:
    """What the journal holds of a session."""

    begin: dict[str, Any]
    """How it began: the configuration, beacons, rulings and constant transforms known before."""
    number: int = -1
    """In the journal; -1 = it is not there yet."""
    next_number: int = 0
    """Of its next record."""
    messages: int = 0
    """How many it has taken in."""
    topics: Counter[str] = field(default_factory=Counter)
    """How many of each topic are there."""
    state: dict[str, Any] | None = None
    """The newest; None where the messages begin at the beginning."""
    records: list[Record] = field(default_factory=list)
    """Messages after it."""
    increments: list[Increment] = field(default_factory=list)
    kept: KeptMap | None = None
    rulings: Rulings = NO_RULINGS
    """What the operator has said about measurements."""
    notes: list[str] = field(default_factory=list)
    """What an operator must know, in words."""


class Recording:
    """The journal of the node; all methods belong to one thread, and none waits for the disk."""

    def __init__(self, config: SparserConfig, folder: Path | None,
                 deserialise: Deserialise) -> None:
        """Begin or go on with a session; without a folder nothing is kept."""
        self._config = config
        self._problem = ''
        self._kept: KeptMap | None = None
        self._pending: list[tuple[str, str, int, bytes]] = []
        self._bytes = 0
        """Of messages in the file being written."""
        self.session = Session(begin_values(config))
        self.frontend, self.inputs = Frontend(config), Inputs(config)
        self.resumed = False
        """Whether the session was there."""
        self._files = None if folder is None else Files(folder, config.node.journal.max_mb)
        self._writer: Writer | None = None
        if self._files is not None:
            self._start(self._files, deserialise)
        self.words = self._words()

    def _start(self, files: Files, deserialise: Deserialise) -> None:
        options = self._config.node.journal
        for rooms in (STATE_ROOMS, MAP_ROOMS):
            wire.fingerprint(*rooms)  # read now: a callback has no time for it
        try:
            files.open()
            if options.resume:
                try:
                    self._resume(files, deserialise)
                except SparserError as error:
                    # What is there stays as it is.
                    self._problem = f'not resumed, a new map begins: {error}'
            if not self.resumed:
                self.session.number = files.new_session()
            self._writer = Writer(files, options.sync_period_s)
            self._open()
            if self.resumed:
                self._write_state(self.session.increments)
        except (OSError, SparserError) as error:
            self._problem = f'{self._problem}; {error}' if self._problem else str(error)

    def _resume(self, files: Files, deserialise: Deserialise) -> None:
        """Go on with the newest session, where there is one."""
        session = newest(files.sessions())
        if session is not None:
            self.frontend, self.inputs = resumed(session, self._config, deserialise)
            self.session, self.resumed = session, True

    def release(self) -> None:
        """What was resumed belongs to whoever goes on with it, and is not held here."""
        self.session.increments, self.session.records, self.session.kept = [], [], None

    def _words(self) -> str:
        """Which session it is, for the log; '' = nothing was to be resumed."""
        session = self.session
        if self._files is None or not self._config.node.journal.resume:
            return ''
        if not self.resumed:
            return f'nothing to resume in {self._files.directory}: a new map begins'
        keyframes = sum(len(increment.poses) for increment in session.increments)
        return (f'session {session.number} of {self._files.directory} goes on: '
                f'{session.messages} messages, {keyframes} keyframes')

    @property
    def path(self) -> str:
        """Of the file being written; '' = none."""
        return '' if self._writer is None else self._writer.path

    def message(self, route: Route, data: bytes, received_ns: int) -> None:
        """Keep a message that the front-end is about to take in, for the next `take`."""
        if self._writer is not None:
            self.session.topics[route.topic] += 1
            self._pending.append((route.topic, route.type, received_ns, data))

    def take(self, flush: bool) -> int:
        """The front-end makes keyframes; number of the record that must be on disk for them."""
        if self._writer is None:
            return -1
        if not self._pending and not flush:
            return self.session.next_number - 1
        return self._write_messages(journal.FLUSH if flush else journal.TAKE)

    def safe(self, number: int) -> bool:
        """Whether a record is on disk, or cannot be now."""
        writer = self._writer
        return writer is None or bool(writer.problem) or writer.durable >= number

    def checkpoint(self, increments: Sequence[Increment]) -> None:
        """Where the file is full: begin another, with the state right after `take`.

        `increments` are all of them; the first may stand for several.
        """
        if self._writer is not None and self._bytes > self._config.node.journal.segment_mb * 1e6:
            self._open()
            self._write_state(increments)

    def keep_map(self, kept: KeptMap | None) -> None:
        """Write the newest verdict in place of the one before, if it is another."""
        if self._writer is None or kept is None or (
                self._kept is not None and kept.message is self._kept.message):
            return
        self._kept = kept
        body = (kept.message, kept.epoch, kept.thinnings, wire.fingerprint(*MAP_ROOMS))
        files, session = self._writer.files, self.session.number
        self._writer.inbox.put(lambda: files.write_map(
            session, packed(Record(journal.MAP, 0, 0, body))))

    def rule(self, rulings: Rulings) -> int:
        """Keep what the operator says; number of the record that must be on disk for it."""
        if self._writer is None:
            return -1
        self.session.begin = {**self.session.begin, 'rulings': rulings.values()}
        # Twice: it may be the last record of all, and speaks for every measurement.
        return self._write(journal.RULINGS, rulings.values(), copies=2)

    def restart(
        self, config: SparserConfig, positions: dict[str, list[float]] | None, rulings: Rulings,
    ) -> None:
        """All data are forgotten; the front-end begins another session with this configuration."""
        self._kept = None
        if self._writer is None:
            return
        if self._pending:
            self._write_messages(journal.NO_TAKE)
        before, number = self.session.next_number, self.session.number
        self.session = Session(
            {**begin_values(config, positions, rulings, self.frontend.frames.all),
             LOADED: config.radios != self._config.radios},
            self._writer.files.new_session(number), before, notes=self.session.notes)
        self._open()

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the journal, and what it could not give back."""
        findings = [Finding('journal_lost', 'journal', text) for text in self.session.notes]
        problem = self._problem or ('' if self._writer is None else self._writer.problem)
        if problem and (self._writer is None or not self._problem):
            goes_on = '; the map goes on from what it holds, nothing new is kept' * self.resumed
            problem = f'the journal is not written, a crash would lose data: {problem}{goes_on}'
        if problem:
            findings.insert(0, Finding('journal_failed', 'journal', problem))
        return findings

    def close(self) -> None:
        """Write what waits, end the thread, and let go of the folder."""
        if self._writer is not None:
            if self._pending:
                self._write_messages(journal.NO_TAKE)
            self._writer.inbox.put(None)
            self._writer.join(10.0)
        if self._files is not None:
            self._files.close()

    # -- records

    def _open(self) -> None:
        """Begin a new file."""
        self._bytes = 0
        # Twice: without its configuration a session could not be read.
        self._write(journal.BEGIN, self.session.begin, copies=2, session=self.session.number)

    def _write_state(self, increments: Sequence[Increment]) -> None:
        """The increments, and the front-end as it is."""
        assert self._writer is not None
        session, before = self.session, -1
        for begin in range(0, len(increments), MERGED):
            chunk = list(increments[begin:begin + MERGED])
            self._writer.inbox.put(Part(session.next_number, partial(
                _graph_record, session.next_number, session.messages, chunk, before + 1)))
            session.next_number += 1
            before = chunk[-1].sequence
        self._write(journal.STATE, {
            'version': wire.fingerprint(*STATE_ROOMS), 'sequence': before,
            'topics': dict(session.topics), 'front_end': wire.pack((self.frontend, self.inputs))},
            checkpoint=True)

    def _write_messages(self, take: int) -> int:
        pending, self._pending = self._pending, []
        number = self._write(journal.MESSAGES, pending, take)
        self.session.messages += len(pending)
        return number

    def _write(self, kind: str, body: Any, take: int = journal.NO_TAKE, copies: int = 1,
               **options: Any) -> int:
        assert self._writer is not None
        session = self.session
        record = Record(kind, session.next_number, session.messages, body, take)
        session.next_number += 1
        data = packed(record)
        self._bytes += len(data) * (kind == journal.MESSAGES)
        self._writer.inbox.put(Part(record.number, copies * data, **options))
        return record.number


def _graph_record(number: int, before: int, increments: list[Increment], first: int) -> bytes:
    """A record of increments; `first` is the sequence of the first that they stand for."""
    return packed(Record(
        journal.GRAPH, number, before, wire.increment_message(merged(increments), first)))


def begin_values(
    config: SparserConfig, positions: dict[str, list[float]] | None = None,
    rulings: Rulings = NO_RULINGS, frames: Mapping[str, tuple[str, Pose]] | None = None,
) -> dict[str, Any]:
    """How a session begins: a configuration, and perhaps beacons, rulings and constant transforms
    from before."""
    return {'config': asdict(config), 'positions': positions or {}, 'rulings': rulings.values(),
            'frames': frames or {}}


# -- reading


def newest(sessions: dict[int, dict[str, list[Path]]]) -> Session | None:
    """The newest session that took something in, also from damaged files; None = there is none.

    `sessions` are the files of each by kind (`journal.Files.sessions`). SparserError where there
    is one that cannot be read.
    """
    for number in sorted(sessions, reverse=True):
        session = _read(number, sessions[number])
        if session is not None:
            return session
    return None


def _read(number: int, paths: dict[str, list[Path]]) -> Session | None:
    known: dict[int, Record] = {}
    tail = 0
    for path in paths.get('journal', []):
        data = path.read_bytes()
        tail = len(data)
        for record, end in scan(data):
            known.setdefault(record.number, record)
            tail = len(data) - end
    records = [known[number] for number in sorted(known)]
    kinds = {record.kind for record in records}
    if not kinds & {journal.MESSAGES, journal.STATE}:
        return None
    if journal.BEGIN not in kinds:
        raise SparserError(f'session {number} of the journal: its configuration cannot be read')
    begin = next(record.body for record in records if record.kind == journal.BEGIN)
    for record in records:
        if record.kind in (journal.BEGIN, journal.RULINGS):
            rulings = record.body['rulings'] if record.kind == journal.BEGIN else record.body
    place, increments = _newest_state(records)
    if place < 0 and records[0].before:
        files = ', '.join(path.name for path in paths['journal'])
        raise SparserError(
            f'session {number} of the journal: no state of it can be read, with the increments '
            f'before; {files} are damaged or missing. They stay as they are: restore them from a '
            'copy to go on with that map')
    state = records[place].body if place >= 0 else None
    kept, damaged_map = map_in(paths.get('map', []))
    losses = _losses(records[place].before if place >= 0 else 0, records[place + 1:], tail)
    messages = [record for record in records[place + 1:] if record.kind == journal.MESSAGES]
    topics = Counter({} if state is None else state['topics'])
    topics.update(message[0] for record in messages for message in record.body)
    last = records[-1]
    return Session(
        {**begin, 'rulings': rulings}, number, last.number + 1,
        last.before + _count(last), topics, state, messages, increments, kept,
        Rulings.from_values(rulings),
        [f'lost from the journal: {text}' for text in (*losses, *damaged_map)])


def _count(record: Record) -> int:
    """Messages in a record."""
    return len(record.body) if record.kind == journal.MESSAGES else 0


def _newest_state(records: Sequence[Record]) -> tuple[int, list[Increment]]:
    """Place of the newest state whose increments can all be read, and these; -1 = there is none."""
    for place in reversed(range(len(records))):
        if records[place].kind == journal.STATE:
            increments = _increments(records[:place])
            if records[place].body['sequence'] == (increments[-1].sequence if increments else -1):
                return place, increments
    return -1, []


def _increments(before: Sequence[Record]) -> list[Increment]:
    """Those of the records that stand right before a state; none where one is missing."""
    packets = []
    for record in reversed(before):
        if record.kind != journal.GRAPH:
            break
        packets.append(wire.decode(record.body))
    increments: list[Increment] = []
    for packet in reversed(packets):
        if packet.values['first'] != (increments[-1].sequence + 1 if increments else 0):
            return []
        increments.append(packet.body)
    return increments


def _losses(count: int, after: Sequence[Record], tail: int) -> list[str]:
    """Gaps between records; `count` messages are before them."""
    losses, last_ns = [], 0
    for record in after:
        messages = record.body if record.kind == journal.MESSAGES else ()
        if record.before > count:
            first_ns = messages[0][2] if messages else 0
            losses.append(f'{record.before - count} messages that came {_span(last_ns, first_ns)}')
        count = record.before + len(messages)
        last_ns = messages[-1][2] if messages else last_ns
    if tail:
        losses.append(f'the last {tail} bytes, of a record that is cut short or damaged')
    return losses


def _span(first_ns: int, last_ns: int) -> str:
    first, last = (time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(ns * 1e-9))
                   for ns in (first_ns, last_ns))
    if not last_ns:
        return f'after {first}'
    return f'between {first} and {last}' if first_ns else f'before {last}'


def map_in(paths: Sequence[Path]) -> tuple[KeptMap | None, list[str]]:
    """The map as it was, or that it cannot be read; neither before the first audit."""
    for path in paths:
        for record, _ in scan(path.read_bytes()):
            message, epoch, thinnings, version = record.body
            if version == wire.fingerprint(*MAP_ROOMS):
                return KeptMap(message, epoch, thinnings), []
    return None, [f'the map as it was: {path} is damaged, or of another version of this package; '
                  'it is solved anew from all measurements' for path in paths]


def resumed(session: Session, config: SparserConfig, deserialise: Deserialise
            ) -> tuple[Frontend, Inputs]:
    """The front-end of a session that goes on; brings its increments, map and notes up to date."""
    begin = session.begin
    before = build(SparserConfig, begin['config'])
    if (before.robots, before.dimension) != (config.robots, config.dimension):
        raise SparserError(
            f'the journal holds robots {", ".join(before.robots)} in {before.dimension}D, the '
            f'parameters say {", ".join(config.robots)} in {config.dimension}D')
    lost = bool(session.notes)
    changed = _changed(before, config, (
        *NOT_INPUT, 'radios.') if begin.get(LOADED) else NOT_INPUT)
    if changed:
        session.notes.append(f'the session goes on with the values with which it began: {changed}')
    if session.state is None:
        frontend, inputs = Frontend(before), Inputs(before)
        frontend.frames.restore(begin['frames'])
        if begin['positions']:
            frontend.reset(keep_beacons=True, positions=begin['positions'])
    elif session.state['version'] != wire.fingerprint(*STATE_ROOMS):
        raise SparserError(journal.OTHER_VERSION)
    else:
        frontend, inputs = wire.unpack(session.state['front_end'])
    for record in session.records:
        for topic, kind, received_ns, data in record.body:
            route = inputs.match(topic, kind)
            if route is not None:
                frontend.feed_bytes(route, data, received_ns, deserialise)
        new = None if record.take == journal.NO_TAKE else frontend.take(
            flush=record.take == journal.FLUSH)
        if new is not None:
            session.increments.append(new)
            _thin(session, frontend)
    kept, last = session.kept, session.increments[-1].sequence if session.increments else -1
    if kept is not None and (
            kept.verdict.sequence > last or lost or kept.thinnings != frontend.thinnings):
        session.kept = None  # it speaks of measurements that are not there, or numbers others
    return frontend, inputs


def _thin(session: Session, frontend: Frontend) -> None:
    """Thin the increments where that was due then; the map goes into their numbering."""
    kept = session.kept
    quarantined = () if kept is None else kept.verdict.treatment.quarantined
    drop = frontend.thin() if possible(quarantined) else None
    if drop is None:
        return
    step = thinned(
        session.increments, drop, frontend.config.keyframes.thinned_per_pair, quarantined)
    if kept is not None and kept.thinnings == frontend.thinnings - 1:
        session.kept = kept.thinned(step)
    session.increments = [step.increment]


def _changed(before: SparserConfig, now: SparserConfig, but: tuple[str, ...]) -> str:
    """Names of parameters that differ, with both values, but those that begin with `but`."""
    old, new = dict(flat(asdict(before))), dict(flat(asdict(now)))
    return ', '.join(
        f'{name} = {old.get(name)!r} (now {new.get(name)!r})' for name in sorted({*old, *new})
        if old.get(name) != new.get(name) and not name.startswith(but))
