"""Everything the node takes in, on disk before it counts: a session begins or goes on.

What is kept are the messages as they came, and when the front-end made keyframes of them: the
front-end is deterministic, so the same messages give the same state. Now and then a file begins
with that state and all increments. What goes wrong with the journal is told, and never stops the
node.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...config import SparserError
from ...config.option import flat
from ...config.sparser import SparserConfig
from ...frontend import Frontend, Inputs, Route, state
from ...graph import Increment
from ...graph.finding import Finding
from ..session.graph_store import merged, possible, thinned
from ..session.treatment import Rulings
from . import journal_records as records
from . import wire
from .journal import Files, Part, Writer
from .journal_records import Message, Record
from .worker import NO_RULINGS, KeptMap

Deserialise = Callable[[str, bytes], Any]
NOT_INPUT = ('node', 'backend', 'solver')
"""Sections of the configuration that the front-end does not read."""
LOADED = 'radios_loaded'
"""Set in the begin of a session whose radios are not those of the parameters, but of a map."""
MERGED = 64
"""So many increments become one record."""


@dataclass
class Resumed:
    """Where a session went on, or began."""

    frontend: Frontend
    inputs: Inputs
    begin: dict[str, Any]
    """How the session began: the configuration, and beacons known from before."""
    increments: list[Increment] = field(default_factory=list)
    kept: KeptMap | None = None
    rulings: Rulings = NO_RULINGS
    """What the operator has said about measurements."""
    notes: tuple[str, ...] = ()
    """What an operator must know, in words."""
    session: int = -1
    """Its number in the journal; -1 = a new one."""
    next_number: int = 0
    """Of its next record."""
    messages: int = 0
    """How many the session has taken in."""
    topics: Counter[str] = field(default_factory=Counter)
    """Of each topic."""


class Recording:
    """The journal of the node; all methods belong to one thread, and none waits for the disk."""

    def __init__(self, config: SparserConfig, folder: Path | None,
                 deserialise: Deserialise) -> None:
        """Begin or go on with a session; without a folder nothing is kept."""
        self._config = config
        self._problem = ''
        self._kept: KeptMap | None = None
        self._pending: list[Message] = []
        self._bytes = 0
        """Of messages in the file being written."""
        self.resumed = fresh(config)
        self._files = None if folder is None else Files(folder, config.node.journal.max_mb)
        self._writer: Writer | None = None
        if self._files is not None:
            self._start(self._files, deserialise)
        self.words = self._words()

    def _start(self, files: Files, deserialise: Deserialise) -> None:
        options = self._config.node.journal
        try:
            files.open()
            if options.resume:
                try:
                    self.resumed = resume(files, self._config, deserialise)
                except SparserError as error:
                    # What is there stays as it is.
                    self._problem = f'not resumed, a new map begins: {error}'
            resumed = self.resumed
            self._begin, self._number = resumed.begin, resumed.next_number
            self._topics, self._before = resumed.topics, resumed.messages
            self._session = files.new_session() if resumed.session < 0 else resumed.session
            self._writer = Writer(files, options.sync_period_s)
            if resumed.session < 0:
                self._open()
            else:
                self._open_with_state(resumed.frontend, resumed.increments)
        except (OSError, SparserError) as error:
            self._problem = f'{self._problem}; {error}' if self._problem else str(error)

    def release(self) -> None:
        """What was resumed belongs to whoever goes on with it, and is not held here."""
        self.resumed.increments, self.resumed.kept = [], None

    @property
    def inputs(self) -> Inputs:
        """The routes, with what their adapters remember."""
        return self.resumed.inputs

    def _words(self) -> str:
        """Which session it is, for the log; '' = nothing was to be resumed."""
        resumed = self.resumed
        if self._files is None or not self._config.node.journal.resume:
            return ''
        if resumed.session < 0:
            return f'nothing to resume in {self._files.directory}: a new map begins'
        keyframes = sum(len(increment.poses) for increment in resumed.increments)
        return (f'session {resumed.session} of {self._files.directory} goes on: '
                f'{resumed.messages} messages, {keyframes} keyframes')

    @property
    def path(self) -> str:
        """Of the file being written; '' = none."""
        return '' if self._writer is None else self._writer.path

    def message(self, route: Route, data: bytes, received_ns: int) -> None:
        """Keep a message that the front-end is about to take in, for the next `take`."""
        if self._writer is not None:
            self._topics[route.topic] += 1
            self._pending.append(Message(route.topic, route.type, received_ns, data))

    def take(self, flush: bool) -> int:
        """The front-end makes keyframes; number of the record that must be on disk for them."""
        if self._writer is None:
            return -1
        if not self._pending and not flush:
            return self._number - 1
        return self._write_messages(records.FLUSH if flush else records.TAKE)

    def safe(self, number: int) -> bool:
        """Whether a record is on disk, or cannot be now."""
        writer = self._writer
        return writer is None or bool(writer.problem) or writer.durable >= number

    def checkpoint(self, frontend: Frontend, increments: Sequence[Increment]) -> None:
        """Where the file is full: begin another, with the state right after `take`.

        `increments` are all of them; the first may stand for several.
        """
        if self._writer is not None and self._bytes > self._config.node.journal.segment_mb * 1e6:
            self._open_with_state(frontend, increments)

    def keep_map(self, kept: KeptMap | None) -> None:
        """Write the newest verdict in place of the one before, if it is another."""
        if self._writer is None or kept is None or (
                self._kept is not None and kept.message is self._kept.message):
            return
        self._kept = kept
        record = Record(records.MAP, kept.thinnings, kept.epoch, 0, 0, 0, kept.message)
        files, session = self._writer.files, self._session
        self._writer.inbox.put(lambda: files.write_map(session, records.pack(record)))

    def rule(self, rulings: Rulings) -> int:
        """Keep what the operator says; number of the record that must be on disk for it."""
        if self._writer is None:
            return -1
        said = {'rulings': rulings.values()}
        self._begin = {**self._begin, **said}
        # Twice: it may be the last record of all, and speaks for every measurement.
        return self._write(records.RULINGS, json.dumps(said).encode(), copies=2)

    def restart(
        self, config: SparserConfig, positions: dict[str, list[float]] | None, rulings: Rulings,
        frontend: Frontend,
    ) -> None:
        """All data are forgotten; the front-end begins another session with this configuration."""
        self._kept = None
        if self._writer is None:
            return
        if self._pending:
            self._write_messages(records.NO_TAKE)
        self._topics.clear()
        self._begin = {
            **begin_values(config, positions, rulings, frontend.frames.values()),
            LOADED: config.radios != self._config.radios}
        self._session, self._before = self._writer.files.new_session(self._session), 0
        self._open()

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the journal, and what it could not give back."""
        findings = [Finding('journal_lost', 'journal', text) for text in self.resumed.notes]
        problem = self._problem or ('' if self._writer is None else self._writer.problem)
        if problem and (self._writer is None or not self._problem):
            goes_on = '' if self.resumed.session < 0 else (
                '; the map goes on from what it holds, nothing new is kept')
            problem = f'the journal is not written, a crash would lose data: {problem}{goes_on}'
        if problem:
            findings.insert(0, Finding('journal_failed', 'journal', problem))
        return findings

    def close(self) -> None:
        """Write what waits, end the thread, and let go of the folder."""
        if self._writer is not None:
            if self._pending:
                self._write_messages(records.NO_TAKE)
            self._writer.inbox.put(None)
            self._writer.join(10.0)
        if self._files is not None:
            self._files.close()

    # -- records

    def _open(self) -> None:
        """Begin a new file."""
        self._bytes = 0
        # Twice: without its configuration a session could not be read.
        self._write(records.BEGIN, json.dumps(self._begin).encode(), copies=2,
                    session=self._session)

    def _open_with_state(self, frontend: Frontend, increments: Sequence[Increment]) -> None:
        assert self._writer is not None
        self._open()
        before = -1
        for begin in range(0, len(increments), MERGED):
            chunk = list(increments[begin:begin + MERGED])
            self._writer.inbox.put(Part(self._number, partial(
                _graph_record, self._number, self._before, chunk, before + 1)))
            self._number += 1
            before = chunk[-1].sequence
        self._write(records.STATE, records.pack_state(
            state.pack(frontend, self.inputs), version=state.fingerprint(), sequence=before,
            topics=dict(self._topics)), checkpoint=True)

    def _write_messages(self, take: int) -> int:
        pending, self._pending = self._pending, []
        body = records.pack_messages(pending)
        self._bytes += len(body)
        return self._write(records.MESSAGES, body, pending, take)

    def _write(self, kind: int, body: bytes, messages: Sequence[Message] = (),
               take: int = records.NO_TAKE, copies: int = 1, **options: Any) -> int:
        assert self._writer is not None
        first, last = (messages[k].received_ns if messages else 0 for k in (0, -1))
        record = Record(kind, self._number, self._before, len(messages), first, last, body, take)
        self._number += 1
        self._before += len(messages)
        self._writer.inbox.put(Part(record.number, copies * records.pack(record), **options))
        return record.number


def _graph_record(number: int, before: int, increments: list[Increment], first: int) -> bytes:
    """A record of increments; `first` is the sequence of the first that they stand for."""
    return records.pack(Record(
        records.GRAPH, number, before, 0, 0, 0,
        wire.increment_message(merged(increments), first=first)))


def fresh(config: SparserConfig) -> Resumed:
    """A session that begins."""
    return Resumed(Frontend(config), Inputs(config), begin_values(config))


def begin_values(
    config: SparserConfig, positions: dict[str, list[float]] | None = None,
    rulings: Rulings = NO_RULINGS, frames: Sequence[Sequence[object]] = (),
) -> dict[str, Any]:
    """How a session begins: a configuration, and perhaps beacons, rulings and constant transforms
    from before."""
    return {'config': asdict(config), 'positions': positions or {}, 'rulings': rulings.values(),
            'frames': list(frames)}


def resume(files: Files, config: SparserConfig, deserialise: Deserialise) -> Resumed:
    """Go on with the newest session, or begin one where there is none to go on with."""
    session = records.newest(files.sessions())
    if session is None:
        return fresh(config)
    before = wire.config_from(json.dumps(session.begin['config']))
    if (before.robots, before.dimension) != (config.robots, config.dimension):
        raise SparserError(
            f'the journal holds robots {", ".join(before.robots)} in {before.dimension}D, the '
            f'parameters say {", ".join(config.robots)} in {config.dimension}D')
    notes = [f'lost from the journal: {text}' for text in session.losses]
    changed = _changed(before, config, (
        *NOT_INPUT, 'radios.') if session.begin.get(LOADED) else NOT_INPUT)
    if changed:
        notes.append(f'the session goes on with the values with which it began: {changed}')
    if session.state is None:
        frontend, inputs = Frontend(before), Inputs(before)
        frontend.frames.restore(session.begin['frames'])
        if session.begin['positions']:
            frontend.reset(keep_beacons=True, positions=session.begin['positions'])
    else:
        if session.state['version'] != state.fingerprint():
            raise SparserError('the journal was written by another version of this package')
        frontend, inputs = state.unpack(session.front_end)
    increments, kept = session.increments, session.kept
    for record in session.records:
        new = _replayed(record, frontend, inputs, deserialise)
        if new is not None:
            increments.append(new)
            increments, kept = _thinned(increments, frontend, kept)
    newest = increments[-1].sequence if increments else -1
    if kept is not None and (
            kept.verdict.sequence > newest or session.losses
            or kept.thinnings != frontend.thinnings):
        kept = None  # it speaks of measurements that are not there, or numbers others
    return Resumed(
        frontend, inputs, session.begin, increments, kept,
        Rulings.from_values(session.begin['rulings']), tuple(notes), session.number,
        session.next_number, session.messages, session.topics)


def _replayed(record: Record, frontend: Frontend, inputs: Inputs,
              deserialise: Deserialise) -> Increment | None:
    for message in records.unpack_messages(record.body):
        route = inputs.match(message.topic, message.type)
        if route is not None:
            frontend.feed_bytes(route, message.data, message.received_ns, deserialise)
    if record.take == records.NO_TAKE:
        return None
    return frontend.take(flush=record.take == records.FLUSH)


def _thinned(
    increments: list[Increment], frontend: Frontend, kept: KeptMap | None
) -> tuple[list[Increment], KeptMap | None]:
    """The increments after a thinning, where one was due then; and the map in their numbering."""
    quarantined = () if kept is None else kept.verdict.treatment.quarantined
    drop = frontend.thin() if possible(quarantined) else None
    if drop is None:
        return increments, kept
    step = thinned(increments, drop, frontend.config.keyframes.thinned_per_pair, quarantined)
    if kept is not None and kept.thinnings == frontend.thinnings - 1:
        kept = kept.thinned(step)
    return [step.increment], kept


def _changed(before: SparserConfig, now: SparserConfig, but: tuple[str, ...]) -> str:
    """Names of parameters that differ, with both values, but those that begin with `but`."""
    old, new = dict(flat(asdict(before))), dict(flat(asdict(now)))
    return ', '.join(
        f'{name} = {old.get(name)!r} (now {new.get(name)!r})' for name in sorted({*old, *new})
        if old.get(name) != new.get(name) and not name.startswith(but))
