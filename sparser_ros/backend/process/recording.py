"""Everything the node takes in, on disk before it counts: a session begins or goes on.

What is kept are the messages as they came, and when the front-end made keyframes of them: the
front-end is deterministic, so the same messages give the same state. Now and then that state and
all increments take their place. What goes wrong with the journal is told, and never stops the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from ..session.graph_store import merged, possible, runs, thinned
from ..session.rulings import Rulings
from . import journal, wire
from .journal import MAP_NUMBER, Record, Writer
from .worker import NO_RULINGS, KeptMap

Deserialise = Callable[[str, bytes], Any]
NOT_INPUT = ('node', 'backend', 'solver', 'calibration')
"""Sections of the configuration that the front-end does not read."""
LOADED = 'radios_loaded'
"""Set in the begin of a session whose radios are not those of the parameters, but of a map."""
FORGETS = 'forgets'
"""Set in the begin of a session in place of one that was forgotten."""
MERGED = 64
"""So many increments become one record."""
STATE_ROOMS, MAP_ROOMS = ('frontend', 'graph', 'config'), ('backend', 'graph', 'solver')
"""Of whose objects a state, and a map, are made."""


@dataclass
class Session:
    """What the journal holds of a session."""

    begin: dict[str, Any]
    """How it began: the configuration, rulings and constant transforms known before."""
    number: int = -1
    """In the journal; -1 = it is not there yet."""
    epoch: int = 0
    """Number of its newest frame of `map`."""
    damaged: bool = False
    """Whether some of its records cannot be read."""
    next_number: int = 0
    """Of its next record."""
    messages: int = 0
    """How many it has taken in."""
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
                 deserialise: Deserialise, epoch: int = 0) -> None:
        """Begin or go on with a session; without a folder nothing is kept.

        `epoch` is the least number of a frame of `map` that no journal knows.
        """
        self._config = config
        self._folder = None if folder is None else folder.expanduser().absolute()
        self._problem = ''
        self._kept: KeptMap | None = None
        self._pending: list[tuple[str, str, int, bytes]] = []
        self._bytes = self._unanswered = self._next_session = 0
        """Of messages since the newest state, and since the disk has not answered; a number that no
        session has."""
        self.session = Session(begin_values(config, epoch=epoch), epoch=epoch)
        self.frontend, self.inputs = Frontend(config), Inputs(config)
        self.resumed = False
        """Whether the session was there."""
        self._writer: Writer | None = None
        if self._folder is not None:
            self._start(self._folder, deserialise)
        self.words = self._words()

    def _start(self, folder: Path, deserialise: Deserialise) -> None:
        options = self._config.node.journal
        for rooms in (STATE_ROOMS, MAP_ROOMS):
            wire.fingerprint(*rooms)  # read now: a callback has no time for it
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if options.resume:
                try:
                    self._resume(folder, deserialise)
                except SparserError as error:
                    # What is there stays as it is.
                    self._problem = f'not resumed, a new map begins: {error}'
            self._next_session = max([-1, *journal.sessions(folder)]) + 1
            fresh = not self.resumed or self.session.damaged
            if fresh:
                self.session.number, self._next_session = self._next_session, self._next_session + 1
            self._writer = Writer(folder, options.max_mb)
            self._writer.inbox.put(self.session.number)
            if fresh:
                self._write(journal.BEGIN, {**self.session.begin, 'epoch': self.session.epoch})
            if fresh and self.resumed:
                kept = self.session.kept
                self._write_state(
                    self.session.increments,
                    () if kept is None else dict(kept.verdict.treatment.quarantined))
        except OSError as error:
            self._problem = str(error)

    def _resume(self, folder: Path, deserialise: Deserialise) -> None:
        """Go on with the newest session, where there is one."""
        session = newest(folder)
        if session is not None:
            self.frontend, self.inputs = resumed(session, self._config, deserialise)
            if session.kept is None:
                session.epoch = max(session.epoch + 1, self.session.epoch)
            self.session, self.resumed = session, True
            self._bytes = sum(len(message[3]) for record in session.records
                              for message in record.body)

    def release(self) -> None:
        """What was resumed belongs to whoever goes on with it, and is not held here."""
        self.session.increments, self.session.records, self.session.kept = [], [], None

    def _words(self) -> str:
        """Which session it is, for the log; '' = nothing was to be resumed."""
        session = self.session
        if self._folder is None or not self._config.node.journal.resume:
            return ''
        if not self.resumed:
            return f'nothing to resume in {self._folder}: a new map begins'
        keyframes = sum(len(increment.poses) for increment in session.increments)
        return (f'session {session.number} of {self._folder} goes on: '
                f'{session.messages} messages, {keyframes} keyframes')

    @property
    def path(self) -> str:
        """Of the file being written; '' = none."""
        return '' if self._writer is None else str(self._writer.path)

    def message(self, route: Route, data: bytes, received_ns: int) -> None:
        """Keep a message that the front-end is about to take in, for the next `take`."""
        if self._writer is not None:
            self._bytes += len(data)
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
        return writer is None or writer.durable >= number or bool(writer.problem or writer.hangs)

    def checkpoint(self, increments: Sequence[Increment], alone: Collection[int] = ()) -> None:
        """Write the state right after `take` in place of messages, where those have become many.

        `increments` are all of them, and may stand for several; those with a sequence in `alone`,
        which are quarantined, stay apart.
        """
        if self._writer is not None and not self._writer.hangs and (
                self._bytes > self._config.node.journal.segment_mb * 1e6):
            self._write_state(increments, alone)

    def keep_map(self, kept: KeptMap | None) -> None:
        """Write the newest verdict in place of the one before, if it, or its frame, is another."""
        if self._writer is None or kept is None or self._writer.hangs or (
                self._kept is not None and kept.message is self._kept.message
                and kept.epoch == self._kept.epoch):
            return
        self._kept = kept
        body = (kept.message, kept.epoch, kept.thinnings, wire.fingerprint(*MAP_ROOMS))
        self._writer.inbox.put(Record(journal.MAP, MAP_NUMBER, 0, body))

    def rule(self, rulings: Rulings) -> int:
        """Keep what the operator says; number of the record that must be on disk for it."""
        if self._writer is None:
            return -1
        return self._write(journal.RULINGS, rulings.values())

    def restart(self, rulings: Rulings, epoch: int = 0) -> None:
        """All data are forgotten; the front-end begins another session, in another frame."""
        self._kept = None
        if self._writer is None:
            return
        if self._pending:
            self._write_messages(journal.NO_TAKE)
        # A front-end that was resumed has the values with which it began, whatever the parameters.
        before, config = self.session, self.frontend.config
        self.session = Session(
            {**begin_values(config, rulings, dict(self.frontend.frames.parents), epoch),
             LOADED: config.radios != self._config.radios, FORGETS: True},
            self._next_session, next_number=before.next_number, notes=before.notes)
        self._next_session, self._bytes = self._next_session + 1, 0
        self._writer.inbox.put(self.session.number)
        self._write(journal.BEGIN, self.session.begin)

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the journal, and what it could not give back."""
        findings = [Finding('journal_lost', 'journal', text) for text in self.session.notes]
        problem = self._problem or (
            '' if self._writer is None else self._writer.problem or self._writer.hangs)
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

    # -- records

    def _write_state(self, increments: Sequence[Increment], alone: Collection[int]) -> None:
        """The increments, and the front-end as it is."""
        self._bytes, first = 0, self.session.next_number
        for part in runs(increments, alone, newest=0):
            for begin in range(0, len(part), MERGED):
                self._write(journal.GRAPH, partial(_graph, part[begin:begin + MERGED]))
        self._write(journal.STATE, {
            'version': wire.fingerprint(*STATE_ROOMS), 'instead_of': first,
            'front_end': wire.pack((self.frontend, self.inputs))})

    def _write_messages(self, take: int) -> int:
        assert self._writer is not None
        pending, self._pending = self._pending, []
        if self._writer.hangs:
            self._unanswered += sum(len(data) for *_, data in pending)
        else:
            self._unanswered = 0
        # A record without messages tells that they are lost.
        lost = self._unanswered > journal.MAX_WAITING_BYTES
        number = self._write(journal.MESSAGES, [] if lost else pending, take)
        self.session.messages += len(pending)
        return number

    def _write(self, kind: str, body: Any, take: int = journal.NO_TAKE) -> int:
        assert self._writer is not None
        session, number = self.session, self.session.next_number
        session.next_number += 1
        self._writer.inbox.put(Record(kind, number, session.messages, body, take))
        return number


def _graph(increments: list[Increment]) -> bytes:
    """Increments as one, in bytes: another version can read the record all the same."""
    return wire.pack(merged(increments))


def begin_values(
    config: SparserConfig, rulings: Rulings = NO_RULINGS,
    frames: Mapping[str, tuple[str, Pose]] | None = None, epoch: int = 0,
) -> dict[str, Any]:
    """How a session begins: a configuration, the number of its first frame of `map`, and perhaps
    rulings and constant transforms from before."""
    return {'config': asdict(config), 'rulings': rulings.values(), 'frames': frames or {},
            'epoch': epoch}


# -- reading


def newest(folder: Path) -> Session | None:
    """The newest session that took something in; None = there is none.

    SparserError where there is one that cannot be read.
    """
    for number in reversed(journal.sessions(folder)):
        path = journal.path_of(folder, number)
        session = _session(number, path) if path.is_file() else None
        if session is not None:
            return session
    return None


def _session(number: int, path: Path) -> Session | None:
    records, damaged = journal.read(path)
    kept, notes, epoch = None, [], None
    if records and records[0].kind == journal.MAP:
        *body, version = records.pop(0).body
        epoch = body[1]
        kept = KeptMap(*body) if version == wire.fingerprint(*MAP_ROOMS) else None
        notes = [] if kept else ['the map as it was is of another version of this package']
    if MAP_NUMBER in damaged:
        notes = ['the map as it was is damaged']
    kinds = {record.kind for record in records}
    begin: dict[str, Any] = next((record.body for record in records
                                  if record.kind == journal.BEGIN), {})
    if not kinds & {journal.MESSAGES, journal.STATE} and not damaged and not begin.get(FORGETS):
        return None
    if not begin:
        raise SparserError(f'{path}: its configuration cannot be read')
    rulings = next((record.body for record in reversed(records)
                    if record.kind == journal.RULINGS), begin['rulings'])
    state, graph, after = _newest_state(records)
    messages = [record for record in after if record.kind == journal.MESSAGES]
    if state is None and messages and messages[0].before:
        raise SparserError(
            f'{path} is damaged: no state of the front-end in it can be read, with the increments '
            'before. It stays as it is: restore it from a copy to go on with that map')
    lost = _lost(0 if state is None else state.before, after)
    if damaged:
        notes.append(f'{len(damaged)} records of {path} are damaged, {lost} messages with them')
    elif lost:
        notes.append(f'{lost} messages are not in {path}: it could not be written then')
    last = records[-1]
    return Session(
        begin, number, begin.get('epoch', 0) if epoch is None else epoch, bool(damaged),
        last.number + 1, last.before + len(_messages(last)),
        None if state is None else state.body, messages,
        [wire.unpack(record.body) for record in graph], kept,
        Rulings.from_values(rulings), [f'lost from the journal: {text}' for text in notes])


def _newest_state(
    records: list[Record]
) -> tuple[Record | None, list[Record], list[Record]]:
    """The newest state before which all its increments can be read, these, and what follows."""
    for place in reversed(range(len(records))):
        if records[place].kind == journal.STATE:
            state = records[place]
            first = place - (state.number - state.body['instead_of'])
            # Numbers have no gap, unless a record cannot be read.
            if first >= 0 and records[first].number == state.body['instead_of']:
                return state, records[first:place], records[place + 1:]
    return None, [], records


def _messages(record: Record) -> list[tuple[str, str, int, bytes]]:
    return record.body if record.kind == journal.MESSAGES else []


def _lost(count: int, after: Sequence[Record]) -> int:
    """Messages in the gaps between records; `count` messages are before them."""
    lost = 0
    for record in after:
        lost += max(0, record.before - count)
        count = record.before + len(_messages(record))
    return lost


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
    elif session.state['version'] != wire.fingerprint(*STATE_ROOMS):
        raise SparserError(journal.OTHER_VERSION)
    else:
        frontend, inputs = wire.unpack(session.state['front_end'])
    for record in session.records:
        for topic, kind, received_ns, data in record.body:
            route = inputs.match(topic, kind)
            if route is not None:
                frontend.feed(route, data, received_ns, deserialise)
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
