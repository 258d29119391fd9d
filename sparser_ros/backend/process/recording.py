"""The journal as the node uses it: a session begins or goes on, with front-end, increments and map
as they were when the node ended. What goes wrong with it is told, and never stops the node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...config import SparserError
from ...config.option import flat
from ...config.sparser import SparserConfig
from ...frontend import Frontend, Inputs, Route, state
from ...graph import Increment
from ...graph.finding import Finding
from ..session.thinning import possible, thinned
from ..session.treatment import Rulings
from . import journal_records as records
from . import wire
from .journal import Files, Journal
from .journal_records import KeptSession, Message
from .worker import NO_RULINGS, KeptMap

Deserialise = Callable[[str, bytes], Any]
NOT_INPUT = ('node', 'backend', 'solver')
"""Sections of the configuration that the front-end does not read."""
LOADED = 'radios_loaded'
"""Set in the begin of a session whose radios are not those of the parameters, but of a map."""


class Recording:
    """Begins or goes on with a session; without a folder nothing is kept."""

    def __init__(self, config: SparserConfig, folder: Path | None,
                 deserialise: Deserialise) -> None:
        self._config = config
        self._journal: Journal | None = None
        self._problem = ''
        self._kept: KeptMap | None = None
        self.resumed = fresh(config)
        self._files = Files(folder, config.node.journal.max_mb) if folder is not None else None
        if self._files is not None:
            self._start(self._files, deserialise)
        self._archived = max(
            (increment.sequence for increment in self.resumed.increments), default=-1)
        self.words = self._words()
        self._thinnings = self.resumed.frontend.thinnings
        """How often the graph was thinned at the last checkpoint."""

    def _start(self, files: Files, deserialise: Deserialise) -> None:
        try:
            files.open()
            if self._config.node.journal.resume:
                try:
                    self.resumed = resume(files, self._config, deserialise)
                except SparserError as error:
                    # What is there stays as it is.
                    self._problem = f'not resumed, a new map begins: {error}'
            self._journal = open_journal(files, self._config, self.resumed)
        except (OSError, SparserError) as error:
            self._problem = f'{self._problem}; {error}' if self._problem else str(error)

    def release(self) -> None:
        """What was resumed belongs to whoever goes on with it, and is not held here."""
        self.resumed = replace(self.resumed, increments=[], kept=None)

    @property
    def inputs(self) -> Inputs:
        """The routes, with what their adapters remember."""
        return self.resumed.inputs

    def _words(self) -> str:
        """Which session it is, for the log; '' = nothing was to be resumed."""
        if self._files is None or not self._config.node.journal.resume:
            return ''
        resumed = self.resumed
        session = resumed.session
        if session is None:
            return f'nothing to resume in {self._files.directory}: a new map begins'
        keyframes = sum(len(increment.poses) for increment in resumed.increments)
        return (f'session {session.number} of {self._files.directory} goes on: '
                f'{session.messages} messages, {keyframes} keyframes')

    @property
    def path(self) -> str:
        """Of the file being written; '' = none."""
        return '' if self._journal is None else self._journal.path

    def message(self, route: Route, data: bytes, received_ns: int) -> None:
        """Keep a message that the front-end is about to take in."""
        if self._journal is not None:
            self._journal.message(Message(route.topic, route.type, received_ns, data))

    def take(self, flush: bool) -> int:
        """The front-end makes keyframes; number of the record that must be on disk for them."""
        return -1 if self._journal is None else self._journal.take(flush)

    def safe(self, number: int) -> bool:
        """Whether a record is on disk, or never will be."""
        return self._journal is None or self._journal.durable >= number

    def checkpoint(self, frontend: Frontend, increments: Sequence[Increment]) -> None:
        """Where the file is full: begin another, with the state right after `take`."""
        journal = self._journal
        if journal is None or not journal.due:
            return
        newest = increments[-1].sequence if increments else -1
        anew = frontend.thinnings != self._thinnings
        journal.checkpoint(
            state_record(frontend, self.inputs, newest, journal.topics),
            [increment for increment in increments
             if anew or increment.sequence > self._archived], anew=anew)
        self._archived, self._thinnings = newest, frontend.thinnings

    def keep_map(self, kept: KeptMap | None) -> None:
        """Write the newest verdict, if it is another."""
        if self._journal is None or kept is None or (
                self._kept is not None and kept.message is self._kept.message):
            return
        self._kept = kept
        self._journal.keep_map(kept)

    def rule(self, rulings: Rulings) -> int:
        """Keep what the operator says; number of the record that must be on disk for it."""
        return -1 if self._journal is None else self._journal.rule(rulings.values())

    def restart(
        self, config: SparserConfig, positions: dict[str, list[float]] | None, rulings: Rulings,
        frontend: Frontend,
    ) -> None:
        """All data are forgotten; the front-end begins with this configuration."""
        self._archived, self._thinnings, self._kept = -1, 0, None
        if self._journal is not None:
            begin = begin_values(config, positions, rulings, frontend.frames.values())
            loaded = config.radios != self._config.radios
            self._journal.restart({**begin, LOADED: loaded})

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with the journal, and what it could not give back."""
        findings = [Finding('journal_lost', 'journal', text) for text in self.resumed.notes]
        problem = self._problem or (self._journal.problem if self._journal is not None else '')
        if problem:
            anew = '' if self.resumed.session is None else (
                '; the map goes on from what it holds, nothing new is kept')
            findings.insert(0, Finding(
                'journal_failed', 'journal',
                f'the journal is not written, a crash would lose data: {problem}{anew}'
                if self._journal is None or not self._problem else problem))
        return findings

    def close(self) -> None:
        """Write what waits, and let go of the folder."""
        if self._journal is not None:
            self._journal.close()
        if self._files is not None:
            self._files.close()


@dataclass(frozen=True)
class Resumed:
    """Where a session went on, or began."""

    frontend: Frontend
    inputs: Inputs
    increments: list[Increment] = field(default_factory=list)
    kept: KeptMap | None = None
    rulings: Rulings = NO_RULINGS
    """What the operator has said about measurements."""
    archived: int = -1
    """Sequence of the newest increment in a `.graph` file."""
    session: KeptSession | None = None
    """Numbers and counts in the journal; None = a new one."""
    notes: tuple[str, ...] = ()
    """What an operator must know, in words."""
    begin: dict[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """How many the session has taken in."""
        return 0 if self.session is None else self.session.messages


def fresh(config: SparserConfig) -> Resumed:
    """A session that begins."""
    return Resumed(Frontend(config), Inputs(config), begin=begin_values(config))


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
        frontend.frames.restore(session.begin.get('frames', ()))
        if session.begin['positions']:
            frontend.reset(keep_beacons=True, positions=session.begin['positions'])
    else:
        if session.state['version'] != state.fingerprint():
            raise SparserError('the journal was written by another version of this package')
        frontend, inputs = state.unpack(session.front_end)
    archived = -1 if session.state is None else session.state['sequence']
    increments, kept = list(session.increments), session.kept
    thinnings = frontend.thinnings
    for record in session.records:
        new = _replayed(record, frontend, inputs, deserialise)
        increments += new
        if new:
            increments, kept = _thinned(increments, frontend, kept)
    if frontend.thinnings != thinnings:
        archived = -1
    newest = increments[-1].sequence if increments else -1
    if kept is not None and (
            kept.verdict.sequence > newest or session.losses
            or kept.thinnings != frontend.thinnings):
        kept = None  # it speaks of measurements that are not there, or numbers others
    # What was read is in the front-end and the increments, and would take their memory again.
    session = replace(session, front_end=b'', increments=[], records=[], kept=None)
    return Resumed(frontend, inputs, increments, kept, Rulings.from_values(session.rulings),
                   archived, session, tuple(notes), {**session.begin, 'rulings': session.rulings})


def _replayed(record: records.Record, frontend: Frontend, inputs: Inputs,
              deserialise: Deserialise) -> list[Increment]:
    for message in records.unpack_messages(record.body):
        route = inputs.match(message.topic, message.type)
        if route is not None:
            frontend.feed_bytes(route, message.data, message.received_ns, deserialise)
    if record.take == records.NO_TAKE:
        return []
    increment = frontend.take(flush=record.take == records.FLUSH)
    return [] if increment is None else [increment]


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


def state_record(frontend: Frontend, inputs: Inputs, sequence: int,
                 topics: Mapping[str, int]) -> bytes:
    """The body of a checkpoint after increment `sequence` and so many messages of each topic."""
    values = {
        'version': state.fingerprint(), 'sequence': sequence, 'topics': dict(topics)}
    return records.join_state(values, state.pack(frontend, inputs))


def open_journal(files: Files, config: SparserConfig, resumed: Resumed) -> Journal:
    """The journal to go on with; one that resumes begins with the state that was reached."""
    journal = Journal(files, config.node.journal, resumed.begin, resumed.session)
    if resumed.session is None:
        return journal
    newest = resumed.increments[-1].sequence if resumed.increments else -1
    journal.checkpoint(
        state_record(resumed.frontend, resumed.inputs, newest, journal.topics),
        [increment for increment in resumed.increments if increment.sequence > resumed.archived],
        anew=resumed.archived < 0 < resumed.frontend.thinnings)
    return journal


def _changed(before: SparserConfig, now: SparserConfig, but: tuple[str, ...]) -> str:
    """Names of parameters that differ, with both values, but those that begin with `but`."""
    old, new = dict(flat(asdict(before))), dict(flat(asdict(now)))
    return ', '.join(
        f'{name} = {old.get(name)!r} (now {new.get(name)!r})' for name in sorted({*old, *new})
        if old.get(name) != new.get(name) and not name.startswith(but))
